"""Write the report: the page, the data in it, and the content security policy that allows nothing else.

Layout of the file: head with a content security policy, a static part (verdict, picture, largest costs) that needs no
script, facts about the run, then data blocks that a browser does not execute, and one module script. The policy names
that script by its hash, so that markup that passed the escaping could still not run.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cudalens.analysis import units
from cudalens.frames import DeviceInfo, RunInfo, Trace, atomic_write
from cudalens.frames.files import check_target
from cudalens.views import assets
from cudalens.views.graphs import section as graphs
from cudalens.views.memory import map_payload
from cudalens.views.memory import section as memory
from cudalens.views.races import section as races
from cudalens.views.sections import page, trust
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.model import Code, Facts, Section, Text
from cudalens.views.sections.verdict import what
from cudalens.views.sections.write_html import nodes
from cudalens.views.timeline import payload

#: A report stays below it: details of the events are left out first, then the first events, of which it has a count.
MAX_BYTES: Final = 5_000_000
_EVENT_BYTES: Final = 3
_MAX_PART: Final = 120


def to_html(
    trace: Trace,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    against: Trace | None = None,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write `trace` as one HTML file that works offline, from ``file://``.

    Args:
        trace: What to show.
        path: The file to write, whole or not at all.
        title: Heading of the page; the run's name where None.
        against: Another run, which the flame graph compares with.
        max_bytes: Size that the file should not exceed: details of the events are left out first, then the first
            events, and the page says how many.

    Returns:
        `path`.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    heading = clean(f"{what(trace)} of {trace.info.name}" if title is None else title)
    target = check_target(path)  # before the work, not after it
    text = "".join(_page(trace, heading, against, max_bytes)).encode("utf-8", errors="replace")
    with atomic_write(target) as file:
        file.write(text)
    return target


def _page(trace: Trace, title: str, against: Trace | None, max_bytes: int) -> Iterator[str]:
    script = assets.module_text("report.js")
    blocks = list(_blocks(trace, against))
    head = _head(title, script)
    info = trace.info
    names = list(dict.fromkeys(device.name for device in info.devices))
    parts = [source_text(info), ", ".join(names[:3]), when(info.started_ns)]
    static = (
        f'<body>\n<div class="page">\n<header><h1>{escape(title)}</h1>'
        f'<span class="what">{escape(" · ".join(clean(part, _MAX_PART) for part in parts if part))}</span>'
        '<button id="cudalens-theme" type="button" hidden>Light / dark</button></header>\n'
        f'<main>\n<div id="cudalens-static">{"".join(page.static_parts(trace, has_style=False).values())}'
        "<noscript><p>Without JavaScript this page shows the picture and the largest costs only.</p></noscript></div>\n"
        f'<div id="cudalens-app" hidden></div>\n</main>\n<footer class="facts">{_about(trace)}</footer>\n</div>\n'
    )
    used = sum(map(len, (script, head, static, *blocks)))
    yield head
    yield static
    if memory.has_memory_map(trace):
        # Bytes for the memory map: what events at their usual size leave, a third of it all at least.
        room = max_bytes - used
        budget = _payload_budget(room)
        allocations = map_payload.pack(trace, max_bytes=max(budget - _EVENT_BYTES * len(trace.events), budget // 3))
        block = _data("cudalens-memory", _base64(allocations))
        used += len(block)
        yield block
    if not memory.is_alone(trace):
        yield _data("cudalens-payload", _base64(payload.pack(trace, max_bytes=_payload_budget(max_bytes - used))))
    yield from blocks
    yield f'<script type="module">{script}</script>\n</body>\n</html>\n'


def _payload_budget(room: int) -> int:
    """Return the bytes of payload that, base64 coded, fit into `room` bytes of the file."""
    return max(0, (room - 10_000) * 3 // 4)


def policy(script: str) -> str:
    """Return the content security policy of a page whose one script is `script`: no network, no other code."""
    digest = b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}' blob:",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _head(title: str, script: str) -> str:
    # The largest costs are a section of their own without scripts only.
    style = assets.style_text() + assets.style("costs") + assets.style("report")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(script), quote=True)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="cudalens">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
    )


def _about(trace: Trace) -> str:
    sections = (section(trace), trust.trust_section(trace), keys_section())
    return "".join(node.html() for section in sections if section is not None for node in nodes(section))


def _blocks(trace: Trace, against: Trace | None) -> Iterator[str]:
    config = {"facts": page.facts(trace, against), "versions": assets.library_versions()}
    yield _data("cudalens-facts", _json(config), kind="application/json")
    if races.has_races(trace):
        yield _data("cudalens-races", _base64(races.pack(trace)))
    if graphs.has_graphs(trace):
        yield _data("cudalens-graphs", _base64(graphs.pack(trace)))
    for name in _libraries(trace):
        yield _data(f"cudalens-{name}", _base64(assets.library(name)))


def _libraries(trace: Trace) -> list[str]:
    """Return what the page loads: tables of costs come with events, Plotly draws memory that has no map."""
    if memory.is_alone(trace):
        return []
    has_curve = len(trace.memory) > 0 and not memory.has_memory_map(trace)
    return [name for name in assets.LIBRARIES if has_curve or name != "plotly.js"]


def _data(name: str, content: str, kind: str = "text/plain") -> str:
    return f'<script type="{kind}" id="{name}">{content}</script>\n'


def _json(value: Any) -> str:
    """JSON that cannot end a script element."""
    return json.dumps(value, sort_keys=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


# Sections about the run at the end of a report: when, on what, with which versions and options; keyboard and mouse.

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
