"""Where a search for names begins: the variables of a notebook or a script, IPython's outputs, exceptions, calls."""

from __future__ import annotations

import re
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cudalens.device.stacks import is_passed_by

Named = Iterable[tuple[str, Any]]

#: Begins the names of what the exception holds that is passing through.
EXCEPTION: Final = "<exception>"
#: Begins the names of what the last exception holds: Python keeps its traceback, and with it the variables there.
LAST_EXCEPTION: Final = "<last exception>"
#: Begins the names of what functions hold that are running.
CALL: Final = "<call>"

_KEPT_BY_IPYTHON: Final = re.compile(r"_+\Z|_\d+\Z")
_HAS_PROXIES: Final = sys.version_info >= (3, 13)
_STANDARD: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


@dataclass(frozen=True)
class Roots:
    """Where to begin.

    Attributes:
        variables: The program's, by name.
        outputs: IPython's ``Out``, by the number of the cell.
        shortcuts: IPython's ``_``, ``__``, ``_7`` …; looked at last, for what ``Out`` does not hold.
        error: The exception that is passing through, or None.
        passed_by: Objects that are not looked into where the search meets them: the namespaces themselves.
        has_calls: Whether the variables of functions that are running are looked at, too.
    """

    variables: Mapping[str, Any]
    outputs: Mapping[Any, Any] = field(default_factory=dict)
    shortcuts: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    passed_by: tuple[Any, ...] = ()
    has_calls: bool = True

    def kinds(self) -> Iterator[Named]:
        """Names with their values, kind by kind, those that say most first."""
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
    """Where to begin in this process: in the notebook where IPython runs, else in ``__main__``.

    Args:
        namespace: Variables to look at in their place.
        error: The exception that is passing through, or None.
        shell: IPython's shell, where it is not the one of this process.
        outputs: Values that IPython will show, by the number of their cell.
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
    """Names of a program, without Python's and ours."""
    return {name: value for name, value in list(namespace.items()) if not name.startswith("__")}


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def is_users(module: Any) -> bool:
    """Whether a module is a part of the program, and not of Python or of what was installed."""
    try:
        file = types.ModuleType.__getattribute__(module, "__file__")
    except (AttributeError, TypeError):
        return False
    return type(file) is str and is_users_file(file)


def is_users_file(file: str) -> bool:
    """Whether source is the program's own."""
    if "site-packages" in file or "dist-packages" in file or is_passed_by(file):
        return False
    return not file.startswith(_STANDARD)


def _modules() -> Named:
    """The program's modules, which may hold tensors though no variable names them."""
    for name, module in list(sys.modules.items()):
        if name not in ("__main__", "__mp_main__") and type(module) is types.ModuleType and is_users(module):
            yield name, module


def last_error() -> BaseException | None:
    """The exception that Python remembers as the last that nobody caught."""
    for name in ("last_exc", "last_value"):
        if isinstance(found := getattr(sys, name, None), BaseException):
            return found
    return None


def error_locals(error: BaseException, name: str) -> Named:
    """The variables in an exception's traceback, and in those of its causes."""
    running = _running()
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
        yield from _of_traceback(one.__traceback__, name, running)


def _of_traceback(trail: types.TracebackType | None, name: str, running: set[int]) -> Named:
    while trail is not None:
        frame = trail.tb_frame
        if _has_own_variables(frame):
            yield from _locals(frame, f"{name}.{frame.f_code.co_name}", is_running=id(frame) in running)
        trail = trail.tb_next


def _calls() -> Named:
    """What the functions of the program that are running hold."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if _has_own_variables(frame) and is_users_file(frame.f_code.co_filename):
            yield from _locals(frame, f"{CALL}.{frame.f_code.co_name}", is_running=True)
        frame = frame.f_back


def _running() -> set[int]:
    found: set[int] = set()
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found


def _has_own_variables(frame: types.FrameType) -> bool:
    """Whether it is a function's: those of modules and cells have the names of the program."""
    return bool(frame.f_code.co_flags & 0x01)  # CO_OPTIMIZED


def _locals(frame: types.FrameType, name: str, *, is_running: bool) -> Named:
    """A function's variables.

    Before Python 3.13 ``f_locals`` of a function that is running makes a dict of them that stays with it, and would
    keep alive what the function lets go of later: it is emptied, unless the program has got it from ``locals()``.
    """
    found = frame.f_locals
    yield from [(f"{name}.{local}", value) for local, value in found.items()]
    if is_running and not _HAS_PROXIES and sys.getrefcount(found) <= _OWN_REFERENCES:
        found.clear()


#: To a dict that nobody but its stack frame and the caller of ``sys.getrefcount`` knows.
_OWN_REFERENCES: Final = 3
