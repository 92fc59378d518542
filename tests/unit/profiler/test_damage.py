"""One bad value in torch's raw results costs that value: everything else is kept, and the damage is counted."""

from __future__ import annotations

import os
import sys
import textwrap

import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_events import ALLOCATION, KERNEL, START_NS, RawEvent, RawResult, activity, function

from cudalens.analysis import key_averages
from cudalens.frames import RunInfo, Trace, check_frame
from cudalens.frames.limits import Problems
from cudalens.profiler import ProfilerOptions
from cudalens.profiler.collector import build_frames

IS_THOROUGH = os.environ.get("CUDALENS_HYPOTHESIS") == "thorough"
IMPORTED = [["networkx"], ["jinja2", "plotly.express"]]
EVERYTHING = ProfilerOptions(memory=True, shapes=True, stacks=True, modules=True, flops=True)


def read(events, activities=(), options=EVERYTHING, *, uses_cuda=True):
    """Frames of `events`, and the number of each kind of damage."""
    problems = Problems()
    frames = build_frames(RawResult(events, activities), options, problems, uses_cuda=uses_cuda)
    for name, frame in frames.items():
        check_frame(name, frame)
    return frames, {problem.kind: problem.count for problem in problems.to_tuple()}


def names(events):
    return read(events)[0]["events"]["name"].tolist()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"package/module.py(0): \xb0q\xdcp'\x7f", "package/module.py(0): <damaged name>"),
        (b"package/module.py(0): \x0f", "package/module.py(0): <damaged name>"),
        (b"package/module.py(0): ", "package/module.py(0): <damaged name>"),
        (b"package/module.py(0): torch.profiler", "package/module.py(0): <damaged name>"),
        (b"package/module.py(0): <listcomp>", "package/module.py(0): <damaged name>"),
        (b"p\xa8\xe5p(0): \xb0", "<damaged file>(0): <damaged name>"),
        (b"\n    Text.\n    (0): solve", "<damaged file>(0): <damaged name>"),
        (b"networkx/readwrite(0): ", "<damaged file>(0): <damaged name>"),
        (b"\xff\xfe(12): forward", "<damaged file>(12): forward"),
        (b"package/module.py(7): \xff", "package/module.py(7): <damaged name>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (RuntimeError("freed"), "<damaged name>"),
    ],
)
def test_a_damaged_name_of_a_function_is_marked_and_counted(name, shown):
    frames, problems = read([function(name), function(b"main.py(3): main", start_ns=START_NS - 5)])
    assert frames["events"]["name"].tolist() == ["main.py(3): main", shown]
    assert problems == {"damaged name": 1}


@pytest.mark.parametrize(
    "name",
    [
        "package/module.py(0): <module>",
        "<string>(0): <module>",
        "In[3](0): <cell line: 1>",
        "main.py(1): <lambda>",
        "größe.py(8): maß",
        "<built-in method item of Tensor object at 0x7f>",
        "nn.Module: Linear_0",
    ],
)
def test_whole_names_of_functions_stay(name):
    assert read([function(name)])[1] == {}
    assert names([function(name)]) == [name]


def test_a_range_of_the_program_may_have_any_text():
    text = "layer(0): x\n"
    marked = RawEvent(name=text, activity_type="user_annotation")
    frames, problems = read([marked, function(text, start_ns=START_NS + 1)])
    assert frames["events"]["name"].tolist() == [text, "<damaged file>(0): <damaged name>"]
    assert problems == {"damaged name": 1}


def test_damaged_names_are_counted_by_event_and_are_in_stacks():
    outer = function(b"package/module.py(0): \xff", duration_ns=1000)
    calls = [RawEvent(start_ns=START_NS + at) for at in (10, 200)]
    frames, problems = read([outer, outer, *calls])
    assert problems == {"damaged name": 2}
    assert set(frames["stacks"]["function"]) == {"<damaged name>"}


@pytest.mark.parametrize(
    ("getter", "column"),
    [
        ("duration_ns", "dur"),
        ("device_resource_id", "tid"),
        ("correlation_id", "external_id"),
        ("sequence_nr", "sequence_nr"),
        ("structured_input_shapes", "shapes"),
        ("dtypes", "dtypes"),
        ("flops", "flops"),
        ("activity_type", "cat"),
    ],
)
@pytest.mark.parametrize(
    "damage",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        KeyError("gone"),
        AttributeError("gone"),
        RuntimeError("internal assert failed"),
        None,
        float("nan"),
        1 << 70,
        b"\xff",
        object(),
    ],
    ids=lambda damage: type(damage).__name__,
)
def test_a_bad_value_costs_that_value(getter, column, damage):
    values = {"sequence_nr": 5, "fwd_thread_id": 2}
    second = RawEvent(start_ns=START_NS + 500)
    whole = read([RawEvent(**values), second], uses_cuda=False)[0]["events"]
    frames, problems = read([RawEvent(**values | {getter: damage}), second], uses_cuda=False)
    events = frames["events"]
    assert problems == {f"unusable {getter}": 1}
    follows = {"fwd_tid"} if column == "sequence_nr" else {"thread"} if column == "tid" else set()
    kept = [name for name in whole if name not in {column, "self_dur"} | follows]
    assert events[kept].astype(str).equals(whole[kept].astype(str))
    assert events[column][0] in (0, "unknown") if column in ("dur", "cat") else events[column].isna()[0]
    assert str(events[column][1]) == str(whole[column][1])


