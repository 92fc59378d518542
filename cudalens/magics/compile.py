"""``%%cudacompile``: what torch.compile would do with the code of a cell."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cudalens.errors import CudalensError, VirtualDeviceError
from cudalens.fixes.names import find_effects
from cudalens.magics.base import Magic
from cudalens.magics.cells import CellRun, display, print_error, written
from cudalens.magics.confirm import silent
from cudalens.magics.options import CellOptions, flag, one_of, option
from cudalens.magics.syntax import statement_at

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.api.compile_report import CompileReport, Mode
    from cudalens.frames import Trace

_MODES: Final = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

#: Effects of calls that calling the cell's code several times would repeat.
_REPEATED: Final = frozenset({"writes files", "starts programs", "sends requests", "takes from an iterator"})
_REFUSED: Final = (
    "%%cudacompile: no report: the cell {what} (line {line}), and a report runs the cell's code several times. Put "
    "what to compile into a cell of its own, or into a function: cudalens.compile_report(function). The cell runs as "
    "usual."
)


@dataclass(frozen=True, kw_only=True)
class CompileOptions(CellOptions):
    """Options of ``%%cudacompile``."""

    mode: str = option("--mode", metavar="MODE", default="default", type=one_of(*_MODES), help=f"{', '.join(_MODES)}.")
    dynamic: bool = flag("--dynamic", help="Compile for all sizes, as torch.compile(dynamic=True).")


class Cudacompile(Magic):
    """``%%cudacompile``."""

    name = "cudacompile"
    about = """What torch.compile would do with the code of a cell, on the GPU in place, real or virtual.

``%%cudacompile`` on top of a cell shows graph breaks with their lines, the kernels before and after, the time of a
step and the peak memory. The cell's code runs five times for that (seven with CUDA graphs), with everything that it
prints left out, and then once as usual. Tensors, gradients, optimizers, variables, containers and random generators are
restored in between; files and attributes of other objects are not."""
    cell_options = CompileOptions
    cell_about = "Show what torch.compile would do with the cell, then run the cell as usual."

    @classmethod
    def cell_run(
        cls, shell: InteractiveShell, options: CompileOptions, source: str | None, variable: str
    ) -> CompileCell:
        """Return the run of one cell."""
        return CompileCell(shell, "%%cudacompile", options, source, variable)

    @classmethod
    def rewrite(cls, body: list[ast.stmt], run: str, shell: InteractiveShell, options: Any) -> list[ast.stmt]:
        """Put a function of the cell's code, and the report on it, before the cell's statements."""
        problem = _problem(body) or _iterator_problem(body, shell.user_ns)
        if problem is not None:
            what, line = problem
            return [statement_at(f"{run}.refuse({what!r}, {line})", body[0]), *body] if body else body
        function, assigned = _as_function(body, run)
        report = statement_at(f"{run}.report({function.name!r}, {assigned!r})", body[0])
        return [function, report, *body]


class CompileCell(CellRun):
    """Makes the report before the cell's statements run, and shows it after them."""

    def __init__(
        self, shell: InteractiveShell, magic: str, options: CompileOptions, source: str | None, variable: str
    ) -> None:
        super().__init__(shell, magic, options, source, variable)
        self._options = options
        self._report: CompileReport | None = None
        self._problem = ""

    def start(self) -> None:
        """Refuse a cell without a GPU.

        Raises:
            VirtualDeviceError: There is no GPU.
        """
        import torch

        if not torch.cuda.is_available():
            raise VirtualDeviceError(
                "%%cudacompile needs a GPU, and torch sees none. `%cudadevice virtual h100` models one. Nothing has "
                "run."
            )

    def collect(self, error: BaseException | None) -> Trace | None:
        """Return None: a report has two Traces of its own."""
        return None

    def refuse(self, what: str, line: int) -> None:
        """Make no report, because the cell's code cannot be called several times."""
        self._problem = _REFUSED.format(what=what, line=line)

    def report(self, name: str, assigned: Sequence[str]) -> None:
        """Make the report on a function of the user's namespace, which it removes.

        Args:
            name: The function.
            assigned: Names of the notebook that it assigns.
        """
        function: Callable[[], Any] = self._shell.user_ns.pop(name)
        mode: Mode = self._options.mode  # type: ignore[assignment]
        dynamic = True if self._options.dynamic else None
        try:
            self._report = self._report_on(function, frozenset(assigned), mode, dynamic)
        except CudalensError as error:
            self._problem = f"%%cudacompile: no report: {error} The cell runs as usual."
        except Exception as error:  # the cell itself raises it, or torch.compile cannot compile the cell
            self._problem = f"%%cudacompile: no report: {type(error).__name__}: {error}"
        if self._report is None:
            return
        if self._options.var:
            self._shell.user_ns[self._options.var] = self._report
        found: Any = self._report  # has the methods of a Trace that write outputs
        self._notes += written(self._magic, found, self._options.outputs)

    def _report_on(
        self, function: Callable[[], Any], assigned: frozenset[str], mode: Mode, dynamic: bool | None
    ) -> CompileReport:
        import torch

        from cudalens.api.compile_report import report_calls

        before_bytes = torch.cuda.memory_allocated()
        state = _State(self._shell.user_ns, assigned)
        held_bytes = torch.cuda.memory_allocated() - before_bytes
        try:
            with silent(self._shell):
                return report_calls(
                    lambda compiled: compiled(),
                    function,
                    mode=mode,
                    dynamic=dynamic,
                    before_each=state.restore,
                    held_bytes=held_bytes,
                )
        finally:
            torch.cuda.synchronize()
            state.restore()

    def output(self) -> Any:
        """With ``-o``: show the value of the last expression, and return the report as the value of the cell."""
        super().output()
        self._is_shown = self._report is not None
        return self._report

    def _show(self) -> None:
        if not self._is_shown and self._problem:
            print_error(self._problem)
        elif not self._is_shown and self._report is not None and not self._options.quiet:
            display(self._shell, self._report)
        self._is_shown = True
        self._print_notes()


