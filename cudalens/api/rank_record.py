"""Record the run of one rank of a job, and make its Trace with the times of the job."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import torch

from cudalens.analysis.summary import step_rows
from cudalens.api.recorder import Recorder
from cudalens.api.session import OK
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.errors import VirtualDeviceError
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import integers, masked
from cudalens.profiler import ProfilerOptions
from cudalens.virtual.jobs.exchanges import Mailbox
from cudalens.virtual.jobs.followed_code import followed_ints
from cudalens.virtual.jobs.rank_device import Meeting, RankDevice, rank_environment
from cudalens.virtual.jobs.rank_run import RankRun, sign_record
from cudalens.virtual.jobs.retiming import retimed
from cudalens.virtual.jobs.schedule import RankTimes
from cudalens.virtual.jobs.topology import Cluster
from cudalens.virtual.profile.collector import VirtualCollector
from cudalens.virtual.shapes.reading import Defaults

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.profile.recorder import Cut
    from cudalens.virtual.shapes.recipes import Recipe

#: Memory of a GPU on which everything fits, so that a job that does not fit shows how much it needs.
_UNLIMITED_BYTES: Final = 1 << 46


#: Name of the range after the last step of the optimizer, which begins as a step does.
AFTER_STEPS: Final = "after the last step"

#: Modules that DistributedDataParallel and DTensor import at first use, which takes seconds: once for all ranks.
_PRELOADED: Final = ("torch._dynamo", "torch.distributed.tensor")


def import_modules() -> None:
    """Import what ranks need. An interrupt comes afterwards: modules that are imported in part cannot be used again."""
    interrupts = DeferredInterrupts("job")
    interrupts.install()
    try:
        _import_modules()
    finally:
        interrupts.remove()
    interrupts.deliver()


@defers_interrupts("job")
def _import_modules() -> None:
    for name in _PRELOADED:
        import_module(name)


@lru_cache(maxsize=16)
def _with_unlimited_memory(spec: DeviceSpec) -> DeviceSpec:
    """Return such a GPU on which everything fits: the same object for all ranks, which caches compare quickly."""
    return spec.replace(total_memory_bytes=_UNLIMITED_BYTES)


class RankRecord:
    """The recording of one rank.

    Args:
        cluster: The GPUs of the job.
        rank: The rank.
        mailbox: The objects that ranks sent which ran before; of ranks without values.
        defaults: What the program reads for unknown values, of ranks without values.
        recipes: What ranks that ran before found about the shapes of results; of ranks without values.
        meeting: Where the processes of ranks with values meet; None for a rank without values.
    """

    def __init__(
        self,
        cluster: Cluster,
        rank: int,
        *,
        mailbox: Mailbox | None = None,
        defaults: Defaults | None = None,
        recipes: dict[Any, Recipe] | None = None,
        meeting: Meeting | None = None,
    ) -> None:
        unlimited = replace(cluster, spec=_with_unlimited_memory(cluster.spec))
        self._device = RankDevice(unlimited, rank, mailbox=mailbox, defaults=defaults, recipes=recipes, meeting=meeting)
        self._cluster, self._rank = cluster, rank
        self.recorder = Recorder(ProfilerOptions(memory=True), metrics=False, syncs=False)

    def run(self, function: Callable[[], object]) -> RankRun:
        """Run the program of the rank."""
        session = self.recorder.new_session()
        try:
            device = self._device
            with rank_environment(self._cluster, self._rank), self._followed(function), device:
                session.start()
                try:
                    self.recorder.session = session
                    self.recorder.begin()
                    with _steps_of_optimizers(self.recorder) as cuts:
                        self._call(function)
                finally:
                    self.recorder.stop(session)
                assert device.communicator is not None
                communicator, memory = device.communicator, self._peaks()
        finally:
            gc.collect()  # the next rank measures its own tensors only
        self.recorder.profiler.release_raw()
        self._record = self.recorder.virtual.recorders[0]
        return RankRun.of_record(
            self._rank,
            self._record,
            communicator,
            device.joined,
            cuts if len(cuts) > 1 else [],
            memory,
            device.reads,
        )

    def sign(self, function: Callable[[], object]) -> bytes:
        """Run the program of the rank without torch's profiler; returns the signature that `run` would find."""
        calls = VirtualCollector()
        try:
            device = self._device
            with rank_environment(self._cluster, self._rank), self._followed(function), device:
                calls.start()
                try:
                    self._call(function)
                    calls.settle()
                finally:
                    calls.stop()
                assert device.communicator is not None
                return sign_record(calls.recorders[0], device.communicator, self._peaks())
        finally:
            gc.collect()

    def _peaks(self) -> dict[str, int]:
        stats = torch.cuda.memory_stats(self._cluster.gpu_of(self._rank))
        return {name: stats.get(f"{name}.all.peak", 0) for name in ("allocated_bytes", "reserved_bytes")}

    def _followed(self, function: Callable[[], object]) -> AbstractContextManager[None]:
        return nullcontext() if self._device.values else followed_ints(function)

    def _call(self, function: Callable[[], object]) -> None:
        """Run the program. ``sys.exit()`` ends a rank as the end of its program does, and so does ``os._exit()``.

        Raises:
            VirtualDeviceError: It ended with another code than 0.
        """
        leave, process = os._exit, os.getpid()

        def end(code: int) -> NoReturn:
            if os.getpid() != process:  # one that the program has forked, such as a worker of a DataLoader
                leave(code)
            sys.exit(code)

        if not self._device.values:  # this process is that of the caller
            os._exit = end  # type: ignore[assignment]
        try:
            function()
        except SystemExit as ended:
            if ended.code:
                raise VirtualDeviceError(f"rank {self._rank} ended with exit code {ended.code!r}") from ended
        finally:
            os._exit = leave

    def build(self, name: str, run: RankRun, times: RankTimes, facts: Mapping[int, Any]) -> Trace:
        """Return the Trace of a rank that did the same, with its times and the facts of its collectives."""
        self.recorder.virtual.replace_recorder(retimed(self._record, run.program, times, facts, run.cut))
        return _with_steps_of_job(self.recorder.build(name, OK), max(len(run.works_of_steps) - 1, 0))


