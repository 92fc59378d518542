"""Rooflines and expected times: rates of operators relative to the device's peak, and unusually slow kernels.

The times are those of `cudalens.gpus.predict`, whose constants are fitted to measured times of real GPUs. They are
given only for families of kernels of which at least `_WITHIN_2X` per cent of the shapes that were not used for the fit
are within a factor of two, with a mean error of at most `_MAX_ERROR` per cent. So there are none for convolutions,
pointwise kernels (strides are not recorded), decoding attention, TF32 and float64. Softmax and layer norm were measured
in float32 only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.cached import ranked
from cudalens.analysis.time.groups import in_step, measured, numbered, quantiles, share, sums, taken
from cudalens.analysis.time.operator_shapes import CONVOLUTION_NAMES, all_shapes, facts, numbers_of, values_in
from cudalens.analysis.time.overlap import enclosing
from cudalens.analysis.time.work import COMPUTE, MEMORY, Work, device_work
from cudalens.frames import RunInfo, Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, categorical, integers, map_texts, masked, run_ends, text_column
from cudalens.frames.info import CEILINGS_KEY, Ceilings
from cudalens.gpus import predict
from cudalens.gpus.constants import accuracy
from cudalens.gpus.device_spec import DeviceSpec
from cudalens.gpus.predict import pointwise_share
from cudalens.gpus.registry import spec_of


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


#: Kernels of float32 matrix products on tensor cores, by cuBLAS', cuDNN's and CUTLASS' names.
_TF32: Final = re.compile(r"tf32|s1688|s161616gemm_f32", re.IGNORECASE)


class Calls:
    """Operators that launched computing kernels, with their known facts.

    Attributes:
        rows: Rows of the operators, shape (n,).
        durations: Time of the kernels of each, ns, shape (n,).
        owned: Indices of their kernels in the work, shape (k,).
        call: The position in `rows` of the call of each of these kernels, shape (k,).
    """

    def __init__(self, trace: Trace, work: Work) -> None:
        self._info, self._events = trace.info, trace.events
        events = trace.events
        self._work = work
        is_op = is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy()
        ops = np.flatnonzero(is_op)
        group, (dtype, dtypes, num_bytes, flops) = self._facts(ops)
        recorded = integers(events["flops"].array[ops])
        has_flops = np.zeros(len(events), bool)
        has_flops[ops] = (recorded > 0) | (flops[group] > 0)
        owner = self._owners(is_op, has_flops)
        self.owned = np.flatnonzero(owner >= 0)
        self.rows, self.call = np.unique(owner[self.owned], return_inverse=True)
        taken = (work.end - work.start)[self.owned]
        self.durations = sums(taken, self.call, len(self.rows))
        at = np.searchsorted(ops, self.rows)
        group, recorded = group[at], recorded[at]
        self._num_bytes, self._flops = num_bytes[group], np.where(recorded > 0, recorded, flops[group])
        self._dtype_names = [*dtypes, *_extra(dtypes)]
        self._columns = {
            "device": self._devices(),
            "name": events["name"].array.codes[self.rows],
            "shapes": events["shapes"].array.codes[self.rows],
            "dtype": self._with_tf32(dtype[group], dtypes),
        }

    def _devices(self) -> Ints:
        device = np.zeros(len(self.rows), np.int64)
        device[self.call] = self._work.device[self.owned]
        return device

    def expected(self) -> list[Expected | None]:
        """Return what each call usually takes; None where that is not known."""
        specs = self._specs()
        columns = [self._events[name].array for name in ("name", "shapes", "concrete_inputs")]
        group, keys = numbered({**self._columns, "values": columns[2].codes[self.rows]})
        coded = zip(columns, ("name", "shapes", "values"), strict=True)
        names, shapes, values = (_texts(column, keys[name].to_numpy()) for column, name in coded)
        dtypes = [self._dtype_names[dtype] if dtype >= 0 else None for dtype in keys["dtype"].tolist()]
        devices = map(specs.get, keys["device"].tolist())
        found = list(map(expected, devices, names, shapes, dtypes, values))
        return [found[k] for k in group.tolist()]

    def memory_shares(self) -> NDArray[np.float64]:
        """The share of each call's time that its known bytes take at the GPU's memory bandwidth; 0 if unknown."""
        specs = self._specs()
        rates = {device: spec.memory_bandwidth_gbps * pointwise_share(spec) for device, spec in specs.items() if spec}
        rate = np.array([rates.get(device, np.inf) for device in self._columns["device"].tolist()])
        num_bytes = np.maximum(self._num_bytes, 0)
        return np.asarray(num_bytes / rate / np.maximum(self.durations, 1), np.float64)

    def _specs(self) -> dict[int, DeviceSpec | None]:
        return {
            device.index: spec_of(device.capability, device.num_sms, device.total_memory_bytes, device.name)
            for device in self._info.devices
        }

    def _facts(self, ops: Ints) -> tuple[Ints, tuple[Ints, list[str], Ints, Ints]]:
        """Return what is known of operators, by their names, shapes and dtypes.

        Returns:
            The combination of each of `ops`; of each combination its dtype, the names of dtypes, bytes and operations;
            -1 is unknown.
        """
        columns = [self._events[name].array for name in ("name", "shapes", "dtypes", "concrete_inputs")]
        codes = pd.DataFrame({i: column.codes[ops] for i, column in enumerate(columns)})
        # Of other operators the values do not matter, and they differ from call to call.
        is_convolution = map_texts(columns[0][ops], lambda name: CONVOLUTION_NAMES.fullmatch(name) is not None, False)
        codes.loc[~is_convolution, 3] = -1
        group, keys = numbered(dict(codes.items()))
        texts = (_texts(column, keys[i].to_numpy()) for i, column in enumerate(columns))
        found = [facts(*row) for row in zip(*texts, strict=True)]
        dtypes = text_column(one.dtype for one in found)
        num_bytes, flops = (
            np.fromiter(numbers_of(found, name), np.int64, len(found)) for name in ("num_bytes", "flops")
        )
        return group, (dtypes.codes.astype(np.int64), dtypes.categories.tolist(), num_bytes, flops)

    def _owners(self, is_op: Bools, has_flops: Bools) -> Ints:
        """Return the operator that each kernel belongs to, -1 for none."""
        launch = self._work.launch
        parent = integers(self._events["parent"])
        counted, plain = (np.append(enclosing(parent, flags), -1) for flags in (has_flops, is_op))
        return np.where(counted[launch] >= 0, counted[launch], plain[launch])

    def frame(self) -> pd.DataFrame:
        """Return a row per group, without ceilings."""
        events = self._events
        columns = self._columns
        group, keys = numbered({name: columns[name] for name in ("device", "name", "shapes", "dtype")})
        n, dtypes = len(keys), self._dtype_names
        gpu_ns = sums(self.durations, group, n)
        usual = np.array([-1 if one is None else one.ns for one in self.expected()], np.int64)
        texts = {name: _categories(events[name].array, keys[name].to_numpy()) for name in ("name", "shapes")}
        return pd.DataFrame(
            {
                "device": masked(keys["device"].to_numpy()),
                **texts,
                "dtype": categorical(keys["dtype"].to_numpy(), dtypes),
                "count": np.bincount(group, minlength=n),
                "gpu_ns": gpu_ns,
                "share_pct": share(gpu_ns, gpu_ns.sum()),
                "expected_ns": masked(_whole(usual, group, n)),
                "flops": masked(_whole(self._flops, group, n)),
                "num_bytes": masked(_whole(self._num_bytes, group, n)),
            }
        )

    def _with_tf32(self, dtype: Ints, dtypes: list[str]) -> Ints:
        """Numbers of dtypes, with a separate one for float32 on tensor cores, by the kernels' names."""
        names = self._events["name"].array[self._work.rows[self.owned]]
        is_tf32 = np.zeros(len(self.rows), bool)
        is_tf32[self.call[map_texts(names, lambda name: _TF32.search(name) is not None, False)]] = True
        float32 = dtypes.index("float32") if "float32" in dtypes else -2
        return np.where(is_tf32 & (dtype == float32), len(dtypes), dtype)


