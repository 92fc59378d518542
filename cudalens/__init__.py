"""cudalens: see in a notebook what your GPU did.

In a notebook, ``%load_ext cudalens`` and then ``%%cudaprofile`` on top of a cell. In a script::

    import cudalens

    with cudalens.profile(memory=True) as p:
        train_step()
    print(p.trace.summary())
    p.trace.to_html("report.html")

Everything is imported on first use, so that ``import cudalens`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cudalens._version import __version__
from cudalens.errors import (
    AssertionFailed,
    AssertionSyntaxError,
    CudalensError,
    GraphError,
    HistoryError,
    MemorySnapshotError,
    MetricsError,
    OutputError,
    ProfilerBusyError,
    ProfilerError,
    RaceError,
    RecordError,
    SanitizerError,
    SchemaError,
    TraceError,
    TraceFormatError,
    UnsafeSnapshotError,
    VirtualDeviceError,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    import cudalens.analysis as analysis
    from cudalens.analysis.assertions.check import check
    from cudalens.api.compare import compare
    from cudalens.api.load import load, load_ranks
    from cudalens.api.memory import memory_history, memory_snapshot
    from cudalens.api.profile import profile, runs
    from cudalens.device.inventory.discover import devices
    from cudalens.frames import Trace
    from cudalens.graphs import cudagraph
    from cudalens.profiler import emit_nvtx, record_function, schedule
    from cudalens.sanitizer import sanitize
    from cudalens.views.devices.gauges import live


__all__ = [
    "AssertionFailed",
    "AssertionSyntaxError",
    "CudalensError",
    "GraphError",
    "HistoryError",
    "MemorySnapshotError",
    "MetricsError",
    "OutputError",
    "ProfilerBusyError",
    "ProfilerError",
    "RaceError",
    "RecordError",
    "SanitizerError",
    "SchemaError",
    "Trace",
    "TraceError",
    "TraceFormatError",
    "UnsafeSnapshotError",
    "VirtualDeviceError",
    "__version__",
    "analysis",
    "check",
    "compare",
    "cudagraph",
    "devices",
    "emit_nvtx",
    "live",
    "load",
    "load_ranks",
    "memory_history",
    "memory_snapshot",
    "overhead",
    "profile",
    "record_function",
    "runs",
    "sanitize",
    "schedule",
]

_LAZY = {
    "Trace": ("cudalens.frames", "Trace"),
    "check": ("cudalens.analysis.assertions.check", "check"),
    "compare": ("cudalens.api.compare", "compare"),
    "cudagraph": ("cudalens.graphs", "cudagraph"),
    "devices": ("cudalens.device.inventory.discover", "devices"),
    "emit_nvtx": ("cudalens.profiler", "emit_nvtx"),
    "live": ("cudalens.views.devices.gauges", "live"),
    "load": ("cudalens.api.load", "load"),
    "load_ranks": ("cudalens.api.load", "load_ranks"),
    "memory_history": ("cudalens.api.memory", "memory_history"),
    "memory_snapshot": ("cudalens.api.memory", "memory_snapshot"),
    "overhead": ("cudalens.api.overhead", "overhead"),
    "profile": ("cudalens.api.profile", "profile"),
    "record_function": ("cudalens.profiler", "record_function"),
    "runs": ("cudalens.api.profile", "runs"),
    "sanitize": ("cudalens.sanitizer", "sanitize"),
    "schedule": ("cudalens.profiler", "schedule"),
}
_ROOMS = {
    "analysis",
    "frames",
    "graphs",
    "history",
    "kernels",
    "memory",
    "profiler",
    "report",
    "sanitizer",
    "session",
    "traces",
    "views",
    "virtual",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        value = getattr(import_module(module), attribute)
    elif name in _ROOMS:
        value = import_module(f"cudalens.{name}")
    else:
        raise AttributeError(f"module 'cudalens' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by ``%load_ext cudalens``: adds the magics, prints nothing."""
    import_module("cudalens.magics").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Called by ``%unload_ext cudalens``: leaves the shell as it was before."""
    import_module("cudalens.magics").unload(shell)
