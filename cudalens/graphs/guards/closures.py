"""Find functions with variables from around them that a call ran, and that no name in the program leads to.

torch can hold such a function (``torch.library``). A call gives its code and the values of its variables. Where several
functions of one maker have the same values, a further warm-up finds out which of them is called.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from cudalens.device.stacks import Place
from cudalens.graphs.guards.outside import closure_of
from cudalens.graphs.reasons import Finding, Reason

if TYPE_CHECKING:
    from cudalens.graphs.functions import Variant
    from cudalens.graphs.guards.found import Reads
    from cudalens.graphs.guards.outside import CallWatch, Closure


def hidden_closure(variant: Variant, reads: Reads, calls: CallWatch) -> Finding | None:
    """A variable of a function that ran and is not found; with several candidates, the variant is warmed up once more.

    Functions that the code makes anew in each call have values that the code reads.
    """
    found = [function for function, _ in reads.functions]
    before = [] if variant.before is None else variant.before.executed
    codes = [function.__code__ for _, function in (*variant.executed, *before)]
    known = frozenset(chain.from_iterable(map(_codes_in, codes)))
    closures = {
        closure for closure in calls.closures if closure[0].co_freevars != ("__class__",) and closure[0] not in known
    }
    reached = {closure_of(function) for function in found}
    if hidden := closures - reached:
        return _finding(next(closure[0] for closure in calls.closures if closure in hidden))
    cells = {_cells_of(function) for function in found}
    for function in calls.called:
        if function is None or _cells_of(function) not in cells:
            return _finding(next(iter(calls.watched)) if function is None else function.__code__)
    others = _codes_of_others(closures, cells) - calls.watched
    if others and calls.watched:
        return _finding(next(iter(others)))
    if others:
        variant.watched, variant.is_warm = frozenset(others), False
    return None


def _codes_of_others(closures: set[Closure], cells: set[Closure]) -> set[CodeType]:
    """Code of which there is a function with the values of one that ran, but with variables of its own."""
    codes = {code for code, _ in closures}
    functions = [held for held in gc.get_referrers(*codes) if isinstance(held, FunctionType)] if codes else []
    candidates = (held for held in functions if held.__code__ in codes and closure_of(held) in closures)
    return {held.__code__ for held in candidates if _cells_of(held) not in cells}


def _cells_of(function: FunctionType) -> Closure:
    return function.__code__, tuple(map(id, function.__closure__ or ()))


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _finding(code: CodeType) -> Finding:
    return Finding(Reason.UNGUARDED, f"'{code.co_freevars[0]}' of {code.co_qualname}", Place(code, 0))
