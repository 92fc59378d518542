"""`Shown`, a section as text and as HTML in a notebook, and `write_page`, which writes one offline page."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Final

from cudalens.frames import atomic_write
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Section
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text


class Shown:
    """A section that a user prints or displays; a subclass may compute its `section`."""

    def __init__(self, section: Section) -> None:
        self._section = section

    @property
    def section(self) -> Section:
        """What it shows."""
        return self._section

    def __str__(self) -> str:
        """As text of about 100 columns."""
        return to_text(self.section)

    def __repr__(self) -> str:
        """The same as printed."""
        return str(self)

    def _repr_html_(self) -> str:
        return for_notebooks(to_html(self.section, has_style=True))


_PAGE: Final = (
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>{title}</title><style>:root {{ color-scheme: light dark }} body {{ margin: 24px auto; padding: 0 16px; "
    "max-width: 1100px; color: #1b1f24; background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ color: "
    "#e6e9ed; background: #111418 }} }}</style></head><body>{body}</body></html>\n"
)


def write_page(path: str | os.PathLike[str], title: str, body: str) -> Path:
    """Write one offline page; returns its path.

    Args:
        path: The file; an existing one is replaced.
        title: Title of the page, as plain text.
        body: HTML of the view.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    with atomic_write(path) as file:
        file.write(_PAGE.format(title=escape(clean(title)), body=body).encode("utf-8", "replace"))
    return Path(path)