def _extra(dtypes: list[str]) -> list[str]:
    return [] if "tf32" in dtypes else ["tf32"]


def _texts(values: pd.Categorical, codes: Ints) -> list[Any]:
    """Return the text of each code; None is missing."""
    used, place = np.unique(codes[codes >= 0], return_inverse=True)
    found = np.full(len(codes), None, object)
    found[codes >= 0] = values.categories.take(used).to_numpy(object)[place]
    return found.tolist()


def _categories(values: pd.Categorical, codes: Ints) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=values.categories).remove_unused_categories()


def _whole(values: Ints, group: Ints, n: int) -> Ints:
    """Sums of each group, -1 if one of its values is unknown."""
    total = sums(np.maximum(values, 0), group, n)
    some_unknown = np.bincount(group[values < 0], minlength=n) > 0
    return np.where(some_unknown, -1, total)


_MAX_ERROR: Final = 15.0
_WITHIN_2X: Final = 97.0

#: A time is unusual from this factor on, plus three times the mean error. Chosen on one half of the measured products,
#: attention, softmax and layer norm of 20 µs or more. Of the other half, 0 to 4 % of each family and GPU are slower,
#: 0.8 % in the mean, and at twice their time 86 to 100 %.
_MARGIN: Final = 1.25
_ERRORS: Final = 3.0