def test_only_an_event_without_a_start_is_left_out():
    events = [RawEvent(start_ns=start) for start in (START_NS, None, -5, 0, 1 << 62)]
    frames, problems = read([*events, "no event"])
    assert frames["events"]["ts"].tolist() == [START_NS]
    assert problems["event without a usable start"] == 5
    assert problems["unusable start_ns"] == 2


def test_durations_that_cannot_be_right_are_zero_and_counted():
    frames, problems = read(
        [RawEvent(start_ns=START_NS + i, duration_ns=dur) for i, dur in enumerate((-1, 1 << 61, 9))]
    )
    assert frames["events"]["dur"].tolist() == [0, 0, 9]
    assert problems == {"impossible duration, taken as length 0": 2}


def test_values_of_another_type_among_names_are_damage():
    frames, problems = read([RawEvent(name=7), RawEvent(name="\ud800", start_ns=START_NS + 1)])
    assert frames["events"]["name"].tolist() == ["<damaged name>"] * 2
    assert problems == {"damaged name": 2}


def test_a_getter_that_this_build_of_torch_lacks_is_unknown_throughout(monkeypatch):
    for getter in ("sequence_nr", "is_hidden_event", "is_async", "start_thread_id", "end_thread_id", "correlation_id"):
        monkeypatch.delattr(RawEvent, getter)
    frames, problems = read([RawEvent(), RawEvent(start_ns=START_NS + 500)])
    assert frames["events"]["tid"].tolist() == [4711] * 2
    assert frames["events"]["external_id"].isna().all()
    assert problems == {}


def test_device_work_without_a_device_is_that_of_device_0():
    frames, problems = read([RawEvent(**KERNEL, device_index=-1), RawEvent(**KERNEL, device_index=1)])
    assert frames["events"]["device"].tolist() == [0, 1]
    assert problems["device work without a device, taken as device 0"] == 1


FACTS = '"grid": [66,1,1], "registers per thread": 32, "blocks per SM": 0.5, "correlation": {0}'


def kernels(*metadata, correlations=None):
    """The events frame of kernels with these launch facts, and the damage."""
    ids = correlations or range(1, len(metadata) + 1)
    events = [RawEvent(**KERNEL, correlation_id=i, start_ns=START_NS + i) for i in range(1, len(metadata) + 1)]
    activities = [activity("kernel", text, correlation_id=i) for i, text in zip(ids, metadata, strict=True)]
    frames, problems = read(events, activities)
    return frames["events"], problems


@pytest.mark.parametrize(
    ("metadata", "grid", "registers", "kind"),
    [
        ('"grid": [66,1,1], "registers per thread": "many"', "[66,1,1]", None, "unusable 'registers per thread'"),
        ('"grid": [66,1,1], "registers per thread": {}', "[66,1,1]", None, "unusable 'registers per thread'"),
        ('"grid": [66,1', None, None, "args that cannot be read"),
        ("\ud800", None, None, "args that cannot be read"),
    ],
)
def test_bad_launch_facts_cost_that_fact_or_those_of_that_row(metadata, grid, registers, kind):
    events, problems = kernels(FACTS.format(1), metadata, FACTS.format(3))
    assert problems == {kind: 1}
    assert events["grid"].astype(object).where(events["grid"].notna(), None).tolist() == ["[66,1,1]", grid, "[66,1,1]"]
    assert events["registers"].isna().tolist() == [False, registers is None, False]
    assert events["blocks_per_sm"].isna().tolist() == [False, True, False]


def test_numbers_that_their_column_cannot_hold_are_missing():
    text = '"registers per thread": 4294967296, "bytes": 99999999999999999999, "blocks per SM": 1e300'
    events, _ = kernels(text, FACTS.format(2))
    assert events[["registers", "num_bytes", "blocks_per_sm"]].isna().all(axis=1).tolist() == [True, False]


def test_launch_facts_of_no_row_cost_those_of_one_row():
    events, problems = kernels(FACTS.format(1), FACTS.format(2), FACTS.format(3), correlations=(1, 9, 3))
    assert events["registers"].isna().tolist() == [False, True, False]
    assert problems == {"device work without launch facts": 1}


def test_a_list_of_activities_that_cannot_be_had_costs_the_launch_facts():
    result = RawResult([RawEvent(**KERNEL)])
    result.trace_activities = lambda: 1 / 0
    problems = Problems()
    frames = build_frames(result, EVERYTHING, problems, uses_cuda=True)
    assert frames["events"]["name"].tolist() == ["gemm"]
    assert [problem.kind for problem in problems.to_tuple()] == ["launch facts that cannot be read"]


MEMORY_FACTS = '"Bytes": {0}, "Addr": {1}, "Total Allocated": {0}, "Total Reserved": 0'


