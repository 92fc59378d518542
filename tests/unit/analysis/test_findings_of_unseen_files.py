"""Advice and figures that public traces showed to be wrong: each test is a small program of the same kind."""

import numpy as np
import pandas as pd
import pytest
from findings_worlds import MS, US, V100, World

from cudalens.analysis import findings, syncs
from cudalens.analysis.findings.window_rules import outside_times
from cudalens.frames import build_memory

PAGEABLE = "Memcpy HtoD (Pageable -> Device)"


def by_rule(world, memory=None, **info):
    trace = world.trace(**info)
    if memory is not None:
        trace = trace.replace(memory=build_memory(memory, trace.events))
    return {one.rule: one for one in findings(trace, most=None)}


@pytest.mark.parametrize(
    "name",
    [
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)",
        "void cudnn::detail::dgrad_alg1_engine<float, 128, 5, 5, 3, 3, 3, false>(int)",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::WinogradData<float>)",
    ],
)
def test_all_kernels_of_a_convolution_in_fp32_count(name):
    world = World(V100).kernels(10, MS, name="volta_sgemm_64x64_nt").kernels(10, MS, name=name)
    assert by_rule(world.wait())["fp32_math"].gain_ns == pytest.approx(20 * MS * 7 / 8, rel=0.01)
    half = World(V100).kernels(20, MS, name=name.replace("float", "__half"))
    assert "fp32_math" not in by_rule(half.wait())


def test_tf32_is_on_for_convolutions():
    """``set_float32_matmul_precision`` is about products only."""
    convolutions = World().kernels(10, MS, name="_5x_cudnn_ampere_scudnn_128x32_relu_small_nn_v1").wait()
    assert "set_float32_matmul_precision" not in by_rule(convolutions)["fp32_math"].advice
    by_operator = World()
    for _ in range(10):
        by_operator.within("aten::cudnn_convolution", lambda w: w.device("ampere_sgemm_64x64_nt", MS), "cpu_op")
    assert "autocast" in by_rule(by_operator.wait())["fp32_math"].advice
    assert "set_float32_matmul_precision" not in by_rule(by_operator)["fp32_math"].advice
    products = World().kernels(10, MS, name="ampere_sgemm_64x64_nt").wait()
    assert "set_float32_matmul_precision" in by_rule(products)["fp32_math"].advice


def passes(first, later, number=5):
    """Forward passes of 30 kernels, before which the host does work that no event shows."""
    world = World()
    for k in range(number):
        for _ in range(30):
            world.sleep(first if k == 0 else later).device("void at::native::add", 30 * US)
    return world.wait()


def test_host_work_of_a_first_pass_is_a_warm_up():
    one = by_rule(passes(10 * MS, 10 * US), source="file:nsys")["host_work"]
    assert "289 ms of it in the first quarter of the work" in one.what
    assert "warm-up" in one.advice
    native = World()
    for pause in (*[MS] * 8, *[0] * 92):
        native.sleep(pause).device("solve", 30 * US)
    assert by_rule(native.wait(), source="file:nsys")["host_work"].advice.startswith("it is mostly at the start")


def test_host_work_of_each_pass_that_no_event_shows_has_to_be_recorded():
    one = by_rule(passes(2 * MS, 2 * MS), source="file:nsys")["host_work"]
    assert "quarter" not in one.what
    assert "record what the host does" in one.advice
    named = passes(2 * MS, 2 * MS).op("aten::add", 10 * US)
    assert "move that work" in by_rule(named, source="file:kineto")["host_work"].advice


def moved(number, kernels_between=False):
    world = World()
    for _ in range(number):
        world.device(PAGEABLE, 2 * MS, cat="gpu_memcpy", num_bytes=16 << 20, call="cudaMemcpyAsync", waits=True)
        if kernels_between:
            world.device("void at::native::add", 100 * US)
    return world.kernels(10, MS, name="void at::native::mm").wait()


def test_copies_before_the_first_kernel_are_those_of_a_model():
    assert "move a model once" in by_rule(moved(12), source="file:nsys")["pageable_copies"].advice
    for batches in (moved(12, kernels_between=True), moved(3)):
        assert "pin_memory" in by_rule(batches, source="file:nsys")["pageable_copies"].advice


@pytest.mark.parametrize(("allocated", "helps"), [(0.94, False), (0.6, True)])
def test_other_segments_help_where_reserved_memory_is_unused(allocated, helps):
    known = {"action": pd.Categorical(["alloc"]), "device_type": pd.Categorical(["cuda"])}
    numbers = {"ts": np.array([1]), "num_bytes": np.array([1]), "device": pd.array([0], dtype="Int32")}
    sizes = {
        name: pd.array([int(share * (40 << 30))], dtype="Int64")
        for name, share in (("reserved_bytes", 0.95), ("allocated_bytes", allocated))
    }
    one = by_rule(World().kernels(10, 100 * US).wait(), known | numbers | sizes)["memory_full"]
    assert ("expandable_segments" in one.advice) is helps


