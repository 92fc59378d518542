"""The runs of this process: their Traces by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: Default limit of all runs together, bytes: some ten million events.
_MAX_BYTES: Final = 4 << 30


class _Kept(NamedTuple):
    """A run and the bytes of its frames."""

    trace: Trace
    num_bytes: int


class Runs:
    """The Traces of this process by name, oldest first. A name used again replaces its Trace and moves to the end.

    A run stays in memory until ``del runs[name]`` or ``runs.clear()``, or until all runs together have more than
    `max_bytes`: then the oldest are dropped, with a warning that names them. The last run always stays.
    ``profile(keep=False)`` adds none.

    Attributes:
        max_bytes: The most bytes that the frames of all runs may have; None for no limit.
    """

    def __init__(self, max_bytes: int | None = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        #: One dict, so that each change of it, by any thread, leaves a valid state: an interrupt may come between
        #: two of them, also between the end of a ``with lock`` and the lock's release.
        self._kept: dict[str, _Kept] = {}

    def add(self, trace: Trace) -> Trace:
        """Keep `trace` under its name, as the last one; returns it.

        Warns:
            UserWarning: Older runs were dropped.
        """
        name = trace.info.name
        kept = _Kept(trace, _num_bytes(trace))
        self._kept.pop(name, None)
        self._kept[name] = kept
        dropped = self._drop_oldest()
        if dropped:
            names = ", ".join(map(repr, dropped[:5])) + (", …" if len(dropped) > 5 else "")
            warnings.warn(
                f"cudalens.runs dropped {len(dropped)} of its oldest runs ({names}): all together had more than "
                f"cudalens.runs.max_bytes = {self.max_bytes:,}. Set it higher, or to None, to keep more.",
                UserWarning,
                stacklevel=2,
            )
        return trace

    def _drop_oldest(self) -> list[str]:
        """Drop the oldest runs, except the last one, until all together keep to `max_bytes`; returns their names."""
        kept = list(self._kept.items())
        excess = 0 if self.max_bytes is None else sum(one.num_bytes for _, one in kept) - self.max_bytes
        dropped: list[str] = []
        for name, one in kept[:-1]:
            if excess <= 0:
                break
            excess -= one.num_bytes
            if self._kept.pop(name, None) is not None:
                dropped.append(name)
        return dropped

    def clear(self) -> None:
        """Forget all runs."""
        self._kept.clear()

    @property
    def last(self) -> Trace:
        """The run that was added last.

        Raises:
            KeyError: There is none yet.
        """
        if not self._kept:
            raise KeyError("there is no run yet; profile something first")
        return self._kept[next(reversed(self._kept))].trace

    def __getitem__(self, name: str) -> Trace:
        try:
            return self._kept[name].trace
        except KeyError:
            known = ", ".join(map(repr, self._kept)) or "none"
            raise KeyError(f"there is no run {name!r}; there are: {known}") from None

    def __delitem__(self, name: str) -> None:
        del self._kept[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def keys(self) -> list[str]:
        """Names, oldest first."""
        return list(self._kept)

    def values(self) -> list[Trace]:
        """Traces, oldest first."""
        return [trace for _, trace in self.items()]

    def items(self) -> list[tuple[str, Trace]]:
        """Names and Traces, oldest first."""
        return [(name, kept.trace) for name, kept in list(self._kept.items())]

    def __repr__(self) -> str:
        if not self._kept:
            return "<cudalens.runs: none yet>"
        lines = [f"  {name!r}: {len(trace):,} events, {trace.info.status}" for name, trace in self.items()]
        return "\n".join([f"<cudalens.runs: {len(lines)}, oldest first>", *lines])


def _num_bytes(trace: Trace) -> int:
    """Bytes of the columns of `trace`; the texts of categories are counted once per column."""
    return sum(int(frame.memory_usage(index=False).sum()) for frame in trace.frames.values())


#: The runs of this process.
runs: Final = Runs()
