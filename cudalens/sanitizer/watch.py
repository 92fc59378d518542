"""One run of the sanitizer: torch's operators and callbacks in, the engine's launches and orders out.

What an operator touched is known when it has returned; what it made the host or a stream wait for is told while it runs.
So the callbacks of a running operator that order something are kept until then, and its launch is put among them:

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

from cudalens.device import hooks
from cudalens.device.streams import pointer_of
from cudalens.sanitizer import stacks
from cudalens.sanitizer.arguments import flag, has_own_dispatch, pairs, pieces, results
from cudalens.sanitizer.callbacks import Callbacks
from cudalens.sanitizer.engine.clocks import Line
from cudalens.sanitizer.engine.detector import Detector, Visit
from cudalens.sanitizer.engine.races import Findings, Race
from cudalens.sanitizer.engine.shadow import Life, Use
from cudalens.sanitizer.log import Log
from cudalens.sanitizer.memory import Memory
from cudalens.sanitizer.schema import Plan, make_plan

_Tensor: Final = torch.Tensor
_plans: Final[dict[Any, Plan]] = {}
"""Plans live as long as the process: operators do."""

_HOST_WAITS: Final = (hooks.StreamSynchronized, hooks.DeviceSynchronized, hooks.EventSynchronized)
_ORDERS: Final = frozenset((*_HOST_WAITS, hooks.EventRecorded, hooks.EventWaited))
"""Records that order something, and have to be put before or behind the launch of the operator that caused them."""

_COPY_NON_BLOCKING: Final = 2
"""Position of ``non_blocking`` in ``copy_`` and ``_copy_from``; ``_to_copy`` takes it by name."""

_USER_DEPTH: Final = 5
"""Stack frames of ours between the user's and `stacks.place`, at least."""

_Look: TypeAlias = tuple[Any, Use, bool, "Life | None"]
"""A tensor that is not plainly on a GPU: itself, its use, whether it is written, its life if it has one."""


