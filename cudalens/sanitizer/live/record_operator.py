"""What an operator touched, noted as it returns: the path of every operator, where a call costs more than a branch.

Between two operators of a program its caches forget us, so that a line of Python here takes several times as long as it
does in a loop. What is done here is what cannot wait: tensors are looked at, which storages they have and which stream
they are on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch

from cudalens.device import clock
from cudalens.sanitizer.engine.accesses import OP_HEAD, OP_STEP, Life, Op, Use
from cudalens.sanitizer.engine.blocks import NOWHERE
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.races import Race
from cudalens.sanitizer.live.arguments import flag, pairs, pieces, results, storage_of
from cudalens.sanitizer.live.calls import call
from cudalens.sanitizer.live.memory import SHAPES, Memory
from cudalens.sanitizer.live.pending import Pending
from cudalens.sanitizer.live.schema import Plan
from cudalens.sanitizer.live.threads import State

_Tensor: Final = torch.Tensor
_CALLER: Final = 3
"""Depth of the stack frame that called an operator: beyond `note`, the dispatch mode and `call` itself."""

_LIFE_AT: Final = OP_HEAD + OP_STEP - 1

Look: TypeAlias = tuple[Any, Use, bool, "Life | None"]
"""A tensor that needs a second look: itself, its use, whether it is written, its life if it has one."""

LookCloser: TypeAlias = Callable[[State, Plan, tuple[Any, ...], dict[str, Any], Op, list[Look]], Sequence[Race]]


class Noting:
    """Notes operators.

    Args:
        key: Name of the attribute of storages that holds their life.
        run: Marks lives of this run.
        memory: The storages.
        line_of: The line of the current stream of a GPU.
        pending: Where operations wait to be judged.
        limit: Entries that may wait.
        look_closer: Judges at once an operation that is out of the ordinary: it made callbacks, or touched memory of
            the host that something asynchronous works on.
    """

    def __init__(
        self,
        key: str,
        run: object,
        memory: Memory,
        line_of: Callable[[int], Line],
        pending: Pending,
        limit: int,
        look_closer: LookCloser,
    ) -> None:
        self._key, self._run, self._memory, self._line = key, run, memory, line_of
        self._pending, self._entries, self._limit = pending, pending.entries, limit
        self._look_closer = look_closer

    def note(  # noqa: C901 - see above
        self, thread: State, plan: Plan, args: tuple[Any, ...], kwargs: Any, out: Any
    ) -> Sequence[Race]:
        """Note an operator that has run.

        Returns:
            Races, where it was time to judge.
        """
        run, key, memory = self._run, self._key, self._memory
        if plan.training is not None and flag("training", plan.training_at, args, kwargs or {}):
            plan = plan.training
        op: Op = []
        looks: list[Look] = []
        line: Line | None = None
        device, is_on_host = -1, False
        if plan.has_lists or (kwargs and not plan.by_name.keys().isdisjoint(kwargs)):
            inputs: Any = pairs(plan, args, kwargs or {})
        else:
            inputs = zip(args, plan.inputs)  # noqa: B905 - trailing arguments may be left out
        for value, use in inputs:
            if use is None or not isinstance(value, _Tensor):
                continue
            try:
                storage: Any = value.untyped_storage()
            except (RuntimeError, NotImplementedError):  # it has none
                looks += [(piece, use[0], use[1], None) for piece in pieces(value)]
                continue
            life = storage.__dict__.get(key)
            if life is None or life.run is not run:
                life = self._meet(value, storage)
            if life.device < 0:
                if life is not memory.plain or plan.is_copy:
                    looks.append((value, use[0], use[1], life))
                    continue
                if not value.is_cuda:
                    is_on_host = True
                    continue
                life = self._meet(value, storage)  # scratch that torch's C++ made on the host, which was taken in
            if line is None:
                device = life.device
                line = self._line(device)
                op = [call(_CALLER), clock.now_ns(), line]
            if life.owner is not line:
                life.is_shared = True
            shape, dtype = value.shape, value.dtype
            if shape == life.shape and dtype is life.dtype and value.is_contiguous():
                op += (life.whole, use[1], use[0], life.shape, None, dtype, life)
            elif life.num_bytes == value.nbytes and value.is_contiguous():
                life.shape, life.dtype = SHAPES.setdefault(shape, shape), dtype
                op += (life.whole, use[1], use[0], life.shape, None, dtype, life)
            else:
                memory.note(op, life, value, use[0], use[1])
        if plan.outputs:
            if line is not None and plan.is_plain and isinstance(out, _Tensor):
                try:  # contextlib.suppress would cost a microsecond
                    made: Any = out.untyped_storage()
                except (RuntimeError, NotImplementedError):
                    made = None
                if made is None or key in made.__dict__:
                    op = self._results(plan, out, op, looks, device)
                else:
                    life = memory.meet(made, device, op[0], line)
                    if life.num_bytes == out.nbytes and out.is_contiguous():
                        shape = out.shape
                        life.shape, life.dtype = SHAPES.setdefault(shape, shape), out.dtype
                        op += (None, True, plan.outputs[0], life.shape, None, life.dtype, life)
                    else:
                        memory.note(op, life, out, plan.outputs[0], True)  # type: ignore[arg-type]
            elif line is not None or plan.makes or (looks[-1][3] is None if looks else not is_on_host):
                op = self._results(plan, out, op, looks, -1 if plan.makes or plan.is_copy else device)
        if looks or thread.told:
            return self._look_closer(thread, plan, args, kwargs or {}, op, looks)
        if len(op) > OP_HEAD:
            self._entries.append(op)
        return self._pending.drain() if len(self._entries) >= self._limit else ()

    def _meet(self, value: Any, storage: Any) -> Life:
        """The life of an argument's storage that is new here."""
        if value.is_cuda:
            return self._memory.meet(storage, value.get_device(), None, None)
        storage.__dict__[self._key] = self._memory.plain
        return self._memory.plain

    def _results(  # noqa: C901 - see above
        self, plan: Plan, out: Any, op: Op, looks: list[Look], device: int
    ) -> Op:
        """Add what an operator returned.

        Args:
            plan: The operator's.
            out: What it returned.
            op: What is known of it so far; empty while nothing of it is on a GPU.
            looks: Takes what needs a second look.
            device: Where all its results are; -1 where that has to be asked.
        """
        memory, run, key = self._memory, self._run, self._key
        for value, use in results(out, plan.outputs):
            storage = storage_of(value)
            if storage is None:
                looks += [(piece, use, True, None) for piece in pieces(value)]
                continue
            life = storage.__dict__.get(key)
            if life is None or life.run is not run:
                if device < 0 and not value.is_cuda:
                    life = self._meet(value, storage)
                    if plan.is_copy:
                        looks.append((value, use, True, life))
                    continue
                op = op or [call(_CALLER + 1), clock.now_ns(), self._line(value.get_device())]
                life = memory.meet(storage, device if device >= 0 else value.get_device(), op[0], op[2])
            elif life.device < 0 or any(touched is life for touched in op[_LIFE_AT::OP_STEP]):
                continue  # it returns what it was given
            if plan.is_empty:
                if life.block is NOWHERE and life.num_bytes:
                    self._entries.append((memory.settled, life))
                continue
            memory.note(op, life, value, use, True)
        return op
