"""Generate schedules: those that reverse a race, random ones, and those with few delays. No torch.

A schedule has a *seed*, a short text that identifies it:

=================  =====================================================================================
``program``        the order in which the host issued the tasks
``rush:9<4``       task 9 before task 4; only 9 and the tasks that it needs run earlier
``stall:4>9``      task 4 after task 9; only 4 and the tasks that need it run later
``delay:4,11``     at steps 4 and 11, the next lane gets the lowest priority
``random:17``      random, with seed 17
``legal:3``        the third of all schedules, if there are few enough to run all
=================  =====================================================================================

Delay-bounded scheduling is M. Emmi, S. Qadeer, Z. Rakamaric, "Delay-bounded scheduling" (POPL 2011): most ordering
errors appear with one or two delays. The random schedules alternate between random steps and random priorities with a
few changes, after S. Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs"
(ASPLOS 2010).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from cudalens.errors import ExploreError
from cudalens.virtual.explorer.orders import Program, Progress

PROGRAM: Final = "program"

#: The maximum number of priority changes of a random schedule.
_MAX_CHANGES: Final = 3

_SEED: Final = re.compile(r"rush:\d+<\d+|stall:\d+>\d+|delay:\d+(?:,\d+)*|(?:random|legal):\d+")
_FORMS: Final = "'program', 'random:17', 'rush:9<4', 'stall:4>9', 'delay:4,11' or 'legal:3'"


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of all tasks.

    Attributes:
        seed: Its seed.
        order: The task numbers in order.
    """

    seed: str
    order: tuple[int, ...]


def schedule_of(program: Program, seed: str | int) -> Schedule:
    """Return the schedule of a seed; a number is the seed of a random schedule.

    Raises:
        ExploreError: The text is not a seed, or is not valid for this program.
    """
    text = f"random:{seed}" if isinstance(seed, int) else str(seed).strip()
    if text == PROGRAM:
        return in_program_order(program)
    if _SEED.fullmatch(text) is None:
        raise ExploreError(f"{seed!r} is not the seed of a schedule; expected {_FORMS}, as shown in reports.")
    kind, numbers = text.partition(":")[0], [int(n) for n in re.findall(r"\d+", text)]
    if kind in ("rush", "stall"):
        return _reversal(program, kind, *numbers)
    if kind == "random":
        return at_random(program, numbers[0])
    return delayed(program, tuple(numbers)) if kind == "delay" else _legal(program, numbers[0])


def _reversal(program: Program, kind: str, one: int, other: int) -> Schedule:
    if max(one, other) >= len(program) or not program.is_unordered(one, other):
        raise ExploreError(
            f"tasks {one} and {other} of this program cannot be reordered: it has {len(program)} tasks, and these "
            "are not two unordered ones. Use a seed from the report of this exploration."
        )
    return rushed(program, one, other) if kind == "rush" else stalled(program, one, other)


def _legal(program: Program, number: int) -> Schedule:
    order = next(itertools.islice(all_orders(program), max(number - 1, 0), None), None)
    if order is None or number < 1:
        raise ExploreError(f"this program has no schedule number {number}; use a seed from its report.")
    return Schedule(f"legal:{number}", order)


def in_program_order(program: Program) -> Schedule:
    """Return the order in which the host issued the tasks."""
    return Schedule(PROGRAM, tuple(range(len(program))))


def rushed(program: Program, second: int, first: int) -> Schedule:
    """`second` and the tasks that it needs before `first`; otherwise program order."""
    early = {n for n in range(second + 1) if n == second or program.comes_before(n, second)}
    head = sorted({*range(min(first, second)), *early})
    taken = set(head)
    return Schedule(f"rush:{second}<{first}", (*head, *(n for n in range(len(program)) if n not in taken)))


def stalled(program: Program, first: int, second: int) -> Schedule:
    """`first` and the tasks that need it after `second`; otherwise program order."""
    last = max(first, second)
    late = [n for n in range(len(program)) if n <= last and (n == first or program.comes_before(first, n))]
    is_late = set(late)
    head = [n for n in range(last + 1) if n not in is_late]
    return Schedule(f"stall:{first}>{second}", (*head, *late, *range(last + 1, len(program))))


def delayed(program: Program, steps: tuple[int, ...]) -> Schedule:
    """At each of these steps the next lane gets the lowest priority.

    Args:
        program: The tasks.
        steps: Step numbers, from 0.
    """
    rank = dict.fromkeys(range(len(program.lanes)), 0)
    progress, order, delayed_steps = Progress(program), [], set(steps)
    for step in range(len(program)):
        ready = progress.ready()
        chosen = min(ready, key=lambda n: (rank[program.tasks[n].lane], n))
        if step in delayed_steps:
            rank[program.tasks[chosen].lane] = max(rank.values()) + 1
            chosen = min(ready, key=lambda n: (rank[program.tasks[n].lane], n))
        progress.do(chosen)
        order.append(chosen)
    return Schedule("delay:" + ",".join(map(str, steps)), tuple(order))


def with_delays(program: Program, num_delays: int) -> Iterator[Schedule]:
    """Yield the schedules with that many delays, early steps first."""
    for steps in itertools.combinations(range(len(program)), num_delays):
        yield delayed(program, steps)


def at_random(program: Program, seed: int) -> Schedule:
    """Return a random schedule."""
    draw = Random(seed)  # noqa: S311 - not for security
    order = _drawn(program, draw) if seed % 2 else _by_priority(program, draw)
    return Schedule(f"random:{seed}", order)


def _drawn(program: Program, draw: Random) -> tuple[int, ...]:
    """Each step is chosen at random from the tasks that are ready."""
    progress, order = Progress(program), []
    for _ in range(len(program)):
        order.append(draw.choice(progress.ready()))
        progress.do(order[-1])
    return tuple(order)


def _by_priority(program: Program, draw: Random) -> tuple[int, ...]:
    """The lane with the highest priority runs; at a few steps it gets the lowest priority."""
    lanes = list(range(len(program.lanes)))
    draw.shuffle(lanes)
    rank = {lane: place for place, lane in enumerate(lanes)}
    changes = {draw.randrange(max(len(program), 1)) for _ in range(draw.randint(0, _MAX_CHANGES))}
    progress, order = Progress(program), []
    for step in range(len(program)):
        chosen = min(progress.ready(), key=lambda n: rank[program.tasks[n].lane])
        progress.do(chosen)
        order.append(chosen)
        if step in changes:
            rank[program.tasks[chosen].lane] = max(rank.values()) + 1
    return tuple(order)


def all_orders(program: Program) -> Iterator[tuple[int, ...]]:
    """Yield all schedules, program order first; there may be very many."""
    progress, order = Progress(program), list[int]()
    left = [iter(progress.ready())]
    if not len(program):
        yield ()
        return
    while left:
        number = next(left[-1], None)
        if number is None:
            left.pop()
            if order:
                progress.undo(order.pop())
            continue
        progress.do(number)
        order.append(number)
        if len(order) == len(program):
            yield tuple(order)
            progress.undo(order.pop())
        else:
            left.append(iter(progress.ready()))
