"""The magics class of ``%cudagraph``, and of ``%%cudagraph`` where it is called as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from cudalens.magics.blocks import complain, display, run_as_cell
from cudalens.magics.graph_options import LINE_MAGIC, LINE_TABLE, MAGIC, GraphOptions, parse_line

if TYPE_CHECKING:
    from cudalens.frames import Trace

_NOTHING = (
    "No function is under a graph manager. `%%cudagraph` on top of a cell runs it by CUDA graphs, "
    "cudalens.cudagraph(fn) wraps a function."
)


@magics_class
class CudagraphMagics(Magics):
    """``%cudagraph`` and ``%%cudagraph``."""

    @LINE_TABLE.documented
    @no_var_expand
    @line_cell_magic
    def cudagraph(self, line: str, cell: str | None = None) -> Any:
        """Run cells and functions by CUDA graphs, and see what the graph manager did.

        ``%%cudagraph`` on top of a cell runs its statements as one function: the first run warms up, the second
        records, later ones replay. What the cell reads are the inputs; what it assigns is in your namespace as always.
        A cell that defines functions has them wrapped (as cudalens.cudagraph does); one that calls such functions shows
        what the manager did with them. A cell that prints, awaits or holds other magics runs as it is, and says why.

        ``%cudagraph tree`` shows all recordings, ``explain`` what did not replay and what to do about it, ``list`` the
        functions; ``reset`` frees all graphs and their memory.
        """
        __tracebackhide__ = True
        if cell is not None:
            assert self.shell is not None
            return run_as_cell(self.shell, MAGIC, line, cell)
        action, options = parse_line(line)
        return getattr(self, f"_{action}")(options)

    def end(self) -> None:
        """Let go of the cells that ran by graphs, when the extension is unloaded."""
        import sys

        if (running := sys.modules.get("cudalens.magics.graph_running")) is not None:
            running.forget_cells()

    def _tree(self, options: GraphOptions) -> None:
        assert self.shell is not None
        trace = _trace()
        if trace.graphs.empty:
            print(_NOTHING)  # noqa: T201
            return
        if options.var is not None:
            self.shell.user_ns[options.var] = trace
        display(self.shell, trace)
        if options.html is not None:
            try:
                print(f"Wrote {trace.to_html(options.html)}.")  # noqa: T201
            except OSError as error:
                complain(f"{LINE_MAGIC}: {options.html} was not written: {type(error).__name__}: {error}")

    def _explain(self, options: GraphOptions) -> None:
        from cudalens.views.graphs.text import explain_text

        trace = _trace()
        print(_NOTHING if trace.graphs.empty else explain_text(trace))  # noqa: T201

    def _list(self, options: GraphOptions) -> None:
        from cudalens.views.graphs.text import functions_text

        trace = _trace()
        print(_NOTHING if trace.graphs.empty else functions_text(trace))  # noqa: T201

    def _reset(self, options: GraphOptions) -> None:
        from cudalens.analysis import units
        from cudalens.graphs.graphed import reset
        from cudalens.magics.graph_running import all_managers

        known = all_managers()
        num_graphs, num_bytes = (sum(counts) for counts in zip(*map(_held, known), strict=True)) if known else (0, 0)
        reset()
        self.end()
        print(f"Freed {units.plural(num_graphs, 'graph')} and {units.size(num_bytes)} of pool memory.")  # noqa: T201


def _held(manager: Any) -> tuple[int, int]:
    return len(manager.nodes()), manager.pool_bytes()[0]


def _trace() -> Trace:
    from cudalens.api.graph_trace import graphs_trace
    from cudalens.magics.graph_running import all_managers

    return graphs_trace([(manager, None) for manager in all_managers()], "this session")
