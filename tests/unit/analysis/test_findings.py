"""Each rule finds its pattern with the cost that it defines, and nothing in healthy runs."""

import numpy as np
import pytest
from findings_worlds import A100, MS, US, V100, World
from hypothesis import given
from hypothesis import strategies as st

from cudalens.analysis import device_time, findings
from cudalens.analysis.findings import CONFIDENCES, RULES, TraceArrays
from cudalens.analysis.findings.host_rules import find_repeat
from cudalens.analysis.time.groups import intersect, length, union
from cudalens.frames import Ranks, RunInfo, Trace


def by_rule(world_or_trace, **info):
    trace = world_or_trace if isinstance(world_or_trace, Trace) else world_or_trace.trace(**info)
    return {found.rule: found for found in findings(trace)}


def test_a_busy_gpu_with_a_host_that_runs_ahead_has_no_findings():
    assert by_rule(World().kernels(200, 50 * US)) == {}


def test_gaps_before_kernels_that_were_launched_late_are_launch_overhead():
    world = World().kernels(100, 10 * US, every=28 * US)  # a launch every 30 µs, 10 µs of work
    found = by_rule(world)
    assert set(found) == {"launch_bound"}
    assert found["launch_bound"].gain_ns == 99 * 20 * US
    assert found["launch_bound"].confidence == "high"
    assert len(found["launch_bound"].rows) == 99


def test_recording_python_calls_lowers_the_confidence_in_launch_overhead():
    world = World().kernels(100, 10 * US, every=28 * US).host("train.py(3): step", "python_function", 0, 5 * MS)
    found = by_rule(world)["launch_bound"]
    assert found.confidence == "medium"
    assert "without stacks" in found.what
    assert found.place == "step (train.py)"


def test_a_late_launch_that_repeats_can_be_a_graph():
    world = World()
    for _ in range(10):
        world.kernels(12, 10 * US, every=28 * US)
    (found,) = findings(world.trace())
    assert (found.rule, found.confidence) == ("graphable", "high")
    assert "same 12 kernels repeat 10 times" in found.what
    assert "%%cudagraph" in found.advice
    assert found.gain_ns == 119 * 20 * US


def test_a_wait_in_each_repeat_has_to_be_removed_first():
    world = World()
    for _ in range(10):
        world.kernels(12, 10 * US, every=28 * US).wait(op="aten::item")
    found = by_rule(world)
    assert "remove the 1 wait for the GPU from it" in found["graphable"].advice
    assert found["graphable"].confidence == "medium"


def test_the_gap_after_a_wait_is_what_the_wait_costs():
    world = World()
    for _ in range(20):
        world.kernels(3, 100 * US).wait(op="aten::item").sleep(50 * US)
    trace = world.trace()
    found = by_rule(trace)["host_sync"]
    assert found.gain_ns == found.idle_ns == int(device_time(trace)["idle_ns"])
    assert "20 waits of the host, item in aten::item" in found.what
    assert len(found.rows) == 20


def test_a_wait_that_leaves_the_queue_full_costs_nothing():
    world = World()
    for _ in range(20):
        world.kernels(3, 100 * US).host("cudaEventSynchronize", "cuda_runtime", world.now, 20 * US).sleep(25 * US)
    assert "host_sync" not in by_rule(world)


def test_idle_time_within_the_loader_is_waiting_for_data():
    world = World()
    for _ in range(5):
        world.kernels(10, 100 * US)
        world.sleep(MS).within("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", lambda w: w.sleep(4 * MS))
    trace = world.kernels(1, 100 * US).trace()
    found = by_rule(trace)["data_loader"]
    arrays = TraceArrays(trace)
    loads = trace.events[trace.events["name"].str.startswith("enumerate")]
    gaps = union(arrays.busy.end[:-1], arrays.busy.start[1:])
    loading = union(loads["ts"].to_numpy(), (loads["ts"] + loads["dur"]).to_numpy())
    assert found.gain_ns == length(intersect(gaps, loading)) > 19 * MS
    assert "num_workers=4" in found.advice


