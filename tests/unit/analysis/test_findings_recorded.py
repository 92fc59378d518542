"""What is found in traces that real GPUs left behind. Judged by hand, by the files' own rows."""

import pytest
from recorded_traces import RECORDED, needs_recorded

import cudalens
from cudalens.analysis import findings
from cudalens.analysis.summary import wall_ns

pytestmark = needs_recorded

JUDGED = {
    # a decode loop launched kernel by kernel from Python, at 14 % of the GPU
    "tracelens/b200__eager_trace.json.gz": ["graphable", "host_work"],
    # a GPU that is never idle, on graphs: nothing to say
    "tracelens/inference__vllm_piecewise.json.gz": [],
    # idle 4 of 50 ms; repeat_kv and contiguous copy keys and values
    "tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": ["copies"],
    "tracelens/mi300__facebook_timesformer-base-finetuned-k400__1016002.json.gz": ["eager_attention"],
    # FP32 training, a GPU that is busy
    "hta/ns_resolution_rank-0.json.gz": ["fp32_math"],
    # images decoded in the training process
    "kineto/resnet50_workers0.1623143089861.pt.trace.json.gz": ["fp32_math", "data_loader", "graphable"],
    # the same with workers: the loader is no longer the reason
    "kineto/resnet50_workers4.1623213129365.pt.trace.json.gz": ["fp32_math", "graphable", "pageable_copies"],
    # one rank of a recommendation model: launches, then all-to-all
    "param_dlrm8/dlrm_worker0_step_12.1694128201545.pt.trace.json": [
        "launch_bound",
        "exposed_communication",
        "optimizer_loop",
        "host_sync",
    ],
    "hta/cpu_only_rank-34.json.gz": [],
    "hta/call_stack__backward_thread.json": [],
}


@pytest.mark.parametrize("name", JUDGED)
def test_findings_of_recorded_traces(name):
    trace = cudalens.load(RECORDED / name)
    found = findings(trace)
    assert [one.rule for one in found] == JUDGED[name]
    for one in found:
        assert one.cost_ns <= wall_ns(trace)
        assert all(0 <= row < len(trace) for row in one.rows)


def test_the_loaders_line_is_named():
    trace = cudalens.load(RECORDED / "kineto/resnet50_workers0.1623143089861.pt.trace.json.gz")
    (found,) = [one for one in findings(trace) if one.rule == "data_loader"]
    assert found.place == "resnet50_profiler_api.py:42"
    assert "num_workers=0" in found.what
    assert len(found.rows) == 6
