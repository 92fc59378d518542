"""Calls whose result or effect a replay does not repeat: clocks, random numbers, files, environment, output.

`CallWatch` observes the calls of a warm-up through ``sys.setprofile``. It also collects the functions that ran, because
their code can read values that no name in the user's program leads to (operators of classes, dispatch tables).
"""

from __future__ import annotations

import _random
import datetime
import functools
import gc
import importlib.util
import io
import logging
import os
import queue
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias

import torch

from cudalens.device.call_tracing import is_tracing_frame
from cudalens.device.stacks import Place, is_own, place_of
from cudalens.graphs.guards.files import is_of_program, is_searched
from cudalens.graphs.guards.found import Read
from cudalens.graphs.guards.lookups import ContextValue, Environment, MethodValue
from cudalens.graphs.guards.torch_getters import (
    FORMATS_TENSOR,
    may_read,
    read_of_builtin,
    read_of_call,
    read_printing,
)
from cudalens.graphs.guards.torch_methods import MethodCall, is_method, method_in_c
from cudalens.graphs.liveness import storage_id
from cudalens.graphs.reasons import Finding, Reason

#: Functions of modules, by the name of the module; None for all of its functions.
_FUNCTIONS: Final[Mapping[str, frozenset[str] | None]] = {
    "builtins": frozenset({"print", "input", "eval", "exec", "globals"}),
    "time": frozenset(
        name for name in dir(time) if not name.startswith(("_", "asctime", "get_", "mktime", "sleep", "str", "tz"))
    ),
    **dict.fromkeys(("io", "_io"), frozenset({"open", "open_code"})),  # the second from Python 3.12
    "_warnings": frozenset({"warn", "warn_explicit"}),
    "sys": frozenset(
        {"get_int_max_str_digits", "getallocatedblocks", "getrecursionlimit", "getrefcount", "getswitchinterval"}
    ),
    "gc": frozenset({"isenabled", "get_count", "get_debug", "get_objects", "get_stats", "get_threshold"}),
    "decimal": frozenset({"getcontext"}),
    "_locale": frozenset({"localeconv", "setlocale"}),
    "_signal": frozenset({"getitimer", "getsignal"}),
    "_thread": frozenset({"stack_size"}),
    "resource": frozenset({"getrlimit", "getrusage"}),
    "_tracemalloc": None,
    "torch._C": frozenset({"get_num_threads", "get_num_interop_threads"}),
    "_posixsubprocess": None,
    "_socket": None,
    "posix": None,
    "nt": None,
}

#: Modules of `_FUNCTIONS` that libraries call for limits, not for results, as `inspect.signature` does.
_OF_PROGRAM: Final = frozenset({"decimal", "_thread", "_tracemalloc", "gc", "sys", "torch._C"})

#: Modules whose functions users know by another module.
_SHOWN_MODULES: Final = {
    "posix": "os",
    "nt": "os",
    "_warnings": "warnings",
    "_io": "io",
    "torch._C": "torch",
    "_locale": "locale",
    "_signal": "signal",
    "_thread": "threading",
    "_tracemalloc": "tracemalloc",
}

#: Functions of `os` that depend on their arguments alone, or on what does not change in a process.
_HARMLESS: Final = frozenset({"fspath", "getpid", "getppid", "cpu_count", "sched_getaffinity", "register_at_fork"})

#: Python functions with an effect or a result of their own, and what they do.
_PYTHON: Final[Mapping[CodeType, str]] = {
    logging.Logger._log.__code__: "writes a log record",
    queue.Queue.put.__code__: "puts into a queue",
    queue.Queue.get.__code__: "takes from a queue",
    type(os.environ).__iter__.__code__: "reads all environment variables",
}

