"""Settings of torch that change time or values: read, compared and restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

_cudnn: Any = torch.backends.cudnn
_matmul: Any = torch.backends.cuda.matmul


def _set_threads(value: int) -> None:
    torch.set_num_threads(value)


def _set_gradients(value: bool) -> None:
    torch.set_grad_enabled(value)


def _set_deterministic(value: bool) -> None:
    torch.use_deterministic_algorithms(value)


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return (lambda: getattr(owner, name)), (lambda value: setattr(owner, name, value))


#: For each setting, how it is read and set.
_SETTINGS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]] = {
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "torch.backends.cuda.matmul.allow_tf32": _attribute(_matmul, "allow_tf32"),
    "torch.backends.cudnn.allow_tf32": _attribute(_cudnn, "allow_tf32"),
    "torch.backends.cudnn.benchmark": _attribute(_cudnn, "benchmark"),
    "torch.backends.cudnn.enabled": _attribute(_cudnn, "enabled"),
    "torch.backends.cudnn.deterministic": _attribute(_cudnn, "deterministic"),
    "number of threads": (torch.get_num_threads, _set_threads),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "gradients": (torch.is_grad_enabled, _set_gradients),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, _set_deterministic),
}


def read_settings() -> dict[str, Any]:
    """Return the value of each setting by its name; those that this torch cannot read are left out."""
    found: dict[str, Any] = {}
    for name, (read, _) in _SETTINGS.items():
        try:
            found[name] = read()
        except RuntimeError:  # both of torch's ways to set TF32 were used
            continue
    return found


def changed_settings(before: dict[str, Any]) -> list[str]:
    """Return the names of the settings that are not as they were."""
    now = read_settings()
    return [name for name in before if name in now and now[name] != before[name]]


def restore_settings(before: dict[str, Any]) -> None:
    """Set the settings that are not as they were."""
    for name in changed_settings(before):
        _SETTINGS[name][1](before[name])
