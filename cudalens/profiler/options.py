"""What a profile should record."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
    """

    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    flops: bool = False
    cpu_only: bool = False

    @property
    def traces_python(self) -> bool:
        """Whether torch's Python tracer has to run."""
        return self.stacks or self.modules

    def to_dict(self) -> dict[str, str | int | float | bool | None]:
        """The options as they stand in `RunInfo.options`."""
        return asdict(self)
