"""Collector for virtual devices: records their work in a profiled block, and merges it with the host's rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from cudalens.device import clock
from cudalens.frames import DeviceInfo, Problem, RawRows
from cudalens.frames.info import BAND_KEY, CEILINGS_KEY, HOST_KEY
from cudalens.gpus.constants import label_of
from cudalens.gpus.predict import time_band
from cudalens.virtual import context
from cudalens.virtual.profile.metrics import MetricsRecord
from cudalens.virtual.profile.pruning import Segment  # not at the end of a recording, which would show it
from cudalens.virtual.profile.recorder import Recorder
from cudalens.virtual.specs.properties import spec_ceilings

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.gpus import Gpus

#: Less real time of the host is not worth a note, ns.
_LONG_HOST_NS: Final = 50_000_000


class VirtualCollector:
    """Records every virtual device that is active between `start` and `stop`.

    A virtual device has its own clock: if there was one, all times of the run are virtual. Host rows outside of it take
    no virtual time and are left out. Consecutive devices follow each other on the run's clock without a gap.

    Args:
        memory: Whether to record allocator actions.
        host_only: Whether to leave out device work.
        metrics_hz: Readings of the GPUs per virtual second; 0 for a default number, None for none.

    Attributes:
        problems: What is missing from the rows, after `lay_over`.
    """

    name = "virtual device"

    def __init__(self, *, memory: bool = False, host_only: bool = False, metrics_hz: float | None = None) -> None:
        self._memory, self._host_only, self._metrics_hz = memory, host_only, metrics_hz
        self._metrics: list[MetricsRecord] = []
        self._numbers: Iterator[int] = itertools.count(1)
        self._records: list[tuple[Recorder, str, tuple[DeviceInfo, ...]]] = []
        self._spec: DeviceSpec | None = None
        self._gpus: Gpus | None = None
        self._host_ns = 0
        self._is_replaced = False
        self.problems: tuple[Problem, ...] = ()

    @property
    def hides_cuda(self) -> bool:
        """Whether a virtual device is active."""
        return context.active() is not None

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """What was recorded on each virtual device, in order."""
        return tuple(recorder for recorder, _, _ in self._records)

    def replace_recorder(self, recorder: Recorder) -> None:
        """Use another record of the only virtual device when rows are made: with other times, or without its start."""
        ((_, label, infos),) = self._records
        self._is_replaced = True
        self._records = [(recorder, label, infos)]

    def start(self) -> None:
        """Start recording, including devices that are enabled later."""
        device = context.active()
        if device is not None:
            self.entered(device)
        context.observers.append(self)

    def stop(self) -> None:
        """Stop recording."""
        context.observers.remove(self)
        self.skip_host_time()
        self.left()

    def count_host_time(self) -> None:
        """Count the real time since the program's last call: the program's code ends here."""
        if self._gpus is not None:
            self._gpus.machine.host_time.catch_up()

    def skip_host_time(self) -> None:
        """Leave out the real time since the program's last call, in which the profiler started or stopped."""
        if self._gpus is not None:
            self._gpus.machine.host_time.skip()

    def entered(self, device: context.device) -> None:
        """A virtual device was enabled."""
        gpus = device.gpus
        assert gpus is not None
        gpus.machine.host_time.catch_up()
        self._host_ns -= gpus.machine.host_time.total_ns
        recorder = Recorder(gpus.machine, self._numbers)
        if self._memory:
            recorder.listen_to_memory()
        infos = tuple(_info(index, device.spec) for index in range(len(gpus.devices)))
        self._records.append((recorder, label_of(device.spec), infos))
        self._spec = device.spec
        if self._metrics_hz is not None:
            period_ns = round(1e9 / self._metrics_hz) if self._metrics_hz else None
            self._metrics.append(MetricsRecord(gpus, period_ns))
        self._gpus, gpus.machine.recorder = gpus, recorder

    def left(self) -> None:
        """The virtual device is being disabled; nothing happens without one."""
        gpus, self._gpus = self._gpus, None
        if gpus is not None:
            gpus.machine.host_time.catch_up()
            if gpus.machine.host_time.is_measured:
                self._host_ns = 0
            else:
                self._host_ns += gpus.machine.host_time.total_ns
            self._records[-1][0].close()
            for metrics in self._metrics[-1:]:
                metrics.close()
            gpus.machine.recorder = None

    def now_ns(self) -> int:
        """The time on the run's clock; after the last virtual device, just past its end."""
        if not self._records:
            return clock.now_ns()
        last = self._segments()[-1]
        if self._gpus is None:
            return last.recorder.end_ns + last.offset_ns + 1
        return self._gpus.machine.now_ns + last.offset_ns

    def settle(self) -> None:
        """Wait for the devices, so that the block's window contains all work that it launched."""
        self.skip_host_time()
        if self._gpus is not None and not self._gpus.machine.captures:
            for device in self._gpus.devices:
                if device.tail_ns > self._gpus.machine.now_ns:
                    device.drain()

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the readings of the GPUs, if requested; `lay_over` returns the other rows."""
        if not self._metrics:
            return {}
        import pandas as pd

        pairs = zip(self._metrics, self._segments(), strict=True)
        parts = [metrics.frame(segment.recorder, segment.offset_ns) for metrics, segment in pairs]
        return {"metrics": parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)}

    def facts(self) -> dict[str, Any]:
        """Fields of `RunInfo`; empty without a virtual device."""
        if not self._records:
            return {}
        segments = self._segments()
        keys = dict.fromkeys(key for _, key, _ in self._records)
        devices = dict.fromkeys(info for _, _, infos in self._records for info in infos)
        return {
            "source": f"virtual:{', '.join(keys)}",
            "devices": tuple(devices),
            "started_ns": segments[0].recorder.start_ns,
            "ended_ns": segments[-1].recorder.end_ns + segments[-1].offset_ns,
        }

    def extra(self) -> dict[str, str]:
        """Return further entries of the run info: peak rates, the band of kernel times, the host time left out."""
        if self._spec is None:
            return {}
        host = {HOST_KEY: str(self._host_ns)} if self._host_ns >= _LONG_HOST_NS else {}
        kernels = [(w.family, w.duration_ns) for each in self.recorders for _, w, _ in each.works if w.kind == "kernel"]
        band = {BAND_KEY: json.dumps(time_band(self._spec, kernels))} if kernels else {}
        return {CEILINGS_KEY: spec_ceilings(self._spec).to_json(), **host, **band}

    def lay_over(self, host: RawRows) -> RawRows:
        """The rows of the run; `host` itself without a virtual device."""
        if not self._records:
            return host
        from cudalens.virtual.profile.event_rows import lay_over

        rows, num_left_out = lay_over(host, self._segments(), host_only=self._host_only)
        if num_left_out and not self._is_replaced:
            where = "they ran before, after or between virtual devices, and have no virtual time"
            self.problems = (Problem("operators outside of any virtual device were left out", num_left_out, where),)
        return rows

    def _segments(self) -> list[Segment]:
        """The records in sequence on one clock, which starts as the clock of the first."""
        segments: list[Segment] = []
        for recorder, _, _ in self._records:
            offset = 0
            if segments:
                before = segments[-1]
                offset = before.recorder.end_ns + before.offset_ns - recorder.start_ns
            segments.append(Segment(recorder, offset))
        return segments


def _info(index: int, spec: DeviceSpec) -> DeviceInfo:
    return DeviceInfo(
        index=index,
        name=spec.name,
        capability=".".join(map(str, spec.compute_capability)),
        total_memory_bytes=spec.total_memory_bytes,
        num_sms=spec.num_sms,
        is_modelled=True,
    )