@pytest.mark.parametrize(("name", "has_finding"), [(" (Unknown -> Unknown)", True), (", prefetched", False)])
def test_pages_that_the_program_prefetches_are_not_moved_as_they_are_touched(name, has_finding):
    world = World().device("add", MS)
    for k in range(100):
        row = {"name": f"Memcpy HtoD (Unified){name}", "cat": "gpu_memcpy", "dur": 50 * US, "device": 0, "stream": 0}
        world.rows.append(row | {"ts": 2 * MS + 100 * US * k, "num_bytes": 2 << 20})
    assert ("unified_memory" in by_rule(world, source="file:nsys")) is has_finding


def copied_after(before):
    """The advice for waits for tensors that are copied from pageable memory, each after what `before` does."""
    world = World()
    for _ in range(5):
        before(world)
        copy = lambda w: w.device(  # noqa: E731
            PAGEABLE, MS, cat="gpu_memcpy", num_bytes=10 << 20, call="cudaMemcpyAsync", waits=True
        )
        world.within("aten::to", copy, "cpu_op").sleep(US).device("add", 100 * US)
    waits = syncs(world.trace(source="file:kineto"))
    return waits["advice"][waits["kind"] == "pageable copy to device"].item()


def test_a_wait_for_the_copy_of_a_tensor_that_was_just_made_is_not_for_pinning():
    made = copied_after(lambda w: w.op("aten::randn", 3 * MS).sleep(3 * MS))
    assert "on the device itself" in made
    assert "pin" not in made


@pytest.mark.parametrize(
    "before",
    [
        lambda w: w.op("aten::stack", 3 * MS).sleep(3 * MS),
        lambda w: w.within("aten::randn", lambda v: v.device("distribution", 10 * US), "cpu_op"),
        lambda w: w.host("aten::randn", "cpu_op", w.now, 3 * MS, tid=2).sleep(3 * MS),
    ],
    ids=["a batch", "made on the device", "made by another thread"],
)
def test_a_wait_for_the_copy_of_a_batch_is_for_pinning(before):
    assert "pin the host's tensor" in copied_after(before)


def test_a_host_that_has_not_touched_a_page_yet_does_its_own_work():
    world = World().device("add", 400 * US)
    page = {"name": "Memcpy DtoH (Unified) (Unknown -> Unknown)", "cat": "gpu_memcpy", "dur": 5 * US, "device": 0}
    world.rows.append(page | {"ts": 900 * US, "stream": 0, "num_bytes": 64 << 10})
    assert "NVTX" in by_rule(world, source="file:nsys")["idle"].advice


def on_pages(between, number=200):
    """Pages of managed memory that move to the host, which works on each for as long as `between`."""
    world = World().device("add", MS)
    begin = max(world.free.values())
    for k in range(number):
        row = {"name": "Memcpy DtoH (Unified) (Unknown -> Unknown)", "cat": "gpu_memcpy", "dur": 200 * US, "device": 0}
        world.rows.append(row | {"ts": begin + (between + 200 * US) * k, "stream": 0, "num_bytes": 2 << 20})
    return by_rule(world, source="file:nsys")


def test_a_host_that_works_on_pages_of_managed_memory_does_not_gain_from_prefetching():
    found = on_pages(between=3 * MS)
    assert found["idle"].title == "a host that works on managed memory"
    assert found["idle"].gain_ns == 199 * 3 * MS
    assert "unified_memory" not in found  # 0.1 ms of each gap is 3 % of the window
    short = on_pages(between=80 * US)
    assert short["unified_memory"].gain_ns == 199 * 80 * US
    assert "idle" not in short


def test_code_is_not_loaded_within_a_window_that_is_not_known():
    """As where a recorder has launches, and no device work."""
    world = World().host("cudaLaunchKernel", "cuda_runtime", 0, 5 * US)
    world.host("cuLibraryLoadData", "cuda_driver", 10 * US, 30 * MS)
    assert by_rule(world, source="file:nsys") == {}


def test_a_program_without_torch_allocates_before_its_loop():
    world = World().sleep(50 * US)
    for _ in range(5):
        for _ in range(3):
            world.host("cudaMalloc", "cuda_runtime", world.now, 100 * US).sleep(100 * US)
        world.device("solve", 50 * US).wait()
    one = by_rule(world, source="file:nsys")["driver_memory"]
    assert one.advice.startswith("allocate once before the loop")
    assert "warmup" not in one.advice
    with_torch = by_rule(world.op("aten::add", US), source="file:kineto")["driver_memory"]
    assert "reuse" in with_torch.advice


