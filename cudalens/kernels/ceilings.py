"""`ceilings`: measure the peak memory bandwidth of a device, and its peak rates of matrix products."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import torch

from cudalens.device import clock
from cudalens.device.inventory import readings
from cudalens.errors import KernelError, MetricsError
from cudalens.frames.info import Ceilings
from cudalens.kernels.launch import can_launch

#: Much larger than any cache.
_BUFFER_BYTES: Final = 1 << 30
_WARMUPS: Final = 3
_REPEATS: Final = 15
#: Rows and columns of the matrices: large enough that launch overhead is negligible.
_SIDE: Final = {"float64": 4096, "float32": 4096, "tf32": 8192, "float16": 8192, "bfloat16": 8192, "float8": 8192}

_known: dict[tuple[str, str | None], Ceilings] = {}


def ceilings(device: torch.device | int | str | None = None, *, again: bool = False) -> Ceilings:
    """Measure the peak bandwidth and matrix-product rates of a device.

    A process measures each device and driver once, which takes about a second and up to 2 GiB of device memory. Each
    number is the median of 15 runs, timed by CUDA events, after 3 warm-up runs. Bandwidths are measured with 1 GiB
    buffers; that of a copy counts the bytes read and the bytes written. Rates are measured with square matrices of
    4,096 or 8,192 rows. On a virtual device the numbers are those of its spec, as `Ceilings.source` says.

    Args:
        device: A CUDA device; None for the current one.
        again: Measure again.

    Raises:
        KernelError: There is no GPU, virtual or real.
    """
    index = _index(device)
    simulated = clock.ceilings(index)
    if simulated is not None:
        return simulated
    key = (str(torch.cuda.get_device_properties(index).uuid), _driver())
    if again or key not in _known:
        with torch.cuda.device(index), torch.no_grad():
            _known[key] = _measured(index, key[1])
    return _known[key]


def _index(device: torch.device | int | str | None) -> int:
    if not torch.cuda.is_available():
        raise KernelError("ceilings: torch sees no CUDA device; a virtual one is cudalens.virtual.device('h100').")
    if device is None:
        return torch.cuda.current_device()
    chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if chosen.type != "cuda":
        raise KernelError(f"ceilings: {chosen} is not a CUDA device.")
    return torch.cuda.current_device() if chosen.index is None else chosen.index


def _driver() -> str | None:
    try:
        source = readings.open_source()
    except MetricsError:
        return None
    try:
        return source.driver
    finally:
        source.close()


def _measured(index: int, driver: str | None) -> Ceilings:
    free, _ = torch.cuda.mem_get_info(index)
    num_bytes = min(_BUFFER_BYTES, free // 4) // 4096 * 4096
    source = torch.zeros(num_bytes // 8, dtype=torch.int64, device="cuda")
    target = torch.empty_like(source)
    read: Callable[[], object] = source.sum
    if can_launch(source.device):
        from cudalens.kernels.triton_kernels import run_read as run

        def read() -> object:
            return run(source)

    bandwidths = {
        "copy_bytes_per_s": 2 * num_bytes / median_s(lambda: target.copy_(source)),
        "read_bytes_per_s": num_bytes / median_s(read),
        "write_bytes_per_s": num_bytes / median_s(target.zero_),
    }
    rates = {name: rate for name in _SIDE if (rate := _rate(name)) is not None}
    return Ceilings(
        device=torch.cuda.get_device_name(index),
        source="measured",
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        driver=driver,
        flops_per_s=rates,
        **bandwidths,
    )


def median_s(work: Callable[[], object]) -> float:
    """Seconds that the current stream needs for `work`: the median of `_REPEATS` runs, timed by CUDA events."""
    for _ in range(_WARMUPS):
        work()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_REPEATS)]  # type: ignore[no-untyped-call]
    for begin, end in pairs:
        begin.record()
        work()
        end.record()
    torch.cuda.synchronize()
    times = sorted(float(begin.elapsed_time(end)) for begin, end in pairs)
    return times[len(times) // 2] / 1e3


def _rate(name: str) -> float | None:
    """Operations per second of a matrix product; None if this device or build does not support it."""
    side = _SIDE[name]
    try:
        with _precision(tf32=name == "tf32"):
            return 2.0 * side**3 / median_s(_product(name, side))
    except (RuntimeError, AttributeError, TypeError):  # no such dtype, no kernel for it, no memory left
        return None


def _product(name: str, side: int) -> Callable[[], object]:
    if name == "float8":
        a, b = (torch.randn(side, side, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device="cuda")
        scaled: Any = torch._scaled_mm
        return lambda: scaled(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    a, b = (torch.randn(side, side, device="cuda").to(dtype) for _ in range(2))
    return lambda: a @ b


@contextmanager
def _precision(*, tf32: bool) -> Iterator[None]:
    """Allow TF32 for float32 products or not, and restore the user's setting at the end."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        with suppress(RuntimeError):
            torch.set_float32_matmul_precision(before)
