"""Read the JavaScript bundles, style sheets and libraries that views send to the browser.

The bundles in ``static/`` are built from the ES modules in ``js/`` by ``make js``. Style sheets are in ``css/``.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Final

PLOTLY_VERSION: Final = "4.1.1"


@cache
def module_text(entry: str) -> str:
    """The bundle ``static/<entry>``: one ES module without imports.

    Args:
        entry: ``widget.js``, ``report.js`` or ``gauges.js``.
    """
    return _read("static", entry)


@cache
def style_text() -> str:
    """The style sheet of the app."""
    shared = findings_style_text() + races_style_text() + graphs_style_text() + syncs_style_text() + memory_style_text()
    return _read("css", "app.css") + _read("css", "memory_map.css") + shared


@cache
def races_style_text() -> str:
    """The style sheet of the race diff alone, also used on pages without the app."""
    return _read("css", "races.css")


@cache
def devices_style_text() -> str:
    """The style sheet of the GPU cards, used on pages without the app."""
    return _read("css", "devices.css")


@cache
def graphs_style_text() -> str:
    """The style sheet of the graph tree alone, also used on pages without the app."""
    return _read("css", "graphs.css")


@cache
def syncs_style_text() -> str:
    """The style sheet of the table of waits alone, also used on pages without the app."""
    return _read("css", "syncs.css")


@cache
def findings_style_text() -> str:
    """The style sheet of the list of findings alone, also used on pages without the app."""
    return _read("css", "findings.css")


@cache
def memory_style_text() -> str:
    """The style sheet of the static picture of a device's memory, also used on pages without the app."""
    return _read("css", "memory_still.css")


@cache
def gauges_style_text() -> str:
    """The style sheet of the live gauges and of the picture that a notebook saves of them."""
    return _read("css", "gauges.css")


@cache
def report_style_text() -> str:
    """The style sheet of the report's page around the app."""
    return _read("css", "report.css")


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
    """Versions that identify libraries which the page has already loaded."""
    return {"datatables": version("itables"), "plotly": PLOTLY_VERSION}


_LIBRARIES: Final = {
    "datatables.js": ("itables", ("html", "dt_bundle.js")),
    "datatables.css": ("itables", ("html", "dt_bundle.css")),
    "plotly.js": ("cudalens.views", ("static", "vendor", "plotly-basic.min.js")),
}
LIBRARIES: Final = tuple(_LIBRARIES)


def _read(folder: str, name: str) -> str:
    return files("cudalens.views").joinpath(folder, name).read_text(encoding="utf-8")
