"""Write docs/frames.md from the column catalog; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from cudalens.frames.column_catalog import FRAMES
from cudalens.frames.schema import docs_table

TARGET = Path(__file__).parent.parent / "docs" / "frames.md"
HEAD = """# The frames of a Trace

Every Trace has these pandas frames. A frame that its run did not make is empty.

- Unknown values are missing (`<NA>`). There are no special values. The table says what missing means.
- `parent` and `launch` are row numbers of `events`. `events.loc[events["launch"]]` has the launch of each kernel.
- `tools/frame_docs.py` makes this page from `cudalens/frames/column_catalog.py`.
"""


def page() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(f"\n## `trace.{name}`\n\n{docs_table(name)}" for name in FRAMES)


def main() -> int:
    """Write the page, or compare it with the file."""
    if "--check" not in sys.argv:
        TARGET.write_text(page(), encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{TARGET.name} differs from the column catalog; run 'make fix'.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
