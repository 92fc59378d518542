"""Programs over streams, events, copies, graphs, threads and reused memory: races against an oracle, and their fixes.

Each program runs under the sanitizer and under `stream_oracle`, which shares no code with it. Then each fix that is
offered as a diff is applied to the source, and the changed program runs: the race is gone, no other race came, and it
computes the same values.
"""

from __future__ import annotations

import linecache
import math
import re
import tempfile
import textwrap
import threading
from collections import Counter
from pathlib import Path

import stream_oracle
from hunting import Fault, Subject
from hypothesis import strategies as st

import cudalens
import cudalens.virtual
from cudalens.device import modes
from cudalens.sanitizer import Sanitizer
from cudalens.sanitizer.engine.races import naming
from cudalens.sanitizer.fixes.search import findings_of
from cudalens.sanitizer.live.streams import names_of_streams
from cudalens.sanitizer.races_frame import Finding

HEAD = """\
import ctypes
import torch

s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
pool = [torch.cuda.Stream() for _ in range(2)]
legacy = torch.cuda.ExternalStream(1)
handle = ctypes.c_uint64()
torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))
blocking = torch.cuda.ExternalStream(handle.value)
use_blocking(blocking)
a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
h = torch.ones(64).pin_memory()
p = torch.ones(64)
event = torch.cuda.Event()
graph = torch.cuda.CUDAGraph()
t = u = v = None
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    a.add_(1)  # graph
torch.cuda.synchronize()

def double(x):
    x.mul_(2)  # double

def both(x, y):
    with torch.cuda.stream(s1):
        x.add_(1)  # both 1
    with torch.cuda.stream(s2):
        y.add_(1)  # both 2

def make(stream):
    x = torch.full((64,), 2.0, device="cuda")  # make 1
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        return x + 1  # make 2

class Holder:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.x = torch.ones(64, device="cuda")  # holder 1

    def fill(self):
        with torch.cuda.stream(self.side):
            self.x.fill_(1)  # holder 2

    def read(self):
        return self.x.add_(1)  # holder 3

holder = Holder()
"""

SECOND_DEVICE = """\
o1, o2 = torch.cuda.Stream(1), torch.cuda.Stream(1)
c = torch.ones(64, device="cuda:1")
torch.cuda.synchronize(1)
"""

VIEWS = st.sampled_from(["a", "b", "a[:32]", "a[32:]", "b[::2]", "b[1::2]", "a[16:48]"])
STREAMS = st.sampled_from(["s1", "s1", "s2", "s2", "pool[0]", "pool[1]", "blocking", "legacy", "holder.side"])
NAMES = st.sampled_from(["t", "u", "v"])
CURRENT = "torch.cuda.current_stream()"

IN_PLACE = st.one_of(
    st.builds("{}.add_(1)".format, VIEWS),
    st.builds("{}.mul_(b[3])".format, st.sampled_from(["a", "a[:32]", "a[16:48]"])),
    st.builds("double({})".format, VIEWS),
    st.builds("{}.copy_(b[:32])".format, st.sampled_from(["a[:32]", "a[32:]"])),
    st.builds("torch.add(a, b, out={})".format, st.sampled_from(["a", "b"])),
)
COPIES = st.one_of(
    st.builds("h.copy_({}, non_blocking=True)".format, st.sampled_from(["a", "b"])),
    st.builds("h[:32].copy_({}, non_blocking=True)".format, st.sampled_from(["a[:32]", "b[:32]", "a[32:]"])),
    st.builds("{}.copy_(h, non_blocking=True)".format, st.sampled_from(["a", "b"])),
    st.sampled_from(["p.copy_(a, non_blocking=True)", "a.copy_(p, non_blocking=True)", "h.copy_(b)"]),
)
ON_HOST = st.sampled_from(["h.add_(1)", "h.fill_(2)", "p.add_(1)", "x = a[0].item()", "h[0].item()"])
MEMORY = st.one_of(
    st.builds("{} = {} * 2".format, NAMES, VIEWS.filter(lambda view: view in ("a", "b"))),
    st.builds("{} = make({})".format, NAMES, STREAMS),
    st.builds("{} = None".format, NAMES),
    st.builds("if {0} is not None: {0}.add_(1)".format, NAMES),
    st.builds("if {0} is not None: {0}.record_stream({1})".format, NAMES, STREAMS),
    st.sampled_from(["t = torch.cat([a[:32], b[:32]])", "u = torch.cat([a[32:], b[32:]])"]),
)
ORDER = st.one_of(
    st.builds("{}.wait_stream(torch.cuda.current_stream())".format, STREAMS),
    st.builds("torch.cuda.current_stream().wait_stream({})".format, STREAMS),
    st.builds("{}.synchronize()".format, STREAMS),
    st.builds("event.record({})".format, st.one_of(st.just(""), STREAMS)),
    st.builds("event.wait({})".format, st.one_of(st.just(""), STREAMS)),
    st.sampled_from(["event.synchronize()", "torch.cuda.synchronize()"]),
)
CALLS = st.one_of(
    st.builds("both({}, {})".format, VIEWS, VIEWS),
    st.builds("on_thread(lambda: {}.add_(1))".format, VIEWS),
    st.sampled_from(["graph.replay()", "holder.fill()", "holder.read()", "on_thread(holder.fill)"]),
)
SIMPLE = st.one_of(IN_PLACE, IN_PLACE, COPIES, ON_HOST, MEMORY, MEMORY, ORDER, CALLS)
ON_TWO_DEVICES = st.one_of(
    st.sampled_from(["c.add_(1)", "c.copy_(a, non_blocking=True)", "b.copy_(c, non_blocking=True)", "double(c)"]),
    st.sampled_from(["o1.synchronize()", "o1.wait_stream(torch.cuda.current_stream(1))", "torch.cuda.synchronize(1)"]),
    st.sampled_from(["torch.cuda.current_stream(1).wait_stream(o1)", "torch.cuda.current_stream().wait_stream(o2)"]),
    st.sampled_from(["s1.wait_stream(o1)", "o2.wait_stream(s1)", "h.copy_(c, non_blocking=True)"]),
)