def test_a_loader_that_overlaps_with_the_gpu_is_no_finding():
    world = World()
    for _ in range(5):
        world.kernels(10, 500 * US)
        world.within("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", lambda w: w.sleep(2 * MS))
    assert "data_loader" not in by_rule(world)


def test_other_work_of_the_host_is_named():
    world = World()
    for _ in range(5):
        world.kernels(10, 100 * US).sleep(2 * MS).within("save metrics", lambda w: w.sleep(5 * MS))
    found = by_rule(world.kernels(1, 100 * US))
    assert "save metrics" in found["host_work"].what
    assert found["host_work"].gain_ns == pytest.approx(5 * 6 * MS, rel=0.1)


def test_a_launch_that_takes_milliseconds_on_an_idle_gpu_is_a_long_driver_call():
    world = World().kernels(5, 100 * US).sleep(600 * US).device("first", 100 * US, call_ns=5 * MS)
    world.rows[-1]["ts"] += 5 * MS
    world.free[7] = world.rows[-1]["ts"] + 100 * US
    found = by_rule(world.kernels(20, 100 * US))
    assert "driver_calls" in found
    assert "cudaLaunchKernel" in found["driver_calls"].what


def test_driver_memory_of_the_first_step_is_a_warm_up():
    def steps(*asking):
        world = World().kernels(10, 50 * US)
        for number in range(3):

            def step(w, asks=number in asking):
                if asks:
                    w.sleep(500 * US).within("cudaMalloc", lambda w: w.sleep(800 * US), "cuda_runtime")
                w.kernels(100, 50 * US).wait()

            world.within(f"ProfilerStep#{number}", step)
        return by_rule(world)["driver_memory"]

    first, each = steps(0), steps(0, 1, 2)
    assert (first.title, "--warmup" in first.advice) == ("first calls that allocate driver memory", True)
    assert (each.title, "--warmup" in each.advice) == ("allocating driver memory", False)
    assert first.gain_ns == pytest.approx(800 * US, rel=0.01)
    assert each.gain_ns == pytest.approx(3 * 800 * US, rel=0.01)


def test_driver_memory_in_all_of_a_single_pass_is_a_first_call():
    world = World().kernels(10, 50 * US)
    for _ in range(20):
        world.within("cudaMalloc", lambda w: w.sleep(800 * US), "cuda_runtime").kernels(10, 50 * US)
    found = by_rule(world)["driver_memory"]
    assert found.title == "first calls that allocate driver memory"
    assert "without first calls the window would take about" in found.what


def test_driver_memory_that_a_loop_frees_is_no_first_call():
    world = World().kernels(10, 50 * US)
    for _ in range(20):
        world.within("cudaMalloc", lambda w: w.sleep(800 * US), "cuda_runtime").kernels(10, 50 * US)
        world.within("cudaFree", lambda w: w.sleep(400 * US), "cuda_runtime")
    assert "--warmup" not in by_rule(world)["driver_memory"].advice


def test_the_first_call_of_an_operator_is_not_other_work():
    world = World()
    for number in range(5):
        ns = 20 * MS if not number else 10 * US
        act = lambda w, ns=ns: w.sleep(ns).device("conv", 100 * US)  # noqa: E731
        world.kernels(5, 100 * US).wait().within("aten::cudnn_convolution", act, "cpu_op")
    found = by_rule(world)
    assert found["first_calls"].gain_ns == pytest.approx(20 * MS, rel=0.02)
    assert "aten::cudnn_convolution" in found["first_calls"].what
    assert "host_work" not in found


@pytest.mark.parametrize(
    "name",
    [
        "Runtime Triggered Module Loading",
        "Module Loading",
        "cuModuleUnload",
        "cudaLibraryLoadData",
        "nvrtcCompileProgram",
    ],
)
def test_code_that_is_loaded_in_the_window_is_no_other_work(name):
    cat = "overhead" if name.endswith("Loading") else "cuda_driver"
    world = World().kernels(5, 100 * US).wait().within(name, lambda w: w.sleep(20 * MS), cat).kernels(5, 100 * US)
    found = by_rule(world)
    assert found["compiling"].gain_ns == pytest.approx(20 * MS, rel=0.01)
    assert "host_work" not in found


