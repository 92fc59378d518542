"""The current streams at the creation of an autograd node, stored per stream switch. No torch."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from cudalens.virtual.timing.streams import Stream

#: A thread's current stream by device index; a missing device uses its default stream.
Streams: TypeAlias = "dict[int, Stream]"

#: Number of switches kept. A node older than the oldest switch gets the streams of the oldest switch.
MAX_SWITCHES: Final = 8192


class History:
    """The current streams of one thread over the sequence numbers that autograd gives to nodes.

    A switch between two nodes adds an entry; switches without a node between them (such as a prefetch of inputs) are
    merged.
    """

    __slots__ = ("_numbers", "_states")

    def __init__(self) -> None:
        self._numbers: list[int] = [0]
        self._states: list[Streams] = [{}]

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> Streams:
        """The streams of the next node."""
        return self._states[-1]

    def record(self, number: int, streams: Streams) -> None:
        """Record that `streams` are current from node `number`.

        Args:
            number: The sequence number of the next node; at least that of the last switch.
            streams: In the format of `named`.
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
    """The streams without default streams, so that equal states compare equal."""
    return {index: stream for index, stream in streams.items() if stream.handle}
