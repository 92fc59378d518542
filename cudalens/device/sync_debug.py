"""torch's sync debug mode "warn", captured without reaching user-installed warning filters.

torch warns of operations by which the host waits for the GPU (c10/cuda/CUDAFunctions.cpp): blocking copies,
``.item()``, ``Stream.synchronize()``. While a listener is active, the mode is "warn" for torch. The mode that the
program has set and reads back, and the warnings that it receives, do not change:

- The warnings end in a filter that stays before all others, so that neither ``simplefilter("error")`` nor
  ``catch_warnings(record=True)`` in the program receives them. They continue to the other filters if the program itself
  set the mode to "warn".
- ``torch.cuda.set_sync_debug_mode`` and its counterpart keep the program's own setting. "error" stays in force.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, SupportsIndex, TypeAlias

from torch import _C

_MESSAGE: Final = "called a synchronizing"
_PROTOTYPE: Final = "Synchronization debug mode is a prototype feature"
_SET, _GET = "_cuda_set_sync_debug_mode", "_cuda_get_sync_debug_mode"
_OFF, _WARN = 0, 1

_Entry: TypeAlias = "tuple[Any, ...]"

_module: Any = _C


class _Filters(list[_Entry]):
    """``warnings.filters`` with an entry that stays first, also in the copies that ``catch_warnings`` makes."""

    def __init__(self, entries: Iterable[_Entry], first: _Entry) -> None:
        super().__init__([first, *(entry for entry in entries if entry is not first)])
        self._first = first

    def insert(self, index: SupportsIndex, entry: _Entry) -> None:
        super().insert(max(int(index), 1) if self._has_first else index, entry)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Filters(found, self._first) if isinstance(index, slice) and self._has_first else found

    def __setitem__(self, index: Any, value: Any) -> None:
        had_first = self._has_first
        super().__setitem__(index, value)
        if had_first and not self._has_first:
            super().insert(0, self._first)

    def copy(self) -> list[_Entry]:
        return self[:]

    def clear(self) -> None:
        self[:] = []

    @property
    def _has_first(self) -> bool:
        return len(self) > 0 and super().__getitem__(0) is self._first

    def let_go(self) -> list[_Entry]:
        """Remove the entry that stays first; returns the other entries."""
        if self._has_first:
            super().pop(0)
        return list(self)


class _Matcher:
    """Replaces a filter's pattern: its ``match`` is called with the text of every warning."""

    def __init__(self, debug: SyncDebug) -> None:
        self._debug = debug

    def match(self, text: str) -> bool:
        """Return whether a warning is to be captured."""
        return self._debug.captures(text)


class SyncDebug:
    """Listens to the sync debug mode between `start` and `stop`.

    Args:
        on_sync: Called after (on the virtual device: before) each operation that torch warns of, in the thread that is
            warned.

    Attributes:
        is_on: Whether warnings are captured.
    """

    def __init__(self, on_sync: Callable[[], None]) -> None:
        self._on_sync = on_sync
        self.is_on = False
        self._is_setting = False
        self._users = _OFF
        self._set: Callable[[int], None] = lambda mode: None
        self._get: Callable[[], int] = lambda: _OFF
        self._wrappers: dict[str, Any] = {}
        self._plain: list[_Entry] = []
        self._ours: _Filters | None = None
        self._entry: _Entry = ("ignore", _Matcher(self), UserWarning, None, 0)

    def start(self) -> None:
        """Start, if there is a real or virtual device; does nothing otherwise."""
        if not (hasattr(_module, _SET) and hasattr(_module, _GET)):
            return
        self._set, self._get = getattr(_module, _SET), getattr(_module, _GET)
        self._users = int(self._get())
        self._plain = warnings.filters  # type: ignore[assignment]
        warnings.filters = self._ours = _Filters(self._plain, self._entry)
        _filters_changed()
        self.is_on = True
        self._wrappers = {_SET: self._users_set, _GET: self._users_get}
        for name, wrapper in self._wrappers.items():
            setattr(_module, name, wrapper)
        self._apply()

    def stop(self) -> None:
        """Stop, and restore the program's setting and filters."""
        if not self.is_on:
            return
        self._apply(self._users)
        self.is_on = False
        for name, original in ((_SET, self._set), (_GET, self._get)):
            if vars(_module).get(name) is self._wrappers[name]:
                setattr(_module, name, original)
        present: Any = warnings.filters
        if present is self._ours and self._ours is not None:
            self._plain[:] = self._ours.let_go()
            warnings.filters = self._plain
        else:  # a block such as `catch_warnings` may restore these lists later: they must act like plain lists
            for filters in (present, self._ours):
                if isinstance(filters, _Filters):
                    filters.let_go()
        _filters_changed()

    def captures(self, text: str) -> bool:
        """Handle the text of a warning; returns whether it is captured."""
        if not self.is_on:
            return False
        if text.startswith(_MESSAGE):
            self._on_sync()
            return self._users == _OFF
        return self._is_setting and text.startswith(_PROTOTYPE)

    def _apply(self, mode: int | None = None) -> None:
        self._is_setting = True
        try:
            self._set(max(self._users, _WARN) if mode is None else mode)
        finally:
            self._is_setting = False

    def _users_set(self, mode: int) -> None:
        """Called when the program sets the mode."""
        if not self.is_on:
            self._set(mode)
            return
        self._set(mode)  # raises for an invalid mode
        self._users = int(mode)
        self._apply()

    def _users_get(self) -> int:
        """Called when the program reads the mode."""
        return self._users if self.is_on else int(self._get())


def _filters_changed() -> None:
    """Invalidate Python's registry of warnings that were already shown."""
    changed = getattr(warnings, "_filters_mutated", None)
    if changed is not None:
        changed()
        return
    locked = getattr(warnings, "_filters_mutated_lock_held", None)  # Python 3.14
    lock = getattr(warnings, "_lock", None)
    if locked is not None and lock is not None:
        with lock:
            locked()
