"""Enter and leave torch dispatch modes of this thread in any order, with observers above the modes that execute.

torch's modes nest like ``with`` blocks. Notebook cells switch ours on and off in any order. An observer (the sanitizer)
must see operators before a mode that executes them (the virtual device), whichever was entered first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from torch import _C
from torch.utils import _python_dispatch as dispatch

#: Attributes in which a dispatch mode saves torch's previous flags; which of them exist depends on the torch version.
_FLAGS: Final = (
    "old_dispatch_mode_flags",
    "old_non_infra_dispatch_mode_flags",
    "old_without_ignore_compile_internals_dispatch_mode_flags",
)

#: Attribute of a mode that only observes: `enter` places other modes below it.
OBSERVES: Final = "cudalens_observes"

#: Attribute of a mode that executes operators: the virtual device's.
EXECUTES: Final = "cudalens_executes"

#: Operators whose kernels multiply by a view that is the conjugate of a tensor.
_CONJUGATING: Final = frozenset({"aten::linalg_lstsq", "aten::linalg_pinv"})
_KEYS: Final = _C.DispatchKeySet(_C.DispatchKey.Conjugate) | _C.DispatchKeySet(_C.DispatchKey.Negative)

_get_mode: Final[Any] = getattr(_C, "_get_dispatch_mode", None)
_FAKE: Final[Any] = getattr(getattr(_C, "_TorchDispatchModeKey", None), "FAKE", None)
_PROXY: Final[Any] = getattr(getattr(_C, "_TorchDispatchModeKey", None), "PROXY", None)
_has_own: Final[dict[type, bool]] = {}


def has_own_dispatch(types: Iterable[type]) -> bool:
    """Return whether a tensor subclass in `types` has its own ``__torch_dispatch__``, which must run before a mode."""
    for kind in types:
        own = _has_own.get(kind)
        if own is None:
            disabled = getattr(_C, "_disabled_torch_dispatch_impl", None)
            own = _has_own[kind] = getattr(kind, "__torch_dispatch__", disabled) is not disabled
        if own:
            return True
    return False


def uses_conjugates(func: Any) -> bool:
    """Return whether `conjugation` changes what an operator computes with complex tensors."""
    return hasattr(func, "_schema") and func._schema.name in _CONJUGATING


def conjugation(func: Any) -> AbstractContextManager[None]:
    """Return the context in which the handler of a dispatch mode calls an operator.

    torch switches off the dispatch keys Conjugate and Negative for what a handler calls. A kernel that multiplies by a
    conjugated view, such as that of ``torch.linalg.pinv``, then computes with the values that are not conjugated.
    """
    if not uses_conjugates(func):
        return nullcontext()
    excluded = _C._dispatch_tls_local_exclude_set() - _KEYS
    guard: AbstractContextManager[None] = _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded)
    return guard


def is_faking() -> bool:
    """Return whether a FakeTensorMode is active, under which operators compute no values.

    torch keeps that mode below all others: it receives the operators that they call.
    """
    return _FAKE is not None and _get_mode(_FAKE) is not None


def is_recording_graph() -> bool:
    """Return whether ``make_fx`` traces, with a mode that torch keeps below those of users."""
    return _PROXY is not None and _get_mode(_PROXY) is not None


def without_graph_recording() -> AbstractContextManager[Any]:
    """Return the context in which the mode of ``make_fx`` records no operator."""
    context: AbstractContextManager[Any] = contextmanager(dispatch._disable_infra_mode)(_PROXY)
    return context


def enter(mode: Any) -> None:
    """Push a dispatch mode on this thread's stack, below the observers at its top."""
    observers = _observers_at_top() if not getattr(mode, OBSERVES, False) else []
    for observer in observers:
        observer.__exit__(None, None, None)
    mode.__enter__()
    for observer in reversed(observers):
        observer.__enter__()


def leave(mode: Any) -> bool:
    """Remove a dispatch mode from this thread's stack and keep all others; False if it is not on the stack."""
    if not is_entered(mode):
        return False
    above = []
    while (top := dispatch._pop_mode()) is not mode:
        above.append(top)
    if above:
        # The next mode above restores torch's flags to their values before ours.
        for name in _FLAGS:
            ours, theirs = getattr(mode, name, None), getattr(above[-1], name, None)
            if ours and theirs:
                theirs[-1] = ours.pop()
    else:
        dispatch._push_mode(mode)
        mode.__exit__(None, None, None)
    for other in reversed(above):
        dispatch._push_mode(other)
    return True


@contextmanager
def without_modes_above() -> Iterator[None]:
    """Switch off the dispatch modes above the one that executes operators, as torch does inside of some functions."""
    depth = _C._len_torch_dispatch_stack()
    executing = [position for position in range(depth) if getattr(_at(position), EXECUTES, False)]
    above = [dispatch._pop_mode() for _ in range(depth - 1 - executing[-1])] if executing else []
    try:
        yield
    finally:
        for mode in reversed(above):
            dispatch._push_mode(mode)


def is_entered(mode: Any) -> bool:
    """Return whether a dispatch mode is on this thread's stack."""
    return any(_at(position) is mode for position in range(_C._len_torch_dispatch_stack()))


def _at(position: int) -> Any:
    return _C._get_dispatch_stack_at(position)


def _observers_at_top() -> list[Any]:
    """Return the observers at the top of this thread's stack, top first."""
    found: list[Any] = []
    for position in reversed(range(_C._len_torch_dispatch_stack())):
        if not getattr(_at(position), OBSERVES, False):
            break
        found.append(_at(position))
    return found
