"""The one folder whose files the server opens: no path leaves it, neither by ``..`` nor by a symbolic link."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from cudalens.errors import TraceError
from cudalens.frames import Trace

#: Traces that are kept open, the last used ones.
MOST_OPEN: Final = 4
#: Files that are looked at for a list.
_MOST_SEEN: Final = 10_000


class Folder:
    """Files below a folder, read only.

    Args:
        root: The folder.

    Raises:
        TraceError: It is not a folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise TraceError(f"{self.root} is not a folder; give the folder with the traces.")

    def file(self, name: str) -> Path:
        """Return the regular file `name`, relative to the folder, without symbolic links.

        Raises:
            TraceError: There is none, it is outside of the folder, or it is something else.
        """
        path = self._inside(name)
        if not stat.S_ISREG(path.stat().st_mode):
            raise TraceError(f"{name[:200]!r} is not a file; list_traces lists the files.")
        return path

    def names(self, most: int) -> tuple[list[dict[str, object]], bool]:
        """Name and size of at most `most` files, by name; and whether there are more."""
        found = [
            {"file": str(path.relative_to(self.root)), "bytes": path.stat().st_size}
            for _, path in zip(range(most + 1), self._files(), strict=False)
        ]
        return found[:most], len(found) > most

    def _files(self) -> Iterator[Path]:
        seen = 0
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for name in sorted(files):
                seen += 1
                path = Path(folder, name)
                if not name.startswith(".") and not path.is_symlink() and path.is_file():
                    yield path
            if seen > _MOST_SEEN:
                return

    def _inside(self, name: str) -> Path:
        try:
            path = (self.root / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise TraceError(f"there is no file {name[:200]!r} in the folder; list_traces lists the files.") from None
        is_listed = path.is_relative_to(self.root) and not any(
            part.startswith(".") for part in path.relative_to(self.root).parts
        )
        if not is_listed:
            raise TraceError(f"there is no file {name[:200]!r} in the folder; list_traces lists the files.")
        return path


class OpenTraces:
    """The last used Traces of a folder, read again if a file has changed.

    Args:
        folder: Where the files are.
        load: Reads one.
    """

    def __init__(self, folder: Folder, load: Callable[[Path], Trace]) -> None:
        self._folder, self._load = folder, load
        self._open: OrderedDict[tuple[Path, int, int], Trace] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> Trace:
        """Return the Trace of the file `name`.

        Raises:
            TraceError: There is no such file, or it is not a trace.
        """
        path = self._folder.file(name)
        facts = path.stat()
        key = (path, facts.st_mtime_ns, facts.st_size)
        with self._lock:
            trace = self._open.pop(key, None)
            if trace is None:
                trace = self._load(path)
            self._open[key] = trace
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return trace
