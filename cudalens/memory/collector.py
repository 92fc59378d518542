"""Collect the allocator's history during a block of code, and a snapshot at its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cudalens.frames import Problem
from cudalens.memory.snapshot import MAX_ENTRIES, History, raw_snapshot, require_device, require_still

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.memory.snapshot import Address
    from cudalens.memory.tensors import PoolId

_CUT = "actions of the memory history were lost"


class MemoryCollector:
    """Records the allocator's history from `start` to `stop`, and takes a snapshot at `stop`.

    If the program itself records a history, that one is used and left on.

    Args:
        namespace: Variables whose names are searched; by default the notebook's, or those of ``__main__``.
        max_entries: Maximum number of actions that are kept.
        stacks: Whether call stacks are recorded.
        cells: The cell that allocated each address, if it is known.
        graphs: Labels of the graphs of each private pool, if they are known.
        with_history: Whether a history is recorded; without one, `stop` only takes a snapshot.
        shell: IPython's shell, if it is not the one of this process.

    Attributes:
        problems: What is missing from the frames; set by `stop`.
        options: Options for the run info; set by `stop`.
        extra: Extra text for the run info; set by `stop`.
        error: The exception that is propagating when `stop` is called: its variables are searched too.
        outputs: Values that IPython has not displayed yet, by the number of their cell; set before `stop`, which
            clears them.
        build_s: Time that building the frames took, seconds.
    """

    name = "memory history"

    def __init__(
        self,
        *,
        namespace: Mapping[str, Any] | None = None,
        max_entries: int = MAX_ENTRIES,
        stacks: bool = True,
        cells: Mapping[Address, str] | None = None,
        graphs: Mapping[PoolId, str] | None = None,
        with_history: bool = True,
        shell: Any = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = ()
        self.options: dict[str, str | int | float | bool | None] = {}
        self.extra: dict[str, str] = {}
        self.error: BaseException | None = None
        self.outputs: dict[int, Any] = {}
        self.build_s = 0.0
        self._namespace, self._cells, self._graphs, self._shell = namespace, cells, graphs, shell
        self._history = History(max_entries=max_entries, stacks=stacks) if with_history else None
        self._frames: dict[str, pd.DataFrame] = {}

    def start(self) -> None:
        """Begin to record the history.

        Raises:
            MemorySnapshotError: There is no CUDA device.
        """
        require_device()
        if self._history is not None:
            self._history.start()

    def stop(self) -> None:
        """Take the snapshot, restore the history setting, and search for the holders of blocks.

        Raises:
            MemorySnapshotError: The device has ended since the start.
        """
        try:
            require_still()
            raw = raw_snapshot()
            if self._history is not None:
                raw = self._history.since_start(raw)
        finally:
            if self._history is not None:
                self._history.stop()
        self._take(raw)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``blocks``, ``memory``, ``stacks``, and ``events`` of the program's annotations."""
        return self._frames

    def _take(self, raw: dict[str, Any]) -> None:
        from cudalens.frames.snapshots.build import snapshot_frames
        from cudalens.memory.holders import Holders, search_names
        from cudalens.memory.roots import roots_of
        from cudalens.memory.snapshot import as_shown, cells_of
        from cudalens.memory.tensors import live_tensors

        begin = time.perf_counter()
        live = live_tensors()
        search = search_names(roots_of(self._namespace, self.error, self._shell, self.outputs), live)
        self.outputs = {}
        found = snapshot_frames(raw, name="the live device")
        frames = found.frames
        frames["stacks"] = as_shown(frames["stacks"], self._shell)
        cells = cells_of(frames["stacks"])
        blocks = frames["blocks"]
        blocks = blocks.assign(cell=blocks["stack"].map(cells, na_action="ignore").astype("category"))
        frames["blocks"] = Holders(live, search, self._cells, self._graphs).written(blocks)
        self._frames, self.options, self.extra = frames, dict(found.options), dict(found.extra)
        self.problems = (*found.problems, *self._missing(search.is_complete, live.is_complete))
        self.build_s = time.perf_counter() - begin

    def _missing(self, named: bool, saved: bool) -> list[Problem]:
        was_cut = self._history is not None and self._history.was_cut
        causes = {
            (_CUT, "a full history drops its oldest actions"): was_cut,
            ("the search for names of tensors was not completed", "there are too many objects"): not named,
            (
                "tensors saved by autograd were not examined",
                "this torch does not expose them, or there are too many",
            ): not saved,
        }
        return [Problem(kind, 1, where) for (kind, where), is_so in causes.items() if is_so]
