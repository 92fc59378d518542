"""Describe races as text, for warnings, errors and plain output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from cudalens.sanitizer.engine import HOST, Access, Race, StreamId

_WORDS = {True: "writes", False: "reads"}


def summarize(num_findings: int, num_seen: int) -> str:
    """One line: the number of findings and of their occurrences."""
    if not num_findings:
        return "no race"
    races = counted(num_findings, "race")
    return f"{races}, seen once" if num_seen == 1 else f"{races}, seen {num_seen:,} times"


def counted(number: int, word: str) -> str:
    """``1 race``, ``2,000 races``."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


def describe(race: Race) -> str:
    """Return a race in one sentence."""
    first, second = race.first, race.second
    return (
        f"{race.kind.value}: {_act(second)} and nothing orders that after {_act(first)}. "
        f"Both touch {_bytes(race)} of {_memory(race)}."
    )


_names: ContextVar[Mapping[StreamId, str]] = ContextVar("cudalens_stream_names", default={})  # noqa: B039


@contextmanager
def naming(names: Mapping[StreamId, str]) -> Iterator[None]:
    """Inside the block, reports use these names of streams."""
    before = _names.set(names)
    try:
        yield
    finally:
        _names.reset(before)


def stream_name(stream: StreamId) -> str:
    """Return a stream as reports show it: its name within `naming`, otherwise its pointer."""
    if stream == HOST:
        return "the host"
    if (named := _names.get().get(stream)) is not None:
        return f"stream {named}"
    if stream.stream == 0:
        name = "the default stream"
    else:
        name = f"stream {stream.stream:#x}" if isinstance(stream.stream, int) else f"stream {stream.stream}"
    return f"{name} of device {stream.device}" if stream.device else name


def _act(touch: Access) -> str:
    argument = f" ({touch.argument})" if touch.argument else ""
    place = f" at {touch.place}" if touch.place is not None else ""
    if touch.captured is not None:
        place += f" (captured at {touch.captured})"
    where = "on the host" if touch.stream == HOST else f"on {stream_name(touch.stream)}"
    return f"{touch.op}{argument} {_WORDS[touch.is_write]} {touch.tensor} {where}{place}"


def _bytes(race: Race) -> str:
    low = max(race.first.region.start, race.second.region.start)
    high = min(race.first.region.end, race.second.region.end)
    base = race.second.memory.start if race.second.memory is not None else race.second.region.start
    return f"bytes {low - base} to {high - base}"


def _memory(race: Race) -> str:
    memory = race.second.memory
    if memory is None:
        return race.second.tensor
    made = f" allocated at {memory.place}" if memory.place is not None else ""
    return f"the {memory.num_bytes:,} bytes{made}"
