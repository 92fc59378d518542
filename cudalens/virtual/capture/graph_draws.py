"""Random numbers of a graph: a capture draws nothing, and a replay draws from where the generator stands then.

A program may also ask for a generator's state within a capture and set it again later, as checkpointing does to compute
the same numbers twice. On a GPU such a state counts from the begin of the capture, so a replay takes it along; here a
replay asks for the state and sets it at the same places.
"""

from __future__ import annotations

from typing import Final

import torch

from cudalens.errors import VirtualDeviceError

_get_state: Final = torch._C.Generator.get_state
#: torch's own: a virtual device's generator tells the capture of both.
_set_state: Final = torch._C.Generator.set_state


class StatePoint:
    """A generator's state is asked for, or set to what was asked for at another point."""

    __slots__ = ("_generator", "_origin", "_state")

    def __init__(self, generator: torch.Generator, origin: StatePoint | None) -> None:
        self._generator, self._origin = generator, origin
        self._state: torch.Tensor | None = None

    def run(self) -> None:
        """Do it again."""
        if self._origin is None:
            self._state = _get_state(self._generator)
        elif self._origin._state is not None:
            _set_state(self._generator, self._origin._state)


class Draws:
    """The generators that a capture meets."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[torch.Generator, torch.Tensor]] = {}
        self._points: dict[tuple[int, bytes], StatePoint] = {}

    def save(self, generator: torch.Generator) -> None:
        """An operator of the capture draws from it."""
        number = number_of(generator)
        if number not in self._saved:
            self._saved[number] = (generator, _get_state(generator))

    def ask(self, generator: torch.Generator) -> tuple[torch.Tensor, StatePoint]:
        """The program asks for the state; returns it, and what a replay does."""
        state = _get_state(generator)
        point = self._points[_key(generator, state)] = StatePoint(generator, None)
        return state, point

    def set(self, generator: torch.Generator, state: torch.Tensor) -> StatePoint:
        """The program sets the state; returns what a replay does.

        Raises:
            VirtualDeviceError: The state is not of this capture.
        """
        origin = self._points.get(_key(generator, state))
        if origin is None:
            raise VirtualDeviceError(
                "A random generator was given a state from outside of the graph capture that is under way; a replay "
                "could not tell what to draw. Set states before the capture, or ask for them within it."
            )
        self.save(generator)
        _set_state(generator, state)
        return StatePoint(generator, origin)

    def restore(self) -> None:
        """The capture is over: nothing was drawn."""
        for generator, state in self._saved.values():
            _set_state(generator, state)
        self._saved, self._points = {}, {}


def number_of(generator: torch.Generator) -> int:
    """Of torch's C++ object: operators may be given different wrappers of one generator."""
    return int(generator._cdata)  # type: ignore[attr-defined]


def _key(generator: torch.Generator, state: torch.Tensor) -> tuple[int, bytes]:
    return number_of(generator), bytes(state.tolist())
