"""Advice and figures that large public traces of torch showed to be wrong: each test is a small program of the kind."""

import pytest
from findings_worlds import MS, US, World
from test_findings_of_unseen_files import by_rule

from cudalens.frames import DeviceInfo

KINETO = {"source": "file:kineto"}
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)"
PYTHON = "python_function"
BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"


def reduced(names=("aten::mm",)):
    """Layers with an all-reduce after each, launched within operators of `names`."""
    world = World()
    for _ in range(20):
        for name in names:
            world.within(name, lambda w: w.device("sm90_xmma_gemm_bf16", 100 * US), "cpu_op")
        world.device(ALL_REDUCE, 50 * US)
    return by_rule(world.wait(), **KINETO)["exposed_communication"].advice


def test_an_all_reduce_of_inference_is_that_of_tensor_parallelism():
    assert "DDP" not in reduced()
    assert "tensor parallel" in reduced()


def test_an_all_reduce_of_training_is_that_of_gradients():
    assert "DDP buckets" in reduced(("aten::mm", BACKWARD))


@pytest.mark.parametrize(
    ("name", "has_optimizer", "is_compiled"),
    [("aten::mm", False, False), (BACKWARD, True, False), ("aten::mm", False, True)],
    ids=["inference", "training", "compiled inference"],
)
def test_tiny_kernels_of_inference_are_not_those_of_an_optimizer(name, has_optimizer, is_compiled):
    world = World()
    kernel = "triton_poi_fused_add_{}" if is_compiled else "add_{}"
    world.within(name, lambda w: w.device("gemm", MS).kernels(400, 4 * US, name=kernel), "cpu_op")
    advice = by_rule(world.wait(), **KINETO)["tiny_kernels"].advice
    assert ("optimizers" in advice) is has_optimizer
    assert ("torch.compile(model)" in advice) is not is_compiled


def on_several(number):
    """Ranks in one file, each with its GPU: messages of 1 MiB that take 60 ms, beside which the rank does not work."""
    world = World()
    for gpu in range(number):

        def send(world, gpu=gpu):
            world.sleep(US).device(ALL_REDUCE, 60 * MS, stream=10 * gpu, device=gpu).sleep(US)

        world.device("gemm", 20 * MS, stream=10 * gpu, device=gpu)
        for _ in range(2):
            world.within("nccl:all_reduce", send, "user_annotation", shapes="[[131072]]")
    return by_rule(world.wait(), **KINETO)


def test_waiting_of_ranks_in_one_file_is_that_of_one_gpu():
    alone, together = on_several(1)["waiting_for_ranks"], on_several(4)["waiting_for_ranks"]
    assert together.gain_ns == pytest.approx(alone.gain_ns, rel=0.05)
    assert "of GPU" in together.what
    assert "load_ranks" not in together.advice


def test_communication_is_exposed_where_the_same_gpu_does_not_compute():
    world = World()
    world.device("gemm", MS, stream=0, device=0)  # the first computes while the second communicates
    for _ in range(10):
        for gpu in range(2):
            world.device(ALL_REDUCE, MS, stream=10 * gpu, device=gpu)
            world.device("gemm", MS, stream=10 * gpu, device=gpu)
    one = by_rule(world.wait(), **KINETO)["exposed_communication"]
    assert one.gain_ns == pytest.approx(10 * MS, rel=0.2)
    assert "10.0 ms of 10.0 ms of communication of GPU" in one.what


def test_work_that_was_launched_in_time_and_begins_late_waited_for_what_is_not_recorded():
    world = World()
    for _ in range(10):
        world.device("a", MS)
        world.free[7] += 9 * MS  # the stream does something that no row shows
        world.device("b", MS)
    one = by_rule(world.wait(), **KINETO)["idle"]
    assert "launched in time" in one.what
    assert "another process" in one.advice
    unknown = World().kernels(20, MS)
    unknown.rows = [row | {"ts": 5 * row["ts"]} for row in unknown.rows if row["cat"] == "kernel"]
    assert "another process" not in by_rule(unknown, **KINETO)["idle"].advice


