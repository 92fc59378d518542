"""Random generators in a graph capture: a capture draws no numbers, a replay draws from the generator's current state.

A program may also get a generator's state within a capture and set it again later, as checkpointing does to compute the
same numbers twice. On a GPU such a state is relative to the start of the capture, so that it also applies to a replay;
here a replay gets and sets the state at the same points.
"""

from __future__ import annotations

from typing import Final

import torch

from cudalens.errors import VirtualDeviceError

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
    """The generators that a capture uses."""

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
