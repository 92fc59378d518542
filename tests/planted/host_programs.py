"""Planted bottlenecks in made runs: host calls and streams of work, each with its fixed twin and its control."""

from __future__ import annotations

from cases import on_host
from findings_worlds import MS, US, World

from cudalens.frames import Trace

SGEMM = "ampere_sgemm_128x64_tn"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def steps(world: World, number: int, **more: object) -> World:
    """A step whose kernels keep the GPU at work for longer than the host launches."""
    return world.kernels(number, 100 * US, **more)


@on_host("data loader", "data_loader")
def loader_in_the_process(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(8):
        if is_planted:
            world.within(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                lambda w: w.sleep(4 * MS if not is_control else 20 * US),
            )
        steps(world, 10)
    return world.wait().trace()


@on_host("data loader", "data_loader", control=False)
def workers_too_slow(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(8):
        if is_planted:
            world.within("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", lambda w: w.sleep(6 * MS))
        steps(world, 5)
    return world.wait().trace()


@on_host("host work", "host_work")
def logging_in_loop(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(6):
        steps(world, 10)
        if is_planted:
            world.within("write log", lambda w: w.sleep(5 * MS if not is_control else 300 * US))
    return world.wait().trace()


@on_host("Python between operators with a GPU", "host_work")
def python_between_launches(is_planted: bool, is_control: bool) -> Trace:
    """Half a millisecond of Python before each launch."""
    world = World()
    for _ in range(40):
        world.within("aten::mm", lambda w: w.kernels(1, 300 * US if not is_control else MS), "cpu_op")
        world.sleep(500 * US if is_planted else 5 * US)
    return world.wait().trace()


@on_host("garbage collection", "garbage_collection")
def garbage_between_steps(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        steps(world, 10)
        if is_planted:
            world.within("Python garbage collection", lambda w: w.sleep(3 * MS if not is_control else 200 * US))
    return world.wait().trace()


@on_host("compiling in the window", "compiling")
def compiling_in_window(is_planted: bool, is_control: bool) -> Trace:
    world = steps(World(), 10)
    if is_planted:
        world.within("compile_inner (dynamo_timed)", lambda w: w.sleep(30 * MS if not is_control else 100 * US))
    return steps(world, 50).wait().trace()


@on_host("compiling in the window", "compiling", control=False)
def module_loads(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(5):
        if is_planted:
            world.within("cuModuleLoadData", lambda w: w.sleep(2 * MS), "cuda_driver")
        world.kernels(4, 100 * US)
    return world.wait().trace()


@on_host("first launches", "driver_calls", control=False)
def slow_first_launch(is_planted: bool, is_control: bool) -> Trace:
    world = World().kernels(5, 100 * US).sleep(600 * US)
    if is_planted:
        world.device("first", 100 * US, call_ns=25 * MS)
        world.rows[-1]["ts"] += 25 * MS
        world.free[7] = world.rows[-1]["ts"] + 100 * US
    else:
        world.device("first", 100 * US)
    return world.kernels(60, 100 * US).wait().trace()


@on_host("work before the first kernel", "idle_ends", control=False)
def context_creation(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    world.within("cudaDeviceGetStreamPriorityRange", lambda w: w.sleep(800 * MS if is_planted else MS), "cuda_runtime")
    return steps(world, 300).wait().trace()


@on_host("driver memory", "driver_memory")
def malloc_in_each_step(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        if is_planted:
            world.within("cudaMalloc", lambda w: w.sleep(2 * MS if not is_control else 100 * US), "cuda_runtime")
        steps(world, 8)
    return world.wait().trace()


@on_host("cold start", "cold_start", control=False)
def cold_first_step(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for number in range(6):
        extra = 40 * MS if is_planted and number == 0 else 0
        world.within(f"ProfilerStep#{number}", lambda w, extra=extra: w.kernels(20, 100 * US).wait().sleep(extra))
    return world.trace()


@on_host("late launches", "launch_bound", "graphable")
def slow_launches(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for number in range(300):
        world.device(f"kernel_{number}", 10 * US if not is_control else 80 * US)
        world.sleep(38 * US if is_planted else 6 * US)
    return world.wait().trace()


@on_host("late launches of a repeating region", "graphable")
def repeated_launches(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(30):
        world.kernels(12, 10 * US if not is_control else 80 * US, every=38 * US if is_planted else 6 * US)
    return world.wait().trace()


@on_host("waits", "host_sync")
def waits_in_each_step(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for number in range(20):
        world.kernels(40, 30 * US, every=10 * US)
        if is_planted and (not is_control or number == 19):
            world.wait(op="aten::item").sleep(200 * US)
        else:
            world.sleep(200 * US)
    return world.wait().trace()


@on_host("waits", "host_sync", control=False)
def waits_at_two_lines(is_planted: bool, is_control: bool) -> Trace:
    """Two waits in a row: without one of them the host waits in the other."""
    world = World()
    for _ in range(20):
        world.kernels(10, 60 * US, every=10 * US)
        if is_planted:
            world.wait(op="aten::item")
        world.kernels(1, 20 * US)
        if is_planted:
            world.wait(op="aten::is_nonzero")
        world.sleep(150 * US)
    return world.wait().trace()


@on_host("pageable copies", "pageable_copies", "host_sync", control=False)
def pageable_each_step(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        if is_planted:
            world.device(
                "Memcpy HtoD (Pageable -> Device)", 3 * MS, cat="gpu_memcpy", call="cudaMemcpyAsync", waits=True,
                num_bytes=18_000_000,
            )  # fmt: skip
        else:
            world.device(
                "Memcpy HtoD (Pinned -> Device)", 750 * US, cat="gpu_memcpy", call="cudaMemcpyAsync",
                num_bytes=18_000_000,
            )  # fmt: skip
        steps(world, 10)
    return world.wait().trace()


@on_host("copies not overlapped", "exposed_copies")
def pinned_on_the_same_stream(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        stream = 7 if is_planted else 20
        world.device(
            "Memcpy HtoD (Pinned -> Device)", 600 * US if not is_control else 10 * US, cat="gpu_memcpy", stream=stream,
            num_bytes=15_000_000,
        )  # fmt: skip
        steps(world, 12)
    return world.wait().trace()


@on_host("communication", "exposed_communication")
def reductions_after_backward(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(10):
        world.device(NCCL, 800 * US if not is_control else 20 * US, stream=7 if is_planted else 20)
        steps(world, 20)
    return world.wait().trace()


@on_host("communication", "exposed_communication", control=False)
def more_communication_than_work(is_planted: bool, is_control: bool) -> Trace:
    """Only the time of the computation can be hidden."""
    world = World()
    for _ in range(10):
        world.device(NCCL, 3 * MS, stream=7 if is_planted else 20)
        steps(world, 10)
    return world.wait().trace()


@on_host("layouts", "layout_conversions")
def layout_conversions(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(20):
        if is_planted:
            dur = 150 * US if not is_control else 4 * US
            world.device("void cudnn::ops::nchwToNhwcKernel<__half, float>(int)", dur)
        world.kernels(3, 200 * US, name="sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwc")
    return world.wait().trace()


@on_host("FP32 products", "fp32_math")
def sgemm(is_planted: bool, is_control: bool) -> Trace:
    """TF32 reaches five times the rate of FP32 here."""
    world = World()
    for _ in range(40):
        dur = 20 * US if is_control else 800 * US if is_planted else 160 * US
        world.device(SGEMM if is_planted else "ampere_tf32_s1688gemm_128x64_tn", dur)
        world.kernels(1, 100 * US if not is_control else MS)
    return world.wait().trace()


@on_host("kernels slower than usual", "slow_kernels")
def slow_products(is_planted: bool, is_control: bool) -> Trace:
    """Products at their measured times on an A100 (NeuSight), of which one shape takes twice as long."""
    measured = {(1024, 960, 2880): 423_509, (960, 1024, 3840): 587_733, (1024, 512, 4096): 348_341}
    slow = (960, 1024, 3840)
    world = World()
    for _ in range(20):
        for (m, k, n), ns in measured.items():
            world.sleep(1300 * US if is_control else 0)
            factor = 2 if is_planted and (m, k, n) == slow else 1
            shapes = f"[[{m}, {k}], [{k}, {n}]]"
            world.within(
                "aten::mm",
                lambda w, ns=factor * ns: w.sleep(US).device("a_gemm", ns),
                "cpu_op",
                shapes=shapes,
                dtypes='["float", "float"]',
            )
    return world.wait().trace()


@on_host("float64", "float64_math", control=False)
def doubles(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(30):
        name = "double" if is_planted else "float"
        world.device(
            f"void at::native::vectorized_elementwise_kernel<4, at::native::sin_kernel_cuda<{name}>, {name}, 2>",
            400 * US if is_planted else 200 * US,
        )
        world.device("sm80_gemm_bf16", 100 * US)
    return world.wait().trace()


@on_host("autotuning", "autotuning", control=False)
def cudnn_benchmark(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for number in range(12):
        trials = 20 if is_planted and number < 2 else 1
        world.within("aten::cudnn_convolution", lambda w, n=trials: w.kernels(n, 100 * US), "cpu_op")
        steps(world, 2)
    return world.wait().trace()


@on_host("unfused attention", "eager_attention", control=False)
def attention_in_pieces(is_planted: bool, is_control: bool) -> Trace:
    """Two products of 100 µs remain in the fused kernel."""
    world = World()
    for _ in range(20):
        if is_planted:
            for op, dur in (("aten::bmm", 100), ("aten::add", 90), ("aten::softmax", 120), ("aten::bmm", 100)):
                name = "ampere_bf16_s16816gemm" if op == "aten::bmm" else "elementwise_kernel"
                world.within(op, lambda w, name=name, dur=dur: w.device(name, dur * US), "cpu_op")
        else:
            world.within("aten::sdpa", lambda w: w.device("flash_fwd_kernel", 200 * US), "cpu_op")
        world.within("aten::linear", lambda w: w.device("ampere_bf16_gemm", 200 * US), "cpu_op")
    return world.wait().trace()


@on_host("threads on one stream", "threads_on_one_stream", control=False)
def two_threads(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for number in range(200):
        tid = 1 + number % 2
        world.device("kernel", 60 * US, stream=7 if is_planted else 7 + tid, blocks_per_sm=0.2)
        world.rows[-2]["tid"] = tid
    return world.trace()


@on_host("copies on the device", "copies", control=False)
def contiguous_everywhere(is_planted: bool, is_control: bool) -> Trace:
    world = World()
    for _ in range(30):
        if is_planted:
            world.within("aten::copy_", lambda w: w.device("direct_copy_kernel_cuda", 80 * US), "cpu_op")
        world.kernels(2, 100 * US)
    return world.wait().trace()


@on_host("unfused optimizer", "optimizer_loop")
def optimizer_one_by_one(is_planted: bool, is_control: bool) -> Trace:
    """A grouped step takes four kernels; where kernels are long it reads and writes as much."""
    world = World()
    for _ in range(5):
        steps(world, 20)

        def step(w: World) -> None:
            if is_control:
                w.kernels(31 if is_planted else 4, 400 * US if is_planted else 31 * 100 * US)
            else:
                w.kernels(160 if is_planted else 4, 3 * US if is_planted else 12 * US, every=20 * US)

        world.within("Optimizer.step#AdamW.step", step)
    return world.wait().trace()


@on_host("tiny kernels", "tiny_kernels", "graphable", "launch_bound", control=False)
def tiny_kernels(is_planted: bool, is_control: bool) -> Trace:
    """A GPU that is never idle, in kernels of 4 µs."""
    world = World()
    world.device("first", 10 * MS)
    for number in range(1500):
        if is_planted or number % 5 == 0:
            world.device(f"kernel_{number % 400}", 4 * US, call_ns=US)
    return world.wait().trace()
