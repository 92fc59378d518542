"""`sanitize` and `Sanitizer`: check a running program for stream races, on real and on virtual devices."""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device import clock, gpu_trace, stacks
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.errors import RaceError, SanitizerError
from cudalens.frames.info import Judged
from cudalens.sanitizer.engine import Race, RaceKind, StreamId
from cudalens.sanitizer.engine.races import Findings, describe, naming
from cudalens.sanitizer.fixes.search import findings_of
from cudalens.sanitizer.live import calls
from cudalens.sanitizer.live.attachment import Attachment
from cudalens.sanitizer.live.calls import Log
from cudalens.sanitizer.live.streams import RaceValues, names_of_streams
from cudalens.sanitizer.live.watch import Watch
from cudalens.sanitizer.races_frame import Finding, races_frames
from cudalens.sanitizer.settings import (
    OnRace,
    Status,
    Suppressions,
    SuppressionWarning,
    checked_depth,
    checked_on_race,
    parse_kinds,
    read_suppressions,
)

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.frames import Trace


#: Stack frames that a report shows of each access, by default.
DEFAULT_STACK_DEPTH: Final = 16

#: Default limit of the memory for `Sanitizer.explore`, bytes.
EXPLORE_BYTES: Final = 1 << 30

_logger = logging.getLogger(__name__)
_running: list[Sanitizer] = []


class RaceWarning(UserWarning):
    """A race was found, at the place of its later access."""


