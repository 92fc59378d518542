"""Choose the ranks of a job that must run, and compute the times of all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.jobs.communicator import Collective
from cudalens.virtual.jobs.exchanges import MissingObjectError
from cudalens.virtual.jobs.layout import Layout, Members, refine, unlike_roles
from cudalens.virtual.jobs.mismatch import GroupCall, check_joined, check_local_names, describe_deadlock, describe_last
from cudalens.virtual.jobs.schedule import BESIDE, Ints, JobPrograms, RankProgram, RankSpeed, RankTimes, read_program

if TYPE_CHECKING:
    from cudalens.virtual.jobs.communicator import Communicator
    from cudalens.virtual.jobs.rank_numbers import RankReads
    from cudalens.virtual.jobs.topology import Cluster
    from cudalens.virtual.profile.recorder import Cut, Recorder

#: Ranks of a program that reads its rank all run, up to this number of ranks; of more, a few are compared.
_ALL_UP_TO: Final = 8
#: At most so many ranks run.
_MOST_RUNS: Final = 256
#: So many ranks run that then turn out to do the same as another one, before the others are copied.
_MOST_EQUAL: Final = 16
#: At most so many lines of a program are in a note.
_SHOWN_LINES: Final = 3

_TOO_MANY: Final = (
    "the program does different things on ranks that are alike by their process groups, and has {num_ranks} ranks, of "
    "which at most {most} run. Pass run_ranks, the ranks to run: each stands for those after it up to the next."
)


@dataclass
class RankRun:
    """The run of one rank.

    Attributes:
        rank: The rank.
        program: What it did.
        kernels: The family and the duration of each of its kernels.
        every_group: The process groups of the job.
        joined: The calls that make a process group and wait for all ranks of the job.
        reads: What it read that differs between ranks, and for which of them it would do the same.
        cut: The end of the first step; None if there was no other.
        works_of_steps: The number of works up to the end of each step, with the first one; empty if there was no other.
        memory: Peaks of the memory of the rank's GPU, as `torch.cuda.memory_stats` names them, without ``.all.peak``.
        signature: A hash of what it did: ranks with equal hashes do the same.
    """

    rank: int
    program: RankProgram
    kernels: list[tuple[str, int]]
    every_group: tuple[Members, ...]
    joined: tuple[GroupCall, ...]
    reads: RankReads
    cut: Cut | None
    works_of_steps: tuple[int, ...]
    memory: Mapping[str, int]
    signature: bytes

    @classmethod
    def of_record(
        cls,
        rank: int,
        recorder: Recorder,
        communicator: Communicator,
        joined: Iterable[GroupCall],
        cuts: Sequence[Cut],
        memory: Mapping[str, int],
        reads: RankReads,
    ) -> RankRun:
        """Return the run that a record and the collectives of a rank describe."""
        program = read_program(recorder, communicator.log, communicator.started_at)
        return cls(
            rank,
            program,
            [(work.family, work.duration_ns) for _, work, _ in recorder.works if work.kind == "kernel"],
            tuple(communicator.every_group),
            tuple(joined),
            reads,
            cuts[0] if cuts else None,
            tuple(cut.num_works for cut in cuts),
            memory,
            _hash(recorder, program, communicator.log.values(), memory),
        )


class RankRunner(Protocol):
    """Runs ranks of a job, one after the other."""

    def run(self, rank: int) -> RankRun:
        """Run a rank."""

    def sign(self, rank: int) -> bytes:
        """Run a rank to compare it, without recording its events; returns its `RankRun.signature`."""

    def forget_signed(self) -> None:
        """Undo what ranks that ran for `sign` sent to other ranks: they will run again."""


def sign_record(recorder: Recorder, communicator: Communicator, memory: Mapping[str, int]) -> bytes:
    """Return the `RankRun.signature` of the rank that a record and its collectives describe."""
    program = read_program(recorder, communicator.log, communicator.started_at)
    return _hash(recorder, program, communicator.log.values(), memory)


def _hash(
    recorder: Recorder, program: RankProgram, collectives: Iterable[Collective], memory: Mapping[str, int]
) -> bytes:
    found = hashlib.sha256()
    for step in program.steps:
        if step is BESIDE:  # their number depends on the real times of threads
            continue
        found.update(f"{step.kind} {step.gap_ns} {step.cost_ns} {step.stream};".encode())
    for _, work, _ in recorder.works:
        found.update(f"{work.name} {work.duration_ns} {work.num_bytes};".encode())
    for one in collectives:
        at = None if one.peer is None else one.ranks.index(one.peer)
        what = one.kind, one.role, one.num_bytes, one.dtype, one.reduction, at, one.in_splits, one.out_splits
        found.update(f"{what} {one.line};".encode())
    found.update(str(sorted(memory.items())).encode())
    return found.digest()


def run_distinct_ranks(
    cluster: Cluster, runner: RankRunner, which: Literal["auto", "all"] | Iterable[int] = "auto"
) -> tuple[dict[int, RankRun], dict[int, int], str]:
    """Run the ranks that may do different things.

    Args:
        cluster: The GPUs.
        runner: Runs the ranks.
        which: "all" ranks; these ranks, of which each stands for those after it; or "auto": rank 0, and the first rank
            of those that do something else: at another position in groups whose members do different things, with
            another answer to a comparison of its rank, or with a smaller part of what is divided. If the program reads
            its rank, or parts are uneven, all ranks run in jobs of up to 8; in larger ones, a program that reads its
            rank also runs on ranks 1 and the last one, which are compared with those that stand for them.

    Returns:
        The runs by rank; for each rank, the rank that ran and does the same; and a sentence about the choice.
    """
    num_ranks, run = cluster.num_gpus, runner.run
    if which == "all":
        return {rank: run(rank) for rank in range(num_ranks)}, {rank: rank for rank in range(num_ranks)}, ""
    if which != "auto":
        return _run_given(num_ranks, run, which)
    runs = {0: run(0)}
    reads = runs[0].reads
    if (reads.reads_rank or reads.has_uneven_parts) and num_ranks <= _ALL_UP_TO:
        return _run_all(num_ranks, run, runs)
    classes = Layout(num_ranks, runs[0].every_group).classes(unlike_roles(runs[0].program.collectives.values()))
    program_of: dict[int, int] = {}
    num_left = 0
    while waiting := [rank for rank in range(num_ranks) if rank not in program_of]:
        first = waiting[0]
        known = {classes[rank]: rank for rank in sorted(runs, reverse=True)}
        if len(runs) - len({(classes[rank], run.signature) for rank, run in runs.items()}) >= _MOST_EQUAL:
            left = {rank: known[classes[rank]] for rank in waiting if classes[rank] in known}
            program_of |= left
            num_left += len(left)
            if first in left:
                continue
        if len(runs) >= _MOST_RUNS:
            raise VirtualDeviceError(_TOO_MANY.format(num_ranks=num_ranks, most=_MOST_RUNS))
        found = runs[first] = runs.get(first) or run(first)
        program_of |= {rank: first for rank in waiting if found.reads.alike[rank] and classes[rank] == classes[first]}
    compared = []
    for rank in (1, num_ranks - 1) if reads.reads_rank else ():
        if rank not in runs:
            try:
                signature = runner.sign(rank)
            except MissingObjectError:  # that of a rank which does not run
                continue
            if signature != runs[program_of[rank]].signature:
                runner.forget_signed()
                return _run_all(num_ranks, run, runs)
        compared.append(str(rank))
    return runs, _merge_equal(runs, program_of, classes), _note(runs, num_ranks, compared, num_left)


def _note(runs: Mapping[int, RankRun], num_ranks: int, compared: list[str], num_left: int) -> str:
    """Return a sentence about the ranks that ran and those that were compared; empty if all ran."""
    if len(runs) == num_ranks:
        return ""
    note = _copied(len(runs), num_ranks)
    lines = ", ".join(list(runs[0].reads.read_at)[:_SHOWN_LINES])
    if runs[0].reads.reads_rank:
        where = f"only on ranks {' and '.join(compared)}" if compared else "on none"
        note += f"; uses of the rank other than comparisons were compared {where} (it is read at {lines})"
    elif lines:
        note += f"; uses of the GPU's number, read at {lines}, other than comparisons and the choice of the GPU "
        note += "were not compared"
    if num_left:
        note += f"; {num_left} ranks with other answers to comparisons did not run, because those that ran did the same"
    unfollowed = list(dict.fromkeys(line for run in runs.values() for line in run.reads.unfollowed))
    if unfollowed:
        note += f"; what depends on the rank after {', '.join(unfollowed[:_SHOWN_LINES])} is not known"
    return note


def check_groups(runs: Mapping[int, RankRun]) -> None:
    """Check that all ranks make the same process groups in the same order.

    Raises:
        CollectiveMismatchError: Some do not: on GPUs, the others wait for them forever.
    """
    last = {rank: describe_last(run.program.collectives.values(), run.program.started_at) for rank, run in runs.items()}
    joining = {rank: f"init_process_group at {run.program.started_at}" for rank, run in runs.items() if run.every_group}
    if joining and len(joining) < len(runs):
        raise describe_deadlock(dict.fromkeys(runs.keys() - joining.keys()), last, joining)
    first, *others = sorted(runs)
    for rank in others:
        of_all = ([one for one in runs[each].joined if not one.name] for each in (first, rank))
        check_joined(first, next(of_all), rank, next(of_all))
    has_local = any(call.name for run in runs.values() for call in run.joined)
    for one, other in combinations(sorted(runs), 2) if has_local else ():
        check_local_names(one, runs[one].joined, other, runs[other].joined, have_ended=True)


def _copied(num_runs: int, num_ranks: int) -> str:
    return f"{num_runs} of {num_ranks} ranks ran; the others do the same in groups where all members do the same"


def _run_given(
    num_ranks: int, run: Callable[[int], RankRun], which: Iterable[int]
) -> tuple[dict[int, RankRun], dict[int, int], str]:
    ranks = sorted(set(which))
    if not ranks or ranks[0] != 0 or ranks[-1] >= num_ranks:
        raise ValueError(f"run_ranks is {ranks}; expected ranks below {num_ranks}, with 0 among them.")
    runs = {rank: run(rank) for rank in ranks}
    program_of = {rank: max(one for one in ranks if one <= rank) for rank in range(num_ranks)}
    return runs, program_of, _copied(len(runs), num_ranks)


def _run_all(
    num_ranks: int, run: Callable[[int], RankRun], runs: dict[int, RankRun]
) -> tuple[dict[int, RankRun], dict[int, int], str]:
    if num_ranks > _MOST_RUNS:
        raise VirtualDeviceError(_TOO_MANY.format(num_ranks=num_ranks, most=_MOST_RUNS))
    for rank in range(num_ranks):
        if rank not in runs:
            runs[rank] = run(rank)
    roles = unlike_roles(one for run in runs.values() for one in run.program.collectives.values())
    classes = Layout(num_ranks, runs[0].every_group).classes(roles)
    return runs, _merge_equal(runs, {rank: rank for rank in range(num_ranks)}, classes), ""


def _merge_equal(
    runs: Mapping[int, RankRun], program_of: Mapping[int, int], classes: Mapping[int, Hashable]
) -> dict[int, int]:
    """Return for each rank the lowest one of its class that ran with the same signature."""
    first: dict[Hashable, int] = {}
    return {
        rank: first.setdefault((classes[rank], runs[program_of[rank]].signature), program_of[rank])
        for rank in sorted(program_of)
    }


def programs_of(
    cluster: Cluster, runs: Mapping[int, RankRun], program_of: Mapping[int, int], speeds: Mapping[int, RankSpeed]
) -> JobPrograms:
    """Return what all ranks do, with the classes of ranks whose times are equal.

    Args:
        cluster: The GPUs.
        runs: The runs by rank.
        program_of: For each rank, the rank that ran and does the same.
        speeds: The speed of ranks that differ from the others.
    """
    used = sorted(set(program_of.values()))
    groups = dict.fromkeys(members for rank in used for members in runs[rank].every_group)
    layout = Layout(cluster.num_gpus, runs[0].every_group if len(used) == 1 else _merged(runs, used, groups))
    programs = {rank: runs[rank].program for rank in used}
    apart = {
        rank: (program_of[rank], cluster.slow_links.get(cluster.node_of(rank)), _speed_key(rank, speeds))
        for rank in range(cluster.num_gpus)
    }
    colours = refine(layout, {rank: (key, _spread(layout, cluster, rank)) for rank, key in apart.items()})
    return JobPrograms(cluster, layout, programs, program_of, colours)


def step_ns(job: JobPrograms, runs: Mapping[int, RankRun], times: Mapping[int, RankTimes]) -> float:
    """Return the median time of a step after the first one, ns; of a program with one step, the time of everything.

    A step lasts from the end of the work of the step before on all ranks, or from the first work of its own if that is
    later, to the end of its own. What the program does after the last step of its optimizer, such as an evaluation, is
    not a step. Ranks without an optimizer have no say where others have one.
    """
    steps_of = {colour: runs[job.program_of[rank]].works_of_steps for colour, rank in job.representatives.items()}
    has_steps = any(steps_of.values())
    begins: list[int] = []
    ends: list[Ints] = []  # of each class of ranks, those of its steps
    for colour, steps in steps_of.items():
        found = times[colour]
        first, *others = steps or (0, len(found.ends_ns))
        if first < len(found.ends_ns) and bool(steps) == has_steps:
            ended = np.append(0, np.maximum.accumulate(found.ends_ns))
            begins.append(int(found.starts_ns[first:].min()))
            ends.append(ended[[first, *others]])
    if not ends:
        return 0.0
    num_ends = min(map(len, ends))
    last = np.max([one[:num_ends] for one in ends], axis=0)
    last[0] = max(last[0], min(begins))
    return float(np.median(np.diff(last)))


def _merged(runs: Mapping[int, RankRun], used: list[int], groups: Mapping[Members, None]) -> list[Members]:
    """The groups of the job in the order of each rank: those of rank 0, with the ones that only others made."""
    first = runs[used[0]].every_group
    known = set(first)
    return [*first, *(members for members in groups if members not in known)]


def _spread(layout: Layout, cluster: Cluster, rank: int) -> tuple[tuple[int, ...], ...]:
    """How the groups of a rank are spread over nodes: their times depend on it."""
    return tuple(cluster.spread(members) for members in layout.groups[rank])


def _speed_key(rank: int, speeds: Mapping[int, RankSpeed]) -> Hashable:
    speed = speeds.get(rank)
    if speed is None:
        return None
    return rank if speed.jitter else speed.slowdown
