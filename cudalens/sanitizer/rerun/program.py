"""A program that can run repeatedly, and the state that each run starts with."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.errors import KernelError
from cudalens.frames.exploration import Difference
from cudalens.kernels import begin_fingerprint
from cudalens.kernels.differing import difference_of
from cudalens.kernels.fingerprint import PendingFingerprint
from cudalens.sanitizer.rerun.tasks import without_sync_warnings


def fingerprints(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fingerprints of tensors, all launched before the first is read; other values unchanged."""
    found: dict[str, Any] = {}
    with without_sync_warnings():
        pending = {name: _begin(value) if isinstance(value, torch.Tensor) else value for name, value in values.items()}
        for name, value in pending.items():
            if isinstance(value, PendingFingerprint):
                found[name] = value.result()
            elif value != value:
                found[name] = "nan"  # all NaNs are equal
            else:
                found[name] = value
    return found


def _begin(tensor: torch.Tensor) -> PendingFingerprint | str:
    try:
        return begin_fingerprint(tensor)
    except KernelError:  # sparse, nested: not compared
        return "not compared"


def copied(value: Any) -> Any:
    """Return a copy of a tensor; other values unchanged."""
    return value.detach().clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value


def difference(name: str, expected: Any, found: Any) -> Difference | None:
    """Return the difference of two values, or None if they are equal."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        with without_sync_warnings():
            return difference_of(name, expected, found)
    gap = None
    if isinstance(expected, int | float) and isinstance(found, int | float):
        gap = abs(found - expected)
    before = str(expected) if isinstance(expected, complex) else expected
    now = str(found) if isinstance(found, complex) else found
    return Difference(name, 1, 1, (), before, now, gap, (), type(expected).__name__)


#: Depth of nested containers whose contents are saved.
_MAX_DEPTH: Final = 3

#: Number of items of containers that are saved; larger containers are not restored.
_MAX_ITEMS: Final = 1_000_000

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can run repeatedly.

    Attributes:
        run: Runs it.
        outputs: Returns its output tensors and numbers by name; takes the result of `run`.
        names: Variables that it reads and assigns; restored before each run.
        tensors: Tensors that exist before it; restored before each run, with their ``.grad``.
        holders: Lists, dictionaries, sets and random generators that it may change; restored before each run.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], Mapping[str, Any]]
    names: MutableMapping[str, Any] | None = None
    tensors: Sequence[torch.Tensor] = ()
    holders: Sequence[Any] = ()


class State:
    """The state that is restored before each run: memory, random generators, variables, current streams.

    Memory is copied before the first write. Changes of other Python objects are not restored.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._names = program.names
        self._variables = dict(program.names) if program.names is not None else {}
        self._tensors = program.tensors
        self._layouts = [(tensor, tensor.detach()) for tensor in program.tensors if _key(tensor)]
        self._gradients = [(tensor, tensor.grad) for tensor in program.tensors if tensor.is_leaf]
        self._contents = list(_contents_of(program.holders))
        self._random = _RandomState(program.holders)
        self._current = _Current()
        self._saved: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}
        self._made: set[int] = set()

    def made(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note that the program created these tensors: they are not saved before a write."""
        self._made.update(key for tensor in tensors if (key := _key(tensor)) and key not in self._saved)

    def save(self, tensors: Iterable[torch.Tensor]) -> None:
        """Save tensors that are about to be written."""
        for tensor in tensors:
            key = _key(tensor)
            if key and key not in self._made and key not in self._saved:
                flat = _bytes(tensor)
                self._saved[key] = flat, flat.clone(), flat.numel()

    def save_all(self) -> None:
        """Save all tensors."""
        self.save(tensor for tensor in self._tensors if tensor.is_cuda)

    def was_written(self, tensor: torch.Tensor) -> bool:
        """Return whether the program created or wrote this tensor's memory in the last run."""
        key = _key(tensor)
        return key in self._made or key in self._saved

    def restore(self) -> None:
        """Restore the state, and wait for it, so that the next run may start on any stream.

        All issued work must have ended.
        """
        self._current.restore()
        with torch.no_grad():
            for flat, contents, num_bytes in self._saved.values():
                if flat.untyped_storage().nbytes() < num_bytes:
                    flat.untyped_storage().resize_(num_bytes)
                flat.copy_(contents)
        self.restore_host()
        self._random.restore()
        for device in {flat.get_device() for flat, _, _ in self._saved.values() if flat.is_cuda}:
            torch.cuda.synchronize(device)
        self._made.clear()

    def restore_host(self) -> None:
        """Restore what needs no device: variables, containers, and the memory of tensors."""
        for tensor, before in self._layouts:
            if _key(tensor) != _key(before) or tensor.shape != before.shape or tensor.stride() != before.stride():
                tensor.data = before
        for tensor, grad in self._gradients:
            if tensor.grad is not grad:
                tensor.grad = grad
        for holder, contents in self._contents:
            _refill(holder, contents)
        if self._names is not None:
            for name in [name for name in self._names if name not in self._variables]:
                del self._names[name]
            self._names.update(self._variables)


class _Current:
    """The current device and streams of this thread, and the grad mode."""

    def __init__(self) -> None:
        self._device = torch.cuda.current_device()
        self._streams = [torch.cuda.current_stream(n) for n in range(torch.cuda.device_count())]
        self._has_gradients = torch.is_grad_enabled()

    def restore(self) -> None:
        """Restore them."""
        for stream in self._streams:
            if torch.cuda.current_stream(stream.device).cuda_stream != stream.cuda_stream:
                torch.cuda.set_stream(stream)
        if torch.cuda.current_device() != self._device:
            torch.cuda.set_device(self._device)
        torch.set_grad_enabled(self._has_gradients)


class _RandomState:
    """The states of all random generators: those of Python, numpy and torch, and the program's own.

    Args:
        holders: Include the program's own generators.
    """

    def __init__(self, holders: Iterable[Any]) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._numpy = numpy.random if numpy is not None else None
        self._states = random.getstate(), self._numpy.get_state() if self._numpy is not None else None
        self._host, self._devices = torch.get_rng_state(), torch.cuda.get_rng_state_all()
        self._own = [(one, one.get_state()) for one in holders if isinstance(one, torch.Generator)]
        self._own_numpy = [
            (one.bit_generator, one.bit_generator.state)
            for one in holders
            if self._numpy is not None and isinstance(one, self._numpy.Generator)
        ]

    def restore(self) -> None:
        """Restore them."""
        random.setstate(self._states[0])
        if self._numpy is not None:
            self._numpy.set_state(self._states[1])
        torch.set_rng_state(self._host)
        torch.cuda.set_rng_state_all(self._devices)
        for generator, state in self._own:
            generator.set_state(state)
        for bits, numpy_state in self._own_numpy:
            bits.state = numpy_state


def _contents_of(holders: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Containers of built-in types, also nested ones, each with a copy of its contents."""
    level, seen, num_items = list(holders), set[int](), 0
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for holder in level:
            if type(holder) not in (list, dict, set, bytearray) or id(holder) in seen:
                continue
            num_items += len(holder)
            if num_items > _MAX_ITEMS:
                return
            seen.add(id(holder))
            yield holder, holder.copy()
            if isinstance(holder, dict):
                below += holder.values()
            elif not isinstance(holder, bytearray):
                below += holder
        level = below


def _refill(holder: Any, contents: Any) -> None:
    """Restore the contents of a container, unless it is unchanged."""
    if isinstance(holder, list | bytearray):
        if len(holder) != len(contents) or any(a is not b for a, b in zip(holder, contents, strict=True)):
            holder[:] = contents
    elif isinstance(holder, dict):
        if len(holder) != len(contents) or any(contents.get(key, _ABSENT) is not holder[key] for key in holder):
            holder.clear()
            holder.update(contents)
    elif holder != contents:
        holder.clear()
        holder.update(contents)


def _key(tensor: torch.Tensor) -> int:
    """Identity of a tensor's memory; 0 if it has none of its own."""
    try:
        storage = tensor.untyped_storage()
        return int(storage._cdata) if storage.nbytes() else 0
    except (RuntimeError, NotImplementedError):
        return 0


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return all memory of a tensor's storage, uint8."""
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage())
