"""A program that can run again: what it is, and what it finds each time that it does."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Program:
    """Something that can run again.

    Attributes:
        run: Runs it.
        outputs: Tensors and numbers that it left, by their names; takes what `run` returned.
        names: Variables that it reads and assigns, which are as before when it runs again.
        tensors: Tensors that exist before it; their ``.grad`` are as before when it runs again.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], Mapping[str, Any]]
    names: MutableMapping[str, Any] | None = None
    tensors: Sequence[torch.Tensor] = ()


class State:
    """What is as it was whenever the program runs: memory that it found, random numbers, variables.

    Memory is copied when it is first about to be written. What the program does to other objects of Python's stays.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._names = program.names
        self._variables = dict(program.names) if program.names is not None else {}
        self._tensors = program.tensors
        self._gradients = [(tensor, tensor.grad) for tensor in program.tensors if tensor.is_leaf]
        self._random = _RandomState()
        self._saved: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}
        self._made: set[int] = set()

    def made(self, tensors: Iterable[torch.Tensor]) -> None:
        """These are the program's own."""
        self._made.update(key for tensor in tensors if (key := _key(tensor)) and key not in self._saved)

    def save(self, tensors: Iterable[torch.Tensor]) -> None:
        """These are about to be written."""
        for tensor in tensors:
            key = _key(tensor)
            if key and key not in self._made and key not in self._saved:
                flat = _bytes(tensor)
                self._saved[key] = flat, flat.clone(), flat.numel()

    def save_all(self) -> None:
        """Anything may be about to be written."""
        self.save(tensor for tensor in self._tensors if tensor.is_cuda)

    def was_written(self, tensor: torch.Tensor) -> bool:
        """Whether the program made or wrote this tensor's memory, in the run that was last."""
        key = _key(tensor)
        return key in self._made or key in self._saved

    def restore(self) -> None:
        """Everything as it was. What was issued has ended."""
        with torch.no_grad():
            for flat, contents, num_bytes in self._saved.values():
                if flat.untyped_storage().nbytes() < num_bytes:
                    flat.untyped_storage().resize_(num_bytes)
                flat.copy_(contents)
        for tensor, grad in self._gradients:
            if tensor.grad is not grad:
                tensor.grad = grad
        if self._names is not None:
            for name in [name for name in self._names if name not in self._variables]:
                del self._names[name]
            self._names.update(self._variables)
        self._random.restore()
        self._made.clear()


class _RandomState:
    """The states of all generators of random numbers."""

    def __init__(self) -> None:
        numpy: Any = sys.modules.get("numpy")
        self._numpy = numpy.random if numpy is not None else None
        self._states = random.getstate(), self._numpy.get_state() if self._numpy is not None else None
        self._host, self._devices = torch.get_rng_state(), torch.cuda.get_rng_state_all()

    def restore(self) -> None:
        """As they were."""
        random.setstate(self._states[0])
        if self._numpy is not None:
            self._numpy.set_state(self._states[1])
        torch.set_rng_state(self._host)
        torch.cuda.set_rng_state_all(self._devices)


def _key(tensor: torch.Tensor) -> int:
    """Identity of a tensor's memory; 0 where it has none of its own."""
    try:
        storage = tensor.untyped_storage()
        return int(storage._cdata) if storage.nbytes() else 0
    except (RuntimeError, NotImplementedError):
        return 0


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All memory of a tensor's storage, uint8."""
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage())