def test_bad_allocator_facts_cost_that_action():
    events = [RawEvent(**ALLOCATION | {"nbytes": size}, start_ns=START_NS + size) for size in (512, 1024, 2048)]
    texts = MEMORY_FACTS.format(512, 64), '"Bytes": 10', MEMORY_FACTS.format(2048, 192)
    activities = [
        activity("cpu_instant_event", text, name="[memory]", timestamp=START_NS + size)
        for size, text in zip((512, 1024, 2048), texts, strict=True)
    ]
    memory = read(events, activities)[0]["memory"]
    assert memory["addr"].isna().tolist() == [False, True, False]
    assert memory["num_bytes"].tolist() == [512, 1024, 2048]
    assert memory["allocated_bytes"].tolist() == [512, 1536, 3584]


def test_an_allocation_without_a_size_is_left_out_and_counted():
    frames, problems = read([RawEvent(**ALLOCATION), RawEvent(**ALLOCATION | {"nbytes": None})])
    assert frames["memory"]["num_bytes"].tolist() == [1024]
    assert problems == {"unusable nbytes": 1}


DAMAGE = st.sampled_from(
    [
        UnicodeDecodeError("utf-8", b"a\xffb", 0, 1, "invalid"),
        *(KeyError("x"), ValueError("x"), OverflowError("x"), None, -7, 1 << 70, float("inf"), b"\xff", [[-1]], {}),
    ]
)
BASES = st.sampled_from([{}, KERNEL, ALLOCATION, {"activity_type": "python_function", "name": "a.py(3): f"}])


@st.composite
def damaged_runs(draw):
    """Values of events, and for each the getters that are damaged."""
    events = []
    for i in range(draw(st.integers(1, 8))):
        values = draw(BASES) | {"start_ns": START_NS + 50 * i, "sequence_nr": draw(st.integers(-1, 3))}
        getters = sorted(RawEvent().values)
        damaged = draw(st.dictionaries(st.sampled_from(getters), DAMAGE, max_size=3))
        events.append((values, damaged))
    return events


@given(damaged_runs(), st.booleans())
def test_whatever_is_damaged_the_rest_is_kept_and_can_be_used(run, uses_cuda):
    frames, problems = read([RawEvent(**values | damaged) for values, damaged in run], uses_cuda=uses_cuda)
    events = frames["events"]
    whole = [v for v, damaged in run if not damaged and v.get("name") != "[memory]"]
    kept = set(zip(events["ts"].tolist(), events["name"].tolist(), events["dur"].tolist(), strict=True))
    assert {(v["start_ns"], v.get("name", "aten::mm"), 100) for v in whole} <= kept
    trace = Trace(RunInfo(name="run", source="cpu"), **frames)
    assert len(key_averages(trace)) <= len(events)
    assert trace.summary()
    if not any(damaged for _, damaged in run):
        assert problems == {}


IMPORTS = """
    import cudalens, sys
    with cudalens.profile("run", stacks=True, modules=True, memory=True, cpu_only=True) as run:
        for name in sys.argv[1:]:
            __import__(name)
        import torch
        torch.ones(3).sum()
    trace = run.trace
    kinds = {problem.kind: problem.count for problem in trace.info.problems}
    assert set(kinds) <= {"damaged name"}, kinds
    assert "aten::ones" in set(trace.events["name"])
    functions = trace.events[trace.events["cat"] == "python_function"]["name"].astype(str)
    at_start = functions[functions.str.contains("(0): ", regex=False)].str.partition("(0): ")[2]
    wrong = set(at_start) - {"<module>", "<damaged name>"}
    assert not wrong, wrong
    marked = functions.str.contains("<damaged ", regex=False)
    assert marked.sum() == kinds.get("damaged name", 0)
    trace.save(sys.argv[1] + ".cudalens")
    assert len(cudalens.load(sys.argv[1] + ".cudalens").events) == len(trace.events)
    print(marked.sum())
"""


def run_program(source, *args, cwd):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    order = ("-c", textwrap.dedent(source), *args)
    return programs.run(*order, cwd=cwd, env=environment, timeout=600, imported=programs.LIBRARIES)


@pytest.mark.parametrize("modules", IMPORTED if IS_THOROUGH else IMPORTED[:1])
def test_a_block_that_imports_modules_keeps_its_run(modules, tmp_path):
    done = run_program(IMPORTS, *modules, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("place", "device"), [("cudalens.virtual.device('h100')", "cuda"), ("nullcontext()", "cpu")])
def test_the_first_profile_of_a_process_has_no_damage_of_our_own(place, device):
    program = (
        "import torch, cudalens\n"
        "from contextlib import nullcontext\n"
        f"with {place}, cudalens.profile(stacks=True, modules=True, memory=True, syncs=True) as profile:\n"
        f"    torch.nn.Linear(8, 8, device='{device}')(torch.ones(8, 8, device='{device}')).sum().item()\n"
        "print(profile.trace.info.problems)\n"
    )
    done = programs.run("-c", program, imported=programs.LIBRARIES)
    assert done.stdout == "()\n", done.stdout + done.stderr