#: Functions of torch.cuda and torch.accelerator that read or reset what the allocator or the driver counts.
_COUNTED: Final = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
    "memory_stats_as_nested_dict", "memory_snapshot", "memory_summary", "mem_get_info", "get_memory_info",
    "host_memory_stats", "host_memory_stats_as_nested_dict", "list_gpu_processes", "device_memory_used",
    "reset_peak_memory_stats", "reset_accumulated_memory_stats", "memory_usage", "utilization", "temperature",
    "power_draw", "clock_rate",
)  # fmt: skip

#: The same, where code of the program calls them.
_PYTHON_OF_PROGRAM: Final[Mapping[CodeType, str]] = {
    threading.active_count.__code__: "threading.active_count()",
    threading.current_thread.__code__: "threading.current_thread()",
    threading.main_thread.__code__: "threading.main_thread()",
    threading.enumerate.__code__: "threading.enumerate()",
    **{
        function.__code__: f"{module.__name__}.{name}()"
        for module in (torch.cuda, torch.accelerator)
        for name in _COUNTED
        if isinstance(function := getattr(module, name, None), FunctionType)
    },
}

#: Runs for a warning that is not filtered out, also one of torch's.
_SHOWS_WARNING: Final[CodeType] = warnings._showwarnmsg.__code__  # type: ignore[attr-defined]

#: A recording answers it with True: code of the program would take another branch there than in eager execution.
#: Libraries ask it to leave a check out (`Variant.first_read`), and torch to refuse what it cannot capture.
_IS_CAPTURING: Final[CodeType] = torch.cuda.is_current_stream_capturing.__code__

#: Methods of a random generator that set its state regardless of the state before.
_SEEDING: Final = frozenset({"manual_seed", "seed", "set_offset", "set_state", "graphsafe_set_state"})

#: Methods of a tensor that read its memory without an operator.
_MEMORY_METHODS: Final = frozenset(
    {"numpy", "tolist", "__array__", "__dlpack__", "data_ptr", "storage", "untyped_storage"}
)

#: Methods that describe what a copy of a tensor in a graph does not share with it: its memory, how it was made.
_STORAGE_METHODS: Final = frozenset({"storage_offset", "untyped_storage", "data_ptr", "is_inference"})

#: The same, in Python.
_STORAGE: Final[CodeType] = torch.Tensor.storage.__code__


#: The class of autograd's engine.
_ENGINE: Final[Any] = type(torch.autograd.Variable._execution_engine)

#: The class of the owners of functions that pybind11 binds: they are not their modules.
_PYBIND: Final[Any] = type(torch._C._autograd._profiler_enabled.__self__)  # type: ignore[attr-defined]

#: Methods that read the state of a random generator, to restore it later.
_READING: Final = frozenset({"get_state", "graphsafe_get_state", "clone_state"})

#: Methods that read numbers of a random generator, which a seed outside of the call changes.
_NUMBERS: Final = frozenset({"initial_seed", "get_offset"})
_GENERATOR_METHODS: Final = _SEEDING | _READING | _NUMBERS

_ENVIRONMENT: Final = frozenset(
    getattr(type(os.environ), name).__code__ for name in ("__getitem__", "__setitem__", "__delitem__")
)
_STDLIB: Final = (*{sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}, "<frozen ")

#: Runs for every module that is not imported yet.
_IMPORT: Final[CodeType] = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]

#: Looks for a module that a program may import: whether it is installed does not change during a session.
_FIND_MODULE: Final[CodeType] = importlib.util.find_spec.__code__

_OWN: Final = __file__.rpartition("graphs")[0]

#: Modules of cudalens that call the user's code; others call libraries for their own work.
_DIRECT: Final = tuple(f"{_OWN}graphs/{name}.py" for name in ("programs", "functions", "manager"))

#: Those, and a module that calls functions of torch, which call the user's code.
_CALLERS: Final = (
    *_DIRECT,
    f"{_OWN}virtual/tensors/device_arguments.py",
    f"{_OWN}virtual/dispatch/autograd.py",
)

#: The module of cudalens that wraps methods of tensors for a virtual device.
_METHODS: Final = f"{_OWN}virtual/tensors/attributes.py"

