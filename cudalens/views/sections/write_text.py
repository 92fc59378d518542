"""Write a section as plain text of about 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Final

from cudalens.analysis import units
from cudalens.views.sections import model
from cudalens.views.sections.clean_text import clean_lines
from cudalens.views.sections.model import parts_of

WIDTH: Final = 100
#: Of what is below a row that begins with a name.
_INDENT: Final = 2
_MAX_BELOW: Final = 320
_MAX_NOTE: Final = 1000


def to_text(section: model.Section | None) -> str:
    """`section` as text without a trailing line break; "" for None."""
    return "" if section is None else "\n".join(map(clean_lines, _lines(section)))


def cell_text(cell: model.Cell) -> str:
    """Return the text of a cell on one line, without its paragraphs."""
    return "".join(_text(part) for part in parts_of(cell) if not _is_paragraph(part))


def aligned(columns: Sequence[model.Column], rows: Sequence[model.Row], *, has_heads: bool = True) -> list[str]:
    """The rows as lines: texts to the left, numbers to the right, two spaces between, a rule below the headings."""
    shown = [column for column in columns if column.text_width and not column.is_below]
    heads = [column.title for column in shown]
    cells = [list(_table_lines(columns, row)) for row in rows]
    widths = [max(map(len, texts)) for texts in zip(heads, *(line for lines in cells for line in lines), strict=True)]
    is_left = [column.align == "left" for column in shown]
    has_number_first = len(widths) > 1 and not is_left[0]
    body = []
    for row, lines in zip(rows, cells, strict=True):
        body += [_line(texts, widths, is_left) for texts in lines]
        body += _below(columns, row, widths[0] + 2 if has_number_first else _INDENT)
    head = _line(heads, widths, is_left)
    rule = "─" * max(len(head), *(len(_line(texts, widths, is_left)) for lines in cells for texts in lines), 0)
    return [head, rule, *body] if has_heads else body


def _table_lines(columns: Sequence[model.Column], row: model.Row) -> Iterator[Sequence[str]]:
    """Yield the texts of a row that are in columns, line by line."""
    cells = []
    for column, cell in zip(columns, row.cells, strict=True):
        if column.text_width and not column.is_below:
            lines = [""]
            for part in parts_of(cell):
                if isinstance(part, model.Text) and part.style == "line":
                    lines.append(part.text)
                elif not _is_paragraph(part):
                    lines[-1] += _text(part)
            cells.append([units.shorten(line, column.text_width) for line in lines if line] or [""])
    yield from zip_longest(*cells, fillvalue="")


def _lines(section: model.Section) -> Iterator[str]:
    if not section.is_in_text:
        return
    if section.verdict:
        yield f"[{section.badge}] {section.verdict}" if section.badge else section.verdict
    if section.details:
        yield f"  {section.details}"
    if section.title:
        badge = f" ({section.badge})" if section.badge and not section.verdict else ""
        yield f"{section.title}{badge}{f': {section.facts}' if section.facts else ''}"
    yield from (f"  ! {note}" for note in section.notes)
    is_first = not section.verdict
    for block in section.blocks:
        lines = list(_block(block))
        if len(lines) > 1 and isinstance(block, model.Section) and not is_first:
            yield ""
        yield from lines
        is_first = is_first and not lines


@singledispatch
def _block(block: Any) -> Iterator[str]:
    """Yield the lines of one block; a picture has none."""
    yield from ()


_block.register(model.Section)(_lines)


@_block.register
def _(block: model.Cards) -> Iterator[str]:
    for section in block.sections:
        yield from ("", *_lines(section))


@_block.register
def _(block: model.Table) -> Iterator[str]:
    if not block.max_text:
        return
    shown = block.rows[: block.max_text]
    yield from aligned(block.columns, shown)
    if hidden := block.num_hidden(len(shown)):
        yield more_text(block, hidden)


@_block.register
def _(block: model.Facts) -> Iterator[str]:
    pairs = [(cell_text(term), text) for term, cell in block.items if (text := cell_text(cell))]
    width = max((len(term) for term, _ in pairs), default=0)
    yield from (f"  {term:<{width}}  {text}" for term, text in pairs)


@_block.register
def _(block: model.Note) -> Iterator[str]:
    if block.is_in_text:
        mark = "  ! " if block.kind == "warning" else ""
        yield from _wrapped(f"{mark}{cell_text(block.text)}")


@_block.register
def _(block: model.Items) -> Iterator[str]:
    if not block.max_text:
        return
    yield from ([block.title] if block.title else [])
    for item in block.items[: block.max_text]:
        yield from _wrapped(f"  {cell_text(item)}", "    ")
    if (hidden := len(block.items) - block.max_text) > 0:
        yield f"  and {units.count(hidden)} more"


@_block.register
def _(block: model.Code) -> Iterator[str]:
    yield from (f"  {line}" for line in block.text.splitlines())


@_block.register
def _(block: model.Custom) -> Iterator[str]:
    yield from block.text.splitlines()


def _wrapped(text: str, indent: str = "") -> list[str]:
    shown = units.shorten(text.rstrip(), _MAX_NOTE)
    margin = " " * (len(text) - len(text.lstrip(" ")))
    return wrap(
        shown, WIDTH, initial_indent=margin, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def more_text(table: model.Table, hidden: int) -> str:
    """That `hidden` rows are not shown, and where they are."""
    noun, where = table.more
    return f"and {units.plural(hidden, f'other {noun}')}{f': {where}' if where else ''}"


def _line(texts: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    cells = (t.ljust(w) if left else t.rjust(w) for t, w, left in zip(texts, widths, is_left, strict=True))
    return "  ".join(cells).rstrip()


def _below(columns: Sequence[model.Column], row: model.Row, indent: int) -> Iterator[str]:
    """Yield the paragraphs of a row, and the cells of columns that are below it."""
    margin = " " * indent
    for column, cell in zip(columns, row.cells, strict=True):
        texts = [_text(part) for part in parts_of(cell) if _is_paragraph(part)]
        if column.is_below and (inline := cell_text(cell)):
            texts.append(f"{column.title}: {inline}")
        for text in texts:
            lines = wrap(units.shorten(text, _MAX_BELOW), WIDTH - indent, break_on_hyphens=False)
            yield from (f"{margin}{line}" for line in lines)


def _is_paragraph(part: object) -> bool:
    return isinstance(part, model.Text) and part.style == "paragraph"


def _text(part: str | model.Text | model.Picture) -> str:
    if isinstance(part, model.Picture):
        return ""
    return part.text if isinstance(part, model.Text) else part