def copied(op, name, around=None):
    world = World()
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"

    def act(world):
        world.sleep(US).within(op, lambda w: w.sleep(US).device(name, MS, cat=cat).sleep(US), "cpu_op").sleep(US)

    world.device("nothing", US, call="cudaGraphLaunch")

    def move(world):
        batch = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync", "stream": 9, "num_bytes": 64 << 20}
        world.sleep(US).device("Memcpy HtoD (Pinned -> Device)", MS, **batch).sleep(US)

    for _ in range(20):
        # A batch from pinned memory, which is no cast.
        world.device("gemm", MS).within("aten::_to_copy", move, "cpu_op")
        if around:
            world.within(around, lambda w: act(w.sleep(US)), "cpu_op")
        else:
            act(world)
    return by_rule(world.wait(), **KINETO)["copies"].advice


def test_copies_of_a_batch_are_not_casts():
    assert "autocast" not in copied("aten::copy_", "Memcpy DtoD (Device -> Device)")


def test_casts_by_the_program_are_not_those_of_autocast():
    kernel = "void at::native::unrolled_elementwise_kernel<direct_copy>"
    assert "autocast" not in copied("aten::_to_copy", kernel)
    assert "autocast" in copied("aten::_to_copy", kernel, "aten::linear")


def test_copies_around_graphs_of_torch_compile_are_of_their_inputs_and_outputs():
    assert "mark_static_address" in copied("aten::copy_", "Memcpy DtoD (Device -> Device)", "CompiledFunction")


def launched_late(around):
    world = World()
    for k in range(60):
        launch = lambda w: w.sleep(60 * US).device(f"triton_poi_fused_{7**k % 61}", 20 * US)  # noqa: B023, E731
        world.within(around, launch, "user_annotation")
    return by_rule(world.op("aten::add", US).wait(), **KINETO)["launch_bound"].advice


def test_launch_gaps_of_a_compiled_region_need_a_graph():
    assert "reduce-overhead" in launched_late("Torch-Compiled Region: 0/0")
    assert "to fuse small operators" not in launched_late("## Call CompiledFxGraph fabc ##")
    assert "to fuse small operators" in launched_late("forward")


def with_python(name):
    world = World()
    for _ in range(10):
        world.device("a", MS)
        world.within(name, lambda w: w.sleep(5 * MS).device("b", MS), PYTHON)
    return by_rule(world.op("aten::add", US).wait(), **KINETO)["host_work"].advice


def test_time_within_a_python_function_is_its_own_or_that_of_code_without_events():
    assert "py-spy" in with_python("vllm/model_executor/models/llama.py(374): forward")
    assert "logging" not in with_python("vllm/model_executor/models/llama.py(374): forward")
    assert "cpp_wrapper" in with_python("/tmp/torchinductor_root/ov/cov463qh.py(2533): call")


def test_time_in_many_python_calls_is_that_of_the_function_around_them():
    def work(world):
        for _ in range(500):
            world.sleep(2 * US).within(
                "torch/nn/modules/module.py(1951): __getattr__", lambda w: w.sleep(8 * US), PYTHON
            )

    world = World().op("aten::add", US)
    for _ in range(10):
        world.device("a", MS).within("diffusers/hooks/hooks.py(268): _set_context", work, PYTHON).device("b", MS)
    one = by_rule(world.wait(), **KINETO)["host_work"]
    assert "_set_context" in one.what
    assert "functions that _set_context" in one.advice


def called(world, name, dur=5 * MS):
    return world.host(name, "cuda_runtime", world.now, dur).sleep(dur)


def trained(steps, allocates_in):
    """Optimizer steps without a range around each; memory is requested in some of them."""
    world = World().op("aten::add", US)
    for step in range(steps):
        if step in allocates_in:
            for _ in range(4):
                free = lambda w: called(w.sleep(US), "cudaFree", 20 * MS).sleep(US)  # noqa: E731
                called(world.within("aten::addmm", free, "cpu_op"), "cudaMalloc").device("gemm", MS)
        world.kernels(10, MS)
        world.within("Optimizer.step#SGD.step", lambda w: w.device("add", MS))
        world.sleep(MS).op("aten::add", US).sleep(30 * MS)
    return by_rule(world, **KINETO)["driver_memory"].advice


def test_memory_of_the_first_optimizer_step_is_a_warm_up():
    assert "warm-up" in trained(6, {0})
    assert "warm-up" not in trained(6, range(6))


