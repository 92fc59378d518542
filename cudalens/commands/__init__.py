"""The verbs of the ``cudalens`` command: for each, a function that adds its parser and one that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cudalens.commands import arguments, compare_traces, processes, read_traces

#: Functions that add a verb's parser, in the order of ``cudalens --help``.
VERBS: Final[tuple[Callable[[arguments.Verbs], None], ...]] = (
    read_traces.add_report,
    read_traces.add_view,
    read_traces.add_summary,
    read_traces.add_brief,
    read_traces.add_check,
    read_traces.add_convert,
    processes.add_ranks,
    compare_traces.add_compare,
    compare_traces.add_diff_memory,
    read_traces.add_query,
    processes.add_hang,
    processes.add_job,
    processes.add_attach,
    processes.add_mcp,
    processes.add_doctor,
)
