"""The source lines of a finding: from the profiled cell, or from a file of the server's folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from cudalens.analysis import Finding
from cudalens.api.mcp_server.folder import Folder
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.views.foreign import printable

#: Lines before and after that are shown.
_AROUND: Final = 3
_WIDTH: Final = 200
_MAX_BYTES: Final = 1 << 20
_CELL: Final = re.compile(r"In\[(?:\d+)\]")


def lines_around(trace: Trace, folder: Folder, found: Finding) -> dict[str, Any]:
    """``lines`` (number and text of those around the place) and ``source`` (where they are from), if they are known.

    The place is text of the trace. So a file is read only if it is a Python file below the folder.
    """
    name, _, line = (found.place or "").rpartition(":")
    if not line.isdecimal() or len(line) > 9:
        return {"lines": [], "source": "the place is not known; record stacks (stacks=True)"}
    text, source = _text(trace, folder, name)
    lines = text.splitlines()
    first = max(int(line) - 1 - _AROUND, 0)
    shown = [f"{number}: {printable(one)[:_WIDTH]}" for number, one in enumerate(lines, 1)]
    return {"lines": shown[first : int(line) + _AROUND], "source": source}


def _text(trace: Trace, folder: Folder, name: str) -> tuple[str, str]:
    if _CELL.fullmatch(name):
        code = trace.info.code
        return (code, "the profiled cell") if code else ("", "the cell's source was not recorded")
    try:
        path = folder.file(name)
    except TraceError:
        return "", "the file is not in the folder"
    if path.suffix != ".py" or path.stat().st_size > _MAX_BYTES:
        return "", "not a Python file of at most 1 MiB"
    return Path(path).read_text(encoding="utf-8", errors="replace"), "a file of the folder"
