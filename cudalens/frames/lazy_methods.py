"""Methods of a Trace and of other results whose functions are in upper packages, imported at the first call.

frames/ must not import the packages above it, and ``import cudalens`` must not import pandas. So these methods look up
the module and the name of their function here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

LAZY_METHODS: Final = {
    "analyse_ranks": ("cudalens.analysis.ranks.job", "RankAnalysis"),
    "brief": ("cudalens.views.brief.brief", "brief"),
    "check": ("cudalens.analysis.assertions.check", "check"),
    "confirm": ("cudalens.api.confirm", "confirm"),
    "devices_html": ("cudalens.views.devices.inventory", "devices_html"),
    "devices_text": ("cudalens.views.devices.inventory", "devices_text"),
    "devices_verdict": ("cudalens.views.devices.inventory", "verdict"),
    "exploration_html": ("cudalens.views.races.values", "exploration_html"),
    "exploring": ("cudalens.api.explore", "Exploring"),
    "figure": ("cudalens.views.figures", "figure"),
    "graph_tree": ("cudalens.views.graphs.section", "graph_tree"),
    "key_averages": ("cudalens.analysis.time.averages", "key_averages"),
    "load": ("cudalens.frames.store", "load"),
    "memory_diff": ("cudalens.views.memory.diff", "memory_diff"),
    "mimebundle": ("cudalens.views.mimebundle", "mimebundle"),
    "open_ranks": ("cudalens.frames.rank_store", "open_store"),
    "races_trace": ("cudalens.api.race_trace", "races_trace"),
    "ranks_html": ("cudalens.views.ranks.section", "to_html"),
    "ranks_mimebundle": ("cudalens.views.ranks.section", "mimebundle"),
    "ranks_summary": ("cudalens.views.ranks.section", "summary"),
    "ranks_widget": ("cudalens.views.ranks.widget", "widget"),
    "reduce_ranks": ("cudalens.analysis.ranks.reduce", "reduce_ranks"),
    "save": ("cudalens.frames.store", "save"),
    "selection": ("cudalens.views.selection", "selected_events"),
    "show": ("cudalens.views.mimebundle", "show"),
    "summary": ("cudalens.views.sections.summary", "summary"),
    "table": ("cudalens.views.sections.averages_table", "table"),
    "timeline": ("cudalens.views.widget", "timeline"),
    "to_chrome": ("cudalens.traces.export.chrome", "to_chrome"),
    "to_collapsed": ("cudalens.traces.export.flame", "to_collapsed"),
    "to_csv": ("cudalens.traces.export.tables", "to_csv"),
    "to_hta": ("cudalens.traces.export.hta", "to_hta"),
    "to_html": ("cudalens.report", "to_html"),
    "transfer_curves": ("cudalens.api.rank_curves", "transfer_curves"),
    "trust": ("cudalens.views.sections.trust", "trust"),
    "to_parquet": ("cudalens.traces.export.tables", "to_parquet"),
    "to_speedscope": ("cudalens.traces.export.flame", "to_speedscope"),
    "write": ("cudalens.frames.store", "write"),
}


def call_lazy(name: str, *args: Any, **kwargs: Any) -> Any:
    """Import the function of the lazy method `name` and call it."""
    module, function = LAZY_METHODS[name]
    return getattr(import_module(module), function)(*args, **kwargs)
