"""Badges that a display must carry: that its times are simulated, or that the trace is repaired or partial."""

from __future__ import annotations

from cudalens.frames import RunInfo
from cudalens.gpus.error_bands import Band


def simulated(info: RunInfo) -> str | None:
    """``simulated: <spec>`` for times of a model, else None."""
    return f"simulated: {info.source.removeprefix('virtual:')}" if info.is_simulated else None


def band_words(info: RunInfo) -> str:
    """Return ``modelled kernel times ± 9 %``: the 80 % band of a simulated run's kernels, or "" where it is unknown."""
    band = info.kernel_time_band
    return f"modelled kernel times {Band(*band).words}" if band else ""


def trusted(info: RunInfo) -> str | None:
    """``partial trace`` or ``repaired trace`` where a check found something, else None."""
    return None if info.trust is None or info.trust.verdict == "clean" else f"{info.trust.verdict} trace"


def badges(info: RunInfo) -> str | None:
    """Return all badges of a run in one text, or None."""
    return " · ".join(filter(None, (simulated(info), trusted(info)))) or None
