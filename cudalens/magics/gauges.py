"""``%cudadevice live``: gauges that go on while later cells run, one set of them per notebook."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from cudalens.errors import MetricsError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.views.devices.gauges import GaugesWidget

HINT = "Live gauges need a notebook with a kernel; these are the readings of this moment."


class NotebookGauges:
    """Live gauges in a shell: tells them when a cell runs, and ends them.

    Args:
        shell: The shell whose cells run meanwhile.
        rate_hz: Readings per second.

    Raises:
        UsageError: There is nothing to read.
    """

    def __init__(self, shell: InteractiveShell, rate_hz: float) -> None:
        from cudalens.views.devices.gauges import GaugesWidget

        self._shell = shell
        try:
            self.widget: GaugesWidget = GaugesWidget(rate_hz, on_end=self._leave)
        except MetricsError as error:
            raise UsageError(f"%cudadevice live: {error} `%cudadevice virtual h100` models a GPU.") from None
        self.widget.cell(is_running=True)
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ended)

    def end(self) -> None:
        """End the gauges; their last readings stay as a picture. Harmless when they have ended."""
        self.widget.stop()

    def _cell_begins(self, info: Any = None) -> None:
        self.widget.cell(is_running=True)

    def _cell_ended(self, result: Any = None) -> None:
        self.widget.cell(is_running=False)
        with suppress(Exception):  # the picture is for a reader to come, not worth an error in somebody's cell
            self.widget.refresh()

    def _leave(self) -> None:
        for event, callback in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ended)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)


def readings_now() -> str:
    """The readings of this moment as text, for a terminal.

    Raises:
        UsageError: There is nothing to read.
    """
    from cudalens.views.devices.gauges_feed import GaugeFeed
    from cudalens.views.devices.gauges_section import section
    from cudalens.views.sections.write_text import to_text

    feed = GaugeFeed()
    try:
        feed.start()
    except MetricsError as error:
        raise UsageError(f"%cudadevice live: {error} `%cudadevice virtual h100` models a GPU.") from None
    feed.stop("read once")
    return f"{to_text(section(feed))}\n{HINT}"