class Sanitizer(RaceValues):
    """Finds accesses to the same memory that no stream, event or synchronisation orders.

    A collector with `start`, `stop` and `frames`. As a context manager, it starts and stops. It may be started again;
    the races of all its runs are kept until `clear`.

    It observes the operators of the thread that started it and of threads that start while it is on (autograd's
    included), and the callbacks of torch.cuda._gpu_trace. Report other work on streams with `access`.

    Args:
        on_race: The reaction to a new finding: "collect" keeps it, "warn" also emits a `RaceWarning`, "raise" raises
            `RaceError` from the operator that made it, after the operator has run. The replay of a graph cannot raise;
            the next operator does, or the end of the ``with`` block.
        detect: Kinds to detect, as `RaceKind` or its name in lower case ("use_after_free"); by default all.
        stack_depth: Number of stack frames of each access in reports, at least 1.
        suppress: Patterns of races to hide (`cudalens.sanitizer.Suppressions`).
        suppress_file: File of such patterns, one per line.
        explore: Record the operators on a virtual device, so that `explore` can run them in other orders.
        explore_bytes: Limit of the memory for that recording, and for `explore`.

    Attributes:
        name: Its name in messages.
        error: The error in the sanitizer that ended the run; None without one.
        stack_depth: As passed.

    Raises:
        SanitizerError: An option is not valid.
    """

    name = "sanitizer"

    def __init__(
        self,
        *,
        on_race: OnRace = "collect",
        detect: Iterable[RaceKind | str] | RaceKind | str | None = None,
        stack_depth: int = DEFAULT_STACK_DEPTH,
        suppress: Iterable[str] | str = (),
        suppress_file: str | PathLike[str] | None = None,
        explore: bool = False,
        explore_bytes: int = EXPLORE_BYTES,
    ) -> None:
        super().__init__(explores=explore, max_bytes=explore_bytes)
        self._on_race = checked_on_race(on_race)
        self._kinds = parse_kinds(detect)
        self.stack_depth = checked_depth(stack_depth)
        patterns = [suppress] if isinstance(suppress, str) else list(suppress)
        self._suppressions = Suppressions(patterns + (read_suppressions(suppress_file) if suppress_file else []))
        self._is_warned = False
        accepts: Callable[[Race], bool] = functools.partial(_is_asked_for, self._kinds, self._suppressions)
        self._findings = Findings(accepts)
        self._num_reported = 0
        self._watch: Watch | None = None
        self._attachment: Attachment | None = None
        self._interrupts = DeferredInterrupts("sanitizer")
        self._unraised: list[Race] = []
        self._ended_log = Log()
        self._devices: set[int] = set()
        self.error: Exception | None = None

    @property
    def is_on(self) -> bool:
        """Whether it is on."""
        return self in _running and self._watch is not None and self._watch.is_on

    @property
    def races(self) -> list[Race]:
        """The findings so far, in order of discovery; `Race.count` is the number of occurrences of each."""
        self._catch_up()
        return list(self._findings.races)

    @property
    def num_seen(self) -> int:
        """Number of occurrences of races in total."""
        self._catch_up()
        return sum(self._findings.counts.values())

    @property
    def log(self) -> Log:
        """The last records of the run, on which suggested fixes are checked; empty when it is off."""
        self._catch_up()
        return self._watch.log if self._watch is not None else Log()

    @defers_interrupts("sanitizer")
    def start(self) -> None:
        """Start to check operators. An interrupt (Ctrl-C) is raised after the start, which is then undone.

        Raises:
            SanitizerError: It is on already.
            ExploreError: It has ``explore=True``, and no virtual device is active.
        """
        if self._watch is not None:
            raise SanitizerError("this sanitizer is on already; stop() it first, or create another one.")
        self._begin_exploring()
        self.error = None
        self._interrupts.install()
        try:
            is_prompt = self._on_race != "collect"
            listeners = (self._on_races, self._failed, self._interrupts)
            self._watch = watch = Watch(self._findings, len(_running), *listeners, is_prompt=is_prompt)
            self._attachment = attachment = Attachment(watch)
            attachment.subscribe()
            _running.append(self)
            attachment.enter_mode()
            if self._exploring is not None:
                self._exploring.begin(len(self._findings.races))
            self._interrupts.deliver()
        except BaseException:
            self._stop()
            self._interrupts.remove()
            raise

    @defers_interrupts("sanitizer")
    def stop(self) -> None:
        """Stop, and remove the mode, the subscription and the replaced methods. No effect if it is off.

        An interrupt (Ctrl-C) is raised after that.
        """
        self._stop()
        self._interrupts.remove()
        self._interrupts.deliver()

    def deliver_interrupt(self) -> None:
        """Raise an interrupt that came while a function with `defers_interrupts` ran, if there is one."""
        self._interrupts.deliver()

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.catch_up(delivers_interrupts=False)
        watch, self._watch = self._watch, None
        if self._exploring is not None:
            self._exploring.end(len(self._findings.races))
        if watch is None:
            return
        self._last = self._status_of(watch)
        self._devices = {line.id.device for line in watch.detector.clocks.lines}
        if self._findings.races and (len(watch.log) or watch.log.captures):
            self._ended_log = watch.log
        if self in _running:
            _running.remove(self)
        if self._attachment is not None:
            self._attachment.detach()
            self._attachment = None
        watch.end()
        del watch  # it refers to code
        if not _running:
            calls.forget()
            stacks.forget_places()

    def _catch_up(self) -> None:
        """Check all pending operations."""
        if self._watch is not None:
            self._watch.catch_up()

    @defers_interrupts("sanitizer")
    def __enter__(self) -> Sanitizer:
        self.start()
        return self

    @defers_interrupts("sanitizer")
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            if (unused := self._suppressions.unused()) and not self._is_warned:
                self._is_warned = True
                message = f"these suppressions match no race: {', '.join(map(repr, unused))}"
                warnings.warn(message, SuppressionWarning, stacklevel=2)
            if self._unraised:
                raise self._race_error()

    @property
    def suppressions(self) -> list[str]:
        """The patterns of races to hide, including those of the file."""
        return list(self._suppressions)

    def unused_suppressions(self) -> list[str]:
        """Return the suppressions that have matched no race so far."""
        self._catch_up()
        return self._suppressions.unused()

    def clear(self) -> None:
        """Remove the findings; later occurrences become new findings."""
        self._catch_up()
        self._findings.clear()
        self._unraised.clear()
        self._values.clear()
        self._ended_log = Log()
        self._num_reported = 0

    def name_memory(self, tensor: torch.Tensor, name: str) -> None:
        """Use a name for a tensor's memory in reports, until it is freed. No effect if the sanitizer is off."""
        if self._watch is not None:
            self._watch.name_memory(tensor, name)

    def status(self) -> Status:
        """Return the state of the sanitizer."""
        self._catch_up()
        return self._status_of(self._watch) if self._watch is not None else self._last

    def count_streams(self) -> Callable[[], int]:
        """Start to count the streams with work; the returned function returns their number so far."""
        if self._watch is None:
            return lambda: 0
        self._catch_up()
        clocks = self._watch.detector.clocks
        since = clocks.epochs()

        def count() -> int:
            self._catch_up()
            return clocks.num_worked(since)

        return count

    _last: Status = Status(False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, ())

    def _status_of(self, watch: Watch) -> Status:
        detector = watch.detector
        return Status(
            is_on=self.is_on,
            num_launches=detector.position,
            num_streams=detector.clocks.num_worked({}),
            num_findings=len(self._findings.races),
            num_seen=self.num_seen,
            num_hidden=self._findings.num_hidden,
            num_allocations=watch.memory.num_live,
            num_ranges=sum(len(block.cells) for block in detector.shadow.blocks),
            num_accesses=detector.num_touches,
            num_forgotten=detector.num_forgotten,
            num_unseen_replays=watch.callbacks.num_unseen_replays,
            error=None if self.error is None else f"{type(self.error).__name__}: {self.error}",
            missing=tuple(kind.__name__ for kind in gpu_trace.missing_kinds()),
            guessed=tuple(sorted(watch.guessed)),
            exported=tuple(sorted(watch.exported)),
        )

    def _on_races(self, races: Sequence[Race], may_raise: bool) -> None:
        """Report the races that are new findings."""
        found = self._findings.races
        fresh, self._num_reported = found[self._num_reported :], len(found)
        now_ns = clock.now_ns()
        for race in fresh:
            race.seen_ns = now_ns if race.seen_ns is None else race.seen_ns
        if self._on_race == "warn":
            with naming(self._names(fresh)):
                texts = [describe(race) for race in fresh]
            for race, text in zip(fresh, texts, strict=True):
                _warn(race, text)
        elif self._on_race == "raise":
            self._unraised += fresh
            if may_raise and self._unraised:
                raise self._race_error()

    def _race_error(self) -> RaceError:
        races, self._unraised = self._unraised, []
        more = f" (and {len(races) - 1} more)" if len(races) > 1 else ""
        with naming(self._names(races)):
            return RaceError(f"{describe(races[0])}{more}", races)

    def _failed(self, error: Exception) -> None:
        """End the run after an error in the sanitizer; the user's program continues."""
        self.error = error
        if self._attachment is not None:
            self._attachment.unsubscribe()
        message = (
            f"the stream-race sanitizer is off: {type(error).__name__}: {error} in it. Your program continues "
            "unchanged; the races found so far are kept. Please report this"
        )
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors here; the user's program did nothing wrong
            _logger.warning(message, exc_info=error)

    def _names(self, races: Sequence[Race]) -> dict[StreamId, str]:
        """Return the names of streams in the user's program."""
        if self._watch is not None:
            self._devices = {line.id.device for line in self._watch.detector.clocks.lines}
        return names_of_streams(races=races if len(self._devices) == 1 else ())

    def findings(self, since: int = 0) -> list[Finding]:
        """Return the races from number `since` on, each with a fix that was checked on the log.

        The log is that of the current run; for races that it does not contain, that of the last run.
        """
        races = self.races[since:]
        log = self._watch.log if self._watch is not None else self._ended_log
        with naming(self._names(races)):
            found = findings_of(log.records(), races, captures=log.capture_records()) if races else []
            missing = [n for n, finding in enumerate(found) if finding.between is None]
            if missing and log is not self._ended_log:
                ended = self._ended_log
                earlier = findings_of(ended.records(), [races[n] for n in missing], captures=ended.capture_records())
                for n, finding in zip(missing, earlier, strict=True):
                    found[n] = finding
        return [replace(finding, value=self._values.get(finding.race.key)) for finding in found]

    def trace(self, name: str = "races") -> Trace:
        """Return the races as a Trace: it prints as a report, is displayed in a notebook, and has ``to_html``.

        Args:
            name: Name of the Trace.
        """
        from cudalens.api.run_info import races_trace  # imports the packages of analyses: at first use

        return races_trace(self, name)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``races`` and ``stacks``."""
        return self.frames_of(self.findings())

    def frames_of(self, findings: Sequence[Finding]) -> dict[str, pd.DataFrame]:
        """The frames ``races`` and ``stacks`` of some findings, with the names of streams in the user's program."""
        with naming(self._names([finding.race for finding in findings])):
            return races_frames(findings, stack_depth=self.stack_depth)


