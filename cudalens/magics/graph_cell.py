"""``%%cudagraph`` around one cell: runs its statements as a function under the graph manager, and shows the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from cudalens.errors import CudalensError
from cudalens.magics import graph_effects
from cudalens.magics.cells import CellRun, execution_count, without_traceback
from cudalens.magics.graph_rewrite import WHYS, bound_values, data_in, state_reached

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.run_info import PlainRun
    from cudalens.frames import Trace
    from cudalens.graphs.manager import GraphManager
    from cudalens.magics.graph import GraphOptions

#: Runs after which a cell that can be recorded replays: the first warms up, the second records.
_ENOUGH: Final = 3

_MAX_CELLS: Final = 256


@dataclass(slots=True)
class KnownCell:
    """A cell that ran before.

    Attributes:
        graphed: The cell as a function under the manager.
        code: Of its body.
        printed: Whether it printed, so that it runs without a graph from then on.
        ran: Whether it has run in the current step.
    """

    graphed: Any
    code: CodeType
    printed: bool = False
    ran: bool = False

    @property
    def counts(self) -> Any:
        """How the manager handled its calls: warm-ups, recordings, replays, eager calls."""
        return self.graphed._function.counts


#: Cells by name, source and options.
_known: Final[dict[Any, KnownCell]] = {}

#: Managers of cells, by device. Functions that users wrap have other managers, because their steps begin otherwise.
_managers: Final[dict[int, GraphManager]] = {}


def cell_managers() -> list[GraphManager]:
    """Return the managers of cells, by device."""
    return [manager for _, manager in sorted(_managers.items()) if manager.is_present and not manager.is_closed]


def forget_cells() -> None:
    """Forget all cells, and free their graphs."""
    _known.clear()
    while _managers:
        _managers.popitem()[1].shutdown()


def all_managers() -> list[GraphManager]:
    """Return all managers: those of functions, then those of cells."""
    from cudalens.graphs.managers import managers

    return [*managers(), *cell_managers()]


class GraphedCell(CellRun):
    """Runs the cell that it is entered for by CUDA graphs, then shows what the manager did."""

    def __init__(
        self, shell: InteractiveShell, magic: str, options: GraphOptions, source: str | None, variable: str
    ) -> None:
        super().__init__(shell, magic, options, source, variable)
        self._options = options
        self._marks: list[tuple[GraphManager, int]] = []
        self._plain: list[PlainRun] = []
        self._wrapped: list[str] = []
        self._first_line = ""
        self._count = execution_count(shell)

    @property
    def is_silent(self) -> bool:
        """Whether no Trace is shown: with `-q`, or where no function of a manager was called."""
        return self._options.quiet or (self.trace is not None and self.trace.graphs.empty)

    def start(self) -> None:
        """Mark what the managers have done so far."""
        self._marks = [(manager, manager.mark()) for manager in all_managers()]

    def collect(self, error: BaseException | None) -> Trace:
        """Return what the managers did since `start`."""
        from cudalens.api.run_info import graphs_trace
        from cudalens.api.session import Outcome

        marked = {id(manager): mark for manager, mark in self._marks}
        pairs = [(manager, marked.get(id(manager))) for manager in all_managers()]
        return graphs_trace(pairs, self._name, code=self._source, outcome=Outcome.of(error), plain=self._plain)

    # What the rewritten cell calls.

    def refuse(self, key: str, line: int) -> None:
        """Record that the cell runs without a graph, for the reason `key` of `WHYS`, in line `line`."""
        from cudalens.api.run_info import PlainRun

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
        """Put a function that the cell defines under the manager."""
        from cudalens.graphs.decorator import cudagraph

        mutations: Any = self._options.mutations
        self._wrapped.append(function.__name__)
        return cudagraph(mutations=mutations, check=self._options.check or None)(function)

    def call(
        self, name: str, *, given: Sequence[str], static: Sequence[str], why_once: str, read: Sequence[str]
    ) -> Any:
        """Run the cell's function, and put what it assigns into the user's namespace.

        Without ``--repeat`` a cell that changes nothing runs until it replays; every other cell runs once.

        Args:
            name: Name of the function in the user's namespace, from which it is removed.
            given: Names of its parameters, which are variables of the user.
            static: Parameters whose memory a graph uses directly.
            why_once: Why another run may change something, by the statements; empty where they show no reason.
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
            self.refuse("device", 0)
            return self._once(function, function.__code__, {name: namespace[name] for name in given}, {})
        known = self._cell(manager, function, given, static)
        more = bound_values(namespace, read, given)
        if known.printed:
            self.refuse("wrote", 0)
            return self._once(function, function.__code__, {name: namespace[name] for name in given}, {})
        return self._runs(known, given, more, why_once, read)

    def _runs(
        self, known: KnownCell, given: Sequence[str], more: dict[str, Any], why_once: str, read: Sequence[str]
    ) -> Any:
        __tracebackhide__ = True
        data = data_in(self._shell.user_ns, read)
        keeps_state = state_reached(self._shell.user_ns, read)
        counts = known.counts
        asked = self._options.repeat
        number = 0
        while True:
            values = {name: self._shell.user_ns[name] for name in given}
            manager = known.graphed.manager
            if known.ran:
                manager.mark_step_begin()
                for other in _known.values():
                    other.ran = other.ran and other.graphed.manager is not manager
            known.ran = True
            with graph_effects.watched(self._shell, [*values.values(), *data]) as effects:
                value = self._once(known.graphed, known.code, values, more)
            number += 1
            why_once = why_once or effects.reason() or keeps_state
            known.printed = effects.wrote
            is_enough = counts.replays or counts.eager or number == _ENOUGH
            if number == asked or known.printed or (asked is None and (why_once or is_enough)):
                break
        self._describe(known, number, why_once)
        return value

    def _show(self) -> None:
        """Print how often the cell ran, then show the Trace; without one, print which functions are wrapped."""
        if self._first_line and not self._options.quiet:
            print(self._first_line)  # noqa: T201
        self._first_line, was_shown = "", self._is_shown
        super()._show()
        if was_shown or self._options.quiet or self.trace is None or not self.trace.graphs.empty:
            return
        if self._wrapped:
            verb = "runs" if len(self._wrapped) == 1 else "run"
            print(f"{', '.join(self._wrapped)} {verb} by CUDA graphs from now on; .fn is the function itself.")  # noqa: T201
        elif self.trace.info.status == "ok":
            print("No function under a graph manager was called in this cell.")  # noqa: T201
        self._print_notes()

    def _describe(self, known: KnownCell, number: int, why_once: str) -> None:
        """Describe how often the cell ran and why, for the first line of the output."""
        counts = known.counts
        if known.printed:
            line = "It printed while it warmed up, which a replay does not: from now on it runs without a graph."
        elif number > 1 and self._options.repeat is None:
            done = "and then it cannot be recorded" if counts.eager else "record and replay"
            line = f"The cell ran {number} times: to warm up, {done}. --repeat 1 runs it once."
        elif why_once and not counts.replays and not counts.eager and self._options.repeat is None:
            what = "records" if not counts.recordings else "replays"
            line = f"The cell ran once, because {why_once}: the next run {what} (--repeat 3 does all at once)."
        else:
            line = ""
        self._first_line = line

    def _once(self, function: Callable[..., Any], code: CodeType, values: dict[str, Any], more: dict[str, Any]) -> Any:
        """Run the cell's function, and assign what it assigns, also where it raises."""
        __tracebackhide__ = True
        try:
            value, assigned = function(**values, **more)
        except BaseException as error:
            trail = _from(error.__traceback__, code)
            if trail is not None:
                self._shell.user_ns.update(graph_effects.left_by(error, trail.tb_frame.f_locals, values))
            error.__traceback__ = trail or error.__traceback__  # without the frames of cudalens
            raise
        value, assigned = graph_effects.owned(getattr(function, "manager", None), (value, assigned))
        self._shell.user_ns.update(assigned)
        return value

    def _manager(self, namespace: dict[str, Any], given: Sequence[str]) -> GraphManager:
        """Return the manager of the device of the first tensor among the values."""
        from cudalens.graphs.manager import GraphManager

        made = GraphManager(graph_effects.device_of(namespace[name] for name in given))
        found = _managers.get(made.device)
        if found is None or found not in cell_managers() or found.backend is not made.backend:
            found = _managers[made.device] = made
        return found

    def _cell(
        self, manager: GraphManager, function: FunctionType, given: Sequence[str], static: Sequence[str]
    ) -> KnownCell:
        """Return the cell as a function under the manager, from an earlier run of the same cell or new."""
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
            raise without_traceback(error) from None
        known = _known[key] = KnownCell(wrapped, body.__code__)
        return known

    def _tidy(self, manager: GraphManager, key: tuple[Any, ...]) -> None:
        """Forget cells of managers that were reset or closed, other code of the same name, and the oldest cells."""
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


def _renamed(function: FunctionType, name: str) -> FunctionType:
    """Return the cell's function, renamed for tracebacks and reports."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    return FunctionType(code, function.__globals__, name, function.__defaults__)


def _as_call(body: FunctionType, given: tuple[str, ...]) -> Callable[..., Any]:
    """The function that the manager wraps: it takes the cell's values and those that recordings depend on, by name."""

    def cell(**values: Any) -> Any:
        __tracebackhide__ = True
        return body(*[values[name] for name in given])

    cell.__wrapped__ = body  # type: ignore[attr-defined]  # so that the manager finds the cell's place
    return cell


def _from(trail: TracebackType | None, code: CodeType) -> TracebackType | None:
    """Return the part of a traceback from the cell on."""
    while trail is not None and trail.tb_frame.f_code is not code:
        trail = trail.tb_next
    return trail
