"""Write a generated page of the documentation, or compare it with the file (``--check``)."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_compare(target: Path, page: str, source: str) -> int:
    """Write `page` to `target`; with ``--check``, return 1 and print a message if the file differs.

    Args:
        target: The file.
        page: Its text.
        source: What the page is made from, for the message.
    """
    if "--check" not in sys.argv:
        target.write_text(page, encoding="utf-8")
        return 0
    if target.exists() and target.read_text(encoding="utf-8") == page:
        return 0
    sys.stderr.write(f"{target.name} differs from {source}; run 'make fix'.\n")
    return 1