def test_a_gain_does_not_hold_one_off_work():
    def attention(w):
        w.within("aten::bmm", lambda w: w.device("gemm", 20 * US), "cpu_op", shapes="[[8,64,64],[8,64,64]]")
        w.within("aten::softmax", lambda w: w.device("softmax", 30 * US), "cpu_op")
        w.within("aten::bmm", lambda w: w.device("gemm", 20 * US), "cpu_op", shapes="[[8,64,64],[8,64,64]]")

    world = World().kernels(5, 100 * US)
    load = lambda w: w.within("cuModuleLoadData", lambda w: w.sleep(45 * MS), "cuda_driver")  # noqa: E731
    for number in range(4):
        attention(world)
        if number < 2:  # the first calls load code between the product and the softmax
            world.within("aten::bmm", lambda w: w.device("gemm", 20 * US), "cpu_op", shapes="[[8,64,64],[8,64,64]]")
            world.within("aten::softmax", lambda w: (load(w), w.device("softmax", 30 * US)), "cpu_op")
            world.within("aten::bmm", lambda w: w.device("gemm", 20 * US), "cpu_op", shapes="[[8,64,64],[8,64,64]]")
    found = {one.rule: one for one in findings(world.wait().trace(), most=None)}
    assert found["compiling"].gain_ns == pytest.approx(90 * MS, rel=0.02)
    assert "eager_attention" not in found or found["eager_attention"].gain_ns < MS


def test_idle_time_that_no_rule_explains_is_reported_with_what_the_host_did():
    world = World()
    for number in range(8):
        world.sleep(140 * US).within(f"aten::op{number}", lambda w: w.device("k", 100 * US), "cpu_op")
    found = by_rule(world)
    assert set(found) == {"idle"}
    assert found["idle"].gain_ns == pytest.approx(found["idle"].idle_ns)
    assert "while the host was launching" in found["idle"].what
    assert "--stacks" in found["idle"].advice


def test_a_first_step_that_warms_up_is_reported_if_there_are_three_others():
    def steps(*lengths):
        world = World()
        for number, dur in enumerate(lengths):
            world.within(f"ProfilerStep#{number}", lambda w, dur=dur: w.sleep(dur))
        return by_rule(world)

    assert steps(30 * MS, 10 * MS, 11 * MS, 10 * MS)["cold_start"].gain_ns == 20 * MS
    assert "cold_start" not in steps(30 * MS, 10 * MS)
    assert "cold_start" not in steps(12 * MS, 10 * MS, 11 * MS, 10 * MS)
    assert "cold_start" not in steps(10 * MS, 30 * MS, 10 * MS, 10 * MS)


def test_code_that_is_compiled_in_the_window_is_reported():
    world = World().kernels(5, 50 * US).sleep(300 * US)
    world.within("compile_inner (dynamo_timed)", lambda w: w.sleep(20 * MS)).kernels(5, 50 * US)
    found = by_rule(world)["compiling"]
    assert 20 * MS <= found.gain_ns <= 21 * MS
    assert "--warmup" in found.advice


def test_a_gpu_without_work_at_the_end_of_the_window():
    world = World().kernels(50, 100 * US)
    assert by_rule(world, started_ns=0, ended_ns=20 * MS)["idle_ends"].gain_ns == 20 * MS - 50 * 100 * US - 5 * US
    assert by_rule(world) == {}  # the window of a file ends with its events


def test_a_long_event_before_the_first_work_of_a_profiled_block_is_named():
    found = by_rule(World().within("load", lambda w: w.sleep(300 * MS)).kernels(50, 100 * US))
    assert found["idle_ends"].gain_ns == 300 * MS + 5 * US
    assert "longest in load (300 ms)" in found["idle_ends"].what


def test_a_function_whose_many_short_calls_fill_the_time_before_the_first_work_is_named():
    """A video of which 24 frames are decoded at once and resized one by one: resizing is most of the time."""

    def frames(w):
        for _ in range(24):
            w.within("resize", lambda w: w.sleep(7 * MS), "python_function")

    world = World().within("decode", lambda w: w.sleep(30 * MS), "python_function")
    found = by_rule(world.within("preprocess", frames, "python_function").kernels(50, 100 * US))
    assert "longest in preprocess (168 ms)" in found["idle_ends"].what


