"""cuBLAS workspaces: sizes, owners, and when they are freed."""

import threading

import pytest
import torch
from torch.nn import functional

import cudalens.virtual
from cudalens.device import gpu_trace
from cudalens.virtual.dispatch import workspaces
from cudalens.virtual.dispatch.workspaces import (
    KIB,
    LARGE_BYTES,
    LT_BYTES,
    SMALL_BYTES,
    blas_bytes,
    blas_default_bytes,
    lt_bytes,
)

CONFIGS = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
    "DISABLE_ADDMM_CUDA_LT",
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in CONFIGS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def version(monkeypatch):
    """Which torch's defaults are modelled."""
    return lambda *numbers: monkeypatch.setattr(workspaces, "torch_version", lambda: numbers)


@pytest.fixture
def h100(version):
    version(2, 13)
    with cudalens.virtual.device("h100x2") as device:
        yield device


def matrix(where="cuda"):
    return torch.ones(8, 8, device=where)


def held(device=0):
    """Allocated bytes while no tensor is alive."""
    return torch.cuda.memory_allocated(device)


@pytest.mark.parametrize(
    ("capability", "torch_version", "expected"),
    [
        ((9, 0), (2, 9), LARGE_BYTES),
        ((9, 0), (2, 13), LARGE_BYTES),
        ((8, 0), (2, 9), SMALL_BYTES),
        ((8, 9), (2, 13), SMALL_BYTES),
        ((10, 0), (2, 11), SMALL_BYTES),
        ((10, 0), (2, 12), LARGE_BYTES),
        ((12, 0), (2, 12), LARGE_BYTES),
        ((7, 0), (2, 12), SMALL_BYTES),
    ],
)
def test_defaults_by_architecture_and_version(capability, torch_version, expected):
    assert blas_default_bytes(capability, torch_version) == expected
    assert (LARGE_BYTES, SMALL_BYTES) == (33554432, 8519680)


def test_the_environment_states_how_much():
    assert blas_bytes(None, 7) == 7
    assert blas_bytes(":4096:8", 7) == 4096 * 8 * KIB
    assert blas_bytes(":4096:2:16:8", 7) == SMALL_BYTES
    assert blas_bytes(":0:0", 7) == 0
    with pytest.warns(UserWarning, match=r"Could not parse CUBLAS_WORKSPACE_CONFIG.* of 7 bytes"):
        assert blas_bytes("4096", 7) == 7
    assert lt_bytes(None, 7) == 7
    assert lt_bytes("2048", 7) == 2048 * KIB
    with pytest.warns(UserWarning, match=r"invalid CUBLASLT_WORKSPACE_SIZE.* of 1024 KiB"):
        assert lt_bytes("much", LT_BYTES) == LT_BYTES


def test_the_first_product_takes_one_and_the_second_none(h100):
    fired = []
    with gpu_trace.subscribe(fired.append):
        out = matrix() @ matrix()
    *_, out_at, scratch_at = (r.address for r in fired if isinstance(r, gpu_trace.MemoryAllocated))
    assert (
        len([r for r in fired if isinstance(r, gpu_trace.MemoryAllocated)]) == 4
    )  # matrices, the result, the workspace
    assert out_at == out.data_ptr() != scratch_at
    del out
    assert held() == LARGE_BYTES
    matrix() @ matrix()
    assert held() == LARGE_BYTES


def test_every_family_of_products_shares_it(h100):
    m, v = matrix(), torch.ones(8, device="cuda")
    batch = torch.ones(2, 8, 8, device="cuda")
    before = held()
    for product in (
        lambda: m @ m,
        lambda: m @ v,
        lambda: v @ v,
        lambda: torch.bmm(batch, batch),
        lambda: torch.baddbmm(batch, batch, batch),
        lambda: torch.addmm(m, m, m),
        lambda: torch.addmv(v, m, v),
        lambda: functional.linear(m, m, v),
        lambda: torch.vdot(v, v),
        lambda: torch.einsum("bij,bjk->bik", batch, batch),
    ):
        torch._C._cuda_clearCublasWorkspaces()
        assert held() == before
        product()
        assert held() == before + LARGE_BYTES


def test_other_operators_take_none(h100):
    x = matrix()
    before = held()
    torch.softmax(x, 0).sum().add(1).sqrt()
    x[:0] @ x
    torch.ones(4, 0, device="cuda") @ torch.ones(0, 4, device="cuda")
    assert held() == before


def test_each_stream_and_each_device_has_its_own(h100):
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    for stream in (first, second, first, torch.cuda.current_stream()):
        with torch.cuda.stream(stream):
            matrix() @ matrix()
    assert held() == 3 * LARGE_BYTES
    assert held(1) == 0
    matrix("cuda:1") @ matrix("cuda:1")
    assert (held(), held(1)) == (3 * LARGE_BYTES, LARGE_BYTES)


def test_backward_runs_on_another_thread_with_a_handle_of_its_own(h100):
    weight = matrix().requires_grad_()
    (matrix() @ weight).sum().backward()
    weight.grad = None
    before = torch.cuda.memory_allocated() - weight.nbytes
    (matrix() @ weight).sum().backward()
    weight.grad = None
    assert before >= 2 * LARGE_BYTES
    del weight
    assert held() == 2 * LARGE_BYTES


def test_a_threads_handle_goes_to_the_next_thread(h100):
    def product():
        h100.gpus.workspaces.use(h100.gpus.devices[0], "aten::mm", (), None)

    for _ in range(3):
        run(product)
    assert held() == LARGE_BYTES
    matrix() @ matrix()  # of this thread, which took the free handle
    assert held() == LARGE_BYTES
    run(product)
    assert held() == 2 * LARGE_BYTES


