"""A live profile: torch's Kineto profiler around a block of code, its raw results read straight into columns."""

from cudalens.profiler.collector import ProfilerCollector
from cudalens.profiler.kineto import ProfilerOptions
from cudalens.profiler.ranges import emit_itt, emit_nvtx, record_function
from cudalens.profiler.schedules import Action, StepTracker, schedule, steps

__all__ = [
    "Action",
    "ProfilerCollector",
    "ProfilerOptions",
    "StepTracker",
    "emit_itt",
    "emit_nvtx",
    "record_function",
    "schedule",
    "steps",
]
