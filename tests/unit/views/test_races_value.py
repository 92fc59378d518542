"""A race by value as cards show it: what a real exploration says, and what a hostile file might."""

import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cudalens.frames.exploration import (
    Difference,
    Exploration,
    RaceVerdict,
    Shown,
    Step,
    columns_of_race,
)
from cudalens.views.races.model import value_view
from cudalens.views.races.values import (
    RED,
    YELLOW,
    cells_words,
    difference_line,
    exploration_html,
    headline,
    heat_map,
    maps,
    scale,
    section_of,
    timelines_svg,
)
from cudalens.views.sections.write_text import to_text

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
    assert str(benign) == "benign so far: the same bits in 3 schedules with its accesses in reverse order"
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
    assert "Repeat it: san.replay_schedule('rush:21<9')" in "\n".join(lines_of(verdict()))
    assert value_view(columns_of_race(verdict(verdict="benign", shown=None), STEPS)).schedule is None


def paths(picture):
    """What is drawn, the palest first."""
    found = [child.attributes for child in picture.children if getattr(child, "tag", "") == "path"]
    return [(path["d"], path["fill"]) for path in sorted(found, key=lambda path: float(path["fill-opacity"]))]


def test_the_heat_map_is_red_where_elements_differ():
    (difference,) = value_view(columns_of_race(verdict(), STEPS)).differences
    picture = heat_map(difference)
    assert picture.attributes["viewBox"] == "0 0 2 3"
    assert paths(picture) == [("M0 2h1v1h-1z", RED), ("M1 0h1v2h-1z", RED)]
    assert paths(heat_map(difference, cells=1)) == [("M0 0h1v1h-1z", RED)]


def lines_of(race):
    """The values of `race` as plain text, as the card of a race has them."""
    value = value_view(columns_of_race(race, STEPS))
    (shown,) = section_of(SimpleNamespace(value=value), 64)
    return to_text(shown).split("\n")


def pictured(**changes):
    grids = {
        "expected_map": ((0.0, 1.0), (0.0, 3.0), (4.0, 0.0)),
        "found_map": ((0.0, 5.0), (0.0, math.nan), (2.0, 0.0)),
    }
    samples = (((0, 1), 1.0, 5.0), ((1, 1), 3.0, math.nan))
    shown = Shown("hold:21<9", ORDER, (replace(DIFFERENCE, samples=samples, **{**grids, **changes}),), ((21, 9),))
    return verdict(shown=shown)


def test_both_results_are_drawn_on_one_scale():
    (difference,) = value_view(columns_of_race(pictured(), STEPS)).differences
    expected, found, heat = (figure.children[1] for figure in maps(difference))
    assert [path for path, _ in paths(expected)][-1] == "M0 2h1v1h-1z"  # 4 of 5: the largest of its own
    assert ("M1 1h1v1h-1z", YELLOW) in paths(found)
    assert paths(heat) == paths(heat_map(difference))
    assert scale(difference).startswith("value 0 (pale) to 5 (strong), yellow: NaN or infinite; red where bits differ")
    assert cells_words(difference) == "each cell shows the one of its elements that differs most"


def test_grids_of_other_sizes_are_left_out():
    (difference,) = value_view(columns_of_race(pictured(found_map=((1.0,),)), STEPS)).differences
    assert len(maps(difference)) == 1


def test_a_delayed_run_is_shown_as_such():
    result = Exploration("cuda", 7, False, (pictured(),), steps=STEPS, outputs=("y<b>",), is_delayed=True)
    html = exploration_html(result)
    assert "1 of 1 race confirmed by value, in 7 delayed runs." in html
    assert "Delayed run that shows it" in html
    assert "san.confirm(program), %cudasan confirm" in html
    assert "replay_schedule" not in html
    assert "<td>1</td><td>5</td>" in html
    assert "and 3,410 other elements" in html
    untried = replace(result, races=(verdict(verdict="unknown", shown=None, why="it <waits>"),))
    assert "Not tried: it &lt;waits&gt;" in exploration_html(untried)


def test_many_races_stay_small():
    rng = random.Random(0)
    noise = tuple(tuple(rng.random() for _ in range(64)) for _ in range(64))
    one = pictured(heat=noise, expected_map=noise, found_map=noise)
    html = exploration_html(exploration(*(replace(one, race=n) for n in range(16))))
    assert html.count("Both results, and where in the tensor") == 6
    assert len(html) < 600_000


def test_plain_text_has_more_elements_and_both_orders():
    lines = lines_of(pictured())
    assert [line.split() for line in lines if line.startswith("[1, 1]")] == [["[1,", "1]", "3", "nan"]]
    assert "and 3,410 other elements" in lines
    program, delayed, again = (line for line in lines if line.startswith(("Program order", "Delayed", "Repeat")))
    assert program.index("[op9]") < program.index("[op21]")
    assert delayed.startswith("Delayed run that shows it: ")
    assert delayed.index("[op21]") < delayed.index("[op9]")
    assert again == "Repeat it: san.confirm(program), %cudasan confirm"


def test_pictures_of_noise_stay_small():
    rng = random.Random(0)
    grid = tuple(tuple(rng.random() for _ in range(64)) for _ in range(64))
    noise = {"heat": grid, "expected_map": grid, "found_map": grid}
    (difference,) = value_view(columns_of_race(pictured(**noise), STEPS)).differences
    assert sum(len(node.html()) for node in maps(difference)) < 200_000
    assert sum(len(node.html()) for node in maps(difference, cells=32)) < 50_000


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
    f'[{{"heat": [[1e400, {10**400}]], "expected_map": [["x", {10**400}]], "found_map": [[NaN, -Infinity]]}}]',
    json.dumps([{"heat": [[1]], "shape": [1], "num_elements": 9, "samples": [[[1], 2], 5, [["<i>"], "<b>", {}]] * 50}]),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_broken_file_raises_no_other_error(text):
    fields = {"value_verdict": "confirmed", "num_schedules": 3, "differs": text, "schedule": text}
    view = value_view(fields)
    assert len(view.differences) <= 16
    for difference in view.differences:
        difference_line(difference)
        scale(difference)
        assert len(difference.samples) <= 8
        assert not difference.heat or sum(len(node.html()) for node in maps(difference)) < 1_000_000
    if view.schedule is not None:
        assert "<script" not in timelines_svg(view.schedule).html()
    assert value_view({**fields, "value_verdict": "<b>"}) is None
