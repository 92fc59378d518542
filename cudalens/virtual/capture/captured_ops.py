"""Record the operators of a graph capture, and run them again on the same memory in a replay.

A capture on a real GPU runs nothing. Here every operator runs once on the CPU, because its result's shape is needed. At
the end of the capture, the memory that it overwrote is restored, and memory that was allocated within the capture is
marked as undefined (NaN, or zero for dtypes without NaN), because its contents are undefined before the first replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.capture.graph_memory import Memory, Operand, is_pageable, memory_of
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.tensors.nested import item_at, tensors_in

#: Operators without a kernel: a replay does not change their results.
_BLANK: Final = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)

#: In a pool, a replay clears the memory in place for these operators.
_ZEROS: Final = frozenset({"aten::zeros", "aten::zeros_like", "aten::new_zeros"})

#: Arguments that are written without an annotation in the schema: the running statistics.
_UNDECLARED_WRITES: Final = {"aten::native_batch_norm": (3, 4), "aten::cudnn_batch_norm": (3, 4)}

#: Kernels that check a value. They have no result and write nothing.
_ASSERTIONS: Final = frozenset({"aten::_assert_async"})

#: Collectives: their schemas do not say what they write, and they end after the call.
_COLLECTIVES: Final = ("c10d::", "_c10d_functional::")

#: Each waits for the other process, which a replay cannot arrange.
_TRANSFERS: Final = ("c10d::send", "c10d::recv_", "c10d::recv_any_source_")
_NO_TRANSFERS: Final = (
    "{name} in a CUDA graph is not modelled on a virtual device: a replay would have to wait for the other process in "
    "the right order. Call torch.distributed.send and recv outside of the graph, or use a collective."
)

_NOTHING: Final = nullcontext()

_writes: dict[Any, tuple[int | str, ...]] = {}


class CapturedOp:
    """An operator call, with `Operand` instead of tensors."""

    __slots__ = ("args", "func", "has_grad", "is_blank", "is_zeros", "kwargs", "makes")

    def __init__(self, func: Any, args: Any, kwargs: Any, makes: list[tuple[tuple[int, ...], Operand]]) -> None:
        self.func, self.args, self.kwargs, self.makes = func, args, kwargs, makes
        self.is_blank, self.is_zeros = func._schema.name in _BLANK, func._schema.name in _ZEROS
        self.has_grad = torch.is_grad_enabled()  # some kernels save more tensors for a backward pass

    def run(self) -> None:
        """Run it again."""
        if (self.is_blank or self.is_zeros) and self.makes[0][1].memory.arena is not None:
            if self.is_zeros:
                self.makes[0][1].memory.clear()
            return
        with torch.set_grad_enabled(self.has_grad) if self.has_grad != torch.is_grad_enabled() else _NOTHING:
            take = Operand.take_leaf if getattr(self.func, "reads_requires_grad", False) else Operand.take
            out = self.func(*_tensor_form(self.args, take), **_tensor_form(self.kwargs, take))
        _wait(self.func, out)
        for path, operand in self.makes:
            result = item_at(out, path)
            if self.is_blank:
                operand.blank(result)
            else:
                operand.store(result)


class Draw:
    """A random operator whose values are not computed.

    Attributes:
        generator: Its generator.
    """

    __slots__ = ("generator",)

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def run(self) -> None:
        """Do nothing."""


class Tape:
    """The operators of one capture, in order."""

    def __init__(self) -> None:
        self.ops: list[CapturedOp | Draw | StatePoint | Tape] = []
        self._saved: dict[Memory, torch.Tensor] = {}
        self._read: dict[Memory, torch.Tensor] = {}
        self._generators = CapturedGenerators()
        self._made: list[Operand] = []
        self._is_running = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator to get its result's shape, and record it.

        Args:
            func: The overload to call on the CPU.
            args: The arguments for the CPU.
            kwargs: The keyword arguments for the CPU.
        """
        if func._schema.name in _TRANSFERS:
            raise VirtualDeviceError(_NO_TRANSFERS.format(name=func._schema.name))
        writes = writes_of(func)
        with below_modes():
            kept_args, kept_kwargs = self._operand_form(args), self._operand_form(kwargs)
            self._save(writes, kept_args, kept_kwargs)
        if kwargs.get("generator") is not None:
            self._generators.save(kwargs["generator"])
        if func._schema.name in _ASSERTIONS:  # a capture runs nothing, so nothing fails before the first replay
            self._record(func, kept_args, kept_kwargs, None, has_effect=True)
            return None
        self._is_running = True
        try:
            out = func(*args, **kwargs)
            _wait(func, out)
        finally:
            self._is_running = False
        self._record(func, kept_args, kept_kwargs, out, has_effect=bool(writes))
        return out

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Record a factory that does not write its result."""
        with below_modes():
            self._record(
                func, self._operand_form(args), self._operand_form(kwargs), out, has_effect=False, is_undefined=True
            )

    def record_contents(self, tensor: torch.Tensor) -> None:
        """Record a tensor with constant contents, which a replay creates again."""
        with below_modes():
            contents, memory = tensor.clone(), memory_of(tensor, self, is_result=True)
        operand = Operand(tensor, memory)
        self.ops.append(CapturedOp(torch.ops.aten.clone.default, (contents,), {}, [((), operand)]))
        self._made.append(operand)

    def embed(self, tape: Tape) -> None:
        """Record the replay of another graph, and run it once, as every operator of a capture."""
        with below_modes():
            for memory in tape.written():
                self._save_memory(memory)
        for generator in tape.generators():
            self._generators.save(generator)
        self._is_running = True
        try:
            tape.replay()
        finally:
            self._is_running = False
        self.ops.append(tape)

    def get_state(self, generator: torch.Generator) -> torch.Tensor | None:
        """Get a generator's state for the program; None if an operator gets it, which is not recorded."""
        if self._is_running:
            return None
        state, point = self._generators.get_state(generator)
        self.ops.append(point)
        return state

    def set_state(self, generator: torch.Generator, state: torch.Tensor) -> bool:
        """Set a generator's state for the program; False if an operator sets it, which is not recorded.

        Raises:
            VirtualDeviceError: The state does not come from this capture.
        """
        if not self._is_running:
            self.ops.append(self._generators.set_state(generator, state))
        return not self._is_running

    def end(self) -> None:
        """Restore memory and generators at the end of the capture."""
        with below_modes():
            self._undo()
        self._saved, self._read, self._made = {}, {}, []

    def _undo(self) -> None:
        for operand in self._made:
            operand.undefine()
        for memory, contents in (*reversed(self._saved.items()), *self._read.items()):
            now = memory.contents()
            if now is not None and now.numel() >= contents.numel():
                now[: contents.numel()].copy_(contents)
        self._generators.restore()

    def replay(self) -> None:
        """Run all operators again."""
        with below_modes():
            for op in self.ops:
                if isinstance(op, Tape):
                    op.replay()
                else:
                    op.run()

    def written(self) -> Iterator[Memory]:
        """Yield the memory that operators overwrite or create."""
        for op in self.ops:
            if isinstance(op, Tape):
                yield from op.written()
            elif isinstance(op, CapturedOp):
                for place in writes_of(op.func):
                    yield from (operand.memory for operand in _operands(_argument(place, op.args, op.kwargs)))
                yield from (operand.memory for _, operand in op.makes)

    def generators(self) -> Iterator[torch.Generator]:
        """Yield the generators that operators draw from."""
        for op in self.ops:
            if isinstance(op, Tape):
                yield from op.generators()
            elif isinstance(op, CapturedOp) and op.kwargs.get("generator") is not None:
                yield op.kwargs["generator"]
            elif isinstance(op, Draw):
                yield op.generator

    def _record(
        self, func: Any, args: Any, kwargs: Any, out: Any, *, has_effect: bool, is_undefined: bool = False
    ) -> None:
        known = {id(operand.memory) for operand in _operands((args, tuple(kwargs.values())))}
        makes = []
        for path, tensor in tensors_in(out):
            memory = memory_of(tensor, self, is_result=True)
            if id(memory) not in known:
                makes.append((path, Operand(tensor, memory)))
        if not makes and not has_effect:
            return  # a view
        op = CapturedOp(func, args, kwargs, makes)
        self.ops.append(op)
        if not is_undefined:
            self._made += [operand for _, operand in makes]

    def _operand_form(self, value: Any) -> Any:
        """`value` with operands for tensors; numbers in host memory are read now, as in a launch."""
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and is_pageable(value):
                return value.clone()
            memory = memory_of(value, self)
            if memory.arena is not None and not (memory in self._saved or memory in self._read or memory.made_by(self)):
                # It reads memory of a pool: the tensor may be freed in the capture, and another one get its memory.
                contents = memory.contents()
                if contents is not None:
                    self._read[memory] = contents.clone()
            return Operand(value, memory)
        if isinstance(value, list | tuple):
            return (
                [self._operand_form(item) for item in value]
                if isinstance(value, list)
                else tuple(map(self._operand_form, value))
            )
        if isinstance(value, dict):
            return {key: self._operand_form(item) for key, item in value.items()}
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
    """Return the number of generators that a graph draws from."""
    return len({number_of(generator) for generator in tape.generators()})


