"""The benchmarks of graphs and kernels, without writing into the project."""

from __future__ import annotations

from typing import Any

from campaign.run import Run


def run(this: Run) -> str:
    """Run both; the kernels need a real device."""
    import bench_graphs
    import bench_kernels

    found: dict[str, Any] = {}
    with this.device():
        calls, rounds = (2, 1) if this.is_short else (50, 9)
        found["graphs"] = bench_graphs.result(calls, rounds, is_real=not this.virtual)
        if not this.virtual:
            found["graphs"]["replayed_call"] = bench_graphs.replayed_calls(calls * 20, rounds, is_real=True)
        this.write(found)
        if not this.virtual:
            found["kernels"] = bench_kernels.result(1 << 30)
            this.write(found)
    return ", ".join(found)
