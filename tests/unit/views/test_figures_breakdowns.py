"""The figures of the breakdowns: what they say, and that foreign names stay text."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "analysis"))

from made_traces import NCCL, host, launch, trace_of, work

from cudalens.analysis import Ceilings
from cudalens.frames import Ranks
from cudalens.views.figures.costs import _end
from cudalens.views.figures.style import in_short

NAMES = (
    "collectives",
    "communication_overlap",
    "idle_causes",
    "idle_time",
    "kernel_breakdown",
    "kernel_sequences",
    "launch_statistics",
    "launch_summary",
    "memcpy_bandwidth",
    "op_breakdown",
    "queue_lengths",
    "roofline",
    "temporal_breakdown",
)
EVIL = "<b onmouseover=alert(1)>gemm</b>"


def busy_trace(source="cuda"):
    rows = []
    for i in range(1, 9):
        at = 10_000 * i
        rows += [host(at, 900, EVIL, shapes="[[8,8],[8,8]]", dtypes='["float","float"]', flops=1024)]
        rows += [launch(at + 10, 500, i), work(at + 600, 2000 + i, EVIL, call=i)]
        rows += [work(at + 3000, 900, NCCL, stream=20, collective="allreduce"), work(at + 4000, 300, "Memset (Device)")]
    rows.append(work(95_000, 500, "Memcpy HtoD (Pinned -> Device)", num_bytes=4096))
    trace = trace_of(rows)
    return trace.replace(info=trace.info.replace(source=source))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_draws_with_the_basic_bundle_and_escapes_names(name, mode):
    drawn = busy_trace().figure(name, mode=mode)
    assert {trace.type for trace in drawn.data} <= {"scatter", "bar", "pie"}
    assert len(drawn.data) > 0
    assert drawn.layout.title.text
    assert "<b onmouseover" not in json.dumps(drawn.to_plotly_json(), default=lambda x: x.tolist(), ensure_ascii=False)


@pytest.mark.parametrize("name", NAMES)
def test_empty_traces_ranks_and_simulated_times(name):
    empty = trace_of([])
    assert "No" in empty.figure(name).layout.title.text
    ranks = Ranks({0: busy_trace(), 3: busy_trace()}, name="job")
    assert ranks.figure(name).layout.title.text
    simulated = busy_trace("virtual:h100").figure(name)
    assert "(simulated time)" in simulated.layout.title.text.replace("\u00a0", " ")


def test_kernels_have_labels_of_what_differs_and_their_whole_name_on_hover():
    common = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::{}Functor<float>, std::array<char*, 3ul> >(int)"
    )
    whole = [common.format(name) for name in ("Add", "Mul")]
    drawn = trace_of([work(10_000 * k, 500 - k, name) for k, name in enumerate(whole)]).figure("kernel_breakdown")
    assert list(drawn.layout.yaxis.ticktext) == [
        "AddFunctor · vectorized_elementwise",
        "MulFunctor · vectorized_elementwise",
    ]
    assert "at::native::AddFunctor" in drawn.data[0].customdata[0]
    assert drawn.layout.title.text.startswith("<b>AddFunctor · vectorized_elementwise takes 50")


def test_a_wait_is_not_the_answer_of_a_flame_graph():
    rows = [host(10_000, 900, "threading.py(359): wait", cat="python_function"), host(20_000, 300, "aten::mm")]
    assert trace_of(rows).figure("flame_graph").layout.title.text.startswith("<b>aten::mm itself takes 25")


def test_long_paths_of_modules_keep_their_last_parts():
    assert _end("Model_0.Encoder_0.Layer_1.Attention_1.SelfAttention_1.Linear_8") == (
        "…Layer_1.Attention_1.SelfAttention_1.Linear_8"
    )
    shown = _end("/a/long/path/of/a/file/of/somebody/with/a/name/train.py:12")
    assert shown.startswith("…")
    assert shown.endswith("/with/a/name/train.py:12")


def test_names_of_operators_stay_as_they_are():
    assert in_short(["aten::mm", "torch/nn/modules/linear.py(12): forward"], [False, False]) == [
        "aten::mm",
        "forward · linear.py:12",
    ]


def test_titles_state_the_answer():
    trace = busy_trace()
    assert "idle" in trace.figure("temporal_breakdown").layout.title.text
    assert "host was busy" in trace.figure("idle_causes").layout.title.text
    assert "were not recorded" in trace.figure("collectives").layout.title.text
    roofs = Ceilings(device="made up", source="measured", flops_per_s={"float32": 1e12}, copy_bytes_per_s=1e12)
    assert "of their roof" in trace.figure("roofline", ceilings=roofs).layout.title.text
    assert "ceilings are not known" in trace.figure("roofline").layout.title.text
    with pytest.raises(ValueError, match="mode='blue' is unknown"):
        trace.figure("idle_time", mode="blue")
