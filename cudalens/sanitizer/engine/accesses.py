"""Records of memory accesses: the operation, its place in the program, and the allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.records import Place

if TYPE_CHECKING:
    from cudalens.sanitizer.engine.blocks import Block
    from cudalens.sanitizer.engine.cells import Cell


class Use(NamedTuple):
    """An operation and its argument, as reports name them. Collectors create one per operator and argument."""

    op: str
    argument: str = ""


class Site(NamedTuple):
    """The call site of an operation.

    Attributes:
        place: Place in the user's program; for an operation of a CUDA graph, of the replay.
        stack: The call stack, as the collector recorded it.
        captured: For an operation of a CUDA graph, the place at which it was captured.
    """

    place: Place = None
    stack: object = None
    captured: Place = None


class Info(NamedTuple):
    """The description of an access, without its line and clock.

    Attributes:
        use: Operation and argument.
        site: Call site: a `Site`, or another object with its attributes.
        shape: Shape of the tensor; None if unknown.
        stride: Strides in elements; None for a contiguous tensor.
        dtype: The type; any object whose text names it.
        allocation: The allocation.
        name: Name of the tensor; None to use the allocation's.
    """

    use: Use
    site: Any
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: object
    allocation: Allocation
    name: str | None = None


#: Line, clock, whether it is a write, and the description: an `Info` (or a plain tuple of its fields), or an `Op`.
Entry: TypeAlias = tuple[Line, int, bool, Any]

#: One operation and all its accesses, as one flat list.
#:
#: Site, time (ns; None if not measured) and line, then for each access cell, whether it writes, and `Info`'s fields
#: use, shape, stride, dtype and allocation. One object instead of many saves time in Python's cyclic garbage collector.
Op: TypeAlias = list[Any]

OP_HEAD: Final = 3
OP_STEP: Final = 7


def info_in(op: Op, cell: Cell, is_write: bool) -> Info:
    """The description of an operation's access to a cell; of the first one if several arguments access it."""
    for at in range(OP_HEAD, len(op), OP_STEP):
        if op[at] is cell and op[at + 1] == is_write:
            use, shape, stride, dtype, allocation = op[at + 2 : at + OP_STEP]
            return Info(use, op[0], shape, stride, dtype, allocation)
    raise LookupError(f"the operation touched no such cell: {cell.region}")


def visits_in(op: Op) -> list[tuple[Cell, bool, Info]]:
    """The accesses of an operation as tuples of cell, whether it writes, and description."""
    return [
        (op[at], op[at + 1], Info(op[at + 2], op[0], *op[at + 3 : at + OP_STEP]))
        for at in range(OP_HEAD, len(op), OP_STEP)
    ]


class Allocation:
    """One allocation: a block from its allocation until it is freed.

    Collectors create one for every storage. Attributes that are rarely set are defaults of the class.

    Attributes:
        block: Its shadow.
        name: The collector's name for it.
        start: First address.
        num_bytes: Size.
        owner: Line whose pool it came from; None if unknown.
        generation: Number of earlier allocations of the block.
        is_live: Whether it is allocated now.
        run: The collector's identifier of its run; None once the allocation has ended.
        recorded: Lines that ``record_stream`` named; None while there are none.
        site: Call site of the allocation, as in `Info`; None if not recorded.
        freed_site: Call site of the release.
        whole: The cell of all its bytes; None for an empty one.
        device: Index of its GPU; -1 for the host. Set by the collector.
        is_shared: Whether a line other than its owner has accessed it, or may have. Set by the collector.
        aliases: Other views of the same allocation that the collector keeps.
        shape: Shape of the last contiguous tensor that filled it; the next tensor usually has the same.
        dtype: dtype of that tensor.
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
    aliases: list[Allocation] | None = None
    shape: tuple[int, ...] | None = None
    dtype: object = None

    def __init__(self, block: Block, start: int, num_bytes: int, owner: Line | None) -> None:
        self.block, self.start, self.num_bytes, self.owner = block, start, num_bytes, owner
