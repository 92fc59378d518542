import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_races import INFO, SIDE, race_trace, races_frame, read_after_write, use_after_free
from sample_traces import gpu_trace, hostile_trace

from cudalens.frames import StackTable, Trace
from cudalens.views.races.model import race_views
from cudalens.views.races.svg import RED, bytes_bars, first_offset, happens_before_svg
from cudalens.views.sections.markup import Node
from cudalens.views.timeline import svg

DEFAULT = "the default stream"


def race_of(make=read_after_write, **changes):
    stacks = StackTable()
    trace = Trace(INFO, races=races_frame([make(stacks, **changes)]), stacks=stacks.to_frame())
    (race,) = race_views(trace)
    return race


def story(*steps):
    return json.dumps([{"act": "first", "stream": SIDE}, *steps, {"act": "second", "stream": DEFAULT}])


def shapes(node, tag):
    """All elements named `tag` beneath `node`."""
    found = [node] if node.tag == tag else []
    return found + [hit for child in node.children if isinstance(child, Node) for hit in shapes(child, tag)]


def texts(node):
    return ["".join(part for part in found.children if isinstance(part, str)) for found in shapes(node, "text")]


def numbers(path):
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path)]


def bars(race):
    """(start, end) of what each access touches and of what both do, as shares of the bar."""
    found = []
    for bar in bytes_bars(race):
        _, touched, shared = shapes(bar, "rect")
        for rect in (touched, shared):
            x, width = float(rect.attributes["x"]), float(rect.attributes["width"])
            found.append((round(x / 1000, 3), round((x + width) / 1000, 3)))
    return found


def test_the_bars_show_what_each_touches_and_what_both_do():
    race = race_of(block_bytes=1000, first_low_byte=100, first_high_byte=499, second_low_byte=300, second_high_byte=899,
                   overlap_low_byte=300, overlap_high_byte=499)  # fmt: skip
    assert bars(race) == [(0.1, 0.5), (0.3, 0.5), (0.3, 0.9), (0.3, 0.5)]


def test_one_byte_of_a_large_block_is_seen():
    one = {f"{side}_{end}_byte": 999_999 for side in ("first", "second", "overlap") for end in ("low", "high")}
    for bar in bytes_bars(race_of(block_bytes=1_000_000, **one)):
        for rect in shapes(bar, "rect")[1:]:
            x, width = float(rect.attributes["x"]), float(rect.attributes["width"])
            assert width >= 4
            assert x + width <= 1000.01


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 300), st.integers(1, 300), st.integers(-200, 200))
def test_the_first_ones_place_in_reused_memory_agrees_with_the_overlap(low_1, size_1, low_2, size_2, shift):
    """`shift`: where the earlier block began, relative to the later. It is in the overlap, not in the frame."""
    low = max(low_1 + shift, low_2)
    high = min(low_1 + shift + size_1, low_2 + size_2) - 1
    if high < low:
        return
    race = race_of(use_after_free, first_low_byte=low_1, first_high_byte=low_1 + size_1 - 1, second_low_byte=low_2,
                   second_high_byte=low_2 + size_2 - 1, overlap_low_byte=low, overlap_high_byte=high)  # fmt: skip
    offset = first_offset(race)
    assert max(low_1 + offset, low_2) == low
    assert min(low_1 + offset + size_1, low_2 + size_2) - 1 == high


def test_the_picture_has_a_lane_for_each_stream_and_both_accesses():
    drawn = happens_before_svg(race_of())
    assert texts(drawn)[:3] == [SIDE, DEFAULT, "stream 0x77aa10"]
    for wanted in ("mul_", "writes self", "sum", "reads self", "add_", "relu", "record", "wait", "event 1"):
        assert wanted in texts(drawn)
    assert texts(drawn)[-2:] == ["nothing orders these two", "issue order →"]


def test_the_missing_edge_is_red_and_goes_from_the_first_access_to_the_second():
    drawn = happens_before_svg(race_of(between=None))
    one, two = [rect for rect in shapes(drawn, "rect") if rect.attributes.get("stroke") == RED]
    (edge,) = [path for path in shapes(drawn, "path") if "stroke-dasharray" in path.attributes]
    assert edge.attributes["stroke"] == RED
    points = numbers(edge.attributes["d"])
    start, end = points[:2], points[-2:]
    right = float(one.attributes["x"]) + float(one.attributes["width"])
    assert start[0] == pytest.approx(right, abs=0.2)
    assert end[0] == pytest.approx(float(two.attributes["x"]), abs=7)
    assert start[1] < end[1]


def test_an_arrow_leads_from_the_record_to_the_wait_that_names_it():
    record = {"act": "event_record", "stream": SIDE, "event": 1}
    waits = [{"act": "event_wait", "stream": DEFAULT, "event": number} for number in (1, 2)]
    plain = len(shapes(happens_before_svg(race_of(between=story(*waits))), "path"))
    with_arrow = len(shapes(happens_before_svg(race_of(between=story(record, *waits))), "path"))
    assert with_arrow - plain == 1 + 2, "the record's own mark, a line and its head; event 2 was recorded before"


def test_work_on_one_stream_is_drawn_as_one():
    steps = [{"act": "launch", "stream": SIDE, "op": f"aten::op{k}"} for k in range(40)]
    drawn = texts(happens_before_svg(race_of(between=story(*steps))))
    assert "40 operations" in drawn
    assert "op3" not in drawn


def test_a_long_list_keeps_its_ends_and_states_what_it_left_out():
    steps = [{"act": "event_record", "stream": (SIDE, DEFAULT)[k % 2], "event": k} for k in range(60)]
    node = happens_before_svg(race_of(between=story(*steps)))
    drawn = texts(node)
    assert {"event 0", "event 59", "… 44 more"} <= set(drawn)
    assert "event 30" not in drawn
    assert float(node.attributes["width"]) < 2500
    assert "… 5 more" in texts(happens_before_svg(race_of(between=story({"act": "left out", "count": 5}))))


def test_many_streams_are_counted():
    steps = [{"act": "launch", "stream": f"stream {k}"} for k in range(9)]
    drawn = happens_before_svg(race_of(between=story(*steps)))
    assert texts(drawn)[-1] == "issue order → · 6 other streams not shown"


@pytest.mark.parametrize("make", [read_after_write, use_after_free])
def test_everything_is_within_the_picture(make):
    for between in (None, story(), make(StackTable())["between"]):
        node = happens_before_svg(race_of(make, between=between))
        width, height = float(node.attributes["width"]), float(node.attributes["height"])
        for rect in shapes(node, "rect"):
            x, y, w, h = (float(rect.attributes[name]) for name in ("x", "y", "width", "height"))
            assert min(x, y) >= 0
            assert x + w <= width
            assert y + h <= height
        for text in shapes(node, "text"):
            words = "".join(part for part in text.children if isinstance(part, str))
            if "text-anchor" not in text.attributes:
                assert float(text.attributes["x"]) + 6.6 * len(words) <= width + 1


def test_the_timelines_picture_marks_races():
    drawn = svg.timeline_svg(race_trace(events=True)).html()
    assert drawn.count("race: read after write of grads") == 1
    assert drawn.count(f'stroke="{RED}"') >= 2
    assert RED not in svg.timeline_svg(gpu_trace()).html()
    assert RED not in svg.timeline_svg(hostile_trace()).html()
