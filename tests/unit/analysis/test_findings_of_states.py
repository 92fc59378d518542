"""Rules that need memory, readings, threads or ranks: right, present without a gain, and a near miss."""

import numpy as np
import pandas as pd
import pytest
from findings_worlds import MS, US, World

from cudalens.analysis import findings
from cudalens.frames import Ranks, build_memory
from cudalens.frames.build import metrics_frame
from cudalens.frames.info import Threads

TOTAL = 40 << 30  # of the device of `World`


def held(share, kind="cuda", action="alloc"):
    """A row of memory: that share of the device is reserved."""
    known = {"action": pd.Categorical([action]), "device_type": pd.Categorical([kind])}
    numbers = {"ts": np.array([1]), "num_bytes": np.array([1]), "device": pd.array([0], dtype="Int32")}
    reserved = pd.array([int(share * TOTAL)], dtype="Int64")
    return known | numbers | {"reserved_bytes": reserved, "allocated_bytes": reserved}


def found(world, memory=None, readings=None, **info):
    trace = world.trace(**info)
    if memory is not None:
        trace = trace.replace(memory=build_memory(memory, trace.events))
    if readings is not None:
        trace = trace.replace(metrics=readings)
    return {one.rule: one for one in findings(trace, most=None)}


def repeated(op, kernel_ns, *, inside, host=0):
    """20 times an operator within a range of autograd or of the program, and 400 µs of a product."""
    world = World()
    for _ in range(20):
        world.sleep(host)
        launch = lambda w: w.within(op, lambda v: v.device("k", kernel_ns).sleep(US), "cpu_op").sleep(US)  # noqa: E731
        world.within(inside, launch, "cpu_op").device("sm80_gemm_bf16", 400 * US)
    return world.wait()


NODE = "autograd::engine::evaluate_function: CheckpointFunctionBackward"


def test_recomputation_with_memory_to_spare():
    world = repeated("aten::linear", 200 * US, inside=NODE)
    one = found(world, held(0.2))["needless_checkpointing"]
    assert one.gain_ns == pytest.approx(20 * 200 * US, rel=0.05)
    assert "computed 20 forward operators again, for 4.00 ms of GPU time" in one.what


def test_recomputation_that_costs_nothing_or_is_needed_or_is_the_forward_pass():
    hidden = repeated("aten::linear", 200 * US, inside=NODE, host=800 * US)
    assert "needless_checkpointing" not in found(hidden, held(0.2))
    assert "needless_checkpointing" not in found(repeated("aten::linear", 200 * US, inside=NODE), held(0.6))
    assert "needless_checkpointing" not in found(repeated("aten::linear", 200 * US, inside="forward"), held(0.2))
    assert "needless_checkpointing" not in found(repeated("aten::linear", 200 * US, inside=NODE))


def test_a_dense_gradient_of_an_embedding():
    world = repeated("aten::embedding_dense_backward", 800 * US, inside="EmbeddingBackward0")
    one = found(world)["dense_embedding"]
    assert one.gain_ns == pytest.approx(20 * (800 - 60) * US, rel=0.05)
    assert one.what == "20 gradients of embeddings were written as dense tables, in 16.0 ms of GPU time."


def test_a_dense_gradient_of_an_embedding_also_costs_in_the_optimizer():
    world = World()
    backward = lambda w: w.device("FillFunctor<float>", 200 * US).device("embedding_backward_kernel", 10 * US)  # noqa: E731
    for _ in range(5):
        world.within("aten::embedding_dense_backward", backward, "cpu_op")
        step = lambda w: w.device("multi_tensor_apply_kernel", 700 * US)  # noqa: E731
        world.within("Optimizer.step#SGD.step", step).device("sm80_gemm_bf16", 400 * US)
    one = found(world.wait())["dense_embedding"]
    # Of the optimizer's 700 µs, the table is three passes of 200 µs.
    assert one.gain_ns == pytest.approx(5 * (210 + 600 - 60) * US, rel=0.02)