def indented(lines: list[str]) -> str:
    """Return lines one level further to the right."""
    return textwrap.indent("\n".join(lines), "    ")


def captured(parts: tuple[str, list[str], list[str], bool, bool]) -> str:
    """Return a capture of two streams, which is replayed."""
    stream, aside, here, is_joined_before, is_replayed = parts
    join = f"torch.cuda.current_stream().wait_stream({stream})"
    lines = [
        f"{stream}.wait_stream({CURRENT})",
        f"with torch.cuda.stream({stream}):",
        *(f"    {line}" for line in aside),
        *([join, *here] if is_joined_before else [*here, join]),
    ]
    replay = "\ng.replay()" if is_replayed else ""
    return f"g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n{indented(lines)}{replay}"


def blocks(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw the statements that hold others."""
    several = st.lists(children, min_size=1, max_size=3).map(indented)
    pair = st.lists(IN_PLACE, min_size=1, max_size=2)
    side = st.sampled_from(["s1", "s2", "pool[0]"])
    return st.one_of(
        st.builds("with torch.cuda.stream({}):\n{}".format, STREAMS, several),
        st.builds("with torch.cuda.stream({}):\n{}".format, STREAMS, several),
        st.builds("for _ in range(2):\n{}".format, several),
        st.builds("for s in (s1, s2):\n    with torch.cuda.stream(s):\n{}".format, several.map(indent_more)),
        st.builds("if a.numel():\n{}".format, several),
        st.builds("with torch.no_grad():\n{}".format, several),
        st.builds("def part():\n    global t, u, v\n{}\npart()".format, several),
        st.tuples(side, pair, pair, st.booleans(), st.booleans()).map(captured),
    )


def indent_more(text: str) -> str:
    """Return text one level further to the right."""
    return textwrap.indent(text, "    ")


def bodies(simple: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """Draw the statements of a program."""
    return st.lists(st.recursive(simple, blocks, max_leaves=4), min_size=2, max_size=5)


PROGRAMS = st.one_of(
    st.tuples(st.just(HEAD), bodies(SIMPLE)),
    st.tuples(st.just(HEAD), bodies(SIMPLE)),
    st.tuples(st.just(HEAD), bodies(SIMPLE)),
    st.tuples(st.just(HEAD + SECOND_DEVICE), bodies(st.one_of(SIMPLE, ON_TWO_DEVICES, ON_TWO_DEVICES))),
)


def source(program: tuple[str, list[str]]) -> str:
    """Return a program as text; each line of its body ends with a number, by which it is known in changed text."""
    head, statements = program
    lines = "\n".join(statements).splitlines()
    return head + "".join(f"{line}  # {number}\n" for number, line in enumerate(lines))


def on_thread(function) -> None:
    """Run a function on a thread of its own, and wait for it."""
    mode = stream_oracle.current_observer()
    errors: list[BaseException] = []

    def run() -> None:
        if mode is not None:
            modes.enter(mode)
        try:
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            if mode is not None:
                modes.leave(mode)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


class Run:
    """One run of a program in a file.

    Attributes:
        races: The races that the sanitizer found.
        findings: The races with their fixes; empty unless asked for.
        values: The final values of all variables with tensors.
        oracle: The oracle.
    """

    def __init__(self, text: str, path: Path, *, has_fixes: bool) -> None:
        path.write_text(text)
        linecache.checkcache(str(path))
        code = compile(text, str(path), "exec")
        with cudalens.virtual.device("h100x2"), cudalens.sanitize() as san:
            with stream_oracle.observed(str(path)) as self.oracle:
                space = self.execute(code)
            self.races = san.races
            self.findings = find_fixes(san, space) if has_fixes else []
            self.error = san.error
            self.values = {
                name: value.tolist() for name, value in sorted(space.items()) if hasattr(value, "untyped_storage")
            }
            space.clear()

    def execute(self, code) -> dict[str, object]:
        """Run the program in variables of its own."""
        space = {"__name__": "__main__", "on_thread": on_thread, "use_blocking": self.oracle.use_blocking}
        exec(code, space)
        return space


def find_fixes(san: Sanitizer, space: dict[str, object]) -> list[Finding]:
    """Return the races with their fixes, however long the search takes."""
    with naming(names_of_streams(space)):
        captures = san.log.capture_records()
        return findings_of(san.log.records(), san.races, captures=captures, budget_s=math.inf)


def marker(line: str) -> str:
    """Return the number at the end of a line."""
    return line.rpartition("# ")[2].strip()


def marked(race) -> tuple[str, str, str]:
    """Return a race as its kind and the numbers of its lines: of a replay, also those that were captured."""
    return race.kind.value, marks(race.first), marks(race.second)


def marks(access) -> str:
    """Return the numbers at the ends of the lines of an access."""
    places = [access.place] if access.captured is None else [access.place, access.captured]
    return " ".join(marker(place.source) for place in places)


def lines_of(race) -> tuple[int, int]:
    """Return the lines of both accesses."""
    return race.first.place.line, race.second.place.line


def applied(text: str, diff: str) -> str:
    """Return the text with a unified diff applied, by the diff's own line numbers."""
    lines, out, at = text.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk:
            start = int(hunk[1]) - 1
            out += lines[at:start]
            at = start
        elif line[0] == "+":
            out.append(line[1:])
        else:
            if lines[at] != line[1:]:
                raise AssertionError("the context of the diff is not the source")
            out += [line[1:]] if line[0] == " " else []
            at += 1
    return "".join(out + lines[at:])


def check(program: tuple[str, list[str]]) -> Fault | None:
    """Compare the races of a program with the oracle's, then apply and run each fix."""
    text = source(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        run = Run(text, path, has_fixes=True)
        if run.error is not None:
            return Fault("the sanitizer ended with an error", repr(run.error))
        fault = compare_races(run)
        if fault is not None:
            return fault
        for finding in run.findings:
            if finding.fix is None:
                return Fault(f"no fix for a race: {finding.race.kind.value}", str(finding.race))
            fault = check_fix(text, path, run, finding)
            if fault is not None:
                return fault
    return None


def compare_races(run: Run) -> Fault | None:
    """Compare the lines of races with those of the oracle: each access that races is found, and no other pair."""
    expected = run.oracle.racing_lines()
    found = {lines_of(race) for race in run.races}
    SUBJECT.counts["races"] += len(found)
    if found - expected:
        pair = min(found - expected)
        kind = next(race.kind.value for race in run.races if lines_of(race) == pair)
        return Fault(f"a race that is none: {kind}", f"lines {pair}; the oracle has {sorted(expected)}")
    missed = {second for _, second in expected} - {second for _, second in found}
    if missed:
        return Fault("an access that races is not found", f"lines {sorted(missed)} of {sorted(expected)}")
    return None


def check_fix(text: str, path: Path, run: Run, finding) -> Fault | None:
    """Apply a fix to the source and run it."""
    fix = finding.fix
    if not fix.diff:
        SUBJECT.counts["fixes in words"] += 1
        return None
    path.write_text(text)
    linecache.checkcache(str(path))
    before = {marked(each.race) for each in run.findings}
    removed = {marked(each.race) for each in run.findings if each.race.key in fix.removes}
    changed = applied(text, fix.diff)
    name = re.sub(r"\W+", "_", fix.kind.name.lower())
    story = f"{fix.words}\n{fix.diff}"
    try:
        again = Run(changed, path, has_fixes=False)
    except Exception as error:
        return Fault(f"a fix does not run: {name}: {type(error).__name__}", f"{error}\n{story}")
    SUBJECT.counts["fixes applied"] += 1
    left = {marked(race) for race in again.races}
    if removed & left:
        return Fault(f"a fix leaves its race: {name}", f"{sorted(removed & left)}\n{story}")
    if left - before:
        return Fault(f"a fix makes a race: {name}", f"{sorted(left - before)}\n{story}")
    if fault := compare_races(again):
        return Fault(f"after a fix, {fault.kind}", f"{fault.text}\n{story}")
    if {name: value for name, value in again.values.items() if name in run.values} != run.values:
        return Fault(f"a fix changes values: {name}", story)
    return None


SUBJECT = Subject("stream_programs", PROGRAMS, check, source, num_quick=6, num_round=60, counts=Counter())
