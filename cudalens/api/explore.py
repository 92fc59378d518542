"""Explore races on the virtual device: run its tasks in the other orders that races allow, and compare values."""

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
from cudalens.virtual.explorer.exploring import MAX_CONFLICTS, Explorer, Pair, Suspect, unordered_conflicts
from cudalens.virtual.explorer.op_log import OpLog
from cudalens.virtual.explorer.outcomes import Output, outputs_of

if TYPE_CHECKING:
    from cudalens.frames.exploration import Exploration, Shown
    from cudalens.sanitizer import Access, Race, Sanitizer
    from cudalens.virtual.context import device
    from cudalens.virtual.explorer.logged import LoggedOp

#: Default number of orders to try in addition to the program's own.
DEFAULT_BUDGET: Final = 50

#: Largest depth of nested containers that are searched for tensors.
_MAX_DEPTH: Final = 3

_MAX_VARIABLES: Final = 4096


class Exploring:
    """The tasks that a sanitizer records to try other orders: those of the current block, and of the last one.

    Args:
        max_bytes: Limit of the memory to keep, and of the memory for running the tasks again.

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
        """Begin a block.

        Args:
            num_races: Races that were found before it.
        """
        device = _virtual_device()
        assert device.gpus is not None
        self._log, self._since = OpLog(device.gpus, max_bytes=self._max_bytes), num_races
        self._log.start()

    def end(self, num_races: int, names: Mapping[str, Any] | None = None) -> None:
        """End a block. If it did nothing on a device, the block before it remains the one to explore.

        Args:
            num_races: Races that have been found so far.
            names: Variables by name; by default those of the calling user code.
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
        """Return the variables of the innermost function outside cudalens."""
        stack_frame = sys._getframe(1)
        while stack_frame.f_back is not None and is_own(stack_frame.f_code.co_filename):
            stack_frame = stack_frame.f_back
        return {**stack_frame.f_globals, **stack_frame.f_locals}

    def explore(
        self, sanitizer: Sanitizer, *, budget: int | None, seed: int
    ) -> tuple[Exploration, dict[tuple[object, ...], dict[str, Any]]]:
        """Try other orders of the last block.

        Returns:
            The exploration, and for each race, by its key, its columns in the frame ``races``.

        Raises:
            ExploreError: There was no block, or it cannot run again.
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
        """Run one schedule of the last block again.

        Raises:
            ExploreError: There was no block, or the seed does not belong to it.
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
    if not found.values:
        raise ExploreError(
            "other orders are compared by their values, and this virtual device computes none (values=False). Enable "
            "it with values=True."
        )
    return found


def tensors_among(names: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in variables, also inside containers and modules, each with the expression for it."""
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
    """Return the items of a container or a module, each with the expression for it."""
    if isinstance(value, torch.nn.Module):
        return [(f"{name}.{key}", item) for key, item in (*value.named_parameters(), *value.named_buffers())]
    if type(value) in (list, tuple):
        return [(f"{name}[{index}]", item) for index, item in enumerate(value)]
    return [(f"{name}[{key!r}]", item) for key, item in value.items()] if type(value) is dict else []


def _lanes(log: OpLog) -> list[str]:
    from cudalens.sanitizer.engine import StreamId
    from cudalens.sanitizer.engine.races import naming, stream_name
    from cudalens.sanitizer.live.streams import names_of_streams

    with naming(names_of_streams()):
        streams = [stream_name(StreamId(s.device.index, s.handle)) for _, s in sorted(log.streams.items())]
    return ["host", *streams]


def _text(race: Race) -> str:
    from cudalens.sanitizer.engine.races import describe, naming
    from cudalens.sanitizer.live.streams import names_of_streams

    with naming(names_of_streams()):
        return describe(race)


def _pairs(race: Race, log: OpLog, conflicts: Sequence[Pair]) -> list[Pair]:
    """The pairs of tasks that are the two accesses of a race; a race is one finding for possibly many such pairs.

    Tasks are matched by source location. Operators of a graph, which were called elsewhere, are matched by name and
    stream.
    """
    ops = log.ops
    for is_it in (_is_at, _is_called):
        found = [(a, b) for a, b in conflicts if is_it(race.first, ops[a], log) and is_it(race.second, ops[b], log)]
        if found:
            return found
    return []


def _is_at(touch: Access, op: LoggedOp, log: OpLog) -> bool:
    place: Any = touch.place
    where = getattr(place, "place", place)
    if touch.captured is not None and touch.op != op.name:
        return False  # another operator of the same graph
    return (getattr(where, "code", None), getattr(where, "instruction", 0)) == (op.site.code, op.site.instruction)


def _is_called(touch: Access, op: LoggedOp, log: OpLog) -> bool:
    stream = log.streams.get(op.lane)
    number = "host" if stream is None else stream.handle
    return touch.op == op.name and touch.stream.stream == number
