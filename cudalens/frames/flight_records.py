"""Records of collectives that torch's FlightRecorder wrote, by rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cudalens.frames.info import Problem

#: Name of the group of all ranks: torch numbers process groups as texts, in order of creation.
DEFAULT_GROUP: Final = "0"
#: How a process ended that raised no exception.
EXITED: Final = "exit"


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A frame of a Python stack.

    Attributes:
        filename: The source file.
        line: Its line, from 1.
        name: The function.
    """

    filename: str
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """One collective, send or receive that one rank entered.

    Attributes:
        group: Name of the process group, the same on all ranks.
        description: Description of the group, as ``default_pg``.
        seq: Number of the collective in its group, from 1, the same on all ranks. Of a send or receive: its number
            among those from `pair[0]` to `pair[1]` in this dump, from 1.
        part: Number of the call among those with the same `seq`, from 0; coalesced collectives share a `seq`.
        op: What it is, as ``all_reduce``.
        backend: ``gloo``, ``nccl``; "" where unknown.
        input_sizes: Shapes of the inputs.
        output_sizes: Shapes of the outputs.
        input_dtypes: Types of the inputs, as the recorder spells them (``Float``).
        is_finished: Whether the recorder saw it end. A collective that raised counts as finished.
        created_ns: Time of the call in ns since 1970 on the clock of the rank's host.
        stack: The Python stack of the call, innermost first; empty where it was not recorded.
        pair: The rank that sends and the rank that receives; None for a collective.
        batch: Number on its rank of the sends and receives that were started together; 0 for a collective.
    """

    group: str
    description: str
    seq: int
    part: int
    op: str
    backend: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    is_finished: bool
    created_ns: int
    stack: tuple[CallFrame, ...]
    pair: tuple[int, int] | None = None
    batch: int = 0

    @property
    def lane(self) -> str:
        """The group, and for a send or receive its direction: calls of one lane have comparable numbers."""
        return self.group if self.pair is None else f"{self.group} {self.pair[0]}->{self.pair[1]}"

    @property
    def other(self) -> Call:
        """For a send the receive that it needs, and the other way around; a collective itself."""
        if self.pair is None:
            return self
        return replace(self, op="recv" if self.op == "send" else "send", stack=())


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The Python stack of one thread when a dump was written.

    Attributes:
        name: Name of the thread.
        stack: Its frames, innermost first.
    """

    name: str
    stack: tuple[CallFrame, ...]


@dataclass(frozen=True, slots=True)
class RankDump:
    """What one rank wrote at one time.

    Attributes:
        calls: The collectives, sends and receives that it entered, in order; old ones may be missing. gloo records no
            sends and receives; of these, only the one in which the main thread is.
        groups: Ranks of each process group, by name, where the dump states them.
        written_ns: When it was written, in ns since 1970 on the clock of the rank's host; None where unknown.
        threads: Python stacks of its threads, the main thread first; empty where they were not written.
        ending: How the process ended, if it wrote the dump then: ``exit``, or the exception in one line; "" else.
        has_all: Whether `calls` has all sends and receives since the start: then their numbers are equal on both ranks.
    """

    calls: tuple[Call, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    written_ns: int | None = None
    threads: tuple[ThreadStack, ...] = ()
    ending: str = ""
    has_all: bool = False


@dataclass(frozen=True, slots=True)
class FlightRecords:
    """Dumps of the ranks of one job.

    Attributes:
        dumps: The dumps of each rank in order of time. A rank that started and wrote no dump has an empty tuple.
        world_size: Number of ranks of the job; None where no file states it.
        problems: What is wrong with the files.
    """

    dumps: Mapping[int, tuple[RankDump, ...]]
    world_size: int | None = None
    problems: tuple[Problem, ...] = ()
