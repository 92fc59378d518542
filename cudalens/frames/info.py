"""What ran, where, when and with which options: the `info` of a Trace; and the peak rates of its devices."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: Key of `RunInfo.extra` that holds the texts, as JSON: the text of each cell by ``In[7]``.
CELL_SOURCES_KEY: Final = "cell_sources"
#: Largest number of characters of one cell with its name, and of all cells of a run.
MAX_CELL: Final = 10_000
MAX_CELLS: Final = 40_000


def sources_to_extra(sources: dict[str, str]) -> dict[str, str]:
    """`sources` as an entry of `RunInfo.extra`, without the cells that are too many or too long."""
    kept = _within_limits({cell: text.encode("utf-8", "replace").decode() for cell, text in sources.items()})
    return {CELL_SOURCES_KEY: msgspec.json.encode(kept).decode()} if kept else {}


def cell_sources(info: RunInfo) -> dict[str, str]:
    """Return the text of each cell by ``In[7]``; empty if the run info has none, or if they are not valid."""
    try:
        return _within_limits(msgspec.json.decode(info.extra.get(CELL_SOURCES_KEY, "{}"), type=dict[str, str]))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):  # a file may hold any text
        return {}


def _within_limits(sources: dict[str, str]) -> dict[str, str]:
    """Return the first cells whose texts fit; a text without its end would show functions cut."""
    kept: dict[str, str] = {}
    room = MAX_CELLS
    for name, text in sources.items():
        if (size := len(name) + len(text)) <= min(room, MAX_CELL):
            kept[name] = text
            room -= size
    return kept


#: Key of `RunInfo.extra` that holds the `Threads` of a live run, as JSON.
THREADS_KEY: Final = "threads"


class Threads(msgspec.Struct, frozen=True):
    """Threads and CPUs of a run.

    Attributes:
        torch: ``torch.get_num_threads()`` at the end of the run.
        cpus: CPUs that the process may use: those of its affinity, limited by its control group.
    """

    torch: int
    cpus: int

    def to_extra(self) -> dict[str, str]:
        """As an entry of `RunInfo.extra`."""
        return {THREADS_KEY: msgspec.json.encode(self).decode()}


def threads_of(info: RunInfo) -> Threads | None:
    """Return the `Threads` of the run info; None if it has none, or if they are not valid."""
    try:
        return msgspec.json.decode(info.extra.get(THREADS_KEY, ""), type=Threads)
    except (msgspec.DecodeError, RecursionError):  # a file may hold any text
        return None


#: Larger numbers in files are not ranks: the largest jobs have about 100,000.
MAX_RANK: Final = (1 << 20) - 1
#: The kind of `Problem` of names that torch lost. It changes no number.
DAMAGED_NAMES: Final = "damaged name"
#: How a block of code ended.
Status = Literal["ok", "raised", "interrupted"]


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Damage in a file that a reader could work around.

    Attributes:
        kind: Short name of the damage ("event without ts", "negative dur").
        count: Number of occurrences.
        where: The first occurrence, in words.
    """

    kind: str
    count: int
    where: str


class DeviceInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device of a run.

    Attributes:
        index: Index in the program.
        name: Product name.
        capability: Compute capability ("9.0"), or None.
        total_memory_bytes: Size of its memory, or None.
        num_sms: Multiprocessors (compute units), or None.
        is_modelled: It is a virtual device.
    """

    index: int
    name: str
    capability: str | None = None
    total_memory_bytes: int | None = None
    num_sms: int | None = None
    is_modelled: bool = False


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the stream-race sanitizer checked in a run; without it, zero races means little.

    Attributes:
        num_operations: Operations on streams that it checked.
        num_streams: Streams that they ran on, or None if they were not counted.
        num_hidden: Occurrences of races that are suppressed or not detected by the chosen detectors.
        error: The error in the sanitizer that ended its checks, in one line, or None.
        num_unseen_replays: Replays of CUDA graphs that were captured before it was on, which it did not check.
    """

    num_operations: int
    num_streams: int | None = None
    num_hidden: int = 0
    error: str | None = None
    num_unseen_replays: int = 0


#: ``note``: no figure is affected; ``repaired``: was wrong and is corrected; ``partial``: wrong or lost.
Severity = Literal["note", "repaired", "partial"]


class TrustFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something in a trace that is impossible or missing.

    Attributes:
        rule: Short name of the rule that found it ("early kernels").
        severity: Its effect on the verdict.
        count: Number of rows or occurrences.
        what: What is wrong, in words with numbers.
        where: The first occurrence, in words.
        done: What was done about it, or what can be done.
        rows: The first few rows of the current events frame; ``cudalens.analysis.trust`` has them all.
    """

    rule: str
    severity: Severity
    count: int
    what: str
    where: str = ""
    done: str = ""
    rows: tuple[int, ...] = ()


class Trust(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a trace is complete and consistent.

    Attributes:
        verdict: ``clean``: no rule found anything that affects a figure; ``repaired``: what was wrong is corrected;
            ``partial``: something is wrong or lost and is not corrected.
        findings: What the rules found, worst first.
    """

    verdict: Literal["clean", "repaired", "partial"]
    findings: tuple[TrustFinding, ...] = ()


