"""Devices, their properties and the state of torch.cuda on a virtual device."""

from __future__ import annotations

import contextlib
import os
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import SPECS, device
from cudalens.virtual.specs.properties import device_uuid, visible_ordinals

STUB = [
    *("name", "major", "minor", "multi_processor_count", "total_memory", "is_integrated", "is_multi_gpu_board"),
    *("max_threads_per_multi_processor", "gcnArchName", "warp_size", "uuid", "L2_cache_size", "clock_rate"),
    *("memory_clock_rate", "memory_bus_width", "shared_memory_per_block", "shared_memory_per_multiprocessor"),
    *("regs_per_multiprocessor", "shared_memory_per_block_optin"),
]


@pytest.fixture
def h100s():
    with device("h100x4") as virtual:
        yield virtual.gpus


# -- which devices there are -------------------------------------------------------------------------------------------


def test_a_build_for_cuda_keeps_its_version(monkeypatch):
    """Libraries such as torchvision refuse to be imported if it is not the version that they were built for."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with device("h100"):
        assert torch.version.cuda == "13.0"
        assert torch._C._cuda_getCompiledVersion() == 13_000
    assert torch.version.cuda == "13.0"


def test_cuda_is_available_only_inside():
    build = torch.version.cuda
    assert not torch.cuda.is_available()
    with device("h100"):
        assert torch.cuda.is_available()
        assert torch.backends.cuda.is_built()
        assert torch.version.cuda == (build or SPECS["h100"].cuda_version)
        assert torch.cuda.device_count() == 1
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert not torch.cuda.is_initialized()


def test_visible_devices_hide_and_reorder(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with device("h100x4"):
        assert torch.cuda.device_count() == 2
        torch.cuda.init()
        assert torch.cuda.device_count() == 2
        assert [str(torch.cuda.get_device_properties(i).uuid) for i in (0, 1)] == [
            str(device_uuid("h100", ordinal)) for ordinal in (1, 0)
        ]


def test_visible_devices_are_read_when_the_device_starts(monkeypatch):
    with device("h100x4"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
        assert torch.cuda.device_count() == 4
        assert torch.cuda.utilization(3) == 0


@contextlib.contextmanager
def virtual_exit(virtual):
    try:
        yield
    finally:
        virtual.disable()


def test_no_visible_device(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.warns(UserWarning, match="CUDA_VISIBLE_DEVICES='' hides every GPU of the virtual h100") as caught:
        virtual = device("h100").__enter__()
    assert caught[0].filename == __file__
    with virtual_exit(virtual):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        assert torch.ones(3).sum().item() == 3
        for needs_gpu in (
            torch.cuda.current_device,
            torch.cuda.synchronize,
            torch.cuda.Stream,
            torch.Stream,
            lambda: torch.empty(3, device="cuda"),
            lambda: torch.empty(3, device="cuda:0"),
            lambda: torch.ones(3).cuda(),
            lambda: torch.nn.Linear(2, 2).cuda(),
            lambda: torch.cuda.Event().record(),
            lambda: torch.Generator("cuda"),
        ):
            with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
                needs_gpu()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("0,1,2,3", [0, 1, 2, 3]),
        ("3, 1", [3, 1]),
        ("1gpu2,2ampere", [1, 2]),
        ("0,7,1", [0]),
        ("-1", []),
        ("0,-1,1", [0]),
        ("0,0", []),
        ("none", []),
        ("", []),
        ("GPU-", []),
        ("GPU-nothing", []),
        ("MIG-1", []),
    ],
)
def test_the_drivers_rules_of_visible_devices(text, expected):
    environment = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
    assert visible_ordinals("h100", 4, environment) == expected


def test_devices_are_named_by_the_beginning_of_their_uuid():
    uuids = [f"GPU-{device_uuid('h100', ordinal)}" for ordinal in range(4)]
    environment = {"CUDA_VISIBLE_DEVICES": f"{uuids[2]},{uuids[0][:12]},elsewhere,{uuids[1]}"}
    assert visible_ordinals("h100", 4, environment) == [2, 0]


@given(st.lists(st.integers(-1, 6), max_size=6), st.integers(1, 5))
def test_visible_devices_agree_with_torchs_reading(entries, num_devices):
    text = ",".join(map(str, entries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", text)
        numbers = torch.cuda._parse_visible_devices()
    kept = next((i for i, number in enumerate(numbers) if number >= num_devices), len(numbers))
    ours = visible_ordinals("h100", num_devices, {"CUDA_VISIBLE_DEVICES": text})
    # torch checks for duplicates before the number of devices; the driver stops at unknown entries.
    assert ours == numbers[:kept] or len(set(entries)) < len(entries)


# -- the current device ------------------------------------------------------------------------------------------------


def test_the_current_device_can_be_set(h100s):
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device("cuda:2")
    assert torch.cuda.current_device() == 2
    torch.cuda.set_device(-1)
    assert torch.cuda.current_device() == 2
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        with torch.cuda.device(None), torch.cuda.device(-1):
            assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 2


def test_device_of_a_tensor(h100s):
    tensor = torch.ones(2, device="cuda:3")
    with torch.cuda.device_of(tensor):
        assert torch.cuda.current_device() == 3
    with torch.cuda.device_of(torch.ones(2)):
        assert torch.cuda.current_device() == 0


@pytest.mark.parametrize(
    "act",
    [
        lambda: torch.cuda.set_device(9),
        lambda: torch.cuda.device(9).__enter__(),
        lambda: torch.cuda.Stream(device=9),
        lambda: torch.cuda.synchronize("cuda:9"),
        lambda: torch.cuda.mem_get_info(9),
        lambda: torch.ones(1, device="cuda:9"),
    ],
)
def test_a_missing_device(h100s, act):
    with pytest.raises(getattr(torch, "AcceleratorError", RuntimeError), match="CUDA error: invalid device ordinal"):
        act()
    assert torch.cuda.current_device() == 0


def test_a_missing_device_raises_the_message_of_each_function(h100s):
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(9)
    with pytest.raises(RuntimeError, match=r"Device index value 9 is out of index range \[0, 4\)"):
        torch.cuda.current_stream(9)
    with pytest.raises(RuntimeError, match="Invalid device argument 9: did you call init"):
        torch.cuda.reset_peak_memory_stats(9)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        torch.cuda.set_device("cpu")


# -- what a device is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", sorted(SPECS))
def test_properties_are_the_specs(key):
    spec = SPECS[key]
    with device(key):
        properties = torch.cuda.get_device_properties()
        assert torch.cuda.get_device_name() == properties.name == spec.name
        assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == spec.compute_capability
        assert properties.total_memory == spec.total_memory_bytes
        assert properties.multi_processor_count == spec.num_sms
        assert properties.L2_cache_size == spec.l2_cache_bytes
        assert properties.clock_rate == spec.clock_mhz * 1000
        assert properties.shared_memory_per_block_optin == spec.shared_memory_per_block_optin_bytes
        assert torch.cuda.is_bf16_supported(including_emulation=False) == (spec.compute_capability >= (8, 0))
        assert torch.cuda.is_bf16_supported()


def test_properties_have_the_fields_of_torchs_stub(h100s):
    properties = torch.cuda.get_device_properties(1)
    for name in STUB:
        assert getattr(properties, name) is not None
    assert len(properties.uuid.bytes) == 16
    assert repr(properties) == (
        "_CudaDeviceProperties(name='NVIDIA H100 80GB HBM3', major=9, minor=0, "
        f"total_memory={properties.total_memory // 2**20}MB, multi_processor_count=132, uuid={properties.uuid}, "
        "pci_bus_id=2, pci_device_id=0, pci_domain_id=0, L2_cache_size=50MB)"
    )
    assert properties.uuid != torch.cuda.get_device_properties(0).uuid
    assert properties.uuid == torch.cuda.get_device_properties("cuda:1").uuid
    with pytest.raises(AttributeError):
        properties.name = "another"


def test_peers(h100s):
    assert torch.cuda.can_device_access_peer(0, 1)
    assert not torch.cuda.can_device_access_peer(2, 2)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        torch.cuda.can_device_access_peer(0, 7)


def test_what_the_build_was_made_for(h100s):
    assert "sm_90" in torch.cuda.get_arch_list()
    assert "-gencode compute=compute_90,code=sm_90" in torch.cuda.get_gencode_flags()
    assert torch._C._cuda_getCompiledVersion() == 12080


# -- the state of torch.cuda -------------------------------------------------------------------------------------------


def test_torch_cuda_initialises_itself_lazily(h100s):
    assert not torch.cuda.is_initialized()
    torch.cuda.init()
    assert torch.cuda.is_initialized()


def test_the_first_tensor_initialises(h100s):
    torch.ones(3, device="cuda")
    assert torch.cuda.is_initialized()


def test_calls_queued_before_are_made_at_initialisation():
    torch.manual_seed(11)
    with device("h100"):
        torch.cuda.init()
        assert torch.cuda.initial_seed() == 11


def in_a_fork(question):
    """The answer of a forked process, as text."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(question())
        except BaseException as error:  # the child process must not return to the test
            answer = f"{type(error).__name__}: {error}"
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
@pytest.mark.parametrize("question", [lambda: torch.ones(2, device="cuda"), torch.cuda.current_device])
def test_cuda_cannot_be_used_in_a_fork_after_its_initialisation(h100s, question):
    assert not in_a_fork(question).startswith("RuntimeError")
    torch.cuda.init()
    assert in_a_fork(torch.cuda.is_initialized) == "False"
    assert in_a_fork(question).startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")
    assert not torch.cuda._is_in_bad_fork()


