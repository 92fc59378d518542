"""Which streams were current when an autograd node was made: remembered per switch, not per operator. No torch."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from cudalens.virtual.timing.streams import Stream

Streams: TypeAlias = "dict[int, Stream]"
"""A thread's current stream by device index; a device that is not named is on its default stream."""

MAX_SWITCHES: Final = 8192
"""Switches that are remembered. Of a node that is older than the oldest of them, the oldest's streams are taken."""


class History:
    """The current streams of one thread over the sequence numbers that autograd gives to nodes.

    A switch between two nodes costs an entry; switches without a node between them (a prefetch of inputs, say) leave
    none behind.
    """

    __slots__ = ("_numbers", "_states")

    def __init__(self) -> None:
        self._numbers: list[int] = [0]
        self._states: list[Streams] = [{}]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> Streams:
        """The streams of nodes to come."""
        return self._states[-1]

    def note(self, number: int, streams: Streams) -> None:
        """From the node `number` on, `streams` are current.

        Args:
            number: The sequence number of the next node; no less than at the last switch.
            streams: As `named` writes them.
        """
        numbers, states = self._numbers, self._states
        number = max(number, numbers[-1])
        if numbers[-1] == number:
            numbers.pop()
            states.pop()
        if not states or states[-1] != streams:
            numbers.append(number)
            states.append(streams)
        if len(numbers) > MAX_SWITCHES:
            del numbers[: MAX_SWITCHES // 2], states[: MAX_SWITCHES // 2]

    def at(self, number: int) -> Streams:
        """The streams that were current when node `number` was made."""
        return self._states[max(bisect_right(self._numbers, number) - 1, 0)]


def named(streams: Streams) -> Streams:
    """The same without default streams, so that equal states are equal."""
    return {index: stream for index, stream in streams.items() if stream.handle}