class Overhead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Overhead of the profiler, measured by running the code again without it.

    Attributes:
        profiled_ns: Time of a profiled run, ns. Of several runs: their median if `low_pct` is known, else the time of
            all of them, with one wait for the GPU at the end, divided by their number.
        unprofiled_ns: The same without the profiler; None if a run failed.
        num_profiled: Number of profiled runs.
        num_unprofiled: Number of successful runs without the profiler.
        is_warm: Whether the code had run before it was profiled; a first run takes longer for other reasons.
        error: The exception that ended the runs without the profiler, in one line, or None.
        low_pct: Lower end of the 95 % interval of `slowdown_pct`, from the times of single runs; None if there are too
            few, or if a GPU was at work, so that the host's time of a run is not the run's.
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
        """How much longer a profiled run took, per cent of a run without the profiler; None if unknown."""
        if not self.unprofiled_ns:
            return None
        return 100 * (self.profiled_ns - self.unprofiled_ns) / self.unprofiled_ns


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The earlier runs of a series, compared with this run.

    Attributes:
        value_ns: The compared value of this run: the mean length of its steps, or of the measured window if it has no
            steps, ns.
        median_ns: Median of the earlier runs.
        low_ns: Lower end of the band of the earlier runs: three standard deviations by their median absolute deviation,
            at least a twentieth of the median, and wide enough for all of them.
        high_ns: Its upper end.
        num_runs: Number of earlier runs.
        is_of_steps: Whether steps are compared.
        has_other_code: Whether the cell's source differs from that of the last earlier run.
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
        """Whether this run lies in the band."""
        return self.low_ns <= self.value_ns <= self.high_ns

    @property
    def change_pct(self) -> float:
        """How much longer this run is than the median, per cent of the median; negative if it is shorter."""
        return 100 * (self.value_ns - self.median_ns) / self.median_ns if self.median_ns else 0.0


#: Digits of a plausible duration in ns.
_MAX_DIGITS: Final = 19
#: Key of `RunInfo.extra`: real time that a simulated run took between calls of torch, ns, which its times leave out.
HOST_KEY: Final = "host_not_modelled_ns"
#: Key of `RunInfo.extra`: the 80 % band of the modelled kernel times, as JSON: ``[low, high, unmeasured_share]``.
BAND_KEY: Final = "kernel_time_band"


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
        options: The options of the run.
        versions: Versions of the software that made it ("torch", "cuda_runtime", …).
        devices: Devices of the run.
        host: Host name and processor, where known.
        rank: Rank in a distributed job, or None.
        world_size: Number of ranks of that job, or None.
        num_steps: Number of measured repeats, or None.
        code: Source of the profiled cell, or None.
        problems: Damage that the reader worked around.
        judged: What the stream-race sanitizer checked; None if it was off.
        trust: Whether the trace is complete and consistent; None if it was not checked.
        baseline: The earlier runs of its series; None if there are too few, or if it was not compared.
        overhead: Overhead of the profiler; None if it was not measured.
        extra: Other contents of a file, as JSON text by name, such as a snapshot's ``allocator_settings``.
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
    #: Saved files call it "standing".
    baseline: Baseline | None = msgspec.field(default=None, name="standing")
    extra: dict[str, str] = {}

    @property
    def is_simulated(self) -> bool:
        """Whether the times are modelled, not measured."""
        return self.source.startswith("virtual:")

    @property
    def host_not_modelled_ns(self) -> int:
        """The real time between calls of torch that a simulated run leaves out, ns; 0 if it was short or measured."""
        text = self.extra.get(HOST_KEY, "")
        return int(text) if text.isdecimal() and len(text) < _MAX_DIGITS else 0

    @property
    def kernel_time_band(self) -> tuple[float, float, float] | None:
        """The 80 % band of all kernel times of a simulated run, as `cudalens.gpus.predict.Band` defines it."""
        try:
            low, high, unmeasured = msgspec.json.decode(self.extra.get(BAND_KEY, ""), type=tuple[float, float, float])
        except msgspec.DecodeError:  # there is none, or a file has something else
            return None
        is_band = 0 < low <= 1 <= high < 1e6 and 0 <= unmeasured <= 1
        return (low, high, unmeasured) if is_band and self.is_simulated else None

    def replace(self, **changes: object) -> RunInfo:
        """Return a copy with `changes` applied."""
        return msgspec.structs.replace(self, **changes)


# `Ceilings`: the peak rates of a device, measured or by its data sheet, for rooflines.

#: Key of ``trace.info.extra`` that holds them, as JSON.
CEILINGS_KEY: Final = "ceilings"


class Ceilings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The peak rates of a device.

    Attributes:
        device: Its name.
        source: Source of the numbers: ``measured``, or ``spec:<name>`` for a data sheet.
        date: Day of the measurement (ISO 8601), or None.
        driver: Version of the driver at that time, or None.
        copy_bytes_per_s: Device memory read and written by a copy, both counted.
        read_bytes_per_s: Device memory read.
        write_bytes_per_s: Device memory written.
        flops_per_s: Floating-point operations of matrix products by dtype: ``float64``, ``float32``, ``tf32``,
            ``float16``, ``bfloat16``, ``float8``; a multiply-add counts as two.
    """

    device: str
    source: str
    date: str | None = None
    driver: str | None = None
    copy_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = {}

    @property
    def is_measured(self) -> bool:
        """Whether they are measured."""
        return self.source == "measured"

    def to_json(self) -> str:
        """As JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Ceilings:
        """From the text that `to_json` returned.

        Raises:
            msgspec.ValidationError: The text is something else.
        """
        return msgspec.json.decode(text, type=cls)
