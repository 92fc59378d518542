"""``%%cudamem`` around one cell, and ``%cudamem leaks on`` around all that follow."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.errors import CudalensError, OutputError
from cudalens.magics.blocks import CellBlock, brief, complain, display, execution_count
from cudalens.magics.memory_options import LINE_MAGIC, MAGIC, MemoryOptions, parse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.memory import memory_history
    from cudalens.memory.leaks import CellTracker


def remembered(shell: InteractiveShell, arguments: str, source: str | None, variable: str) -> CellMemory:
    """The context manager for one cell whose memory is followed.

    Args:
        shell: The shell that runs the cell.
        arguments: What stands behind the magic's name.
        source: The cell without the magic line, or None where it is not known.
        variable: Name under which the block stands in the user's namespace until the cell has ended.

    Raises:
        UsageError: The options are wrong.
    """
    return CellMemory(shell, parse(arguments), source, variable)


class CellMemory(CellBlock):
    """Keeps the allocator's history of the block that it is entered for, then shows what it did and what is left."""

    def __init__(self, shell: InteractiveShell, options: MemoryOptions, source: str | None, variable: str) -> None:
        super().__init__(shell, MAGIC, source, variable, var=options.var, outputs=options.outputs)
        self._options = options
        self._history: memory_history | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it was asked to be quiet, and there was memory enough."""
        return self._options.quiet and not self._is_out_of_memory

    @property
    def _is_out_of_memory(self) -> bool:
        return self.trace is not None and bool((self.trace.memory["action"] == "oom").any())

    def __enter__(self) -> CellMemory:
        check_outputs(MAGIC, self._options)
        from cudalens.api.memory import memory_history

        wishes: dict[str, Any] = {"max_entries": self._options.max_entries} if self._options.max_entries else {}
        name = self._options.name or f"cell-{execution_count(self._shell)}"
        history = memory_history(
            name, stacks=not self._options.no_stacks, code=self._source, shell=self._shell, **wishes
        )
        try:
            self._history = history.__enter__()
        except CudalensError as error:
            raise brief(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        assert self._history is not None
        if self.value is not None and not self._options.output:
            self._history.will_show(execution_count(self._shell), self.value)
        try:
            self._history.__exit__(kind, error, trail)
            self.trace = self._history.trace
            self._deliver(self.trace)
        except Exception as failure:  # nothing of ours hides the user's exception, nor ends a cell that went well
            complain(f"{MAGIC}: the memory cannot be shown: {type(failure).__name__}: {failure}")
        if error is not None:
            self._show()
            with suppress(AttributeError):  # so that nobody shows the same once more
                setattr(error, _IS_SHOWN, True)


_IS_SHOWN: Final = "_cudalens_memory_is_shown"


class LeakWatch:
    """Follows the cells that come, and tells after each what it left alive."""

    def __init__(self, shell: InteractiveShell, options: MemoryOptions) -> None:
        from cudalens.memory.leaks import CellTracker
        from cudalens.memory.snapshot import require_device

        try:
            require_device()
        except CudalensError as error:
            raise brief(error) from None
        self._shell, self._is_quiet = shell, options.quiet
        self.tracker: CellTracker = CellTracker(shell=shell)
        self.tracker.on()
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def end(self) -> None:
        """Let go of the shell, and forget what was seen."""
        for event, callback in (("pre_run_cell", self._before_cell), ("post_run_cell", self._after_cell)):
            with suppress(ValueError):
                self._shell.events.unregister(event, callback)
        self.tracker.off()

    def clear(self) -> None:
        """Take what is there now for what was there before."""
        self.tracker.off()
        self.tracker.on()

    def _before_cell(self, info: Any = None) -> None:
        self._guarded(lambda: self.tracker.begin(lambda: f"In[{execution_count(self._shell)}]"))

    def _after_cell(self, result: Any = None) -> None:
        number = getattr(result, "execution_count", None) or execution_count(self._shell)
        self._guarded(lambda: self._tell(number, getattr(result, "error_in_exec", None)))

    def _tell(self, number: int, error: BaseException | None) -> None:
        left = self.tracker.end(f"In[{number}]", error)
        if is_out_of_memory(error) and not hasattr(error, _IS_SHOWN):
            from cudalens.api.memory import memory_snapshot

            display(self._shell, memory_snapshot(f"out-of-memory-{number}", error=error, shell=self._shell))
        elif left is not None and (left.sizes or left.freed_bytes) and not self._is_quiet:
            from cudalens.views.memory.text import left_text

            print(left_text(left.cell, left.sizes, left.names, left.kinds, left.freed_bytes))  # noqa: T201

    def _guarded(self, act: Any) -> None:
        """A failure of ours is told in one line, and ends the watch: it would come again with each cell."""
        try:
            act()
        except Exception as error:
            self.end()
            complain(f"{LINE_MAGIC} leaks: switched off: {type(error).__name__}: {error}")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether a cell ended for want of the device's memory."""
    if error is None:
        return False
    import torch

    return isinstance(error, torch.OutOfMemoryError)


def check_outputs(magic: str, options: MemoryOptions) -> None:
    """Refuse outputs that cannot be written, before anything runs.

    Raises:
        UsageError: A folder is missing or not writable, or the path is a folder.
    """
    from cudalens.frames.files import check_target

    for file in options.outputs.values():
        try:
            check_target(file)
        except OutputError as error:
            raise UsageError(f"{magic}: {error} Nothing has run.") from None