@pytest.mark.parametrize("name", ["load", "cudaFree"])
def test_what_a_file_has_before_its_first_work_is_outside_of_its_window(name):
    world = World().within(name, lambda w: w.sleep(300 * MS)).kernels(50, 100 * US)
    assert by_rule(world, source="file:kineto") == {}


def test_the_gains_of_a_file_do_not_depend_on_the_length_of_its_session():
    def session(before, after):
        world = World().sleep(before)
        for _ in range(5):
            world.kernels(10, 100 * US).within("save metrics", lambda w: w.sleep(5 * MS))
        world.kernels(1, 100 * US).wait().sleep(after)
        return by_rule(world.within("exit", lambda w: w.sleep(MS)), source="file:nsys")

    long, short = session(900 * MS, 500 * MS), session(0, 0)
    assert {rule: one.gain_ns for rule, one in long.items()} == {rule: one.gain_ns for rule, one in short.items()}
    assert long["host_work"].share_pct == short["host_work"].share_pct > 60


def test_most_kernels_tiny():
    found = by_rule(World().kernels(150, 3 * US, every=0, name="tiny"))
    # As fused kernels of 0.6 µs they would wait for their launches, the last of which is 298 µs after the first.
    assert found["tiny_kernels"].gain_ns == (5 + 150 * 3) * US - (298 + 5 + 0.6) * US
    assert "tiny_kernels" not in by_rule(World().kernels(150, 3 * US).kernels(200, 50 * US))


def test_kernels_that_fill_half_of_the_gpu_lose_half():
    small = by_rule(World().kernels(50, 100 * US, blocks_per_sm=0.5))["small_grids"]
    assert small.gain_ns == 50 * 50 * US
    assert by_rule(World().kernels(50, 100 * US, blocks_per_sm=1.0)) == {}
    by_grid = by_rule(World().kernels(50, 100 * US, grid="[27,1,1]"))["small_grids"]
    assert by_grid.gain_ns == 50 * 75 * US  # 27 of 108


FP32 = [
    "ampere_sgemm_128x64_tn",
    "volta_scudnn_128x64_relu_small_nn_v1",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>",
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw",
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>(int)",
    "Cijk_Ailk_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32",
]
NOT_FP32 = [
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn",
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x64",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
]


@pytest.mark.parametrize("name", FP32)
def test_fp32_products_are_recognized_by_their_names(name):
    found = by_rule(World().kernels(20, 100 * US, name=name))["fp32_math"]
    assert found.gain_ns == 20 * 100 * US * 7 // 8  # TF32 has 8 times the rate on an A100
    assert "autocast" in found.advice


@pytest.mark.parametrize("name", NOT_FP32)
def test_products_on_tensor_cores_are_no_finding(name):
    assert "fp32_math" not in by_rule(World().kernels(20, 100 * US, name=name))


def test_fp32_advice_depends_on_the_capability_of_the_gpu():
    def on(capability):
        return by_rule(World((capability, 80)).kernels(20, 100 * US, name=FP32[0]))

    assert "float16" in on(V100[0])["fp32_math"].advice
    assert "TF32" in on(A100[0])["fp32_math"].advice
    assert "fp32_math" not in on("6.1")


def attention(world, product="aten::bmm", middle="aten::softmax", between=2):
    for name in [product, *["aten::add"] * between, middle, *["aten::dropout"] * between, product]:
        world.within(name, lambda w: w.device("k", 50 * US), "cpu_op")


def test_unfused_attention():
    world = World()
    for _ in range(4):
        attention(world)
        world.within("aten::layer_norm", lambda w: w.device("norm", 20 * US), "cpu_op")
    found = by_rule(world)["eager_attention"]
    assert found.gain_ns == 4 * 5 * 50 * US  # the products remain
    assert "4 attentions" in found.what


