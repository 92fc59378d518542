"""`Shown`: a section that prints as text and shows as HTML in a notebook."""

from __future__ import annotations

from typing import Final

from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.model import Section
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text

#: An offline page with a `title` and a `body`, light or dark as the reader's system is.
PAGE: Final = (
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>{title}</title><style>:root {{ color-scheme: light dark }} body {{ margin: 24px auto; padding: 0 16px; "
    "max-width: 1100px; color: #1b1f24; background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ color: "
    "#e6e9ed; background: #111418 }} }}</style></head><body>{body}</body></html>\n"
)


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
