"""The section model: what a view shows, as data that `write_text` and `write_html` turn into text, HTML and JSON.

A view is a function from a Trace to a `Section`. The model holds plain text and numbers that are already formatted; it
holds no markup. Escaping, alignment, shortening and line breaks are the writers' work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from cudalens.views.sections.markup import Node


Style = Literal["", "strong", "code", "key", "muted", "place", "badge", "line", "paragraph"]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text with a style.

    Attributes:
        text: The text.
        style: What it is. A ``line`` begins a line of its cell; a ``paragraph`` is below the cell in plain text.
        full: The text before it was shortened, shown where a pointer rests on it; "" for none.
        css: Class of its HTML element, in place of that of its style.
    """

    text: str
    style: Style = ""
    full: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture; plain text leaves it out.

    Attributes:
        svg: The ``<svg>`` element, with its alternative text in ``<title>``.
        is_wide: Whether it keeps its size and scrolls where there is less room.
    """

    svg: Node
    is_wide: bool = False


Part: TypeAlias = str | Text | Picture
Cell: TypeAlias = Part | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        key: What it holds, in a word: part of the class of its HTML cells. "" for no class.
        align: ``right`` for numbers.
        text_width: Characters of a cell in plain text; longer ones are cut in the middle. 0 leaves the column out.
        html_width: The same for HTML.
        is_below: In plain text, cells are on lines of their own below the row, after the heading.
    """

    title: str
    key: str = ""
    align: Literal["left", "right"] = "left"
    text_width: int = 80
    html_width: int = 400
    is_below: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        cells: One for each column.
        event: Row of ``trace.events`` that a page selects for it; None for none.
        depth: Its depth in a tree, where the rows are one: a page folds the rows below it. None for no tree.
    """

    cells: tuple[Cell, ...]
    event: int | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Its columns.
        rows: The rows to show, most important first; may be fewer than there are.
        num_rows: How many rows there are; None for those in `rows`.
        max_text: Rows in plain text; 0 leaves the table out.
        num_open: Rows in HTML before the rest is folded; None to fold none.
        more: What a row is called, and where all rows are: ``("place", "cudalens.analysis.syncs(trace)")``.
        key: What it holds, in a word: part of the class of the HTML table. "" for no class.
        is_stacked: Whether the cells of a row are below each other on narrow pages (``css/narrow.css``).
    """

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    num_rows: int | None = None
    max_text: int = 12
    num_open: int | None = None
    more: tuple[str, str] = ("row", "")
    key: str = ""
    is_stacked: bool = False

    def num_hidden(self, num_shown: int) -> int:
        """Rows beyond the first `num_shown`."""
        return (len(self.rows) if self.num_rows is None else self.num_rows) - min(num_shown, len(self.rows))


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms and their texts.

    Attributes:
        items: Pairs of a term and a text; plain text leaves out those without a text.
    """

    items: tuple[tuple[Cell, Cell], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence.

    Attributes:
        text: The sentence.
        kind: What it is, part of the class of its element: ``warning`` for what is wrong.
        is_in_text: Whether plain text has it, too.
    """

    text: Cell
    kind: str = "note"
    is_in_text: bool = True


@dataclass(frozen=True, slots=True)
class Items:
    """A list.

    Attributes:
        items: Its entries.
        title: A heading; "" for none.
        max_text: Entries in plain text; 0 leaves the list out.
    """

    items: tuple[Cell, ...]
    title: str = ""
    max_text: int = 40


@dataclass(frozen=True, slots=True)
class Code:
    """Program text, shown as it is.

    Attributes:
        text: The lines.
        language: ``diff`` marks added and removed lines.
    """

    text: str
    language: Literal["python", "diff"] = "python"


@dataclass(frozen=True, slots=True)
class Custom:
    """Content that has its own two forms, for what no other block can show.

    Attributes:
        node: The element.
        text: The lines of plain text.
    """

    node: Node
    text: str = ""


Block: TypeAlias = "Table | Facts | Note | Items | Code | Picture | Custom | Cards | Section"


@dataclass(frozen=True, slots=True)
class Cards:
    """Sections side by side.

    Attributes:
        sections: One for each card.
    """

    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """What one view shows.

    Attributes:
        name: Its name: the class ``cudalens-<name>`` in HTML, and the name of its style sheet.
        css: Beginning of the classes of what is in it.
        title: Its heading; "" for none.
        facts: Key facts, beside the heading.
        verdict: The answer in one line; "" for none.
        details: What supports the answer, in one line that is folded in HTML; "" for none.
        badge: What marks the answer: that times are simulated, say.
        notes: What went wrong, a line each.
        blocks: Its content, in order.
        is_open: Whether it is unfolded in HTML; None where it cannot be folded.
        is_in_text: Whether plain text has it, too.
    """

    name: str
    css: str = ""
    title: str = ""
    facts: str = ""
    verdict: str = ""
    details: str = ""
    badge: str = ""
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    is_open: bool | None = None
    is_in_text: bool = True


def parts_of(cell: Cell) -> tuple[Part, ...]:
    """Return the parts of a cell."""
    return cell if isinstance(cell, tuple) else (cell,)


def marked_code(text: str) -> tuple[Part, ...]:
    """`text` with what is between backticks as code; an odd backtick stays."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    return tuple(Text(piece, "code") if number % 2 else piece for number, piece in enumerate(pieces) if piece)
