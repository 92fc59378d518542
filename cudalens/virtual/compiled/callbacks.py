"""Callbacks of Dynamo that compile for a virtual device, apart from code that was compiled for other devices.

Dynamo keeps compiled code with the function's code object, and uses it only for the backend that compiled it. Each
virtual device has backends of its own: its code never runs without it, and code for other devices never runs on it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cudalens
from cudalens.errors import VirtualDeviceError

if TYPE_CHECKING:
    from cudalens.virtual.compiled.session import Session

_OWN_CODE: Final = str(Path(cudalens.__file__).parent)

_STANCE: Final = (
    "torch.compile with this stance ({what}) is not supported while a virtual CUDA device is active. Use "
    "torch.compiler.set_stance('default') or 'force_eager'."
)


def make_backend(backend: Any) -> Callable[..., Any]:
    """A backend of torch.compile that differs from `backend` for Dynamo, and does the same."""

    def compile_for_device(*args: Any, **kwargs: Any) -> Any:
        return backend(*args, **kwargs)

    # Dynamo reads options from attributes, and takes the object at the end of these links for the backend.
    attributes = {name: getattr(backend, name) for name in dir(backend) if not name.startswith("_")}
    vars(compile_for_device).update(attributes)
    named = innermost(backend)
    compile_for_device.__name__ = str(getattr(named, "compiler_name", None) or getattr(named, "__name__", "backend"))
    return compile_for_device


def innermost(backend: Any) -> Any:
    """The backend that a program named, inside of torch's wrappers."""
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return backend


class DeviceCallback:
    """Compiles a frame for a virtual device.

    Args:
        session: The session of the device.
        callback: Dynamo's callback.

    Raises:
        VirtualDeviceError: The callback is not one that can be copied with another backend.
    """

    def __init__(self, session: Session, callback: Any) -> None:
        from torch._dynamo.convert_frame import catch_errors_wrapper

        convert = getattr(callback, "_torchdynamo_orig_backend", None)
        if not hasattr(convert, "_clone_with_backend"):
            raise VirtualDeviceError(_STANCE.format(what=type(callback).__name__))
        self._session = session
        inner: Any = convert
        backend = session.backend_of(inner._torchdynamo_orig_backend)
        self._convert = catch_errors_wrapper(inner._clone_with_backend(backend), callback.hooks)
        self._torchdynamo_orig_backend = self._convert

    def __call__(self, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        """Compile a frame, or leave code of cudalens as it is."""
        from torch._dynamo import types

        if frame.f_code.co_filename.startswith(_OWN_CODE):
            actions: Any = types
            skip = actions.FrameExecStrategy(actions.FrameAction.SKIP, actions.FrameAction.SKIP)
            return actions.ConvertFrameReturn(frame_exec_strategy=skip, skip_reason="code of the virtual device")
        with self._session.scope():
            return self._convert(frame, cache_entry, frame_state)