#: Longer times (104 days) are those of no call.
_MAX_NS: Final = 1 << 53

#: Bytes of an element of the dtypes with measured times.
_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}


class Expected(NamedTuple):
    """What a call usually takes.

    Attributes:
        ns: Time of its kernels, ns.
        limit: Factor of this time from which on a call is slower than the errors of the model explain.
        error_pct: Mean error of such times, in per cent.
        gpu: Key of the GPU.
    """

    ns: int
    limit: float
    error_pct: float
    gpu: str


def expected(
    spec: DeviceSpec | None, name: str, shapes: str | None, dtype: str | None, values: str | None
) -> Expected | None:
    """Return what a call usually takes on a GPU, or None if its kind was not measured on this GPU, or not well enough.

    Args:
        spec: The GPU.
        name: The operator, as ``aten::mm``.
        shapes: The shapes of its inputs, as JSON.
        dtype: dtype of its first floating-point input; "tf32" for float32 on tensor cores.
        values: ``Concrete Inputs``: the values of all inputs, as JSON.
    """
    formula = _FORMULAS.get(name.removeprefix("aten::"))
    if spec is None or formula is None or dtype not in _BYTES:
        return None
    found = formula(spec, dtype, all_shapes(shapes), values_in(values))
    return None if found is None else _judged(spec, *found)


_Found = tuple[str, int] | None


def _judged(spec: DeviceSpec, family: str, ns: int) -> Expected | None:
    fit = accuracy()[family]["gpus"].get(spec.key)
    if fit is None or fit["mean_error_pct"] > _MAX_ERROR or fit["within_2x_pct"] < _WITHIN_2X or ns > _MAX_NS:
        return None
    error = float(fit["mean_error_pct"])
    return Expected(ns, _MARGIN + _ERRORS * error / 100, error, spec.key)


