"""The memory history: which actions are recorded, and with which stack frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from cudalens.virtual.allocator.conf import Action, PoolId


class StackLevel(IntEnum):
    """For which actions stack frames are recorded (torch's RecordContext)."""

    NEVER = 0
    STATE = 1  # for the blocks that are allocated
    ALLOC = 2  # also for allocations in the history
    ALL = 3  # also for frees


_LEVELS = {None: StackLevel.NEVER, "state": StackLevel.STATE, "alloc": StackLevel.ALLOC, "all": StackLevel.ALL}


def frames_of(stack: object) -> object:
    """Return the stack frames: the value itself, or the result of calling it."""
    return stack() if callable(stack) else stack


class History:
    """A ring buffer of the last actions, and listeners to all actions.

    Attributes:
        is_on: Whether actions are recorded.
        level: For which actions stack frames are recorded.
        listeners: Called with every action, recorded or not; must not call the allocator.
        user_metadata: Stored with every action (``torch.cuda.memory._set_memory_metadata``).
    """

    __slots__ = ("_entries", "_max_entries", "_next", "_skip", "is_on", "level", "listeners", "user_metadata")

    def __init__(self) -> None:
        self.is_on = False
        self.level = StackLevel.NEVER
        self.listeners: list[Callable[[Action], None]] = []
        self.user_metadata = ""
        self._entries: list[tuple[Action, str]] = []
        self._max_entries, self._next = 1, 0
        self._skip: frozenset[str] = frozenset()

    def configure(
        self,
        enabled: str | None,
        context: str | None,
        stacks: str,
        max_entries: int,
        *,
        clear_history: bool,
        skip_actions: Iterable[str],
    ) -> None:
        """As ``torch._C._cuda_record_memory_history``.

        Raises:
            RuntimeError: A value is not allowed (torch's message).
        """
        if enabled not in (None, "state", "all"):
            raise RuntimeError("expected state to be 'state', 'all', or None")
        if context not in _LEVELS:
            raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
        if stacks not in ("python", "all"):
            raise RuntimeError("expected stacks to be 'python', or 'all'")
        self.is_on = enabled is not None
        self.level = _LEVELS[context] if self.is_on else StackLevel.NEVER
        self._skip = frozenset(skip_actions)
        self._max_entries = max(1, max_entries) if enabled == "all" else 1
        if not self.is_on or clear_history:
            self._entries, self._next = [], 0

    def record(
        self,
        kind: str,
        address: int,
        num_bytes: int,
        stream: int,
        time_us: int,
        pool_id: PoolId,
        stack: object,
        block_bytes: int = 0,
    ) -> None:
        """Record an action and call the listeners."""
        frames = stack if self.level >= StackLevel.ALLOC else None
        action = Action(kind, address, num_bytes, stream, time_us, pool_id, frames, block_bytes)
        for listener in tuple(self.listeners):
            listener(action)
        self.keep(action, self.user_metadata)

    def keep(self, action: Action, text: str) -> None:
        """Add an action with its metadata to the history, without calling the listeners."""
        if not self.is_on or action.kind in self._skip:
            return
        entry = action, text
        if len(self._entries) < self._max_entries:
            self._entries.append(entry)
            return
        self._entries[self._next] = entry
        self._next = (self._next + 1) % self._max_entries

    def entries(self) -> list[dict[str, object]]:
        """Return the recorded actions, oldest first, in the format of a trace entry of torch's snapshot."""
        entries: list[dict[str, object]] = []
        for action, user_metadata in (*self._entries[self._next :], *self._entries[: self._next]):
            entry: dict[str, object] = {
                "action": action.kind,
                "device_free" if action.kind == "oom" else "addr": action.address,
                "size": action.num_bytes,
                "stream": action.stream,
                "time_us": action.time_us,
                "compile_context": "N/A",
                "user_metadata": user_metadata,
                "pool_id": action.pool_id,
            }
            if action.stack is not None:
                entry["frames"] = action.stack
            entries.append(entry)
        return entries