class _State:
    """What the cell's code may change, as it is now: variables, tensors, containers, optimizers, random generators.

    Args:
        namespace: The notebook's variables.
        assigned: Names that the cell assigns.
    """

    def __init__(self, namespace: dict[str, Any], assigned: frozenset[str]) -> None:
        from cudalens.api.confirm import holders_among
        from cudalens.api.explore import tensors_among
        from cudalens.sanitizer.rerun.program import Program, State

        self._namespace, self._variables, self._assigned = namespace, dict(namespace), assigned
        self._objects = [(value, dict(vars(value))) for value in namespace.values() if _is_training_object(value)]
        optimizers = [value for value, _ in self._objects if hasattr(value, "param_groups")]
        self._moments = [(one.state, {key: dict(value) for key, value in one.state.items()}) for one in optimizers]
        tensors = [tensor for _, tensor in tensors_among(namespace)]
        tensors += [tensor for one in optimizers for tensor in _tensors_of(one)]
        holders = holders_among(namespace) + [one.param_groups for one in optimizers]
        self._state = State(Program(lambda: None, lambda result: {}, None, tensors, holders))
        self._state.save(tensors)

    def restore(self) -> None:
        """Restore it; Dynamo's own names in the namespace stay, which compiled code needs."""
        self._state.restore()
        for name in self._assigned - self._variables.keys():
            self._namespace.pop(name, None)
        self._namespace.update(self._variables)
        for value, attributes in self._objects:
            vars(value).clear()
            vars(value).update(attributes)
        for state, moments in self._moments:
            state.clear()
            state.update({key: dict(value) for key, value in moments.items()})


def _is_training_object(value: Any) -> bool:
    import torch

    kinds = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
    return isinstance(value, kinds)


def _tensors_of(optimizer: Any) -> list[Any]:
    import torch

    parameters = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return parameters + kept


def _problem(body: list[ast.stmt]) -> tuple[str, int] | None:
    """Why the code of a cell cannot be called several times as a function, and the line; None if it can."""
    for node in (node for statement in body for node in ast.walk(statement)):
        line = getattr(node, "lineno", 1)
        match node:
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                return "awaits", line
            case ast.ImportFrom() if any(alias.name == "*" for alias in node.names):
                return "imports all names of a module", line
            case ast.Name(id="get_ipython"):
                return "has another magic or a shell command", line
            case ast.Call(func=ast.Name(id="input" | "breakpoint" | "exit" | "quit" as name)):
                return f"calls {name}()", line
    for line, effect, call in find_effects(body):
        if effect in _REPEATED:
            return f"{effect} ({call})", line
    return None if body else ("is empty", 1)


def _iterator_problem(body: list[ast.stmt], namespace: dict[str, Any]) -> tuple[str, int] | None:
    """As `_problem`, for a variable whose items are gone after one run."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and hasattr(type(namespace.get(node.id)), "__next__"):
            return f"takes from an iterator ({node.id})", node.lineno
    return None


def _as_function(body: list[ast.stmt], run: str) -> tuple[ast.FunctionDef, list[str]]:
    """The cell's statements as a function without parameters, and the names of the notebook that it assigns."""
    function = statement_at(f"def {run}cell(): pass", body[0])
    assert isinstance(function, ast.FunctionDef)
    function.body = [_without_kept_value(statement, run) for statement in copy.deepcopy(body)]
    code = compile(ast.Module([function], []), "<cell>", "exec")
    inner = next(constant for constant in code.co_consts if hasattr(constant, "co_varnames"))
    names = sorted({*inner.co_varnames, *inner.co_cellvars})
    if names:
        function.body.insert(0, statement_at(f"global {', '.join(names)}", body[0]))
    return function, names


def _without_kept_value(statement: ast.stmt, run: str) -> ast.stmt:
    """``<run>.value = <expression>`` as the expression alone."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name))]) if name == run:
            return ast.copy_location(ast.Expr(statement.value), statement)
    return statement
