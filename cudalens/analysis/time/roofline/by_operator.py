"""Roofline: the FLOP/s and bytes/s of operators, relative to the peak rates of the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.breakdown import enclosing
from cudalens.analysis.time.groups import in_step, measured, numbered, share, sums, taken
from cudalens.analysis.time.roofline.ceilings import by_device, ceilings_of, peak_bytes_per_s, peak_flops_per_s
from cudalens.analysis.time.roofline.convolutions import NAMES
from cudalens.analysis.time.roofline.shapes import Facts, facts, numbers_of
from cudalens.analysis.time.work import COMPUTE, Work, device_work
from cudalens.frames import Trace, categorical, is_category
from cudalens.frames.ceilings import Ceilings
from cudalens.frames.columns import Bools, Ints, integers, map_texts, masked, text_column

#: Kernels of float32 matrix products on tensor cores, by cuBLAS', cuDNN's and CUTLASS' names.
_TF32: Final = re.compile(r"tf32|s1688|s161616gemm_f32", re.IGNORECASE)

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
        of the time of all rows. (Float64; ``<NA>`` if unknown) ``bound``: compute or memory, by the intensity
        (category; ``<NA>`` if a ceiling is unknown).

    Raises:
        ValueError: The ceilings of the Trace are not valid.
    """
    ceilings = ceilings_of(trace.info) if ceilings is None else ceilings
    work = in_step(trace, device_work(trace), step)
    calls = _Calls(trace, taken(work, work.kind == COMPUTE))
    frame = calls.frame()
    frame = _against(frame, ceilings)
    return frame.sort_values("gpu_ns", ascending=False, kind="stable", ignore_index=True)


class _Calls:
    """Operators that launched computing kernels, with their known facts."""

    def __init__(self, trace: Trace, work: Work) -> None:
        self._events = events = trace.events
        self._work = work
        is_op = is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy()
        self._known = self._facts(np.flatnonzero(is_op))
        self._flops = np.where(integers(events["flops"]) > 0, integers(events["flops"]), self._known["flops"])
        owner = self._owners(is_op)
        self._owned = np.flatnonzero(owner >= 0)
        self._ops, self._op = np.unique(owner[self._owned], return_inverse=True)

    def _facts(self, ops: Ints) -> dict[str, Any]:
        """The facts of each row of the events, computed once for each combination of name, shapes and dtypes."""
        columns = [self._events[name].array for name in ("name", "shapes", "dtypes", "concrete_inputs")]
        codes = pd.DataFrame({i: column.codes[ops] for i, column in enumerate(columns)})
        # Of other operators the values do not matter, and they differ from call to call.
        is_convolution = map_texts(columns[0][ops], lambda name: NAMES.fullmatch(name) is not None, False)
        codes.loc[~is_convolution, 3] = -1
        group, keys = numbered(dict(codes.items()))
        found = [facts(*(self._text(c, code) for c, code in zip(columns, row, strict=True))) for row in keys.to_numpy()]
        return {"dtype": self._dtypes(found, ops, group)} | {
            name: self._per_row(np.fromiter(numbers_of(found, name), np.int64, len(found)), ops, group)
            for name in ("num_bytes", "flops")
        }

    @staticmethod
    def _text(column: pd.Categorical, code: int) -> Any:
        return column.categories[code] if code >= 0 else None

    def _per_row(self, values: Ints, ops: Ints, group: Ints) -> Ints:
        found = np.full(len(self._events), -1, np.int64)
        found[ops] = values[group]
        return found

    def _dtypes(self, found: list[Facts], ops: Ints, group: Ints) -> tuple[Ints, list[str]]:
        dtypes = text_column(one.dtype for one in found)
        return self._per_row(dtypes.codes.astype(np.int64), ops, group), dtypes.categories.tolist()

    def _owners(self, is_op: Bools) -> Ints:
        """The operator that each kernel belongs to, -1 for none."""
        launch = self._work.launch
        parent = integers(self._events["parent"])
        counted, plain = (np.append(enclosing(parent, flags), -1) for flags in (is_op & (self._flops > 0), is_op))
        return np.where(counted[launch] >= 0, counted[launch], plain[launch])

    def frame(self) -> pd.DataFrame:
        """A row per group, without ceilings."""
        events, ops = self._events, self._ops
        dtype, dtypes = self._known["dtype"]
        duration = (self._work.end - self._work.start)[self._owned]
        device = np.zeros(len(ops), np.int64)
        device[self._op] = self._work.device[self._owned]
        group, keys = numbered(
            {
                "device": device,
                "name": events["name"].array.codes[ops],
                "shapes": events["shapes"].array.codes[ops],
                "dtype": self._with_tf32(dtype[ops], dtypes),
            }
        )
        n = len(keys)
        gpu_ns = sums(duration, group[self._op], n)
        texts = {name: _categories(events[name].array, keys[name].to_numpy()) for name in ("name", "shapes")}
        return pd.DataFrame(
            {
                "device": masked(keys["device"].to_numpy()),
                **texts,
                "dtype": categorical(keys["dtype"].to_numpy(), [*dtypes, *_extra(dtypes)]),
                "count": np.bincount(group, minlength=n),
                "gpu_ns": gpu_ns,
                "share_pct": share(gpu_ns, gpu_ns.sum()),
                "flops": masked(_whole(self._flops[ops], group, n)),
                "num_bytes": masked(_whole(self._known["num_bytes"][ops], group, n)),
            }
        )

    def _with_tf32(self, dtype: Ints, dtypes: list[str]) -> Ints:
        """Numbers of dtypes, with a separate one for float32 on tensor cores, by the kernels' names."""
        names = self._events["name"].array[self._work.rows[self._owned]]
        is_tf32 = np.zeros(len(self._ops), bool)
        is_tf32[self._op[map_texts(names, lambda name: _TF32.search(name) is not None, False)]] = True
        float32 = dtypes.index("float32") if "float32" in dtypes else -2
        return np.where(is_tf32 & (dtype == float32), len(dtypes), dtype)


