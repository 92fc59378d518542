"""One run of the sanitizer: torch's operators and callbacks in, the engine's launches and orders out.

What an operator touched is known when it has returned; what it made the host or a stream wait for is told while it
runs. So the callbacks of a running operator that order something are kept until then, and its launch is put among them:

- in front of the first wait of the host, since that is what a copy or ``item()`` waits for;
- where the operator goes on after such a wait (``nonzero`` launches again once it knows the count), behind it as well;
- behind the first wait of a stream in a copy between devices, which torch puts between events of both;
- for a collective, on the stream that it made wait for the current one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import torch

from cudalens.device import hooks, stacks
from cudalens.device.streams import current_device, pointer_of
from cudalens.sanitizer.arguments import flag, pairs, pieces, results
from cudalens.sanitizer.callbacks import Callbacks
from cudalens.sanitizer.engine.accesses import OP_HEAD, OP_STEP, Life, Op, Use
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.log import Log
from cudalens.sanitizer.memory import SHAPES, Memory
from cudalens.sanitizer.schema import Plan

_Tensor: Final = torch.Tensor
_place: Final = stacks.place
_HOST_WAITS: Final = (hooks.StreamSynchronized, hooks.DeviceSynchronized, hooks.EventSynchronized)
_ORDERS: Final = frozenset((*_HOST_WAITS, hooks.EventRecorded, hooks.EventWaited))
"""Records that order something, and have to be put before or behind the launch of the operator that caused them."""

_COPY_NON_BLOCKING: Final = 2
"""Position of ``non_blocking`` in ``copy_`` and ``_copy_from``; ``_to_copy`` takes it by name."""

_LIFE_AT: Final = OP_HEAD + OP_STEP - 1

_Look: TypeAlias = tuple[Any, Use, bool, "Life | None"]
"""A tensor that is not plainly on a GPU: itself, its use, whether it is written, its life if it has one."""


_Told: TypeAlias = tuple[Any, int]
"""A record, and the GPU that was current when it came."""


class _State:
    """What one thread is about.

    Attributes:
        is_inside: An operator of ours runs on it.
        told: Records of the operator that runs, which order something.
    """

    __slots__ = ("is_inside", "told")

    def __init__(self) -> None:
        self.is_inside = False
        self.told: list[_Told] = []


class _Thread(threading.local):
    """Each thread's state."""

    def __init__(self) -> None:
        self.state = _State()


