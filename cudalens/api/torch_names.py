"""`TorchNames`: the results of a profile by the names that torch.profiler's objects have for them."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import pandas as pd

from cudalens.analysis import total_average
from cudalens.errors import ProfilerError, invalid_choice
from cudalens.frames import Trace

#: The weight of a stack for torch's metrics of ``export_stacks``, by the part of their name before ``_time_total``.
_STACK_WEIGHTS: Final = {
    "self_cpu": "host",
    "self_cuda": "device",
    "self_device": "device",
    "self_xpu": "device",
}


class KeyAverages(pd.DataFrame):  # type: ignore[misc]  # pandas has no types here
    """Costs by name, a row each, with torch's ``table``; the result of any pandas operation is a plain frame."""

    _metadata: ClassVar[list[str]] = ["_trace", "_by"]
    _trace: Trace
    _by: list[str]

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the costs as a text table; the arguments are those of `Trace.table`."""
        return self._trace.table(
            sort_by,
            row_limit,
            by=self._by,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
        )


class TorchNames:
    """Results of the recorded Trace under torch.profiler's names, as pandas frames and in nanoseconds unless named."""

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """The recorded Trace.

        Raises:
            ProfilerError: There is none yet.
        """

    @property
    def function_events(self) -> pd.DataFrame:
        """The events of the Trace, a row each (torch: a list of FunctionEvent)."""
        return self.trace.events

    def events(self) -> pd.DataFrame:
        """Return the events of the Trace, a row each (torch: a list of FunctionEvent)."""
        return self.trace.events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> KeyAverages:
        """Return costs by name, a row each, as `Trace.key_averages` (torch: a list of FunctionEventAvg).

        The frame has torch's method ``table``: ``p.key_averages().table(sort_by="cuda_time_total", row_limit=10)``.

        Args:
            group_by_input_shape: Separate calls with other input shapes.
            group_by_stack_n: Separate calls with other stacks, of so many frames.
            group_by_overload_name: Refused: overload names are not recorded.
        """
        averages = KeyAverages(
            self.trace.key_averages(
                group_by_input_shape=group_by_input_shape,
                group_by_stack_n=group_by_stack_n,
                group_by_overload_name=group_by_overload_name,
            )
        )
        averages._trace = self.trace
        averages._by = ["name"]
        if group_by_input_shape:
            averages._by.append("input_shapes")
        if group_by_stack_n > 0:
            averages._by.append(f"stack:{group_by_stack_n}")
        return averages

    def total_average(self) -> pd.DataFrame:
        """Return all rows as one, as `cudalens.analysis.total_average`."""
        return total_average(self.trace)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        *,
        by: Sequence[str] | str = ("name",),
    ) -> str:
        """Return costs by name as a text table; the arguments are those of `Trace.table`."""
        return self.trace.table(
            sort_by,
            row_limit,
            by=by,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write Chrome trace JSON, as `Trace.to_chrome`; return its path."""
        return self.trace.to_chrome(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> Path:
        """Write Python stacks with their costs, as `Trace.to_collapsed`; return the path.

        Args:
            path: The file.
            metric: ``self_cpu_time_total``, ``self_cuda_time_total`` or ``self_device_time_total``.

        Raises:
            ValueError: `metric` is none of these.
            ProfilerError: No stacks were recorded.
        """
        weight = _STACK_WEIGHTS.get(metric.removesuffix("_time_total"))
        if weight is None or not metric.endswith("_time_total"):
            raise invalid_choice("metric", metric, [f"{name}_time_total" for name in _STACK_WEIGHTS])
        trace = self.trace
        if trace.events["stack"].isna().all():
            raise ProfilerError("no stacks were recorded: export_stacks needs cudalens.profile(stacks=True).")
        return trace.to_collapsed(path, weight=weight, by="stack")  # type: ignore[arg-type]

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of the self times on the host, microseconds, as torch counts it."""
        return float(self.total_average()["self_ns"].sum()) / 1000

    @property
    def trace_id(self) -> str | None:
        """What `custom_trace_id_callback` returned for the Trace; None without one."""
        found = json.loads(self.trace.info.extra.get("metadata") or "{}").get("trace_id")
        return None if found is None else str(found)
