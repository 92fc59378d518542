"""What a profile should record."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

_SPARSE: Final = ("use_device", "experimental")


@dataclass(frozen=True)
class ProfilerOptions:
    """What a profile should record.

    Attributes:
        memory: Every allocation and release of tensor memory.
        shapes: Shapes and dtypes of the inputs of each operator.
        stacks: The Python call stack of each operator (a Python tracer runs; slow).
        modules: The path of nn.Modules that were running (needs the Python tracer as well).
        flops: Floating-point operations by torch's formulas (records shapes as well, as torch does).
        cpu_only: Leave the GPU alone, also where there is one.
        use_device: The kind of device to record ("cuda", "xpu", a PrivateUse1 backend's name), which has to be there;
            None for a CUDA device where there is one.
        experimental: torch's `_ExperimentalConfig`, passed to Kineto unchanged; None for its defaults.
    """

    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    flops: bool = False
    cpu_only: bool = False
    use_device: str | None = None
    experimental: Any = None

    @property
    def traces_python(self) -> bool:
        """Whether torch's Python tracer has to run."""
        return self.stacks or self.modules

    def to_dict(self) -> dict[str, str | int | float | bool | None]:
        """Return the options as `RunInfo.options` has them."""
        recorded = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _SPARSE}
        if self.use_device is not None:
            recorded["use_device"] = self.use_device
        return recorded