def _extra(dtypes: list[str]) -> list[str]:
    return [] if "tf32" in dtypes else ["tf32"]


def _categories(values: pd.Categorical, codes: Ints) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=values.categories).remove_unused_categories()


def _whole(values: Ints, group: Ints, n: int) -> Ints:
    """Sums of each group, -1 if one of its values is unknown."""
    total = sums(np.maximum(values, 0), group, n)
    some_unknown = np.bincount(group[values < 0], minlength=n) > 0
    return np.where(some_unknown, -1, total)


def _against(frame: pd.DataFrame, ceilings: Ceilings | Mapping[int, Ceilings] | None) -> pd.DataFrame:
    devices, dtypes = integers(frame["device"]).tolist(), frame["dtype"].astype(object).tolist()
    each = by_device(ceilings, devices)
    peak_flops = _floats(list(map(peak_flops_per_s, each, dtypes)))
    peak_bytes = _floats(list(map(peak_bytes_per_s, each)))
    seconds = np.where(frame["gpu_ns"] > 0, frame["gpu_ns"] / 1e9, np.nan)
    flops, num_bytes = (frame[name].to_numpy(np.float64, na_value=np.nan) for name in ("flops", "num_bytes"))
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
        "roof_pct": np.where(np.isnan(flops_pct), np.where(np.isnan(flops), bytes_pct, np.nan), flops_pct),
    }
    numbers["ceiling_ns"] = frame["gpu_ns"].to_numpy() * numbers["roof_pct"] / 100
    columns = {name: measured(values) for name, values in numbers.items()}
    return frame.assign(**columns, bound=categorical(bound.astype(np.int8), list(BOUNDS)))


def _floats(values: list[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)
