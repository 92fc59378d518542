"""Write fixes as edits of the user's source, with the records that each would add to the recorded run.

A line before a statement runs whenever the statement does, not only when it races. So its records are inserted before
every execution of the statement in the run: consecutive records of one statement on one stream. Two executions without
other records between them count as one: the check then has fewer waits than the edited program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, Final

from cudalens.sanitizer.engine import (
    HOST,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    OperatorLaunched,
    Race,
    RaceKind,
    StreamId,
    StreamSynchronized,
)
from cudalens.sanitizer.fixes import source_edits as edits
from cudalens.sanitizer.fixes import source_edits as names
from cudalens.sanitizer.fixes.candidates import (
    Edited,
    Fix,
    FixKind,
    needs_record_stream,
    num_needless,
    record_stream_insertions,
    runs_aside,
    wait,
    work_name,
)
from cudalens.sanitizer.fixes.recorded import Executions, Insertion, Occurrence, Run, accesses_of
from cudalens.sanitizer.fixes.source import Edit, Located, Sources

_EVENT_NAME: Final = "done"


def written_candidates(
    run: Run, occurrences: Sequence[Occurrence], race: Race, sources: Sources, number: int = 0
) -> Iterator[Fix]:
    """Yield every fix that can be written into the source; none is checked yet.

    Args:
        run: The run.
        occurrences: Occurrences of the race.
        race: The race, with the call stacks of its accesses if they were recorded.
        sources: Provides the source.
        number: Number of fixes to which one of them may be joined: names of variables differ from theirs.
    """
    writer = _Writer(run, occurrences, race, sources, number)
    if race.kind is RaceKind.HOST:
        yield from writer.host_waits()
        return
    if race.kind is RaceKind.USE_AFTER_FREE:
        yield from writer.record_stream()
    yield from writer.stream_waits()


class _Writer(Executions):
    def __init__(self, run: Run, occurrences: Sequence[Occurrence], race: Race, sources: Sources, number: int) -> None:
        super().__init__(run, occurrences, race, sources)
        self._number = number
        self._event = ("fix", number)
        self._whom = _only(seen.race.first.stream for seen in occurrences)
        self._who = _only(seen.race.second.stream for seen in occurrences)

    # Candidates

    def record_stream(self) -> Iterator[Fix]:
        first, touch = self._first, self._race.first
        if first is None or not all(needs_record_stream(seen.race.first) for seen in self._occurrences):
            return
        record: Any = self._run.records[self._occurrences[0].first]
        launches = [
            each for each in self._run.records if isinstance(each, OperatorLaunched) and each.place is record.place
        ]
        if not all(launch.is_direct for launch in launches):
            return  # Module.to() calls Tensor.to(): what the code calls a method of need not be a tensor
        arguments = {access.argument for access in accesses_of(record)}
        tensor, torch = edits.tensor_expression(first, touch.op, touch.argument, arguments), self._torch(first)
        if tensor is None or torch is None:
            return
        code = f"{tensor}.record_stream({self._current(torch, self._race.first.stream)})"
        yield from self._candidate(
            FixKind.RECORD_STREAM,
            first,
            [edits.before(first.source, first.statement, code)],
            f"`{code}` before {_place(first)}",
            record_stream_insertions(self._occurrences),
        )

    def stream_waits(self) -> Iterator[Fix]:
        if any(HOST in (seen.race.first.stream, seen.race.second.stream) for seen in self._occurrences):
            return
        if runs_aside(self._race.first, self._first):
            yield from self._wait_for_work()
            return
        if runs_aside(self._race.second, self._second):  # it waits for the current stream of its call
            if self._second is not None and self._is_apart(self._second, self._race.first):
                yield from self._wait_before_second(self._second)
            yield from self._event_waits(is_host=False)
            return
        if self._second is not None and self._is_apart(self._second, self._race.first):
            yield from self._wait_before_block(self._second)
            yield from self._wait_before_second(self._second)
        if self._first is not None and self._is_apart(self._first, self._race.second):
            yield from self._wait_after_block(self._first)
            yield from self._wait_after_first(self._first)
        yield from self._event_waits(is_host=False)

    def _wait_for_work(self) -> Iterator[Fix]:
        """``work.wait()``, if the earlier access is a collective whose ``Work`` object is in a variable."""
        first, second = self._first, self._second
        if first is None or second is None or not self._is_in_order(first, second):
            return
        name = work_name(first)
        if name is None:
            return
        ends = [s for s in self._segments(first.statement) if s.stream == self._whom]
        starts = [s for s in self._segments(second.statement) if s.stream != HOST]
        if not ends or not starts:
            return
        yield from self._candidate(
            FixKind.WAIT_WORK,
            second,
            [edits.before(second.source, second.statement, f"{name}.wait()")],
            f"`{name}.wait()` before {_place(second)}",
            [Insertion(s.end + 1, EventRecorded(self._event, s.stream)) for s in ends]
            + [Insertion(s.start, EventWaited(self._event, s.stream)) for s in starts],
        )

    def _wait_before_second(self, second: Located) -> Iterator[Fix]:
        if self._whom is None:
            return
        whom, torch = self._stream_expression(self._first, self._whom, second), self._torch(second)
        if whom is None or torch is None or whom == second.stream:
            return
        code = f"{self._current(torch, self._race.second.stream)}.wait_stream({whom})"
        found = [(s.start, self._whom, s.stream) for s in self._segments(second.statement) if s.stream != HOST]
        yield from self._wait(second, "before", code, found)

    def _wait_before_block(self, second: Located) -> Iterator[Fix]:
        """Before the ``with`` that contains the later access, if the earlier one is outside of it."""
        block, torch = self._block_in_reach(second, self._first, self._whom), self._torch(second)
        if block is None or torch is None or self._whom is None:
            return
        code = f"{second.stream}.wait_stream({self._current(torch, self._race.first.stream)})"
        segments = [s for s in self._segments(block) if s.is_start and s.stream != HOST]
        yield from self._wait(second, "before", code, [(s.start, self._whom, s.stream) for s in segments], block)

    def _wait_after_block(self, first: Located) -> Iterator[Fix]:
        """After the ``with`` that contains the earlier access, if the later one is outside of it."""
        block, torch = self._block_in_reach(first, self._second, self._who), self._torch(first)
        if block is None or torch is None or self._who is None:
            return
        code = f"{self._current(torch, self._who)}.wait_stream({first.stream})"
        segments = [s for s in self._segments(block) if s.stream != HOST]
        yield from self._wait(first, "after", code, [(s.end + 1, s.stream, self._who) for s in segments], block)

    def _wait_after_first(self, first: Located) -> Iterator[Fix]:
        torch = self._torch(first)
        if self._who is None or torch is None:
            return
        who = self._stream_expression(self._second, self._who, first)
        if who is None or who == first.stream:
            return
        code = f"{who}.wait_stream({self._current(torch, self._race.first.stream)})"
        # The current stream is that of the execution, not always that of the race.
        found = [(s.end + 1, s.stream, self._who) for s in self._segments(first.statement) if s.stream != HOST]
        yield from self._wait(first, "after", code, found)

    def host_waits(self) -> Iterator[Fix]:
        if self._whom is None or self._whom == HOST:
            return
        if self._second is not None and self._is_apart(self._second, self._race.first):
            yield from self._synchronize(self._second, self._whom)
        yield from self._event_waits(is_host=True)
        if self._first is not None:
            yield from self._blocking_copy(self._first, self._whom)

    def _synchronize(self, second: Located, whom: StreamId) -> Iterator[Fix]:
        expression = self._ambient(second) or self._stream_expression(self._first, whom, second)
        if expression is None:
            return
        code = f"{expression}.synchronize()"
        yield from self._candidate(
            FixKind.SYNC_STREAM,
            second,
            [edits.before(second.source, second.statement, code)],
            f"`{code}` before {_place(second)}",
            [Insertion(s.start, StreamSynchronized(whom)) for s in self._segments(second.statement)],
            num_needless(self._run, self._occurrences),
        )

    def _blocking_copy(self, first: Located, whom: StreamId) -> Iterator[Fix]:
        # Return the call of the statement with ``non_blocking=True``.
        root: Any = first.expression if isinstance(first.expression, ast.Call) else first.statement
        calls = [node for node in ast.walk(root) if isinstance(node, ast.Call) and _is_non_blocking(node)]
        call = calls[0] if len(calls) == 1 else None
        if call is None:
            return
        yield from self._candidate(
            FixKind.BLOCKING_COPY,
            first,
            [edits.without_keyword(first.source, call, "non_blocking")],
            f"drop `non_blocking=True` at {_place(first)}: the host then waits for the copy",
            [Insertion(s.end + 1, StreamSynchronized(whom)) for s in self._segments(first.statement)],
            sum(
                isinstance(record, OperatorLaunched)
                for seen in self._occurrences
                for record in self._run.records[seen.first + 1 : seen.second]
            ),
        )

    def _event_waits(self, *, is_host: bool) -> Iterator[Fix]:
        first, second = self._first, self._second
        if first is None or second is None or not self._is_in_order(first, second):
            return
        torch = self._torch(first)
        if torch is not None:
            yield from self._event_between(first, second, torch, is_host)

    @staticmethod
    def _is_in_order(first: Located, second: Located) -> bool:
        """Return whether a name that is bound after the earlier access is bound at the later one."""
        if first.source is not second.source or first.scope is not second.scope:
            return False
        return first.statement is not second.statement and names.precedes(
            first.source, first.statement, second.statement
        )

    def _event_between(self, first: Located, second: Located, torch: str, is_host: bool) -> Iterator[Fix]:
        name = self._fresh_name(first)
        record = f"{name} = {self._current(torch, self._race.first.stream)}.record_event()"
        waits = f"{self._current(torch, self._race.second.stream)}.wait_event({name})"
        waiting = f"{name}.synchronize()" if is_host else waits
        ends, starts = self._segments(first.statement), self._segments(second.statement)
        if not ends or not starts:
            return
        insertions = [Insertion(s.end + 1, EventRecorded(self._event, s.stream)) for s in ends if s.stream != HOST]
        if is_host:
            insertions += [Insertion(s.start, EventSynchronized(self._event)) for s in starts]
        else:
            insertions += [Insertion(s.start, EventWaited(self._event, s.stream)) for s in starts if s.stream != HOST]
        yield from self._candidate(
            FixKind.SYNC_EVENT if is_host else FixKind.WAIT_EVENT,
            first,
            [
                edits.after(first.source, first.statement, record),
                edits.before(second.source, second.statement, waiting),
            ],
            f"`{record}` after {_place(first)}, and `{waiting}` before {_place(second)}",
            insertions,
        )

    # Names

    def _torch(self, located: Located) -> str | None:
        """Return the name of torch there."""
        for source in self._sources.family(located.spot.filename):
            name = source.torch_name(located.scope if source is located.source else None)
            if name is not None:
                return name
        return None

    def _fresh_name(self, located: Located) -> str:
        taken = {name for source in self._sources.family(located.spot.filename) for name in source.names}
        choices = (_EVENT_NAME if n == 1 else f"{_EVENT_NAME}_{n}" for n in count(1))
        free = (name for name in choices if name not in taken)
        return next(islice(free, self._number, None))

    def _index(self, stream: StreamId) -> str:
        """Return the index of a stream's device as an argument; empty if the program uses no other device."""
        return "" if self._is_one_device else str(stream.device)

    def _current(self, torch: str, stream: StreamId) -> str:
        """Return an expression for the current stream of a stream's device."""
        return f"{torch}.cuda.current_stream({self._index(stream)})"

    def _stream_expression(self, of: Located | None, stream: StreamId, at: Located) -> str | None:
        """Return an expression, at one access, for the stream of the other one."""
        torch = self._torch(at)
        if stream.stream == 0:
            return f"{torch}.cuda.default_stream({self._index(stream)})" if torch else None
        if of is None or of.stream is None or not self._is_stream_of(of, stream):
            return None
        return of.stream if self._means_the_same(of.stream, of, at) else None

    def _means_the_same(self, name: str, one: Located, two: Located) -> bool:
        scope, other = (names.binder(at.source, name, at.statement) for at in (one, two))
        if scope is None or other is None:
            return False
        if one.source is two.source:
            return scope is other and names.is_bound_before(two.source, name, other, two.statement)
        family = self._sources.family(two.spot.filename)
        if one.source not in family or scope is not one.source.tree or other is not two.source.tree:
            return False
        return sum(names.num_bindings(source, name) for source in family) <= 1

    def _ambient(self, second: Located) -> str | None:
        """Return the current stream, if it is the same for both accesses."""
        first, torch = self._first, self._torch(second)
        if first is None or torch is None or first.scope is not second.scope or names.sets_stream(second.source):
            return None
        if first.stream_block is not second.stream_block:
            return None
        if self._streams_in(first.scope, first.stream_block) != {self._race.first.stream}:
            return None
        return self._current(torch, self._race.first.stream)

    def _block_in_reach(self, inner: Located, outer: Located | None, stream: StreamId | None) -> ast.stmt | None:
        """Return the ``with`` block of one access, if the other is directly outside of it, on the current stream there.

        Args:
            inner: The access in the block.
            outer: The other one.
            stream: Stream of the other one; None if it has several.
        """
        if outer is None or outer.scope is not inner.scope or inner.stream is None or names.sets_stream(inner.source):
            return None
        block = inner.withs[0][0]
        if outer.stream_block is not inner.outer_block or stream is None:
            return None
        segments = self._segments(block)
        if not segments or not self._is_one_call(inner.scope, segments):
            return None  # a function that ran several times, perhaps on several streams
        streams = {segment.stream for segment in segments} - {HOST}
        switches = bool(streams)  # to the streams of the executions
        if not self._is_one_device:
            switches = len(streams) == 1 and self._is_stream_of(inner, *streams)
        if not switches or not names.is_steady(inner.source, inner.stream, block):
            return None
        return block if self._streams_in(inner.scope, inner.outer_block) == {stream} else None

    # Construction

    def _wait(
        self,
        at: Located,
        where: str,
        code: str,
        found: Sequence[tuple[int, StreamId | None, StreamId]],
        block: ast.stmt | None = None,
    ) -> Iterator[Fix]:
        line = block.lineno if block is not None else at.spot.line
        edit_at = edits.before if where == "before" else edits.after
        yield from self._candidate(
            FixKind.WAIT_STREAM,
            at,
            [edit_at(at.source, block or at.statement, code)],
            f"`{code}` {where} {at.spot.label}:{line}",
            [i for position, whom, who in found if whom is not None and who != whom for i in wait(position, whom, who)],
            num_needless(self._run, self._occurrences, [position for position, *_ in found]),
        )

    def _candidate(
        self,
        kind: FixKind,
        at: Located,
        lines: Sequence[Edit | None],
        words: str,
        insertions: Sequence[Insertion],
        num_waited: int = 0,
    ) -> Iterator[Fix]:
        written = [edit for edit in lines if edit is not None]
        if len(written) < len(lines) or not insertions:
            return
        edited = Edited(at.source, at.spot.label, tuple(written))
        if edited.diff:
            yield Fix(kind, words, tuple(insertions), num_waited, edited.diff, edited)


def _place(located: Located) -> str:
    return f"{located.spot.label}:{located.spot.line}"


def _is_non_blocking(call: ast.Call) -> bool:
    return any(
        k.arg == "non_blocking" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords
    )


def _only(streams: Iterator[StreamId]) -> StreamId | None:
    """Return the stream, if there is only one."""
    found = set(streams)
    return found.pop() if len(found) == 1 else None
