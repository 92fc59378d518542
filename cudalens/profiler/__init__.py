"""A live profile: torch's Kineto profiler around a block of code, its raw results read straight into columns."""

from cudalens.profiler.collector import ProfilerCollector
from cudalens.profiler.options import ProfilerOptions

__all__ = ["ProfilerCollector", "ProfilerOptions"]
