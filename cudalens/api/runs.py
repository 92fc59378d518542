"""The runs of this process: their Traces by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cudalens.frames import Trace


class Runs:
    """The Traces of this process by name, oldest first. A name used again replaces its Trace and moves to the end.

    Every run stays in memory until ``del runs[name]`` or ``runs.clear()``; ``profile(keep=False)`` adds none.
    """

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}
        self._lock = threading.Lock()

    def add(self, trace: Trace) -> Trace:
        """Keep `trace` under its name, as the last one; returns it."""
        with self._lock:
            self._traces.pop(trace.info.name, None)
            self._traces[trace.info.name] = trace
        return trace

    def clear(self) -> None:
        """Forget all runs."""
        with self._lock:
            self._traces.clear()

    @property
    def last(self) -> Trace:
        """The run that was added last.

        Raises:
            KeyError: There is none yet.
        """
        if not self._traces:
            raise KeyError("there is no run yet; profile something first")
        return self._traces[next(reversed(self._traces))]

    def __getitem__(self, name: str) -> Trace:
        try:
            return self._traces[name]
        except KeyError:
            known = ", ".join(map(repr, self._traces)) or "none"
            raise KeyError(f"there is no run {name!r}; there are: {known}") from None

    def __delitem__(self, name: str) -> None:
        with self._lock:
            del self._traces[name]

    def __contains__(self, name: object) -> bool:
        return name in self._traces

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._traces))

    def __len__(self) -> int:
        return len(self._traces)

    def keys(self) -> list[str]:
        """Names, oldest first."""
        return list(self._traces)

    def values(self) -> list[Trace]:
        """Traces, oldest first."""
        return list(self._traces.values())

    def items(self) -> list[tuple[str, Trace]]:
        """Names and Traces, oldest first."""
        return list(self._traces.items())

    def __repr__(self) -> str:
        if not self._traces:
            return "<cudalens.runs: none yet>"
        lines = [f"  {name!r}: {len(trace):,} events, {trace.info.status}" for name, trace in self._traces.items()]
        return "\n".join([f"<cudalens.runs: {len(lines)}, oldest first>", *lines])


#: The runs of this process.
runs: Final = Runs()