#: Files whose frames are between a method of a tensor and its caller.
_BETWEEN: Final = (_METHODS, f"{_OWN}virtual/tensors/device_arguments.py", torch._tensor.__file__)

#: Modules that call operators, which can be Python code of libraries. An `Observer` does not see the operators in it.
_OPERATORS: Final = tuple(f"{_OWN}{name}.py" for name in ("graphs/observer", "virtual/dispatch/mode"))

_TORCH: Final = torch.__file__.rpartition("__init__")[0]


#: The code of a function, and the identities of the values of its variables from around it.
Closure: TypeAlias = tuple[CodeType, tuple[int, ...]]

#: Why a variant runs without a graph where `can_observe_calls` is False: its Python code cannot be observed.
PROFILED: Final = Finding(Reason.OBSERVED, "a profiler of Python calls, which prevents a warm-up")


class CallWatch:
    """Observes the calls of the calling thread while it is entered.

    Where `can_observe_calls` is False, nothing can be observed.

    Attributes:
        findings: What a replay would not repeat, in the order of the calls, each kind once.
        functions: Functions of the user and of libraries whose code ran, without their closures.
        operators: Those among `functions` that an operator of a library ran.
        closures: Those among `functions` with variables from around them: what these were when a call began.
        values: Environment variables, ContextVars and states of torch that were read, with their values before that.
        observers: Called with the events of frames of this code.
        host_reads: CPU tensors whose memory methods read, each with the method and the line.
        storage_reads: Storages of tensors on the device which the program's code asks for, each with the method and
            the line.
        has_backward: Whether autograd ran a backward, which reads the hooks of tensors.
        watched: Code whose calls are attributed to the function that was called.
        called: Those functions; None for a call of which it is not known.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.functions: dict[CodeType, FunctionType] = {}
        self.operators: dict[CodeType, FunctionType] = {}
        self.closures: set[Closure] = set()
        self.values: list[Read] = []
        self.observers: dict[CodeType, Callable[[FrameType, str], None]] = {}
        self.host_reads: list[tuple[torch.Tensor, str, Place]] = []
        self.storage_reads: list[tuple[int, str, Place]] = []
        self.has_backward = False
        self._read_states: set[int] = set()
        self.watched: frozenset[CodeType] = frozenset()
        self.called: list[FunctionType | None] = []
        self._returned: list[FrameType] = []
        self._methods: dict[FrameType, MethodCall] = {}
        self._seen: set[CodeType] = set()
        self._before: Any = sys.getprofile()
        self._once = {_IMPORT, _FIND_MODULE, *(getattr(callback, "__code__", None) for callback in gc.callbacks)}
        self._outermost: FrameType | None = None

    def __enter__(self) -> CallWatch:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *error: object) -> None:
        if sys.getprofile() == self._on_event:
            sys.setprofile(self._before)
        self._attribute()
        self._methods.clear()
        self.values = [at for at in self.values if not isinstance(at.container, MethodValue) or at.container.is_alive()]

    def executed(self) -> list[tuple[str, FunctionType]]:
        """The functions that ran, by name."""
        return [(code.co_qualname, function) for code, function in self.functions.items()]

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        if self._before is not None:
            self._before(frame, event, arg)
        if self._returned:
            self._attribute()
        if self._runs_once(frame, event):
            return
        if frame.f_code in self.observers:
            self.observers[frame.f_code](frame, event)
        if event == "call":
            self._on_call(frame)
        elif event == "c_call":
            self._on_builtin(frame, arg)
        elif event == "return":
            if frame in self._methods:
                self._note_method(self._methods.pop(frame).result(arg), frame)
            if frame.f_code in self.watched:
                self._returned.append(frame)

    def _on_call(self, frame: FrameType) -> None:
        if frame.f_code not in self._seen:
            self._on_python(frame)
        if frame.f_code.co_freevars and frame.f_code in self.functions:
            values, names = frame.f_locals, frame.f_code.co_freevars
            self.closures.add((frame.f_code, tuple([id(values[name]) if name in values else 0 for name in names])))
        if is_method(frame.f_code):
            if self._is_called_by_program(frame):
                self._methods[frame] = MethodCall(frame)
        elif may_read(frame.f_code):
            self._note_getter(frame)
        name = frame.f_code.co_name
        is_own_read = name in _NUMBERS and frame.f_back is not None and is_own(frame.f_back.f_code.co_filename)
        if name in _GENERATOR_METHODS and not is_own_read:
            self._on_generator(frame.f_locals.get("self"), name, frame)
        elif frame.f_code is _STORAGE:
            self._note_storage(frame.f_locals["self"], "storage", frame)
        elif frame.f_code is FORMATS_TENSOR:
            self._note_value(read_printing())
        elif frame.f_code is _SHOWS_WARNING:
            self._note_at_caller("a warning", frame)
        elif frame.f_code is _IS_CAPTURING and frame.f_back is not None and _is_of_user(frame.f_back):
            self._note_at_caller("torch.cuda.is_current_stream_capturing()", frame)

    def _attribute(self) -> None:
        """A frame that ended gives the garbage collector its function, which no attribute of it does."""
        while self._returned:
            frame = self._returned.pop()
            functions = (held for held in gc.get_referents(frame) if isinstance(held, FunctionType))
            self.called.append(next((held for held in functions if held.__code__ is frame.f_code), None))

    def _runs_once(self, frame: FrameType, event: str) -> bool:
        """Whether code runs that later calls do not run: of a module that is imported, or in ``gc.callbacks``."""
        if self._outermost is None and event == "call" and frame.f_code in self._once:
            self._outermost = frame
        elif self._outermost is frame and event == "return":
            self._outermost = None
            return True
        return self._outermost is not None

    def _on_python(self, frame: FrameType) -> None:
        code = frame.f_code
        if code in _ENVIRONMENT:
            if _user_frame(frame) is not None:
                key = str(frame.f_locals.get("key"))
                self._note_value(Read(Environment(), key, f"os.environ[{key!r}]", os.environ.get(key)))
            return
        self._seen.add(code)
        if code in _PYTHON:
            self._note(_PYTHON[code], frame)
            self._seen.discard(code)  # another caller may be the user's
        elif code in _PYTHON_OF_PROGRAM:
            if frame.f_back is not None and _is_of_user(frame.f_back):
                self._note(_PYTHON_OF_PROGRAM[code], frame.f_back)
            self._seen.discard(code)
        elif is_searched(code.co_filename) and not code.co_filename.startswith(_TORCH):
            if not _is_users(frame):
                self._seen.discard(code)
                return
            cells = tuple(CellType() for _ in code.co_freevars)
            self.functions[code] = FunctionType(code, frame.f_globals, code.co_name, None, cells)
            if _nearest_own(frame) in _OPERATORS:
                self.operators[code] = self.functions[code]

    def _on_builtin(self, frame: FrameType, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        kind: Any = type(owner)
        rule = _rule_of(kind)
        if rule is None:
            if kind is _PYBIND and _is_of_user(frame):
                self._note_pybind(function, frame)
            return
        if isinstance(owner, torch._C.Generator):
            if not is_own(frame.f_code.co_filename):  # the virtual device computes dropout again from a state
                self._on_generator(owner, function.__name__, frame)
        elif isinstance(owner, torch.Tensor):
            self._on_tensor(owner, function.__name__, frame)
        elif isinstance(owner, _ENGINE):
            self.has_backward = True
        elif isinstance(owner, ContextVar):
            if _user_frame(frame) is not None:
                value = ContextValue(owner)
                self._note_value(Read(value, "", f"ContextVar {owner.name!r}", value[""]))
        elif isinstance(owner, ModuleType) and owner.__name__ in _OF_PROGRAM and not _is_of_user(frame):
            return
        elif (what := rule(owner, function.__name__)) is not None:
            self._note(what, frame)
        elif isinstance(owner, ModuleType) and _is_of_user(frame):
            self._note_getter_in_c(function)

    def _on_tensor(self, tensor: torch.Tensor, method: str, frame: FrameType) -> None:
        """A method that reads the memory of a CPU tensor without an operator."""
        file = frame.f_code.co_filename
        is_wrapped = method in ("numpy", "tolist") and file in (*_CALLERS, _METHODS)
        is_users = is_wrapped or not is_own(file)
        if method in _MEMORY_METHODS and is_users and tensor.device.type == "cpu":
            place = caller_of(frame) if is_own(file) else _place(frame)
            self.host_reads.append((tensor, method, place or _place(frame)))
        elif method in _STORAGE_METHODS and is_of_program(file):
            self._note_storage(tensor, method, frame)
        elif file == _METHODS and frame.f_code.co_name in _STORAGE_METHODS:
            self._note_storage(tensor, frame.f_code.co_name, frame)

    def _note_storage(self, tensor: Any, method: str, frame: FrameType) -> None:
        """A method whose result for a copy of a tensor is another one, if the program's code called it."""
        at: FrameType | None = frame
        while at is not None and at.f_code.co_filename in _BETWEEN:
            at = at.f_back
        if at is not None and is_of_program(at.f_code.co_filename) and tensor.is_cuda:
            self.storage_reads.append((storage_id(tensor), f"{method}()", _place(at)))

    def _on_generator(self, generator: Any, method: str, frame: FrameType) -> None:
        """A random generator is seeded, or its seed read. To restore a state that the call has read changes nothing."""
        if not isinstance(generator, torch._C.Generator) or method not in _GENERATOR_METHODS:
            return
        key = int(generator._cdata)  # type: ignore[attr-defined]
        if method in _READING:
            self._read_states.add(key)
            return
        is_restored = method.endswith("set_state") and key in self._read_states
        if not is_restored:
            self._note_at_caller(f"{method}() of a random generator", frame)

    def _note_at_caller(self, what: str, frame: FrameType) -> None:
        """Something that happens in libraries, at the line of the program that led to it."""
        place = caller_of(frame)
        if place is not None and all(finding.what != what for finding in self.findings):
            self.findings.append(Finding(Reason.OUTSIDE_CALL, what, place))

    def _note_getter(self, frame: FrameType) -> None:
        """A getter of torch that code of the program calls."""
        if self._is_called_by_program(frame) and frame.f_code not in _PYTHON_OF_PROGRAM:
            read = read_of_call(frame)
            if read is not None:
                self._note_value(read)

    @staticmethod
    def _is_called_by_program(frame: FrameType) -> bool:
        at = frame.f_back
        while at is not None and at.f_code.co_filename in _BETWEEN:
            at = at.f_back
        return at is not None and _is_of_user(at)

    def _note_method(self, result: Read | str | None, frame: FrameType) -> None:
        if isinstance(result, str):
            self._note_at_caller(result, frame)
        elif result is not None and result.container not in [known.container for known in self.values]:
            self.values.append(result)

    def _note_getter_in_c(self, function: Any) -> None:
        read = read_of_builtin(function)
        if read is not None:
            self._note_value(read)

    def _note_pybind(self, function: Any, frame: FrameType) -> None:
        """A function or a method that pybind11 binds: it has no object, so a method cannot be called again."""
        if (method := method_in_c(function)) is not None:
            self._note(method, frame)
        else:
            self._note_getter_in_c(function)

    def _note_value(self, read: Read) -> None:
        if all(known.label != read.label for known in self.values):
            self.values.append(read)

    def _note(self, what: str, frame: FrameType) -> None:
        user = _user_frame(frame)
        if user is not None and all(finding.what != what for finding in self.findings):
            self.findings.append(Finding(Reason.OUTSIDE_CALL, what, _place(user)))


