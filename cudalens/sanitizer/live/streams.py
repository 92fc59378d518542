"""The engine's line for a stream of torch, names of streams, and whether a race changes values."""

from __future__ import annotations

import ast
import itertools
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import _C

from cudalens.device import streams as device_streams
from cudalens.device.stacks import is_passed_by
from cudalens.errors import ExploreError
from cudalens.sanitizer.engine import HOST, Access, Race
from cudalens.sanitizer.engine.accesses import Clocks, Line
from cudalens.sanitizer.engine.records import StreamId
from cudalens.sanitizer.fixes.source import Sources, is_stream_context
from cudalens.sanitizer.fixes.source_edits import sets_stream
from cudalens.sanitizer.live.calls import Call

if TYPE_CHECKING:
    from cudalens.frames.exploration import Exploration, Shown


_torch: Final[Any] = _C

#: Distance of the numbers for per-thread default streams, which all have the same pointer. No pointer is as large.
_THREAD_STEP: Final = 1 << 64


class Streams:
    """Finds the line of a stream by its pointer.

    The legacy default stream of every device has the pointer 0; the device distinguishes them. Not all of torch's
    callbacks include the device of a pointer: it is taken to be the current one, until an operator shows another.

    Args:
        clocks: Provides the lines.
        lock: Held while the lines of the clocks are accessed.
        blocking: Receives the lines that are ordered with the legacy default stream of their device.
    """

    def __init__(self, clocks: Clocks, lock: AbstractContextManager[Any], blocking: set[Line]) -> None:
        self._clocks, self._lock, self._blocking = clocks, lock, blocking
        self._lines: dict[int, Line] = {}
        self._used: dict[int, Line] = {}
        self._thread = threading.local()
        self._numbers = itertools.count(1)
        self._names: dict[int, str] = {}

    def of_operator(self, device: int) -> Line:
        """Return the line of the current stream of a device."""
        try:
            pointer = _torch._cuda_getCurrentRawStream(device)  # inlined `current_stream`
        except (AttributeError, RuntimeError):
            pointer = device_streams.current_stream(device)
        line = self._used.get(pointer or ~device)
        if line is not None:
            return line
        with self._lock:
            if pointer in (device_streams.LEGACY, device_streams.PER_THREAD):  # one on each device
                return self._make(self.unambiguous(pointer), device)
            line = self._lines.get(pointer or ~device)
            if line is None:
                line = self._make(pointer, device)
            elif line.id.device != device:
                self._clocks.move(line, device)
            self._used[pointer or ~device] = line
            return line

    def of_pointer(self, pointer: int, device: int) -> Line:
        """Return the line of a stream that a callback names.

        Args:
            pointer: The pointer of the stream, or what `unambiguous` returned for it.
            device: The GPU that was current at the callback.
        """
        line = self._lines.get(pointer or ~device)
        return self._make(pointer, device) if line is None else line

    def unambiguous(self, pointer: int) -> int:
        """Return a pointer itself, and for the calling thread's own default stream a number of that thread."""
        if pointer != device_streams.PER_THREAD:
            return pointer
        number: int | None = getattr(self._thread, "number", None)
        if number is None:
            number = self._thread.number = next(self._numbers)
            name = threading.current_thread().name
            self._names[number] = name if name not in self._names.values() else f"{name} ({number})"
        return pointer + _THREAD_STEP * number

    def forget(self) -> None:
        """Drop all pointers: another device may use them for other streams."""
        self._lines.clear()
        self._used.clear()

    def _make(self, pointer: int, device: int) -> Line:
        if pointer == device_streams.LEGACY:
            return self.of_pointer(0, device)
        if pointer >= _THREAD_STEP:
            stream = StreamId(device, f"per-thread default of {self._names[pointer // _THREAD_STEP]}")
            return self._make_blocking(stream)
        stream = StreamId(device, pointer)
        is_blocking = pointer != 0 and device_streams.is_blocking(pointer, device)
        line = self._make_blocking(stream) if is_blocking else self._clocks.line(stream)
        self._lines[pointer or ~device] = line
        return line

    def _make_blocking(self, stream: StreamId) -> Line:
        line = self._clocks.line(stream)
        self._clocks.make_blocking(stream)
        self._blocking.add(line)
        return line


#: Items of a list of streams that get a name.
_MAX_ITEMS = 64


