"""Write a section as HTML that needs no script, and as the tree of elements that the page builds from JSON.

Both come from one tree of `markup` elements, which escapes every text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any, Final

from cudalens.analysis import units
from cudalens.views import assets
from cudalens.views.sections import model
from cudalens.views.sections.markup import Child, Node, element
from cudalens.views.sections.model import parts_of
from cudalens.views.sections.write_text import cell_text, more_text

_MAX_TITLE: Final = 1000
_MAX_TEXT: Final = 2000
#: Characters of a row that fit on a page of 600 px in JupyterLab, and those between two columns.
_NARROW: Final = 72
_GAP: Final = 2
_TAGS: Final = {"strong": "strong", "code": "code", "key": "kbd", "line": "div", "paragraph": "p"}
_DIFF: Final = {"+": "cl-diff-add", "-": "cl-diff-del", "@": "cl-diff-hunk"}


def to_html(section: model.Section | None, *, has_style: bool = False, **attributes: str | None) -> str:
    """`section` as one element; "" for None.

    Args:
        section: What to show.
        has_style: Whether its style sheet precedes it, for pages that do not have it.
        **attributes: More attributes of the element, as `markup.element` takes them.
    """
    if section is None:
        return ""
    body = element("div", *nodes(section), class_=f"cudalens-{section.name}", **attributes)
    style = f"<style>{assets.style(section.name)}</style>" if has_style and section.css else ""
    return f"{style}{body.html()}"


def to_json(section: model.Section | None) -> list[Any] | None:
    """`section` for the page, as `markup.Node.json` has it; None for None. The page makes the element around it."""
    if section is None:
        return None
    inner = list(nodes(section))
    return (inner[0] if len(inner) == 1 else element("div", *inner)).json()


def nodes(section: model.Section) -> Iterator[Node]:
    """Yield the elements of `section`: a ``<details>`` where it can be folded."""
    if section.is_open is None:
        yield from _head(section)
        yield from _blocks(section)
        return
    facts = f": {section.facts}" if section.facts else None
    summary = element("summary", element("strong", section.title), facts)
    css = f"cl-{section.name}" if section.name else None
    yield element("details", summary, *_blocks(section), class_=css, open=section.is_open)


def _head(section: model.Section) -> Iterator[Node]:
    css = section.css
    if section.title:
        badge = _badge(section) if not section.verdict else None
        yield element("h4", section.title, f" {section.facts}" if section.facts else None, badge)
    if section.verdict:
        yield element("p", _badge(section), *_answer(section.verdict), class_=_class(css, "verdict"))
    if section.details:
        more = element("summary", "more figures")
        yield element("details", more, element("p", section.details), class_=_class(css, "support"))
    if section.notes:
        yield element("ul", *(element("li", note) for note in section.notes), class_=_class(css, "notes"))


def _badge(section: model.Section) -> Node | None:
    return element("span", section.badge, class_=_class(section.css, "badge")) if section.badge else None


def _answer(verdict: str) -> tuple[Child | None, ...]:
    """Return the first part of a verdict in bold, then what supports it."""
    answer, _, support = verdict.partition("; ")
    return element("strong", answer), f"; {support}" if support else None


def _blocks(section: model.Section) -> Iterator[Node]:
    for block in section.blocks:
        yield from _block(block, section.css)


@singledispatch
def _block(block: Any, css: str) -> Iterator[Node]:
    """Return the elements of one block."""
    raise TypeError(f"a section cannot hold {block!r}")


@_block.register
def _(block: model.Section, css: str) -> Iterator[Node]:
    yield element("div", *nodes(block), class_=f"cudalens-{block.name}" if block.name else _class(css, "section"))


@_block.register
def _(block: model.Cards, css: str) -> Iterator[Node]:
    cards = (element("article", *nodes(card), class_=_class(css, "card")) for card in block.sections)
    yield element("div", *cards, class_=_class(css, "cards"))


@_block.register
def _(block: model.Table, css: str) -> Iterator[Node]:
    num_open = len(block.rows[: block.num_open])
    yield _rows(block, block.rows[:num_open], css, has_heads=True)
    if rest := block.rows[num_open:]:
        more = element("summary", f"{units.count(len(rest))} more")
        yield element("details", more, _rows(block, rest, css, has_heads=False))
    if hidden := block.num_hidden(len(block.rows)):
        yield element("p", more_text(block, hidden), class_=_class(css, "note"))


@_block.register
def _(block: model.Facts, css: str) -> Iterator[Node]:
    pairs = (zip(("dt", "dd"), item, strict=True) for item in block.items)
    listed = (element(tag, *_cell(cell, _MAX_TEXT)) for pair in pairs for tag, cell in pair)
    yield element("dl", *listed, class_=_class(css, "facts"))


@_block.register
def _(block: model.Note, css: str) -> Iterator[Node]:
    yield element("p", *_cell(block.text, _MAX_TEXT), class_=_class(css, block.kind))


@_block.register
def _(block: model.Items, css: str) -> Iterator[Node]:
    if block.title:
        yield element("h4", block.title)
    yield element("ul", *(element("li", *_cell(item, _MAX_TEXT)) for item in block.items), class_=_class(css, "items"))


@_block.register
def _(block: model.Code, css: str) -> Iterator[Node]:
    yield element("pre", *_code(block), class_=_class(css, "code"), tabindex=0)


@_block.register
def _(block: model.Picture, css: str) -> Iterator[Node]:
    is_wide = {"class_": _class(css, "scroll"), "tabindex": 0, "role": "group"}
    yield element("div", block.svg, **is_wide) if block.is_wide else block.svg


@_block.register
def _(block: model.Custom, css: str) -> Iterator[Node]:
    yield block.node


def _rows(table: model.Table, rows: Sequence[model.Row], css: str, *, has_heads: bool) -> Node:
    columns = table.columns
    styles = [None if css else f"text-align:{column.align};vertical-align:top" for column in columns]
    heads = (
        element("th", c.title, scope="col", class_=_class(css, c.key), style=style)
        if c.title
        else element("td", style=style)
        for c, style in zip(columns, styles, strict=True)
    )
    head = element("thead", element("tr", *heads)) if has_heads else None
    is_stacked = table.is_stacked and not _is_narrow(table)
    body = element("tbody", *(_row(table, row, css, styles, is_stacked=is_stacked) for row in rows))
    return element("div", element("table", head, body, class_=_class(css, table.key)), class_=_class(css, "scroll"))


def _is_narrow(table: model.Table) -> bool:
    """Whether each row of a table fits on one line of a narrow page."""
    cells = [cell for row in table.rows for cell in row.cells]
    if any(isinstance(part, model.Picture) for cell in cells for part in parts_of(cell)):
        return False
    num_characters = 0
    for number, column in enumerate(table.columns):
        texts = [column.title, *(cell_text(row.cells[number]) for row in table.rows)]
        num_characters += _GAP + max(map(len, texts))
    return num_characters <= _NARROW


def _row(table: model.Table, row: model.Row, css: str, styles: Sequence[str | None], *, is_stacked: bool) -> Node:
    cells = (
        element(
            "td",
            *_cell(cell, column.html_width),
            class_=_class(css, column.key),
            style=style,
            data_label=column.title if is_stacked else None,
            data_wide=is_stacked and column.align == "left",
        )
        for column, cell, style in zip(table.columns, row.cells, styles, strict=True)
    )
    return element("tr", *cells, data_event=row.event, data_depth=row.depth)


def _cell(cell: model.Cell, width: int) -> Iterator[Child]:
    for part in parts_of(cell):
        if isinstance(part, model.Picture):
            yield part.svg
        else:
            yield from _text(part if isinstance(part, model.Text) else model.Text(part), width)


def _text(part: model.Text, width: int) -> Iterator[Child]:
    short = units.shorten(part.text, width)
    spaced = f"{' ' * part.text.startswith(' ')}{short}{' ' * (part.text.endswith(' ') and bool(short))}"
    full = part.full or (part.text if len(part.text.strip()) > width else "")
    title = units.shorten(full, _MAX_TITLE) if full else None
    if not part.style and not title and not part.css:
        yield spaced
        return
    tag = _TAGS.get(part.style, "span")
    css = part.css or (f"cl-{part.style}" if tag == "span" and part.style else None)
    yield element(tag, spaced, class_=css, title=title)


def _code(block: model.Code) -> Iterator[Child]:
    if block.language != "diff":
        yield block.text
        return
    for line in block.text.splitlines():
        kind = "cl-diff-file" if line.startswith(("+++", "---")) else _DIFF.get(line[:1])
        yield element("span", f"{line}\n", class_=kind)


def _class(css: str, key: str) -> str | None:
    return f"{css}-{key}" if css and key else None
