"""Races by value: what the sanitizer found, tried in other orders by the virtual device's schedule explorer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device.stacks import is_own
from cudalens.errors import ExploreError
from cudalens.frames.exploration import columns_of_race
from cudalens.virtual import active
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.explorer.conflicts import Pair, unordered_conflicts
from cudalens.virtual.explorer.exploring import MAX_CONFLICTS, Explorer, Suspect
from cudalens.virtual.explorer.op_log import OpLog
from cudalens.virtual.explorer.outputs import Output, outputs_of

if TYPE_CHECKING:
    from cudalens.frames.exploration import Exploration, Shown
    from cudalens.sanitizer import Race, Sanitizer, Touch
    from cudalens.virtual.context import device
    from cudalens.virtual.explorer.logged import LoggedOp

#: Orders that are tried beside the program's own, unless the user says otherwise.
DEFAULT_BUDGET: Final = 50

#: Containers within containers that are looked into for tensors.
_MAX_DEPTH: Final = 3

_MAX_VARIABLES: Final = 4096


class Exploring:
    """What a sanitizer keeps to try other orders: the tasks of the block that is watched, and of the last one.

    Args:
        max_bytes: Memory that may be kept, and that doing the tasks again may take.

    Raises:
        ExploreError: No virtual device is active.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._device = _virtual_device()
        self._source = f"virtual:{self._device.spec.key}"
        self._log: OpLog | None = None
        self._since = 0
        self._last: tuple[OpLog, dict[str, Output], int, int] | None = None

    def begin(self, num_races: int) -> None:
        """A block begins.

        Args:
            num_races: Races that were found before it.
        """
        device = _virtual_device()
        assert device.gpus is not None
        self._log, self._since = OpLog(device.gpus, max_bytes=self._max_bytes), num_races
        self._log.start()

    def end(self, num_races: int, names: Mapping[str, Any] | None = None) -> None:
        """A block has ended; one that did nothing on a device leaves the one before it to be explored.

        Args:
            num_races: Races that have been found.
            names: The variables; by default those of the user's code that called.
        """
        log, self._log = self._log, None
        if log is None:
            return
        log.stop()
        if log.ops or log.problem:
            variables = dict(tensors_among(self.callers_names() if names is None else names))
            self._last = (log, outputs_of(log, variables), self._since, num_races)

    @staticmethod
    def callers_names() -> dict[str, Any]:
        """The variables of the innermost function that is not ours."""
        stack_frame = sys._getframe(1)
        while stack_frame.f_back is not None and is_own(stack_frame.f_code.co_filename):
            stack_frame = stack_frame.f_back
        return {**stack_frame.f_globals, **stack_frame.f_locals}

    def explore(
        self, sanitizer: Sanitizer, *, budget: int | None, seed: int
    ) -> tuple[Exploration, dict[tuple[object, ...], dict[str, Any]]]:
        """Try other orders of the last block.

        Returns:
            What came of it, and for each race, by its key, the columns that the frame ``races`` has of it.

        Raises:
            ExploreError: There was none, or it cannot be done again.
        """
        budget = DEFAULT_BUDGET if budget is None else budget
        if not isinstance(budget, int) or budget < 1:
            raise ExploreError(f"budget={budget!r}: expected the number of orders to try, a whole one of at least 1.")
        if not isinstance(seed, int) or seed < 0:
            raise ExploreError(f"seed={seed!r}: expected the first seed of random orders, a whole number from 0 on.")
        log, _, since, until = self._block()
        races = sanitizer.races[since:until]
        with below_modes():
            conflicts = unordered_conflicts(log.program, log.ops, at_most=MAX_CONFLICTS)
            suspects = [Suspect(_text(race), _pairs(race, log, conflicts)) for race in races]
            found = self._explorer().explore(suspects, budget=budget, seed=seed)
        verdicts = zip(races, found.races, strict=True)
        return found, {race.key: columns_of_race(verdict, found.steps) for race, verdict in verdicts}

    def replay(self, seed: str | int) -> Shown:
        """Do one schedule of the last block again.

        Raises:
            ExploreError: There was none, or the seed is none of it.
        """
        with below_modes():
            return self._explorer().replay(seed)

    def _block(self) -> tuple[OpLog, dict[str, Output], int, int]:
        if self._last is None:
            raise ExploreError(
                "there is nothing to explore: nothing has run on the virtual device in the watched block."
            )
        return self._last

    def _explorer(self) -> Explorer:
        log, outputs, _, _ = self._block()
        return Explorer(log, outputs, source=self._source, lanes=_lanes(log), max_bytes=self._max_bytes)


def _virtual_device() -> device:
    found = active()
    if found is None:
        where = "on a real GPU" if torch.cuda.is_available() else "without a GPU"
        raise ExploreError(
            f"trying other orders needs the virtual device, which runs tasks in any order; this program runs {where}. "
            "Put it inside of cudalens.virtual.device('h100') (in a notebook: %cudadevice virtual h100), then watch it."
        )
    return found


def tensors_among(names: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that variables hold, themselves, in containers, and in modules."""
    found = 0
    for name, value in list(names.items()):
        if name.startswith("_"):
            continue
        for path, tensor in _tensors(name, value, 0):
            found += 1
            if found > _MAX_VARIABLES:
                return
            yield path, tensor


def _tensors(name: str, value: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
        if value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad
    elif depth < _MAX_DEPTH:
        for path, item in _items(name, value):
            yield from _tensors(path, item, depth + 1)


def _items(name: str, value: Any) -> list[tuple[str, Any]]:
    """What is in a container or a module, by the expression for it."""
    if isinstance(value, torch.nn.Module):
        return [(f"{name}.{key}", item) for key, item in (*value.named_parameters(), *value.named_buffers())]
    if type(value) in (list, tuple):
        return [(f"{name}[{index}]", item) for index, item in enumerate(value)]
    return [(f"{name}[{key!r}]", item) for key, item in value.items()] if type(value) is dict else []


def _lanes(log: OpLog) -> list[str]:
    from cudalens.sanitizer.engine import StreamId
    from cudalens.sanitizer.live.names import names_of_streams
    from cudalens.sanitizer.text import naming, stream_name

    with naming(names_of_streams()):
        streams = [stream_name(StreamId(s.device.index, s.handle)) for _, s in sorted(log.streams.items())]
    return ["host", *streams]


def _text(race: Race) -> str:
    from cudalens.sanitizer.live.names import names_of_streams
    from cudalens.sanitizer.text import describe, naming

    with naming(names_of_streams()):
        return describe(race)


def _pairs(race: Race, log: OpLog, conflicts: Sequence[Pair]) -> list[Pair]:
    """The tasks that are a race's two accesses: a race is one finding per pair of places, and may be many of them.

    They are found by their places in the source; a graph's operators, which were called elsewhere than they run, by
    their names and streams.
    """
    ops = log.ops
    for is_it in (_is_at, _is_called):
        found = [(a, b) for a, b in conflicts if is_it(race.first, ops[a], log) and is_it(race.second, ops[b], log)]
        if found:
            return found
    return []


def _is_at(touch: Touch, op: LoggedOp, log: OpLog) -> bool:
    place: Any = touch.place
    where = getattr(place, "place", place)
    return (getattr(where, "code", None), getattr(where, "instruction", 0)) == (op.site.code, op.site.instruction)


def _is_called(touch: Touch, op: LoggedOp, log: OpLog) -> bool:
    stream = log.streams.get(op.lane)
    number = "host" if stream is None else stream.handle
    return touch.op == op.name and touch.stream.stream == number
