"""Averages by shapes and stacks, FLOPs, memory and totals against torch's own averages of the very same runs."""

from __future__ import annotations

import json
from collections import Counter

import pandas as pd
import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from profiled_programs import (
    WITH_PYTHON,
    asynchronous,
    mlp_training,
    nested_same_name,
    recorded,
    threaded_autograd,
    transformer_step,
)
from torch.profiler import record_function

import cudalens
from cudalens.analysis import attribution, key_averages, total_average
from cudalens.frames import RunInfo, Trace
from cudalens.profiler import ProfilerOptions

EVERYTHING = {"shapes": True, "flops": True, "stacks": True, "modules": True, "cpu_only": True}


def options(**more) -> ProfilerOptions:
    """torch fills in stacks in verbose runs alone."""
    return ProfilerOptions(**(EVERYTHING | more), experimental=torch._C._profiler._ExperimentalConfig(verbose=True))


def run(program, chosen):
    program()  # what torch imports and compiles at first is thousands of Python calls
    frames, peer = recorded(program, chosen)
    return Trace(RunInfo(name="run", source="cpu"), **frames), peer


def torchs(peer, shapes, num_entries) -> Counter:
    rows = peer.key_averages(group_by_input_shape=shapes, group_by_stack_n=num_entries, **WITH_PYTHON)
    return Counter(
        (
            row.key,
            str(row.input_shapes or []) if shapes else "",
            tuple(row.stack[:num_entries]),
            row.is_user_annotation,
            row.count,
            round(row.cpu_time_total * 1000),
            round(row.self_cpu_time_total * 1000),
            row.flops or 0,
        )
        for row in rows
        if row.key not in ("[memory]", "[OutOfMemory]")
    )


def ours(trace, shapes, num_entries) -> Counter:
    by = ["name", *(["input_shapes"] if shapes else []), *([f"stack:{num_entries}"] if num_entries else [])]
    averages = key_averages(trace, by=by)
    return Counter(
        (
            row["name"],
            str(json.loads(row["input_shapes"])) if shapes and isinstance(row["input_shapes"], str) else "[]" * shapes,
            tuple(row["stack"].split("\n")) if num_entries and isinstance(row["stack"], str) else (),
            row["cat"] == "user_annotation",
            row["count"],
            row["total_ns"],
            row["self_ns"],
            0 if row["flops"] is None or row["flops"] != row["flops"] else int(row["flops"]),
        )
        for row in averages.astype(object).where(averages.notna(), None).to_dict("records")
    )


def operators(rows: Counter, engine: set[str]) -> Counter:
    """Operators of the forward pass, and backward functions, alone.

    Stacks of the rest differ on purpose. A range's is its caller's, not that of the calls that open it. The engine's
    own rows, and what it calls between backward functions, have the stack of the forward operator that they serve.
    """
    other = ("autograd::engine::", "torch::autograd::", "<built-in", "nn.Module: ")
    return Counter(
        {
            row: count
            for row, count in rows.items()
            if not row[3] and not row[0].startswith(other) and "): " not in row[0] and row[0] not in engine
        }
    )


def beneath_the_engine(events) -> set[str]:
    """Names of what runs in the backward pass, backward functions left out."""
    names, parent = events["name"].astype(str).tolist(), events["parent"].to_numpy(dtype=int, na_value=-1)
    inside: list[bool] = []
    for row, up in enumerate(parent):
        inside.append(names[row].startswith(("autograd::engine", "torch::autograd")) or (up >= 0 and inside[up]))
    return {name for name, within in zip(names, inside, strict=True) if within and "Backward" not in name}


GROUPINGS = [(False, 0), (True, 0), (False, 1), (False, 5), (True, 5), (True, 40)]


class Doubled(torch.autograd.Function):
    """A backward written in Python, whose rows stand within a backward function."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return _twice(grad)


def _twice(grad):
    return grad + grad


def python_backward() -> None:
    x = torch.randn(3, requires_grad=True)
    Doubled.apply(x.exp()).sum().backward()
    torch.cat([x, x]).sum()
    with record_function("aten::add"):
        torch.ones(2) + 1


PROGRAMS = [mlp_training, transformer_step, nested_same_name, threaded_autograd, asynchronous, python_backward]
SCRIPTED = (asynchronous,)
"""TorchScript reports stacks of its own, which are no Python calls."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_grouping_equals_torchs_to_the_nanosecond(program):
    trace, peer = run(program, options())
    for shapes, num_entries in GROUPINGS[: 2 if program in SCRIPTED else None]:
        expected, found = torchs(peer, shapes, num_entries), ours(trace, shapes, num_entries)
        if num_entries:
            engine = beneath_the_engine(trace.events)
            expected, found = operators(expected, engine), operators(found, engine)
        assert found == expected, (shapes, num_entries)
        assert len(expected) > 2


