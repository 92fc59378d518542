"""Search random programs for faults, and shrink what is found to the smallest program with the same fault."""

from __future__ import annotations

import importlib
import math
import pkgutil
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import subjects
from hypothesis import HealthCheck, Phase, Verbosity, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

Program = TypeVar("Program")

#: A shrink that takes longer than this ends with the smallest program so far.
SHRINKING_S = 120.0


@dataclass(frozen=True)
class Fault:
    """What is wrong about a program.

    `kind` is the same for two programs with the same fault: it has no addresses, values or random names. A hunt writes
    one program for each kind, and shrinking keeps the kind.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Subject(Generic[Program]):
    """What a hunt looks at: how its programs are drawn, and what makes one of them faulty.

    Attributes:
        name: The name of the module in `subjects/`.
        programs: The strategy that draws programs. `drawn_by` makes one of a function of `random.Random`.
        check: Returns the fault of a program, or None. An exception that it raises is a fault, too.
        source: Returns a program as text, best as Python that a reader can run.
        num_quick: How many programs `make test` checks for each of its seeds: a few seconds.
        num_round: How many programs `make hunt` checks for a seed: 5 to 60 seconds.
        limit_s: A program that takes longer is a fault.
        counts: What `check` counted, for example replays; printed at the end.
    """

    name: str
    programs: st.SearchStrategy[Program]
    check: Callable[[Program], Fault | None]
    source: Callable[[Program], str] = repr
    num_quick: int = 20
    num_round: int = 200
    limit_s: float = 60.0
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class FaultyProgram(Generic[Program]):
    """The smallest program with a fault that a search found, and the seed that finds it again."""

    subject: Subject[Program]
    seed: int
    program: Program
    fault: Fault

    def text(self) -> str:
        """Return a file's text: the seed, the fault, and the program."""
        command = f"make hunt SUBJECT={self.subject.name} SEED={self.seed}"
        notes = [f"Found by `{command}`", f"Fault: {self.fault.kind}", "", *self.fault.text.splitlines()]
        comment = "\n".join(f"# {line}".rstrip() for line in notes)
        return f"{comment}\n\n{self.subject.source(self.program)}\n"


def drawn_by(generate: Callable[[random.Random], Program]) -> st.SearchStrategy[Program]:
    """Return the strategy that draws what a function of a random generator returns; hypothesis shrinks its choices."""
    return st.randoms(use_true_random=False).map(generate)


def load_subjects(names: Collection[str] = ()) -> list[Subject]:
    """Import the subjects with these names, or all.

    Raises:
        LookupError: There is no subject with a name.
    """
    known = [module.name for module in pkgutil.iter_modules(subjects.__path__) if not module.name.startswith("_")]
    if unknown := sorted(set(names) - set(known)):
        raise LookupError(f"unknown subject {', '.join(unknown)}; expected one of {', '.join(known)}")
    return [importlib.import_module(f"subjects.{name}").SUBJECT for name in known if not names or name in names]


def check_program(subject: Subject[Program], program: Program) -> Fault | None:
    """Return the fault of a program, or None; an exception of the check is a fault at the line that raised it."""
    try:
        return subject.check(program)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.name}"
        return Fault(kind, "".join(traceback.format_exception(error)))


def search(
    subject: Subject[Program],
    seed: int,
    num_programs: int,
    *,
    known: Collection[str] = (),
    deadline: float = math.inf,
    before: Callable[[Program], object] | None = None,
) -> FaultyProgram[Program] | None:
    """Check random programs of a subject and return the smallest one with a fault that is not known.

    Args:
        subject: What to look at.
        seed: The same seed draws the same programs.
        num_programs: How many programs to check, shrinking apart.
        known: Kinds of faults to pass over.
        deadline: When to end, as `time.monotonic` counts.
        before: Called with each program before its check.
    """
    smallest: list[FaultyProgram[Program]] = []
    end = deadline

    def has_fault(program: Program) -> bool:
        nonlocal end
        if time.monotonic() > end:
            return False
        if before:
            before(program)
        subject.counts["programs"] += 1
        fault = check_program(subject, program)
        if fault is None or fault.kind in known or (smallest and fault.kind != smallest[0].fault.kind):
            return False
        if not smallest:
            end = time.monotonic() + SHRINKING_S
        smallest[:] = [FaultyProgram(subject, seed, program, fault)]
        return True

    options = settings(
        max_examples=num_programs,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    with suppress(NoSuchExample, Flaky):  # flaky: the time is over, or the fault does not come each time
        find(subject.programs, has_fault, settings=options, random=random.Random(seed))
    return smallest[0] if smallest else None
