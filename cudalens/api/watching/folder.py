"""The folder of a watched run: its history and the recordings that are kept, bounded in size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cudalens.api.watching.burst import Recorded
from cudalens.errors import OutputError
from cudalens.frames.watching.run import WatchedRun, write_history

#: Time between two histories, s; the file has a row per recent step.
_PERIOD_S: Final = 5.0


class WatchFolder:
    """Writes into one folder, created if absent. After a failure, such as a full disk, it writes no more.

    Attributes:
        path: The folder.
        notes: Why it does not write any more.

    Raises:
        OutputError: The folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, []  # type: tuple[Path, list[str]]
        self._written_s = 0.0
        self._is_dirty = True
        try:
            path.mkdir(parents=True, exist_ok=True)
            for old in path.glob("step-*.cudalens"):
                old.unlink()
        except OSError as error:
            raise OutputError(f"{path}: cannot create the folder ({error.strerror})") from error

    def keep(self, kept: Sequence[Recorded], dropped: Sequence[Recorded]) -> None:
        """Write the recordings that have no file yet, and remove files of those that are no longer kept."""
        self._guarded(lambda: self._keep(kept, dropped))
        self._is_dirty = True

    def write(self, run: Callable[[], WatchedRun], *, is_last: bool) -> None:
        """Write the history, if it is time to, or if it is the last one."""
        now = time.monotonic()
        if is_last or self._is_dirty or now - self._written_s >= _PERIOD_S:
            self._written_s, self._is_dirty = now, False
            self._guarded(lambda: write_history(run(), self.path))

    def _keep(self, kept: Sequence[Recorded], dropped: Sequence[Recorded]) -> None:
        for one in dropped:
            self._file(one).unlink(missing_ok=True)
        for one in kept:
            if one.trace is not None:
                one.trace.save(self._file(one))
                one.num_bytes, one.trace = self._file(one).stat().st_size, None

    def _file(self, one: Recorded) -> Path:
        return self.path / f"step-{one.step}.cudalens"

    def _guarded(self, act: Callable[[], object]) -> None:
        if self.notes:
            return
        try:
            act()
        except OSError as error:  # OutputError is one
            self.notes.append(f"nothing more is written: {error}")
