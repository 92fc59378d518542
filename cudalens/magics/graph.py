"""``%%cudagraph`` runs a cell by CUDA graphs; ``%cudagraph`` shows what the graph managers did."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cudalens.magics import graph_rewrite
from cudalens.magics.base import Magic, verb
from cudalens.magics.cells import check_outputs, display, written
from cudalens.magics.options import CellOptions, NoOptions, Outputs, flag, number, one_of, option, place

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.frames import Trace
    from cudalens.magics.graph_cell import GraphedCell

_NOTHING: Final = (
    "No function is under a graph manager. `%%cudagraph` on top of a cell runs it by CUDA graphs, "
    "cudalens.cudagraph(fn) wraps a function."
)


@dataclass(frozen=True, kw_only=True)
class GraphOptions(CellOptions):
    """Options of ``%%cudagraph``."""

    name: str | None = place("NAME", "Name of the cell in the tree; or of the function that the cell defines.")
    repeat: int | None = number("--repeat", "Run the cell N times: the 1st warms up, the 2nd records.")
    check: bool = flag("--check", help="Compare the first and every 32nd replay of each recording with an eager run.")
    mutations: str = option(
        "--mutations",
        metavar="WHAT",
        default="skip",
        type=one_of("skip", "copy"),
        help="Inputs that the cell overwrites: skip recording (the default), or copy them back.",
    )


class Cudagraph(Magic):
    """``%cudagraph`` and ``%%cudagraph``."""

    name = "cudagraph"
    about = """Run cells and functions by CUDA graphs, and see what the graph manager did.

``%%cudagraph`` on top of a cell runs its statements as one function: the first run warms up, the second records, later
ones replay. What the cell reads are the inputs; what it assigns is in your namespace as usual. A cell that changes
nothing runs three times at once; every other cell runs once, and is recorded when you run it again.
The functions that a cell defines are wrapped, as by cudalens.cudagraph; a cell that calls such functions shows what the
manager did with them. A cell that prints, awaits or has other magics runs without a graph, and the view says why."""
    default = "tree"
    cell_options = GraphOptions
    cell_about = "Run the cell by CUDA graphs."

    @classmethod
    def cell_run(cls, shell: InteractiveShell, options: GraphOptions, source: str | None, variable: str) -> GraphedCell:
        """Return the run of one cell under a graph manager."""
        from cudalens.magics.graph_cell import GraphedCell

        return GraphedCell(shell, "%%cudagraph", options, source, variable)

    @classmethod
    def rewrite(cls, body: list[ast.stmt], run: str, shell: InteractiveShell, options: Any) -> list[ast.stmt]:
        """Return the statements as a function and its call, where a graph can run them."""
        return graph_rewrite.rewritten(body, run, shell, options.name)

    def end(self) -> None:
        """Free the graphs of cells, when the extension is unloaded."""
        if (cells := sys.modules.get("cudalens.magics.graph_cell")) is not None:
            cells.forget_cells()

    @verb("tree", Outputs)
    def _tree(self, options: Outputs) -> None:
        """Show all recordings."""
        check_outputs("%cudagraph tree", options.outputs)
        trace = _trace()
        if trace.graphs.empty:
            print(_NOTHING)  # noqa: T201
            return
        if options.var is not None:
            self.shell.user_ns[options.var] = trace
        display(self.shell, trace)
        for line in written("%cudagraph tree", trace, options.outputs):
            print(line)  # noqa: T201

    @verb("explain")
    def _explain(self, options: NoOptions) -> None:
        """Show which calls did not replay, why, and what to do about it."""
        from cudalens.views.graphs.section import explanation

        trace = _trace()
        if trace.graphs.empty:
            print(_NOTHING)  # noqa: T201
        elif (shown := explanation(trace)) is not None:
            display(self.shell, shown)
        else:
            print("Nothing to explain: no function was skipped, recorded again or warned about.")  # noqa: T201

    @verb("list")
    def _list(self, options: NoOptions) -> None:
        """List the functions under graph managers."""
        from cudalens.views.graphs.section import functions_shown

        if (shown := functions_shown(_trace())) is not None:
            display(self.shell, shown)
        else:
            print(_NOTHING)  # noqa: T201

    @verb("reset")
    def _reset(self, options: NoOptions) -> None:
        """Free all graphs and their memory."""
        from cudalens.analysis import units
        from cudalens.graphs.managers import reset
        from cudalens.magics.graph_cell import all_managers

        counts = [(len(manager.nodes()), manager.pool_bytes()[0]) for manager in all_managers()]
        num_graphs, num_bytes = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        reset()
        self.end()
        print(f"Freed {units.plural(num_graphs, 'graph')} and {units.size(num_bytes)} of pool memory.")  # noqa: T201


def _trace() -> Trace:
    from cudalens.api.run_info import graphs_trace
    from cudalens.magics.graph_cell import all_managers

    return graphs_trace([(manager, None) for manager in all_managers()], "this session")
