"""Rules about copies: from pageable memory, not overlapped, too many, between layouts, on the device itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import length, subtract, union
from cudalens.analysis.time.work import COMPUTE

Ints = NDArray[np.int64]

_PAGEABLE: Final = r"^Memcpy (?:HtoD|DtoH).*Pageable"
_TO_DEVICE: Final = r"^(?:Memcpy|CopyH|MEMORY_COPY_H).*(?:HtoD|HOST_TO_DEVICE|HostToDevice)"
_ANY_WAY: Final = r"HtoD|DtoH|HostToDevice|DeviceToHost|HOST_TO_DEVICE|DEVICE_TO_HOST"
_LAYOUT: Final = r"nchwToNhwc|nhwcToNchw|(?i:nchw_?to_?nhwc|nhwc_?to_?nchw|tensor_?transform|batched_transpose)"
_COPY_OP: Final = r"^aten::(?:copy_|_foreach_copy_)$"

_PIN: Final = "DataLoader(pin_memory=True) or tensor.pin_memory(), and .to(device, non_blocking=True)"
_KEEP: Final = (
    "keep results on the device, or host.copy_(x, non_blocking=True) into a pinned tensor, read after an event"
)

#: A copy below it takes less than the 10 µs that its call and its start on the device cost (PCIe: 25 bytes a ns).
_NOT_OVERLAPPED: Final = 0.05
_ON_DEVICE: Final = 0.10
_SMALL_BYTES: Final = 64 << 10

_MIN_SMALL: Final = 20


def pageable(scene: Scene) -> Iterator[Finding]:
    """``pageable_copies``: copies between the device and pageable host memory.

    They go through a buffer of the driver and the host waits for them. Cost: their time in which no other device work
    ran; what the host's waiting costs beyond is told as ``host_sync``.
    """
    rows = scene.matching(_PAGEABLE, ("gpu_memcpy",))
    if not len(rows):
        return
    moved = scene.ints("num_bytes")[rows]
    total, busy = int(moved[moved > 0].sum()), int((scene.end - scene.ts)[rows].sum())
    cost = scene.exposed(scene.is_work(rows))
    moved_text = f" ({units.size(total)}, {total / busy:.1f} GB/s)" if total >= _SMALL_BYTES and busy else ""
    is_to_device = _goes_to_device(scene, rows)
    way = "to" if is_to_device else "from"
    what = (
        f"{_copies(len(rows))} {way} the GPU used pageable memory"
        f"{moved_text}; for {units.duration(cost)} nothing else ran."
    )
    yield scene.finding(
        "pageable_copies", "pageable copies", what, cost, scene.dearest(rows),
        _PIN if is_to_device else _KEEP, "high",
        _place_of(scene, rows),
    )  # fmt: skip


def _goes_to_device(scene: Scene, rows: Ints) -> bool:
    """Whether most of the time of copies went to the device, and not from it."""
    names = scene.events["name"].array[rows]
    to_device = np.array([f"{name}".startswith("Memcpy HtoD") for name in names.categories.tolist()], bool)[names.codes]
    lengths = (scene.end - scene.ts)[rows]
    return bool(2 * lengths[to_device].sum() >= lengths.sum())


def not_overlapped(scene: Scene) -> Iterator[Finding]:
    """``exposed_copies``: copies from pinned memory to the device while nothing else runs on it.

    Cost: that time. Told from a twentieth of the devices' time on.
    """
    rows = np.setdiff1d(scene.matching(_TO_DEVICE, ("gpu_memcpy",)), scene.matching(_PAGEABLE, ("gpu_memcpy",)))
    if not len(rows):
        return
    cost = scene.exposed(scene.is_work(rows))
    if cost < _NOT_OVERLAPPED * scene.span_ns or not cost:
        return
    what = f"{_copies(len(rows))} to the GPU ran {units.duration(cost)} while nothing else did."
    yield scene.finding(
        "exposed_copies", "copies not overlapped", what, cost, scene.dearest(rows),
        "copy the next batch on a stream of its own while this one is computed (torch.cuda.Stream, non_blocking=True, "
        "wait_stream)", "medium", _place_of(scene, rows),
    )  # fmt: skip


def small_copies(scene: Scene) -> Iterator[Finding]:
    """``small_copies``: many copies of less than 64 KiB between host and device: calls cost more than moving bytes.

    Cost: time within the calls that made them in which no device was at work.
    """
    rows = scene.matching(_ANY_WAY, ("gpu_memcpy",))
    moved = scene.ints("num_bytes")[rows]
    rows = rows[(moved >= 0) & (moved < _SMALL_BYTES)]
    launch = scene.ints("launch")[rows]
    if len(rows) < _MIN_SMALL or not (launch >= 0).any():
        return
    calls = np.unique(launch[launch >= 0])
    times = scene.time_of(calls)
    cost = length(subtract(times, scene.busy))
    moved = scene.ints("num_bytes")[rows]
    what = (
        f"{_copies(len(rows))} of {units.size(float(np.median(moved)))} (the middle one) between host and GPU: their "
        f"calls took {units.duration(length(times))}, {units.duration(cost)} of it with nothing on the GPU."
    )
    yield scene.finding(
        "small_copies", "many small copies", what, cost, scene.dearest(rows),
        "put small tensors together and copy once (torch.stack, one pinned buffer), or make them on the device",
        "medium", _place_of(scene, calls),
    )  # fmt: skip


def layouts(scene: Scene) -> Iterator[Finding]:
    """``layout_conversions``: kernels that only turn NCHW into NHWC and back, around convolutions.

    Cost: the time in which they ran and no other work did.
    """
    rows = scene.matching(_LAYOUT, ("kernel",))
    if not len(rows):
        return
    cost = scene.exposed(scene.is_work(rows))
    what = (
        f"{units.plural(len(rows), 'kernel')} turned layouts (NCHW and NHWC) into one another: {units.duration(cost)}."
    )
    yield scene.finding(
        "layout_conversions", "layout conversions", what, cost, scene.dearest(rows),
        "model.to(memory_format=torch.channels_last), and the inputs likewise", "high", _place_of(scene, rows),
    )  # fmt: skip


def on_device(scene: Scene) -> Iterator[Finding]:
    """``copies``: work that only copies or casts: kernels and copies launched by ``aten::copy_``, to the same device.

    Cost: the time in which it ran and no other work did; of the CPU without device work, the time of the outermost
    such operators. Told from a tenth on.
    """
    ops = scene.matching(_COPY_OP, ("cpu_op",))
    if not len(ops):
        return
    if len(scene.work.rows):
        mine = scene.launched(ops)
        mine = mine[scene.work.kind[mine] == COMPUTE]
        chosen = np.zeros(len(scene.work.rows), bool)
        chosen[mine] = True
        cost, whole, rows, who = scene.exposed(chosen), scene.span_ns, scene.work.rows[mine], "GPU"
    else:
        cost, whole, rows, who = length(union(scene.ts[ops], scene.end[ops])), scene.wall_ns, ops, "CPU"
    if cost < _ON_DEVICE * whole or not cost:
        return
    what = (
        f"the {who} copied or cast tensors {units.count(len(rows))} times, for {units.duration(cost)} "
        f"({units.percent(100 * cost / whole)} of its time)."
    )
    yield scene.finding(
        "copies", "copies and casts", what, cost, scene.dearest(rows),
        "look for .contiguous(), .clone(), .to(dtype) and torch.cat in the loop; views, out= and one dtype need none; "
        "torch.compile fuses casts", "low", _place_of(scene, ops),
    )  # fmt: skip


def _copies(number: int) -> str:
    return "1 copy" if number == 1 else f"{units.count(number)} copies"


def _place_of(scene: Scene, rows: Ints) -> str | None:
    return scene.place(int(rows[np.argmax((scene.end - scene.ts)[rows])])) if len(rows) else None
