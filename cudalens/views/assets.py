"""Read the JavaScript bundles, style sheets and libraries that views send to the browser.

The bundles in ``static/`` are built from the ES modules in ``js/`` by ``make js``. Style sheets are in ``css/``.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

#: Sections whose rows are stacked on narrow pages.
_STACKED: Final = frozenset(
    {
        *("findings", "graphs", "syncs", "memory", "compiled"),
        *("costs", "fit", "lines", "modules", "steps", "ranks"),
    }
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


# Colours: one palette for the canvas timeline, the inline SVG and the charts, in light and dark.

GROUP_OTHER: Final = "other"


@cache
def theme() -> dict[str, Any]:
    """Return the palette of ``css/theme.json``; treat it as read-only.

    The hues are Okabe and Ito's, which colour-blind readers can distinguish. The hue of an event shows its category,
    the shade its name. ``js/shared/theme.js`` reads the same file for the page.
    """
    text = files("cudalens.views").joinpath("css", "theme.json").read_text(encoding="utf-8")
    return json.loads(text)


def group_of(category: str, name: str = "") -> str:
    """Key of the colour group of an event: by its Kineto category, and whether a kernel communicates."""
    for group in theme()["groups"]:
        if category in group["cats"]:
            is_comm = group["key"] == "kernel" and name.startswith(tuple(theme()["comm_prefixes"]))
            return "comm" if is_comm else str(group["key"])
    return GROUP_OTHER


def color_of(category: str, name: str = "", mode: str = "light") -> str:
    """Fill colour of an event as ``#rrggbb``: its group's hue in the shade that its name picks."""
    key = group_of(category, name)
    base = next(group for group in theme()["groups"] if group["key"] == key)["color"]
    shades = theme()[mode]["shades"]
    return mixed(base, *shades[name_hash(name) % len(shades)])


def ink_on(fill: str) -> str:
    """Black or white, whichever has more contrast with `fill`; the contrast is 4.58 or more for any colour."""
    return "#000000" if (luminance(fill) + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


def name_hash(name: str) -> int:
    """Return a small stable hash of `name` (FNV-1a over UTF-16 units, 32 bits), the same as the page computes."""
    value = 0x811C9DC5
    units = name.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low | high << 8)) * 0x01000193) & 0xFFFFFFFF
    return value


def mixed(color: str, toward: str, share: float) -> str:
    """`color` with `share` (0 to 1) of `toward` mixed in, as ``#rrggbb``."""
    pairs = zip(_rgb(color), _rgb(toward), strict=True)
    # Halves go up, as in JavaScript's Math.round.
    return "#" + "".join(f"{int(a + (b - a) * share + 0.5):02x}" for a, b in pairs)


def luminance(color: str) -> float:
    """Relative luminance of ``#rrggbb`` by WCAG 2.2, 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours by WCAG 2.2, 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