def writes_of(func: Any) -> tuple[int | str, ...]:
    """Return the arguments that an operator overwrites: positions, and names of keyword arguments."""
    places: tuple[int | str, ...] | None = getattr(func, "written_places", None)  # a generated kernel has no schema
    if places is not None:
        return places
    known = _writes.get(func)
    if known is None:
        found: list[int | str] = list(_UNDECLARED_WRITES.get(func._schema.name, ()))
        for index, argument in enumerate(func._schema.arguments):
            is_unknown = func._schema.name.startswith(_COLLECTIVES[0]) and "Tensor" in str(argument.type)
            if is_unknown or (argument.alias_info is not None and argument.alias_info.is_write):
                found += [index, argument.name]
        known = _writes[func] = tuple(found)
    return known


def _argument(place: int | str, args: Any, kwargs: Any) -> Any:
    if isinstance(place, str):
        return kwargs.get(place)
    return args[place] if place < len(args) else None


def _wait(func: Any, out: Any) -> None:
    """Wait for a collective, whose result is a Work or tensors that torch can wait for."""
    if not func._schema.name.startswith(_COLLECTIVES):
        return
    for item in out if isinstance(out, list | tuple) else (out,):
        if isinstance(item, torch.Tensor):
            torch.ops._c10d_functional.wait_tensor(item)
        elif isinstance(item, torch.ScriptObject):
            torch.distributed.Work.unbox(item).wait()


