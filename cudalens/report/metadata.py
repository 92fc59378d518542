"""Sections about the run at the end of a report: when, on what, with which versions and options; keyboard and mouse."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from cudalens.analysis import units
from cudalens.frames import DeviceInfo, RunInfo, Trace
from cudalens.views.sections.model import Code, Facts, Section, Text

# Clocks that start with the machine or the file stay below it; the epoch's nanoseconds passed it in 2001.
_EPOCH_LIKE: Final = 10**18
_MAX_TEXT: Final = 2000
_MAX_CODE: Final = 20_000

SOURCES: Final = {"cuda": "recorded on a GPU", "cpu": "recorded on the CPU"}

_KEYS: Final = (
    ("W / S, + / -, Ctrl + wheel", "zoom in and out; after a click, the wheel alone does too"),
    ("A / D, drag, Home, End", "move through time"),
    ("arrows", "step from event to event and between lanes"),
    ("Enter, click", "select the event; in the table, select the name (with Ctrl, several)"),
    ("Shift + drag, drag in the ruler or in the memory curve", "select a range of time"),
    ("Shift + click", "measure the time from the selected event to this one"),
    ("L", "go from a launch to its kernel, and back"),
    ("Z, double click", "zoom to the event"),
    ("F", "show everything"),
    ("/, then Enter or N", "search by name, go to the next match"),
    ("C", "fold or unfold the lane"),
    ("P", "pin or unpin the lane"),
    ("drag a label", "move the lane"),
    ("Esc", "clear the selection"),
    ("arrows, Home, End in the list of races", "go from race to race"),
    ("arrows, Home, End in the graph tree", "go from row to row; right opens, left closes"),
    ("click, arrows, Page keys, Home, End in the curve of memory", "show what was there at that moment"),
    ("drag, Shift + arrows in the curve of memory", "show what was allocated in a range of time and not freed"),
    ("P in the curve of memory", "go to the peak"),
    ("arrows, Home, End, + / -, 0 in the pool map", "go from block to block, zoom, show all"),
    ("arrows, Enter, Esc in the call stacks", "go between stack frames, zoom, show all"),
)


def section(trace: Trace) -> Section:
    """Facts about the run, and its code, folded."""
    code = trace.info.code
    blocks = (Facts(tuple(facts_of(trace))), *((Code(code[:_MAX_CODE]),) if code else ()))
    return Section("about", title="About this run", blocks=blocks, is_open=False)


def keys_section() -> Section:
    """Return what keys and the mouse do on the page, folded."""
    keys = tuple((Text(key, "key"), text) for key, text in _KEYS)
    return Section("keys", title="Keyboard and mouse", blocks=(Facts(keys),), is_open=False)


def facts_of(trace: Trace) -> list[tuple[str, str]]:
    """Terms and texts about the run of `trace`; what is not known is left out."""
    info = trace.info
    facts = [
        ("Run", info.name),
        ("Source", source_text(info)),
        ("When", when(info.started_ns)),
        ("Devices", ", ".join(_device(device) for device in info.devices[:16])),
        ("Host", info.host or ""),
        ("Rank", "" if info.rank is None else f"{info.rank} of {info.world_size or 'an unknown number'}"),
        ("Steps", "" if info.num_steps is None else str(info.num_steps)),
        ("Events", units.count(len(trace))),
        ("Options", ", ".join(f"{key}={value}" for key, value in sorted(info.options.items()))),
        ("Versions", ", ".join(f"{key} {value}" for key, value in sorted(info.versions.items()))),
        ("Report by", f"cudalens {version('cudalens')}"),
    ]
    return [(term, text[:_MAX_TEXT]) for term, text in facts if text]


def source_text(info: RunInfo) -> str:
    """Where the times come from, in words."""
    if info.is_simulated:
        return f"simulated on a virtual {info.source.removeprefix('virtual:')}; times are modelled"
    if info.source.startswith("file:"):
        return f"read from a {info.source.removeprefix('file:')} file"
    return SOURCES.get(info.source, info.source)


def when(started_ns: int | None) -> str:
    """Return the start as UTC, or empty text where the trace's clock is not the epoch's."""
    if started_ns is None or not _EPOCH_LIKE <= started_ns < 10**19:
        return ""
    return f"{datetime.fromtimestamp(started_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _device(device: DeviceInfo) -> str:
    facts = [
        f"compute capability {device.capability}" if device.capability else "",
        units.size(device.total_memory_bytes) if device.total_memory_bytes else "",
        f"{device.num_sms} SMs" if device.num_sms else "",
        "modelled" if device.is_modelled else "",
    ]
    known = ", ".join(fact for fact in facts if fact)
    return f"{device.index}: {device.name}{f' ({known})' if known else ''}"
