"""Format durations, sizes, shares, counts and places for people. All rounding for display is here.

Every function takes what the frames hold (ns, bytes, per cent) and gives short text with its unit.
"""

from __future__ import annotations

import re
from math import isnan
from typing import Final

_TIMES: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_UNKNOWN: Final = "-"
_NUMBER_WORDS: Final = {1: "once", 2: "twice"}

#: A place without a line, as `cudalens.frames.stacks.Place.text` writes it.
_IN_FUNCTION: Final = re.compile(r"^(?P<function>.+) \((?P<file>[^()]+)\)$", re.DOTALL)

#: From this factor on, a factor is easier to read than per cent, and "88 % faster" hides a factor of 8.
_LEAST_FACTOR: Final = 2.0


def duration(ns: float | None) -> str:
    """Return a duration in ns as three significant digits: ``1.23 ms``, ``45.6 µs``, ``780 ns``, ``2 min 5 s``."""
    if ns is None or isnan(ns):
        return _UNKNOWN
    if ns < 0:
        return f"-{duration(-ns)}"
    if ns >= 119.5e9:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        return f"{minutes} min {seconds} s"
    for scale, unit in _TIMES:
        # 999.6 µs reads 1.00 ms: the unit is chosen after rounding to three digits.
        if ns >= 0.9995 * scale:
            return f"{_digits(ns / scale, whole=unit == 'ns')} {unit}"
    return "0 ns" if ns == 0 else f"{ns:.2g} ns"


def size(num_bytes: float | None) -> str:
    """Return a size in bytes with binary units: ``1.50 GiB``, ``512 B``."""
    if num_bytes is None or isnan(num_bytes):
        return _UNKNOWN
    if num_bytes < 0:
        return f"-{size(-num_bytes)}"
    for scale, unit in _SIZES:
        if num_bytes >= 0.9995 * scale:
            return f"{_digits(num_bytes / scale)} {unit}"
    return f"{num_bytes:.0f} B"


def percent(value: float | None) -> str:
    """Return a share in per cent: ``42 %``, ``4.2 %``, ``<0.1 %``."""
    if value is None or isnan(value):
        return _UNKNOWN
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def number(value: float) -> str:
    """Three significant digits, without zeros at the end: ``0.333``, ``2.5``, ``260``, ``12,346``."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def interval(low: str, high: str) -> str:
    """Two formatted ends: ``51 to 53 %``, ``900 µs to 1.20 ms``; ``51 %`` if they read the same."""
    if low == high:
        return low
    digits, _, unit = low.rpartition(" ")
    return f"{digits if digits and unit == high.rpartition(' ')[2] else low} to {high}"


def is_factor(ratio: float) -> bool:
    """Return whether a change by `ratio` (after / before - 1) is written as a factor, not in per cent."""
    return ratio > -1 and not 1 / _LEAST_FACTOR < 1 + ratio < _LEAST_FACTOR


def time_change(ratio: float) -> str:
    """Return how a time changed, by after / before - 1: ``18 % slower``, ``2.5 times as long``, ``8 times as fast``."""
    if is_factor(ratio):
        return f"{number(1 + ratio)} times as long" if ratio > 0 else f"{number(1 / (1 + ratio))} times as fast"
    return f"{percent(100 * abs(ratio))} {'slower' if ratio > 0 else 'faster'}"


def than(change: str) -> str:
    """The word between `change`, as of `time_change`, and what it is compared with: ``slower than``, ``as long as``."""
    return "as" if " times as " in change else "than"


def signed_change(ratio: float) -> str:
    """Return a change in a table, by after / before - 1: ``+12 %``, ``-5.0 %``, ``2.5x``, ``1/8``."""
    if is_factor(ratio):
        return f"{number(1 + ratio)}x" if ratio > 0 else f"1/{number(1 / (1 + ratio))}"
    return signed_percent(100 * ratio)


def signed_percent(value: float) -> str:
    """Return a difference in per cent: ``+12 %``, ``-5.0 %``, ``0.0 %``."""
    sign = "+" if value > 0 else ""
    if value < 0:
        sign = "-"
    return sign + percent(abs(value))


def count(number: int) -> str:
    """Return a count with thousands separators: ``1,234``."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """``1 launch``, ``3 launches``, ``1,200 kernels``."""
    if number == 1:
        return f"{count(number)} {noun}"
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count(number)} {noun}{ending}"


def times(number: int) -> str:
    """``once``, ``twice``, ``514 times``."""
    return _NUMBER_WORDS.get(number, f"{count(number)} times")


def short_place(place: str) -> str:
    """Return a place in a file with the last two parts of its path: ``train/loop.py:7``, ``step (loop.py)``."""
    match = _IN_FUNCTION.match(place)
    if match is not None:
        return shorten(f"{match['function']} ({_end_of_path(match['file'], 1)})", 48)
    return shorten(_end_of_path(place, 2), 40)


def _end_of_path(path: str, num_parts: int) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-num_parts:])


def shorten(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, cut in the middle, where kernel names differ least."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) <= width:
        return line
    head = (width - 1) * 2 // 3
    return f"{line[:head]}…{line[len(line) - (width - 1 - head) :]}"


def _digits(value: float, *, whole: bool = False) -> str:
    """Three significant digits, or a whole number."""
    if whole or value >= 999.5:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".")