def _operands(value: Any) -> Iterator[Operand]:
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _operands(item)


def _tensor_form(value: Any, take: Callable[[Operand], torch.Tensor]) -> Any:
    if isinstance(value, Operand):
        return take(value)
    if isinstance(value, list):
        return [_tensor_form(item, take) for item in value]
    if isinstance(value, tuple):
        return tuple(_tensor_form(item, take) for item in value)
    if isinstance(value, dict):
        return {key: _tensor_form(item, take) for key, item in value.items()}
    return value


# Random generators in a graph capture.

#: torch's methods; the methods of a virtual device's generator also notify the capture.
_get_state: Final = torch._C.Generator.get_state
_set_state: Final = torch._C.Generator.set_state


class StatePoint:
    """A point at which a generator's state is read, or set to the state read at another point."""

    __slots__ = ("_generator", "_origin", "_state")

    def __init__(self, generator: torch.Generator, origin: StatePoint | None) -> None:
        self._generator, self._origin = generator, origin
        self._state: torch.Tensor | None = None

    def run(self) -> None:
        """Run it in a replay."""
        if self._origin is None:
            self._state = _get_state(self._generator)
        elif self._origin._state is not None:
            _set_state(self._generator, self._origin._state)


class CapturedGenerators:
    """The generators that a capture uses.

    A capture draws no numbers; a replay draws from the generator's current state.

    A program may also get a generator's state within a capture and set it again later, as checkpointing does to compute
    the same numbers twice. On a GPU such a state is relative to the start of the capture, so that it also applies to a
    replay; here a replay gets and sets the state at the same points.
    """

    def __init__(self) -> None:
        self._saved: dict[int, tuple[torch.Generator, torch.Tensor]] = {}
        self._points: dict[tuple[int, bytes], StatePoint] = {}

    def save(self, generator: torch.Generator) -> None:
        """Save the state of a generator that an operator of the capture draws from."""
        number = number_of(generator)
        if number not in self._saved:
            self._saved[number] = (generator, _get_state(generator))

    def get_state(self, generator: torch.Generator) -> tuple[torch.Tensor, StatePoint]:
        """Get the state for the program; returns it, and the point for a replay."""
        state = _get_state(generator)
        point = self._points[_key(generator, state)] = StatePoint(generator, None)
        return state, point

    def set_state(self, generator: torch.Generator, state: torch.Tensor) -> StatePoint:
        """Set the state for the program; returns the point for a replay.

        Raises:
            VirtualDeviceError: The state does not come from this capture.
        """
        origin = self._points.get(_key(generator, state))
        if origin is None:
            raise VirtualDeviceError(
                "The state of a random generator was set to a state from outside of the active graph capture; a replay "
                "cannot reproduce this. Set states before the capture, or get them within it."
            )
        self.save(generator)
        _set_state(generator, state)
        return StatePoint(generator, origin)

    def restore(self) -> None:
        """Restore the saved states at the end of the capture."""
        for generator, state in self._saved.values():
            _set_state(generator, state)
        self._saved, self._points = {}, {}


def number_of(generator: torch.Generator) -> int:
    """Return the identity of torch's C++ object: operators may get different wrappers of one generator."""
    return int(generator._cdata)  # type: ignore[attr-defined]


def _key(generator: torch.Generator, state: torch.Tensor) -> tuple[int, bytes]:
    return number_of(generator), bytes(state.tolist())
