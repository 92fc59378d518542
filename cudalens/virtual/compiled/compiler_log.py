"""Record what torch.compile does while it compiles: graph breaks, recompilations, generated kernels, refused fusions.

It works for every device. The private interfaces of Dynamo and Inductor that it wraps are restored at its end.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from cudalens.device.stacks import is_passed_by
from cudalens.virtual.patching import Patches

#: Reasons for which Inductor does not fuse two kernels, and what they mean. Other reasons are shown as Inductor's.
_REASONS: Final = {
    "node1 is extern but not a triton kernel": "{first} is a call of a library, not a generated kernel",
    "node2 is extern or nop": "{second} is a call of a library, not a generated kernel",
    "intermediate nodes between node1 & node2": "other kernels between the two need the first one's result",
    "memory deps did not match": "{second} reads the result in another order than {first} writes it",
    "no shared data": "{second} reads the result in another order than {first} writes it",
    "nodes numel/rnumel incompatibility": "their ranges differ (sizes of the result or of the reduction)",
    "nodes numel incompatibility": "their ranges differ (sizes of the result)",
}

#: Changes for frequent graph breaks, by the beginning of Dynamo's reason.
_CHANGES: Final = {
    "Unsupported Tensor.item() call": "move it out of the compiled function",
    "Unsupported Tensor.backward() call": (
        "compile the function of the loss and call backward() outside: its backward pass is compiled with it"
    ),
    "Data-dependent branching": "use torch.where, or torch.cond, in place of the branch",
    "Data dependent operator": "move it out of the compiled function",
    "Dynamic shape operator": (
        "use a mask in place of a result of unknown size, or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
    ),
    "Call to `torch._dynamo.graph_break()`": "remove the call",
    "Skip calling `torch.compiler.disable()`d function": "move the call out, or remove torch.compiler.disable",
    "Skip inlining `torch.compiler.disable()`d function": "move the call out, or remove torch.compiler.disable",
    "Attempted to call function marked as skipped": "move the call out of the compiled function",
    "Failed to trace builtin operator": "move the call out of the compiled function",
    "logging.Logger method not supported": "log outside of the compiled function",
    "Tensor.numpy() with": "move it out of the compiled function",
}
_OF_TORCH: Final = "none: torch compiles this function of its own apart from yours"
_PRINT: Final = re.compile(r"\bprint\b")
_MAX_PAIRS: Final = 10_000


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the program.

    Attributes:
        file: The name of its file.
        line: Its number.
        text: Its text, without indentation; "" if it is not known.
    """

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place where Dynamo ends a graph.

    Attributes:
        place: The line; None if it is not known.
        function: The function.
        reason: Dynamo's reason, without its hints.
        change: What to change.
    """

    place: SourceLine | None
    function: str
    reason: str
    change: str


@dataclass(frozen=True, slots=True)
class Recompilation:
    """A function that was compiled again.

    Attributes:
        place: Its first line.
        function: Its name.
        guards: The guards that failed, one for each earlier compilation.
    """

    place: SourceLine
    function: str
    guards: tuple[str, ...]


@dataclass(slots=True)
class GeneratedKernel:
    """A kernel in generated code, or a call of a library in it.

    Attributes:
        name: Its name in the generated code.
        is_library: Whether it is a call of a library (``extern_kernels.mm``, an ``aten`` fallback).
        num_calls: How often the generated code calls it.
        operators: The operators that it contains, in the order of the graph.
        lines: The lines of the program that called them.
        modules: The modules that were running then.
        read_bytes: Bytes that one call reads, by Inductor's ranges.
        written_bytes: Bytes that one call writes.
    """

    name: str
    is_library: bool
    num_calls: int = 0
    operators: dict[str, None] = field(default_factory=dict)
    lines: dict[SourceLine, None] = field(default_factory=dict)
    modules: dict[str, None] = field(default_factory=dict)
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RefusedFusion:
    """Two kernels, one of which reads what the other writes, that Inductor did not fuse.

    Attributes:
        first: The name of the first kernel.
        second: The name of the second kernel.
        reason: Why.
    """

    first: str
    second: str
    reason: str


class CompilerLog:
    """Records what torch.compile does inside of a ``with`` block.

    Attributes:
        breaks: The graph breaks in order, each line and reason once.
        recompilations: The functions that were compiled again.
        kernels: The kernels of all graphs by name, in the order of the generated code.
        num_graphs: Graphs that Inductor compiled; a forward and a backward pass are two.
    """

    def __init__(self) -> None:
        self.breaks: list[GraphBreak] = []
        self.recompilations: list[Recompilation] = []
        self.kernels: dict[str, GeneratedKernel] = {}
        self.num_graphs = 0
        self._patches = Patches()
        self._graph: Any = None
        self._kernel_of_buffer: dict[tuple[int, str], str] = {}
        self._kernel_of_node: dict[tuple[int, str], str] = {}
        self._reads: dict[tuple[int, str], set[str]] = {}
        self._refused: dict[tuple[int, str, str], str] = {}

    def __enter__(self) -> CompilerLog:
        import torch._dynamo.convert_frame
        import torch._dynamo.output_graph
        import torch._inductor.scheduler
        from torch._inductor.codegen.triton import TritonScheduling
        from torch._inductor.ir import ExternKernel

        dynamo: Any = torch._dynamo
        scheduler: Any = torch._inductor.scheduler
        patches = self._patches
        reason_kind: Any = dynamo.output_graph.GraphCompileReason
        patches.set(reason_kind, "__post_init__", self._recording_break(reason_kind.__post_init__))
        find_reasons = dynamo.convert_frame.get_and_maybe_log_recompilation_reasons
        patches.set(
            dynamo.convert_frame, "get_and_maybe_log_recompilation_reasons", self._recording_reasons(find_reasons)
        )
        for kind in (TritonScheduling, ExternKernel):
            comment: Any = kind.codegen_comment
            patches.set(kind, "codegen_comment", self._recording_kernel(comment, is_library=kind is ExternKernel))
        patches.set(scheduler.WhyNoFuse, "__call__", self._recording_refusal(scheduler.WhyNoFuse.__call__))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self._patches.restore()

    @property
    def refused_fusions(self) -> list[RefusedFusion]:
        """Pairs of neighbours that were not fused, each once."""
        found: dict[RefusedFusion, None] = {}
        for (graph, first, second), reason in self._refused.items():
            names = self._kernel_of_node.get((graph, first)), self._kernel_of_node.get((graph, second))
            if names[0] is None or names[1] is None or names[0] == names[1]:
                continue
            reads = self._reads.get((graph, second), set())
            if not any(self._kernel_of_buffer.get((graph, name)) == names[0] for name in reads):
                continue
            text = reason.format(first=names[0], second=names[1])
            found.setdefault(RefusedFusion(names[0], names[1], text))
        return list(found)

    def _recording_break(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def record(reason: Any) -> None:
            original(reason)
            found = _graph_break(reason)
            if reason.graph_break and found not in self.breaks:  # again if the function is compiled by itself
                self.breaks.append(found)

        return record

    def _recording_reasons(self, original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        def find(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> list[str]:
            reasons = original(cache_entries, frame, *args, **kwargs)
            code = frame.f_code
            if reasons:
                place = SourceLine(code.co_filename, code.co_firstlineno)
                guards = tuple(_guard_text(reason) for reason in reasons)
                self.recompilations.append(Recompilation(place, code.co_name, guards))
            return reasons

        return find

    def _recording_refusal(self, original: Callable[..., None]) -> Callable[..., None]:
        def record(why: Any, reason: str, *args: Any) -> None:
            original(why, reason, *args)
            if len(self._refused) < _MAX_PAIRS:
                text = _REASONS.get(reason)
                if text is None:
                    text = f"Inductor: {reason % args if args else reason}".replace("{", "{{").replace("}", "}}")
                self._refused[self._graph_number(), why.name1, why.name2] = text

        return record

    def _recording_kernel(self, original: Callable[..., Any], *, is_library: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def codegen_comment(owner: Any, nodes: Any, kernel_name: str | None = None) -> Any:
            result = original(owner, nodes, kernel_name)
            if is_library:
                name = kernel_name or owner.try_get_kernel_name()
                if name:
                    self._add_library_call(str(name), owner)
            elif kernel_name:
                self._add_generated(kernel_name, nodes)
            return result

        return codegen_comment

    def _graph_number(self) -> int:
        """The number of the graph that Inductor lowers now."""
        from torch._inductor.virtualized import V

        if V.graph is not self._graph:
            self._graph = V.graph
            self.num_graphs += 1
        return self.num_graphs

    def _add_generated(self, name: str, schedule: Iterable[Any]) -> None:
        nodes = [node for node in schedule if getattr(node, "read_writes", None) is not None]
        read_bytes, written_bytes = _bytes_of(nodes)
        kernel = self._kernel(name, False, read_bytes, written_bytes)
        self._place(name, nodes)
        for node in nodes:
            _describe(kernel, getattr(node.node, "origins", ()))

    def _add_library_call(self, name: str, node: Any) -> None:
        from torch._inductor.virtualized import V

        graph: Any = V.graph
        kernel = self._kernel(name, True, 0, 0)
        operation = getattr(node, "operation_name", None)
        scheduled = getattr(graph.scheduler, "name_to_node", {}).get(operation)
        if scheduled is not None:
            self._place(name, [scheduled])
        origin = getattr(node, "origin_node", None)
        _describe(kernel, [origin] if origin is not None else node.origins)

    def _kernel(self, name: str, is_library: bool, read_bytes: int, written_bytes: int) -> GeneratedKernel:
        kernel = self.kernels.setdefault(name, GeneratedKernel(name, is_library))
        kernel.num_calls += 1
        kernel.read_bytes, kernel.written_bytes = read_bytes, written_bytes
        return kernel

    def _place(self, name: str, nodes: Iterable[Any]) -> None:
        """Note which kernel holds these nodes of the scheduler, and which buffers they read and write."""
        graph = self._graph_number()
        for node in nodes:
            self._kernel_of_node[graph, node.get_name()] = name
            self._reads[graph, node.get_name()] = {dep.name for dep in node.read_writes.reads}
            for buffer in node.get_buffer_names():
                self._kernel_of_buffer[graph, buffer] = name


def _graph_break(reason: Any) -> GraphBreak:
    frames = list(reason.user_stack)
    of_program = [frame for frame in frames if not is_passed_by(frame.filename)]
    innermost = (of_program or frames or [None])[-1]
    place = None if innermost is None else SourceLine(innermost.filename, innermost.lineno or 0, innermost.line or "")
    head, *rest = str(reason.reason).strip().split("\n")
    explanation = next((_after(line, "Explanation:") for line in rest if "Explanation:" in line), "")
    hints = [_after(line, "Hint:") for line in rest if "Hint:" in line]
    function = "" if innermost is None else innermost.name
    change = _change(head, place, hints) if of_program else _OF_TORCH
    return GraphBreak(place, function, f"{head}: {explanation}" if explanation else head, change)


def _change(head: str, place: SourceLine | None, hints: list[str]) -> str:
    """What to change for a graph break: ours if it is a frequent one, else Dynamo's first hint."""
    if place is not None and _PRINT.search(place.text):
        return "print outside of the compiled function"
    if place is not None and "zero_grad" in place.text:
        return "call zero_grad() outside of the compiled function"
    for beginning, change in _CHANGES.items():
        if head.startswith(beginning):
            return change
    return hints[0] if hints else "move it out of the compiled function"


