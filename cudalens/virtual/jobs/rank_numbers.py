"""Numbers that differ between ranks, for a program that runs on one rank: for which ranks it would do the same.

A job runs a program on rank 0 and copies it to ranks that do the same. A program that reads its rank gets a
`RankNumber`: an int that has its values on all ranks. Each comparison of it has an answer on each rank, and ranks with
another answer than the rank that runs do something else.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.jobs.communicator import program_line
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from types import FrameType

Values = NDArray[np.object_]


class RankReads:
    """What the program of a rank reads that differs between ranks.

    Args:
        rank: The rank that runs.
        num_ranks: The number of ranks of the job.

    Attributes:
        reads_rank: Whether the program itself, and not torch, read its rank, node or position in a group.
        read_at: Lines at which it read these, or the number of its GPU.
        has_uneven_parts: Whether torch divided a size that the number of parts does not divide.
        alike: By rank, whether all comparisons so far have the same answer there as on the rank that runs.
        unfollowed: Lines at which a number that differs between ranks was used in another way than in a comparison or
            in integer arithmetic: what depends on it is not known.
    """

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        self.reads_rank = self.has_uneven_parts = False
        self.alike = np.ones(num_ranks, bool)
        self.unfollowed: dict[str, None] = {}
        self.read_at: dict[str, None] = {}

    def note_answers(self, answers: NDArray[Any]) -> None:
        """Note what the program finds on each rank: on ranks with another answer it may do something else."""
        self.alike &= answers == answers[self.rank]

    def note_unfollowed(self) -> None:
        """Note that the line of the program that is running uses a number in a way that is not followed."""
        self.unfollowed[program_line()] = None

    def note_unfollowed_by_program(self) -> None:
        """Do so, unless torch uses the number, such as to choose a GPU: it does the same on all ranks."""
        if not is_library(caller(__file__).f_code.co_filename):
            self.note_unfollowed()

    def number(self, values: Iterable[int], *, is_gpu: bool = False) -> RankNumber:
        """Return the number that has these values on all ranks, which may be those of their GPUs."""
        made = np.empty(self.num_ranks, object)
        made[:] = list(values)
        return RankNumber(self, made, is_gpu=is_gpu)


def caller(*files: str) -> FrameType:
    """Return the innermost stack frame that is neither of these files nor of a frozen module of Python."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((*files, "<frozen")):
        frame = frame.f_back
    return frame