class Watch:
    """The state of one run, and what operators and callbacks do to it.

    Args:
        findings: Where races go.
        level: How many other runs are on already: each keeps its own notes at the storages.
        on_races: Called with the races that an operator (True) or a callback (False) made; may raise for the former.
        on_failure: Called once with what went wrong in here.

    Attributes:
        is_on: Whether anything is judged.
        detector: The engine.
        log: The last records.
        memory: The storages.
        threads: What each thread is about.
        guessed: Names of kernels of which nobody could tell what they write.
        on_races: As given.
    """

    def __init__(
        self,
        findings: Findings,
        level: int,
        on_races: Callable[[Sequence[Race], bool], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.is_on = True
        self.detector = Detector(findings)
        self.log = Log()
        self.on_races, self._on_failure = on_races, on_failure
        self._run, self._key = object(), f"_cudalens_shadow{level or ''}"
        self.threads = _Thread()
        self.guessed: set[str] = set()
        self._gather = stacks.gatherer()
        self.memory = Memory(self.detector, self._key, self._run, self.log.append, self._host_ended)
        self._callbacks = Callbacks(
            self.detector, self.memory, self.log, self.site, lambda: self.threads.state.is_inside
        )
        self._line = self._callbacks.streams.of_operator
        self._streams, self._captures = self._callbacks.streams, self._callbacks.open_captures
        self._lock = threading.RLock()
        self._is_busy = False
        self._deferred: deque[tuple[Callable[[Any], Any], Any]] = deque()

    def end(self) -> None:
        """Judge nothing more, and let go of all that is remembered."""
        with self._lock:
            self.is_on = False
            self._callbacks.forget()
            self.memory.forget()

    def site(self) -> stacks.Site:
        """Where the program is: the user's place, and the call stack."""
        return stacks.place(2), self._gather(True, False, False)

    def judge(  # noqa: C901 - the path of every operator, where a call costs more than a branch
        self, thread: _State, plan: Plan, args: tuple[Any, ...], kwargs: Any, out: Any
    ) -> Sequence[Race]:
        """Judge an operator that has run: find what it touched, and put that on its stream."""
        with self._lock:
            self._is_busy = True
            try:
                run, key, memory, shapes = self._run, self._key, self.memory, SHAPES.setdefault
                if plan.training is not None and flag("training", plan.training_at, args, kwargs or {}):
                    plan = plan.training
                op: Op = []
                looks: list[_Look] = []
                device = -1
                inputs = (
                    pairs(plan, args, kwargs or {}) if kwargs or plan.has_lists else zip(args, plan.inputs)  # noqa: B905 - trailing arguments may be left out
                )
                for value, use in inputs:
                    if use is None or not isinstance(value, _Tensor):
                        continue
                    try:
                        storage: Any = value.untyped_storage()
                    except (RuntimeError, NotImplementedError):
                        looks += [(piece, use[0], use[1], None) for piece in pieces(value)]
                        continue
                    life = storage.__dict__.get(key)
                    if life is None or life.run is not run:
                        life = memory.meet(value, storage, None, None)
                    if life.device < 0:
                        looks.append((value, use[0], use[1], life))
                        continue
                    if not op:
                        device = life.device
                        op = [_place(2), self._gather(True, False, False), self._line(device)]
                    shape, dtype = value.shape, value.dtype
                    if shape == life.shape and dtype is life.dtype and value.is_contiguous():
                        op += (life.whole, use[1], use[0], life.shape, None, dtype, life)
                    elif life.num_bytes == value.nbytes and value.is_contiguous():
                        if (cell := life.whole) is not None:
                            life.shape, life.dtype = shapes(shape, shape), dtype
                            op += (cell, use[1], use[0], life.shape, None, dtype, life)
                    else:
                        memory.visit(op, life, value, use[0], use[1])
                made = None
                if op and plan.is_plain and isinstance(out, _Tensor):
                    try:  # contextlib.suppress would cost a microsecond
                        made = out.untyped_storage()
                    except (RuntimeError, NotImplementedError):
                        made = None
                if made is not None and key not in made.__dict__:
                    # Told of, the launch comes later or elsewhere; captured, it comes with each replay.
                    is_filled = not thread.told and not self._captures
                    life = memory.meet_result(out, made, op, op[2], device, is_filled)
                    if life.shape is not None:
                        op += (life.whole, True, plan.outputs[0], life.shape, None, life.dtype, life)
                    elif life.num_bytes == out.nbytes and out.is_contiguous():
                        if (cell := life.whole) is not None:
                            shape = out.shape
                            op += (cell, True, plan.outputs[0], shapes(shape, shape), None, out.dtype, life)
                    else:
                        memory.visit(op, life, out, plan.outputs[0], True)  # type: ignore[arg-type]
                elif plan.outputs and (op or plan.makes or not looks or looks[-1][3] is None):
                    is_filled = not (thread.told or self._captures or plan.is_empty)
                    op = self._results(plan, out, op, looks, -1 if plan.makes or plan.is_copy else device, is_filled)
                races: list[Race] = []
                if looks:
                    op = self._look_at(plan, args, kwargs or {}, looks, op, races)
                if thread.told:
                    races += self._launch_among(thread, plan, op)
                elif len(op) > OP_HEAD:
                    if self._captures:
                        races += self._callbacks.launch(op)
                    else:
                        self.log.append(op)
                        detector = self.detector
                        detector.position += 1
                        races += detector.launch_op(op)
                return races
            finally:
                self._is_busy = False
                if self._deferred:
                    self._take_deferred()

    def _results(  # noqa: C901 - see judge
        self, plan: Plan, out: Any, op: Op, looks: list[_Look], device: int, is_filled: bool
    ) -> Op:
        """Add what an operator returned.

        Args:
            plan: The operator's.
            out: What it returned.
            op: What is known of it so far; empty while nothing of it is on a GPU.
            looks: Takes what is not plainly on a GPU.
            device: Where all its results are; -1 where that has to be asked.
            is_filled: It fills them now, on its own line.
        """
        run, key, memory = self._run, self._key, self.memory
        several = ((out, plan.outputs[0]),) if isinstance(out, _Tensor) else results(out, plan.outputs)
        for value, use in several:
            if use is None:
                continue
            try:
                storage: Any = value.untyped_storage()
            except (RuntimeError, NotImplementedError):
                looks += [(piece, use, True, None) for piece in pieces(value)]
                continue
            life = storage.__dict__.get(key)
            if life is None or life.run is not run:
                if device >= 0:
                    life = memory.meet_result(value, storage, op, op[2], device, is_filled)
                else:
                    if not op and value.is_cuda:
                        op = [
                            _place(3),
                            self._gather(True, False, False),
                            self._line(value.get_device()),
                        ]
                    life = memory.meet(value, storage, op or None, op[2] if op else None)
                    if life.device < 0:
                        looks.append((value, use, True, life))
                        continue
            elif life.device < 0 or any(touched is life for touched in op[_LIFE_AT::OP_STEP]):
                continue  # it returns what it was given
            if plan.is_empty:
                continue
            if life.num_bytes == value.nbytes and value.is_contiguous():
                if life.whole is not None:
                    op += (life.whole, True, use, SHAPES.setdefault(value.shape, value.shape), None, value.dtype, life)
            else:
                memory.visit(op, life, value, use, True)
        return op

    def _look_at(
        self,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        looks: list[_Look],
        op: Op,
        races: list[Race],
    ) -> Op:
        """Tensors of the host, and others that need a second look.

        Args:
            plan: The operator's.
            args: Its arguments.
            kwargs: Likewise.
            looks: The tensors.
            op: What is known of it so far; empty while nothing of it is on a GPU.
            races: Takes the races of what the host itself touches.

        Returns:
            The operation, with what they add.
        """
        plain = self.memory.plain
        if not op and all(look[3] is plain for look in looks):
            return op
        site = op[:2] or [_place(3), self._gather(True, False, False)]
        on_host: list[_Look] = []
        for tensor, use, is_write, life in looks:
            # A virtual device takes in scratch that torch's C++ made on the host; pieces of a sparse tensor are new.
            if (life is None or life is plain) and tensor.is_cuda:
                met = self._met(tensor)
                op = op or [*site, self._line(met.device)]
                self.memory.visit(op, met, tensor, use, is_write)
            else:
                on_host.append((tensor, use, is_write, life))
        touched: Op = [*site, self.detector.clocks.host]
        for look in on_host:
            if plan.is_copy and op:
                self._copied(look, flag("non_blocking", _COPY_NON_BLOCKING, args, kwargs), op, touched)
            elif look[3] is not None and look[3] is not plain:
                self.memory.visit(touched, look[3], look[0], look[1], look[2])
        races += self._host_touches(touched)
        return op

    def _met(self, tensor: torch.Tensor) -> Life:
        storage: Any = tensor.untyped_storage()
        life: Life | None = storage.__dict__.get(self._key)
        if life is not None and life.run is self._run and life is not self.memory.plain:
            return life
        return self.memory.meet(tensor, storage, None, None)

    def _copied(self, look: _Look, non_blocking: bool, op: Op, touched: Op) -> None:
        """The host's side of a copy between it and a GPU.

        A copy from pageable memory has taken its values when the call returns: the driver stages them, which is the
        host's own reading. All others are work of the stream; the host has to wait unless the call did.
        """
        tensor, use, is_write, life = look
        is_async = is_write or tensor.is_pinned()
        if non_blocking and is_async:
            life = self.memory.track_host(tensor)
        if life is not None and life is not self.memory.plain:
            self.memory.visit(op if is_async else touched, life, tensor, use, is_write)

    def _launch(self, op: Op) -> Sequence[Race]:
        if self._captures:
            return self._callbacks.launch(op)
        self.log.append(op)
        detector = self.detector
        detector.position += 1
        return detector.launch_op(op)

    def _host_touches(self, op: Op) -> Sequence[Race]:
        if len(op) == OP_HEAD:
            return ()
        self.detector.clocks.host_step()
        self.log.append(op)
        return self.detector.launch_op(op)

    def _launch_among(self, thread: _State, plan: Plan, op: Op) -> Sequence[Race]:
        """Put the operator among the records that it caused."""
        told, thread.told = thread.told, []
        if len(op) <= OP_HEAD:
            for record in told:
                self._callbacks.take(*record)
            return ()
        op[2], at, goes_on = self._order(told, plan, op[2])
        for record in told[:at]:
            self._callbacks.take(*record)
        races = list(self._launch(op))
        for record in told[at:]:
            self._callbacks.take(*record)
        if goes_on:
            races += self._launch(op)
        return races

    def _order(self, told: list[_Told], plan: Plan, line: Line) -> tuple[Line, int, bool]:
        """The operator's line, how many of the records come before it, and whether it is launched again at the end."""
        waits = [n for n, (record, _) in enumerate(told) if isinstance(record, hooks.EventWaited)]
        if plan.is_collective:
            others = [(n, self._streams.of_pointer(told[n][0].stream, told[n][1])) for n in waits]
            for n, other in others:
                if other is not line:
                    return other, n + 1, False
        for n, (record, _) in enumerate(told):
            if isinstance(record, _HOST_WAITS):
                return line, n, not plan.fetches
        return line, waits[0] + 1 if waits else 0, False

    def judge_special(
        self, thread: _State, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Life | None
    ) -> Sequence[Race]:
        """Judge ``record_stream`` or ``resize_``, which has run.

        Args:
            thread: The calling thread.
            plan: The operator's.
            args: Its arguments.
            kwargs: Likewise.
            old: What the first argument was before.
        """
        self.catch_up(thread)
        with self._lock:
            self._is_busy = True
            try:
                return self._judge_special(plan, args, kwargs, old)
            finally:
                self._is_busy = False
                if self._deferred:
                    self._take_deferred()

    def _judge_special(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Life | None
    ) -> Sequence[Race]:
        tensor = args[0]
        if plan.records_stream and tensor.is_cuda:
            stream = args[1] if len(args) > 1 else kwargs["s"]
            line = self._streams.of_pointer(pointer_of(stream), tensor.get_device())
            self.memory.record_stream(self._met(tensor).start, line)
        if plan.resizes and old is not None and old.whole is not None:
            return self._resize(plan, old, tensor)
        return ()

    def life_of(self, tensor: Any) -> Life | None:
        """What is known of a tensor's storage; None for a plain one of the host."""
        try:
            life: Life | None = tensor.untyped_storage().__dict__.get(self._key)
        except (RuntimeError, NotImplementedError):
            return None
        return life if life is not None and life.run is self._run and life is not self.memory.plain else None

    def _resize(self, plan: Plan, old: Life, tensor: torch.Tensor) -> Sequence[Race]:
        """A tensor that got other memory: what it held was copied over."""
        storage: Any = tensor.untyped_storage()
        if old.device < 0:
            storage.__dict__.pop(self._key, None)
            return ()
        if storage.data_ptr() == old.start and old.run is self._run:
            return ()
        use = Use(plan.name, "self")
        op: Op = [*self.site(), self._line(old.device)]
        op += (old.whole, False, use, (old.num_bytes,), None, torch.uint8, old)
        self.memory.visit(op, self.memory.meet(tensor, storage, op, op[2]), tensor, use, True)
        return self._launch(op)

    # Callbacks, and what comes from elsewhere

    def on_record(self, record: hooks.Record) -> None:
        """Listener of `cudalens.device.hooks`."""
        thread = self.threads.state
        if thread.is_inside and type(record) in _ORDERS:
            thread.told.append((record, current_device()))
        elif type(record) is hooks.KernelLaunched:
            self._on_launched(record)
        elif self.is_on:
            self._submit(self._take, (record, current_device()))

    def on_allocated(self, address: int) -> None:
        """Likewise, for `hooks.MemoryAllocated`. What an operator is given is met as its result."""
        if self.is_on and not self.threads.state.is_inside:
            self._submit(self._take, (hooks.MemoryAllocated(address), current_device()))

    def on_freed(self, address: int) -> None:
        """Likewise, for `hooks.MemoryFreed`."""
        if not self.is_on:
            return
        try:
            with self._lock:
                if not self._is_busy:
                    self.memory.given_back(address, self.site)
                else:
                    self._deferred.append((self._take, (hooks.MemoryFreed(address), 0)))
        except Exception as error:
            self.fail(error)

    def annotate(
        self,
        name: str,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
    ) -> None:
        """An operation that torch does not see was launched on the current stream."""
        if self.is_on:
            touched = [(f"reads[{position}]", tensor, False) for position, tensor in enumerate(reads)]
            touched += [(f"writes[{position}]", tensor, True) for position, tensor in enumerate(writes)]
            self._submit(self._annotate, (name, touched, self.site(), None))

    def _on_launched(self, record: hooks.KernelLaunched) -> None:
        """A kernel of Triton's."""
        if self.is_on:
            if not record.is_certain:
                self.guessed.add(record.name)
            line = self._streams.of_pointer(record.stream, record.device)
            self._submit(self._annotate, (record.name, record.arguments, self.site(), line))

    def name_memory(self, tensor: torch.Tensor, name: str) -> None:
        """Reports call a tensor's memory by this name."""
        with self._lock:
            for piece in _dense(tensor):
                life = self._met(piece) if piece.is_cuda else self.memory.track_host(piece)
                life.name = name

    def host_reads(self, tensor: torch.Tensor) -> None:
        """The host is about to look at a tensor's memory without an operator."""
        life = self.life_of(tensor) if self.is_on else None
        if life is not None and life.device < 0:
            op: Op = [*self.site(), self.detector.clocks.host]
            self.memory.visit(op, life, tensor, Use("host read", "self"), False)
            self._submit(lambda found: self._report(self._host_touches(found)), op)

    def _annotate(self, noted: tuple[str, Iterable[tuple[str, torch.Tensor, bool]], Any, Line | None]) -> None:
        name, touched, site, line = noted
        host = self.detector.clocks.host
        op: Op = [*site, line or host]
        for argument, tensor, is_write in touched:
            for piece in _dense(tensor):
                life = self._met(piece) if piece.is_cuda else self.memory.track_host(piece)
                op[2] = self._line(life.device) if op[2] is host and life.device >= 0 else op[2]
                self.memory.visit(op, life, piece, Use(name, argument), is_write)
        if len(op) > OP_HEAD:
            self._report(self._host_touches(op) if op[2] is host else self._launch(op))

    def _take(self, told: _Told) -> None:
        self._report(self._callbacks.take(*told))

    def _report(self, races: Sequence[Race]) -> None:
        if races:
            self.on_races(races, False)

    def _host_ended(self, life: Life) -> None:
        if self.is_on:
            self._submit(self._host_free, life)

    def _host_free(self, life: Life) -> None:
        if life.is_live:
            self.detector.free(life)
            self.log.append(("free", life))

    def _submit(self, act: Callable[[Any], Any], argument: Any) -> None:
        """Do something under the lock, or right after what is going on (garbage that is collected meanwhile, say)."""
        try:
            with self._lock:
                if self._is_busy:
                    self._deferred.append((act, argument))
                    return
                self._is_busy = True
                try:
                    act(argument)
                finally:
                    self._is_busy = False
                    if self._deferred:
                        self._take_deferred()
        except Exception as error:
            self.fail(error)

    def _take_deferred(self) -> None:
        self._is_busy = True
        try:
            while self._deferred:
                act, argument = self._deferred.popleft()
                act(argument)
        finally:
            self._is_busy = False

    def catch_up(self, thread: _State) -> None:
        """Take what an operator caused that has raised, or that launches nothing."""
        told, thread.told = thread.told, []
        for record in told:
            self._submit(self._take, record)

    def fail(self, error: Exception) -> None:
        """Something is wrong in here: judge nothing more, and say so once; the user's program goes on."""
        if self.is_on:
            self.is_on = False
            self._on_failure(error)


def _dense(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    try:
        tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return pieces(tensor)
    return (tensor,)
