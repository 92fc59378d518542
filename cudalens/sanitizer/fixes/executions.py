"""The executions of statements in a recorded run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from cudalens.sanitizer.engine import HOST, Access, HostAccessed, OperatorCaptured, OperatorLaunched, Race, StreamId
from cudalens.sanitizer.fixes.recorded import Occurrence, Run
from cudalens.sanitizer.fixes.source import Located, Sources
from cudalens.sanitizer.text import stream_name


class Segment(NamedTuple):
    """One execution of a statement or block.

    Attributes:
        start: Position of its first record.
        end: Position of its last record.
        stream: Stream of its first launch; HOST if it launched nothing. Of a ``with`` block, the stream of the
            launches directly in it, not in a block inside it.
        has_launch: Whether it launched anything.
        is_start: Whether it begins the execution: nothing was launched in a block inside this one before.
    """

    start: int
    end: int
    stream: StreamId
    has_launch: bool
    is_start: bool


class Executions:
    """The statements of a race, and their executions in the run.

    Args:
        run: The run.
        occurrences: Occurrences of the race.
        race: The race.
        sources: Provides the source.
    """

    def __init__(self, run: Run, occurrences: Sequence[Occurrence], race: Race, sources: Sources) -> None:
        self._run, self._occurrences, self._sources = run, occurrences, sources
        self._race = race
        self._first = self._locate([seen.first for seen in occurrences])
        self._second = self._locate([seen.second for seen in occurrences])

    @cached_property
    def _is_one_device(self) -> bool:
        """Whether the program uses only the current device."""
        from cudalens.device.streams import current_device  # needs torch, as a program with source does

        return self._run.devices <= {current_device()}

    def _is_stream_of(self, located: Located, stream: StreamId) -> bool:
        """Whether the block of an access switches to a stream.

        All launches directly in the block are on it. A block can switch the stream of another device than theirs, so
        with several devices the name of the stream must be known as well.
        """
        if self._streams_in(located.scope, located.stream_block) != {stream}:
            return False
        return self._is_one_device or stream_name(stream) == f"stream {located.stream}"

    def _streams_in(self, scope: ast.AST, block: ast.AST | None) -> set[StreamId]:
        """Streams of the launches of a function or module that are directly in one of its blocks, or in none."""
        found = set()
        for record in self._run.records:
            if isinstance(record, OperatorLaunched):
                located = self._sources.locate(record.place)
                if located is not None and located.scope is scope and located.stream_block is block:
                    found.add(record.stream)
        return found

    def _is_one_call(self, scope: ast.AST, segments: Sequence[Segment]) -> bool:
        """Whether all executions belong to one call of a function: nothing else ran between the first and the last."""
        if isinstance(scope, ast.Module) or len(segments) == 1:
            return True
        for record in self._run.records[segments[0].start : segments[-1].end + 1]:
            if isinstance(record, (OperatorLaunched, HostAccessed)):
                located = self._sources.locate(record.place)
                if located is None or located.scope is not scope:
                    return False
        return True

    def _locate(self, positions: Iterable[int]) -> Located | None:
        """The statement that made the accesses of some records; None if there are several, or if it is unknown."""
        records: list[Any] = [self._run.records[position] for position in positions]
        calls = {record.place for record in records}
        return self._sources.locate(calls.pop()) if len(calls) == 1 else None

    def _segments(self, node: ast.stmt) -> list[Segment]:
        """Executions of a statement, or of a block, in the run; none if a part of it was captured into a CUDA graph."""
        found: list[Segment] = []
        is_inside = False
        for position, record in enumerate(self._run.records):
            if not isinstance(record, (OperatorLaunched, HostAccessed, OperatorCaptured)):
                continue
            located = self._sources.locate(record.place)
            belongs = located is not None and _is_within(located, node)
            if isinstance(record, OperatorCaptured):
                if belongs:
                    return []  # what is inserted there would be captured too, which CUDA may not allow
                continue
            is_inner = _is_block(node) and located is not None and located.stream_block is not node
            stream = record.stream if isinstance(record, OperatorLaunched) and not is_inner else HOST
            is_launch = isinstance(record, OperatorLaunched)
            last = found[-1] if found and is_inside else None
            if belongs and last is not None and (stream in (last.stream, HOST) or not last.has_launch):
                stream = last.stream if stream == HOST else stream
                found[-1] = Segment(last.start, position, stream, last.has_launch or is_launch, last.is_start)
            elif belongs:
                found.append(Segment(position, position, stream, is_launch, last is None or last.stream != HOST))
            is_inside = belongs
        is_ambiguous = not _is_block(node) and len({s.stream.device for s in found if s.stream != HOST}) > 1
        return [] if is_ambiguous else found

    def _is_apart(self, located: Located, other: Access) -> bool:
        """Whether the statement of this access cannot have called the other access."""
        place = self._first if other is self._race.first else self._second
        if place is not None and place.scope is located.scope:
            return True
        lines = range(located.statement.lineno, (located.statement.end_lineno or 0) + 1)
        entries = _stack(other)
        return bool(entries) and all(f != located.spot.filename or line not in lines for f, line in entries)


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, (ast.With, ast.AsyncWith))


def _is_within(located: Located, node: ast.stmt) -> bool:
    if located.statement is node:
        return True
    return _is_block(node) and any(block is node for block, _ in located.withs)


def _stack(touch: Access) -> list[tuple[str, int]]:
    """File and line of every stack frame of an access; empty if no stack was recorded."""
    if touch.stack is None:
        return []
    from cudalens.device.stacks import frames_of  # needs torch, as the recording of a stack does

    take: Callable[..., Any] = frames_of
    return [(entry.filename, entry.line) for entry in take(touch.stack)]
