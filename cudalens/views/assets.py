"""Read the JavaScript bundles, style sheets and libraries that views send to the browser.

The bundles in ``static/`` are built from the ES modules in ``js/`` by ``make js``. Style sheets are in ``css/``.
"""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Final

#: Sections whose rows are stacked on narrow pages.
_STACKED: Final = frozenset(
    {"findings", "syncs", "memory", "compare", "compiled", "costs", "fit", "lines", "modules", "steps", "ranks"}
)

PLOTLY_VERSION: Final = "4.1.1"


@cache
def module_text(entry: str) -> str:
    """Return the bundle ``static/<entry>``: one ES module without imports.

    Args:
        entry: ``loader.js``, ``widget.js``, ``report.js``, ``gauges.js`` or ``watch.js``.
    """
    return _read("static", entry)


@cache
def module_id(entry: str) -> str:
    """Return a text that differs between two versions of the bundle ``static/<entry>``."""
    return sha256(module_text(entry).encode()).hexdigest()[:16]


@cache
def style_text() -> str:
    """Return the style sheet of the app."""
    return "".join(
        map(style, ("app", "memory_map", "findings", "races", "graphs", "syncs", "memory", "lines", "modules", "steps"))
    )


@cache
def style(name: str) -> str:
    """Return the style sheet ``css/<name>.css``: of one section, of the ``app`` or of the ``report``."""
    text = _read("css", f"{name}.css")
    return text + _read("css", "narrow.css").replace("NAME", name) if name in _STACKED else text


@cache
def library(name: str) -> bytes:
    """Return a library that views load on demand, gzipped (deterministic, no time stamp).

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
