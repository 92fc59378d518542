"""Recordings without the work that they were made for: what is missing, and the reason if the recorder gave one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.trust.arrays import TrustArrays
from cudalens.analysis.units import plural, shorten

if TYPE_CHECKING:
    from cudalens.analysis.event_arrays import Ints
    from cudalens.frames import Trace

#: Programs that record the work of GPUs: a file of theirs without any is not a run of the CPU.
_GPU_RECORDERS: Final = {
    "file:nsys": "nsys",
    "file:nvprof": "nvprof",
    "file:rocpd": "rocprofiler",
    "file:rocprofv3": "rocprofv3",
    "file:rpd": "rpd",
}
_TORCH: Final = "file:kineto"

#: Messages of nsys that give a reason for missing GPU work, the most telling first.
_REASONS: Final = (
    r"CUPTI_ERROR|CUPTI error",
    r"not supported by this build|driver version.*(?:not supported|too)|unsupported.*driver",
    r"(?i)insufficient|privilege|permission",
    r"might have not been started correctly|[Uu]nable to (?:initialize|start).*CUDA",
    r"No CUDA events|CUDA events.*(?:not|might)|CUDA profiling",
)
_OTHER_TOOL: Final = (
    "Another tool (nsys, ncu, a second profiler, DCGM) may use CUPTI, or device activities were off; end it and "
    "profile again."
)
_NOT_STARTED: Final = (
    "Start the profiler before the program uses the GPU, profile all of its processes, and end the recording after "
    "torch.cuda.synchronize()."
)


@dataclass(frozen=True, eq=False)
class MissingWork:
    """What a recording lacks.

    Attributes:
        what: What is missing, in words.
        reason: What the recorder says about it; "" if nothing.
        todo: What to try.
        launches: Rows of the launches without work; empty if there are none.
    """

    what: str
    reason: str
    todo: str
    launches: Ints

    @property
    def sentence(self) -> str:
        """What is missing, with the reason."""
        return f"{self.what}: {self.reason}" if self.reason else self.what


@once_per_trace
def missing_work(trace: Trace) -> MissingWork | None:
    """What `trace` lacks of the work that it was recorded for; None if it has device work, or is a run of the CPU."""
    arrays = TrustArrays(trace)
    if len(arrays.work.rows) or not len(arrays):
        return None
    reason, source = _reason(trace), trace.info.source
    if len(arrays.launches):
        what = f"{plural(len(arrays.launches), 'launch')}, and no device work was recorded"
        return MissingWork(what, reason, _OTHER_TOOL, arrays.launches)
    none = np.empty(0, np.int64)
    if source in _GPU_RECORDERS:
        return MissingWork(f"{_GPU_RECORDERS[source]} recorded no GPU work", reason, _NOT_STARTED, none)
    if source == _TORCH and not arrays.is_in("cpu_op", "python_function").any():
        return MissingWork("neither an operator nor GPU work was recorded", reason, _NOT_STARTED, none)
    return None


def _reason(trace: Trace) -> str:
    """Return the message of nsys that explains missing GPU work best; "" if there is none."""
    try:
        messages = json.loads(trace.info.extra.get("nsys_diagnostics", "[]"))
    except ValueError:
        return ""
    texts = [text for text in messages if isinstance(text, str)] if isinstance(messages, list) else []
    for pattern in _REASONS:
        for text in texts:
            if re.search(pattern, text):
                return shorten(" ".join(text.split()), 200)
    return ""