def test_a_dense_gradient_that_costs_nothing_or_is_of_a_small_table():
    dense = "aten::embedding_dense_backward"
    assert "dense_embedding" not in found(repeated(dense, 800 * US, inside="EmbeddingBackward0", host=1500 * US))
    assert "dense_embedding" not in found(repeated(dense, 70 * US, inside="EmbeddingBackward0"))
    assert "dense_embedding" not in found(repeated("aten::index_put_", 800 * US, inside="IndexBackward0"))


def test_a_full_memory():
    world = World().kernels(10, 100 * US).wait()
    assert found(world, held(0.95))["memory_full"].what == "Torch reserved 38.0 GiB of the GPU's 40.0 GiB."
    assert "1 allocation failed" in found(world, held(0.5, action="oom"))["memory_full"].what


def test_a_memory_with_room_and_that_of_the_host():
    world = World().kernels(10, 100 * US).wait()
    assert "memory_full" not in found(world, held(0.89))
    assert "memory_full" not in found(world, held(0.95, "cpu"))
    assert "memory_full" not in found(world)


def readings(slowed, busy=90.0):
    number = len(slowed)
    busy = [busy] * number if isinstance(busy, float) else busy
    known = {"ts": [1 + k for k in range(number)], "device": [0] * number, "physical_index": [0] * number}
    return metrics_frame(known | {"gpu_busy_pct": busy, "slowed_by": slowed})


def test_throttled_clocks():
    world = World().kernels(10, 100 * US).wait()
    one = found(world, readings=readings(["heat", ""] * 5))["slow_clocks"]
    assert one.what == "The GPU's clocks were throttled by heat in 50 % of the readings of a busy GPU."


def test_clocks_that_are_seldom_throttled_or_only_while_nothing_runs():
    world = World().kernels(10, 100 * US).wait()
    assert "slow_clocks" not in found(world, readings=readings(["heat"] + [""] * 19))
    idle = [0.0] * 5 + [90.0] * 5
    assert "slow_clocks" not in found(world, readings=readings(["power cap"] * 5 + [""] * 5, idle))


def on_threads(op_ns, pause, torch, cpus, number=50):
    world = World()
    for _ in range(number):
        world.op("aten::mm", op_ns).sleep(op_ns + pause)
    return found(world, source="cpu", extra=Threads(torch, cpus).to_extra())


def test_one_thread_of_eight_cpus():
    assert on_threads(MS, US, 1, 8)["one_cpu_thread"].gain_ns == 50 * MS * 7 // 8


def test_one_thread_that_is_enough():
    assert "one_cpu_thread" not in on_threads(MS, 20 * MS, 1, 8)  # operators are 5 % of the run
    assert "one_cpu_thread" not in on_threads(90 * US, 0, 1, 8, 500)  # too small to share
    assert "one_cpu_thread" not in on_threads(MS, US, 4, 8)


def rank(compute, transfer=100 * US, wait=0, host=0):
    world = World()
    for _ in range(4):
        world.kernels(1, compute).sleep(compute + host).device("ncclKernel_AllReduce_RING", transfer + wait)
    return world.trace()


def test_a_rank_with_more_work_for_which_the_other_waits():
    ranks = Ranks({0: rank(MS, wait=MS), 1: rank(2 * MS)}, name="job")
    assert {one.rule: one for one in findings(ranks)}["load_imbalance"].gain_ns == 4 * MS // 2


def test_a_rank_with_more_work_while_both_wait_for_their_hosts():
    ranks = Ranks({0: rank(MS, host=3 * MS), 1: rank(2 * MS, host=2 * MS)}, name="job")
    assert not {"load_imbalance", "straggler"} & {one.rule for one in findings(ranks, most=None)}


def test_a_rank_with_8_percent_more_work_is_no_imbalance():
    ranks = Ranks({0: rank(MS, wait=80 * US), 1: rank(MS + 80 * US)}, name="job")
    assert "load_imbalance" not in {one.rule for one in findings(ranks, most=None)}