def test_one_long_call_late_in_a_first_pass_is_a_warm_up():
    """cuDNN's set-up in a first convolution, after other first calls."""
    world = World().op("aten::add", US)
    free = lambda dur: world.within("aten::conv2d", lambda w: called(w.sleep(US), "cudaFree", dur).sleep(US), "cpu_op")  # noqa: E731
    world.device("gemm", 100 * US)
    for dur in (333 * MS, 103 * MS):
        free(dur).device("conv", 100 * US).sleep(300 * MS)
    for _ in range(20):
        called(world, "cudaMalloc", MS).device("add", 900 * US)
    for _ in range(3):
        called(free(100 * US), "cudaMalloc", MS).device("add", 900 * US)
    assert "warm-up" in by_rule(world, **KINETO)["driver_memory"].advice


def freed(in_operators):
    world = World()
    for _ in range(40):
        called(world, "hipMalloc", 100 * US)
        world.device("gemm", 500 * US)
        if in_operators:
            world.within("aten::relu", lambda w: called(w.sleep(US), "hipFree", MS).sleep(US), "cpu_op")
        else:
            world.op("aten::relu", 10 * US).sleep(20 * US)
            called(world, "hipFree", MS)
    return by_rule(world.wait(), **KINETO)["driver_memory"].advice


def test_memory_that_operators_free_has_no_caching_allocator():
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING" in freed(in_operators=True)
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING" not in freed(in_operators=False)


def attentions(pause):
    """A first pass, in which the operators of small attentions take long on the host."""
    world = World()
    for _ in range(10):
        world.kernels(2, 2 * MS, name="gemm")
        world.wait()
        for name in ("aten::bmm", "aten::softmax", "aten::bmm"):
            shapes = {"shapes": "[[8, 64, 64], [8, 64, 64]]"}
            world.within(name, lambda w: w.sleep(pause).device("k", 20 * US), "cpu_op", **shapes)
    return by_rule(world.wait(), **KINETO)["eager_attention"]


def test_attention_gains_at_most_its_kernels_and_the_idle_time_before_them():
    one = attentions(300 * US)
    idle_before = 10 * 3 * 305 * US
    assert one.gain_ns <= 10 * 20 * US + idle_before


def test_waits_that_repeat_between_work_are_not_for_work_before_the_recording():

    def advice(number):
        """The host has launched a kernel milliseconds before it starts, and waits for it."""
        world = World().op("aten::add", US)
        for _ in range(number):
            world.free[7] = world.now + 4 * MS
            world.device("solve", 100 * US).sleep(US)
            called(world, "cudaStreamSynchronize", 4 * MS + 200 * US)
        return by_rule(world.kernels(10, 10 * US), **KINETO)["driver_calls"].advice

    assert "another process" in advice(20)
    assert "earlier step" not in advice(20)
    assert "earlier step" in advice(3)


def test_a_copy_that_an_operator_makes_is_not_the_users():
    """A sparse product reads the number of its elements on the host."""

    def read(world):
        copy = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync", "waits": True, "num_bytes": 8}
        return world.device("Memcpy DtoH (Device -> Pageable)", 10 * US, **copy)

    def advice(op):
        world = World()
        for _ in range(10):
            world.device("a", 50 * US)
            world.within(op, lambda w: read(w.sleep(US)).sleep(US), "cpu_op").sleep(40 * US)
        return by_rule(world.wait(), **KINETO)["host_sync"].advice

    assert "pinned" not in advice("aten::mm")
    assert "pinned" in advice("aten::to")


def test_a_function_that_runs_in_each_step_is_not_a_warm_up():
    """Its later calls are hidden by a device that is busy."""

    def advice(later):
        world = World().op("aten::add", US)
        for step in range(10):
            function = "diffusers/hooks/hooks.py(268): _set_context" if step < 4 or later else "torch/hub.py(1): load"
            world.within(function, lambda w: w.sleep(3 * MS), PYTHON)
            world.kernels(5, 10 * US) if step < 4 else world.kernels(100, 100 * US)
        return by_rule(world, **KINETO)["host_work"].advice

    assert "warm-up" in advice(later=False)
    assert "warm-up" not in advice(later=True)


def test_the_host_runs_ahead_of_the_device():
    """All calls of a function are in the first part of the window, in which the host launches."""
    world = World().op("aten::add", US)
    for _ in range(10):
        world.within("diffusers/hooks/hooks.py(268): _set_context", lambda w: w.sleep(3 * MS), PYTHON)
        world.kernels(5, 10 * US)
    world.kernels(200, MS, call_ns=US)
    for _ in range(5):  # Python calls of the end, after the device
        world.wait().host("torch/cuda/__init__.py(990): synchronize", PYTHON, world.now, US)
    assert "warm-up" not in by_rule(world, **KINETO)["host_work"].advice


