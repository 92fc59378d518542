"""What is found in traces that real GPUs left behind. Judged by hand, by the files' own rows."""

import pytest
from recorded_traces import RECORDED, needs_recorded

import cudalens
from cudalens.analysis import findings
from cudalens.analysis.summary import wall_ns
from cudalens.views.sections import verdict

pytestmark = needs_recorded

JUDGED = {
    # a decode loop launched kernel by kernel from Python, at 14 % of the GPU
    "tracelens/b200__eager_trace.json.gz": ["graphable", "host_work"],
    # on graphs; the host recorded nothing before the first of them
    "tracelens/inference__vllm_piecewise.json.gz": [],
    # its norms convert to FP32 and back, and keys and values are copied: 5 ms of 50
    "tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": ["copies"],
    # videos decoded in Python before the first kernel
    "tracelens/mi300__facebook_timesformer-base-finetuned-k400__1016002.json.gz": ["idle_ends", "eager_attention"],
    # FP32 training; with a faster GPU the host would soon be the bottleneck
    "hta/ns_resolution_rank-0.json.gz": ["fp32_math"],
    # images decoded in the training process, parameters updated one by one
    "kineto/resnet50_workers0.1623143089861.pt.trace.json.gz": [
        "data_loader",
        "optimizer_loop",
        "zero_grad",
    ],
    # the same with workers: the loader is no longer the reason
    "kineto/resnet50_workers4.1623213129365.pt.trace.json.gz": [
        "graphable",
        "pageable_copies",
        "optimizer_loop",
        "zero_grad",
    ],
    # copies of 40 ms, of which the host waits 20 for the GPU
    "kineto/resnet50_workers4_2021a.pt.trace.json.gz": [
        "pageable_copies",
        "fp32_math",
        "optimizer_loop",
        "zero_grad",
    ],
    # one rank of a recommendation model: launches, then all-to-all, which mostly waits for other ranks
    "param_dlrm8/dlrm_worker0_step_12.1694128201545.pt.trace.json": [
        "launch_bound",
        "waiting_for_ranks",
        "data_loader",
        "exposed_communication",
        "host_sync",
    ],
    # all-to-all of 24 numbers takes 1 ms, of 6,144 numbers 7.6 ms: others are late
    "param_dlrm8/dlrm_worker1_step_12.1694128201556.pt.trace.json": [
        "waiting_for_ranks",
        "host_sync",
        "exposed_communication",
        "launch_bound",
        "data_loader",
    ],
    # torch.compile records the graphs of a transformer
    "tracelens/inference__xdit_flux1_capture.json.gz": ["graph_recording", "host_work"],
    # files with a sample of the operators: their idle time is not that of the run
    "hta/timeline_analysis__sampled_rank-0.json.gz": [],
    "hta/trace_filter__sampled_rank-1.json.gz": [],
    # first calls; 24.6 s in the very first one are before the window
    "hta/critical_path__simple_add.json.gz": ["driver_memory", "driver_calls", "first_calls"],
    # a blocking copy that waits for work of before the recording
    "tracelens/inference__sglang_decode.json.gz": ["driver_calls"],
    # weights in pinned memory of the host: of 910 ms of copies 31 ms can run beside other work
    "nsys/h100_2gpu_1s.sqlite": ["transfer_bound"],
    # a program without torch: no empty_cache()
    "nvprof/bench_ortmodule_nn_gpu.nvvp": ["driver_memory", "driver_calls"],
    "hta/cpu_only_rank-34.json.gz": [],
    "hta/call_stack__backward_thread.json": ["idle_ends"],
}


@pytest.mark.parametrize("name", JUDGED)
def test_findings_of_recorded_traces(name):
    trace = cudalens.load(RECORDED / name)
    found = findings(trace)
    assert [one.rule for one in found] == JUDGED[name]
    for one in found:
        assert one.gain_ns <= wall_ns(trace)
        assert all(0 <= row < len(trace) for row in one.rows)


def test_gains_of_blocking_calls_have_their_own_advice():
    (found,) = findings(cudalens.load(RECORDED / "tracelens/inference__sglang_decode.json.gz"))
    assert "hipMemcpyWithStream" in found.what
    assert "launched before the recording" in found.advice
    found, *_ = findings(cudalens.load(RECORDED / "nvprof/bench_ortmodule_nn_gpu.nvvp"))
    assert "empty_cache" not in found.advice


def test_the_call_before_the_first_work_is_named():
    trace = cudalens.load(RECORDED / "hta/critical_path__simple_add.json.gz")
    assert verdict.verdict(trace).startswith("16.0 s of 41.6 s recorded, GPU busy 0.3 %")
    assert verdict.details(trace).startswith(
        "recorded 41.6 s: 25.1 s before the first GPU work (24.6 s creating the context, longest "
        "cudaDeviceGetStreamPriorityRange); "
    )


def test_the_loaders_line_is_named():
    trace = cudalens.load(RECORDED / "kineto/resnet50_workers0.1623143089861.pt.trace.json.gz")
    (found,) = [one for one in findings(trace) if one.rule == "data_loader"]
    assert found.place == "resnet50_profiler_api.py:42"
    assert "num_workers=0" in found.what
    assert len(found.rows) == 6
