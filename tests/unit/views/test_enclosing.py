"""Frames of libraries around a thread's work, and threads that only wait, in the timeline."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.frames import RunInfo, Trace, build_events
from cudalens.views.timeline.payload_codec import is_idle, lane_table, num_enclosing
from cudalens.views.timeline.svg import timeline_svg

NOTEBOOK = ["<frozen runpy>(88): _run_code", "ipykernel_launcher.py(18): <module>", "asyncio/events.py(80): _run"]
CELL = "/tmp/ipykernel_11/22.py(1): <module>"


def trace_of(*rows: tuple[str, str, int, int, int]) -> Trace:
    """A Trace of host rows: name, category, start, duration, thread."""
    import pandas as pd

    name, cat, ts, dur, tid = zip(*rows, strict=True)
    events = build_events(
        {
            "ts": ts,
            "dur": dur,
            "name": pd.Categorical(name),
            "cat": pd.Categorical(cat),
            "pid": pd.array([1] * len(rows), dtype="Int64"),
            "tid": pd.array(tid, dtype="Int64"),
        }
    )
    return Trace(RunInfo(name="t", source="cpu"), events=events)


def python(names: list[str], *, start: int = 0, dur: int = 1000, tid: int = 1) -> list[tuple[str, str, int, int, int]]:
    return [(name, "python_function", start, dur, tid) for name in names]


def lanes(trace: Trace) -> tuple[list[int], list[bool]]:
    lane, table = lane_table(trace.events)
    found = num_enclosing(trace.events, lane, len(table)), is_idle(trace.events, lane, len(table))
    return found[0].tolist(), found[1].tolist()


WORK = [("aten::mm", "cpu_op", 100, 50, 1), ("aten::add", "cpu_op", 800, 50, 1)]


def test_frames_of_the_notebook_are_one_row_and_the_cell_stays() -> None:
    assert lanes(trace_of(*python([*NOTEBOOK, CELL, "train.py(5): step"]), *WORK))[0] == [3]


def test_the_users_frames_between_libraries_are_folded_with_them() -> None:
    names = ["main.py(3): <module>", "lightning/pytorch/trainer.py(50): fit", "model.py(7): training_step"]
    assert lanes(trace_of(*python(names), *WORK))[0] == [2]


def test_the_users_script_alone_is_not_folded() -> None:
    assert lanes(trace_of(*python(["train.py(90): <module>", "train.py(5): main"]), *WORK))[0] == [0]


def test_a_library_call_that_is_part_of_the_work_is_not_folded() -> None:
    call = python(["torch/nn/modules/module.py(1776): _call_impl"], start=50, dur=600)
    assert lanes(trace_of(*python([CELL]), *call, *WORK))[0] == [0]


@pytest.mark.parametrize(
    ("leaf", "idle"), [("threading.py(331): wait", True), ("selectors.py(468): select", True), ("a.py(1): work", False)]
)
def test_a_thread_whose_frames_end_in_a_wait_is_idle(leaf: str, idle: bool) -> None:
    other = python(["threading.py(1002): _bootstrap", leaf], tid=2)
    assert lanes(trace_of(*WORK, *other))[1] == [False, idle]


def test_a_thread_with_an_operator_is_not_idle() -> None:
    other = python(["threading.py(1002): _bootstrap", "threading.py(331): wait"], tid=2)
    busy = trace_of(*WORK, *other, ("aten::mul", "cpu_op", 500, 5, 2))
    assert lanes(busy)[1] == [False, False]


@given(st.lists(st.sampled_from([*NOTEBOOK, CELL, "train.py(5): step"]), max_size=6), st.integers(0, 4))
def test_all_folded_frames_hold_all_rows_of_the_lane(names: list[str], num_rows: int) -> None:
    rows = [("aten::mm", "cpu_op", 200 * k, 100, 1) for k in range(num_rows)]
    if not names and not rows:
        return
    (found,), _ = lanes(trace_of(*python(names), *rows))
    assert found <= len(names)
    assert found == max((k + 1 for k, name in enumerate(names) if name in NOTEBOOK), default=0)


def test_the_static_picture_has_one_row_for_them() -> None:
    def height(trace: Trace) -> float:
        picture = timeline_svg(trace)
        assert picture is not None
        return float(re.search(r"viewBox=\"0 0 [\d.]+ ([\d.]+)\"", picture.html())[1])  # type: ignore[index]

    assert height(trace_of(*python([*NOTEBOOK, CELL]), *WORK)) == height(trace_of(*python([NOTEBOOK[0], CELL]), *WORK))