def _with_steps_of_job(trace: Trace, num_steps: int) -> Trace:
    """Return a rank's Trace in which a step has all that was launched since the end of the step before.

    The range of a step begins with the first call of a module. What the program launches before it, such as a copy of
    the batch, delays this step on all ranks. What follows the last step is not a step.

    Args:
        trace: The rank.
        num_steps: Number of steps with an optimizer after the first one, which the Trace does not have.
    """
    events = trace.events
    rows = step_rows(trace)
    begins_with = {number: row for row in rows.tolist() if (number := int(events["step"].iloc[row])) < num_steps}
    ts, end = events["ts"].to_numpy(), (events["ts"] + events["dur"]).to_numpy()
    launch = integers(events["launch"])
    moment = np.where(launch >= 0, ts[launch], ts)
    ends = end[[begins_with[number] for number in sorted(begins_with)]]
    numbers = np.array([*sorted(begins_with), -1], np.int64)
    step = numbers[np.searchsorted(ends, moment, side="right")]
    has_place = events["device"].isna().to_numpy() | (launch >= 0)
    renamed = {text: AFTER_STEPS for text in events["name"].array.categories if _is_step_after(text, num_steps)}
    names = events["name"].astype(str).replace(renamed).astype("category") if renamed else events["name"]
    return trace.replace(events=events.assign(step=masked(np.where(has_place, step, -1)), name=names))


def _is_step_after(name: str, num_steps: int) -> bool:
    number = name.removeprefix(STEP_PREFIX)
    return number != name and number.isdecimal() and int(number) >= num_steps


class RankRecords:
    """Runs ranks of a job without values, one after the other.

    Args:
        cluster: The GPUs of the job.
        function: The program of a rank.
        defaults: What it reads for unknown values.
        exclude_record: Called after each recording, to exclude its objects from garbage collections.

    Attributes:
        records: The recordings by rank.
    """

    def __init__(
        self,
        cluster: Cluster,
        function: Callable[[], object],
        defaults: Defaults,
        exclude_record: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._function, self._defaults = cluster, function, defaults
        self._exclude_record = exclude_record
        self._mailbox, self._mailbox_before_signing = Mailbox(), Mailbox()
        self._recipes: dict[Any, Recipe] = {}
        self._has_signed = False
        self.records: dict[int, RankRecord] = {}

    def run(self, rank: int) -> RankRun:
        """Run a rank and record it."""
        record = self.records[rank] = self._new_record(rank)
        with _named_in_errors(rank):
            found = record.run(self._function)
        self._exclude_record()
        return found

    def sign(self, rank: int) -> bytes:
        """Run a rank to compare it with others; returns its signature."""
        if not self._has_signed:
            self._mailbox_before_signing, self._has_signed = self._mailbox.copy(), True
        with _named_in_errors(rank):
            return self._new_record(rank).sign(self._function)

    def forget_signed(self) -> None:
        """Undo what ranks that ran for `sign` sent to other ranks."""
        self._mailbox, self._has_signed = self._mailbox_before_signing, False

    def _new_record(self, rank: int) -> RankRecord:
        return RankRecord(self._cluster, rank, mailbox=self._mailbox, defaults=self._defaults, recipes=self._recipes)


@contextmanager
def _named_in_errors(rank: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"In rank {rank} of the job.")
        raise


@contextmanager
def _steps_of_optimizers(recorder: Recorder) -> Iterator[list[Cut]]:
    """Record steps: each from the first call of a module to the end of the first optimizer's next step.

    The first step, in which optimizers allocate their state, is a part of the start of the program. The list that is
    returned gets the end of each step, with the first one.
    """
    from torch.autograd.profiler import record_function
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    running: list[Any] = []  # an optimizer such as ZeroRedundancyOptimizer calls another one
    ended: list[Any] = []
    first: list[Any] = []
    pending: list[Any] = []
    cuts: list[Cut] = []
    leave_range: Any = record_function.__exit__

    def begin(*args: Any) -> None:
        pending.pop().remove()
        recorder.steps.step()

    def enter(optimizer: Any, *args: Any) -> None:
        running.append(optimizer)

    def end(optimizer: Any, *args: Any) -> None:
        running.pop()
        if not running:
            ended.append(optimizer)  # torch calls this in a range of the optimizer, which belongs to the step

    def leave(entered: Any, *args: Any) -> Any:
        result = leave_range(entered, *args)
        if ended:
            close(ended.pop())
        return result

    def close(optimizer: Any) -> None:
        if not first:
            first.append(optimizer)
        if optimizer is first[0] and not pending:
            cuts.append(recorder.virtual.recorders[0].cut())
            recorder.steps.close()
            pending.append(register_module_forward_pre_hook(begin))

    handles = [register_optimizer_step_pre_hook(enter), register_optimizer_step_post_hook(end)]
    record_function.__exit__ = leave  # type: ignore[method-assign]
    try:
        yield cuts
    finally:
        record_function.__exit__ = leave_range  # type: ignore[method-assign]
        for hook in (*handles, *pending):
            hook.remove()
