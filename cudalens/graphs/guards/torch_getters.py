"""Find states of torch that a program reads by a call or a property: ``torch.distributed.is_initialized()``.

No name in the program's code leads to such a state, so the getter itself is called again before each replay. A getter
is found by a rule, not by a list: a function of torch named like one, whose arguments and result are plain values.
`finding_around` and `settings` of `ambient` compare the settings that operators depend on, however they are read.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import torch
import torch._tensor_str

from cudalens.graphs.guards.files import is_of_torch
from cudalens.graphs.guards.found import Read
from cudalens.graphs.guards.lookups import CallValue

#: Names of functions and methods that read a state.
GETTER_NAME: Final = re.compile(
    r"_?(is|are|has|get|current|preferred|list|supported)_\w+|\w+_(enabled|allowed|available|initialized|size|count)"
)

#: Getters that set the state if they are called with a value.
_SETS_TOO: Final = re.compile(r"preferred_|\w+_size$")

#: Getters of what `ambient.settings` compares. A region inside of the call may change these for itself.
_COMPARED: Final = frozenset(
    {
        "are_deterministic_algorithms_enabled",
        "cudnn_sdp_enabled",
        "flash_sdp_enabled",
        "get_autocast_dtype",
        "get_autocast_gpu_dtype",
        "get_default_device",
        "get_default_dtype",
        "get_deterministic_debug_mode",
        "get_fastpath_enabled",
        "is_anomaly_check_nan_enabled",
        "is_anomaly_enabled",
        "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled",
        "is_autocast_enabled",
        "is_deterministic_algorithms_warn_only_enabled",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "math_sdp_enabled",
        "mem_efficient_sdp_enabled",
    }
)

#: The same of properties.
_COMPARED_PROPERTIES: Final = frozenset(
    f"torch.backends.{name}" for name in ("cudnn.benchmark", "cudnn.deterministic", "cudnn.enabled")
)

#: Getters whose answer belongs to the recording (the stream, the capture), or that `CallWatch` refuses.
_OF_RECORDING: Final = frozenset(
    {"current_stream", "default_stream", "get_num_interop_threads", "get_num_threads", "is_current_stream_capturing"}
)
_LEFT_OUT: Final = _COMPARED | _OF_RECORDING

_PLAIN: Final[Any] = (
    bool, int, float, str, bytes, type, type(None), enum.Enum, FunctionType, BuiltinFunctionType,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
_CONTAINERS: Final[Any] = (tuple, list, set, frozenset)
_VARIADIC: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

#: Formats a tensor as text: `repr` and `str` of a tensor, by the options of ``torch.set_printoptions``.
FORMATS_TENSOR: Final[CodeType] = torch._tensor_str._str.__code__


def read_printing() -> Read:
    """The options that `repr` of a tensor depends on."""
    container = CallValue(_print_options)
    return Read(container, "", "torch.set_printoptions()", container[""])


def _print_options() -> str:
    return repr(dataclasses.astuple(torch._tensor_str.PRINT_OPTS))


@functools.cache
def may_read(code: CodeType) -> bool:
    """Whether code is that of a getter or property of torch, judged by its name."""
    if not is_of_torch(code.co_filename):
        return False
    is_property = code.co_name in ("__get__", "__getattr__")
    return is_property or (GETTER_NAME.fullmatch(code.co_name) is not None and code.co_name not in _LEFT_OUT)


def read_of_call(frame: FrameType) -> Read | None:
    """The state that a Python function of torch reads, whose frame begins; None if it is not one that can be compared.

    Args:
        frame: A frame for whose code `may_read` is True.
    """
    code, values = frame.f_code, frame.f_locals
    if code.co_name == "__getattr__":
        owner, name = (values[variable] for variable in code.co_varnames[:2])
        return _read(functools.partial(getattr, owner, name), (), _property_label(owner, name))
    if code.co_name == "__get__":
        prop, owner = (values[variable] for variable in code.co_varnames[:2])
        name = next((name for name, value in vars(type(owner)).items() if value is prop), None)
        if name is None:
            return None
        return _read(functools.partial(getattr, owner, name), (), _property_label(owner, name))
    function = _function_of(frame)
    if function is None:
        return None
    num_named = code.co_argcount + code.co_kwonlyargcount
    num_all = num_named + (code.co_flags & _VARIADIC).bit_count()
    if any(values[variable] for variable in code.co_varnames[num_named:num_all]):
        return None
    is_bound = inspect.ismethod(function)
    names = code.co_varnames[is_bound : code.co_argcount]
    given = tuple(values[name] for name in names)
    keywords = {name: values[name] for name in code.co_varnames[code.co_argcount : num_named]}
    arguments = (*given, *keywords.values())
    if not all(map(is_plain, arguments)) or (_SETS_TOO.match(code.co_name) and any(arguments)):
        return None
    shown = ", ".join(repr(value) for value in given if value is not None)
    return _read(functools.partial(function, **keywords), given, f"{_module_label(frame)}.{code.co_qualname}({shown})")


def read_of_builtin(function: Any) -> Read | None:
    """The same of a function in C without arguments, whose owner is a module, or an object of pybind11."""
    owner, name = getattr(function.__self__, "__name__", None) or str(function.__module__), function.__name__
    if str(owner).partition(".")[0] != "torch" or name in _LEFT_OUT or GETTER_NAME.fullmatch(name) is None:
        return None
    shown = "torch" if hasattr(torch, name) else owner
    return _read(function, (), f"{shown}.{name}()")


def _read(function: Callable[..., Any], arguments: tuple[Any, ...], label: str) -> Read | None:
    try:
        value = function(*arguments)
    except Exception:  # the program gets the same error; a function in C that needs arguments
        return None
    if label in _COMPARED_PROPERTIES or not is_plain(value):
        return None
    container = CallValue(function, *arguments)
    return Read(container, "", label, container[""])


def is_plain(value: Any) -> bool:
    """Whether a value is a number, text, a constant of torch or a function, or a container of these alone."""
    if isinstance(value, dict):
        return all(map(is_plain, (*value, *value.values())))
    if isinstance(value, _CONTAINERS):
        return all(map(is_plain, value))
    return isinstance(value, _PLAIN) or hasattr(type(value), "__members__")  # the latter: an enum in C++


def _function_of(frame: FrameType) -> Any:
    """The public function, static method or class method that a frame runs; None for other functions."""
    found: Any = frame.f_globals
    for part in frame.f_code.co_qualname.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    function = inspect.unwrap(found) if callable(found) else None
    return found if getattr(function, "__code__", None) is frame.f_code else None


def _module_label(frame: FrameType) -> str:
    """The module by which users know a function: without the private module that defines it."""
    parts = str(frame.f_globals.get("__name__", "torch")).split(".")
    is_private = [part.startswith("_") and not part.endswith("__") for part in parts]
    return ".".join(parts[: is_private.index(True)] if any(is_private) else parts)


def _property_label(owner: Any, name: str) -> str:
    module = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__module__
    return f"{module}.{name}"
