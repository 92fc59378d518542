"""Interrupts at lines of cudalens: afterwards nothing is patched, and a profile, a check and a graph work.

``python tests/hunt/subjects/interrupts.py [NAME...] [--step N]`` interrupts every N-th line (each, by default) of every
scenario, or of those named. A line that several of them execute is interrupted in the first one.
"""

from __future__ import annotations

import argparse
import functools
import gc
import os
import pickle
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "support")]

import torch
from hunting import Fault, Subject
from hypothesis import strategies as st
from interrupts import Interruption, Place, executed_places, interrupt_at
from IPython.core.interactiveshell import InteractiveShell
from torch_state import changes, state

import cudalens
from cudalens import history, virtual

#: A program: a scenario, and the number of the line at which it is interrupted, modulo their number.
Program = tuple[str, int]


def profile_block() -> None:
    """Profile a block on the CPU, with allocations, shapes and stacks."""
    with cudalens.profile("block", memory=True, shapes=True, stacks=True, cpu_only=True):
        torch.ones(3) + 1


def profile_steps() -> None:
    """Profile the steps of a schedule."""
    schedule = cudalens.schedule(wait=1, warmup=1, active=1, repeat=1)
    with cudalens.profile("steps", cpu_only=True, schedule=schedule) as run:
        for _ in range(4):
            torch.ones(3) + 1
            run.step()


def profile_device() -> None:
    """Profile work of a virtual device."""
    with virtual.device("h100"), cudalens.profile("device", syncs=True):
        (torch.ones(3, device="cuda") + 1).sum().item()


def sanitize_block() -> None:
    """Check a block that has a race."""
    with warnings.catch_warnings(), virtual.device("h100"), cudalens.sanitize():
        warnings.simplefilter("ignore")
        race()


def graph_calls() -> None:
    """Call a graphed function until it replays."""
    with virtual.device("h100"):
        graphed = cudalens.cudagraph(double)
        for value in range(4):
            graphed(torch.full((3,), float(value), device="cuda"))


def watch_loop() -> None:
    """Watch a loop."""
    with cudalens.watch() as watch:
        for _ in range(4):
            torch.ones(3) + 1
            watch.step()


