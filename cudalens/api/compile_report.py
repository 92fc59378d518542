"""`compile_report`: what torch.compile does with a function on this GPU: graph breaks, kernels, time, memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pandas as pd
import torch

from cudalens.errors import VirtualDeviceError, invalid_choice
from cudalens.views.compile_report import section
from cudalens.views.sections.shown import Shown, write_page

if TYPE_CHECKING:
    from cudalens.frames import Trace
    from cudalens.virtual.compiled.compiler_log import CompilerLog, SourceLine

#: Calls of a compiled function before the one that is recorded: it is compiled, gradients exist, graphs are recorded.
_NUM_WARM_UPS: Final = {"default": 2, "reduce-overhead": 4, "max-autotune": 4, "max-autotune-no-cudagraphs": 2}

#: Beginning of the name of the range around the generated code of a graph.
_GRAPH_RANGE: Final = "## Call CompiledFxGraph"

Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


class CompileReport(Shown):
    """What torch.compile does with a function; prints as text, and shows as tables and a timeline in a notebook.

    Attributes:
        summary: The numbers of the first line: ``num_breaks``, ``num_graphs``, ``eager_kernels``, ``compiled_kernels``,
            ``eager_ns``, ``compiled_ns``, ``eager_peak_bytes``, ``compiled_peak_bytes``, ``compile_s`` (time of the
            first call on this host), ``is_modelled``.
        breaks: A row for each graph break: ``place``, ``source``, ``function``, ``reason``, ``change``.
        recompilations: A row for each function that was compiled again: ``place``, ``function``, ``guards``.
        kernels: A row for each kernel of the compiled run, longest total time first: ``name``, ``kind`` (``fused``,
            ``library`` or ``eager``, which is outside of compiled code), ``launches``, ``total_ns``, ``share_pct`` of
            all kernels' time, ``read_bytes`` and ``written_bytes`` of one launch (missing for libraries),
            ``operators``, ``lines``, ``modules`` (lists of text).
        refused_fusions: A row for each pair of kernels that Inductor did not fuse though one reads what the other
            writes: ``first``, ``second``, ``reason``.
        eager: The Trace of the function without torch.compile.
        compiled: The Trace of the compiled function.
    """

    def __init__(self, eager: Measured, compiled: Measured, log: CompilerLog, compile_s: float) -> None:
        from cudalens.views.compare.comparison import compare

        self.eager, self.compiled = eager.trace, compiled.trace
        self.breaks = _breaks_frame(log)
        rows = [(_place_text(item.place), item.function, list(item.guards)) for item in log.recompilations]
        self.recompilations = pd.DataFrame(rows, columns=["place", "function", "guards"])
        self.kernels = _kernels_frame(compiled.trace, log)
        pairs = [(pair.first, pair.second, pair.reason) for pair in log.refused_fusions]
        self.refused_fusions = pd.DataFrame(pairs, columns=["first", "second", "reason"])
        self.summary = pd.Series(
            {
                "num_breaks": len(self.breaks),
                "num_graphs": log.num_graphs,
                "eager_kernels": _num_kernels(eager.trace),
                "compiled_kernels": _num_kernels(compiled.trace),
                "eager_ns": eager.step_ns,
                "compiled_ns": compiled.step_ns,
                "eager_peak_bytes": eager.peak_bytes,
                "compiled_peak_bytes": compiled.peak_bytes,
                "compile_s": compile_s,
                "is_modelled": eager.trace.info.source.startswith("virtual"),
            },
            dtype=object,
        )
        timelines = compare(self.eager, self.compiled).section.blocks[:1]
        super().__init__(
            section(self.summary, self.breaks, self.recompilations, self.kernels, self.refused_fusions, timelines)
        )

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page, light or dark as the reader's system is; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, "torch.compile", self._repr_html_())


@dataclass(frozen=True, slots=True)
class Measured:
    """One recorded call.

    Attributes:
        trace: Its Trace.
        step_ns: From its start until its last work on the device has ended, ns.
        peak_bytes: Largest number of allocated bytes.
    """

    trace: Trace
    step_ns: int
    peak_bytes: int


def compile_report(
    function: Callable[..., Any], *args: object, mode: Mode = "default", dynamic: bool | None = None
) -> CompileReport:
    """Find out what torch.compile does with a function on the current GPU, real or virtual.

    The function is called without torch.compile twice, and compiled three times (five with CUDA graphs); the last call
    of each kind is recorded. It must be a function that may be called several times, such as a training step.

    ::

        layer = torch.nn.Linear(64, 64)

        def loss(x):
            return torch.nn.functional.gelu(layer(x)).square().mean()

        with cudalens.virtual.device("h100", values=False):
            layer.cuda()
            print(cudalens.compile_report(loss, torch.randn(32, 64, device="cuda")))

    Args:
        function: A function or a module; the result of torch.compile stands for what it compiles.
        *args: Its arguments, with tensors on the GPU.
        mode: Mode of torch.compile.
        dynamic: Whether sizes are dynamic, as torch.compile has it.

    Raises:
        VirtualDeviceError: There is no GPU; or torch.compile does not work on this virtual device.
        ValueError: `mode` is not a mode.
    """
    wrapper: Any = function  # perhaps one that torch.compile made
    original = getattr(wrapper, "_torchdynamo_orig_callable", None)
    if original is None:
        original = getattr(wrapper, "_orig_mod", None)
    eager_function = function if original is None else original
    return report_calls(lambda compiled: compiled(*args), eager_function, mode=mode, dynamic=dynamic)


def report_calls(
    call: Callable[[Callable[..., Any]], Any],
    function: Callable[..., Any],
    *,
    mode: Mode = "default",
    dynamic: bool | None = None,
    before_each: Callable[[], object] = lambda: None,
    held_bytes: int = 0,
) -> CompileReport:
    """Make a report of calls.

    Args:
        call: Calls the function that it gets: `function`, or its compiled form.
        function: What is compiled.
        mode: Mode of torch.compile.
        dynamic: As in torch.compile.
        before_each: Called before each call.
        held_bytes: Allocated bytes that are not the function's, which its peak leaves out.

    Raises:
        VirtualDeviceError: There is no GPU; or torch.compile does not work on this virtual device.
        ValueError: `mode` is not a mode.
    """
    from cudalens.virtual.compiled.compiler_log import CompilerLog

    if mode not in _NUM_WARM_UPS:
        raise invalid_choice("mode", mode, _NUM_WARM_UPS)
    if not torch.cuda.is_available():
        raise VirtualDeviceError(
            "compile_report() needs a GPU, and torch sees none. cudalens.virtual.device('h100') (in a notebook: "
            "%cudadevice virtual h100) models one."
        )
    with torch.compiler.set_stance("force_eager"):
        before_each()
        call(function)
        eager = _measure(lambda: call(function), before_each, "eager", held_bytes)
    with CompilerLog() as log:
        compiled = _compiled(function, mode, dynamic)
        begun = time.perf_counter()
        before_each()
        call(compiled)
        torch.cuda.synchronize()
        compile_s = time.perf_counter() - begun
        for _ in range(_NUM_WARM_UPS[mode] - 1):
            before_each()
            call(compiled)
        measured = _measure(lambda: call(compiled), before_each, "compiled", held_bytes)
    return CompileReport(eager, measured, log, compile_s)


def _compiled(function: Callable[..., Any], mode: Mode, dynamic: bool | None) -> Callable[..., Any]:
    """Compile a function anew, also where it was compiled before: for Dynamo each backend has code of its own."""
    from cudalens.virtual.compiled.callbacks import make_backend

    inductor: Any = torch._TorchCompileInductorWrapper
    backend = make_backend(inductor(mode, None, dynamic))
    return torch.compile(function, backend=backend, dynamic=dynamic)


def _measure(call: Callable[[], Any], before: Callable[[], object], name: str, held_bytes: int) -> Measured:
    from cudalens.analysis.summary import wall_ns
    from cudalens.api.profile import profile

    before()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    with profile(name, keep=False) as profiled:
        call()
        torch.cuda.synchronize()
    assert profiled.trace is not None
    return Measured(profiled.trace, wall_ns(profiled.trace), torch.cuda.max_memory_allocated() - held_bytes)


def _num_kernels(trace: Trace) -> int:
    return int((trace.events["cat"] == "kernel").sum())


def _breaks_frame(log: CompilerLog) -> pd.DataFrame:
    rows = [
        (_place_text(item.place), item.place.text if item.place else "", item.function, item.reason, item.change)
        for item in log.breaks
    ]
    return pd.DataFrame(rows, columns=["place", "source", "function", "reason", "change"])


def _kernels_frame(trace: Trace, log: CompilerLog) -> pd.DataFrame:
    """Join the kernels of the run with what the compiler reports on each."""
    events = trace.events
    kernels = events[events["cat"] == "kernel"]
    total_ns = max(int(kernels["dur"].sum()), 1)
    is_inside, operators = _launching_code(events, kernels)
    libraries = {_operator_of(name): kernel for name, kernel in log.kernels.items() if kernel.is_library}
    rows: list[dict[str, Any]] = []
    for name, launches in kernels.groupby("name", observed=True):
        known = log.kernels.get(str(name))
        if known is None and is_inside[launches.index[0]]:
            known = libraries.get(operators[launches.index[0]])
        kind = "library" if is_inside[launches.index[0]] else "eager"
        if known is not None and not known.is_library:
            kind = "fused"
        time_ns = int(launches["dur"].sum())
        rows.append(
            {
                "name": str(name),
                "kind": kind,
                "launches": len(launches),
                "total_ns": time_ns,
                "share_pct": 100 * time_ns / total_ns,
                "read_bytes": known.read_bytes if kind == "fused" and known else None,
                "written_bytes": known.written_bytes if kind == "fused" and known else None,
                "operators": list(known.operators) if known else [],
                "lines": [_line_text(line) for line in known.lines] if known else [],
                "modules": list(known.modules) if known else [],
            }
        )
    columns = ["name", "kind", "launches", "total_ns", "share_pct", "read_bytes", "written_bytes"]
    frame = pd.DataFrame(rows, columns=[*columns, "operators", "lines", "modules"])
    frame = frame.astype({"read_bytes": "Int64", "written_bytes": "Int64"})
    return frame.sort_values("total_ns", ascending=False, ignore_index=True)


def _launching_code(events: pd.DataFrame, kernels: pd.DataFrame) -> tuple[dict[int, bool], dict[int, str]]:
    """Return for the row of each kernel whether code of a compiled graph launched it, and the operator that did."""
    names = events["name"].astype(str)
    parents = events["parent"].to_dict()
    is_graph = names.str.startswith(_GRAPH_RANGE).to_dict()
    is_inside, operators = dict[int, bool](), dict[int, str]()
    for row, launch in kernels["launch"].items():
        at: Any = launch
        inside, operator = False, ""
        while not pd.isna(at) and at >= 0 and not inside:
            inside = is_graph[at]
            if not operator and events["cat"].iat[at] == "cpu_op":
                operator = names.iat[at]
            at = parents[at]
        is_inside[int(str(row))], operators[int(str(row))] = inside, operator
    return is_inside, operators


def _operator_of(name: str) -> str:
    """``aten::mm`` for ``extern_kernels.mm`` and ``torch.ops.aten.mm.default``, names in generated code."""
    parts = name.removeprefix("torch.ops.").replace("::", ".").split(".")
    namespace = "aten" if parts[0] == "extern_kernels" else parts[0]
    return f"{namespace}::{parts[1]}" if len(parts) > 1 else name


def _place_text(place: SourceLine | None) -> str:
    from cudalens.device.stacks import file_label

    return "" if place is None else f"{file_label(place.file)}:{place.line}"


def _line_text(line: SourceLine) -> str:
    place = _place_text(line)
    return f"{place} {line.text}" if line.text else place
