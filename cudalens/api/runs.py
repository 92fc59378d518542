"""The runs of this process: their Traces by name."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: Default limit of all runs together, bytes: some ten million events.
_MAX_BYTES: Final = 4 << 30


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
        self._traces: dict[str, Trace] = {}
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, trace: Trace) -> Trace:
        """Keep `trace` under its name, as the last one; returns it.

        Warns:
            UserWarning: Older runs were dropped.
        """
        with self._lock:
            name = trace.info.name
            self._traces.pop(name, None)
            self._traces[name] = trace
            self._sizes[name] = _num_bytes(trace)
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
        dropped: list[str] = []
        sizes = {name: self._sizes[name] for name in self._traces}
        total = sum(sizes.values())
        for name in list(sizes)[:-1]:
            if self.max_bytes is None or total <= self.max_bytes:
                break
            total -= sizes[name]
            del self._traces[name]
            dropped.append(name)
        return dropped

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


def _num_bytes(trace: Trace) -> int:
    """Bytes of the columns of `trace`; the texts of categories are counted once per column."""
    return sum(int(frame.memory_usage(index=False).sum()) for frame in trace.frames.values())


#: The runs of this process.
runs: Final = Runs()
