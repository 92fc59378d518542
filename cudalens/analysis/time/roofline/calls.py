"""Operators that launched computing kernels, with their operations, bytes, dtypes and expected times."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.time.breakdown import enclosing
from cudalens.analysis.time.groups import numbered, share, sums
from cudalens.analysis.time.roofline.expected import Expected, expected
from cudalens.analysis.time.roofline.shapes import CONVOLUTION_NAMES, facts, numbers_of
from cudalens.analysis.time.work import Work
from cudalens.frames import Trace, categorical, is_category
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts, masked, text_column
from cudalens.gpus.device_spec import DeviceSpec
from cudalens.gpus.predict import pointwise_share
from cudalens.gpus.registry import spec_of

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
    texts: list[Any] = found.tolist()
    return texts


def _categories(values: pd.Categorical, codes: Ints) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=values.categories).remove_unused_categories()


def _whole(values: Ints, group: Ints, n: int) -> Ints:
    """Sums of each group, -1 if one of its values is unknown."""
    total = sums(np.maximum(values, 0), group, n)
    some_unknown = np.bincount(group[values < 0], minlength=n) > 0
    return np.where(some_unknown, -1, total)
