"""The operators of a graph capture, kept so that a replay can run them again on the same memory.

A capture on a real GPU runs nothing. Here every operator runs once on the CPU, because its result's shape is needed;
what it overwrote is put back when the capture ends, and memory that was made within the capture is then marked as
never written (NaN, or zero where the dtype has none), as its contents are undefined until the first replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Final

import torch

from cudalens.virtual.capture.graph_draws import Draws, StatePoint, number_of
from cudalens.virtual.capture.graph_memory import Memory, Operand, is_pageable, memory_of
from cudalens.virtual.dispatch.dispatch_utils import unseen

#: They launch nothing: a replay leaves what they made as it is.
_BLANK: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)

#: A replay clears memory of the pool for them, and makes no zeros elsewhere to be copied there.
_ZEROS: Final = frozenset({"aten::zeros", "aten::zeros_like", "aten::new_zeros"})

#: Arguments that are written though the schema does not say so: the running statistics.
_UNDECLARED_WRITES: Final = {"aten::native_batch_norm": (3, 4), "aten::cudnn_batch_norm": (3, 4)}

_NOTHING: Final = nullcontext()

_writes: dict[Any, tuple[int | str, ...]] = {}


class CapturedOp:
    """One operator call, with `Operand` in the place of tensors."""

    __slots__ = ("args", "func", "has_grad", "is_blank", "is_zeros", "kwargs", "makes")

    def __init__(self, func: Any, args: Any, kwargs: Any, makes: list[tuple[tuple[int, ...], Operand]]) -> None:
        self.func, self.args, self.kwargs, self.makes = func, args, kwargs, makes
        self.is_blank, self.is_zeros = func._schema.name in _BLANK, func._schema.name in _ZEROS
        self.has_grad = torch.is_grad_enabled()  # some kernels keep more for a backward

    def run(self) -> None:
        """Run it again."""
        if (self.is_blank or self.is_zeros) and self.makes[0][1].memory.arena is not None:
            if self.is_zeros:
                self.makes[0][1].memory.clear()
            return
        with torch.set_grad_enabled(self.has_grad) if self.has_grad != torch.is_grad_enabled() else _NOTHING:
            out = self.func(*_taken(self.args), **_taken(self.kwargs))
        for path, operand in self.makes:
            result = _at(out, path)
            if self.is_blank:
                operand.blank(result)
            else:
                operand.store(result)


class Tape:
    """The operators of one capture, in their order."""

    def __init__(self) -> None:
        self.ops: list[CapturedOp | StatePoint | Tape] = []
        self._saved: dict[Memory, torch.Tensor] = {}
        self._draws = Draws()
        self._made: list[Operand] = []
        self._is_running = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator for its result's shape, and note it.

        Args:
            func: The overload that is called on the CPU.
            args: Its arguments, as the CPU is given them.
            kwargs: Likewise.
        """
        writes = writes_of(func)
        with unseen():
            kept_args, kept_kwargs = self._kept(args), self._kept(kwargs)
            self._save(writes, kept_args, kept_kwargs)
        if kwargs.get("generator") is not None:
            self._draws.save(kwargs["generator"])
        self._is_running = True
        try:
            out = func(*args, **kwargs)
        finally:
            self._is_running = False
        self._note(func, kept_args, kept_kwargs, out, has_effect=bool(writes))
        return out

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Note a factory that would have left memory untouched, or did."""
        with unseen():
            self._note(func, self._kept(args), self._kept(kwargs), out, has_effect=False, is_undefined=True)

    def make(self, tensor: torch.Tensor) -> None:
        """Note a tensor whose contents are known: a replay makes it with the same."""
        with unseen():
            contents, memory = tensor.clone(), memory_of(tensor, self, is_result=True)
        operand = Operand(tensor, memory)
        self.ops.append(CapturedOp(torch.ops.aten.clone.default, (contents,), {}, [((), operand)]))
        self._made.append(operand)

    def embed(self, tape: Tape) -> None:
        """Note the replay of another graph, and run it once as every operator of a capture is run."""
        with unseen():
            for memory in tape.written():
                self._save_memory(memory)
        for generator in tape.generators():
            self._draws.save(generator)
        self._is_running = True
        try:
            tape.replay()
        finally:
            self._is_running = False
        self.ops.append(tape)

    def ask_state(self, generator: torch.Generator) -> torch.Tensor | None:
        """The program asks for a generator's state; None where an operator does, of which nothing is noted."""
        if self._is_running:
            return None
        state, point = self._draws.ask(generator)
        self.ops.append(point)
        return state

    def set_state(self, generator: torch.Generator, state: torch.Tensor) -> bool:
        """The program sets a generator's state; False where an operator does, of which nothing is noted.

        Raises:
            VirtualDeviceError: The state is not of this capture.
        """
        if not self._is_running:
            self.ops.append(self._draws.set(generator, state))
        return not self._is_running

    def end(self) -> None:
        """The capture is over: nothing has been computed."""
        with unseen():
            self._undo()
        self._saved, self._made = {}, []

    def _undo(self) -> None:
        for memory, contents in reversed(self._saved.items()):
            now = memory.contents()
            if now is not None and now.numel() >= contents.numel():
                now[: contents.numel()].copy_(contents)
        self._draws.restore()
        for operand in self._made:
            operand.undefine()

    def replay(self) -> None:
        """Run everything again."""
        with unseen():
            for op in self.ops:
                if isinstance(op, Tape):
                    op.replay()
                else:
                    op.run()

    def written(self) -> Iterator[Memory]:
        """The memory that operators overwrite, or that they made."""
        for op in self.ops:
            if isinstance(op, Tape):
                yield from op.written()
            elif isinstance(op, CapturedOp):
                for place in writes_of(op.func):
                    yield from (operand.memory for operand in _operands(_argument(place, op.args, op.kwargs)))
                yield from (operand.memory for _, operand in op.makes)

    def generators(self) -> Iterator[torch.Generator]:
        """The generators that operators draw from."""
        for op in self.ops:
            if isinstance(op, Tape):
                yield from op.generators()
            elif isinstance(op, CapturedOp) and op.kwargs.get("generator") is not None:
                yield op.kwargs["generator"]

    def _note(
        self, func: Any, args: Any, kwargs: Any, out: Any, *, has_effect: bool, is_undefined: bool = False
    ) -> None:
        known = {id(operand.memory) for operand in _operands((args, tuple(kwargs.values())))}
        makes = []
        for path, tensor in _tensors(out, ()):
            memory = memory_of(tensor, self, is_result=True)
            if id(memory) not in known:
                makes.append((path, Operand(tensor, memory)))
        if not makes and not has_effect:
            return  # a view
        op = CapturedOp(func, args, kwargs, makes)
        self.ops.append(op)
        if not is_undefined:
            self._made += [operand for _, operand in makes]

    def _kept(self, value: Any) -> Any:
        """`value` with places for tensors; numbers in host memory are read now, as a launch reads them."""
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and is_pageable(value):
                return value.clone()
            return Operand(value, memory_of(value, self))
        if isinstance(value, list | tuple):
            return [self._kept(item) for item in value] if isinstance(value, list) else tuple(map(self._kept, value))
        if isinstance(value, dict):
            return {key: self._kept(item) for key, item in value.items()}
        return value

    def _save(self, writes: tuple[int | str, ...], args: Any, kwargs: Any) -> None:
        for place in writes:
            for operand in _operands(_argument(place, args, kwargs)):
                self._save_memory(operand.memory)

    def _save_memory(self, memory: Memory) -> None:
        if memory in self._saved or memory.made_by(self):
            return
        contents = memory.contents()
        if contents is not None:
            self._saved[memory] = contents.clone()


def num_generators(tape: Tape) -> int:
    """How many generators a graph draws from."""
    return len({number_of(generator) for generator in tape.generators()})


def writes_of(func: Any) -> tuple[int | str, ...]:
    """Which arguments an operator overwrites: positions, and names of keyword arguments."""
    known = _writes.get(func)
    if known is None:
        found: list[int | str] = list(_UNDECLARED_WRITES.get(func._schema.name, ()))
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found += [index, argument.name]
        known = _writes[func] = tuple(found)
    return known


def _argument(place: int | str, args: Any, kwargs: Any) -> Any:
    if isinstance(place, str):
        return kwargs.get(place)
    return args[place] if place < len(args) else None


def _operands(value: Any) -> Iterator[Operand]:
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _operands(item)


def _tensors(value: Any, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(item, (*path, index))


def _at(value: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        value = value[index]
    return value


def _taken(value: Any) -> Any:
    if isinstance(value, Operand):
        return value.take()
    if isinstance(value, list):
        return [_taken(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_taken(item) for item in value)
    if isinstance(value, dict):
        return {key: _taken(item) for key, item in value.items()}
    return value