def run(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_cleared_they_are_free_for_others(h100):
    matrix() @ matrix()
    reserved = torch.cuda.memory_reserved()
    torch._C._cuda_clearCublasWorkspaces()
    assert held() == 0
    assert torch.cuda.memory_reserved() == reserved
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    matrix() @ matrix()
    assert held() == LARGE_BYTES


def linear():
    functional.linear(matrix(), matrix(), torch.ones(8, device="cuda"))


def test_before_2_12_a_linear_layer_took_a_second_one_for_cublaslt(version):
    version(2, 10)
    with cudalens.virtual.device("a100"):
        matrix() @ matrix()
        assert held() == SMALL_BYTES
        linear()
        linear()
        assert held() == SMALL_BYTES + LT_BYTES


@pytest.mark.parametrize(
    "layer",
    [
        lambda: functional.linear(matrix(), matrix()),  # no bias
        lambda: functional.linear(torch.ones(1, 8, device="cuda"), matrix(), torch.ones(8, device="cuda")),  # one row
        lambda: torch.addmm(matrix(), matrix(), matrix()),  # two dimensions
        lambda: torch.addmm(torch.ones(16, device="cuda")[::2], matrix(), matrix()),  # not contiguous
    ],
)
def test_cublaslt_is_only_for_what_it_can_do(version, layer):
    version(2, 10)
    with cudalens.virtual.device("a100"):
        layer()
        assert held() == SMALL_BYTES


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "1"}, SMALL_BYTES),
        ({"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, SMALL_BYTES + LT_BYTES),
        ({"CUBLASLT_WORKSPACE_SIZE": "2048"}, SMALL_BYTES + 2048 * KIB),
        ({"CUBLASLT_WORKSPACE_SIZE": "99999"}, SMALL_BYTES + SMALL_BYTES),  # bounded by cuBLAS's
        ({"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, 128 * KIB + 128 * KIB),
        ({"CUBLAS_WORKSPACE_CONFIG": ":0:0"}, 0),
        ({"DISABLE_ADDMM_CUDA_LT": "1"}, SMALL_BYTES),
    ],
)
def test_the_environments_state(version, monkeypatch, settings, expected):
    version(2, 11)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with cudalens.virtual.device("a100"):
        linear()
        assert held() == expected


def test_since_2_12_the_environment_may_part_them_again(version, monkeypatch):
    version(2, 12)
    monkeypatch.setenv("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0")
    with cudalens.virtual.device("a100"):
        linear()
        assert held() == SMALL_BYTES + LT_BYTES


@pytest.mark.skipif(not hasattr(torch.backends.cuda, "cublas_workspace_size"), reason="this torch has no such setting")
def test_the_size_can_be_read_and_changed(h100):
    sizes = torch.backends.cuda
    assert sizes.cublas_workspace_size() == LARGE_BYTES
    assert sizes.cublaslt_workspace_size() == LT_BYTES
    matrix() @ matrix()
    assert sizes.cublas_workspace_size(4 * LT_BYTES) == 4 * LT_BYTES
    matrix() @ matrix()
    assert held() == LARGE_BYTES  # a large enough one is kept
    torch._C._cuda_clearCublasWorkspaces()
    matrix() @ matrix()
    assert held() == 4 * LT_BYTES
    sizes.cublas_workspace_size(2 * LARGE_BYTES)
    matrix() @ matrix()
    assert held() == 2 * LARGE_BYTES  # a smaller one is replaced
    torch._C._cuda_resetCublasWorkspaceSize()
    assert sizes.cublas_workspace_size() == LARGE_BYTES
    assert sizes.cublaslt_workspace_size(2 * LARGE_BYTES) == LARGE_BYTES
    torch._C._cuda_resetCublasLtWorkspaceSize()
    assert sizes.cublaslt_workspace_size() == LT_BYTES


def test_one_that_does_not_fit_is_out_of_memory(version):
    version(2, 13)
    small = cudalens.virtual.SPECS["h100"].replace(total_memory_bytes=600 << 20, context_bytes=580 << 20)
    with cudalens.virtual.device(small), pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 32\.00 MiB"):
        matrix() @ matrix()


def test_a_capture_takes_it_from_the_graphs_pool(h100):
    x, graph = matrix(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x @ x
    private = [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0)]
    assert sum(block["size"] == LARGE_BYTES for s in private for block in s["blocks"]) == 1
    del y


@pytest.mark.parametrize(("torch_version", "left"), [((2, 11), 1), ((2, 12), 0)])
def test_since_2_12_the_end_of_a_graph_frees_those_of_its_stream(version, torch_version, left):
    version(*torch_version)
    with cudalens.virtual.device("h100"):
        x, graph = matrix(), torch.cuda.CUDAGraph()
        x @ x  # on the default stream, which is not the graph's
        with torch.cuda.graph(graph):
            y = x @ x
        del y
        assert held() // LARGE_BYTES == 2
        graph.reset()
        assert held() // LARGE_BYTES == 1 + left


def test_nothing_is_kept_when_the_device_ends(version):
    with cudalens.virtual.device("h100"):
        matrix() @ matrix()
    with cudalens.virtual.device("h100"):
        assert held() == 0
    assert matrix("cpu").device.type == "cpu"


def test_the_environment_is_read_at_each_workspace(h100, monkeypatch):
    for config, num_bytes in ((":128:8", 1024 * KIB), (":64:16:32:32", 2048 * KIB), ("", LARGE_BYTES)):
        torch._C._cuda_clearCublasWorkspaces()
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", config) if config else monkeypatch.delenv(
            "CUBLAS_WORKSPACE_CONFIG"
        )
        matrix() @ matrix()
        assert held() == num_bytes
