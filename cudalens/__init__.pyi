"""The public names of cudalens, listed once: read by type checkers, and at run time by ``__init__.py``."""

from IPython.core.interactiveshell import InteractiveShell

from cudalens import analysis as analysis
from cudalens import errors as errors
from cudalens import frames as frames
from cudalens import graphs as graphs
from cudalens import kernels as kernels
from cudalens import memory as memory
from cudalens import profiler as profiler
from cudalens import report as report
from cudalens import sanitizer as sanitizer
from cudalens import traces as traces
from cudalens import views as views
from cudalens import virtual as virtual
from cudalens._version import __version__ as __version__
from cudalens.analysis.assertions.check import check as check
from cudalens.api import history as history
from cudalens.api.compare import compare as compare
from cudalens.api.load import load as load
from cudalens.api.load import load_ranks as load_ranks
from cudalens.api.memory import memory_history as memory_history
from cudalens.api.memory import memory_snapshot as memory_snapshot
from cudalens.api.overhead import overhead as overhead
from cudalens.api.profile import profile as profile
from cudalens.api.runs import runs as runs
from cudalens.device.inventory.discover import devices as devices
from cudalens.errors import AssertionFailed as AssertionFailed
from cudalens.errors import AssertionSyntaxError as AssertionSyntaxError
from cudalens.errors import CudalensError as CudalensError
from cudalens.errors import ExploreError as ExploreError
from cudalens.errors import GraphError as GraphError
from cudalens.errors import HistoryError as HistoryError
from cudalens.errors import KernelError as KernelError
from cudalens.errors import MemorySnapshotError as MemorySnapshotError
from cudalens.errors import MetricsError as MetricsError
from cudalens.errors import OutputError as OutputError
from cudalens.errors import ProfilerBusyError as ProfilerBusyError
from cudalens.errors import ProfilerError as ProfilerError
from cudalens.errors import RaceError as RaceError
from cudalens.errors import RecordError as RecordError
from cudalens.errors import SanitizerError as SanitizerError
from cudalens.errors import SchemaError as SchemaError
from cudalens.errors import TraceError as TraceError
from cudalens.errors import TraceFormatError as TraceFormatError
from cudalens.errors import UnsafeSnapshotError as UnsafeSnapshotError
from cudalens.errors import VirtualDeviceError as VirtualDeviceError
from cudalens.frames import Trace as Trace
from cudalens.graphs import cudagraph as cudagraph
from cudalens.profiler import emit_nvtx as emit_nvtx
from cudalens.profiler import record_function as record_function
from cudalens.profiler import schedule as schedule
from cudalens.sanitizer import sanitize as sanitize
from cudalens.views.devices.gauges import live as live

def load_ipython_extension(shell: InteractiveShell) -> None: ...
def unload_ipython_extension(shell: InteractiveShell) -> None: ...
