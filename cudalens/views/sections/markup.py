"""Elements of a page as a tree: written as HTML for pages without a script, as JSON for the live page.

Tags and attribute names are ours. Every text is foreign and stays text in both forms: it is escaped here, and the page
puts it into text nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any, Final, TypeAlias

from cudalens.views.sections.clean_text import printable
from cudalens.views.sections.model import Picture

SVG: Final = "http://www.w3.org/2000/svg"

_VOID: Final = frozenset({"br", "hr"})
_PICTURE: Final = re.compile(r"<svg\b(?![^>]*aria-hidden).*?</svg>", re.DOTALL)
#: Style sheet below the pictures of a notebook: it shows them. Pages may write the style of an element anew.
UNTRUSTED: Final = '<style>[class^="cudalens-"] bdi[style^="display"] { display: contents !important }</style>'


@dataclass(frozen=True, slots=True)
class Node:
    """One element.

    Attributes:
        tag: Its name.
        attributes: By name; their values are escaped when written.
        children: Elements and texts, in order.
    """

    tag: str
    attributes: dict[str, str]
    children: tuple[Child, ...]

    def html(self) -> str:
        """Return the element as HTML text; every text in it escaped."""
        attributes = "".join(f' {name}="{escape(_shown(value))}"' for name, value in self.attributes.items())
        if self.tag in _VOID:
            return f"<{self.tag}{attributes}>"
        inner = "".join(child.html() if isinstance(child, Node) else escape(_shown(child)) for child in self.children)
        return f"<{self.tag}{attributes}>{inner}</{self.tag}>"

    def json(self) -> list[Any]:
        """Return the element as ``[tag, attributes, child, …]``, for JSON."""
        children = (child.json() if isinstance(child, Node) else _shown(child) for child in self.children)
        return [self.tag, {name: _shown(value) for name, value in self.attributes.items()}, *children]

    def text(self) -> str:
        """Return all text in it."""
        return "".join(child.text() if isinstance(child, Node) else child for child in self.children)


def _shown(text: str) -> str:
    """`text` without characters that a page would not show, or that change the direction of what follows."""
    return printable(text, keep="\n\t")


Child: TypeAlias = Node | str


def element(tag: str, *children: Child | None, **attributes: object) -> Node:
    """Return an element; children that are None are left out, and so are attributes that are None or False.

    Args:
        tag: Its name.
        *children: Elements and texts.
        **attributes: By name; a trailing ``_`` is dropped (``class_``), other underscores become hyphens; True is
            an attribute without a value.
    """
    known = {
        name.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for name, value in attributes.items()
        if value is not None and value is not False
    }
    return Node(tag, known, tuple(child for child in children if child is not None))


def svg(width: float, height: float, label: str, *children: Child | None, **attributes: object) -> Node:
    """Return an ``<svg>`` picture of its natural size, px, that scales down with its container.

    Args:
        width: Width, px.
        height: Height, px.
        label: Its alternative text; "" where the text beside it says the same.
        *children: What is drawn.
        **attributes: As of `element`.
    """
    look = {"role": "img"} if label else {"aria_hidden": "true"}
    node = element("svg", element("title", label) if label else None, *children, **look, **attributes)
    frame = {"xmlns": SVG, "viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return Node(node.tag, frame | node.attributes, node.children)


def for_notebooks(html: str) -> str:
    """`html` with its ``<svg>`` pictures hidden where a notebook is not trusted.

    Of a notebook that was not run here, in a fresh clone say, JupyterLab drops style sheets and the tags of pictures,
    but keeps the texts of the pictures, one after the other. So a picture hides itself, and a style sheet shows it
    again. The timeline is also an output of its own, which most pages show without trust.
    """
    hidden, count = _PICTURE.subn(r'<bdi style="display:none">\g<0></bdi>', html)
    return f"{hidden}{UNTRUSTED}" if count else html


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
