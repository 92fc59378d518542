"""A race by value as cards show it: what a real exploration says, and what a hostile file might."""

import json

import pytest

from cudalens.frames.exploration import (
    Difference,
    Exploration,
    RaceVerdict,
    Shown,
    Step,
    columns_of_race,
)
from cudalens.views.races_value import (
    difference_line,
    exploration_html,
    headline,
    heat_map,
    text_lines,
    timelines_svg,
)
from cudalens.views.races_value_model import value_view

HEAT = ((0.0, 1.0), (0.0, 1.0), (0.5, 0.0))
DIFFERENCE = Difference("y<b>", 3412, 65536, (3, 17), 1.7, 0.0, 1.7, (256, 256), "float32", HEAT)
STEPS = tuple(Step(n, "stream a" if n % 2 else "host", f"aten::op{n}", f"cell:{n}", f"x{n} = <i>") for n in range(40))
ORDER = (*range(9), 21, *range(9, 21), *range(22, 40))


def verdict(**changes):
    shown = Shown("rush:21<9", ORDER, (DIFFERENCE,), ((21, 9),))
    fields = {
        "race": 0,
        "text": "a <race>",
        "verdict": "confirmed",
        "num_schedules": 3,
        "pairs": ((9, 21),),
        "shown": shown,
    }
    return RaceVerdict(**{**fields, **changes})


def exploration(*races, **more):
    return Exploration("virtual:h100", 12, False, races, steps=STEPS, outputs=("y<b>",), **more)


def test_the_words_are_those_of_a_person():
    assert str(DIFFERENCE) == "`y<b>`: 3,412 of 65,536 elements differ, first at [3, 17]: 0 instead of 1.7"
    assert str(Difference("n", 1, 1, (), 3, 4, 1.0, (), "int64")) == "`n` differs: 4 instead of 3"
    assert "one element" not in str(DIFFERENCE)
    assert str(verdict()).startswith("confirmed by value: `y<b>`")
    benign = verdict(verdict="benign", shown=None)
    assert str(benign) == "benign so far: the same bits in 3 schedules with its accesses the other way round"
    assert exploration(verdict(), benign).verdict == "1 of 2 races confirmed by value in 12 other orders."
    assert exploration(benign).verdict.startswith("Same bits in 12 other orders: 1 race reported")
    assert exploration().verdict.startswith("Same bits in 12 other orders: no race was reported")


def test_a_verdict_goes_through_the_frame_to_the_card():
    view = value_view(columns_of_race(verdict(), STEPS))
    assert headline(view) == "Confirmed by value: 1 value differs when the later access comes first"
    (difference,) = view.differences
    assert difference_line(difference) == "3,412 of 65,536 elements differ, first at [3, 17]: 0 instead of 1.7"
    assert (view.schedule.first, view.schedule.second, view.schedule.seed) == (9, 21, "rush:21<9")
    numbers = {task.number for task in view.schedule.tasks}
    assert {9, 21} <= numbers
    assert len(numbers) + view.schedule.left_out == len(STEPS)
    assert list(view.schedule.order).index(21) < list(view.schedule.order).index(9)
    assert "again: san.replay_schedule('rush:21<9')" in "\n".join(text_lines(view))
    assert value_view(columns_of_race(verdict(verdict="benign", shown=None), STEPS)).schedule is None


def test_the_heat_map_is_red_where_elements_differ():
    (difference,) = value_view(columns_of_race(verdict(), STEPS)).differences
    boxes = [child.attributes for child in heat_map(difference).children if getattr(child, "tag", "") == "rect"][1:]
    assert [(float(b["x"]), float(b["y"]), float(b["width"]), float(b["height"])) for b in boxes] == [
        pytest.approx((80, 0, 80, 320 / 3), abs=0.01),
        pytest.approx((0, 320 / 3, 80, 160 / 3), abs=0.01),
    ]
    assert float(boxes[0]["fill-opacity"]) > float(boxes[1]["fill-opacity"])


def test_both_orders_are_drawn_on_the_lanes_of_their_streams():
    picture = timelines_svg(value_view(columns_of_race(verdict(), STEPS)).schedule)
    assert "Program order" in picture.text()
    assert "Order that shows it" in picture.text()
    assert picture.html().count(">op9<") == 2
    assert "<i>" not in picture.html()


def test_all_that_is_shown_is_escaped():
    unreported = Shown("random:1", ORDER, (DIFFERENCE,))
    html = exploration_html(exploration(verdict(), others=(unreported,), notes=("see <script>",)))
    assert "<script" not in html
    assert "y<b>" not in html
    assert "Race 1" in html
    assert "without a reported race" in html


HOSTILE = [
    "[]",
    "{}",
    "nonsense",
    "[" * 100_000,
    json.dumps([{"name": ["<script>"], "heat": [[float("nan"), 9e9], [1]], "first_index": "x", "num_elements": -5}]),
    json.dumps([{"heat": [[1.0] * 100] * 100, "shape": [10] * 1000, "found": "x" * 10_000}] * 20),
    json.dumps({"seed": 5, "tasks": [{"number": 1e99}, 7, {"number": 3, "lane": None}], "order": [3, 3, 4, "a", -1]}),
    json.dumps({"tasks": [], "order": [1], "first": 10**40, "left_out": True}),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_broken_file_does_no_harm(text):
    fields = {"value_verdict": "confirmed", "num_schedules": 3, "differs": text, "schedule": text}
    view = value_view(fields)
    assert len(view.differences) <= 16
    for difference in view.differences:
        difference_line(difference)
        assert not difference.heat or len(heat_map(difference).html()) < 1_000_000
    if view.schedule is not None:
        assert "<script" not in timelines_svg(view.schedule).html()
    assert value_view({**fields, "value_verdict": "<b>"}) is None