def names_of_streams(
    namespace: Mapping[str, object] | None = None, races: Iterable[Race] = (), sources: Sources | None = None
) -> dict[StreamId, str]:
    """Return the name of each stream that has one: that of the first variable that holds it, else that at an access.

    Args:
        namespace: The variables; by default the globals of ``__main__``, which are those of a notebook, and then the
            local variables of the functions that run now.
        races: Races whose accesses show names of streams that no variable holds any more. Only of programs on one
            device: elsewhere the block around an access may switch the stream of another device.
        sources: Provides the user's source; by default `linecache`.
    """
    found: dict[StreamId, str] = {}
    if namespace is not None:
        _add_variables(found, namespace)
    else:
        if "__main__" in sys.modules:
            _add_variables(found, vars(sys.modules["__main__"]))
        for variables in _local_variables():
            _add_variables(found, variables)
    sources = sources or Sources()
    for access in [access for race in races for access in (race.first, race.second)]:
        if access.stream == HOST or not access.stream.stream or access.stream in found:
            continue
        name = _name_at_access(access, sources)
        if name is not None:
            found[access.stream] = name
    return _number_equal_names(found)


def _number_equal_names(found: Mapping[StreamId, str]) -> dict[StreamId, str]:
    """Number streams of the same name from the second on: ``s``, ``s (2)``, as a parameter or an item names several."""
    counts: Counter[str] = Counter()
    numbered = {}
    for stream, name in found.items():
        counts[name] += 1
        numbered[stream] = name if counts[name] == 1 else f"{name} ({counts[name]})"
    return numbered


def _add_variables(found: dict[StreamId, str], variables: Mapping[str, object]) -> None:
    """Add the streams that variables hold, and those in lists and dictionaries."""
    for variable, value in list(variables.items()):
        if variable.startswith("_"):
            continue
        for name, item in _items(variable, value):
            stream = _stream_of(item) if isinstance(item, torch.cuda.Stream) else None
            if stream is not None and stream.stream:  # the default stream has a name of its own
                found.setdefault(stream, name)


def _items(name: str, value: object) -> Iterator[tuple[str, object]]:
    if type(value) in (list, tuple):
        items: Any = value
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(items[:_MAX_ITEMS]))
    elif type(value) is dict:
        yield from ((f"{name}[{key!r}]", value[key]) for key in list(value)[:_MAX_ITEMS] if isinstance(key, int | str))
    else:
        yield name, value


def _local_variables() -> Iterator[Mapping[str, object]]:
    """Local variables of the user's functions that run now, on all threads, innermost first."""
    for innermost in list(sys._current_frames().values()):
        stack_frame: Any = innermost
        while stack_frame is not None:
            if stack_frame.f_locals is not stack_frame.f_globals and not is_passed_by(stack_frame.f_code.co_filename):
                yield stack_frame.f_locals
            stack_frame = stack_frame.f_back


def _stream_of(stream: torch.cuda.Stream) -> StreamId | None:
    try:
        return StreamId(int(stream.device_index), int(stream.cuda_stream))
    except RuntimeError:  # of a virtual device that has ended
        return None


def _name_at_access(access: Access, sources: Sources) -> str | None:
    """The stream as the innermost ``with torch.cuda.stream(…)`` around an access names it; None if that is unknown."""
    call = access.stack if isinstance(access.stack, Call) else None
    while call is not None and call.code is not None:
        place = call.place
        if place.code is call.code and place.instruction == call.instruction:
            located = sources.locate(place)
            if located is None or sets_stream(located.source):
                return None
            if located.withs:
                block = located.withs[0][0]
                contexts = [
                    item.context_expr for item in block.items if is_stream_context(located.source, item.context_expr)
                ]
                return _text_of_argument(contexts[-1]) if contexts else None
        call = call.outer
    return None


def _text_of_argument(call: Any) -> str | None:
    argument = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
        text = ast.unparse(argument)
        return text if len(text) <= 40 else None
    return None


# Whether a race changes values: run other orders of the same program.


