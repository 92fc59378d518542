"""How a block of code ended: its status, and its exception in one line."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Final, NamedTuple

from cudalens.frames.info import Status


class Outcome(NamedTuple):
    """How a block of code ended.

    Attributes:
        status: ``ok``, ``raised`` or ``interrupted``.
        error: The exception's type and the first line of its message, or None.
    """

    status: Status = "ok"
    error: str | None = None

    @classmethod
    def of(cls, error: BaseException | None) -> Outcome:
        """Return the outcome of a block that ended with `error`, or with None.

        A cancelled coroutine counts as interrupted: ipykernel interrupts a cell that awaits by cancelling it.
        """
        if error is None:
            return cls()
        is_interrupt = isinstance(error, KeyboardInterrupt | CancelledError)
        text = str(error).strip().partition("\n")[0]
        line = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return cls("interrupted" if is_interrupt else "raised", line)


#: The outcome of a block that ended without an exception.
OK: Final = Outcome()