def test_no_device_is_too_old_for_the_build():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in SPECS:
            with device(key):
                torch.cuda.init()


def test_recurrent_layers_do_not_warn_of_a_missing_cudnn(h100s):
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() > 90000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = torch.nn.LSTM(3, 5).cuda()
        layer.flatten_parameters()
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, benchmark_limit=3):
        assert torch._C._cuda_get_cudnn_benchmark_limit() == 3
    assert torch._C._cuda_get_cudnn_benchmark_limit() == 10


def test_the_sync_debug_mode(h100s):
    assert torch.cuda.get_sync_debug_mode() == 0
    tensor = torch.ones(3, device="cuda")
    with pytest.warns(UserWarning, match="prototype feature"):
        torch.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        tensor.sum().item()
    torch.cuda.set_sync_debug_mode(2)
    assert torch.cuda.get_sync_debug_mode() == 2
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        tensor.nonzero()
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode(7)
    torch.cuda.set_sync_debug_mode("default")
    tensor.sum().item()


def test_the_sync_debug_mode_points_to_each_of_the_users_lines(h100s):
    tensor = torch.ones(3, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        torch.cuda.set_sync_debug_mode("warn")
        for _ in range(2):
            tensor.nonzero()
            bool(tensor.sum() > 1)
        torch.cuda.set_sync_debug_mode("default")
    places = [(w.filename, w.lineno) for w in caught if str(w.message).startswith("called a synchronizing")]
    assert [filename for filename, _ in places] == [__file__, __file__]
    assert places[1][1] == places[0][1] + 1


def test_synchronise_blocks_until_the_device_is_done(h100s):
    machine = h100s.machine
    torch.cuda._sleep(19_800_000)  # 10 ms at 1.98 GHz
    assert machine.now_ns < 1_000_000
    torch.cuda.synchronize(1)
    assert machine.now_ns < 1_000_000
    torch.cuda.synchronize()
    assert machine.now_ns >= 10_000_000


def test_handles_of_libraries_differ_by_device(h100s):
    handles = set()
    for index in range(4):
        with torch.cuda.device(index):
            handles |= {torch.cuda.current_blas_handle(), torch._C._cuda_getCurrentSolverHandle()}
            assert torch.cuda.current_blas_handle() == torch.cuda.current_blas_handle()
    assert len(handles) == 8


def test_the_runtime_module(h100s):
    cudart = torch.cuda.cudart()
    torch.cuda.check_error(cudart.cudaProfilerStart())
    torch.cuda.check_error(cudart.cudaProfilerStop())
    assert cudart.cudaMemGetInfo(1) == torch.cuda.mem_get_info(1)
    with torch.cuda.profiler.profile():
        pass
    host = torch.ones(4)
    pointer = host.data_ptr()
    assert cudart.cudaHostRegister(pointer, 16, 0) == cudart.cudaError.success
    assert int(cudart.cudaHostRegister(pointer, 16, 0)) == 712
    assert host.is_pinned()
    assert host[1:].is_pinned()
    assert not torch.ones(4).is_pinned()
    assert cudart.cudaHostUnregister(pointer) == cudart.cudaError.success
    assert not host.is_pinned()
    assert repr(cudart.cudaHostUnregister(pointer)) == "<cudaError.???: 713>"
    with pytest.raises(torch.cuda.CudaError, match=r"out of memory \(2\)"):
        torch.cuda.check_error(2)


def test_the_version_of_nccl(h100s):
    assert torch.cuda.nccl.version()[:2] == (2, 27)


def test_functions_that_need_a_gpu_raise(h100s):
    square = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return x * x; }")
    with pytest.raises(VirtualDeviceError, match="jiterator"):
        square(torch.ones(2, device="cuda"))
    with pytest.raises(VirtualDeviceError, match="change_current_allocator"):
        torch.cuda.change_current_allocator(torch.cuda.memory._CUDAAllocator(None))


