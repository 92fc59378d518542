"""Recordings of real GPUs: healthy ones are clean, and a repair changes no figure."""

import re
from pathlib import Path

import pandas as pd
import pytest

from cudalens import traces
from cudalens.analysis import device_time, repaired

_ABOVE = [folder / "shared" / "recorded" for folder in Path(__file__).parents]
RECORDED = next((folder for folder in _ABOVE if folder.is_dir()), None)
NO_TRACE = re.compile(r"_et\.|reference|README|expected\.json|\.pickle$|\.py$")
FILES = sorted(p for p in RECORDED.rglob("*.*") if not NO_TRACE.search(p.name)) if RECORDED else []

pytestmark = pytest.mark.skipif(not FILES, reason="no recorded traces beside this checkout (../shared/recorded)")

#: Files with a sample of the operators: they are partial.
SAMPLED = ("timeline_analysis__sampled_rank-0.json.gz", "trace_filter__sampled_rank-1.json.gz")

#: Notes that were checked by hand; none of them is an error, except in sampled files.
NOTES = {
    **{name: {"filtered": 1} for name in SAMPLED},
    "resnet50_workers4_2021a.pt.trace.json.gz": {"work from before": 771, "rounded to nothing": 330},
    "resnet50_workers0.1623143089861.pt.trace.json.gz": {"rounded to nothing": 636},
    "resnet50_workers4.1623213129365.pt.trace.json.gz": {"rounded to nothing": 643},
    "resnet_kineto.json.gz": {"rounded to nothing": 111},
    "dlrm_worker1_step_12.1694128201556.pt.trace.json": {"work from before": 64},
    "dlrm_worker3_step_12.1694128201557.pt.trace.json": {"work from before": 64},
    "h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": {"work from before": 509},
    "b200__eager_trace.json.gz": {"allowed overlap": 74},
    "inference__vllm_piecewise.json.gz": {"allowed overlap": 1, "work all later": 423},
    "inference__xdit_flux1_capture.json.gz": {"torn Python calls": 2},
    "mi300__google_owlv2-large-patch14-ensemble__1016001.json.gz": {"allowed overlap": 2},
    "h100_2gpu_1s.sqlite": {"work from after": 1714, "work from before": 2276, "profiler overhead": 198},
    "mock_small.sqlite": {"profiler overhead": 31},
    "bench_ortmodule_nn_gpu.nvvp": {"profiler overhead": 9592, "allowed overlap": 2},
}


@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_every_recording_is_judged_as_by_hand_and_keeps_its_figures(path):
    trace = traces.load(path)
    checked = repaired(trace)
    pd.testing.assert_series_equal(device_time(checked), device_time(trace))
    assert checked.info.trust.verdict == ("partial" if path.name in SAMPLED else "clean")
    assert {f.rule: f.count for f in checked.info.trust.findings} == NOTES.get(path.name, {})
