"""Write one view as an offline HTML page, light or dark as the reader's system is."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Final

from cudalens.frames import atomic_write
from cudalens.views.foreign import clean

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
