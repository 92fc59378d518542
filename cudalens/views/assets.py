"""The JavaScript and style that views send: our modules as one text, and the libraries that they need, compressed.

The files in ``static/`` are ES modules that a browser can load one by one. A widget and a report need one text, so
the modules are joined in order of their imports: relative imports and the ``export`` of inner modules are taken out,
which needs top-level names to be unique across the files.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Final

_IMPORT: Final = re.compile(r'^import\s[^;]*?from\s+"\./([\w.]+)";[ \t]*\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?!default\b)(?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)
_STRAY: Final = re.compile(r"^(?:import\b|export\b)", re.MULTILINE)

PLOTLY_VERSION: Final = "4.1.1"


@cache
def module_text(entry: str) -> str:
    """The module ``static/<entry>`` with all that it imports, as one module text; only its own exports remain.

    Raises:
        ValueError: A file imports or exports in a way that joining does not understand, or imports form a circle.
    """
    parts: list[str] = []
    _collect(entry, parts, seen=set(), above=())
    return "\n".join([*parts[:-1], _inner(entry, parts[-1], is_entry=True)])


@cache
def style_text() -> str:
    """The style sheet of the app."""
    shared = style("findings") + races_style_text() + graphs_style_text() + style("syncs") + memory_style_text()
    return _static("app.css") + _static("memory_map.css") + shared


@cache
def races_style_text() -> str:
    """The style sheet of the race diff alone, which pages without the app show as well."""
    return _static("races.css")


@cache
def devices_style_text() -> str:
    """The style sheet of the cards of GPUs, which stand in pages without the app."""
    return _static("devices.css")


@cache
def graphs_style_text() -> str:
    """The style sheet of the graph tree alone, likewise."""
    return _static("graphs.css")


@cache
def style(name: str) -> str:
    """The style sheet of the section called `name`, for pages without the app."""
    return _static(f"{name}.css")


@cache
def memory_style_text() -> str:
    """The style sheet of the still picture of a device's memory, likewise."""
    return _static("memory_still.css")


@cache
def gauges_style_text() -> str:
    """The style sheet of the live gauges, and of the picture that is saved of them."""
    return _static("gauges.css")


@cache
def report_style_text() -> str:
    """The style sheet of the report's page around the app."""
    return _static("report.css")


@cache
def library(name: str) -> bytes:
    """A library that views load on demand, gzipped (deterministic, no time stamp).

    Args:
        name: ``datatables.js``, ``datatables.css`` (both from the installed package itables) or ``plotly.js``.

    Raises:
        KeyError: There is no such library.
    """
    package, path = _LIBRARIES[name]
    data = files(package).joinpath(*path).read_bytes()
    return gzip.compress(data, compresslevel=9, mtime=0)


def library_versions() -> dict[str, str]:
    """Versions by which a page tells libraries apart that are already loaded."""
    return {"datatables": version("itables"), "plotly": PLOTLY_VERSION}


_LIBRARIES: Final = {
    "datatables.js": ("itables", ("html", "dt_bundle.js")),
    "datatables.css": ("itables", ("html", "dt_bundle.css")),
    "plotly.js": ("cudalens.views", ("static", "vendor", "plotly-basic.min.js")),
}
LIBRARIES: Final = tuple(_LIBRARIES)


def _static(name: str) -> str:
    return files("cudalens.views").joinpath("static", name).read_text(encoding="utf-8")


def _collect(name: str, parts: list[str], seen: set[str], above: tuple[str, ...]) -> None:
    """Append the text of `name` to `parts`, after those of all that it imports; each file once."""
    if name in above:
        raise ValueError(f"static/{name} imports itself by way of {' → '.join(above)}")
    if name in seen:
        return
    seen.add(name)
    text = _static(name)
    for imported in _IMPORT.findall(text):
        _collect(imported, parts, seen, (*above, name))
    without = _IMPORT.sub("", text)
    parts.append(without if not above else _inner(name, without, is_entry=False))


def _inner(name: str, text: str, *, is_entry: bool) -> str:
    """`text` of an inner module without its exports; both kinds are checked for what joining would break."""
    joined = text if is_entry else _EXPORT.sub("", text)
    stray = re.search(r"^import\b.*", joined, re.MULTILINE) if is_entry else _STRAY.search(joined)
    if stray:
        raise ValueError(f"static/{name}: joining does not understand {stray.group()!r}")
    return joined
