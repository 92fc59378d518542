"""The doors of a Trace, and of what becomes one: which function of which upper room answers for each method.

frames/ must not import the rooms above it, and ``import cudalens`` must not import pandas. So the methods of a Trace
that show or write name their door here, and the room behind it is imported when the door is first opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

DOORS: Final = {
    "check": ("cudalens.analysis.assertions", "check"),
    "confirm": ("cudalens.confirmed", "confirm"),
    "devices_html": ("cudalens.views.devices", "devices_html"),
    "devices_text": ("cudalens.views.devices_text", "devices_text"),
    "devices_verdict": ("cudalens.views.devices_text", "verdict"),
    "exploration_html": ("cudalens.views.races_value", "exploration_html"),
    "exploring": ("cudalens.explored", "Exploring"),
    "figure": ("cudalens.views.figures", "figure"),
    "graph_tree": ("cudalens.views.graphs", "graph_tree"),
    "key_averages": ("cudalens.analysis.averages", "key_averages"),
    "memory_diff": ("cudalens.views.memory_diff", "memory_diff"),
    "mimebundle": ("cudalens.views.mimebundle", "mimebundle"),
    "races_trace": ("cudalens.watched", "races_trace"),
    "selection": ("cudalens.views.selection", "selected_events"),
    "show": ("cudalens.views.mimebundle", "show"),
    "summary": ("cudalens.views.text", "summary"),
    "table": ("cudalens.views.averages_table", "table"),
    "timeline": ("cudalens.views.widget", "timeline"),
    "to_chrome": ("cudalens.traces.chrome_writer", "to_chrome"),
    "to_collapsed": ("cudalens.traces.flame_writer", "to_collapsed"),
    "to_csv": ("cudalens.traces.tables_writer", "to_csv"),
    "to_hta": ("cudalens.traces.hta_writer", "to_hta"),
    "to_html": ("cudalens.report", "to_html"),
    "trust": ("cudalens.views.trust_text", "trust"),
    "to_parquet": ("cudalens.traces.tables_writer", "to_parquet"),
    "to_speedscope": ("cudalens.traces.flame_writer", "to_speedscope"),
}


def open_door(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function behind door `name` with the arguments given."""
    module, function = DOORS[name]
    return getattr(import_module(module), function)(*args, **kwargs)
