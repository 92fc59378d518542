"""Roofline: the FLOP/s and bytes/s of operators, relative to the peak rates of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import in_step, measured, taken
from cudalens.analysis.time.roofline.calls import Calls
from cudalens.analysis.time.work import COMPUTE, device_work
from cudalens.frames import RunInfo, Trace, categorical
from cudalens.frames.ceilings import CEILINGS_KEY, Ceilings
from cudalens.frames.column_arrays import integers


def ceilings_of(info: RunInfo) -> Ceilings | dict[int, Ceilings] | None:
    """Return the ceilings of ``info.extra["ceilings"]``: for all devices, or by device index; None if there are none.

    Raises:
        ValueError: It is neither; says what is wrong.
    """
    if (text := info.extra.get(CEILINGS_KEY)) is None:
        return None
    try:
        return Ceilings.from_json(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        try:
            return msgspec.json.decode(text, type=dict[int, Ceilings])
        except (msgspec.MsgspecError, RecursionError):
            raise ValueError(
                f"info.extra[{CEILINGS_KEY!r}] of '{info.name}' holds no ceilings ({error}); expected the text of "
                "Ceilings.to_json(), or an object of them by device index. Pass ceilings=… instead."
            ) from error


def by_device(ceilings: Ceilings | Mapping[int, Ceilings] | None, devices: list[int]) -> list[Ceilings | None]:
    """Return the ceilings of each of `devices`, None if unknown."""
    if ceilings is None or isinstance(ceilings, Ceilings):
        return [ceilings] * len(devices)
    return [ceilings.get(device) for device in devices]


def peak_bytes_per_s(ceilings: Ceilings | None) -> float | None:
    """Return the largest known rate of device memory, bytes per second."""
    if ceilings is None:
        return None
    rates = (ceilings.copy_bytes_per_s, ceilings.read_bytes_per_s, ceilings.write_bytes_per_s)
    return max((rate for rate in rates if rate), default=None)


def peak_flops_per_s(ceilings: Ceilings | None, dtype: object) -> float | None:
    """Return the peak operations per second with `dtype`."""
    return None if ceilings is None else ceilings.flops_per_s.get(str(dtype))


BOUNDS: Final = ("compute", "memory")


@ranked
def roofline(
    trace: Trace, ceilings: Ceilings | Mapping[int, Ceilings] | None = None, *, step: int | None = None
) -> pd.DataFrame:
    """FLOP/s and bytes/s of operators, relative to the ceilings of their devices, if known.

    Each computing kernel belongs to the innermost operator around its launch with known floating-point operations, else
    to the innermost operator. Calls are grouped by device, name, dtypes and shapes.

    Operations are those that torch recorded (``with_flops``); else those of matrix products (2·m·n·k) and of fused
    attention, of convolutions and of their backward passes, by their shapes and torch's own formulas
    (``torch.utils.flop_counter``; of convolutions in files that have ``Concrete Inputs``). Bytes are
    a lower limit: every input tensor once (of an embedding's table the selected rows), and the results of products,
    attention, norms, softmax, activations and embeddings, by shapes and dtypes (``record_shapes``); so bytes/s are a
    lower and the intensity an upper bound. The model: Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        ceilings: For all devices, or by device index. Default: those of ``trace.info.extra["ceilings"]``, if any.
        step: Only kernels that this profiler step launched.

    Returns:
        A row per group, by ``gpu_ns`` descending. ``device`` (Int64), ``name``, ``shapes`` (category); ``dtype``, of
        the first floating-point input; ``tf32`` if that is float32 and a kernel's name has tensor cores (category).
        ``count``: calls that launched kernels. ``gpu_ns``: sum of the kernels' durations (int64). ``flops``,
        ``num_bytes``: sums over the calls (Int64; ``<NA>`` if those of one call are unknown). ``flops_per_s``,
        ``bytes_per_s``: these over ``gpu_ns``; ``intensity``: FLOPs per byte. ``peak_flops_per_s``,
        ``peak_bytes_per_s``: the device's ceilings, for that dtype; of memory the largest (copied, read or written).
        ``attainable_flops_per_s``: the smaller of the peak and of intensity times ``peak_bytes_per_s``. ``flops_pct``:
        of the attainable; ``bytes_pct``: of the peak; ``roof_pct``: of the roof that bounds it, ``flops_pct`` if
        operations are known, else ``bytes_pct``. ``ceiling_ns``: what the calls would take at that roof. ``share_pct``:
        of the time of all rows. (Float64; ``<NA>`` if unknown) ``expected_ns``: what the calls usually take on this
        GPU, where such kernels were measured (`cudalens.analysis.time.roofline.expected`; Int64). ``slowdown``:
        ``gpu_ns`` over it (Float64). ``bound``: compute or memory, by the intensity (category; ``<NA>`` if a ceiling is
        unknown).

    Raises:
        ValueError: The ceilings of the Trace are not valid.
    """
    ceilings = ceilings_of(trace.info) if ceilings is None else ceilings
    work = in_step(trace, device_work(trace), step)
    calls = Calls(trace, taken(work, work.kind == COMPUTE))
    frame = calls.frame()
    frame = _against(frame, ceilings)
    return frame.sort_values("gpu_ns", ascending=False, kind="stable", ignore_index=True)


def _against(frame: pd.DataFrame, ceilings: Ceilings | Mapping[int, Ceilings] | None) -> pd.DataFrame:
    devices, dtypes = integers(frame["device"]).tolist(), frame["dtype"].astype(object).tolist()
    each = by_device(ceilings, devices)
    peak_flops = _floats(list(map(peak_flops_per_s, each, dtypes)))
    peak_bytes = _floats(list(map(peak_bytes_per_s, each)))
    seconds = np.where(frame["gpu_ns"] > 0, frame["gpu_ns"] / 1e9, np.nan)
    flops, num_bytes, usual = (
        frame[name].to_numpy(np.float64, na_value=np.nan) for name in ("flops", "num_bytes", "expected_ns")
    )
    flops = np.where(flops > 0, flops, np.nan)
    intensity = flops / np.where(num_bytes > 0, num_bytes, np.nan)
    by_memory = intensity * peak_bytes
    roof = np.fmin(peak_flops, np.where(np.isnan(peak_flops), np.nan, by_memory))
    attainable = np.where(np.isnan(flops), np.nan, roof)
    flops_pct, bytes_pct = 100 * flops / seconds / attainable, 100 * num_bytes / seconds / peak_bytes
    bound = np.where(np.isnan(by_memory) | np.isnan(peak_flops), -1, by_memory < peak_flops)
    numbers = {
        "flops_per_s": flops / seconds,
        "bytes_per_s": num_bytes / seconds,
        "intensity": intensity,
        "peak_flops_per_s": peak_flops,
        "peak_bytes_per_s": peak_bytes,
        "attainable_flops_per_s": attainable,
        "flops_pct": flops_pct,
        "bytes_pct": bytes_pct,
        "slowdown": frame["gpu_ns"].to_numpy() / usual,
        "roof_pct": np.where(np.isnan(flops_pct), np.where(np.isnan(flops), bytes_pct, np.nan), flops_pct),
    }
    numbers["ceiling_ns"] = frame["gpu_ns"].to_numpy() * numbers["roof_pct"] / 100
    columns = {name: measured(values) for name, values in numbers.items()}
    return frame.assign(**columns, bound=categorical(bound.astype(np.int8), list(BOUNDS)))


def _floats(values: list[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)
