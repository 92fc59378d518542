"""What is noted of an access: by what operation, where in the program, to which allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.records import Place

if TYPE_CHECKING:
    from cudalens.sanitizer.engine.blocks import Block
    from cudalens.sanitizer.engine.cells import Cell


class Use(NamedTuple):
    """An operation's argument, as reports name it: what collectors make once per operator."""

    op: str
    argument: str = ""


class Site(NamedTuple):
    """Where an operation was called.

    Attributes:
        place: Where in the user's program.
        stack: The call stack, as the collector took it.
    """

    place: Place = None
    stack: object = None


class Info(NamedTuple):
    """What is noted of an access, beside its line and clock.

    Attributes:
        use: Operation and argument.
        site: Where it was called: a `Site`, or another object with its attributes.
        shape: Of the tensor; None where it is not known.
        stride: In elements; None where the tensor is contiguous.
        dtype: Anything whose text names the type.
        life: The allocation.
        name: Of the tensor, where the collector has one; else the allocation's.
    """

    use: Use
    site: Any
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: object
    life: Life
    name: str | None = None


#: Line, clock, whether it is a write, and what is noted: an `Info` (or a plain tuple of its fields), or an `Op`.
Entry: TypeAlias = tuple[Line, int, bool, Any]

#: One operation and all that it touched, flat, so that a collector makes one object of it.
#:
#: Site, time (ns; None where nobody looked at the clock) and line, then for each access cell, whether it writes, and
#: `Info`'s fields use, shape, stride, dtype and life. (Many small objects that stay for a while are what Python's
#: cyclic garbage collector spends its time on.)
Op: TypeAlias = list[Any]

OP_HEAD: Final = 3
OP_STEP: Final = 7


def info_in(op: Op, cell: Cell, is_write: bool) -> Info:
    """What an operation noted of its access to a cell; the first one, where it touched it by several arguments."""
    for at in range(OP_HEAD, len(op), OP_STEP):
        if op[at] is cell and op[at + 1] == is_write:
            use, shape, stride, dtype, life = op[at + 2 : at + OP_STEP]
            return Info(use, op[0], shape, stride, dtype, life)
    raise LookupError(f"the operation touched no such cell: {cell.region}")


def visits_in(op: Op) -> list[tuple[Cell, bool, Info]]:
    """The accesses of an operation, one by one."""
    return [
        (op[at], op[at + 1], Info(op[at + 2], op[0], *op[at + 3 : at + OP_STEP]))
        for at in range(OP_HEAD, len(op), OP_STEP)
    ]


class Life:
    """One allocation: a block between being handed out and being freed.

    Collectors make one for every tensor: what is rarely set is a default of the class.

    Attributes:
        block: Its shadow.
        name: As the collector names it.
        start: First address.
        num_bytes: Size.
        owner: Line whose pool it came from; None where that is not known.
        generation: How often the block has been handed out before.
        is_live: Whether it is handed out now.
        run: The collector's own mark; None once it is over, so that one look tells whether it is of use.
        recorded: Lines that ``record_stream`` named; None while there are none.
        site: Where it was allocated, as in `Info`; None where that was not seen.
        freed_site: Where it was freed.
        whole: The cell of all its bytes; None for an empty one.
        device: Index of its GPU, -1 for the host: the collector's.
        is_shared: Whether another line than its owner touched it, or may have, for the collector.
        aliases: Other views of the same allocation that the collector keeps.
        shape: Of a contiguous tensor that fills it, for the collector: the next one is most often like the last.
        dtype: Likewise.
    """

    name: str = ""
    is_live: bool = True
    run: object = None
    recorded: set[Line] | None = None
    site: Any = None
    freed_site: Any = None
    device: int = -1
    generation: int = 0
    whole: Cell | None = None
    is_shared: bool = False
    aliases: list[Life] | None = None
    shape: tuple[int, ...] | None = None
    dtype: object = None

    def __init__(self, block: Block, start: int, num_bytes: int, owner: Line | None) -> None:
        self.block, self.start, self.num_bytes, self.owner = block, start, num_bytes, owner