def _product(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """None where the time depends on the alignment of rows, which follows from strides that are not recorded."""
    matrices = [shape for shape in shapes if len(shape) in (2, 3)][-2:]
    if len(matrices) < 2 or len(matrices[0]) != len(matrices[1]) or matrices[0][-1] != matrices[1][-2]:
        return None
    *batch, m, k = matrices[0]
    n, size = matrices[1][-1], _BYTES[dtype]
    if not min(*batch, m, n, k):
        return None
    family = "matrix_single" if dtype == "float32" else "matrix_half"
    if dtype != "float32" and min(m, n) > 1 and math.gcd(16, n * size, k * size) < 16:
        return None
    ns = predict.matrix_ns(spec, dtype, math.prod(batch), m, n, k, size)
    return family, predict.PROGRAM_NS + ns


def _attention(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Fused attention over many queries; without the causal mask where it is not recorded, which takes longer."""
    if dtype == "float32" or len(shapes) < 3 or any(len(shape) != 4 for shape in shapes[:3]):
        return None
    (batch, queries, heads, dim), (_, keys, kv_heads, _) = shapes[:2]
    if queries <= predict.DECODE_QUERIES or not min(batch, heads, keys, kv_heads, dim):
        return None
    is_causal = len(values) > 8 and values[8] == "True"
    sizes = (batch, queries, keys, heads, kv_heads, (dim + shapes[2][3]) // 2)
    return "attention", predict.attention_ns(spec, dtype, *sizes, is_causal, _BYTES[dtype])


def _softmax(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Over the last dimension only; None where the dimension is not recorded."""
    shape = shapes[0] if shapes else []
    if not shape or len(values) < 2 or values[1] not in ("-1", str(len(shape) - 1)):
        return None
    return _rows(spec, "softmax", dtype, shape, shape[-1])


def _layer_norm(spec: DeviceSpec, dtype: str, shapes: list[Any], values: list[Any]) -> _Found:
    """Over as many dimensions as the weight has; None without a weight."""
    if len(shapes) < 3 or not shapes[0] or not shapes[2]:
        return None
    return _rows(spec, "layer_norm", dtype, shapes[0], math.prod(shapes[2]))


def _rows(spec: DeviceSpec, kind: str, dtype: str, shape: Sequence[int], length: int) -> _Found:
    total, size = math.prod(shape), _BYTES[dtype]
    if dtype != "float32" or not total or not length or total % length:
        return None
    return kind, predict.rows_ns(spec, kind, total // length, length, 2 * total * size, size)


_FORMULAS: Final[dict[str, Callable[[DeviceSpec, str, list[Any], list[Any]], _Found]]] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _product),
    "_flash_attention_forward": _attention,
    **dict.fromkeys(("_softmax", "_log_softmax"), _softmax),
    "native_layer_norm": _layer_norm,
}


# Rates of copies, by direction.

#: Host to device, device to host, within a device, from device to device, on the host, a memset, anything else.
DIRECTIONS: Final = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "set", "other")

HOST_MEMORY: Final = ("pinned", "pageable")

_WAY: Final = re.compile(r"\b(?:Memcpy\s+)?([HDPA]to[HDPA])\b", re.IGNORECASE)


