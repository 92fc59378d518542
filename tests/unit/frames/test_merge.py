"""Frames of two collectors in one Trace: each keeps its own call stacks."""

from __future__ import annotations

import pandas as pd
import pytest

from cudalens.frames import RunInfo, StackTable, Trace
from cudalens.frames.build import merge_frames
from cudalens.frames.catalog_frames import empty_frame


def stacks(*entries):
    table = StackTable()
    for entry in entries:
        table.add([entry])
    return table.to_frame()


def events(*ids):
    frame = empty_frame("events").reindex(range(len(ids)))
    return frame.assign(stack=pd.array(list(ids), dtype="Int64"))


def functions(frames, ids):
    """The functions of the stacks numbered `ids`."""
    table = frames["stacks"].set_index("stack")["function"]
    return [table[number] for number in ids]


def test_stack_numbers_of_the_second_lead_to_its_own_stacks():
    races = pd.DataFrame({"first_stack": pd.array([1, None], dtype="Int64"), "second_stack": pd.array([0, 1], "Int64")})
    others = ["alloc_stack", "free_stack"]
    races = races.assign(**{name: pd.array([None, None], dtype="Int64") for name in others})
    joined = merge_frames(
        {"events": events(0, 1), "stacks": stacks("a.py(1): f", "a.py(2): g")},
        {"races": races, "stacks": stacks("b.py(3): h", "b.py(4): k")},
    )
    assert functions(joined, joined["events"]["stack"]) == ["f", "g"]
    assert functions(joined, joined["races"]["first_stack"].dropna()) == ["k"]
    assert functions(joined, joined["races"]["second_stack"]) == ["h", "k"]
    Trace(RunInfo(name="t", source="cpu"), stacks=joined["stacks"])


@pytest.mark.parametrize("empty", [{}, {"stacks": empty_frame("stacks")}], ids=["missing", "empty"])
def test_one_without_stacks_leaves_the_others(empty):
    full = {"stacks": stacks("a.py(1): f")}
    for joined in (merge_frames(full, empty), merge_frames(empty, full)):
        assert joined["stacks"].equals(full["stacks"])


def test_of_two_frames_with_one_name_the_first_stays():
    joined = merge_frames({"events": events(None)}, {"events": events(None, None)})
    assert len(joined["events"]) == 1


def test_rows_of_a_frame_that_is_left_out_are_not_named():
    blocks = empty_frame("blocks").reindex(range(1)).assign(alloc=pd.array([1], "Int64"))
    memory = empty_frame("memory").reindex(range(2))
    assert merge_frames({}, {"blocks": blocks, "memory": memory})["blocks"]["alloc"].tolist() == [1]
    assert merge_frames({"memory": memory}, {"blocks": blocks})["blocks"]["alloc"].tolist() == [1]
    joined = merge_frames({"memory": memory.iloc[:1]}, {"blocks": blocks, "memory": memory})
    assert joined["blocks"]["alloc"].isna().all()
    assert len(joined["memory"]) == 1