def test_a_program_that_captures_graphs_is_not_told_to_capture_them():
    def pieces(world):
        for _ in range(20):
            for k in range(9):
                world.device(f"k{k}", 10 * US).sleep(40 * US)
        return world

    captured = called(pieces(World().op("aten::add", US)), "cudaStreamBeginCapture", US).sleep(50 * MS)
    found = by_rule(called(captured, "cudaStreamEndCapture", US).device("k0", 10 * US), **KINETO)
    assert "graphable" not in found
    assert "graphable" in by_rule(pieces(World().op("aten::add", US)), **KINETO)


def test_calls_that_take_long_throughout_are_not_first_calls():
    def advice(pauses):
        world = World().op("aten::add", US)
        for pause in pauses:
            world.device("job", 10 * US, call="runFunction", call_ns=pause).sleep(20 * US)
        return by_rule(world, **KINETO)["driver_calls"].advice

    assert "first calls" not in advice([300 * US] * 200)
    assert "first calls" in advice([300 * US] * 110 + [5 * US] * 4000)


def test_work_without_launches_is_not_explained_by_a_table():
    world = World().op("aten::add", US)
    for k in range(50):
        row = {"name": f"job {k}", "cat": "kernel", "ts": 2 * MS * k, "dur": MS, "device": 0, "stream": 7}
        world.rows.append(row)
    assert "launches of this work are not recorded" in by_rule(world.device("a", MS), **KINETO)["idle"].advice


def test_a_fused_attention_still_computes_its_products():
    world = World()
    for _ in range(10):
        for name, dur in (("aten::bmm", MS), ("aten::softmax", 200 * US), ("aten::bmm", MS)):
            shapes = {"shapes": "[[8, 64, 64], [8, 64, 64]]"}
            world.within(name, lambda w, dur=dur: w.device("k", dur), "cpu_op", **shapes)
    assert by_rule(world.wait(), **KINETO)["eager_attention"].gain_ns <= 10 * 200 * US + 100 * US


@pytest.mark.parametrize(("capability", "least"), [(("8.6", 28), 0.9), (("8.0", 108), 0.4)], ids=["slow", "fast"])
def test_arithmetic_in_float64_can_limit_kernels_of_the_program(capability, least):
    world = World(capability).kernels(10, 10 * MS, name="divergence(int, double, double *)").wait()
    one = by_rule(world, source="file:nsys")["float64_math"]
    assert one.share_pct > 100 * least
    assert one.share_pct < 60 or capability == ("8.6", 28)
    assert "numpy" not in one.advice


def test_a_program_that_sleeps():
    world = World().op("aten::add", US)
    for _ in range(10):
        world.device("a", MS).within("<built-in function sleep>", lambda w: w.sleep(5 * MS), PYTHON).device("b", MS)
    assert "sleeps" in by_rule(world.wait(), **KINETO)["host_work"].advice


def test_idle_time_beside_python_names_the_function():
    """Two waits, after which the host is slow: no rule explains the time."""
    world = World().op("aten::add", US)
    for _ in range(2):
        world.device("a", 300 * US).wait("cudaDeviceSynchronize")
        world.within("train.py(7): log_metrics", lambda w: w.sleep(400 * US), PYTHON)
    idle = by_rule(world.device("b", 100 * US), **KINETO).get("idle")
    assert idle is not None
    assert "log_metrics" in idle.advice


def test_of_several_waits_the_one_after_which_the_device_is_idle_is_named():
    """The first wait of a pass is for all of its work; then each mask of an image is read, for which little runs."""
    world = World()
    for _ in range(10):
        world.kernels(3, 500 * US, every=10 * US).wait(op="aten::nonzero").sleep(5 * US)
        for _ in range(5):
            world.kernels(2, 20 * US).wait(op="aten::item").sleep(60 * US)
        world.kernels(2, 20 * US).wait(op="aten::is_nonzero").sleep(20 * US)
    found = by_rule(world, **KINETO)["host_sync"]
    assert "in 3 places, mostly item in aten::item" in found.what
    assert "every N steps" in found.advice