def test_views_within_the_products_of_an_attention_do_not_remain():
    def product(world):
        world.within("aten::expand", lambda w: w.sleep(30 * US), "cpu_op")
        world.within("aten::bmm", lambda w: w.device("gemm", 4 * US).sleep(US), "cpu_op").sleep(US)

    world = World()
    for _ in range(6):
        for name in ("aten::matmul", "aten::softmax", "aten::matmul"):
            launch = product if name == "aten::matmul" else lambda w: w.device("softmax_kernel", 4 * US).sleep(US)
            world.within(name, launch, "cpu_op")
    found = by_rule(world)["eager_attention"]
    # Each attention takes 71 µs of the host; the kernels of its products, 8 µs, remain.
    assert found.alone_pct == pytest.approx(100 * (71 - 8) / 71, abs=2)


def test_a_softmax_over_classes_is_not_attention():
    world = World()
    for _ in range(4):
        attention(world, product="aten::addmm")
        attention(world, middle="aten::relu")
        attention(world, between=14)
    assert "eager_attention" not in by_rule(world)


def test_convolutions_that_try_algorithms():
    world = World()
    for trials in (20, 20, 1, 1, 1, 1):
        world.within("aten::cudnn_convolution", lambda w, n=trials: w.kernels(n, 20 * US), "cpu_op")
    found = by_rule(world)["autotuning"]
    # The median call launches one kernel. With a twentieth of their time they would wait for 40 launches of 2 µs.
    assert found.gain_ns == 40 * (20 - 2) * US
    assert len(found.rows) == 2


def test_pageable_copies_cost_the_time_in_which_nothing_else_ran():
    world = World().kernels(2, 100 * US)
    world.device("Memcpy HtoD (Pageable -> Device)", 4 * MS, cat="gpu_memcpy", stream=9, num_bytes=4 << 20)
    found = by_rule(world.kernels(20, 100 * US, stream=7))["pageable_copies"]
    arrays = TraceArrays(world.trace())
    copy = arrays.matching("^Memcpy")
    mine = arrays.is_work(copy)
    assert found.gain_ns == arrays.exposed(mine) == 1804 * US  # from 2205 to 4009 µs
    assert "pin_memory=True" in found.advice


def test_copies_beside_kernels_are_no_finding():
    world = World().kernels(10, 500 * US)
    for _ in range(5):
        world.device("Memcpy HtoD (Pinned -> Device)", 200 * US, cat="gpu_memcpy", stream=9, num_bytes=4 << 20)
    assert by_rule(world) == {}
    alone = World()
    for _ in range(5):
        alone.device("Memcpy HtoD (Pinned -> Device)", 200 * US, cat="gpu_memcpy", num_bytes=4 << 20)
        alone.kernels(2, 200 * US)
    # The first copy has nothing to run beside.
    assert by_rule(alone)["exposed_copies"].gain_ns == 4 * 200 * US


def test_copies_that_all_other_work_runs_beside_are_no_finding():
    """The copies take longer than the kernels, so a part of them is alone, and nothing is left to run beside it."""
    world = World()
    for _ in range(5):
        world.device("Memcpy HtoD (Pinned -> Device)", 400 * US, cat="gpu_memcpy", stream=9, num_bytes=8 << 20)
    assert "exposed_copies" not in by_rule(world.kernels(10, 30 * US, stream=7))


def test_layout_conversions():
    world = World().kernels(10, 100 * US).kernels(4, 100 * US, name="void nchwToNhwcKernel<float>(int)")
    assert by_rule(world)["layout_conversions"].gain_ns == 400 * US


def optimizer_steps(number, dur, every, op=None, cat="cpu_op", name="kernel_{}"):
    world = World()
    for _ in range(3):
        world.within("Optimizer.step#Adam.step", lambda w: w.kernels(number, dur, every=every, name=name)).wait()
    return by_rule(world.op(op, US) if op else world)


def test_an_optimizer_that_loops_over_parameters():
    found = optimizer_steps(40, 10 * US, 28 * US)["optimizer_loop"]
    # Each step launches once: 40 kernels of 10 µs remain of 39 launches every 30 µs.
    assert found.gain_ns == pytest.approx(3 * 39 * (30 - 10) * US, rel=0.03)
    assert "AdamW" not in found.advice
    assert "torch.optim.Adam(params, fused=True)" in found.advice