def test_ipc_has_nothing_to_collect(h100s):
    torch.cuda.ipc_collect()


# -- NVTX --------------------------------------------------------------------------------------------------------------


class Notes:
    """A recorder of annotations: starts and ends with times."""

    def __init__(self, machine):
        self.machine, self.annotations = machine, []

    def opened(self, name):
        return name, self.machine.now_ns

    def closed(self, opened):
        name, start_ns = opened
        self.annotations.append((name, self.machine.now_ns - start_ns))

    def marked(self, name):
        self.annotations.append((name, 0))

    def ranged(self, name, stream, start_ns, end_ns):
        self.annotations.append((name, end_ns - start_ns))

    def called(self, *arguments):
        pass

    begin = end = worked = synchronized = called


def test_ranges_and_marks_reach_the_recorder(h100s):
    machine, nvtx = h100s.machine, torch.cuda.nvtx
    before = nvtx.range_start("before")
    machine.recorder = notes = Notes(machine)
    assert nvtx.range_push("outer") == 0
    machine.now_ns += 100
    assert nvtx.range_push("inner") == 1
    nvtx.mark("here")
    machine.now_ns += 20
    assert nvtx.range_pop() == 1
    assert nvtx.range_pop() == 0
    assert nvtx.range_pop() == -1
    number = nvtx.range_start("across")
    machine.now_ns += 7
    with nvtx.range("{} steps", 3):
        machine.now_ns += 1
    nvtx.range_end(number)
    nvtx.range_end(number)
    nvtx.range_end(before)
    assert notes.annotations == [("here", 0), ("inner", 20), ("outer", 120), ("3 steps", 1), ("across", 8)]


