"""`Shown`: a section that prints as text and shows as HTML in a notebook."""

from __future__ import annotations

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