def test_an_event_that_a_convolution_waits_for_is_the_time_of_an_algorithm():
    world = World()

    def measure_algorithm(world):
        world.device("void implicit_convolve_sgemm<float>", 60 * US).wait("cudaEventSynchronize").sleep(60 * US)

    for _ in range(15):
        world.within("aten::conv2d", measure_algorithm, "cpu_op")
    assert "torch.backends.cudnn.benchmark" in by_rule(world)["host_sync"].advice


def test_a_gap_in_an_only_step_is_no_warm_up():
    world = World().device("a", 50 * US).sleep(2 * MS).kernels(60, 50 * US, 45 * US).wait()
    one = by_rule(world, source="file:kineto")["host_work"]
    assert "quarter" not in one.what


def test_a_batch_from_pageable_memory_at_the_start_also_costs_the_host_that_fills_a_buffer():
    """The call returns before the copy has ended: it does not wait, and takes as long."""
    world = World()
    world.number += 1
    world.host("cudaMemcpyAsync", "cuda_runtime", 0, 5 * MS, correlation_id=world.number)
    copy = {"name": PAGEABLE, "cat": "gpu_memcpy", "ts": 300 * US, "dur": 4900 * US, "device": 0, "stream": 7}
    world.rows.append(copy | {"num_bytes": 19 << 20, "correlation_id": world.number})
    world.now = world.free[7] = 5200 * US
    world.kernels(100, 150 * US).wait()
    gain = by_rule(world, source="file:kineto")["pageable_copies"].gain_ns
    assert 3 * MS < gain < 5300 * US


def test_broadcasts_of_parameters_are_of_the_start():
    world = World().device("ncclDevKernel_Broadcast_RING_LL", 40 * MS).kernels(20, MS)
    assert "broadcast once" in by_rule(world.wait())["exposed_communication"].advice


def test_memory_that_is_freed_at_the_end_is_not_allocated_in_a_loop():
    def call(world, name):
        world.host(name, "cuda_runtime", world.now, MS).sleep(MS)

    world = World().op("aten::add", US)
    for _ in range(9):
        call(world, "cuMemMap")
        world.device("add", 100 * US).wait()
    for _ in range(5):
        call(world, "cuMemUnmap")
    once = by_rule(world.device("add", 100 * US), source="file:kineto")["driver_memory"]
    assert "warm-up" in once.advice
    for _ in range(5):
        call(world, "cuMemMap")
        world.device("add", 100 * US).wait()
    again = by_rule(world, source="file:kineto")["driver_memory"]
    assert "constant shapes" in again.advice


def test_idle_time_is_not_known_where_the_work_of_most_launches_is_missing():
    world = World().device("add", MS)
    for _ in range(20):
        world.number += 1
        world.host("cudaLaunchKernel", "cuda_runtime", world.now, 5 * MS, correlation_id=world.number).sleep(5 * MS)
    assert by_rule(world.device("add", MS), source="file:nsys") == {}


def measured_convolution(world, times):
    for _ in range(times):
        world.device("void implicit_convolve_sgemm<float>", 60 * US).wait("cudaEventSynchronize")
    return world.device("void implicit_convolve_sgemm<float>", 60 * US)


def test_convolutions_that_measure_algorithms_are_those_that_wait_for_events():
    """Also in a backward pass of an older torch, of few kernels, and where no later call shows what is usual."""
    world = World()
    for _ in range(4):
        world.within("aten::cudnn_convolution", lambda w: measured_convolution(w, 3), "cpu_op")

        def gradients(world):
            for name in ("input", "weight"):
                world.within(f"aten::cudnn_convolution_backward_{name}", lambda w: measured_convolution(w, 2), "cpu_op")

        world.within("aten::cudnn_convolution_backward", gradients, "cpu_op")
    one = by_rule(world.wait())["autotuning"]
    assert "8 convolutions tried algorithms in the measured window: 40 kernels, 2.40 ms" in one.what
    assert one.gain_ns == pytest.approx(28 * 60 * US, rel=0.1)


def test_a_gain_beyond_the_idle_time_after_waits_is_explained():
    """Without its waits a host is ahead of the GPU, and gaps before launches are gone as well."""
    world = World()
    for _ in range(10):
        world.kernels(50, 30 * US, every=10 * US).device("Memcpy DtoH", US, cat="gpu_memcpy", num_bytes=4).wait()
        world.kernels(10, 5 * US, every=15 * US)
    one = by_rule(world, source="file:kineto")["host_sync"]
    assert one.gain_ns > 2 * 100 * US
    assert "; a host that does not wait also launches ahead of the GPU" in one.what
    without = World()
    for _ in range(20):
        without.device("a", 40 * US).wait()
    assert "launches ahead" not in by_rule(without, source="file:kineto")["host_sync"].what