def sanitize(
    *,
    on_race: OnRace = "collect",
    detect: Iterable[RaceKind | str] | RaceKind | str | None = None,
    stack_depth: int = DEFAULT_STACK_DEPTH,
    suppress: Iterable[str] | str = (),
    suppress_file: str | PathLike[str] | None = None,
    explore: bool = False,
    explore_bytes: int = EXPLORE_BYTES,
) -> Sanitizer:
    """Check a block for stream races.

    For example::

        with cudalens.sanitize() as san:
            train_step()
        print(san.races)

    The arguments are those of `Sanitizer`.

    Raises:
        SanitizerError: An option is not valid.
        RaceError: Within the block, with ``on_race="raise"``: a race was found.
    """
    return Sanitizer(
        on_race=on_race,
        detect=detect,
        stack_depth=stack_depth,
        suppress=suppress,
        suppress_file=suppress_file,
        explore=explore,
        explore_bytes=explore_bytes,
    )


def running() -> list[Sanitizer]:
    """Return the sanitizers that are on, outermost first."""
    return list(_running)


def access(
    *, reads: Iterable[torch.Tensor] = (), writes: Iterable[torch.Tensor] = (), name: str = "annotated access"
) -> None:
    """Report an operation that torch does not observe, and that was just launched on the current stream.

    For kernels that bypass torch's dispatcher: CuPy, Numba, a C++ extension. If all tensors are on the host, the access
    is by the host itself. Returns at once if no sanitizer is on.

    Args:
        reads: Tensors whose elements it reads.
        writes: Tensors whose elements it writes.
        name: Its name in reports.

    Raises:
        TypeError: One of them is not a tensor.
    """
    if not _running:
        return
    pair = (_tensors(reads, "reads"), _tensors(writes, "writes"))
    for sanitizer in running():
        if sanitizer._watch is not None:
            sanitizer._watch.annotate(name, *pair)


