"""Stacks of rows that have some recorded, beside rows of Python functions, which have none."""

import numpy as np
import pandas as pd

from cudalens.analysis.time.keys import Stacks
from cudalens.frames import RunInfo, StackTable, Trace, build_events


def test_each_row_has_its_own_recorded_stack():
    """Two operators on lines of their own, and a Python function after the first."""
    table = StackTable()
    first, second = table.add(["a.py(1): first"]), table.add(["b.py(2): second"])
    events = build_events(
        {
            "ts": np.array([0, 10_000, 20_000]),
            "dur": np.array([1_000, 1_000, 1_000]),
            "name": np.array(["aten::mul", "c.py(3): function", "aten::add"]),
            "cat": np.array(["cpu_op", "python_function", "cpu_op"]),
            "pid": pd.array([1, 1, 1], dtype="Int64"),
            "tid": pd.array([7, 7, 7], dtype="Int64"),
            "stack": pd.array([first, None, second], dtype="Int64"),
        }
    )
    stacks = Stacks(Trace(RunInfo(name="stacks", source="kineto"), events=events, stacks=table.to_frame()))
    codes, places = stacks.places()
    assert [places[code] for code in (codes[0], codes[2])] == ["a.py:1", "b.py:2"]
    codes, texts = stacks.innermost(1)
    assert [texts[code] for code in (codes[0], codes[2])] == ["a.py(1): first", "b.py(2): second"]
