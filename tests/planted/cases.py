"""Planted bottlenecks: what a case is, and how its true gain is measured."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import cudalens
from cudalens.analysis import Finding, findings, summarize
from cudalens.frames import Trace

#: A control is silent if nothing of the planted rules is found; the true gain of its fix must be below this share.
NO_GAIN = 0.03


@dataclass(frozen=True)
class Case:
    """A program with one planted cause.

    Attributes:
        name: Its name.
        kind: The kind of its cause.
        rules: The rules that name this cause.
        make: Gives the Trace of the program: with the cause or fixed, and as a control or not.
        has_control: Whether there is a program with the pattern in which the fix gains nothing.
    """

    name: str
    kind: str
    rules: frozenset[str]
    make: Callable[[bool, bool], Trace]
    has_control: bool


@dataclass(frozen=True)
class Result:
    """What was found in a case.

    Attributes:
        case: The case.
        share: True gain of the fix as a share of the time with the cause.
        gain_ns: True gain, ns.
        found: The findings in the program with the cause.
        alarms: Rules of the case that were found in the control.
        control_share: True gain of the fix in the control, as a share.
    """

    case: Case
    share: float
    gain_ns: int
    found: list[Finding]
    alarms: tuple[str, ...]
    control_share: float

    @property
    def is_first(self) -> bool:
        """Whether the first finding names the cause."""
        return bool(self.found) and self.found[0].rule in self.case.rules

    @property
    def is_named(self) -> bool:
        """Whether any finding names the cause."""
        return self.ratio is not None

    @property
    def ratio(self) -> float | None:
        """Figure of the first finding that names the cause, divided by the true gain."""
        figures = [found.gain_ns for found in self.found if found.rule in self.case.rules and found.gain_ns]
        return figures[0] / max(self.gain_ns, 1) if figures else None


CASES: dict[str, Case] = {}


def add(case: Case) -> None:
    """Register a case."""
    assert case.name not in CASES
    CASES[case.name] = case


Program = Callable[[bool, bool], Iterator[None]]


def on_gpu(
    kind: str, *rules: str, gpu: str = "h100", control: bool = True, warm: bool = True, values: bool = False
) -> Callable[[Program], Program]:
    """Register a program for a virtual device; what it does before its ``yield`` is not measured.

    A `warm` one runs as a whole before, so that the allocator has its memory. One that reads values needs `values`.
    """

    def register(program: Program) -> Program:
        def make(is_planted: bool, is_control: bool) -> Trace:
            with cudalens.virtual.device(gpu, values=values):
                return _profiled(program, warm, is_planted, is_control)

        add(Case(program.__name__, kind, frozenset(rules), make, control))
        return program

    return register


def _profiled(program: Program, warm: bool, is_planted: bool, is_control: bool) -> Trace:
    torch.manual_seed(0)
    if warm:
        list(program(is_planted, is_control))
    running = program(is_planted, is_control)
    next(running)
    torch.cuda.synchronize()
    with cudalens.profile(shapes=True, memory=True) as run:
        next(running, None)
        torch.cuda.synchronize()
    trace = run.trace
    running.close()
    return trace


def on_host(kind: str, *rules: str, control: bool = True) -> Callable[[Callable[[bool, bool], Trace]], Any]:
    """Register a function that makes the Trace itself."""

    def register(make: Callable[[bool, bool], Trace]) -> Callable[[bool, bool], Trace]:
        add(Case(make.__name__, kind, frozenset(rules), make, control))
        return make

    return register


def run(case: Case) -> Result:
    """Run a case with the cause, fixed, and as a control."""
    planted, fixed = case.make(True, False), case.make(False, False)
    before, after = summarize(planted).wall_ns, summarize(fixed).wall_ns
    alarms: tuple[str, ...] = ()
    control_share = 0.0
    if case.has_control:
        control, control_fixed = case.make(True, True), case.make(False, True)
        wall = summarize(control).wall_ns
        control_share = (wall - summarize(control_fixed).wall_ns) / wall
        alarms = tuple(found.rule for found in findings(control) if found.rule in case.rules)
    gc.collect()
    return Result(case, (before - after) / before, before - after, findings(planted), alarms, control_share)
