"""Write docs/frames.md from the column catalog; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_compare

from cudalens.frames.catalog_frames import FRAMES, Column

TARGET = Path(__file__).parent.parent / "docs" / "frames.md"
HEAD = """# The frames of a Trace

Every Trace has these pandas frames. A frame that its run did not make is empty.

- Unknown values are missing (`<NA>`). There are no special values. The table says what missing means.
- `parent` and `launch` are row numbers of `events`. `events.loc[events["launch"]]` has the launch of each kernel.
- `tools/frame_docs.py` makes this page from `cudalens/frames/column_catalog.csv`.
"""


def page() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(f"\n## `trace.{name}`\n\n{table(columns)}" for name, columns in FRAMES.items())


def table(columns: tuple[Column, ...]) -> str:
    """The columns of a frame as a Markdown table."""
    head = "| column | dtype | unit | meaning | missing means | source |\n| --- | --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| `{c.name}` | {c.dtype} | {c.unit} | {c.meaning} | {c.missing} | {c.source} |\n" for c in columns
    )


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, page(), "the column catalog"))