def test_an_optimizer_whose_kernels_are_long_gains_nothing_as_a_group():
    assert "optimizer_loop" not in optimizer_steps(40, 100 * US, 0)


def test_a_grouped_optimizer_is_no_loop():
    assert "optimizer_loop" not in optimizer_steps(40, 10 * US, 28 * US, "aten::_foreach_add_")
    assert "optimizer_loop" not in optimizer_steps(5, 10 * US, 28 * US)
    assert "optimizer_loop" not in optimizer_steps(40, 10 * US, 28 * US, name="multi_tensor_apply_kernel<{}>")


def test_gradients_set_to_zero():
    world = World()
    for _ in range(3):
        world.kernels(10, 100 * US)
        world.within("Optimizer.zero_grad#SGD.zero_grad", lambda w: w.device("Memset", 100 * US, cat="gpu_memset"))
    assert by_rule(world)["zero_grad"].gain_ns == 300 * US


def test_communication_that_is_not_overlapped():
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    world = World().kernels(10, 100 * US).device(name, 2 * MS)
    trace = world.trace()
    assert int(device_time(trace)["exposed_comm_ns"]) == 2 * MS
    # Beside 1 ms of computation no more than 1 ms can be hidden.
    assert by_rule(trace)["exposed_communication"].gain_ns == 10 * 100 * US


def test_communication_beside_all_of_the_computation_gains_nothing_from_overlap():
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    assert "exposed_communication" not in by_rule(World().kernels(10, 100 * US).device(name, 2 * MS, stream=20))


def test_operators_on_the_cpu_that_are_mostly_call_overhead():
    world = World()
    for _ in range(600):
        world.op("aten::add", 2 * US).sleep(3 * US)
    found = by_rule(world, source="cpu")["tiny_operators"]
    assert found.gain_ns == 600 * 2 * US
    slow = World()
    for _ in range(600):
        slow.op("aten::add", 20 * US).sleep(21 * US)
    assert by_rule(slow, source="cpu") == {}


def test_ranks_show_which_is_late_and_which_has_more_work():
    def rank(compute, waits):
        world = World()
        for _ in range(4):
            world.kernels(1, compute)
            world.sleep(compute).device("ncclKernel_AllReduce_RING", waits, stream=7)
        return world.trace()

    ranks = Ranks({0: rank(MS, 1100 * US), 1: rank(2 * MS, 100 * US)}, name="job")
    found = {one.rule: one for one in findings(ranks)}
    assert found["load_imbalance"].gain_ns == 4 * MS // 2
    assert found["straggler"].title == "waiting for rank 1"
    assert found["straggler"].gain_ns == 4 * MS  # without the second millisecond of each step on rank 1
    assert found["exposed_communication"].rank == 0