class _Thread(threading.local):
    """What one thread is about.

    Attributes:
        is_inside: An operator of ours runs on it.
        told: Records of the operator that runs, which order something.
    """

    def __init__(self) -> None:
        self.is_inside = False
        self.told: list[hooks.Record] = []


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
        self._on_races, self._on_failure = on_races, on_failure
        self._run, self._key = object(), f"_cudalens_shadow{level or ''}"
        self._thread = _Thread()
        self._gather = stacks.gatherer()
        self.memory = Memory(self.detector, self._key, self._run, self.log.append, self._host_ended)
        self._callbacks = Callbacks(
            self.detector, self.memory, self.log, self.site, lambda: bool(self._thread.is_inside)
        )
        self._streams = self._callbacks.streams
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

    # Operators

    def operator(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and judge it."""
        plan = _plans.get(func)
        if plan is None:
            plan = _plan_of(func)
        if types and has_own_dispatch(types):
            return NotImplemented  # what the subclass calls comes back here
        if plan.is_silent or not self.is_on:
            return func(*args, **kwargs)
        old = self._resized(args[0]) if plan.resizes else None
        thread = self._thread
        thread.is_inside = True
        try:
            out = func(*args, **kwargs)
        except BaseException:
            thread.is_inside = False
            self._catch_up(thread)
            raise
        thread.is_inside = False
        try:
            races = self._judge(thread, plan, args, kwargs, out, old)
        except Exception as error:
            self.fail(error)
            return out
        if races:
            self._on_races(races, True)
        return out

    def _judge(
        self, thread: _Thread, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, old: Life | None
    ) -> Sequence[Race]:
        with self._lock:
            self._is_busy = True
            try:
                if plan.inputs or plan.outputs:
                    return self._judge_locked(thread, plan, args, kwargs, out)
                return self._judge_special(thread, plan, args, kwargs, old)
            finally:
                self._is_busy = False
                if self._deferred:
                    self._take_deferred()

    def _judge_locked(  # noqa: C901 - the path of every operator, where a call costs more than a branch
        self, thread: _Thread, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> Sequence[Race]:
        run, key, memory = self._run, self._key, self.memory
        if plan.training is not None and flag("training", plan.training_at, args, kwargs):
            plan = plan.training
        visits: list[Visit] = []
        looks: list[_Look] = []
        line: Line | None = None
        site: Any = None
        device = -1
        inputs: Iterable[Any] = (
            pairs(plan, args, kwargs) if kwargs or plan.has_lists else zip(args, plan.inputs, strict=False)
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
            if line is None:
                device = life.device
                line = self._streams.of_operator(device)
                site = (stacks.place(_USER_DEPTH), self._gather(True, False, False))
            if life.num_bytes == value.nbytes and value.is_contiguous():
                cell, stride = life.whole, None
            else:
                cell, stride = memory.cell(life, value)
            if cell is not None:
                visits.append((cell, use[1], (use[0], site, value.shape, stride, value.dtype, life)))
        if plan.outputs and (line is not None or plan.makes or not looks or looks[-1][3] is None):
            known = -1 if plan.makes or plan.is_copy else device
            for value, output in results(out, plan.outputs):
                try:
                    storage = value.untyped_storage()
                except (RuntimeError, NotImplementedError):
                    looks += [(piece, output, True, None) for piece in pieces(value)]
                    continue
                life = storage.__dict__.get(key)
                if life is None or life.run is not run:
                    if line is None and value.is_cuda:
                        line = self._streams.of_operator(value.get_device())
                        site = (stacks.place(_USER_DEPTH), self._gather(True, False, False))
                    life = memory.meet(value, storage, site, line, device=known)
                    if life.device < 0:
                        looks.append((value, output, True, life))
                        continue
                elif life.device < 0 or any(visit[2][5] is life for visit in visits):
                    continue  # it returns what it was given
                if not plan.is_empty:
                    cell, stride = memory.cell(life, value)
                    if cell is not None:
                        visits.append((cell, True, (output, site, value.shape, stride, value.dtype, life)))
        races: list[Race] = []
        if looks:
            line = self._look_at(plan, args, kwargs, looks, visits, line, races)
        if thread.told:
            races += self._launch_among(thread, plan, line, visits)
        elif line is not None and visits:
            races += self._callbacks.launch(line, visits)
        return races

    def _look_at(
        self,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        looks: list[_Look],
        visits: list[Visit],
        line: Line | None,
        races: list[Race],
    ) -> Line | None:
        """Tensors of the host, and others that need a second look: adds what they are visited for.

        Returns:
            The operator's line; None where nothing of it is on a GPU.
        """
        plain = self.memory.plain
        if line is None and all(look[3] is plain for look in looks):
            return None
        site = visits[0][2][1] if visits else (stacks.place(_USER_DEPTH + 1), self._gather(True, False, False))
        on_host: list[_Look] = []
        for tensor, use, is_write, life in looks:
            # A virtual device takes in scratch of torch's C++ that was made on the host; a sparse tensor's pieces are new.
            if (life is None or life is plain) and tensor.is_cuda:
                met = self._life_of(tensor)
                line = self._streams.of_operator(met.device) if line is None else line
                self._visit(visits, met, tensor, use, is_write, site)
            else:
                on_host.append((tensor, use, is_write, life))
        touched: list[Visit] = []
        for look in on_host:
            if plan.is_copy and line is not None:
                non_blocking = flag("non_blocking", _COPY_NON_BLOCKING, args, kwargs)
                self._copied(look, non_blocking, site, visits, touched)
            elif look[3] is not None and look[3] is not plain:
                self._visit(touched, look[3], look[0], look[1], look[2], site)
        if touched:
            races += self._host_touches(touched)
        return line

    def _life_of(self, tensor: torch.Tensor) -> Life:
        storage: Any = tensor.untyped_storage()
        life: Life | None = storage.__dict__.get(self._key)
        if life is not None and life.run is self._run and life is not self.memory.plain:
            return life
        return self.memory.meet(tensor, storage, None, None)

    def _visit(
        self, visits: list[Visit], life: Life, tensor: torch.Tensor, use: Use, is_write: bool, site: Any
    ) -> None:
        cell, stride = self.memory.cell(life, tensor)
        if cell is not None:
            visits.append((cell, is_write, (use, site, tensor.shape, stride, tensor.dtype, life)))

    def _copied(self, look: _Look, non_blocking: bool, site: Any, visits: list[Visit], touched: list[Visit]) -> None:
        """The host's side of a copy between it and a GPU.

        A copy from pageable memory has taken its values when the call returns: the driver stages them, which is the
        host's own reading. All others are work of the stream; the host has to wait unless the call did.
        """
        tensor, use, is_write, life = look
        is_async = is_write or tensor.is_pinned()
        if non_blocking and is_async:
            life = self.memory.track_host(tensor)
        if life is not None and life is not self.memory.plain:
            self._visit(visits if is_async else touched, life, tensor, use, is_write, site)

    def _host_touches(self, visits: list[Visit]) -> Sequence[Race]:
        clocks = self.detector.clocks
        clocks.host_step()
        self.log.append((clocks.host, visits))
        return self.detector.launch(clocks.host, visits)

    def _launch_among(self, thread: _Thread, plan: Plan, line: Line | None, visits: list[Visit]) -> Sequence[Race]:
        """Put the operator among the records that it caused."""
        told, thread.told = thread.told, []
        if line is None or not visits:
            for record in told:
                self._callbacks.take(record)
            return ()
        own, at, goes_on = self._order(told, plan, line)
        for record in told[:at]:
            self._callbacks.take(record)
        races = list(self._callbacks.launch(own, visits))
        for record in told[at:]:
            self._callbacks.take(record)
        if goes_on:
            races += self._callbacks.launch(own, visits)
        return races

    def _order(self, told: list[hooks.Record], plan: Plan, line: Line) -> tuple[Line, int, bool]:
        """The operator's line, how many of the records come before it, and whether it is launched again at the end."""
        waits = [n for n, record in enumerate(told) if isinstance(record, hooks.EventWaited)]
        if plan.is_collective:
            others = [(n, self._streams.of_pointer(told[n].stream)) for n in waits]  # type: ignore[attr-defined]
            for n, other in others:
                if other is not line:
                    return other, n + 1, False
        for n, record in enumerate(told):
            if isinstance(record, _HOST_WAITS):
                return line, n, not plan.fetches
        return line, waits[0] + 1 if waits else 0, False

    def _judge_special(
        self, thread: _Thread, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], old: Life | None
    ) -> Sequence[Race]:
        """``record_stream`` and ``resize_``."""
        self._catch_up(thread)
        tensor = args[0]
        if plan.records_stream and tensor.is_cuda:
            stream = args[1] if len(args) > 1 else kwargs["s"]
            line = self._streams.of_pointer(pointer_of(stream))
            self.memory.record_stream(self._life_of(tensor).start, line)
        if plan.resizes and old is not None and old.whole is not None:
            return self._resize(plan, old, tensor)
        return ()

    def _resized(self, tensor: Any) -> Life | None:
        """The life of a tensor that is about to be resized."""
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
        if storage.data_ptr() == old.address and old.run is self._run:
            return ()
        line, site = self._streams.of_operator(old.device), self.site()
        visits: list[Visit] = [
            (old.whole, False, (Use(plan.name, "self"), site, (old.num_bytes,), None, torch.uint8, old))  # type: ignore[list-item]
        ]
        self._visit(visits, self.memory.meet(tensor, storage, site, line), tensor, Use(plan.name, "self"), True, site)
        return self._callbacks.launch(line, visits)

    # Callbacks, and what comes from elsewhere

    def on_record(self, record: hooks.Record) -> None:
        """Listener of `cudalens.device.hooks`."""
        thread = self._thread
        if thread.is_inside and type(record) in _ORDERS:
            thread.told.append(record)
        elif self.is_on:
            self._submit(self._take, record)

    def annotate(
        self,
        name: str,
        reads: Sequence[torch.Tensor],
        writes: Sequence[torch.Tensor],
    ) -> None:
        """An operation that torch does not see was launched on the current stream."""
        if self.is_on:
            self._submit(self._annotate, (name, reads, writes, self.site()))

    def host_reads(self, tensor: torch.Tensor) -> None:
        """The host is about to look at a tensor's memory without an operator."""
        life = self._resized(tensor) if self.is_on else None
        if life is not None and life.device < 0:
            visits: list[Visit] = []
            self._visit(visits, life, tensor, Use("host read", "self"), False, self.site())
            self._submit(lambda found: self._report(self._host_touches(found)), visits)

    def _annotate(self, noted: tuple[str, Sequence[torch.Tensor], Sequence[torch.Tensor], Any]) -> None:
        name, reads, writes, site = noted
        visits: list[Visit] = []
        touched: list[Visit] = []
        line: Line | None = None
        for is_write, tensors in ((False, reads), (True, writes)):
            for position, tensor in enumerate(tensors):
                for piece in pieces(tensor) or (tensor,):
                    use = Use(name, f"{'writes' if is_write else 'reads'}[{position}]")
                    life = self._life_of(piece) if piece.is_cuda else self.memory.track_host(piece)
                    line = self._streams.of_operator(life.device) if line is None and life.device >= 0 else line
                    self._visit(visits, life, piece, use, is_write, site)
        if line is None:
            touched, visits = visits, []
        self._report(self._host_touches(touched) if touched else self._callbacks.launch(line, visits) if line else ())

    def _take(self, record: hooks.Record) -> None:
        self._report(self._callbacks.take(record))

    def _report(self, races: Sequence[Race]) -> None:
        if races:
            self._on_races(races, False)

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

    def _catch_up(self, thread: _Thread) -> None:
        """Take what an operator caused that has raised, or that launches nothing."""
        told, thread.told = thread.told, []
        for record in told:
            self._submit(self._take, record)

    def fail(self, error: Exception) -> None:
        """Something is wrong in here: judge nothing more, and say so once; the user's program goes on."""
        if self.is_on:
            self.is_on = False
            self._on_failure(error)


def _plan_of(func: Any) -> Plan:
    # A higher-order operator has no schema; what it calls is its own business.
    plan = make_plan(func) if hasattr(func, "_schema") else Plan(str(func), is_silent=True)
    _plans[func] = plan
    return plan
