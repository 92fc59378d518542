"""Begin steps, and decide what happens to the outputs of the previous step."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

import torch

from cudalens.device.streams import current_stream
from cudalens.graphs.backend import is_present
from cudalens.graphs.liveness import OutputRef, memory_parts
from cudalens.graphs.node import GraphNode
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.warmup import WarmupNode

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.device.stacks import Place
    from cudalens.graphs.functions import Function, Mode
    from cudalens.graphs.log import Log


class _Marks:
    """How often `mark_step_begin` was called for all managers.

    Attributes:
        count: Calls.
        unclaimed: Calls while there was no manager; they count for the next one.
        live: The steps of the managers that are not shut down.
        lock: Held while the others change or are read; each thread has managers of its own.
    """

    count = 0
    unclaimed = 0
    live: ClassVar[WeakSet[Steps]] = WeakSet()
    lock = threading.RLock()


def mark_step_begin() -> None:
    """Say that a new step begins: from now on each manager's next call may overwrite the outputs of the last step.

    Without it, a function that is called again begins a new step, unless a backward of the last one is still to come or
    runs.
    """
    with _Marks.lock:
        _Marks.count += 1
        if not any(steps.is_present for steps in _Marks.live):
            _Marks.unclaimed += 1


class Steps:
    """When a manager's steps begin.

    Args:
        device: Index of the manager's device.
        backend: The device's backend.

    Attributes:
        generation: Number of the step.
        is_pending: A forward ran whose backward did not.
    """

    def __init__(self, device: int, backend: GraphBackend) -> None:
        self._device, self._backend = device, backend
        self.generation = 0
        self.is_pending = False
        self._is_marked = False
        with _Marks.lock:
            self._own_marks, self._seen = 0, _Marks.count - _Marks.unclaimed
            _Marks.unclaimed = 0
            _Marks.live.add(self)
        self._ran: set[int] = set()
        self._blocked: Counter[int] = Counter()

    @property
    def is_present(self) -> bool:
        """Whether the manager's device is still there."""
        return is_present(self._device, self._backend)

    def end(self) -> None:
        """The manager is not used any more: later marks are for other managers."""
        with _Marks.lock:
            _Marks.live.discard(self)

    def mark(self) -> None:
        """Begin a step at the user's request."""
        self._own_marks += 1

    def begins(self, function: Function, current: GraphNode | WarmupNode | None, log: Log) -> bool:
        """Whether the call of `function` that is about to run begins a new step."""
        marks = _Marks.count + self._own_marks
        if marks != self._seen:
            self._seen, self._is_marked = marks, True
            return self._begin()
        if current is None:  # no output of an earlier call is held, so whatever comes is of a new step
            self._ran.clear()
        if self._is_marked or function.id not in self._ran:
            return False
        assert current is not None
        is_in_backward = torch._C._current_graph_task_id() != -1  # called by a hook, or by a checkpoint that recomputes
        if not self.is_pending and not is_in_backward:
            return self._begin()
        if current.is_over():  # nothing is left that could call the backward
            return self._begin()
        if is_in_backward:  # which uses outputs of this step
            return False
        self._blocked[function.id] += 1
        finding = Finding(Reason.PENDING_BACKWARD, f"of {function.name}", function.place)
        log.note(function, finding)
        if self._blocked[function.id] == _PATIENCE:
            warnings.warn(f"cudalens: {function.name} {finding}. {finding.reason.advice}", RuntimeWarning, stacklevel=5)
        return False

    def ran(self, function: Function, mode: Mode) -> None:
        """A function was warmed up, recorded or replayed."""
        if mode == "backward":
            self.is_pending = False
        else:
            self._ran.add(function.id)
            self.is_pending = self.is_pending or mode == "forward"

    def backward_ran(self) -> None:
        """A backward ran without a graph."""
        self.is_pending = False

    def _begin(self) -> bool:
        self.generation += 1
        self.is_pending = False
        self._ran.clear()
        self._blocked.clear()
        return True


#: A function may be called twice in one step; from then on the backward is probably never called.
_PATIENCE: Final = 2


@dataclass(slots=True)
class Stale:
    """An output of an earlier step that is still held.

    Attributes:
        ref: The output.
        function: The function that made it.
        place: The line that made it.
        owns: Whether it owns its memory, as after a warmup or a recording.
    """

    ref: OutputRef
    function: Function
    place: Place | None
    owns: bool

    def drop(self, backend: GraphBackend) -> bool:
        """Free its memory; False if it is not alive."""
        if not self.ref.is_alive():
            return False
        tensor, storage = self.ref.tensor(), self.ref.storage()
        self.ref.let_go()
        if storage is None:
            return False
        if self.owns:
            backend.disown(storage)
        backend.invalidate(tensor, storage, self._message())
        return True

    def _message(self) -> str:
        at = f" at {self.place} ({self.place.source})" if self.place is not None and self.place.code else ""
        return (
            f"This tensor is an output of {self.function.name}, made{at} by a CUDA graph, and a later step has "
            "overwritten it. Clone it before the next step if you need it longer, or call "
            "cudalens.graphs.mark_step_begin() where your steps begin."
        )


def rescue_gradients(current: GraphNode | WarmupNode, owners: Iterable[torch.Tensor | None]) -> None:
    """Copy each ``.grad`` out of the pool, because gradients may be accumulated over steps.

    Args:
        current: Where the path ends.
        owners: Arguments that gradients were made for, besides the tensors from outside.
    """
    every = [*current.owners, *owners]
    addresses = {ref.address for ref in current.live_refs()} if every else set()
    for owner in every:
        grad = owner.grad if owner is not None else None
        parts = memory_parts(grad) if grad is not None else ()
        if owner is not None and grad is not None and addresses.intersection(map(_address, parts)):
            with torch.no_grad():
                grad.data = grad.clone()


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class StreamOrder:
    """Orders replays on different streams: they share memory, so each waits for the one before it."""

    def __init__(self) -> None:
        self._last: torch.cuda.Stream | None = None
        self._pointer: int | None = None

    def follow(self, device: int) -> None:
        """Make the current stream of `device` wait for the stream of the last call, if it is another one."""
        pointer = current_stream(device)
        if pointer != self._pointer:
            stream = torch.cuda.current_stream(device)
            if self._last is not None:
                stream.wait_stream(self._last)
            self._last, self._pointer = stream, pointer
