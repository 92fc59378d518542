"""Rules about copies: from pageable memory, not overlapped, too many, between layouts, on the device itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import length, subtract
from cudalens.analysis.time.work import COMPUTE

_PAGEABLE: Final = r"^Memcpy (?:HtoD|DtoH).*Pageable"
_TO_DEVICE: Final = r"^(?:Memcpy|CopyH|MEMORY_COPY_H).*(?:HtoD|HOST_TO_DEVICE|HostToDevice)"
_BOTH_WAYS: Final = r"HtoD|DtoH|HostToDevice|DeviceToHost|HOST_TO_DEVICE|DEVICE_TO_HOST"
_LAYOUT: Final = r"nchwToNhwc|nhwcToNchw|(?i:nchw_?to_?nhwc|nhwc_?to_?nchw|tensor_?transform|batched_transpose)"
_COPY_OP: Final = r"^aten::(?:copy_|_foreach_copy_)$"

_NOT_OVERLAPPED: Final = 0.05
_ON_DEVICE: Final = 0.10

#: A smaller copy takes less than the 10 µs that its call and its start on the device cost (PCIe: 25 bytes per ns).
_SMALL_BYTES: Final = 64 << 10
_MIN_SMALL: Final = 20


def pageable(arrays: TraceArrays) -> Iterator[Finding]:
    """``pageable_copies``: copies between the device and pageable host memory.

    They use a staging buffer of the driver, and the host waits for them. Cost: their time in which no other device work
    ran; the host's waits are reported as ``host_sync``.
    """
    rows = arrays.matching(_PAGEABLE, "gpu_memcpy")
    if not len(rows):
        return
    moved = arrays.ints("num_bytes", rows)
    total, busy = int(moved[moved > 0].sum()), int(arrays.dur[rows].sum())
    cost = arrays.exposed(arrays.is_work(rows))
    rate = f" ({units.size(total)}, {total / busy:.1f} GB/s)" if total >= _SMALL_BYTES and busy else ""
    to_device = np.intersect1d(rows, arrays.matching("^Memcpy HtoD", "gpu_memcpy"))
    if 2 * arrays.dur[to_device].sum() >= busy:
        way, advice = "to", "DataLoader(pin_memory=True) or tensor.pin_memory(), and .to(device, non_blocking=True)"
    else:
        way = "from"
        advice = (
            "keep results on the device, or host.copy_(x, non_blocking=True) into a pinned tensor and read it after an "
            "event"
        )
    what = f"{_copies(rows)} {way} the GPU used pageable memory{rate}; no other work ran for {units.duration(cost)}."
    yield arrays.finding(
        "pageable_copies", "pageable copies", what, cost, advice, "high", rows=rows, place=arrays.place_of(rows)
    )


def not_overlapped(arrays: TraceArrays) -> Iterator[Finding]:
    """``exposed_copies``: copies from pinned memory to the device while nothing else runs on it.

    Cost: that time. Threshold: a twentieth of the devices' time.
    """
    rows = np.setdiff1d(arrays.matching(_TO_DEVICE, "gpu_memcpy"), arrays.matching(_PAGEABLE, "gpu_memcpy"))
    cost = arrays.exposed(arrays.is_work(rows))
    if arrays.is_minor(cost, _NOT_OVERLAPPED):
        return
    what = f"{_copies(rows)} to the GPU ran for {units.duration(cost)} while no other work did."
    advice = (
        "copy the next batch on a second stream during the computation (torch.cuda.Stream, non_blocking=True, "
        "wait_stream)"
    )
    yield arrays.finding(
        "exposed_copies", "copies not overlapped", what, cost, advice, "medium", rows=rows, place=arrays.place_of(rows)
    )


def small_copies(arrays: TraceArrays) -> Iterator[Finding]:
    """``small_copies``: at least twenty copies of less than 64 KiB between host and device: mostly call overhead.

    Cost: time within the calls that made them in which no device was at work.
    """
    rows = arrays.matching(_BOTH_WAYS, "gpu_memcpy")
    moved = arrays.ints("num_bytes", rows)
    is_small = (moved >= 0) & (moved < _SMALL_BYTES)
    rows, moved = rows[is_small], moved[is_small]
    calls = np.unique(arrays.ints("launch", rows))
    calls = calls[calls >= 0]
    if len(rows) < _MIN_SMALL or not len(calls):
        return
    times = arrays.time_of(calls)
    cost = length(subtract(times, arrays.busy))
    what = (
        f"{_copies(rows)} between host and GPU, with a median of {units.size(float(np.median(moved)))}: their calls "
        f"took {units.duration(length(times))}, {units.duration(cost)} of it while the GPU was idle."
    )
    advice = "combine small tensors and copy once (torch.stack, one pinned buffer), or create them on the device"
    yield arrays.finding(
        "small_copies", "many small copies", what, cost, advice, "medium", rows=rows, place=arrays.place_of(calls)
    )


def layouts(arrays: TraceArrays) -> Iterator[Finding]:
    """``layout_conversions``: kernels that only convert between NCHW and NHWC, around convolutions.

    Cost: the time in which they ran and no other work did.
    """
    rows = arrays.matching(_LAYOUT, "kernel")
    if not len(rows):
        return
    cost = arrays.exposed(arrays.is_work(rows))
    what = f"{units.plural(len(rows), 'kernel')} converted layouts between NCHW and NHWC: {units.duration(cost)}."
    advice = "model.to(memory_format=torch.channels_last), and the same for the inputs"
    yield arrays.finding(
        "layout_conversions", "layout conversions", what, cost, advice, "high", rows=rows, place=arrays.place_of(rows)
    )


def on_device(arrays: TraceArrays) -> Iterator[Finding]:
    """``copies``: work that only copies or casts: kernels and copies launched by ``aten::copy_``, to the same device.

    Cost: the time in which it ran and no other work did; without device work, the time of the outermost such operators.
    Threshold: a tenth.
    """
    ops = arrays.matching(_COPY_OP, "cpu_op")
    if not len(ops):
        return
    if len(arrays.work.rows):
        launched = arrays.launched(ops)
        rows = arrays.work.rows[launched[arrays.work.kind[launched] == COMPUTE]]
        cost, whole, where = arrays.exposed(arrays.is_work(rows)), arrays.span_ns, "GPU"
    else:
        rows, cost, whole, where = ops, length(arrays.time_of(ops)), arrays.wall_ns, "CPU"
    if cost < _ON_DEVICE * whole or not cost:
        return
    what = (
        f"the {where} copied or cast tensors {units.count(len(rows))} times, for {units.duration(cost)} "
        f"({units.percent(100 * cost / whole)} of its time)."
    )
    advice = (
        "look for .contiguous(), .clone(), .to(dtype) and torch.cat in the loop; views, out= and a single dtype avoid "
        "them; torch.compile fuses casts"
    )
    yield arrays.finding("copies", "copies and casts", what, cost, advice, "low", rows=rows, place=arrays.place_of(ops))


def _copies(rows: Ints) -> str:
    return "1 copy" if len(rows) == 1 else f"{units.count(len(rows))} copies"
