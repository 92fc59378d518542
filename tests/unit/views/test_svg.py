import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import HOSTILE, Rows, gpu_trace, hostile_trace, wide_trace

from cudalens.frames import RunInfo, Trace
from cudalens.views.timeline import svg
from cudalens.views.timeline.svg import PLOT, coverage

NS = "{http://www.w3.org/2000/svg}"


def test_picture_has_a_title_and_a_label_for_each_lane():
    root = ET.fromstring(svg.timeline_svg(gpu_trace()).html())
    assert root.find(f"{NS}title").text == "Timeline of cell-3: 30 events in 2.90 ms"
    labels = [node.find(f"{NS}title").text for node in root.iter(f"{NS}text") if node.find(f"{NS}title") is not None]
    assert labels == ["GPU 0 · stream 7", "GPU 0 · stream 13", "thread 1"]


def test_picture_of_nothing_is_nothing():
    assert svg.timeline_svg(Trace(RunInfo(name="empty", source="cpu"))) is None


def test_picture_is_the_same_each_time():
    assert svg.timeline_svg(gpu_trace()).html() == svg.timeline_svg(gpu_trace()).html()


def test_hostile_texts_stay_text():
    trace = hostile_trace()
    root = ET.fromstring(svg.timeline_svg(trace).html())
    assert {node.tag.removeprefix(NS) for node in root.iter()} <= {"svg", "title", "text", "path"}
    assert HOSTILE[:9] in root.find(f"{NS}title").text


def test_picture_of_many_events_stays_small():
    assert len(svg.timeline_svg(wide_trace(200_000)).html().encode()) < 120_000


@pytest.mark.parametrize(("num_threads", "said"), [(10, False), (30, True)])
def test_picture_states_how_many_lanes_it_leaves_out(num_threads, said):
    rows = Rows()
    for tid in range(num_threads):
        rows.host("aten::mm", "cpu_op", 10 * tid, 1_000, tid=tid + 1)
    drawn = svg.timeline_svg(Trace(RunInfo(name="x", source="cpu"), events=rows.to_events())).html()
    assert ("and 20 lanes more" in drawn) == said


def slow_coverage(row, x0, width, shape):
    """Overlap of each event with each pixel, summed one by one."""
    out = np.zeros(shape)
    for r, x, w in zip(row, x0, width, strict=True):
        for p in range(shape[1]):
            out[r, p] += max(0.0, min(x + w, p + 1) - max(x, p))
    return out.ravel()


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 12), st.floats(0, 12)), max_size=12))
def test_coverage_is_the_summed_overlap(events):
    shape = (3, 12)
    row = np.array([r for r, _, _ in events], np.int64)
    x0 = np.array([x for _, x, _ in events], np.float64)
    width = np.minimum(np.array([w for _, _, w in events], np.float64), 12 - x0)
    fast = coverage(row, x0, width, shape)
    assert np.allclose(fast, slow_coverage(row, x0, width, shape), atol=1e-9)


def test_an_event_is_drawn_where_it_ran():
    root = ET.fromstring(svg.timeline_svg(gpu_trace(1)).html())
    span = 900_000
    drawn = "".join(node.attrib["d"] for node in root.iter(f"{NS}path") if node.attrib.get("fill") == "#f0e442")
    runs = [(float(a), float(b)) for a, b in re.findall(r"M([\d.]+) \d+h([\d.]+)v", drawn)]
    assert min(x for x, _ in runs) == pytest.approx(svg.LABEL + PLOT * 460_000 / span, abs=1.5)
    assert sum(width for _, width in runs) == pytest.approx(PLOT * 30_000 / span, abs=2.5)
