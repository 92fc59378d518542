"""Small bars for the cells of tables."""

from __future__ import annotations

from typing import Final

from cudalens.views.sections.markup import element, svg
from cudalens.views.sections.model import Picture

ORANGE: Final = "#d55e00"
_WIDTH: Final = 72
_HEIGHT: Final = 10
_SIGNED_WIDTH: Final = 120


def bar(label: str, share: float, inner: float | None = None) -> Picture:
    """Return a bar.

    Args:
        label: Its alternative text; "" where the text beside it says the same.
        share: Its length as a share of the largest one, 0 to 1.
        inner: Length of the part in full colour, the rest being pale; None to draw the whole width as background.
    """
    box = {"x": 0, "y": 0, "height": _HEIGHT, "rx": 2}
    width = f"{max(_WIDTH * share, 1):.1f}"
    if inner is None:
        pale = element("rect", width=_WIDTH, fill="currentColor", fill_opacity="0.12", **box)
        full = element("rect", width=width, fill=ORANGE, **box)
        return Picture(svg(_WIDTH, _HEIGHT, label, pale, full))
    pale = element("rect", width=width, fill=ORANGE, fill_opacity="0.35", **box)
    solid = element("rect", width=f"{_WIDTH * inner:.1f}", fill=ORANGE, **box) if inner else None
    return Picture(svg(_WIDTH, _HEIGHT, label, pale, solid))


def signed_bar(label: str, share: float, color: str) -> Picture:
    """Return a bar from the middle, to the right where `share` (-1 to 1) is positive, else to the left."""
    middle = _SIGNED_WIDTH / 2
    width = max(middle * abs(share), 1.0) if share else 0.0
    box = element("rect", x=f"{middle - width * (share < 0):.1f}", y=1, width=f"{width:.1f}", height=10, fill=color)
    axis = element("path", d=f"M{middle:g} 0V12", stroke="currentColor", stroke_opacity=".4")
    return Picture(svg(_SIGNED_WIDTH, 12, label, box, axis))
