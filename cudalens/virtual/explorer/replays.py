"""Log replays of CUDA graphs as tasks: a graph's operators in order, on the stream of the launch.

The operators of a graph keep the order of the capture: tasks of other streams can run in between, but the branches of a
graph are not reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from cudalens.device.stacks import Place as Site
from cudalens.virtual.capture.captured_ops import CapturedOp, Tape, writes_of
from cudalens.virtual.capture.graph_memory import Memory, Operand
from cudalens.virtual.explorer.logged import Draw, LoggedOp
from cudalens.virtual.explorer.places import DEVICE, Place, Span

if TYPE_CHECKING:
    from cudalens.virtual.explorer.memory import TrackedMemory


def replay(tape: Tape, memory: TrackedMemory, add: Callable[[LoggedOp], Any], site: Site) -> None:
    """Run the operators of a graph, and log each.

    Args:
        tape: The operators of the graph.
        memory: The memory of the log.
        add: Called with each task.
        site: The location in the user's program.
    """
    for op in tape.ops:
        if isinstance(op, Tape):
            replay(op, memory, add, site)
        elif isinstance(op, CapturedOp) and not op.is_blank:
            logged = _started(op, memory, site)
            op.run()
            if op.is_zeros and op.makes[0][1].memory.arena is not None:
                logged.writes = [place for _, place in _made(op, memory)]
                logged.func, logged.args, logged.kwargs = torch.ops.aten.zero_.default, tuple(logged.writes), {}
            else:
                logged.makes = _made(op, memory)
            add(logged)
        else:
            op.run()


def _started(op: CapturedOp, memory: TrackedMemory, site: Site) -> LoggedOp:
    logged, written = LoggedOp(op.func._schema.name, op.func, site=site), writes_of(op.func)
    logged.args = tuple(_kept(value, n in written, logged, memory) for n, value in enumerate(op.args))
    logged.kwargs = {name: _kept(value, name in written, logged, memory) for name, value in op.kwargs.items()}
    for _, operand in op.makes:
        _span_of(operand.memory, memory)
    return logged


def _made(op: CapturedOp, memory: TrackedMemory) -> list[tuple[tuple[int, ...], Place]]:
    return [(path, _place(operand, memory)) for path, operand in op.makes]


def _kept(value: Any, is_written: bool, logged: LoggedOp, memory: TrackedMemory) -> Any:
    if isinstance(value, Operand):
        place = _place(value, memory)
        (logged.writes if is_written else logged.reads).append(place)
        return place
    if isinstance(value, torch._C.Generator):
        return Draw(torch._C.Generator.get_state(value))
    if isinstance(value, list | tuple):
        items = [_kept(item, is_written, logged, memory) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _place(operand: Operand, memory: TrackedMemory) -> Place:
    dtype, size, stride, offset, flags = operand.layout
    return Place(_span_of(operand.memory, memory), dtype, tuple(size), stride, offset, flags)


def _span_of(piece: Memory, memory: TrackedMemory) -> Span:
    """Return the span of a graph's memory: an address in a pool, the user's storage, or a space of its own."""
    arena = piece.arena
    if arena is not None:
        span = Span(DEVICE, piece.address, piece.address + piece.num_bytes)
        memory.cover(span, lambda: arena.bytes_at(piece.address, piece.num_bytes))
        return span
    if piece.storage is not None:
        return memory.track(piece.storage)
    return memory.own_space(piece, piece.num_bytes)