class RankNumber(int):
    """An int of the rank that runs, with its values on all ranks.

    It is equal to the int, has its hash and its text, and is pickled as it. What C code does with it is not seen: an
    index of a list, the length of a range, a size of a tensor.
    """

    reads: RankReads
    values: Values
    is_gpu: bool

    def __new__(cls, reads: RankReads, values: Values, *, is_gpu: bool = False) -> RankNumber:
        """Return the number of the rank that runs."""
        made = super().__new__(cls, values[reads.rank])
        made.reads, made.values, made.is_gpu = reads, values, is_gpu
        return made

    def result(self, values: Values) -> RankNumber:
        """Return what arithmetic makes of this number. Another number than that of the GPU does not choose one."""
        is_gpu = self.is_gpu and bool((values == self.values).all())
        if self.is_gpu and not is_gpu and not is_library(caller(__file__).f_code.co_filename):
            self.reads.reads_rank = True
        return RankNumber(self.reads, values, is_gpu=is_gpu)

    def __bool__(self) -> bool:
        self.reads.note_answers(self.values != 0)
        return int.__bool__(self)

    def __hash__(self) -> int:
        self.reads.note_unfollowed_by_program()  # what a dict or a set has for the other ranks is not known
        return int.__hash__(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return int, (int.__index__(self),)

    def __copy__(self) -> RankNumber:
        return self

    def __deepcopy__(self, memo: Any) -> RankNumber:
        return self


class RankText(str):
    """The text of an environment variable that differs between ranks, with its number on all of them."""

    __slots__ = ("number",)

    number: RankNumber

    @classmethod
    def of(cls, number: RankNumber) -> RankText:
        """Return the text of a number."""
        made = cls(int.__repr__(number))
        made.number = number
        return made

    def __eq__(self, other: object) -> bool:
        self.number.reads.note_answers(np.array([str(value) == other for value in self.number.values]))
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __int__(self) -> int:
        self.number.reads.note_unfollowed_by_program()  # int() makes an ordinary int of what this returns
        return int.__index__(self.number)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return str, (str.__str__(self),)


def to_int(*args: Any, **kwargs: Any) -> int:
    """Do what int() does; of a number that differs between ranks, or its text, return that number."""
    if len(args) == 1 and not kwargs:
        if type(args[0]) is RankNumber:
            return args[0]
        if type(args[0]) is RankText:
            return args[0].number
    return int(*args, **kwargs)


def _values_of(other: int) -> Any:
    return other.values if isinstance(other, RankNumber) else int(other)


def _members_compared(frame: FrameType) -> frozenset[int] | None:
    """Return the elements among which ``rank in ranks`` looks, if `frame` runs that and `ranks` is a variable; or None.

    Python compares the rank with one element after the other, and only up to the first one that is equal.
    """
    before = _loads_before_in(frame.f_code).get(frame.f_lasti)
    if before is None:
        return None
    name, constant = before
    container = constant if name is None else frame.f_locals.get(name, frame.f_globals.get(name))
    if not isinstance(container, list | tuple | range) or not all(type(one) is int for one in container):
        return None
    return frozenset(container)


#: Beginnings of the names of instructions that load variables.
_LOADS: Final = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")


@lru_cache(maxsize=1024)
def _loads_before_in(code: CodeType) -> dict[int, tuple[str | None, Any]]:
    """Return the name or the constant that is loaded before each ``in``, by the offset of its instruction."""
    found: dict[int, tuple[str | None, Any]] = {}
    for before, one in pairwise(dis.get_instructions(code)):
        if one.opname == "CONTAINS_OP" and before.opname == "LOAD_CONST":
            found[one.offset] = None, before.argval
        elif one.opname == "CONTAINS_OP" and before.opname.startswith(_LOADS):
            # an instruction that loads two variables names both
            found[one.offset] = before.argval if isinstance(before.argval, str) else before.argval[-1], None
    return found


def _comparison(name: str) -> Callable[[RankNumber, Any], Any]:
    compare, compare_values = vars(int)[name], getattr(operator, name)

    def method(self: RankNumber, other: Any) -> Any:
        members = _members_compared(sys._getframe(1)) if name == "__eq__" else None
        if members is not None:
            self.reads.note_answers(np.array([value in members for value in self.values]))
        elif isinstance(other, int):
            self.reads.note_answers(np.asarray(compare_values(self.values, _values_of(other)), bool))
        elif isinstance(other, float):
            self.reads.note_answers(np.array([compare_values(value, other) for value in self.values]))
        return compare(self, other)

    return method


def _arithmetic(name: str) -> Callable[..., Any]:
    compute, is_reflected = vars(int)[name], name.startswith("__r") and name != "__rshift__"
    plain = f"__{name[3:]}" if is_reflected else name
    compute_values = getattr(operator, plain)

    def method(self: RankNumber, other: Any) -> Any:
        result = compute(self, other)
        if not isinstance(other, int):
            self.reads.note_unfollowed_by_program()
            return result
        sides = (_values_of(other), self.values) if is_reflected else (self.values, _values_of(other))
        try:
            return self.result(compute_values(*sides))
        except (ArithmeticError, ValueError):  # on another rank, such as a division by rank 0
            self.reads.note_unfollowed_by_program()
            return result

    return method


def _sign(name: str) -> Callable[[RankNumber], RankNumber]:
    compute = getattr(operator, name)
    return lambda self: self.result(compute(self.values))


def _unfollowed(name: str) -> Callable[..., Any]:
    compute = vars(int)[name]

    def method(self: RankNumber, *args: Any) -> Any:
        self.reads.note_unfollowed_by_program()
        return compute(self, *args)

    return method


_COMPARISONS: Final = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_ARITHMETIC: Final = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
_SIGNS: Final = ("__neg__", "__pos__", "__abs__", "__invert__")
#: Their results are not integers, or are not needed: a rank is not raised to a power.
_UNFOLLOWED: Final = ("__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__divmod__", "__rdivmod__")
_CONVERSIONS: Final = ("__float__", "__int__")

for _name in _COMPARISONS:
    setattr(RankNumber, _name, _comparison(_name))
for _name in _ARITHMETIC:
    setattr(RankNumber, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(RankNumber, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in _SIGNS:
    setattr(RankNumber, _name, _sign(_name))
for _name in (*_UNFOLLOWED, *_CONVERSIONS):
    setattr(RankNumber, _name, _unfollowed(_name))
