"""`plan`: compare layouts of a distributed job on virtual GPUs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pandas as pd

from cudalens.api.job import check_no_device, job, make_cluster
from cudalens.gpus.registry import DeviceSpec
from cudalens.views.ranks.simulated import plan_section
from cudalens.views.sections.shown import Shown
from cudalens.views.sections.unknown_values import DEFAULT, UnknownValues
from cudalens.virtual.jobs.topology import Network

_SECONDS_PER_HOUR: Final = 3600
_NS: Final = 1e9


class Plan(Shown):
    """Layouts of a job, the fastest that fits first; prints as text, and shows as a table in a notebook.

    Attributes:
        layouts: A row for each layout: a column for each argument of the program; ``step_ns`` with its 80 % band
            ``step_low_ns``, ``step_high_ns``; ``exposed_pct``, the share of a step in which GPUs only communicate or
            wait; ``total_bytes`` of the rank with most memory, ``capacity_bytes``, ``fits``; ``gpu_seconds`` and
            ``cost`` of a step (missing without a price); ``error``, why a layout cannot run.
        read_at: The program's lines that read a value that is not known, each as place and text; they got `default`.
        unwritten: By path, place and text of the line that would have written unknown values to a file.
    """

    def __init__(self, layouts: pd.DataFrame, arguments: list[str], gpus: str, unknown: UnknownValues) -> None:
        self.layouts, self.read_at, self.unwritten = layouts, unknown.read_at, unknown.unwritten
        super().__init__(plan_section(layouts, arguments, gpus, unknown))


def plan(
    function: Callable[..., object],
    gpus: str | DeviceSpec = "h100x8",
    nodes: int | None = None,
    *,
    layouts: Iterable[Mapping[str, int]] | None = None,
    network: str | Network | None = None,
    price_per_gpu_hour: float | None = None,
    default: float | None = DEFAULT,
) -> Plan:
    """Run a program with each layout on many virtual GPUs, and compare time, memory and cost of a step.

    Args:
        function: The program of a rank. Its arguments are the sizes of the dimensions of its mesh:
            ``def train(dp, tp): mesh = init_device_mesh("cuda", (dp, tp)) ...``. Arguments with a default value are
            not sizes, and keep it. Where all have one, those that are None or 1 are the sizes:
            ``train(dp=None, tp=1, steps=3)``.
        gpus: The GPU and the number of all of them: ``"h100x64"``.
        nodes: The number of nodes; by default one for each 8 GPUs.
        layouts: The sizes to compare; by default all whose product is the number of GPUs.
        network: The links between nodes, as of `cudalens.virtual.job`.
        price_per_gpu_hour: The price of a GPU for an hour, for the cost of a step.
        default: The number that the program reads for unknown values, as of `cudalens.virtual.job`.

    Raises:
        ValueError: `function` takes no sizes, there is no layout or one without the sizes of `function`, the GPUs
            cannot be distributed evenly over the nodes, or the price is below 0.
        VirtualDeviceError: The GPUs or the network are unknown, or a virtual device is active.
    """
    names = _names_of_sizes(function)
    if not names:
        raise ValueError("plan() needs a function of the sizes of its mesh, such as train(dp, tp).")
    if price_per_gpu_hour is not None and not price_per_gpu_hour >= 0:  # a NaN is refused, too
        raise ValueError(f"price_per_gpu_hour is {price_per_gpu_hour}; expected 0 or more.")
    num_gpus = make_cluster(gpus, nodes, network, {}).num_gpus
    check_no_device("plan()")
    chosen = list(layouts) if layouts is not None else list(_sizes(names, num_gpus))
    if not chosen:
        raise ValueError("plan() got an empty list of layouts.")
    for layout in chosen:
        if not isinstance(layout, Mapping) or set(layout) != set(names):
            example = dict(zip(names, (num_gpus, *[1] * len(names)), strict=False))
            raise ValueError(f"plan() got the layout {layout!r}; expected sizes of {', '.join(names)}, as {example}.")
    rows, unknown = [], UnknownValues(default or DEFAULT)
    for layout in chosen:
        figures, found = _measure(function, layout, gpus, nodes, network, default)
        row, unknown = dict(layout) | figures, unknown.merge(found)
        row["gpu_seconds"] = row["cost"] = None
        if row["error"] is None:
            row["gpu_seconds"] = seconds = row["step_ns"] / _NS * num_gpus
            if price_per_gpu_hour is not None:
                row["cost"] = seconds * price_per_gpu_hour / _SECONDS_PER_HOUR
        rows.append(row)
    frame = pd.DataFrame(rows)
    order = frame.assign(worse=~frame["fits"].astype(bool)).sort_values(["worse", "step_ns"], kind="stable")
    label = gpus if isinstance(gpus, str) else gpus.key
    return Plan(order.drop(columns="worse").reset_index(drop=True), names, label, unknown)


def _names_of_sizes(function: Callable[..., object]) -> list[str]:
    """Return the arguments without a default value; where all have one, those that are None or 1 by default."""
    variable = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    each = [one for one in inspect.signature(function).parameters.values() if one.kind not in variable]
    needed = [one.name for one in each if one.default is one.empty]
    return needed or [one.name for one in each if repr(one.default) in ("None", "1")]  # not True, which equals 1


def _sizes(names: list[str], number: int) -> Iterator[dict[str, int]]:
    """Yield all sizes whose product is `number`; the last name changes fastest."""
    if len(names) == 1:
        yield {names[0]: number}
        return
    for size in range(number, 0, -1):
        if number % size == 0:
            for rest in _sizes(names[1:], number // size):
                yield {names[0]: size, **rest}


def _call(function: Callable[..., object], layout: Mapping[str, int]) -> object:
    """Call the program with its sizes, of which some may be positional-only arguments."""
    parameters = inspect.signature(function).parameters.values()
    positional = [layout.get(one.name, one.default) for one in parameters if one.kind is one.POSITIONAL_ONLY]
    named = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY]
    return function(*positional, **{name: layout[name] for name in named if name in layout})


def _measure(
    function: Callable[..., object],
    layout: Mapping[str, int],
    gpus: str | DeviceSpec,
    nodes: int | None,
    network: str | Network | None,
    default: float | None,
) -> tuple[dict[str, Any], UnknownValues]:
    """Return the figures of a layout, and what it did with unknown values; those of one that cannot run are missing."""
    from cudalens.views.ranks.simulated import exposed_share

    text = " x ".join(f"{name} {size}" for name, size in layout.items())
    try:
        made = job(lambda: _call(function, layout), gpus, nodes, network=network, default=default, name=text)
    except Exception as error:
        empty = dict.fromkeys(("step_ns", "step_low_ns", "step_high_ns", "exposed_pct", "total_bytes"))
        why = {"capacity_bytes": None, "fits": False, "error": f"{type(error).__name__}: {error}"}
        return empty | why, UnknownValues()
    exposed = exposed_share(made)
    figures = {
        "step_ns": made.step_ns,
        "step_low_ns": made.step_low_ns,
        "step_high_ns": made.step_high_ns,
        "exposed_pct": None if exposed is None else exposed * 100,
        "total_bytes": int(made.memory["total_bytes"].max()),
        "capacity_bytes": int(made.memory["capacity_bytes"].max()),
        "fits": made.fits,
        "error": None,
    }
    return figures, made.unknown
