"""What a profile should record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

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
        """The options as `RunInfo.options` has them."""
        recorded = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _SPARSE}
        if self.use_device is not None:
            recorded["use_device"] = self.use_device
        return recorded


class TorchNames(TypedDict, total=False):
    """Options by the names that torch.profiler gives them; `profile` takes them for its own."""

    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_modules: bool
    with_flops: bool


#: What torch.profiler's options are called here.
OUR_NAMES: Final = {
    "record_shapes": "shapes",
    "profile_memory": "memory",
    "with_stack": "stacks",
    "with_modules": "modules",
    "with_flops": "flops",
}

_OTHERS: Final = {
    "activities": "the GPU is recorded if there is one; cpu_only=True excludes it, use_device=… requires one",
    "on_trace_ready": "on_trace=… is called with each Trace, not with the profiler",
    "execution_trace_observer": "run torch.profiler.ExecutionTraceObserver in addition to the profile",
    "acc_events": "each cycle of a schedule is a Trace of its own; cudalens.compare takes several",
    "use_cuda": 'use_device="cuda" requires it; by default the GPU is recorded if there is one',
    "post_processing_timeout_s": "the results are always read completely",
    "activity_filters": "everything is recorded; Trace.select() chooses from it",
    "use_kineto": "Kineto always records",
    "use_cpu": "the host is always recorded",
}


def by_our_names(torchs: Mapping[str, object]) -> dict[str, bool]:
    """Options of torch.profiler by the names of ours, those that are on.

    Raises:
        TypeError: One is neither torch's nor ours, or has no counterpart here.
    """
    for name in torchs:
        if name not in OUR_NAMES:
            hint = _OTHERS.get(name, "help(cudalens.profile) lists the options")
            raise TypeError(f"profile() has no option {name!r}: {hint}.")
    return {OUR_NAMES[name]: True for name, is_on in torchs.items() if is_on}
