"""The options of ``%%cudaprofile``, as data: what they are called, what they mean, and how a magic line becomes them.

The one table `ARGUMENTS` makes the parser, the help that ``%%cudaprofile?`` shows, and the usage in error messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError

from cudalens.magics.arguments import Table, count, flag, identifier, path, rate, value

if TYPE_CHECKING:
    from cudalens.analysis.assertions.check import Assertion

MAGIC: Final = "%%cudaprofile"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a magic line asks for.

    Attributes:
        name: Name of the run; None for ``cell-<execution count>``.
        var: Variable that receives the Trace, or None.
        output: Whether the Trace becomes the value of the cell.
        quiet: Whether nothing of ours is shown.
        memory: Record allocations.
        shapes: Record input shapes.
        stacks: Record Python call stacks.
        modules: Record the nn.Modules that were running.
        flops: Estimate floating-point operations.
        cpu_only: Leave the GPU out.
        metrics: Read the GPUs' gauges meanwhile; a number for how often in a second.
        syncs: Note the line of every wait for the GPU.
        warmup: Runs of the cell before the profiler starts.
        repeat: Profiled runs of the cell, each a step; None for one run without steps.
        overhead: Run the cell again without the profiler, as often, to tell what profiling cost.
        html: Where the offline report goes, or None.
        save: Where the Trace goes, or None.
        chrome: Where the Chrome trace goes, or None.
        assertions: What has to hold on the Trace, or the cell fails.
        history: File in which past runs are kept for this one, or None.
        no_raise_error: Show an exception of the cell without raising it.
    """

    name: str | None = None
    var: str | None = None
    output: bool = False
    quiet: bool = False
    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    flops: bool = False
    cpu_only: bool = False
    metrics: bool | float = False
    syncs: bool = False
    warmup: int = 0
    repeat: int | None = None
    overhead: bool = False
    html: Path | None = None
    save: Path | None = None
    chrome: Path | None = None
    no_raise_error: bool = False
    assertions: tuple[Assertion, ...] = ()
    history: Path | None = None

    @property
    def is_looped(self) -> bool:
        """Whether the cell's statements run more than once, or as a step."""
        return self.warmup > 0 or self.repeat is not None or self.overhead

    @property
    def collects(self) -> dict[str, Any]:
        """The options that say what to record, as arguments of `cudalens.profile`."""
        names = ("memory", "shapes", "stacks", "modules", "flops", "cpu_only", "metrics", "syncs")
        return {name: getattr(self, name) for name in names}

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by the method of Trace that writes them."""
        asked = {"to_html": self.html, "save": self.save, "to_chrome": self.chrome}
        return {method: path for method, path in asked.items() if path is not None}


ARGUMENTS: Final = (
    value("name", nargs="?", help="Name of the run in cudalens.runs. The default is cell-<execution count>."),
    value("-v", "--var", metavar="NAME", type=identifier, help="Put the Trace into the variable NAME."),
    flag("-o", "--output", help="Return the Trace: it becomes the value of the cell, Out[n]."),
    flag("-q", "--quiet", help="Show nothing; the run is still kept in cudalens.runs."),
    flag("--memory", help="Record every allocation and release, for the memory curve."),
    flag("--shapes", help="Record the shapes and dtypes of operator inputs."),
    flag("--stacks", help="Record Python call stacks (costs the most)."),
    flag("--modules", help="Record which nn.Modules were running."),
    flag("--flops", help="Estimate floating-point operations of matrix products and convolutions."),
    flag("--cpu-only", help="Leave the GPU out."),
    value(
        "--metrics",
        metavar="RATE",
        nargs="?",
        const=True,
        default=False,
        type=rate,
        help="Also read utilization, memory, temperature, power and clocks of the GPUs, RATE times a second (20).",
    ),
    flag("--syncs", help="Also note the line of every wait of the host for the GPU."),
    value("--warmup", metavar="N", type=count(0), default=0, help="Run the cell N times before profiling starts."),
    value("--repeat", metavar="N", type=count(1), help="Profile N runs of the cell, each of them one step."),
    flag(
        "--overhead",
        help="Also tell what profiling cost: runs the cell's statements again, as often, without the profiler.",
    ),
    value("--html", metavar="FILE", type=path, help="Also write the view as one offline HTML file."),
    value("--save", metavar="FILE", type=path, help="Also save the Trace (.cudalens), for cudalens.load."),
    value("--chrome", metavar="FILE", type=path, help="Also write a Chrome trace (.json or .json.gz), for Perfetto."),
    value(
        "--assert",
        dest="assertions",
        metavar="TEXT",
        action="append",
        default=[],
        help='Fail the cell where this does not hold, as in "idle < 20%%"; may be given several times.',
    ),
    value("--history", metavar="FILE", type=path, help="Compare with the past runs in FILE, and keep this one there."),
    flag("--no-raise-error", help="Show an exception of the cell, but carry on as if there were none."),
)


_TABLE: Final = Table(MAGIC, ARGUMENTS)
documented, usage = _TABLE.documented, _TABLE.usage


def parse(line: str) -> Options:
    """The options that `line` (what stands behind the magic's name) asks for. Nothing in it is expanded.

    Raises:
        UsageError: An option is unknown, lacks its value, or has a wrong one; the message ends with the usage.
    """
    asked = _TABLE.parse(line)
    options = Options(**asked | {"assertions": _read(asked["assertions"])})
    paths = list(options.outputs.values())
    if twice := next((file for file in paths if paths.count(file) > 1), None):
        raise _TABLE.refusal(f"two outputs go to the same file {twice}")
    return options


def _read(texts: list[str]) -> tuple[Assertion, ...]:
    """The assertions, read before the cell runs."""
    if not texts:
        return ()
    from cudalens.analysis.assertions.check import parse_assertion
    from cudalens.errors import AssertionSyntaxError

    try:
        return tuple(map(parse_assertion, texts))
    except AssertionSyntaxError as error:
        raise UsageError(f"{MAGIC}: {error}\nThe cell has not run.") from None


def check_outputs(options: Options) -> None:
    """Refuse outputs that cannot be written, before anything runs.

    Raises:
        UsageError: A folder is missing or not writable, or the path is a folder.
    """
    from cudalens.errors import OutputError
    from cudalens.frames.files import check_target

    for file in options.outputs.values():
        try:
            check_target(file)
        except OutputError as error:
            raise UsageError(f"{MAGIC}: {error} The cell has not run.") from None
