"""Times of 300 operators and sizes: as replays of a CUDA graph and as plain calls, and the kernels that they launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from campaign.operators import Operator, operators
from campaign.run import Run

#: Calls in a graph, replays of which the shortest counts, and plain calls between two events.
LAUNCHES: Final = 8
REPLAYS: Final = 4
PLAIN: Final = 10
#: Kernels are listed if so many seconds are left.
LISTING_S: Final = 25.0
#: The most kernels of one operator that are listed, and letters of a name.
_MAX_KERNELS: Final = 40
_MAX_NAME: Final = 120
_SHORT: Final = 6


def run(this: Run) -> str:
    """Time the operators, then list their kernels."""
    rows: list[dict[str, Any]] = []
    with this.device(values=False):
        chosen = this.some(operators(), _SHORT)
        for operator in chosen:
            if this.is_over:
                break
            rows.append(row_of(operator))
            if len(rows) % 25 == 0:
                this.write(rows)
                torch.cuda.empty_cache()
        this.write(rows)
        listed = (
            0 if this.seconds_left < (0 if this.is_short else LISTING_S) else _list_kernels(chosen[: len(rows)], rows)
        )
        this.write(rows)
    failed = sum("error" in row for row in rows)
    return f"{len(rows)} of {len(chosen)} operators, {failed} failed, kernels of {listed}"


def row_of(operator: Operator) -> dict[str, Any]:
    """The times of an operator, or the error."""
    row: dict[str, Any] = {"family": operator.family, "operator": operator.name}
    try:
        call = operator.prepare()
        row["plain_ns"] = _plain_ns(call)
        row["graph_ns"] = _graph_ns(call)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:300]
        torch.cuda.synchronize()
    return row


def _plain_ns(call: Callable[[], Any]) -> int:
    """Time of one of several calls that follow each other, between two events."""
    for _ in range(2):
        call()
    return round(min(_between_events(lambda: [call() for _ in range(PLAIN)]) for _ in range(3)) / PLAIN)


def _graph_ns(call: Callable[[], Any]) -> int | None:
    """Time of one call in a replayed graph; None for what CUDA cannot capture."""
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    try:
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    graph.replay()
    return round(min(_between_events(graph.replay) for _ in range(REPLAYS)) / LAUNCHES)


def _between_events(call: Callable[[], Any]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e6


def _list_kernels(chosen: list[Operator], rows: list[dict[str, Any]]) -> int:
    """Add the kernels of each operator, from one profile of one call of each."""
    import cudalens

    by_name = {row["operator"]: row for row in rows if "error" not in row}
    calls = []
    for operator in chosen:
        if operator.name in by_name:
            calls.append((operator.name, operator.prepare))
    with cudalens.profile() as profile:
        for name, prepare in calls:
            call = prepare()
            call()
            with torch.profiler.record_function(f"operator {name}"):
                call()
            torch.cuda.synchronize()
    for name, kernels in _kernels(profile.trace.events).items():
        by_name[name]["kernels"] = kernels[:_MAX_KERNELS]
        by_name[name]["num_kernels"] = len(kernels)
    return len(calls)


def _kernels(events: Any) -> dict[str, list[list[Any]]]:
    """Name and time in ns of the device work that was launched inside of each range."""
    names = events["name"].astype(str)
    is_range = (events["cat"] == "user_annotation") & names.str.startswith("operator ")
    work = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"]) & events["launch"].notna()]
    launched = events["ts"].to_numpy()[work["launch"].to_numpy(dtype=int)]
    found = {}
    for begin, length, name in zip(events["ts"][is_range], events["dur"][is_range], names[is_range], strict=True):
        mine = work[(launched >= begin) & (launched < begin + length)].sort_values("ts")
        pairs = zip(mine["name"].astype(str), mine["dur"], strict=True)
        found[name.removeprefix("operator ")] = [[text[:_MAX_NAME], int(ns)] for text, ns in pairs]
    return found