def _tensors(values: Any, name: str) -> list[torch.Tensor]:
    found = [values] if isinstance(values, torch.Tensor) else list(values)
    for value in found:
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"access({name}=…) holds {type(value).__name__}; expected tensors.")
    return found


def _is_asked_for(kinds: frozenset[RaceKind], suppressions: Suppressions, race: Race) -> bool:
    return race.kind in kinds and not (len(suppressions) and suppressions.hides(race))


def _warn(race: Race, text: str) -> None:
    place: Any = race.second.place
    filename, line = getattr(place, "filename", "") or "<unknown>", getattr(place, "line", 0)
    warnings.warn_explicit(text, RaceWarning, filename, line)


# Collect the races that running sanitizers find during another run, such as a profile.


class RaceCollector:
    """Collects the races that running sanitizers find between `start` and `stop`; it starts and stops none of them.

    Attributes:
        judged: The operations that the outermost of them checked; None if none was on.
    """

    name = "sanitizer"

    def __init__(self) -> None:
        self._seen: list[tuple[Sanitizer, int, Status, Callable[[], int]]] = []
        self._findings: list[Finding] = []
        self.judged: Judged | None = None

    def start(self) -> None:
        """Record how many races there are already."""
        live = sys.modules.get("cudalens.sanitizer.live.sanitize")
        running = live.running() if live is not None else []
        self._seen = [(each, len(each.races), each.status(), each.count_streams()) for each in running]

    def stop(self) -> None:
        """Take the races found since."""
        for sanitizer, num_races, before, num_streams in self._seen[:1]:
            state = sanitizer.status()
            self._findings = sanitizer.findings(num_races)
            self.judged = Judged(
                max(state.num_launches - before.num_launches, 0),
                num_streams(),
                state.num_hidden,
                state.error,
                num_unseen_replays=max(state.num_unseen_replays - before.num_unseen_replays, 0),
            )

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``races`` and ``stacks``; empty if no sanitizer was on."""
        return self._seen[0][0].frames_of(self._findings) if self._findings else {}