def test_findings_are_sorted_typed_and_the_same_each_time():
    world = World()
    for _ in range(10):
        world.kernels(12, 30 * US, every=8 * US, name=FP32[0]).wait(op="aten::item").sleep(200 * US)
    trace = world.trace()
    found = findings(trace)
    assert len(found) > 1
    assert [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
    assert findings(trace) == found
    for one in found:
        assert one.confidence in CONFIDENCES
        assert one.what.endswith(".")
        assert all(0 <= row < len(trace) for row in one.rows)
        assert list(one.rows) == sorted(one.rows)
        assert not one.is_modelled
    assert all(one.is_modelled for one in findings(world.trace(source="virtual:h100")))


@pytest.mark.parametrize("unit", [0, 1])
def test_device_work_of_no_length_is_no_error(unit):
    """A damaged file may hold nothing but zeros, of every kind of work that a rule looks for."""
    names = [*FP32, "nchwToNhwcKernel", "ncclKernel_AllReduce_RING", "Memcpy HtoD (Pageable -> Device)"]
    world = World()
    for _ in range(30):
        for name in names:
            cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            world.within("aten::copy_", lambda w, n=name, c=cat: w.device(n, US, cat=c, num_bytes=4), "cpu_op")
        world.within("Optimizer.step#SGD.step", lambda w: w.kernels(40, US))
    for row in world.rows:
        row["dur"] *= unit
        if "stream" in row:
            row["ts"], row["dur"] = row["ts"] * unit, 0
    trace = world.trace()
    assert findings(trace) is not None
    assert all(one.gain_ns is None or one.gain_ns >= 0 for one in findings(trace))


def test_nothing_is_found_in_nothing():
    assert findings(Trace(RunInfo(name="empty", source="cpu"))) == []
    assert all(rule.__doc__.startswith("``") for rule in RULES)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "wait", "sleep", "loader", "malloc"]), st.integers(1, 3000), st.integers(7, 9)
        ),
        min_size=2,
        max_size=40,
    )
)
def test_the_parts_of_idle_time_are_disjoint_and_within_it(acts):
    world = World().kernels(1, US)
    names = {"loader": "enumerate(DataLoader)#x", "malloc": "cudaMalloc"}
    for act, size, stream in acts:
        match act:
            case "kernel":
                world.device("k", size * US, stream=stream)
            case "wait":
                world.wait()
            case "sleep":
                world.sleep(size * US)
            case _:
                world.within(names[act], lambda w, size=size: w.sleep(size * US), "cuda_runtime")
    arrays = TraceArrays(world.trace())
    parts = arrays.idle
    pieces = [union(piece.start, piece.end) for piece in (parts.sync, parts.host_work, parts.launch)]
    every = [*parts.by_event.values(), *pieces, parts.outside]
    idle = np.zeros(int(arrays.end.max() // 100) + 2, bool)
    idle[: arrays.busy.start[0] // 100] = idle[arrays.busy.end[-1] // 100 : arrays.end.max() // 100] = True
    counted = np.zeros(len(idle), int)
    for start, end in zip(arrays.busy.end[:-1] // 100, arrays.busy.start[1:] // 100, strict=True):
        idle[start:end] = True
    for part in every:
        for start, end in zip(part.start // 100, part.end // 100, strict=True):
            counted[start:end] += 1
    assert counted.max(initial=0) <= 1
    assert not (counted[~idle] > 0).any()
    outside = arrays.wall_ns - arrays.span_ns
    assert sum(map(length, every)) + parts.queued.total_ns <= arrays.idle_ns + outside


@pytest.mark.parametrize("apart", [10**15, -(10**15)], ids=["later", "earlier"])
def test_a_window_of_another_clock_adds_no_idle_time(apart):
    trace = World().kernels(3, US).wait().trace()
    begin, end = trace.events["ts"].min(), (trace.events["ts"] + trace.events["dur"]).max()
    own, other = (
        TraceArrays(trace.replace(info=trace.info.replace(started_ns=int(begin + by), ended_ns=int(end + by)))).idle
        for by in (0, apart)
    )
    assert length(other.outside) == length(own.outside) > 0


@given(st.integers(8, 20), st.integers(3, 6), st.integers(0, 30), st.integers(0, 30))
def test_a_repeat_is_found_with_its_period_at_any_position(period, times, before, after):
    world = World().kernels(before, US, name="before_{}")
    for _ in range(times):
        world.kernels(period, US)
    found = find_repeat(TraceArrays(world.kernels(after, US, name="after_{}").trace()))
    is_most = times * period >= (before + times * period + after) / 2
    assert (found is not None) == is_most
    if found is not None:
        assert (found.period, found.times, found.first) == (period, times, before)


def test_small_grids_gain_no_more_than_the_memory_leaves():
    # 67 MB at 0.9 of the A100's 1,555 GB/s take 48 of each kernel's 200 µs; it uses a fourteenth of the device.
    shapes = {"shapes": "[[64, 262144], [262144, 64]]", "dtypes": '["c10::BFloat16", "c10::BFloat16"]'}

    def run(**more):
        world = World()
        for _ in range(20):
            act = lambda w: w.sleep(US).device("gemm", 200 * US, blocks_per_sm=0.07)  # noqa: E731
            world.within("aten::mm", act, "cpu_op", **more)
        return {one.rule: one.gain_ns for one in findings(world.wait().trace(), most=None)}

    num_bytes = 2 * (2 * 64 * 262_144 + 64 * 64)
    least = num_bytes / (1555 * 0.9)
    assert run()["small_grids"] == pytest.approx(20 * 0.93 * 200 * US, rel=0.01)
    assert run(**shapes)["small_grids"] == pytest.approx(20 * (200 * US - least), rel=0.05)


def test_copies_both_ways_are_counted_by_way():
    world, copy = World(), {"cat": "gpu_memcpy", "num_bytes": 4 << 20, "call": "cudaMemcpyAsync", "waits": True}
    for _ in range(4):
        world.device("Memcpy HtoD (Pageable -> Device)", MS, **copy)
    world.device("Memcpy DtoH (Device -> Pageable)", MS, **copy)
    assert "5 copies (4 to the GPU, 1 from it) used" in by_rule(world)["pageable_copies"].what


def test_a_copy_on_the_cpu_counts_once():
    world = World()
    for _ in range(10):
        world.within(
            "aten::to",
            lambda w: w.within(
                "aten::_to_copy", lambda w: w.within("aten::copy_", lambda w: w.sleep(MS), "cpu_op"), "cpu_op"
            ),
            "cpu_op",
        )
    world.within("aten::clone", lambda w: w.within("aten::copy_", lambda w: w.sleep(MS), "cpu_op"), "cpu_op")
    found = by_rule(world, source="cpu")["copies"]
    assert "copied or cast tensors 11 times, for 11.0 ms" in found.what


def test_the_work_of_an_optimizer_on_the_cpu_is_not_a_gain():
    def step(w):
        for _ in range(40):
            w.within("aten::add_", lambda w: w.sleep(90 * US), "cpu_op").sleep(10 * US)

    world = World()
    for _ in range(3):
        world.within("Optimizer.step#SGD.step", step)
    assert by_rule(world, source="cpu")["optimizer_loop"].gain_ns == 3 * 40 * 10 * US


def test_work_of_the_host_after_waits_is_not_what_the_waits_cost():
    world = World()
    for _ in range(6):
        world.kernels(3, MS).wait(op="aten::item").within("prepare the next test", lambda w: w.sleep(20 * MS))
    found = by_rule(world.kernels(1, MS).wait())
    assert found["host_work"].gain_ns == pytest.approx(6 * 20 * MS, rel=0.01)
    assert "host_sync" not in found or found["host_sync"].gain_ns < MS


def test_a_graph_that_the_program_captures_is_named():
    def capture(w):
        for name, ns in (("cudaStreamBeginCapture", 10 * US), ("work that is captured", 30 * MS)):
            w.within(name, lambda w, ns=ns: w.sleep(ns), "cuda_runtime" if name.startswith("cuda") else "cpu_op")
        w.within("cudaStreamEndCapture", lambda w: w.sleep(20 * US), "cuda_runtime")

    world = World().kernels(3, 100 * US).wait()
    capture(world)
    found = by_rule(world.kernels(3, 100 * US))
    assert found["graph_recording"].gain_ns == pytest.approx(30 * MS, rel=0.01)
    assert set(found) == {"graph_recording"}


@pytest.mark.parametrize(("lengths", "is_first"), [((50 * MS, 10 * US), True), ((50 * MS, 45 * MS), False)])
def test_an_operator_before_the_first_work_is_a_first_call_if_later_ones_are_short(lengths, is_first):
    world = World()
    for ns in lengths:
        world.within("aten::normal_", lambda w, ns=ns: w.sleep(ns), "cpu_op").kernels(10, 100 * US)
    assert ("--warmup" in by_rule(world)["idle_ends"].advice) == is_first


def test_communication_is_exposed_without_the_waits_of_streams():
    world = World()
    for _ in range(5):
        for _ in range(4):
            world.device("gemm", MS, stream=7)
        world.host("hipStreamWaitEvent", "cuda_runtime", world.now, US)
        world.free[20] = max(world.free.get(20, 0), world.free[7])
        world.device("ncclDevKernel_Generic", 6 * MS, stream=20)
        world.free[7] = world.free[20]
    found = by_rule(world.wait())
    assert "30.0 ms of 30.0 ms of communication ran while nothing computed" in found["exposed_communication"].what
