"""The roots of a search for names: variables of the notebook or script, IPython's outputs, exceptions, calls."""

from __future__ import annotations

import re
import sys
import sysconfig
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cudalens.device.stacks import is_passed_by

Named = Iterable[tuple[str, Any]]

#: Prefix of names in the traceback of the exception that is propagating.
EXCEPTION: Final = "<exception>"
#: Prefix of names in the last exception: Python keeps its traceback, and with it the variables.
LAST_EXCEPTION: Final = "<last exception>"
#: Prefix of names of variables in running functions.
CALL: Final = "<call>"

#: Sets of asyncio's tasks by version of Python: `asyncio.all_tasks` has those of one loop only.
_TASKS: Final = ("_scheduled_tasks", "_all_tasks")
_KEPT_BY_IPYTHON: Final = re.compile(r"_+\Z|_\d+\Z")
_HAS_PROXIES: Final = sys.version_info >= (3, 13)
_STANDARD: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


@dataclass(frozen=True)
class Roots:
    """The roots of a search.

    Attributes:
        variables: Variables of the program, by name.
        outputs: IPython's ``Out``, by the number of the cell.
        shortcuts: IPython's ``_``, ``__``, ``_7`` …; searched after ``Out``.
        error: The exception that is propagating, or None.
        passed_by: Objects that the search skips: the namespaces themselves.
        has_calls: Whether the variables of running functions are searched too.
    """

    variables: Mapping[str, Any]
    outputs: Mapping[Any, Any] = field(default_factory=dict)
    shortcuts: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    passed_by: tuple[Any, ...] = ()
    has_calls: bool = True

    def kinds(self) -> Iterator[Named]:
        """Names with their values, kind by kind, the most useful names first."""
        yield self.variables.items()
        yield ((f"Out[{number}]", value) for number, value in list(self.outputs.items()) if type(number) is int)
        yield _modules()
        yield self.shortcuts.items()
        if self.error is not None:
            yield error_locals(self.error, EXCEPTION)
        if (last := last_error()) is not None and last is not self.error:
            yield error_locals(last, LAST_EXCEPTION)
        if self.has_calls:
            yield _calls()


def roots_of(
    namespace: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
    shell: Any = None,
    outputs: Mapping[int, Any] | None = None,
) -> Roots:
    """Return the roots in this process: the notebook's variables if IPython runs, else those of ``__main__``.

    Args:
        namespace: Variables to search instead.
        error: The exception that is propagating, or None.
        shell: IPython's shell, if it is not the one of this process.
        outputs: Values that IPython has not displayed yet, by the number of their cell.
    """
    shell, main = shell or _shell(), vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    if namespace is not None:
        given = {name: value for name, value in list(namespace.items()) if type(name) is str}
        return Roots(given, error=error, passed_by=(namespace, main))
    if shell is None:
        return Roots(_plain(main), error=error, passed_by=(main,))
    own = shell.user_ns
    hidden = shell.user_ns_hidden.keys() - {"_", "__", "___"}
    rest = {name: value for name, value in list(own.items()) if name not in hidden and type(name) is str}
    shortcuts = {name: value for name, value in rest.items() if _KEPT_BY_IPYTHON.match(name)}
    shown = own.get("_oh")
    return Roots(
        _plain({name: value for name, value in rest.items() if name not in shortcuts}),
        {**(shown if type(shown) is dict else {}), **(outputs or {})},
        shortcuts,
        error,
        (own, main, shown, shell.user_ns_hidden),
    )


def _plain(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a program, without names that begin with two underscores."""
    return {name: value for name, value in list(namespace.items()) if not name.startswith("__")}


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def is_users(module: Any) -> bool:
    """Return whether a module belongs to the program, and not to Python or an installed package."""
    try:
        file = types.ModuleType.__getattribute__(module, "__file__")
    except (AttributeError, TypeError):
        return False
    return type(file) is str and is_users_file(file)


def is_users_file(file: str) -> bool:
    """Return whether a source file belongs to the program."""
    if "site-packages" in file or "dist-packages" in file or is_passed_by(file):
        return False
    return not file.startswith(_STANDARD)


def _modules() -> Named:
    """Yield the program's modules, which may hold tensors without a variable in the notebook."""
    for name, module in list(sys.modules.items()):
        if name not in ("__main__", "__mp_main__") and type(module) is types.ModuleType and is_users(module):
            yield name, module


def last_error() -> BaseException | None:
    """Return the last uncaught exception, as Python keeps it."""
    for name in ("last_exc", "last_value"):
        if isinstance(found := getattr(sys, name, None), BaseException):
            return found
    return None


def error_locals(error: BaseException, name: str) -> Named:
    """Yield the variables in an exception's traceback, and in those of its causes."""
    running = _running()
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
        trail = one.__traceback__
        while trail is not None:
            frame = trail.tb_frame
            if _has_own_variables(frame):
                yield from _locals(frame, f"{name}.{frame.f_code.co_name}", is_running=id(frame) in running)
            trail = trail.tb_next


def _calls() -> Named:
    """Yield the variables of the program's running functions, of this thread first, and its tasks of asyncio."""
    others = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
    frames = deque([sys._getframe().f_back, *others])
    while frames:
        frame = frames.popleft()
        if frame is None:
            continue
        if _has_own_variables(frame) and is_users_file(frame.f_code.co_filename):
            yield from _locals(frame, f"{CALL}.{frame.f_code.co_name}", is_running=True)
        frames.appendleft(frame.f_back)
    del others, frame  # a frame that a variable of its own refers to stays alive, with all variables of its callers
    yield from _tasks()


def _tasks() -> Named:
    """Yield the coroutines of asyncio's tasks that wait, by the name of their function."""
    module = sys.modules.get("asyncio.tasks")
    known = next((found for name in _TASKS if (found := getattr(module, name, None)) is not None), ())
    for task in list(known):
        coroutine = task.get_coro() if hasattr(task, "get_coro") else None
        if type(coroutine) is types.CoroutineType and is_users_file(coroutine.cr_code.co_filename):
            yield f"{CALL}.{coroutine.cr_code.co_name}", coroutine


def _running() -> set[int]:
    found: set[int] = set()
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found


def _has_own_variables(frame: types.FrameType) -> bool:
    """Return whether it is the frame of a function: the variables of modules and cells are the program's."""
    return bool(frame.f_code.co_flags & 0x01)  # CO_OPTIMIZED


def _locals(frame: types.FrameType, name: str, *, is_running: bool) -> Named:
    """Yield a function's variables.

    Before Python 3.13, ``f_locals`` of a running function creates a dict that stays with the frame, and would keep
    alive objects that the function releases later: it is cleared, unless the program has it from ``locals()``.
    """
    found = frame.f_locals
    yield from [(f"{name}.{local}", value) for local, value in found.items()]
    if is_running and not _HAS_PROXIES and sys.getrefcount(found) <= _OWN_REFERENCES:
        found.clear()


#: Reference count of a dict that only its stack frame and the caller of ``sys.getrefcount`` reference.
_OWN_REFERENCES: Final = 3