def _after(line: str, word: str) -> str:
    return line.partition(word)[2].strip()


def _guard_text(reason: str) -> str:
    """A guard without the number of its compilation and without its comment."""
    first = reason.strip().split("\n")[0]
    first = re.sub(r"^\d+/\d+: ", "", first)
    return first.partition("  # ")[0].strip()


def _bytes_of(nodes: list[Any]) -> tuple[int, int]:
    """Bytes that a kernel of these nodes reads and writes: the ranges of buffers that are not inside of it."""
    from torch._inductor.virtualized import V

    removed = set(V.graph.removed_buffers)
    made = {name for node in nodes for name in node.get_buffer_names()}
    reads, writes = dict[str, int](), dict[str, int]()
    for node in nodes:
        _add_ranges(reads, (dep for dep in node.read_writes.reads if dep.name not in made | removed))
        _add_ranges(writes, (dep for dep in node.read_writes.writes if dep.name not in removed))
    return sum(reads.values()), sum(writes.values())


def _add_ranges(sizes: dict[str, int], dependencies: Iterator[Any]) -> None:
    from torch._inductor.dependencies import WeakDep

    for dependency in dependencies:
        if not isinstance(dependency, WeakDep):
            sizes[dependency.name] = max(sizes.get(dependency.name, 0), int(dependency.numbytes_hint()))