def keep_history() -> None:
    """Keep a run in a file of past runs, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        history.on(Path(folder, "history.jsonl"))
        try:
            history.record(recorded_trace())
            history.table()
        finally:
            history.off()
            history.clear()


def load_magics() -> None:
    """Load the magics into a shell and remove them."""
    cudalens.load_ipython_extension(shell())
    cudalens.unload_ipython_extension(shell())


def run_cells() -> None:
    """Run a cell of each kind in a shell with the magics."""
    run_in_shell("%%cudaprofile -q\nx = 7", "%cudasan on\n", "x = 8", "%cudasan off")


def memory_cells() -> None:
    """Record the memory of a cell, and take a snapshot."""
    with virtual.device("h100"):
        run_in_shell("import torch", "%%cudamem -q\nx = torch.ones(64, device='cuda')", "%cudamem snapshot")


def overhead_cell() -> None:
    """Run a cell again to measure what the profiler costs."""
    run_in_shell("import torch", "%%cudaprofile -q --cpu-only --overhead\nx = torch.ones(3) + 1")


def graph_cell() -> None:
    """Run a cell as a CUDA graph, and check its replay."""
    with virtual.device("h100"):
        run_in_shell(
            "import torch; x = torch.ones(64, device='cuda')", "%%cudagraph -q --check\ny = x * 2", "assert y[0] == 2"
        )


def run_in_shell(*cells: str) -> None:
    """Run cells in a shell with the magics; an interrupt or another error of a cell leaves this function."""
    cudalens.load_ipython_extension(shell())
    for cell in cells:
        result = shell().run_cell(cell, silent=True)
        result.raise_error()
        if shown_interrupts:  # it came in a callback after the cell, whose errors IPython shows
            raise shown_interrupts.pop()
    cudalens.unload_ipython_extension(shell())


SCENARIOS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        profile_block,
        profile_steps,
        profile_device,
        sanitize_block,
        graph_calls,
        watch_loop,
        keep_history,
        load_magics,
        run_cells,
        memory_cells,
        overhead_cell,
        graph_cell,
    )
}


def race() -> None:
    """Write from two streams without an order."""
    x = torch.ones(64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.fill_(2)


def double(x: torch.Tensor) -> torch.Tensor:
    """Return twice the values."""
    return x * 2


#: Interrupts that the shell showed as tracebacks.
shown_interrupts: list[KeyboardInterrupt] = []


@functools.cache
def shell() -> InteractiveShell:
    """Return the one shell of this process."""
    made = InteractiveShell.instance()
    made.showtraceback = note_interrupt
    return made


def note_interrupt(*_: object, **__: object) -> None:
    """Keep the exception that the shell shows, if it is an interrupt."""
    error = sys.exc_info()[1]
    if isinstance(error, KeyboardInterrupt):
        shown_interrupts.append(error)


@functools.cache
def recorded_trace() -> cudalens.Trace:
    """Return the Trace of a profile, made once."""
    with cudalens.profile("recorded", cpu_only=True, keep=False) as run:
        torch.ones(3) + 1
    return run.trace


@functools.cache
def prepare() -> None:
    """Import and initialize in this process what the scenarios need, before it forks."""
    torch.set_num_threads(1)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # set by shells for background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    recorded_trace()
    for scenario in SCENARIOS.values():
        scenario()
    find_damage()


@functools.cache
def places(name: str) -> list[Place]:
    """Return the lines that a scenario executes."""
    prepare()
    return executed_places(SCENARIOS[name])


def find_damage() -> str:
    """Use a profile, a check and a graph; return what does not work, or an empty text."""
    with cudalens.profile("after", cpu_only=True) as run:
        torch.ones(3) + 1
    if "aten::add" not in set(run.trace.events["name"]):
        return "a profile has no events of its block"
    if cudalens.runs.last is not run.trace:
        return "the last run is another one"
    with warnings.catch_warnings(), virtual.device("h100"):
        warnings.simplefilter("ignore")
        with cudalens.sanitize() as check:
            race()
        if len(check.races) != 1:
            return f"a check of a program with one race finds {len(check.races)}"
        graphed = cudalens.cudagraph(double)
        values = [graphed(torch.full((3,), float(value), device="cuda")).tolist() for value in range(4)]
        if values != [[2.0 * value] * 3 for value in range(4)]:
            return f"a graph computes {values}"
    return find_shell_damage()


def find_shell_damage() -> str:
    """Load the magics, run a cell and remove them; return what does not work, or an empty text."""
    cudalens.load_ipython_extension(shell())
    result = shell().run_cell("%%cudaprofile -q\nx = 7", silent=True)
    if result.error_before_exec or result.error_in_exec:
        return f"a profiled cell fails: {result.error_before_exec or result.error_in_exec!r}"
    cudalens.unload_ipython_extension(shell())
    if left := [item for item in shell().ast_transformers if type(item).__module__.startswith("cudalens")]:
        return f"the shell keeps {left}"
    return ""


def interrupted_fault(scenario: Callable[[], None], place: Place) -> Fault | None:
    """Interrupt a scenario in this process and return what it leaves broken."""
    cudalens.runs.clear()
    before = state()
    result = interrupt_at(place, scenario)
    gc.collect()
    cudalens.unload_ipython_extension(shell())  # as a user does whose %load_ext was interrupted
    history.off()
    history.clear()
    where = f"{scenario.__name__}, interrupted at {place}"
    if lost := lost_interrupt(result):
        return Fault(f"{lost}: {place.function} of {place.path}", where)
    if patched := changes(before, state()):
        return Fault(f"patched: {patched[0]}", f"{where}: {', '.join(patched[:10])}")
    try:
        damage = find_damage()
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        return Fault(f"{type(error).__name__} afterwards", f"{where}\n{text}")
    if damage:
        return Fault(damage, where)
    if patched := changes(before, state()):
        return Fault(f"patched later: {patched[0]}", f"{where}: {', '.join(patched[:10])}")
    return None


def lost_interrupt(result: Interruption) -> str:
    """Return how an interrupt did not reach the caller, or an empty text."""
    if not result.is_reached or result.is_ignored or isinstance(result.error, KeyboardInterrupt):
        return ""
    return "interrupt lost" if result.error is None else f"interrupt replaced by {type(result.error).__name__}"


def check(program: Program) -> Fault | None:
    """Interrupt a scenario in a fork of this process: what it breaks does not reach the next program."""
    name, number = program
    found = places(name)
    return run_in_fork(lambda: interrupted_fault(SCENARIOS[name], found[number % len(found)]))


def run_in_fork(function: Callable[[], Fault | None]) -> Fault | None:
    """Return what a function returns in a fork of this process."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pyarrow has threads
        child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the magics print
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(function(), pipe)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return pickle.loads(answer) if code == 0 else Fault(f"the process ends with code {code}", "")


def source(program: Program) -> str:
    """Return the scenario, and the line at which it is interrupted."""
    name, number = program
    found = places(name)
    return f"{name}()  # interrupted at {found[number % len(found)]}"


def interrupt_lines(names: list[str], step: int) -> int:
    """Interrupt scenarios at every `step`-th line that they execute, and print the faults; 1 if there are any."""
    kinds: Counter[str] = Counter()
    earlier: set[Place] = set()
    for name in names or SCENARIOS:
        new = [number for number, place in enumerate(places(name)) if place not in earlier]
        earlier.update(places(name))
        numbers = new[::step]
        for number in numbers:
            if fault := check((name, number)):
                kinds[fault.kind] += 1
                print(f"{fault.kind}\n    {fault.text if kinds[fault.kind] == 1 else places(name)[number]}", flush=True)
        print(
            f"{name}: {len(numbers)} of {len(places(name))} lines, {len(new)} of them not in a scenario before",
            flush=True,
        )
    return int(bool(kinds))


PROGRAMS = st.tuples(st.sampled_from(sorted(SCENARIOS)), st.integers(0, 100_000))
SUBJECT = Subject("interrupts", PROGRAMS, check, source, num_quick=8, num_round=50)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    sys.exit(interrupt_lines(options.names, options.step))