def test_what_torch_does_before_a_capture_is_part_of_the_recording():
    """``torch.cuda.graph`` waits, collects garbage for hundreds of milliseconds, and empties the allocator's cache."""

    def call(world, name, ns):
        return world.within(name, lambda w: w.sleep(ns), "cuda_runtime").sleep(US)

    def found(between):
        world = World().op("aten::add", US).kernels(20, MS)
        call(world.wait(), "cudaDeviceSynchronize", 10 * US).sleep(300 * MS)
        between(call(world, "cudaFree", MS).device("fill", US))
        call(world, "cudaStreamBeginCapture", 5 * US).sleep(50 * MS)
        call(world, "cudaStreamEndCapture", 20 * US)
        return by_rule(world.kernels(20, MS).wait(), **KINETO)

    assert set(found(lambda w: w)) == {"graph_recording"}
    assert found(lambda w: w)["graph_recording"].gain_ns == pytest.approx(351 * MS, rel=0.01)
    # Work between the wait and the capture is not a preparation: what the host does before it is of the program.
    assert found(lambda w: w.kernels(20, MS))["host_work"].gain_ns == pytest.approx(300 * MS, rel=0.01)


@pytest.mark.parametrize(
    ("name", "capability", "ratio", "first"),
    [
        ("NVIDIA GeForce RTX 3060", "8.6", 2, "torch.autocast"),
        ("NVIDIA A10G", "8.6", 2, "torch.set_float32_matmul_precision"),
        ("NVIDIA GeForce RTX 5090", "12.0", 2, "torch.autocast"),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 4, "torch.autocast"),
        ("Tesla T4", "7.5", 8, "torch.autocast"),
    ],
)
def test_tensor_cores_of_geforce_gpus_are_faster_for_16_bits_alone(name, capability, ratio, first):
    """Their TF32 has the peak rate of FP32; their float16 with sums in FP32 has half the rate of a T4's."""
    world = World().kernels(20, MS, name="ampere_sgemm_128x64_tn").wait()
    device = DeviceInfo(0, name, capability, 12 << 30, 28)
    found = by_rule(world, devices=(device,), **KINETO)["fp32_math"]
    assert found.gain_ns == pytest.approx(20 * MS * (1 - 1 / ratio), rel=0.01)
    assert found.advice.startswith(first)
    assert ("with 16-bit floats" in found.what) is ("GeForce" in name)


def test_a_wait_for_the_work_that_ends_a_gap_is_not_its_cause():
    """A first launch loads code and returns late; its kernel begins later still, while the host waits for it."""
    world = World().kernels(3, 300 * US).wait("cudaDeviceSynchronize")
    world.number += 1
    world.host("cudaLaunchKernel", "cuda_runtime", world.now, MS, correlation_id=world.number)
    world.host("cudaDeviceSynchronize", "cuda_runtime", world.now + MS + US, 3 * MS)
    kernel = {"name": "add", "cat": "kernel", "dur": 40 * US, "device": 0, "stream": 7}
    world.rows.append(kernel | {"ts": world.now + 4 * MS - 50 * US, "correlation_id": world.number})
    found = by_rule(world, source="file:nsys")["driver_calls"]
    assert "cudaLaunchKernel" in found.what
    assert "first calls load code" in found.advice


def test_a_gpu_without_tensor_cores_has_none_to_use():
    world = World().kernels(20, MS, name="volta_sgemm_128x64_tn").wait()
    device = DeviceInfo(0, "NVIDIA GeForce GTX 1660 Ti", "7.5", 6 << 30, 24)
    assert "fp32_math" not in by_rule(world, devices=(device,), **KINETO)


def test_a_program_that_uses_a_memory_pool_is_not_told_to_use_one():
    def advice(of_pool):
        world, end = World(), "Async" if of_pool else ""
        for _ in range(40):
            called(world, f"cudaMalloc{end}", 50 * US)
            world.device("solve", 20 * US).wait()
            called(world, f"cudaFree{end}", 10 * US)
        return by_rule(world.device("solve", 20 * US), source="file:nsys")["driver_memory"].advice

    assert "cudaMallocAsync" in advice(of_pool=False)
    assert "cudaMemPoolAttrReleaseThreshold" in advice(of_pool=True)
    assert "cudaMallocAsync" not in advice(of_pool=True)
