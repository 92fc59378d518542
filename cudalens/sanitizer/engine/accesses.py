"""Records of memory accesses: the operation, its place in the program, and the allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.records import Place

if TYPE_CHECKING:
    from cudalens.sanitizer.engine.shadow import Block, Cell


class Operand(NamedTuple):
    """An operator and one of its arguments, as reports name them. Collectors create one per operator and argument."""

    operator: str
    argument: str = ""


class CallSite(NamedTuple):
    """The call site of an operation.

    Attributes:
        place: Place in the user's program; for an operation of a CUDA graph, of the replay.
        stack: The call stack, as the collector recorded it.
        captured: For an operation of a CUDA graph, the place at which it was captured.
    """

    place: Place = None
    stack: object = None
    captured: Place = None


class AccessInfo(NamedTuple):
    """The description of an access, without its line and clock.

    Attributes:
        operand: Operator and argument.
        site: A `CallSite`, or another object with its attributes.
        shape: Shape of the tensor; None if unknown.
        stride: Strides in elements; None for a contiguous tensor.
        dtype: The type; any object whose text names it.
        allocation: The allocation.
        name: Name of the tensor; None to use the allocation's.
    """

    operand: Operand
    site: Any
    shape: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    dtype: object
    allocation: Allocation
    name: str | None = None


#: Line, clock, whether it is a write, and the description: an `AccessInfo`, a plain tuple of its fields, or an
#: `Operation`, in which `find_access_info` finds it.
RecordedAccess: TypeAlias = tuple[Line, int, bool, Any]

#: An access to check: the bytes, whether it writes, and its `AccessInfo` or a plain tuple of its fields.
CellAccess: TypeAlias = "tuple[Cell, bool, Any]"

#: One operation and all its accesses, as one flat list: ``[site, time_ns, line, *access, *access, ...]``.
#:
#: `time_ns` is None if it was not measured. The fields of an access are the cell, whether it writes, and operand,
#: shape, stride, dtype and allocation of its `AccessInfo`. One object costs Python's cyclic garbage collector less.
Operation: TypeAlias = list[Any]

NUM_HEAD_FIELDS: Final = 3
NUM_ACCESS_FIELDS: Final = 7


def find_access_info(operation: Operation, cell: Cell, is_write: bool) -> AccessInfo:
    """Return the description of an operation's access to a cell; of the first one if several arguments access it."""
    for start in range(NUM_HEAD_FIELDS, len(operation), NUM_ACCESS_FIELDS):
        if operation[start] is cell and operation[start + 1] == is_write:
            operand, shape, stride, dtype, allocation = operation[start + 2 : start + NUM_ACCESS_FIELDS]
            return AccessInfo(operand, operation[0], shape, stride, dtype, allocation)
    raise LookupError(f"the operation does not access this cell: {cell.region}")


def list_accesses(operation: Operation) -> list[CellAccess]:
    """Return the accesses of an operation, each with its description."""
    accesses: list[CellAccess] = []
    for start in range(NUM_HEAD_FIELDS, len(operation), NUM_ACCESS_FIELDS):
        cell, is_write, operand, shape, stride, dtype, allocation = operation[start : start + NUM_ACCESS_FIELDS]
        accesses.append((cell, is_write, AccessInfo(operand, operation[0], shape, stride, dtype, allocation)))
    return accesses


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
        site: Call site of the allocation, as in `AccessInfo`; None if not recorded.
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