def test_a_range_that_outlives_its_recorder_is_not_recorded(h100s):
    h100s.machine.recorder = first = Notes(h100s.machine)
    torch.cuda.nvtx.range_push("cut off")
    h100s.machine.recorder = second = Notes(h100s.machine)
    torch.cuda.nvtx.range_pop()
    assert first.annotations == second.annotations == []


def test_ranges_cost_nothing_without_a_recorder(h100s):
    with torch.cuda.nvtx.range("quiet"):
        torch.cuda.nvtx.mark("still")
    assert h100s.machine.now_ns == 0


def test_a_device_range_begins_and_ends_with_the_streams_work(h100s):
    h100s.machine.recorder = notes = Notes(h100s.machine)
    torch.cuda._sleep(1_980_000)
    opened = torch.cuda.nvtx._device_range_start("on the GPU")
    torch.cuda._sleep(1_980_000)
    torch.cuda.nvtx._device_range_end(opened)
    assert notes.annotations == [("on the GPU", pytest.approx(1_000_000, rel=0.01))]


def test_only_a_device_that_was_used_has_a_primary_context():
    def contexts():
        return [torch._C._cuda_hasPrimaryContext(index) for index in range(4)]

    with device("h100x4"):
        torch.cuda.init()
        assert torch.cuda.get_device_name(1)
        assert contexts() == [False] * 4
        x = torch.ones(3, device="cuda:1")
        assert repr(x)
        assert x.cpu().pin_memory().is_pinned()
        assert contexts() == [False, True, False, False]
        with torch.cuda.device(2):
            pass
        assert contexts() == [False, True, True, False]
        torch.cuda.synchronize(3)
        assert contexts() == [False, True, True, True]
