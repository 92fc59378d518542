"""For each rule: a run with a gain worked out by hand, one in which its advice gains nothing, and a near miss."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from findings_worlds import MS, US, World

from cudalens.analysis import findings

SGEMM, TF32 = "ampere_sgemm_128x64_tn", "ampere_tf32_s1688gemm_128x64_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{}>, std::array<char*, 3ul>>"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PINNED, PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"


@dataclass
class Row:
    """The three runs of a rule; `gain` in ns is that of the first."""

    rule: str
    gain: int
    right: Callable[[], World]
    without_gain: Callable[[], World]
    near_miss: Callable[[], World]


def hidden(act, *, times=10, steps=10):
    """Ten times: something of the host, and a step of 10 x 100 µs; behind work that hides all of it."""
    world = World().device("before", 300 * MS)
    for _ in range(times):
        act(world).kernels(steps, 100 * US)
    return world.wait()


def shown(act, *, times=10, steps=10):
    """The same with a GPU that is idle when the step is launched."""
    world = World().kernels(1, 10 * US)
    for _ in range(times):
        act(world).kernels(steps, 100 * US)
    return world.wait()


def range_of(name, ns, cat="user_annotation"):
    return lambda world: world.within(name, lambda w: w.sleep(ns), cat)


def after_each_step(name, *, steady=2 * MS, cat="user_annotation"):
    """Three runs of a host range: 2 ms on an idle GPU, hidden behind work, and under another name."""
    act = range_of(name, steady, cat)
    return (lambda: drained(act), lambda: hidden(act), lambda: drained(range_of(f"my {name[:9]}", 30 * US)))


def drained(act, times=10):
    """A step of 1 ms, which the host waits for without a call, then something of the host."""
    world = World()
    for _ in range(times):
        world.kernels(10, 100 * US).sleep(1 * MS)
        act(world)
    return world.kernels(10, 100 * US).wait()


def device_work(name, ns, *, beside=0, host=0, times=20, op=None, **more):
    """`times` kernels of one name, each with `beside` ns of a product, and `host` ns of the host before both."""

    def run():
        world = World(more.pop("capability", ("8.0", 108)))
        for _ in range(times):
            world.sleep(host)
            act = lambda w: w.device(name, ns, **more)  # noqa: E731
            world.within(op, act, "cpu_op") if op else act(world)
            if beside:
                world.device("sm80_gemm_bf16", beside)
        return world.wait()

    return run


def attention(middle, *, host=0, op="aten::bmm"):
    world = World()
    for _ in range(20):
        world.sleep(host)
        for name, ns in ((op, 100 * US), ("aten::softmax", middle), (op, 100 * US), ("aten::linear", 100 * US)):
            kernel = "softmax_kernel" if name == "aten::softmax" else "ampere_bf16_gemm"
            world.within(name, lambda w, kernel=kernel, ns=ns: w.device(kernel, ns, call_ns=US), "cpu_op")
    return world.wait()


def optimizer(kernel_ns, number, every=0):
    world = World()
    for _ in range(5):
        world.kernels(4, 100 * US)
        world.within("Optimizer.step#SGD.step", lambda w: w.kernels(number, kernel_ns, every))
    return world.wait()


MM = {"shapes": "[[1024, 512], [512, 4096]]", "dtypes": '["float", "float"]'}
#: Measured for this product on an A100 with 40 GB (NeuSight).
MM_NS = 348_341


def products(slower, host=0):
    world = World()
    for _ in range(20):
        world.sleep(host)
        act = lambda w: w.sleep(US).device("gemm_of_a_library", int(slower * MM_NS))  # noqa: E731
        world.within("aten::mm", act, "cpu_op", **MM)
    return world.wait()


def collective(elements, ns, *, beside=0, world=None):
    """Ten times: a collective of a message, `beside` of computation on another stream, and a step that needs both."""
    world = world or World()
    for _ in range(10):
        world.device("gemm", max(beside, 100 * US), stream=7)
        message = {"shapes": f"[[{elements}], []]"}
        world.within("nccl:all_reduce", lambda w: w.sleep(US).device(NCCL, ns, stream=20), "cpu_op", **message).wait()
    return world


def zeroed(name, *, host=0):
    world = World()
    for _ in range(10):
        world.kernels(2, 400 * US)
        world.sleep(host)
        world.within(name, lambda w: w.kernels(10, 30 * US, name="fill"))
    return world.wait()


def streams(first, second, ns=100 * US, blocks=0.2):
    world = World()
    for number in range(40):
        world.device("k", ns, stream=second if number % 2 else first, blocks_per_sm=blocks)
        world.now = max(world.free.values()) - 2 * US
    return world.wait()


def threads(second, ns=60 * US, blocks=0.2):
    world = World()
    for number in range(200):
        world.device("kernel", ns, stream=7, blocks_per_sm=blocks)
        world.rows[-2]["tid"] = second if number % 2 else 1
    return world


def graph(period, times, every, ns=10 * US):
    world = World()
    for _ in range(times):
        world.kernels(period, ns, every)
    return world.wait()


def distinct(number, every, ns=10 * US):
    world = World()
    for k in range(number):
        world.device(f"kernel_{k}", ns).sleep(every)
    return world.wait()


def waits(last_only=False, op="aten::item", number=20):
    world = World()
    for k in range(number):
        world.kernels(40, 30 * US, every=10 * US)
        world.wait(op=op).sleep(200 * US) if not last_only or k == number - 1 else world.sleep(200 * US)
    return world.wait() if op is not None else world


def steps(extra, number=6):
    world = World()
    for k in range(number):
        name, more = f"ProfilerStep#{k}", extra if k == 0 else 0
        world.within(name, lambda w, more=more: w.kernels(20, 100 * US).wait().sleep(more))
    return world


def convolutions(trials, of=2, host=0):
    world = World()
    for number in range(12):
        count = trials if number < of else 1
        world.within("aten::cudnn_convolution", lambda w, n=count: w.kernels(n, 100 * US), "cpu_op").sleep(host * count)
    return world.wait()


def on_cpu(name, ns, pause, number):
    world = World()
    for _ in range(number):
        world.op(name, ns).sleep(ns + pause)
    return world


def copies(name, ns, *, stream=7, num_bytes=15_000_000, waits=False, step=10, times=10, **more):
    world = World()
    for _ in range(times):
        world.device(
            name, ns, cat="gpu_memcpy", call="cudaMemcpyAsync", stream=stream, waits=waits, num_bytes=num_bytes, **more
        )
        world.kernels(step, 100 * US)
    return world.wait()


def calls(number, num_bytes, step=0):
    world = World().device("before", step) if step else World()
    for _ in range(number):
        world.device(PINNED, 2 * US, cat="gpu_memcpy", call="cudaMemcpyAsync", call_ns=6 * US, num_bytes=num_bytes)
    return world.kernels(5, 20 * US).wait()


def made_on_host(name, *, copied=PAGEABLE):
    """An operator of 600 µs on the CPU, and a copy of its result: 100 µs, and 7 µs for its operator and call."""

    is_pageable = copied == PAGEABLE

    def act(world):
        world.op(name, 600 * US).sleep(600 * US)
        return world.within(
            "aten::to",
            lambda w: (
                w.sleep(US)
                .device(
                    copied, 100 * US, cat="gpu_memcpy", call="cudaMemcpyAsync", waits=is_pageable, num_bytes=1 << 20
                )
                .sleep(US)
            ),
            "cpu_op",
        )

    return act


ROWS = [
    # 99 gaps of 20 µs: a launch every 30 µs, 10 µs of work
    Row("launch_bound", 99 * 20 * US, lambda: distinct(100, 28 * US), lambda: distinct(100, 28 * US, 40 * US),
        lambda: distinct(15, 28 * US)),
    Row("graphable", 119 * 20 * US, lambda: graph(12, 10, 28 * US), lambda: graph(12, 10, 28 * US, 40 * US),
        lambda: graph(12, 2, 28 * US)),
    # 20 waits: 200 µs of the host after each, and 8 µs until the next kernel runs
    Row("host_sync", 20 * (200 + 8) * US, waits, lambda: waits(last_only=True),
        lambda: World().kernels(40, 30 * US).wait("cudaDeviceSynchronize").kernels(40, 30 * US)),
    Row("data_loader", 10 * 2 * MS, *after_each_step(LOADER)),
    Row("garbage_collection", 10 * 2 * MS, *after_each_step("Python garbage collection")),
    Row("replay_check", 10 * 2 * MS, *after_each_step("cudalens: check of a replay")),
    Row("compiling", 10 * 2 * MS, *after_each_step("compile_inner (dynamo_timed)")),
    Row("graph_recording", 10 * 2 * MS, *after_each_step("CUDAGraphNode.record (dynamo_timed)")),
    Row("driver_memory", 10 * 2 * MS, *after_each_step("cudaMalloc", cat="cuda_runtime")),
    Row("host_work", 10 * 2 * MS, *after_each_step("write log")),
    Row("driver_calls", 10 * 2 * MS, *after_each_step("cudaGraphInstantiate", cat="cuda_runtime")),
    Row("cold_start", 40 * MS, lambda: steps(40 * MS), lambda: steps(0), lambda: steps(MS)),
    Row("idle_ends", 50 * MS,
        lambda: range_of("setup", 50 * MS)(World()).kernels(100, 100 * US).wait(),
        lambda: World().device("k", 60 * MS).within("setup", lambda w: w.sleep(50 * MS)),
        lambda: range_of("setup", MS)(World()).kernels(100, 100 * US).wait()),
    # 400 µs of exposed kernels of 2 µs become a fifth
    Row("tiny_kernels", round(0.8 * 200 * 4 * US),
        lambda: World().device("first", 2 * MS).kernels(200, 4 * US, call_ns=US).wait(),
        lambda: World().kernels(200, 4 * US, 20 * US).wait(),
        lambda: World().device("first", 2 * MS).kernels(200, 6 * US, call_ns=US).wait()),
    Row("small_grids", 20 * 200 * US, device_work("k", 400 * US, blocks_per_sm=0.5),
        device_work("k", 400 * US, blocks_per_sm=0.5, host=600 * US), device_work("k", 400 * US, blocks_per_sm=1.0)),
    # the tensor cores of the A100 have 8 times the rate
    Row("fp32_math", 20 * 700 * US, device_work(SGEMM, 800 * US), device_work(SGEMM, 800 * US, host=900 * US),
        device_work(TF32, 800 * US)),
    Row("float64_math", 20 * 400 * US, device_work(ADD.format("double"), 800 * US, beside=100 * US),
        device_work(ADD.format("double"), 800 * US, host=900 * US), device_work(ADD.format("float"), 800 * US)),
    Row("eager_attention", 20 * 200 * US, lambda: attention(200 * US), lambda: attention(200 * US, host=700 * US),
        lambda: attention(200 * US, op="aten::mm")),
    # FP32 products of an A100; 1.4 times the usual time is within the errors of the model
    Row("slow_kernels", 20 * MM_NS, lambda: products(2), lambda: products(2, host=1 * MS),
        lambda: products(1.4)),
    # 38 trials of 100 µs; one kernel a call remains
    Row("autotuning", 38 * 100 * US, lambda: convolutions(20), lambda: convolutions(20, host=120 * US),
        lambda: convolutions(7)),
    # four kernels in a row become one
    Row("unfused_pointwise", 20 * 300 * US,
        lambda: chain(4, 100 * US), lambda: chain(4, 100 * US, host=500 * US), lambda: chain(2, 100 * US)),
    Row("pageable_copies", 10 * 2400 * US,
        lambda: copies(PAGEABLE, 3 * MS, num_bytes=15_000_000, waits=True),
        lambda: copies(PAGEABLE, 3 * MS, stream=20, step=200, waits=False, num_bytes=75_000_000),
        lambda: copies(PAGEABLE, 8 * US, num_bytes=1 << 15)),
    Row("exposed_copies", 9 * 600 * US, lambda: copies(PINNED, 600 * US), lambda: copies(PINNED, 600 * US, stream=20),
        lambda: copies(PINNED, 40 * US)),
    Row("small_copies", 200 * 6 * US, lambda: calls(200, 64), lambda: calls(200, 64, 40 * MS), lambda: calls(15, 64)),
    Row("made_on_host", 10 * (600 + 2 + 5 + 100) * US,
        lambda: drained(made_on_host("aten::randn")), lambda: hidden(made_on_host("aten::randn", copied=PINNED)),
        lambda: drained(made_on_host("aten::stack"))),
    Row("layout_conversions", 20 * 150 * US,
        device_work("void cudnn::ops::nchwToNhwcKernel<__half, float>(int)", 150 * US, beside=200 * US),
        device_work("void cudnn::ops::nchwToNhwcKernel<__half, float>(int)", 150 * US, host=400 * US),
        device_work("void my_convolution_nhwc", 150 * US, beside=200 * US)),
    Row("copies", 20 * 80 * US, device_work("direct_copy_kernel_cuda", 80 * US, beside=200 * US, op="aten::copy_"),
        device_work("direct_copy_kernel_cuda", 80 * US, host=200 * US, op="aten::copy_"),
        device_work("add_kernel", 80 * US, beside=200 * US, op="aten::add")),
    # 159 launches of 22 µs less in each of five steps, all but the 2 µs that they ran for
    Row("optimizer_loop", 5 * 159 * 20 * US, lambda: optimizer(3 * US, 160, 20 * US),
        lambda: optimizer(400 * US, 40), lambda: optimizer(3 * US, 20, 20 * US)),
    Row("zero_grad", 10 * 10 * 30 * US, lambda: zeroed("Optimizer.zero_grad#SGD.zero_grad"),
        lambda: World().kernels(20, 400 * US).within("Optimizer.zero_grad#SGD.zero_grad", lambda w: w).wait(),
        lambda: zeroed("fill buffers")),
    Row("exposed_communication", 10 * 800 * US, device_work(NCCL, 800 * US, beside=2 * MS, times=10),
        device_work(NCCL, 800 * US, times=10), device_work(NCCL, 40 * US, beside=2 * MS, times=10)),
    # Eight kilobytes need 102 µs at most.
    Row("waiting_for_ranks", 10 * (2 * MS - 101_638), lambda: collective(1024, 2 * MS),
        lambda: collective(1024, 2 * MS, beside=3 * MS), lambda: collective(100 << 20, 2 * MS)),
    Row("streams_in_turns", 20 * 100 * US, lambda: streams(7, 20), lambda: streams(7, 20, blocks=2.0),
        lambda: streams(7, 7)),
    Row("threads_on_one_stream", 100 * 60 * US, lambda: threads(2), lambda: threads(2, blocks=2.0), lambda: threads(1)),
]  # fmt: skip

ON_CPU = [
    Row("tiny_operators", 1000 * 4 * US, lambda: on_cpu("aten::add", 4 * US, 0, 1000),
        lambda: on_cpu("aten::add", 4 * US, 40 * US, 1000), lambda: on_cpu("aten::add", 4 * US, 0, 400)),
    Row("python_between", 999 * 80 * US, lambda: on_cpu("aten::mm", 20 * US, 80 * US, 1000),
        lambda: on_cpu("aten::mm", 20 * US, 0, 1000), lambda: on_cpu("aten::mm", 20 * US, 80 * US, 400)),
    Row("python_work", 19 * 20 * MS, lambda: on_cpu("aten::mm", 5 * MS, 20 * MS, 20),
        lambda: on_cpu("aten::mm", 20 * MS, 2 * MS, 20), lambda: on_cpu("aten::mm", 5 * MS, 20 * MS, 3)),
]  # fmt: skip


def chain(number, ns, host=0):
    world = World()
    for _ in range(20):
        world.sleep(host).kernels(number, ns, name=ADD.format("float")).device("sm80_gemm_bf16", 50 * US)
    return world.wait()


def found(world, source):
    return {one.rule: one.gain_ns for one in findings(world.trace(source=source), most=None)}


ALL = [*((row, "cuda") for row in ROWS), *((row, "cpu") for row in ON_CPU)]
NAMED = {"argvalues": ALL, "ids": [row.rule for row, _ in ALL]}


@pytest.mark.parametrize(("row", "source"), **NAMED)
def test_the_gain_is_the_one_worked_out_by_hand(row, source):
    assert found(row.right(), source).get(row.rule) == pytest.approx(row.gain, rel=0.05)


@pytest.mark.parametrize(("row", "source"), **NAMED)
def test_it_is_silent_where_the_advice_would_gain_nothing(row, source):
    assert row.rule not in found(row.without_gain(), source)


@pytest.mark.parametrize(("row", "source"), **NAMED)
def test_it_is_silent_about_a_near_miss(row, source):
    assert row.rule not in found(row.near_miss(), source)


def test_waiting_beside_computation_takes_nothing_from_the_transfer_of_other_messages():
    world = collective(100 << 20, 2 * MS, world=collective(1024, 2 * MS, beside=3 * MS))
    (one,) = (one for one in findings(world.trace(), most=None) if one.rule == "exposed_communication")
    assert "at most 19.0 ms of it is transfer" in one.what


def test_a_small_tensor_before_the_copy_of_a_large_one_is_not_its_origin():
    """The profiler of torch 1.8 calls `aten::zeros` for each range, also before a batch is copied."""

    def act(world):
        world.op("aten::zeros", 8 * US).sleep(8 * US)
        return world.within(
            "aten::to",
            lambda w: (
                w.sleep(US)
                .device(PAGEABLE, MS, cat="gpu_memcpy", call="cudaMemcpyAsync", waits=True, num_bytes=8 << 20)
                .sleep(US)
            ),
            "cpu_op",
        )

    assert "made_on_host" not in found(drained(act), "cuda")


def test_pageable_copies_of_tensors_made_on_the_cpu_have_another_advice_than_those_of_a_batch():
    """On a virtual device the CPU's operators take a modelled time, whatever they write."""

    def step(name):
        def act(world):
            world.op(name, 8 * US).sleep(8 * US)
            copied = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync", "waits": True, "num_bytes": 8 << 20}
            return world.within("aten::to", lambda w: w.sleep(US).device(PAGEABLE, MS, **copied).sleep(US), "cpu_op")

        return act

    advice = {
        name: {one.rule: one.advice for one in findings(drained(step(name)).trace(source="virtual:a100"), most=None)}
        for name in ("aten::randn", "aten::stack")
    }
    assert advice["aten::randn"]["pageable_copies"].startswith("make them on the GPU")
    assert "pin_memory" in advice["aten::stack"]["pageable_copies"]