class RaceValues(ABC):
    """The methods of a sanitizer that try races in other orders, and the verdicts that they found.

    Args:
        explores: Whether the watched operators are recorded for `explore`.
        max_bytes: Memory that the recording and a trial may take.
    """

    def __init__(self, *, explores: bool, max_bytes: int) -> None:
        self._explores, self._explore_bytes = explores, max_bytes
        self._exploring: Any = None
        self._values: dict[tuple[object, ...], dict[str, Any]] = {}

    @property
    @abstractmethod
    def races(self) -> list[Race]:
        """The races found so far."""

    @property
    @abstractmethod
    def is_on(self) -> bool:
        """Whether the sanitizer is running."""

    def _begin_exploring(self) -> None:
        """Prepare the recording of a run.

        Raises:
            ExploreError: No virtual device is active.
        """
        if self._explores and self._exploring is None:
            from cudalens.api.explore import Exploring

            self._exploring = Exploring(self._explore_bytes)

    def explore(self, budget: int | None = None, *, seed: int = 0) -> Exploration:
        """Run the operators of the last watched block in other orders that its synchronisation allows; compare values.

        Requires ``explore=True``. No Python code of the user runs again: the operators that the block ran on the
        virtual device are computed again on separate memory, so decisions of the host (an ``if`` on a number that it
        read) do not change. The program's own order comes first, then for each race the orders that run its later
        access first, then random orders and orders that delay single tasks. If there are no more orders than `budget`,
        all of them are tried.

        Args:
            budget: Number of orders to try besides the program's own, by default 50.
            seed: The first seed of the random orders.

        Returns:
            The differences, and for each race whether it changes a value. Printable, and shown in a notebook.

        Raises:
            ExploreError: ``explore=True`` was not given, nothing ran on a virtual device, or an operator cannot be
                computed again.
        """
        found: Exploration
        found, values = self._explored().explore(self, budget=budget, seed=seed)
        self._keep(values)
        return found

    def replay_schedule(self, seed: str | int) -> Shown:
        """Run one order of the last watched block again.

        Args:
            seed: The order's name as `explore` gives it ("rush:9<4"), or the seed of a random order.

        Returns:
            The order and the values that differ in it.

        Raises:
            ExploreError: As for `explore`, or `seed` names no order of this block.
        """
        return self._explored().replay(seed)

    def confirm(
        self,
        program: Callable[[], Any],
        *,
        runs: int | None = None,
        hold_ns: int | None = None,
        limit_s: float | None = None,
        races: Sequence[Race] | None = None,
        on_virtual: bool = False,
    ) -> Exploration:
        """Run a program again on a real GPU, with streams delayed so that its races can occur, and compare the values.

        The stream of a race's first access is delayed directly before the access, until the second access has run. The
        program runs twice in its own order with a synchronisation after each operator, up to `runs` times for each
        race, and once more in its own order if values differ. **All its side effects happen again**: files are written
        again, and changes of Python objects stay, except for lists, dictionaries and sets in the caller's variables.
        Tensors that existed before and that the program writes are restored before each run and at the end, as is the
        state of the random generators. Values that differ between runs in the program's own order are not compared.

        The comparison covers tensors and numbers that the program returns, and tensors that it writes and that the
        caller's variables hold. Each race becomes "confirmed", with the schedule that shows it, or "benign so far";
        `trace` includes these verdicts afterwards. A running sanitizer is paused for the duration.

        Args:
            program: A function without arguments, whose races this sanitizer has found.
            runs: Largest number of delayed runs for each race; by default 20.
            hold_ns: Longest delay of a stream, ns; by default a multiple of the time that the host took from one access
                to the other, at least 20 ms, and longer if that was not enough.
            limit_s: Time after which no further run starts, s; by default 600.
            races: The races to try; by default all of `races`.
            on_virtual: Allow a virtual device. There, delays change times only, because values are computed in the
                program's order; use `explore` instead.

        Returns:
            The verdict on each race.

        Raises:
            ExploreError: There is no GPU or no race, or the program raises when it runs again.
        """
        from cudalens.api.confirm import confirm

        exploration, values = confirm(
            self, program, runs=runs, hold_ns=hold_ns, limit_s=limit_s, races=races, on_virtual=on_virtual
        )
        self._keep(values)
        return exploration

    def _keep(self, values: Mapping[tuple[object, ...], dict[str, Any]]) -> None:
        """Keep verdicts on races. A confirmed race stays confirmed."""
        for key, columns in values.items():
            before = self._values.get(key)
            if before is None or before["value_verdict"] != "confirmed" or columns["value_verdict"] == "confirmed":
                self._values[key] = columns

    def end_block(self, names: Mapping[str, object]) -> None:
        """Start a new block for `explore`. Does nothing without ``explore=True``.

        Args:
            names: The variables of the block that ends, whose values are compared.
        """
        if self._exploring is not None:
            num_races = len(self.races)
            self._exploring.end(num_races, names)
            if self.is_on:
                self._exploring.begin(num_races)

    def _explored(self) -> Any:
        if self._exploring is None:
            raise ExploreError(
                "this sanitizer did not record what it watched. Enable the recording first: "
                "cudalens.sanitize(explore=True), in a notebook `%cudasan on --explore` or `%%cudasan --explore`."
            )
        if self.is_on:
            self.end_block(self._exploring.callers_names())
        return self._exploring
