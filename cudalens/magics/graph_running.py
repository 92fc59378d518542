"""``%%cudagraph`` around one cell: its statements as a function under the graph manager, and what that did with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from cudalens.errors import CudalensError
from cudalens.magics import graph_effects
from cudalens.magics.blocks import CellBlock, brief, complain, execution_count
from cudalens.magics.graph_cells import WHYS
from cudalens.magics.graph_options import MAGIC, GraphOptions, parse
from cudalens.magics.graph_reach import bound_values, modules_in

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.graph_trace import PlainRun
    from cudalens.frames import Trace
    from cudalens.graphs.manager import GraphManager

_ENOUGH: Final = 3
"""Runs after which a cell that can be recorded replays: the first warms up, the second records."""

_MAX_CELLS: Final = 256


@dataclass(slots=True)
class KnownCell:
    """A cell that ran before.

    Attributes:
        graphed: It, as a function under the manager.
        code: Of its body.
        printed: It was seen to print, so that it runs as it is from then on.
        ran: It has run in the step that is under way.
    """

    graphed: Any
    code: CodeType
    printed: bool = False
    ran: bool = False

    @property
    def counts(self) -> Any:
        """What its calls came to, as the manager counts them."""
        return self.graphed._function.counts


_known: Final[dict[Any, KnownCell]] = {}
"""Cells by name, source and what they were made with."""

_managers: Final[dict[int, GraphManager]] = {}
"""Managers of cells, by device. Functions that users wrap have others: steps of a notebook begin by other rules."""


def cell_managers() -> list[GraphManager]:
    """The managers that cells ran under, by device."""
    return [manager for _, manager in sorted(_managers.items()) if manager.is_present and not manager.is_closed]


def forget_cells() -> None:
    """Let go of all cells, and free their graphs."""
    _known.clear()
    while _managers:
        _managers.popitem()[1].shutdown()


def all_managers() -> list[GraphManager]:
    """All managers that there is something to say of: those of functions, then those of cells."""
    from cudalens.graphs.graphed import managers

    return [*managers(), *cell_managers()]


def graphed(shell: InteractiveShell, arguments: str, source: str | None, variable: str) -> CellGraph:
    """The context manager for one run of a cell under a graph manager.

    Args:
        shell: The shell that runs the cell.
        arguments: What stands behind the magic's name.
        source: The cell without the magic line, or None where it is not known.
        variable: Name under which the block stands in the user's namespace until the cell has ended.

    Raises:
        UsageError: The options are wrong.
    """
    return CellGraph(shell, parse(arguments), source, variable)


class CellGraph(CellBlock):
    """Runs the cell that it is entered for by CUDA graphs, then shows what the manager did."""

    def __init__(self, shell: InteractiveShell, options: GraphOptions, source: str | None, variable: str) -> None:
        outputs = {"to_html": options.html} if options.html else {}
        super().__init__(shell, MAGIC, source, variable, var=options.var, outputs=outputs)
        self._options = options
        self._marks: list[tuple[GraphManager, int]] = []
        self._plain: list[PlainRun] = []
        self._wrapped: list[str] = []
        self._count = execution_count(shell)

    @property
    def is_silent(self) -> bool:
        """Whether no Trace is shown: nobody wants one, or no function of a manager was called."""
        return self._options.quiet or (self.trace is not None and self.trace.graphs.empty)

    def __enter__(self) -> CellGraph:
        self._marks = [(manager, manager.mark()) for manager in all_managers()]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        try:
            self.trace = self._traced(error)
            self._deliver(self.trace)
        except Exception as failure:  # nothing of ours hides the user's exception, nor ends a cell that went well
            complain(f"{MAGIC}: what the graph manager did cannot be shown: {type(failure).__name__}: {failure}")
        if error is not None:
            self._show()

    # What the rewritten cell calls.

    def stays(self, key: str, line: int) -> None:
        """The cell runs as it is, because of what stands in a line of it."""
        from cudalens.api.graph_trace import PlainRun

        why = WHYS[key]
        text = (self._source or "").split("\n")[line - 2 : line - 1]  # the magic line is the first of the cell
        self._plain = [
            PlainRun(
                function=self._name,
                reason=why.reason,
                detail=why.detail,
                advice=why.advice,
                place=f"In[{self._count}]:{line}" if line else None,
                source=text[0].strip() if text else None,
            )
        ]

    def wrap(self, function: Callable[..., Any]) -> Any:
        """A function that the cell defines, under the manager."""
        from cudalens.graphs.graphed import cudagraph

        mutations: Any = self._options.mutations
        self._wrapped.append(function.__name__)
        return cudagraph(mutations=mutations, check=self._options.check or None)(function)

    def call(
        self, name: str, *, given: Sequence[str], static: Sequence[str], why_once: str, read: Sequence[str]
    ) -> Any:
        """Run the cell's function as often as need be, and put what it assigns into the user's namespace.

        Args:
            name: Name of the function in the user's namespace, which it leaves.
            given: Names of its parameters, which are the user's variables too.
            static: Those that are used where they lie.
            why_once: Why it should run once at a time; empty where it may run again.
            read: Names that the cell reads.

        Returns:
            The value of the cell's last expression.
        """
        __tracebackhide__ = True
        namespace = self._shell.user_ns
        function = namespace.pop(name)
        try:
            manager = self._manager(namespace, given)
        except CudalensError:
            self.stays("device", 0)
            return self._once(function, function.__code__, {name: namespace[name] for name in given}, {})
        known = self._cell(manager, function, given, static)
        more = bound_values(namespace, read, given)
        if known.printed:
            self.stays("wrote", 0)
            return self._once(function, function.__code__, {name: namespace[name] for name in given}, {})
        return self._runs(manager, known, given, more, why_once, modules_in(namespace, read))

    def _runs(
        self,
        manager: GraphManager,
        known: KnownCell,
        given: Sequence[str],
        more: dict[str, Any],
        why_once: str,
        modules: Sequence[Any],
    ) -> Any:
        __tracebackhide__ = True
        counts = known.counts
        asked = self._options.repeat
        number = 0
        while True:
            values = {name: self._shell.user_ns[name] for name in given}
            _begin_step(known)
            with graph_effects.watched(self._shell, [*values.values(), *modules]) as effects:
                value = self._once(known.graphed, known.code, values, more)
            number += 1
            why_once = why_once or effects.told()
            known.printed = effects.wrote
            is_enough = counts.replays or counts.eager or number == _ENOUGH
            if number == asked or known.printed or (asked is None and (why_once or is_enough)):
                break
        self._tell(known, number, why_once)
        return value

    def _show(self) -> None:
        """Show the Trace; of functions that have only been defined, say that they are under the manager."""
        was_shown = self._is_shown
        super()._show()
        if was_shown or self._options.quiet or self.trace is None or not self.trace.graphs.empty:
            return
        if self._wrapped:
            verb = "runs" if len(self._wrapped) == 1 else "run"
            print(f"{', '.join(self._wrapped)} {verb} by CUDA graphs from now on; .fn is the function itself.")  # noqa: T201
        elif self.trace.info.status == "ok":
            print("No function under a graph manager was called in this cell.")  # noqa: T201
        while self._notes:
            print(self._notes.pop(0))  # noqa: T201

    def _tell(self, known: KnownCell, number: int, why_once: str) -> None:
        """Say how often the cell ran, where that is not plain."""
        counts = known.counts
        if known.printed:
            self._notes.append("It printed while it warmed up, which a replay would not: from now on it runs as it is.")
        elif number > 1 and self._options.repeat is None:
            done = "and it turned out that it cannot be recorded" if counts.eager else "record and replay"
            self._notes.append(f"The cell ran {number} times: to warm up, {done}. --repeat 1 runs it once.")
        elif why_once and not counts.replays and not counts.eager and self._options.repeat is None:
            what = "records" if not counts.recordings else "replays"
            self._notes.append(f"It ran once, because {why_once}: the next run {what} (--repeat 3 does all at once).")

    def _once(self, function: Callable[..., Any], code: CodeType, values: dict[str, Any], more: dict[str, Any]) -> Any:
        """Run the cell's function, and deliver what it assigns, also where it raises half way."""
        __tracebackhide__ = True
        try:
            value, assigned = function(**values, **more)
        except BaseException as error:
            trail = _from(error.__traceback__, code)
            if trail is not None:
                self._shell.user_ns.update(graph_effects.left_by(error, trail.tb_frame.f_locals, values))
            error.__traceback__ = trail or error.__traceback__  # nothing of ours stands between the cell and its line
            raise
        value, assigned = graph_effects.owned(getattr(function, "manager", None), (value, assigned))
        self._shell.user_ns.update(assigned)
        return value

    def _manager(self, namespace: dict[str, Any], given: Sequence[str]) -> GraphManager:
        """The manager of the device of the first tensor among the values, and a mark in it."""
        from cudalens.graphs.manager import GraphManager

        made = GraphManager(graph_effects.device_of(namespace[name] for name in given))
        found = _managers.get(made.device)
        if found is None or found not in cell_managers() or found.backend is not made.backend:
            found = _managers[made.device] = made
        return found

    def _cell(
        self, manager: GraphManager, function: FunctionType, given: Sequence[str], static: Sequence[str]
    ) -> KnownCell:
        """The cell as a function under the manager: the one of an earlier run of the same cell, or a new one."""
        options = (self._options.mutations, self._options.check)
        key = (self._options.name or self._source, self._source, tuple(given), tuple(static), options)
        self._tidy(manager, key)
        if (known := _known.get(key)) is not None:
            return known
        body = _renamed(function, self._name)
        call = _as_call(body, tuple(given))
        mutations: Any = self._options.mutations
        try:
            wrapped = manager.wrap(
                call,
                name=self._name,
                static=tuple(static),
                mutations=mutations,
                check=self._options.check or None,
            )
        except CudalensError as error:
            raise brief(error) from None
        known = _known[key] = KnownCell(wrapped, body.__code__)
        return known

    def _tidy(self, manager: GraphManager, key: tuple[Any, ...]) -> None:
        """Forget cells of managers that were reset or closed, other code of the same name, and the oldest of many."""
        for old, known in list(_known.items()):
            is_gone = known.graphed.manager.is_closed or not known.graphed.manager.is_present
            is_other = known.graphed.manager is not manager and old == key
            is_replaced = self._options.name is not None and old[0] == key[0] and old != key
            if is_gone or is_other or is_replaced:
                del _known[old]
        while len(_known) >= _MAX_CELLS and key not in _known:
            del _known[next(iter(_known))]

    @property
    def _name(self) -> str:
        return self._options.name or f"cell-{self._count}"

    def _traced(self, error: BaseException | None) -> Trace:
        from cudalens.api.graph_trace import graphs_trace
        from cudalens.api.outcome import Outcome

        marked = {id(manager): mark for manager, mark in self._marks}
        pairs = [(manager, marked.get(id(manager))) for manager in all_managers()]
        return graphs_trace(pairs, self._name, code=self._source, outcome=Outcome.of(error), plain=self._plain)


def _begin_step(known: KnownCell) -> None:
    """A cell that runs again begins a new step; whatever else ran since belongs to the last one."""
    manager = known.graphed.manager
    if known.ran:
        manager.mark_step_begin()
        for other in _known.values():
            other.ran = other.ran and other.graphed.manager is not manager
    known.ran = True


def _renamed(function: FunctionType, name: str) -> FunctionType:
    """The cell's function under the name that tracebacks and reports show."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return FunctionType(code, function.__globals__, name, function.__defaults__)


def _as_call(body: FunctionType, given: tuple[str, ...]) -> Callable[..., Any]:
    """What the manager wraps: takes the cell's values by name, and more, on which recordings depend."""

    def cell(**values: Any) -> Any:
        __tracebackhide__ = True
        return body(*[values[name] for name in given])

    cell.__wrapped__ = body  # type: ignore[attr-defined]  # so that the manager finds the cell's place
    return cell


def _from(trail: TracebackType | None, code: CodeType) -> TracebackType | None:
    """The part of a traceback that begins in the cell."""
    while trail is not None and trail.tb_frame.f_code is not code:
        trail = trail.tb_next
    return trail
