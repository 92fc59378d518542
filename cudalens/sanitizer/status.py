"""The state of a sanitizer, as numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass

from cudalens.sanitizer.text import counted, summarize


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a sanitizer.

    Attributes:
        is_on: Whether it is on.
        num_launches: Operations on streams that it checked in its current or last run.
        num_streams: Streams that these ran on.
        num_findings: Races, one per pair of places and kind.
        num_seen: Occurrences of races in total.
        num_hidden: Occurrences of races that are suppressed, or of a kind that is not selected.
        num_allocations: Live allocations that it tracks.
        num_ranges: Ranges of bytes with recorded accesses.
        num_accesses: Recorded accesses of these ranges.
        num_forgotten: Ranges that were dropped because one allocation had too many: races with these are missed.
        error: The error in the sanitizer that ended the run; None without one.
        missing: Callbacks that this torch lacks: what they would report is not seen.
        guessed: Triton kernels whose written arguments are unknown: all their arguments count as read.
        exported: Places that exported pinned memory to numpy or to another library: writes through it are not seen.
    """

    is_on: bool
    num_launches: int
    num_streams: int
    num_findings: int
    num_seen: int
    num_hidden: int
    num_allocations: int
    num_ranges: int
    num_accesses: int
    num_forgotten: int
    error: str | None
    missing: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    exported: tuple[str, ...] = ()

    def __str__(self) -> str:
        state = "on" if self.is_on else "off"
        if not self.is_on and self.error is not None:
            state = f"off, because of an error in it: {self.error}"
        lines = [
            f"stream-race sanitizer: {state}",
            f"  {counted(self.num_launches, 'operation')} on {counted(self.num_streams, 'stream')} checked, "
            f"{counted(self.num_allocations, 'allocation')} known",
            f"  {summarize(self.num_findings, self.num_seen)}",
        ]
        if self.num_hidden:
            lines.append(f"  {self.num_hidden:,} occurrences that are suppressed or of a kind that is not selected")
        if self.num_forgotten:
            lines.append(f"  {self.num_forgotten:,} ranges dropped: races with them are missed")
        if self.missing:
            lines.append(f"  this torch reports no: {', '.join(self.missing)}")
        if self.guessed:
            lines.append(
                f"  written arguments of these kernels are unknown, so all count as read: {', '.join(self.guessed)}; "
                "annotate with cudalens.sanitizer.access(writes=…)"
            )
        if self.exported:
            lines.append(
                "  pinned memory that numpy or another library can write, which is not seen: "
                f"{', '.join(self.exported)}; annotate with cudalens.sanitizer.access(writes=…)"
            )
        return "\n".join(lines)
