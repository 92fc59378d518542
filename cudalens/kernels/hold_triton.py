"""`hold` as a Triton kernel: polls a flag until it is set or the time limit is reached."""

from __future__ import annotations

from typing import Final

import torch
import triton.language as tl
from triton.language.extra import libdevice  # noqa: F401 - makes `extra` complete before `cuda` is looked up
from triton.language.extra.cuda import globaltimer

from cudalens.kernels.launch import Kernel, is_interpreted


def _hold(flag, waited, limit, HAS_TIMER: tl.constexpr):
    """Poll `flag` (int32) until it is not 0 or `limit` is reached; write the elapsed time to `waited` (int64).

    The limit is in nanoseconds of the device's global timer; without one (other vendors' GPUs, the interpreter) it
    counts polls.
    """
    now = tl.zeros([], tl.int64)
    begin = tl.zeros([], tl.int64)
    if HAS_TIMER:
        begin = globaltimer().to(tl.int64)
    while (now < limit) & (tl.load(flag, volatile=True) == 0):
        if HAS_TIMER:
            now = globaltimer().to(tl.int64) - begin
        else:
            now += 1
    tl.store(waited, now)


HOLD: Final = Kernel(_hold)

#: Approximate time of one poll of host memory over PCIe, for devices without a timer.
_POLL_NS: Final = 500


def run(flag: torch.Tensor, nanoseconds: int) -> torch.Tensor:
    """Queue the kernel on the current stream.

    Args:
        flag: int32, shape (1,), in memory that host and device can access.
        nanoseconds: The time limit.

    Returns:
        The elapsed time once the kernel has ended: int64, shape (1,), ns, or polls on a device without a timer.
    """
    has_timer = not is_interpreted() and torch.version.hip is None
    waited = torch.zeros(1, dtype=torch.int64, device="cpu" if is_interpreted() else "cuda")
    limit = nanoseconds if has_timer else max(1, nanoseconds // _POLL_NS)
    HOLD.launch(1, flag, waited, limit, HAS_TIMER=has_timer, num_warps=1)
    return waited
