"""Results of the verbs as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.frames import Trace
    from cudalens.views.compare.comparison import Comparison

_MOST_ROWS = 1000


def dumps(value: Any) -> str:
    """`value` as JSON text."""
    return json.dumps(value, indent=2, allow_nan=False)


def summary(trace: Trace, path: str) -> dict[str, Any]:
    """Return what ``cudalens summary`` prints: the verdict, facts about the run, and the costs by name."""
    import msgspec

    info = msgspec.to_builtins(trace.info)
    costs = trace.key_averages().reset_index()
    return {
        "file": path,
        "verdict": trace.summary().verdict,
        "num_events": len(trace),
        "info": {key: _plain(value) for key, value in info.items()},
        "costs": rows(costs),
    }


def comparison(found: Comparison) -> dict[str, Any]:
    """Return what ``cudalens compare`` prints: the verdict, the change of the whole, and a list of rows per table."""
    change = found.change
    percent = {"change_pct": change.ratio, "low_pct": change.low, "high_pct": change.high}
    return {
        "verdict": found.verdict,
        "unit": change.unit,
        "before_ns": change.before_ns,
        "after_ns": change.after_ns,
        "num_before": change.num_before,
        "num_after": change.num_after,
        "status": change.status,
        **{name: None if share is None else _plain(100 * share) for name, share in percent.items()},
        **{name: rows(getattr(found, name)) for name in ("ops", "kernels", "modules", "memory")},
        "notes": list(found.differences.notes),
    }


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the first rows of `frame`, None for missing values."""
    part = frame.head(_MOST_ROWS).astype(object)
    part = part.where(part.notna(), None)
    return [{str(name): _plain(value) for name, value in row.items()} for row in part.to_dict("records")]


def _plain(value: Any) -> Any:
    """`value` for JSON: no numbers that are not finite, no types of numpy."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int) else getattr(value, "item", lambda: str(value))()
