"""What ran, where, when and with which options: the `info` of a Trace."""

from __future__ import annotations

from typing import Literal

import msgspec

#: How a block of code ended.
Status = Literal["ok", "raised", "interrupted"]


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Damage that a reader found and survived.

    Attributes:
        kind: Short name of the damage ("event without ts", "negative dur").
        count: How often.
        where: The first place, in words.
    """

    kind: str
    count: int
    where: str


class DeviceInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device that a Trace mentions.

    Attributes:
        index: Index as the program saw it.
        name: Product name.
        capability: Compute capability ("9.0"), or None.
        total_memory_bytes: Size of its memory, or None.
        num_sms: Multiprocessors (compute units), or None.
        is_modelled: No such device was there: a virtual one stood in for it.
    """

    index: int
    name: str
    capability: str | None = None
    total_memory_bytes: int | None = None
    num_sms: int | None = None
    is_modelled: bool = False


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the stream-race sanitizer looked at in a run: that no race was found says little without it.

    Attributes:
        num_operations: Operations on streams that it judged.
        num_streams: Streams that they ran on, or None where nobody counted.
        num_hidden: How often a race was seen that is suppressed or not looked for.
        error: What went wrong in it and ended its watch, in one line; None while all was well.
    """

    num_operations: int
    num_streams: int | None = None
    num_hidden: int = 0
    error: str | None = None


#: ``note``: worth knowing, no figure suffers; ``repaired``: was wrong, is right now; ``partial``: wrong or lost.
Severity = Literal["note", "repaired", "partial"]


class TrustFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something in a trace that cannot be so, or that is not there.

    Attributes:
        rule: Short name of the rule that found it ("early kernels").
        severity: What it does to the verdict.
        count: How many rows, or how often.
        what: What is wrong, in words with numbers.
        where: The first place, in words.
        done: What was done about it, or what can be done.
        rows: The first few rows of the events frame, as it stands now; ``cudalens.analysis.trust`` has them all.
    """

    rule: str
    severity: Severity
    count: int
    what: str
    where: str = ""
    done: str = ""
    rows: tuple[int, ...] = ()


class Trust(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a trace can be trusted.

    Attributes:
        verdict: ``clean``: no rule found anything that matters; ``repaired``: what was wrong has been put right;
            ``partial``: something is wrong or lost that cannot be put right, or has not been.
        findings: What the rules found, the worst first.
    """

    verdict: Literal["clean", "repaired", "partial"]
    findings: tuple[TrustFinding, ...] = ()


class Overhead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What profiling cost the code that was profiled: it was run again without the profiler.

    Attributes:
        profiled_ns: Time of a profiled run, ns; of several, all of it with one wait for the GPU at the end, divided, or
            where `low_pct` is known their median.
        unprofiled_ns: The same without the profiler; None where a run failed.
        num_profiled: Number of profiled runs.
        num_unprofiled: Number of runs without the profiler that ended well.
        is_warm: Whether the code had run before it was profiled: a first run costs more for other reasons.
        error: The exception that ended the runs without the profiler, in one line, or None.
        low_pct: Lower end of the 95 % interval of `slowdown_pct`, from the times of single runs; None where there are
            too few, or where a GPU was at work and the host's time of a run is not the run's.
        high_pct: Upper end of it.
    """

    profiled_ns: int
    unprofiled_ns: int | None
    num_profiled: int = 1
    num_unprofiled: int = 0
    is_warm: bool = True
    error: str | None = None
    low_pct: float | None = None
    high_pct: float | None = None

    @property
    def slowdown_pct(self) -> float | None:
        """By how much a profiled run took longer, per cent of a run without the profiler; None where not known."""
        if not self.unprofiled_ns:
            return None
        return 100 * (self.profiled_ns - self.unprofiled_ns) / self.unprofiled_ns


class Standing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a run compares with earlier ones of its series.

    Attributes:
        value_ns: What is compared: the mean length of its steps, or the measured window without steps, ns.
        median_ns: Median of the earlier runs.
        low_ns: Lower end of the band that they lie in: three standard deviations by their median absolute deviation, a
            twentieth of the median at least, and every one of them.
        high_ns: Its upper end.
        num_runs: How many earlier runs these are.
        is_of_steps: Whether steps are compared.
        has_other_code: Whether the cell's source differs from that of the last one.
    """

    value_ns: int
    median_ns: int
    low_ns: int
    high_ns: int
    num_runs: int
    is_of_steps: bool = False
    has_other_code: bool = False

    @property
    def is_within(self) -> bool:
        """Whether it lies in the band, so that nothing can be said."""
        return self.low_ns <= self.value_ns <= self.high_ns

    @property
    def change_pct(self) -> float:
        """By how much it is longer than the median, per cent of that; negative where it is shorter."""
        return 100 * (self.value_ns - self.median_ns) / self.median_ns if self.median_ns else 0.0


class RunInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What ran, where, when, with which versions and options.

    Attributes:
        name: Name of the run ("cell-12", a file's name).
        source: ``cuda``, ``cpu``, ``virtual:<spec>`` or ``file:<format>``.
        started_ns: Start of the measured window on the events' clock, or None.
        ended_ns: End of that window, or None.
        status: How the profiled code ended.
        error: Its exception in one line, or None.
        build_s: Seconds from raw results (or an open file) to frames.
        start_s: Seconds that starting the collectors took, or None.
        stop_s: Seconds that stopping the collectors took, or None.
        options: The options that the run was made with.
        versions: Versions of what made it ("torch", "cuda_runtime", …).
        devices: Devices that the run mentions.
        host: Host name and processor, where known.
        rank: Rank in a distributed job, or None.
        world_size: Number of ranks of that job, or None.
        num_steps: Number of measured repeats, or None.
        code: Source of the profiled cell, or None.
        problems: Damage that the reader survived.
        judged: What the stream-race sanitizer looked at; None where none was on.
        trust: How far the trace can be trusted; None where nobody has checked it.
        standing: How it compares with earlier runs; None where there are too few, or nobody has compared it.
        overhead: What profiling cost the code, measured by running it again without; None where it was not measured.
        extra: What a file told that no frame holds, as JSON text by name (a snapshot's ``allocator_settings``, say).
    """

    name: str
    source: str
    started_ns: int | None = None
    ended_ns: int | None = None
    status: Status = "ok"
    error: str | None = None
    build_s: float = 0.0
    start_s: float | None = None
    stop_s: float | None = None
    options: dict[str, str | int | float | bool | None] = {}
    versions: dict[str, str] = {}
    devices: tuple[DeviceInfo, ...] = ()
    host: str | None = None
    rank: int | None = None
    world_size: int | None = None
    num_steps: int | None = None
    code: str | None = None
    problems: tuple[Problem, ...] = ()
    judged: Judged | None = None
    trust: Trust | None = None
    overhead: Overhead | None = None
    standing: Standing | None = None
    extra: dict[str, str] = {}

    @property
    def is_simulated(self) -> bool:
        """Whether the times are a model's, not a clock's."""
        return self.source.startswith("virtual:")

    def replace(self, **changes: object) -> RunInfo:
        """A copy with `changes` applied."""
        return msgspec.structs.replace(self, **changes)
