"""``torch.accelerator`` on a virtual device."""

from __future__ import annotations

import pytest
import torch

from cudalens.virtual import SPECS, device

accelerator = torch.accelerator


@pytest.fixture(autouse=True)
def h100s():
    with device("h100x2") as virtual:
        yield virtual.gpus


def test_the_accelerator_is_cuda():
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("cuda")
    assert accelerator.current_accelerator(check_available=True) == torch.device("cuda")
    assert accelerator.device_count() == 2


def test_the_current_device_is_torch_cudas():
    accelerator.set_device_index("cuda:1")
    assert accelerator.current_device_index() == torch.cuda.current_device() == 1
    with accelerator.device_index(0):
        assert torch.cuda.current_device() == 0
        with accelerator.device_index(None):
            assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        accelerator.set_device_index(4)
    accelerator.set_device_index(0)


def test_streams():
    stream = torch.Stream("cuda:1")
    accelerator.set_stream(stream)
    assert accelerator.current_device_index() == 1
    assert accelerator.current_stream() == stream
    assert torch.cuda.current_stream(1).cuda_stream == stream.cuda_stream
    assert accelerator.current_stream(0).stream_id == 0
    assert isinstance(accelerator.current_stream(), torch.Stream)
    accelerator.set_stream(torch.cuda.default_stream(1))
    accelerator.set_device_index(0)


def test_synchronize(h100s):
    torch.cuda._sleep(SPECS["h100"].clock_mhz * 1000)
    accelerator.synchronize("cuda:0")
    assert h100s.machine.now_ns < 1_000_000  # nothing to do where CUDA is not initialised
    torch.cuda.init()
    accelerator.synchronize("cuda:0")
    assert h100s.machine.now_ns > 1_000_000


def test_memory():
    memory = torch.accelerator.memory
    assert memory.memory_allocated() == 0
    memory.empty_cache()
    tensor = torch.empty(1000, dtype=torch.uint8, device="cuda:1")
    assert memory.memory_allocated(1) == memory.max_memory_allocated("cuda:1") == 1024
    assert memory.memory_reserved(1) == memory.max_memory_reserved(1) == 2 << 20
    assert memory.memory_stats(1) == torch.cuda.memory_stats(1)
    memory.reset_peak_memory_stats(1)
    memory.reset_accumulated_memory_stats(1)
    assert memory.memory_stats(1)["allocation.all.allocated"] == 0
    del tensor
    memory.empty_cache()
    assert memory.memory_reserved(1) == 0
    if hasattr(memory, "get_memory_info"):
        assert memory.get_memory_info(1) == torch.cuda.mem_get_info(1)


@pytest.mark.skipif(not hasattr(accelerator, "Graph"), reason="this torch has no torch.accelerator.Graph")
def test_a_graph_is_a_cuda_graph(h100s):
    total = torch.zeros(4, device="cuda")
    stream, graph = torch.Stream(), accelerator.Graph()
    with stream, graph:
        total += 1
    assert total.tolist() == [0.0] * 4
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert total.tolist() == [3.0] * 4
    shared = accelerator.Graph(pool=graph.pool(), capture_error_mode="thread_local")
    with stream, shared:
        total *= 2
    shared.replay()
    assert total.tolist() == [6.0] * 4
    assert shared.pool() == graph.pool()


def test_capability():
    if not hasattr(accelerator, "get_device_capability"):
        pytest.skip("this torch has no torch.accelerator.get_device_capability")
    dtypes = accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.float8_e4m3fn} <= dtypes