def _describe(kernel: GeneratedKernel, origins: Iterable[Any]) -> None:
    """Add the operators, lines and modules of nodes of a graph to a kernel."""
    for node in origins:
        if node.op not in ("call_function", "call_method"):
            continue
        target = node.target
        packet = getattr(target, "overloadpacket", target)
        name = getattr(packet, "_qualified_op_name", None) or getattr(packet, "__name__", str(packet))
        kernel.operators.setdefault(str(name).replace("::", "."))
        line = _program_line(node.meta.get("stack_trace"))
        if line is not None:
            kernel.lines.setdefault(line)
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
        if stack:
            path, kind = list(stack.values())[-1]
            kernel.modules.setdefault(_module_name(path, kind))


_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*(?:\n(?P<text> {4}[^\n]*))?')


def _program_line(stack: str | None) -> SourceLine | None:
    """The innermost line of a stack that is neither torch's nor ours."""
    found = None
    for match in _FRAME.finditer(stack or ""):
        if not is_passed_by(match["file"]):
            found = SourceLine(match["file"], int(match["line"]), (match["text"] or "").strip())
    return found


_MODULE_PATH: Final = re.compile(r"[GL]\['(\w+)'\]|\._modules\['(\w+)'\]")


def _module_name(path: str, kind: Any) -> str:
    """``layers.0.mlp (Linear)`` for a module's path in Dynamo's spelling."""
    name = _MODULE_PATH.sub(lambda match: f".{match[1] or match[2]}", str(path)).strip(".")
    name = name.replace(".self.", ".").removeprefix("self.")
    label = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    return f"{name} ({str(label).rpartition('.')[2]})"