def test_small_copies_in_which_the_host_waits_for_the_gpu_say_so():
    world = World()
    for _ in range(25):
        world.kernels(20, 40 * US, every=5 * US)
        world.device(PAGEABLE, US, cat="gpu_memcpy", call="cudaMemcpyAsync", waits=True, num_bytes=8)
        world.kernels(20, 5 * US, every=10 * US)
    one = by_rule(world, source="file:kineto")["small_copies"]
    assert "; the host waited 16.6 ms for the GPU in them, which emptied the queue" in one.what


def submitted_late(world, late):
    """A kernel that begins some time after its launch has returned, while the host launches the next ones."""
    world.device("first", 20 * US)
    world.rows[-1]["ts"] += late
    world.free[7] += late
    return world.kernels(40, 60 * US, every=50 * US, name="next").wait()


def test_work_that_begins_long_after_its_launch_returned_did_not_wait_for_the_host():
    """The driver of Windows submits work in batches."""
    world = World()
    for _ in range(10):
        submitted_late(world, 1200 * US)
    found = by_rule(world, source="file:kineto")
    assert {"host_work", "launch_bound", "host_sync"}.isdisjoint(found)
    assert found["idle"].gain_ns == pytest.approx(9 * 1200 * US, rel=0.05)
    assert "began late" in found["idle"].what
    assert "driver of Windows" in found["idle"].advice
    pauses = World()
    for _ in range(10):
        pauses.device("first", 20 * US).sleep(1200 * US).kernels(40, 60 * US, every=50 * US).wait()
    assert "host_work" in by_rule(pauses, source="file:kineto")


def test_faster_kernels_of_a_device_alone_gain_time_on_several_streams():
    """Without launches a replay does not know what a stream waits for, and work on another keeps its start."""
    world = World()
    for _ in range(10):
        world.kernels(2, MS, name="ampere_sgemm_128x64_tn")
        world.free[14] = world.free[7]
        world.device("ncclDevKernel_AllReduce_Sum_f32_RING_LL", MS, stream=14)
        world.free[7] = world.free[14]
    world.rows = [row for row in world.rows if row["cat"] == "kernel"]
    one = by_rule(world, source="file:kineto")["fp32_math"]
    assert one.gain_ns == pytest.approx(20 * MS * 7 / 8, rel=0.02)


def test_a_long_wait_before_the_first_work_creates_no_context():
    """A capture of a graph begins with a wait for work that was launched before the recording."""

    def before_first(call):
        world = World().host(call, "cuda_runtime", 0, 115 * MS).sleep(120 * MS).op("aten::add", US).kernels(3, MS)
        part, *_ = outside_times(world.trace(source="file:kineto"))
        return part.causes[0]

    assert before_first("hipDeviceSynchronize") == ("waiting for earlier work", 115 * MS)
    assert before_first("cudaFree") == ("creating the context", 115 * MS)


def test_gaps_between_recordings_of_graphs_are_not_those_of_a_loop():
    """A server records its graphs in pieces at the start; what it launches in between runs once."""

    def recorded(ns):
        world = World().op("aten::add", US)
        for _ in range(30):
            world.device("attention", 10 * US).sleep(90 * US)
            world.host("hipStreamBeginCapture", "cuda_runtime", world.now, US).sleep(ns)
            world.host("hipStreamEndCapture", "cuda_runtime", world.now, US).sleep(US)
            world.kernels(3, 10 * US, every=90 * US)
        return by_rule(world, source="file:kineto")

    assert {"graph_recording"} == set(recorded(2 * MS))
    assert {"launch_bound", "graphable"} & set(recorded(100 * US))


def offloaded(copy, kernel):
    """Steps that copy weights from pinned memory, on the stream of the kernels."""
    world = World().device("gemm", kernel)
    for _ in range(20):
        world.device("Memcpy HtoD (Pinned -> Device)", copy, cat="gpu_memcpy", num_bytes=64 << 20)
        world.device("gemm", kernel)
    return by_rule(world.wait(), source="file:kineto")


def test_a_run_that_mostly_copies_from_the_host_is_limited_by_transfers():
    one = offloaded(4 * MS, 200 * US)["transfer_bound"]
    assert "20 copies to the GPU (1.25 GiB, 16.8 GB/s) ran for 80.0 ms while no other work did" in one.what
    assert one.gain_ns == pytest.approx(80 * MS, rel=0.01)
    assert "transfer_bound" not in offloaded(4 * MS, 6 * MS)
    assert "transfer_bound" not in offloaded(4 * MS, 3 * MS)  # which the copies can be hidden beside
    at_start = World()
    for _ in range(20):
        at_start.device("Memcpy HtoD (Pinned -> Device)", 4 * MS, cat="gpu_memcpy", num_bytes=64 << 20)
    assert "transfer_bound" not in by_rule(at_start.kernels(3, MS).wait(), source="file:kineto")
