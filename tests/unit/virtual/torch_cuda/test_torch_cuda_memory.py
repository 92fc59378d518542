"""``torch.cuda.memory`` on the modelled allocators, and page-locked host memory."""

from __future__ import annotations

import gc
import linecache
import pickle
import warnings
from inspect import signature

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import SPECS, device
from cudalens.virtual.timing.machine import Machine
from cudalens.virtual.torch_cuda.host_memory import HostMemory

MIB = 1 << 20
_record = torch.cuda.memory._record_memory_history


@pytest.fixture
def gpus():
    with device("h100x2") as virtual:
        torch.cuda.init()
        yield virtual.gpus


def test_allocated_and_reserved_bytes_follow_tensors(gpus):
    assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0
    tensor = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 1024
    assert torch.cuda.memory_reserved() == 2 * MIB
    large = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 1024 + 30 * MIB
    del tensor, large
    gc.collect()
    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.max_memory_allocated() == 1024 + 30 * MIB
    assert torch.cuda.memory_reserved() == 32 * MIB == torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.max_memory_reserved() == 0


def test_statistics_are_empty_before_torch_cuda_is_used():
    with device("h100"):
        assert torch.cuda.memory_stats() == {}
        assert torch.cuda.memory_allocated() == 0


def test_devices_have_memories_of_their_own(gpus):
    tensor = torch.empty(512, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.memory_allocated(0) == 0
    assert torch.cuda.memory_allocated("cuda:1") == 512 == torch.cuda.memory_allocated(tensor.device)
    torch.cuda.reset_accumulated_memory_stats(1)
    assert torch.cuda.memory_stats(1)["allocation.all.allocated"] == 0
    assert torch.cuda.memory_stats(1)["allocation.all.current"] == 1


def test_the_summary_is_torchs(gpus):
    tensor = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    summary = torch.cuda.memory_summary()
    assert "PyTorch CUDA memory summary, device ID 0" in summary
    assert "3072 KiB" in summary
    assert torch.cuda.memory_summary(abbreviated=True) != summary
    assert tensor.is_cuda


def test_free_and_total_memory(gpus):
    free, total = torch.cuda.mem_get_info()
    assert total == SPECS["h100"].total_memory_bytes
    assert free == total - SPECS["h100"].context_bytes
    tensor = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.mem_get_info("cuda") == (free - 100 * MIB, total)
    assert torch.cuda.mem_get_info(1) == (free, total)
    assert tensor.is_cuda


def test_a_fraction_of_the_memory_is_a_limit(gpus):
    assert torch.cuda.get_per_process_memory_fraction() == 1.0
    torch.cuda.set_per_process_memory_fraction(0.25)
    assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(0.25)
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        torch.empty(SPECS["h100"].total_memory_bytes // 3, dtype=torch.uint8, device="cuda")
    with pytest.raises(ValueError, match="Invalid fraction value"):
        torch.cuda.set_per_process_memory_fraction(1.5)


def test_an_observer_is_called_on_out_of_memory(gpus):
    received = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: received.append(numbers))
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(SPECS["h100"].total_memory_bytes + 1, dtype=torch.uint8, device="cuda:1")
    assert [numbers[0] for numbers in received] == [1]


def test_memory_without_a_tensor(gpus):
    stream = torch.cuda.Stream(device=1)
    address = torch.cuda.caching_allocator_alloc(5000, device=1, stream=stream)
    assert torch.cuda.memory_allocated(1) == 5120
    (segment,) = torch.cuda.memory_snapshot()
    assert (segment["device"], segment["stream"]) == (1, stream.cuda_stream)
    assert segment["blocks"][0]["address"] == address
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated(1) == 0
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        torch.cuda.caching_allocator_delete(address)


def test_a_snapshot_with_history_has_actions_with_stack_frames(gpus, tmp_path):
    torch.cuda.memory._record_memory_history(max_entries=100)
    assert torch._C._cuda_isHistoryEnabled()
    tensor = torch.empty(700, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr()
    frames = torch._C._cuda_allocationTraceback(address)
    assert (frames[0]["filename"], frames[0]["name"]) == (
        __file__,
        "test_a_snapshot_with_history_has_actions_with_stack_frames",
    )
    del tensor
    gc.collect()
    assert torch._C._cuda_allocationTraceback(address) is None
    snapshot = torch.cuda.memory._snapshot()
    trace = snapshot["device_traces"][0]
    assert [entry["action"] for entry in trace] == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    assert trace[1]["addr"] == address
    assert trace[1]["frames"][0]["filename"] == __file__
    path = tmp_path / "memory.pickle"
    torch.cuda.memory._dump_snapshot(str(path))
    assert pickle.loads(path.read_bytes())["segments"] == snapshot["segments"]
    torch.cuda.memory._record_memory_history(enabled=None)
    assert not torch._C._cuda_isHistoryEnabled()
    assert torch.cuda.memory._snapshot()["device_traces"] == [[], []]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_frames_of_torchscript_come_before_those_of_python(gpus):
    @torch.jit.script
    def filled(count: int):
        return torch.ones(count, device="cuda")

    @torch.jit.script
    def outer(count: int):
        return filled(count)

    torch.cuda.memory._record_memory_history()
    tensor = outer(700)
    frames = torch._C._cuda_allocationTraceback(tensor.data_ptr())
    names = [frame["name"] for frame in frames]
    assert names[:2] == ["filled", "outer"]
    assert names.index("test_frames_of_torchscript_come_before_those_of_python") > 1
    assert frames[0]["filename"] == __file__
    assert linecache.getline(__file__, frames[0]["line"]).strip() == 'return torch.ones(count, device="cuda")'
    torch.cuda.memory._record_memory_history(enabled=None)


def test_history_with_the_arguments_of_torch_2_0(gpus):
    torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=10, trace_alloc_record_context=True)
    tensor = torch.empty(700, device="cuda")
    assert torch.cuda.memory._snapshot()["device_traces"][0][-1]["frames"]
    torch.cuda.memory._record_memory_history(False)
    assert tensor.is_cuda


def test_torchs_own_viewer_draws_the_snapshot(gpus):
    from torch.cuda import _memory_viz

    torch.cuda.memory._record_memory_history()
    tensor = torch.empty(700, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    assert "segments" in _memory_viz.segsum(snapshot).lower() or _memory_viz.segsum(snapshot)
    assert "alloc" in _memory_viz.trace(snapshot)
    assert tensor.is_cuda


def test_metadata_stays_with_what_happens_after(gpus):
    if not hasattr(torch.cuda.memory, "_set_memory_metadata"):
        pytest.skip("this torch keeps no metadata with allocations")
    torch.cuda.memory._record_memory_history()
    torch.cuda.memory._set_memory_metadata("step 3")
    assert torch.cuda.memory._get_memory_metadata() == "step 3"
    tensor = torch.empty(700, device="cuda")
    assert torch.cuda.memory._snapshot()["device_traces"][0][-1]["user_metadata"] == "step 3"
    assert tensor.is_cuda


@pytest.mark.skipif(not hasattr(torch.cuda.memory, "_annotate_tensor"), reason="torch 2.15 and later")
def test_a_tensor_is_annotated_in_the_history(gpus):
    tensor = torch.empty(700, device="cuda")
    torch.cuda.memory._annotate_tensor(tensor, "before")
    torch.cuda.memory._record_memory_history()
    torch.cuda.memory._annotate_tensor(tensor[3:], "packed")
    (entry,) = torch.cuda.memory._snapshot()["device_traces"][0]
    assert (entry["action"], entry["addr"], entry["user_metadata"]) == ("annotate", tensor.data_ptr(), "packed")
    assert entry["frames"][0]["filename"] == torch.cuda.memory.__file__


@pytest.mark.skipif("record_cuda" not in signature(_record).parameters, reason="torch 2.15 and later")
def test_which_memory_is_recorded(gpus):
    _record(record_cuda=False)
    assert not torch._C._cuda_isHistoryEnabled()
    with pytest.raises(VirtualDeviceError, match="pinned host memory is not recorded"):
        _record(record_pinned_host_memory=True)


def test_settings_can_change_while_it_runs(gpus):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 has another name for it
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")
    assert torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"] == 64 * MIB
    if hasattr(torch._C, "_accelerator_getAllocatorSettings"):
        assert torch._C._accelerator_getAllocatorSettings() == "max_split_size_mb:64"
    assert torch.cuda.get_allocator_backend() == "native"


def test_caching_cannot_be_disabled(gpus):
    torch.cuda.memory.caching_allocator_enable(True)
    with pytest.raises(VirtualDeviceError, match="cannot be disabled"):
        torch.cuda.memory.caching_allocator_enable(False)


# -- page-locked host memory -------------------------------------------------------------------------------------------


def test_pinned_memory_of_a_copy_is_used_again_after_the_copy(gpus):
    def load():
        return torch.ones(1 << 24, dtype=torch.uint8, pin_memory=True).to("cuda", non_blocking=True)

    first = load()
    gc.collect()
    assert torch.cuda.host_memory_stats()["active_requests.current"] == 1  # the copy still reads it
    second = load()
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == 2
    torch.cuda.synchronize()
    third = load()
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == 2
    assert torch.cuda.host_memory_stats()["active_requests.peak"] == 2
    assert int(first.sum() + second.sum() + third.sum()) == 3 << 24


def test_pinned_memory_of_a_blocking_copy_is_used_again_at_once(gpus):
    for _ in range(3):
        torch.ones(1 << 24, dtype=torch.uint8, pin_memory=True).to("cuda")
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == 1


def test_a_target_of_a_copy_to_the_host_is_used_again_after_the_copy(gpus):
    x = torch.ones(1 << 24, dtype=torch.uint8, device="cuda")
    for _ in range(2):
        x.to("cpu", non_blocking=True)
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == 2
    torch.cuda.synchronize()
    torch._C._host_emptyCache()
    assert torch.cuda.host_memory_stats()["num_host_free"] == 2


def test_pinned_tensors_count(gpus):
    tensor = torch.empty(1000, dtype=torch.uint8).pin_memory()
    stats = torch.cuda.host_memory_stats()
    assert stats["active_requests.current"] == 1
    assert stats["active_bytes.current"] == 1024
    assert stats["num_host_alloc"] == 1
    del tensor
    gc.collect()
    assert torch.cuda.host_memory_stats()["active_bytes.current"] == 0
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 1024
    again = torch.empty(600, dtype=torch.uint8, pin_memory=True)
    assert torch.cuda.host_memory_stats()["num_host_alloc"] == 1
    torch.cuda.reset_peak_host_memory_stats()
    torch.cuda.reset_accumulated_host_memory_stats()
    assert torch.cuda.host_memory_stats()["active_requests.peak"] == 1
    assert torch.cuda.host_memory_stats()["active_requests.allocated"] == 0
    assert again.is_pinned()


@given(st.lists(st.one_of(st.integers(0, 5000), st.sampled_from(["drop", "empty"])), max_size=40))
def test_pinned_blocks_are_reused_by_their_rounded_size(steps):
    memory, held, cached = HostMemory(Machine(SPECS["h100"], 1, None)), [], []
    num_taken = 0
    for step in steps:
        if step == "empty":
            memory.empty_cache()
            cached = []
        elif step == "drop":
            if held:
                cached.append(held.pop(0).num_bytes)
        else:
            size = next(1 << i for i in range(40) if 1 << i >= step)
            if size in cached:
                cached.remove(size)
            else:
                num_taken += 1
            held.append(memory.allocate(step))
            assert held[-1].num_bytes == size
        stats = memory.stats()
        sizes = [block.num_bytes for block in held]
        assert stats["active_bytes"]["current"] == sum(sizes)
        assert stats["allocated_bytes"]["current"] == sum(sizes) + sum(cached)
        assert stats["num_host_alloc"] == stats["host_alloc_time"]["count"] == num_taken
        assert stats["num_host_alloc"] - stats["num_host_free"] == len(held) + len(cached)


def test_the_environment_is_read_as_torch_reads_it(monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:40")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:30")
    with device("h100"):
        assert torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"] == 30 << 20
    with device("h100", alloc_conf="max_split_size_mb:50"):
        assert torch.cuda.memory._snapshot()["allocator_settings"]["max_split_size"] == 50 << 20