@ranked
def memcpy_bandwidth(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Rates of copies and sets, by device and direction.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only what this profiler step launched.

    Returns:
        A row per ``device`` (Int64), ``direction`` (category: HtoD, DtoH, DtoD, PtoP, HtoH, set, other, by Kineto's
        names) and ``host_memory`` (category: pinned, pageable; ``<NA>`` without host memory, or if unknown), by
        ``total_ns`` descending. ``count``; ``total_ns``, sum of durations (int64); ``num_bytes``, sum of the sizes that
        are recorded (Int64, ``<NA>`` if none is); ``num_sized``, copies whose size is recorded and whose duration is
        not 0 (int64); ``bytes_per_s``, the bytes of these over their time; ``p5_bytes_per_s``, ``median_bytes_per_s``,
        ``p95_bytes_per_s``, quantiles of their rates (Float64, ``<NA>`` for none); ``median_bytes``, the size of one
        (Float64); ``share_pct``, of the time of all rows (Float64). A copy within a device reads and writes each byte:
        it counts once here.
    """
    work = in_step(trace, device_work(trace), step)
    at = np.flatnonzero(work.kind == MEMORY)
    direction, memory = _kinds(trace.events["name"].array.take(work.rows[at]))
    group, keys = numbered({"device": work.device[at], "direction": direction, "host_memory": memory})
    n = len(keys)
    dur = (work.end - work.start)[at]
    size = integers(trace.events["num_bytes"])[work.rows[at]]
    sized = np.flatnonzero((size >= 0) & (dur > 0))
    speed = size[sized] / dur[sized] * 1e9
    slow, median, fast = quantiles(speed, group[sized], n, (0.05, 0.5, 0.95))
    moved, spent = (sums(values[sized], group[sized], n) for values in (size, dur))
    has_size = np.bincount(group[size >= 0], minlength=n) > 0
    frame = pd.DataFrame(
        {
            "device": masked(keys["device"].to_numpy()),
            "direction": categorical(keys["direction"].to_numpy(), list(DIRECTIONS)),
            "host_memory": categorical(keys["host_memory"].to_numpy(), list(HOST_MEMORY)),
            "count": np.bincount(group, minlength=n),
            "total_ns": sums(dur, group, n),
            "num_bytes": masked(np.where(has_size, sums(np.maximum(size, 0), group, n), -1)),
            "num_sized": np.bincount(group[sized], minlength=n),
            "bytes_per_s": measured(np.divide(moved * 1e9, spent, out=np.full(n, np.nan), where=spent > 0)),
            "p5_bytes_per_s": measured(slow),
            "median_bytes_per_s": measured(median),
            "p95_bytes_per_s": measured(fast),
            "median_bytes": measured(quantiles(size[size >= 0], group[size >= 0], n, (0.5,))[0]),
            "share_pct": share(sums(dur, group, n), dur.sum()),
        }
    )
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


@ranked
def copy_rates(trace: Trace) -> pd.DataFrame:
    """Return the rate at which copies and sets of each device and direction run, at each time at which it changes.

    A copy moves its bytes evenly from its start to its end, and the rates of copies that run at the same time add up.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).

    Returns:
        A row per device, direction and time, in order of ``device`` (Int64), ``direction`` (category, as in
        `memcpy_bandwidth`), ``ts`` (int64 ns): ``bytes_per_s`` (float64) from then on, 0 after the last copy. Empty
        without copies of recorded size and positive duration.
    """
    work = device_work(trace)
    size = integers(trace.events["num_bytes"])[work.rows]
    at = np.flatnonzero((work.kind == MEMORY) & (size >= 0) & (work.end > work.start))
    direction, _ = _kinds(trace.events["name"].array.take(work.rows[at]))
    lane, keys = numbered({"device": work.device[at], "direction": direction})
    lane, ts = np.tile(lane, 2), np.concatenate([work.start[at], work.end[at]])
    rate = size[at] / (work.end - work.start)[at] * 1e9
    order = np.lexsort((ts, lane))
    lane, ts = lane[order], ts[order]
    total, running = (np.cumsum(np.concatenate([each, -each])[order]) for each in (rate, np.ones(len(at), np.int64)))
    total = np.where(running > 0, total, 0.0)  # no rounding errors where nothing runs
    last = run_ends(lane, ts)
    return pd.DataFrame(
        {
            "device": masked(keys["device"].to_numpy()[lane[last]]),
            "direction": categorical(keys["direction"].to_numpy()[lane[last]], list(DIRECTIONS)),
            "ts": ts[last],
            "bytes_per_s": total[last],
        }
    )


def _kinds(names: pd.Categorical) -> tuple[Ints, Ints]:
    """Numbers of each name's direction and host memory, -1 for none of the latter."""
    return map_texts(names, _direction, len(DIRECTIONS) - 1), map_texts(names, _host_memory, -1)


def _direction(name: str) -> int:
    if "memset" in name.lower():
        return DIRECTIONS.index("set")
    found = _WAY.search(name)
    way = f"{found[1][0]}to{found[1][-1]}".replace("A", "D") if found else ""
    return DIRECTIONS.index(way) if way in DIRECTIONS else DIRECTIONS.index("other")


def _host_memory(name: str) -> int:
    lower = name.lower()
    return next((i for i, kind in enumerate(HOST_MEMORY) if kind in lower), -1)
