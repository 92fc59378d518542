"""Findings: a cause of a known size is planted into a recorded trace; the first finding names it with its size.

A program is a recorded file, a cause, in how many places it is planted, and for how long in all, in per cent of the
measured window. Without the recorded files, a made-up run is edited.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from hunting import Fault, Subject
from hypothesis import strategies as st

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS / "planted"), str(TESTS / "unit" / "analysis")]

from edited import lengthened, quiet_moments  # noqa: E402
from findings_worlds import MS, US, World  # noqa: E402
from recorded_traces import DERIVED, RECORDED, opened  # noqa: E402

from cudalens.analysis import findings  # noqa: E402
from cudalens.analysis.summary import wall_ns  # noqa: E402
from cudalens.frames import Trace, build_events  # noqa: E402
from cudalens.frames.syncs import LiveProgram, build_syncs  # noqa: E402

#: A recorded file, a cause, the number of places, and the planted time in per cent of the window.
Program = tuple[str, str, int, int]

FILES = (
    "param_dlrm8/dlrm_worker0_step_12.1694128201545.pt.trace.json",
    "param_dlrm8/dlrm_worker1_step_12.1694128201556.pt.trace.json",
    "tracelens/mi300__Falconsai_nsfw_image_detection__1016002.json.gz",
)
#: The name and category of a planted row, and the rules that name it.
CAUSES: dict[str, tuple[str | None, str, set[str]]] = {
    "loader": ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", {"data_loader"}),
    "garbage": ("Python GC", "user_annotation", {"garbage_collection"}),
    "loading": ("cuModuleLoadData", "cuda_driver", {"compiling"}),
    "compiling": ("compile_inner (dynamo_timed)", "user_annotation", {"compiling"}),
    "memory": ("cudaMalloc", "cuda_runtime", {"driver_memory"}),
    "call": ("cudaGraphInstantiate", "cuda_runtime", {"driver_calls"}),
    "work": ("write checkpoint", "user_annotation", {"host_work"}),
    "pause": (None, "user_annotation", {"host_work"}),
    "session": (None, "user_annotation", set()),
}
LOW, HIGH = 0.7, 1.4
#: By how much of the window the gain of another finding may grow: repeats of a run differ by as much.
OTHERS = 0.02


def has_recorded() -> bool:
    """Return whether the recorded traces are there, and each has quiet moments."""
    return RECORDED.is_dir()


@cache
def made_up() -> Trace:
    """Return a run with a wait in each step."""
    world = World()
    for _ in range(20):
        world.kernels(10, 100 * US).wait().sleep(20 * US)
    return world.trace(source="file:kineto")


def with_session(trace: Trace, ns: int) -> Trace:
    """Return the trace with a row of the host long before and one long after all others."""
    events = trace.events.drop(columns=[name for name in DERIVED if name in trace.events])
    first, last = int(events["ts"].min()), int((events["ts"] + events["dur"]).max())
    host = events[events["device"].isna()].iloc[0]
    rows = [{"ts": at, "dur": MS, "pid": host["pid"], "tid": host["tid"]} for at in (first - ns, last + ns)]
    more = pd.DataFrame(rows).assign(name="session", cat="user_annotation", is_instant=False)
    both = pd.concat([events.astype({"name": object, "cat": object}), more], ignore_index=True)
    both = both.iloc[np.argsort(both["ts"].to_numpy(np.int64), kind="stable")].reset_index(drop=True)
    for column in events.columns:
        kind = events[column].dtype
        both[column] = both[column].astype("category" if isinstance(kind, pd.CategoricalDtype) else kind)
    columns = {column: both[column].array for column in events.columns}
    columns |= {column: both[column].to_numpy(np.int64) for column in ("ts", "dur")}
    frames = {"events": build_events(columns), "stacks": trace.stacks}
    info = trace.info.replace(started_ns=first - ns, ended_ns=last + ns + MS)
    return Trace(info, **(frames | build_syncs(frames, LiveProgram())))


def rebuilt(trace: Trace) -> Trace:
    """Return the trace with frames that are built as those of edited traces are."""
    events = trace.events.drop(columns=[name for name in DERIVED if name in trace.events])
    columns = {column: events[column].array for column in events.columns}
    columns |= {column: events[column].to_numpy(np.int64) for column in ("ts", "dur")}
    frames = {"events": build_events(columns), "stacks": trace.stacks}
    return Trace(trace.info, **(frames | build_syncs(frames, LiveProgram())))


@cache
def original(file: str) -> Trace:
    """Return the trace that is edited."""
    return rebuilt(opened(file) if has_recorded() else made_up())


def gains_of(trace: Trace) -> dict[str, int]:
    """Return the largest gain of each rule."""
    gains: dict[str, int] = {}
    for found in findings(trace, most=None):
        if found.gain_ns is not None:
            gains.setdefault(found.rule, found.gain_ns)
    return gains


def check(program: Program) -> Fault | None:
    """Edit a trace, and compare its findings with those of the original."""
    file, cause, number, percent = program
    before = original(file)
    if cause == "session":
        wanted, found = gains_of(before), gains_of(with_session(before, percent * 10 * MS))
        if wanted != found:
            return Fault("the length of the session changes a finding", f"{wanted} became {found}")
        return None
    if not has_recorded():
        return None
    number = min(number, len(quiet_moments(file)) - 2)
    if number < 1:
        return None
    name, cat, rules = CAUSES[cause]
    each = percent * wall_ns(before) // 100 // number
    planted = each * number
    edited = lengthened(file, number, each, name, cat)
    SUBJECT.counts[cause] += 1
    first = next((one for one in findings(edited, most=None) if one.gain_ns is not None), None)
    if first is None or first.rule not in rules:
        return Fault(f"{cause} is not the first finding", f"planted {planted} ns; first is {first}")
    size = first.gain_ns - gains_of(before).get(first.rule, 0)
    if not LOW <= size / planted <= HIGH:
        return Fault(f"the figure of {cause}", f"planted {planted} ns; found {size} ns: {first}")
    others = gains_of(edited)
    for rule in others.keys() - rules:
        if others[rule] > gains_of(before).get(rule, 0) + OTHERS * wall_ns(edited):
            return Fault(
                f"another finding grew: {rule}", f"{gains_of(before).get(rule, 0)} ns became {others[rule]} ns"
            )
    return None


PROGRAMS = st.tuples(st.sampled_from(FILES), st.sampled_from(sorted(CAUSES)), st.integers(1, 8), st.integers(150, 400))
SUBJECT = Subject("edited_findings", PROGRAMS, check, num_quick=6, num_round=60)
