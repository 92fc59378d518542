"""The magics class of ``%cudasan``, and of ``%%cudasan`` where it is called as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from cudalens.magics.blocks import display, run_as_cell
from cudalens.magics.watch_options import LINE_TABLE, MAGIC, WatchOptions, parse_line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.watching import NotebookWatch


@magics_class
class CudasanMagics(Magics):
    """``%cudasan`` and ``%%cudasan``."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._watch: NotebookWatch | None = None

    @LINE_TABLE.documented
    @no_var_expand
    @line_cell_magic
    def cudasan(self, line: str, cell: str | None = None) -> Any:
        """Watch cells for stream races: accesses to the same memory that nothing orders.

        ``%cudasan on`` watches every cell from the next one on, and shows after each the races that it found in it;
        ``off`` ends that, ``status`` says how it is doing, ``report`` shows all races again, ``clear`` forgets them.
        After ``%cudasan on --explore``, on a virtual device, ``explore`` does what the last cell did there in other
        orders that its synchronisations allow, and says which values differ; nothing of the cell itself runs again.
        On a real GPU, ``confirm`` says what running the last watched cell again would do, and with ``--yes`` runs it,
        steered toward the orders that its races allow, and compares the values.
        ``%%cudasan`` on top of a cell watches that cell alone.
        """
        __tracebackhide__ = True
        if cell is not None:
            assert self.shell is not None
            return run_as_cell(self.shell, MAGIC, line, cell)
        action, options = parse_line(line)
        return getattr(self, f"_{action}")(options)

    def end(self) -> None:
        """Stop watching, when the extension is unloaded."""
        from cudalens.magics.confirming import forget

        if self._watch is not None:
            self._watch.end()
        if self.shell is not None:
            forget(self.shell)

    def _on(self, options: WatchOptions) -> None:
        from cudalens.magics.watching import NotebookWatch

        assert self.shell is not None
        if self._watch is not None:
            self._watch.end()
        self._watch = NotebookWatch(self.shell, options)
        print("Watching the cells that follow for stream races. `%cudasan off` ends it.")  # noqa: T201

    def _off(self, options: WatchOptions) -> None:
        if self._watch is None or not self._watch.sanitizer.is_on:
            print("The sanitizer was not on.")  # noqa: T201
        else:
            self._watch.end()
            print(self._watch.sanitizer.status())  # noqa: T201

    def _status(self, options: WatchOptions) -> None:
        told = "The sanitizer is off: `%cudasan on` watches the cells that follow, `%%cudasan` one cell."
        print(told if self._watch is None else self._watch.sanitizer.status())  # noqa: T201

    def _report(self, options: WatchOptions) -> None:
        if self._watch is None:
            self._status(options)
            return
        assert self.shell is not None
        trace = self._watch.trace()
        display(self.shell, trace)
        if options.html is not None:
            print(f"Wrote {trace.to_html(options.html)}.")  # noqa: T201

    def _explore(self, options: WatchOptions) -> None:
        assert self.shell is not None
        if self._watch is None:
            self._status(options)
        else:
            self._watch.explore(options)

    def _confirm(self, options: WatchOptions) -> None:
        from cudalens.magics.confirming import confirmed

        assert self.shell is not None
        confirmed(self.shell, options)
        if self._watch is not None:
            self._watch.mark()

    def _clear(self, options: WatchOptions) -> None:
        if self._watch is not None:
            self._watch.clear()
        print("Races found so far are forgotten.")  # noqa: T201
