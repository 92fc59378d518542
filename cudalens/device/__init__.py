"""Facts about versions and devices, and checks of what works on this machine.

These names are imported on first use: `cudalens.device.gpu_trace` needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cudalens.device.checks import Check, run_checks
    from cudalens.device.facts import accelerator_build, devices, driver, torch_or_reason, versions

__all__ = ["Check", "accelerator_build", "devices", "driver", "run_checks", "torch_or_reason", "versions"]

_HOMES: Final = {"Check": "checks", "run_checks": "checks"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'facts')}"), name)