def closure_of(function: FunctionType) -> Closure:
    """The same of a function: equal closures are those of one function, or of functions that do the same."""
    return function.__code__, tuple(map(_identity, function.__closure__ or ()))


def _identity(cell: CellType) -> int:
    try:
        return id(cell.cell_contents)
    except ValueError:  # the variable has no value
        return 0


def _user_frame(frame: FrameType | None) -> FrameType | None:
    """The caller outside the standard library; None where that is torch, cudalens or another library without names."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_STDLIB) or "site-packages" in file:
            break
        frame = frame.f_back
    return frame if frame is not None and is_searched(frame.f_code.co_filename) and _is_users(frame) else None


def caller_of(frame: FrameType) -> Place | None:
    """The nearest line of a program that led to a frame of torch; None if there is none."""
    at = frame.f_back
    while at is not None and (not is_searched(at.f_code.co_filename) or at.f_code.co_filename.startswith(_TORCH)):
        at = at.f_back
    return None if at is None else _place(at)


def can_observe_calls() -> bool:
    """Whether no tool has a profile function that is not written in Python, which could not be restored."""
    return isinstance(sys.getprofile(), FunctionType | MethodType | None)


def _is_users(frame: FrameType | None) -> bool:
    """Whether a call belongs to the function that is warmed up, and not to the work of cudalens on an operator."""
    own = _nearest_own(frame)
    return own is None or own in _CALLERS or own in _OPERATORS


def _nearest_own(frame: FrameType | None) -> str | None:
    """The file of the nearest caller in cudalens, "" where that called the code itself; None if there is none."""
    called = None
    while frame is not None and (is_tracing_frame(frame) or not is_own(frame.f_code.co_filename)):
        called, frame = called if is_tracing_frame(frame) else frame, frame.f_back
    if frame is None or called is None:
        return None if frame is None else ""
    file = frame.f_code.co_filename
    is_direct = not called.f_code.co_filename.startswith(_TORCH)
    return "" if is_direct and file not in _DIRECT else file


def _place(frame: FrameType) -> Place:
    return place_of(frame.f_code, frame.f_lasti) or Place(frame.f_code, frame.f_lasti)


def _is_of_user(frame: FrameType) -> bool:
    """Whether a call belongs to the function that is warmed up, and its code to the program."""
    return is_of_program(frame.f_code.co_filename) and _is_users(frame)


@functools.cache
def _rule_of(kind: Any) -> Callable[[Any, str], str | None] | None:
    """What finds out whether a built-in of this kind of owner is one that a replay does not repeat; None if none is."""
    return next((rule for owners, rule in _RULES if issubclass(kind, owners)), None)


def _of_module(module: ModuleType, name: str) -> str | None:
    known = _FUNCTIONS.get(module.__name__, frozenset())
    if (known is not None and name not in known) or name in _HARMLESS:
        return None
    shown = _SHOWN_MODULES.get(module.__name__, module.__name__)
    return f"{shown}.{name}()".removeprefix("builtins.")


def _of_class(kind: type, name: str) -> str | None:
    is_clock = issubclass(kind, datetime.date) and name in ("now", "today", "utcnow")
    return f"{kind.__name__}.{name}()" if is_clock else None


def _of_file(file: io.IOBase, name: str) -> str | None:
    if isinstance(file, io.StringIO | io.BytesIO) or not name.startswith(("read", "write", "seek", "truncate")):
        return None
    return f"{name}() of a file"


_RULES: Final[Iterable[tuple[Any, Callable[[Any, str], str | None]]]] = (
    (ModuleType, _of_module),
    (type, _of_class),
    (_random.Random, lambda generator, name: f"random.{name}()"),
    (io.IOBase, _of_file),
    (ContextVar, lambda variable, name: name),
    (torch._C.Generator, lambda generator, name: name),
    (_ENGINE, lambda engine, name: name),
    (torch.Tensor, lambda tensor, name: name),
)