def square(n):
    return torch.ones(n, n).square()


def product(n):
    return torch.mm(torch.ones(n, 3), torch.ones(3, n))


def joined(n):
    return torch.cat([torch.ones(n), torch.ones(2)])


def trained(n):
    layer = torch.nn.Linear(n, 2)
    layer(torch.ones(1, n)).sum().backward()


actions = st.recursive(
    st.tuples(st.sampled_from([square, product, joined, trained]), st.integers(1, 3)),
    lambda inner: st.tuples(st.sampled_from(["a", "b", "aten::ones"]), st.lists(inner, max_size=3)),
    max_leaves=8,
)


def perform(action) -> None:
    what, argument = action
    if callable(what):
        what(argument)
        return
    with record_function(what):
        for inner in argument:
            perform(inner)


@given(st.lists(actions, min_size=1, max_size=4))
@settings(max_examples=examples(12))
def test_any_program_equals_torch(script):
    def program():
        for action in script:
            perform(action)

    trace, peer = run(program, options(stacks=False, modules=False))
    for shapes in (False, True):
        assert ours(trace, shapes, 0) == torchs(peer, shapes, 0)
    total, expected = total_average(trace).iloc[0], peer.total_average()
    assert total["count"] == expected.count
    assert total["total_ns"] == round(expected.cpu_time_total * 1000)
    assert total["self_ns"] == round(expected.self_cpu_time_total * 1000)
    assert (0 if pd.isna(total["flops"]) else int(total["flops"])) == expected.flops


@pytest.mark.parametrize("program", [mlp_training, nested_same_name, python_backward])
def test_memory_of_one_thread_equals_torchs(program):
    trace, peer = run(program, ProfilerOptions(memory=True, cpu_only=True))
    averages = key_averages(trace)
    found = {
        (row.name, row.cat == "user_annotation"): (int(row.host_memory_bytes), int(row.self_host_memory_bytes))
        for row in averages.itertuples()
    }
    expected = {
        (row.key, row.is_user_annotation): (row.cpu_memory_usage, row.self_cpu_memory_usage)
        for row in peer.key_averages()
        if row.key != "[memory]"
    }
    assert found == expected
    assert any(total for total, _ in found.values())
    total, torchs_total = total_average(trace).iloc[0], peer.total_average()
    in_rows = sum(row.cpu_memory_usage for row in peer.key_averages() if row.key != "[memory]")
    assert total["host_memory_bytes"] == in_rows
    freed_outside = sum(row.self_cpu_memory_usage for row in peer.key_averages() if row.key == "[memory]")
    assert total["self_host_memory_bytes"] == torchs_total.self_cpu_memory_usage - freed_outside
    assert total["device_memory_bytes"] == 0
    assert pd.isna(total_average(run(program, options())[0]).iloc[0]["host_memory_bytes"])


def by_module(trace):
    return trace.key_averages(by=["name", "module"]).astype(object).fillna("-").values.tolist()


def test_modules_are_the_same_in_the_run_and_in_its_files(tmp_path):
    """Files name modules on operators (ours), or as calls of Python alone (torch's export)."""
    trace, _ = run(mlp_training, options())
    live = trace.key_averages(by=["module"]).set_index("module")["self_ns"]
    assert live.index.notna().sum() > 1
    ours_again = cudalens.load(trace.to_chrome(tmp_path / "ours.json"))
    assert by_module(ours_again) == by_module(trace)
    assert attribution(ours_again, by="module").equals(attribution(trace, by="module"))
    bare = ours_again.events.assign(
        module=pd.Categorical([None] * len(trace)), stack=pd.array([None] * len(trace), "Int64")
    )
    torchs_like = ours_again.replace(events=bare.astype({"module": pd.CategoricalDtype(pd.Index([], dtype="str"))}))
    assert torchs_like.key_averages(by=["module"]).set_index("module")["self_ns"].to_dict() == live.to_dict()


def test_lines_are_called_as_the_notebook_calls_its_cells():
    trace, _ = run(lambda: square(2), ProfilerOptions(stacks=True, cpu_only=True))
    (own,) = trace.key_averages(by=["name", "cell_line"]).query("name == 'aten::square'")["cell_line"]
    assert own.startswith((__file__.rpartition("/")[2], __file__))
    labelled = trace.replace(info=trace.info.replace(extra={"cells": json.dumps({own.rpartition(":")[0]: "In[7]"})}))
    (named,) = labelled.key_averages().query("name == 'aten::square'")["place"]
    assert named == f"In[7]:{own.rpartition(':')[2]}"
    broken = trace.replace(info=trace.info.replace(extra={"cells": "[1]"}))
    assert broken.key_averages(by="cell_line").equals(trace.key_averages(by="cell_line"))
