"""`job`: run a torch.distributed program on many virtual GPUs, and see all of its ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.job import RankAnalysis, Reduction, reduce_rank
from cudalens.api.rank_processes import RankProcesses
from cudalens.api.rank_record import RankRecords, import_modules
from cudalens.errors import VirtualDeviceError
from cudalens.frames import Ranks, Trace
from cudalens.frames.rank_store import joined
from cudalens.frames.ranks import events_of
from cudalens.gpus.predict import COLLECTIVES, time_band
from cudalens.gpus.registry import DeviceSpec, parse_device
from cudalens.views.ranks.section import RanksSummary
from cudalens.views.ranks.simulated import SimulatedFacts, simulated_section
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.shown import Shown, write_page
from cudalens.views.sections.unknown_values import DEFAULT, UnknownValues
from cudalens.virtual import context
from cudalens.virtual.fit.runs import quick_collections
from cudalens.virtual.jobs.rank_run import RankRun, check_groups, programs_of, run_distinct_ranks, step_ns
from cudalens.virtual.jobs.retiming import facts_of_copy
from cudalens.virtual.jobs.schedule import JobPrograms, RankSpeed, RankTimes, simulate
from cudalens.virtual.jobs.topology import GPUS_PER_NODE, Cluster, Network, network_of
from cudalens.virtual.shapes.reading import Defaults

#: Most GPUs of a job.
MAX_GPUS: Final = 16_384


class Job(Ranks):
    """The ranks of a simulated job: `Ranks` with what only a simulation knows.

    All times are simulated.

    Attributes:
        cluster: The GPUs and their network.
        ran: The ranks whose program ran; the others do the same as one of them.
        note: Why these; empty if all ran.
        unknown: What the program did with values that were not computed.
        results: By rank, what the program returned, of a job with values; otherwise empty.
        memory: A row for each rank: ``rank``, ``allocated_bytes``, ``reserved_bytes`` and ``total_bytes`` at its peak
            (the total has the CUDA context), ``capacity_bytes``, ``fits``.
        losses: What slow parts cost that `slow_gpus`, `slow_links` or `jitter` ask for: a row for each with ``what``
            ("slow GPU", "slow link", "jitter"), ``where`` (the rank or the node), ``amount`` (the factor, or the
            standard deviation) and ``loss_ns``, by which the median step is longer than without it.
        parts: What `frames` is made of.
        num_steps: Number of steps after the first one; 0 of a program with one step.
        step_ns: Time of a step of the whole job: from the end of one to the end of the next, the median; of a program
            with one step, of everything that it did.
        step_low_ns: Lower end of the 80 % band of the kernels' times (`cudalens.gpus.predict`).
        step_high_ns: Upper end of that band.
    """

    cluster: Cluster
    ran: tuple[int, ...]
    note: str
    unknown: UnknownValues
    results: Mapping[int, Any]
    memory: pd.DataFrame
    losses: pd.DataFrame
    parts: JobParts
    num_steps: int
    step_ns: int
    step_low_ns: int
    step_high_ns: int

    @cached_property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """What is known of all ranks without their events; as `Ranks.frames`.

        A step lasts from the end of the GPU's work of the step before to the end of its own.
        """
        return self.parts.join()

    @cached_property
    def analysis(self) -> RankAnalysis:
        """What the ranks have to do with each other; as `Ranks.analysis`."""
        return RankAnalysis(self, self.step_ns if self.num_steps else None)

    @cached_property
    def facts(self) -> SimulatedFacts:
        """What the views of the job show besides those of `Ranks`."""
        cluster = self.cluster
        return SimulatedFacts(
            cluster.spec.name,
            cluster.network.name if cluster.num_nodes > 1 else "",
            cluster.num_nodes,
            self.step_ns,
            self.step_low_ns,
            self.step_high_ns,
            self.num_steps,
            int(self.memory["total_bytes"].max()),
            int(self.memory["capacity_bytes"].max()),
            self.fits,
            self.note,
            tuple(self.losses.sort_values("loss_ns", ascending=False).itertuples(index=False, name=None)),
            self.parts.copies,
            self.unknown,
        )

    def summary(self) -> JobSummary:
        """Return the time of a step, what of it is communication, memory, and all that ranks show."""
        return JobSummary(self)

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write one HTML file that shows the job without a network, with the heading `title`; return its path."""
        name = title or f"Simulated job {self.name}"
        return write_page(path, name, f"<h1>{escape(clean(name))}</h1>{self.summary()._repr_html_()}")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = self.summary()
        return {"text/plain": str(shown), "text/html": shown._repr_html_()}

    @property
    def read_at(self) -> list[tuple[str, str]]:
        """The program's lines that read a value that is not known, each as place and text; they got `default`."""
        return self.unknown.read_at

    @property
    def unwritten(self) -> Mapping[str, tuple[str, str]]:
        """By path, place and text of the line that would have written unknown values to a file."""
        return self.unknown.unwritten

    @property
    def fits(self) -> bool:
        """Whether each rank's memory fits on its GPU."""
        return bool(self.memory["fits"].all())


class JobSummary(RanksSummary):
    """A simulated job: prints as text, shows as pictures and tables in a notebook."""

    def __init__(self, made: Job) -> None:
        Shown.__init__(self, simulated_section(made, made.facts))


def job(
    function: Callable[[], object],
    gpus: str | DeviceSpec = "h100x8",
    nodes: int | None = None,
    *,
    values: bool = False,
    network: str | Network | None = None,
    default: float | None = DEFAULT,
    default_count: int | None = None,
    run_ranks: Literal["auto", "all"] | Iterable[int] = "auto",
    slow_gpus: Mapping[int, float] | None = None,
    slow_links: Mapping[int, float] | None = None,
    jitter: float = 0.0,
    seed: int = 0,
    name: str = "job",
) -> Job:
    """Run a torch.distributed program on many virtual GPUs, without a GPU.

    `function` is what each rank runs: an ordinary program that calls ``init_process_group("nccl")`` or
    ``init_device_mesh("cuda", ...)``, finds its rank in the environment as under torchrun, and trains. Ranks that do
    the same run once. Their clocks meet in collectives, whose times come from the topology of the cluster. A step of
    the program ends with the ``step()`` of its first optimizer; let it make three steps or more, because the first one
    is left out.

    Args:
        function: The program of a rank.
        gpus: The GPU and the number of all of them: ``"h100x64"``.
        nodes: The number of nodes; by default one for each 8 GPUs.
        values: Whether values are computed, of at most 8 ranks, on Linux. Each rank then runs in a fork of this
            process, with one thread, and gloo computes its collectives. `Job.results` has what the program returned on
            each rank: tensors as CPU tensors, of a DTensor the part of the rank. False: nothing is computed, and ranks
            that do the same run once.
        network: The links between nodes: a name in ``cudalens.virtual.jobs.topology.NETWORKS``, or a `Network`; by
            default that of the GPU's usual systems.
        default: The number that the program reads where a value is unknown, such as ``loss.item()``; the result names
            these lines. Values are taken as finite: ``torch.isfinite(loss)`` is true. None raises an error that names
            the line. Files with values (`torch.save`) are not written, and the result names them too.
        default_count: The number of results of operators whose size depends on values (``nonzero``).
        run_ranks: Which ranks run: "auto", "all", or these, of which each stands for the ranks after it up to the
            next. "auto" runs rank 0, and one rank of those that do something else: at another position in groups whose
            members do different things, with another answer where the program compares its rank, or with a smaller
            part of what FSDP2 or DTensor divides. If the program reads its rank, or parts are uneven, all run in jobs
            of up to 8 ranks; in larger ones, ranks 1 and the last one are compared with those that stand for them,
            because other uses of a rank than comparisons are not seen. `Job.note` says what was not compared.
        slow_gpus: By rank, the factor by which its kernels take longer.
        slow_links: By node, the factor by which its links to other nodes are slower.
        jitter: Standard deviation of the logarithm of each kernel's time: 0.05 for about 5 %.
        seed: Of the random numbers of `jitter`.
        name: Name of the job.

    Raises:
        VirtualDeviceError: The GPUs are unknown; a virtual device or a process group exists; the program needs a value
            or something that is not modelled; or ranks make different collectives (`CollectiveMismatchError`).
        ValueError: A number is out of range.
    """
    cluster = make_cluster(gpus, nodes, network, slow_links or {})
    speeds = _speeds(cluster, slow_gpus or {}, jitter, seed)
    check_no_device("job()")
    import_modules()
    if values:
        if default or default_count is not None:
            raise ValueError("default and default_count are for a job without values; this one has values=True.")
        return _job_with_values(name, cluster, function, speeds)
    defaults = Defaults(default, default_count, skips_files=True)
    with quick_collections() as exclude_records:
        ranks = RankRecords(cluster, function, defaults, exclude_records)
        runs, program_of, note = run_distinct_ranks(cluster, ranks, run_ranks)
    check_groups(runs)
    programs = programs_of(cluster, runs, program_of, speeds)
    times = simulate(programs, speeds)
    build = {rank: record.build for rank, record in ranks.records.items()}
    made = _assemble(programs, _JobTraces(name, programs, times, runs, build), runs, note)
    made.unknown = UnknownValues(default or DEFAULT, list(defaults.read_at), dict(defaults.unwritten))
    made.losses = _losses(programs, times, runs, speeds)
    return made


def _job_with_values(
    name: str, cluster: Cluster, function: Callable[[], object], speeds: Mapping[int, RankSpeed]
) -> Job:
    """Run all ranks in processes, and keep their traces when the processes have ended."""
    with RankProcesses(cluster, function) as processes:
        runs = processes.run()
        check_groups(runs)
        programs = programs_of(cluster, runs, {rank: rank for rank in runs}, speeds)
        build = {rank: partial(processes.build, rank) for rank in runs}
        times = simulate(programs, speeds)
        traces = _JobTraces(name, programs, times, runs, build)
        traces.keep()
        made = _assemble(programs, traces, runs, "")
        made.results, made.losses = dict(sorted(processes.results.items())), _losses(programs, times, runs, speeds)
    return made


def _losses(
    programs: JobPrograms, times: Mapping[int, RankTimes], runs: Mapping[int, RankRun], speeds: Mapping[int, RankSpeed]
) -> pd.DataFrame:
    """What each planted slow part costs: the median time of a step with it, less that of the same job without it."""
    cluster, rows = programs.cluster, []
    with_all_ns = step_ns(programs, runs, times)

    def add(what: str, where: int | None, amount: float, fewer: Cluster, others: Mapping[int, RankSpeed]) -> None:
        without = programs_of(fewer, runs, programs.program_of, others)
        loss_ns = with_all_ns - step_ns(without, runs, simulate(without, others))
        rows.append({"what": what, "where": where, "amount": amount, "loss_ns": round(loss_ns)})

    for rank, speed in speeds.items():
        if speed.slowdown != 1.0:
            add("slow GPU", rank, speed.slowdown, cluster, {**speeds, rank: replace(speed, slowdown=1.0)})
    for node, factor in cluster.slow_links.items():
        links = {other: value for other, value in cluster.slow_links.items() if other != node}
        add("slow link", node, factor, replace(cluster, slow_links=links), speeds)
    jitter = max((speed.jitter for speed in speeds.values()), default=0.0)
    if jitter:
        add("jitter", None, jitter, cluster, {rank: replace(one, jitter=0.0) for rank, one in speeds.items()})
    found = pd.DataFrame(rows, columns=["what", "where", "amount", "loss_ns"])
    return found.astype({"where": "Int64", "loss_ns": "Int64"})


def make_cluster(
    gpus: str | DeviceSpec, nodes: int | None, network: str | Network | None, slow_links: Mapping[int, float]
) -> Cluster:
    """Return the cluster of a job.

    Raises:
        VirtualDeviceError: The GPU or the network is unknown.
        ValueError: The GPUs cannot be distributed evenly over the nodes, or a factor is not above 0.
    """
    spec, num_gpus = parse_device(gpus, MAX_GPUS)
    num_nodes = nodes if nodes is not None else -(-num_gpus // GPUS_PER_NODE)
    if num_nodes < 1 or num_gpus % num_nodes:
        raise ValueError(f"{num_gpus} GPUs cannot be distributed evenly over {num_nodes} nodes; pass nodes=...")
    for node, factor in slow_links.items():
        if not 0 <= node < num_nodes or factor <= 0:
            raise ValueError(f"slow_links has {node}: {factor}; expected nodes below {num_nodes} and factors above 0.")
    return Cluster(spec, num_gpus, num_nodes, network_of(spec, network), dict(slow_links))


def check_no_device(caller: str) -> None:
    """Check that no virtual device is active.

    Raises:
        VirtualDeviceError: One is.
    """
    if context.active() is not None:
        raise VirtualDeviceError(
            f"{caller} enables its own virtual devices, and one is active. Leave its block first (in a notebook: "
            "%cudadevice off)."
        )


def _speeds(cluster: Cluster, slow_gpus: Mapping[int, float], jitter: float, seed: int) -> dict[int, RankSpeed]:
    for rank, factor in slow_gpus.items():
        if not 0 <= rank < cluster.num_gpus or factor <= 0:
            raise ValueError(
                f"slow_gpus has {rank}: {factor}; expected ranks below {cluster.num_gpus} and factors above 0."
            )
    if jitter < 0:
        raise ValueError(f"jitter is {jitter}; expected 0 or more.")
    ranks = range(cluster.num_gpus) if jitter else slow_gpus
    return {rank: RankSpeed(slow_gpus.get(rank, 1.0), jitter, seed * 1_000_003 + rank) for rank in ranks}


def _assemble(programs: JobPrograms, source: _JobTraces, runs: Mapping[int, RankRun], note: str) -> Job:
    """Make the traces of all classes of ranks, and the job of them."""
    reductions = {}
    for colour, rank in programs.representatives.items():
        trace = source.read(rank)
        reductions[colour] = _with_steps_of_device(reduce_rank(trace, rank), trace)
    infos = {
        rank: reductions[colour].info.replace(rank=rank, host=_host(programs.cluster, rank))
        for rank, colour in sorted(programs.colours.items())
    }
    made = Job.of_source(source, infos, name=source.name, frames={})
    assert isinstance(made, Job)
    made.cluster, made.ran = programs.cluster, tuple(sorted(runs))
    made.note, made.results, made.unknown = note, {}, UnknownValues()
    made.parts = JobParts(programs, reductions)
    made.memory = _memory(programs, runs)
    made.step_ns = round(step_ns(programs, runs, source.times))
    made.num_steps = max(max(len(run.works_of_steps) for run in runs.values()) - 1, 0)
    run = next(iter(runs.values()))
    kernels = [(COLLECTIVES.get(family, family), duration_ns) for family, duration_ns in run.kernels]
    band = time_band(programs.cluster.spec, kernels)
    made.step_low_ns, made.step_high_ns = round(made.step_ns * band.low), round(made.step_ns * band.high)
    return made


def _with_steps_of_device(reduction: Reduction, trace: Trace) -> Reduction:
    """Steps from the end of the GPU's work before them to the end of their own.

    A host that waits for nothing runs ahead of its GPU, and its steps are shorter than those of the job.
    """
    steps, events = reduction.frames["steps"], trace.events
    is_work = (events["stream"].notna() & events["step"].notna() & (events["cat"] != "cuda_sync")).to_numpy(bool)
    work = events.loc[is_work, ["step", "ts", "dur"]].astype("int64")
    ends = (work["ts"] + work["dur"]).groupby(work["step"]).max()
    changed = steps.copy()
    for row, step in zip(changed.index, steps["step"].tolist(), strict=True):
        if step is pd.NA or step not in ends.index:
            continue
        begin = ends[step - 1] if step - 1 in ends.index else work.loc[work["step"] == step, "ts"].min()
        changed.loc[row, ["ts", "dur"]] = begin, ends[step] - begin
    return replace(reduction, frames={**reduction.frames, "steps": changed})


def _memory(programs: JobPrograms, runs: Mapping[int, RankRun]) -> pd.DataFrame:
    spec = programs.cluster.spec
    rows = []
    for rank, of in programs.program_of.items():
        peaks = runs[of].memory
        rows.append(
            {
                "rank": rank,
                **peaks,
                "total_bytes": peaks["reserved_bytes"] + spec.context_bytes,
                "capacity_bytes": spec.total_memory_bytes,
                "fits": peaks["allocated_bytes"] + spec.context_bytes <= spec.total_memory_bytes,
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class JobParts:
    """What the frames of a job are made of.

    Attributes:
        programs: What all ranks do.
        reductions: By class of ranks, the reduction of its lowest rank.
    """

    programs: JobPrograms
    reductions: Mapping[int, Reduction]

    @property
    def copies(self) -> dict[int, list[int]]:
        """By the lowest rank of each class, the ranks of the class."""
        found: dict[int, list[int]] = {}
        first = self.programs.representatives
        for rank, colour in sorted(self.programs.colours.items()):
            found.setdefault(first[colour], []).append(rank)
        return found

    def join(self) -> dict[str, pd.DataFrame]:
        """Return the frames of `Ranks.frames`: the rows of each class once for each of its ranks."""
        copies: dict[int, list[int]] = {}
        for rank, colour in sorted(self.programs.colours.items()):
            copies.setdefault(colour, []).append(rank)
        names = next(iter(self.reductions.values())).frames
        frames = {}
        for name in names:
            parts = {colour: self._repeated(colour, ranks, name) for colour, ranks in copies.items()}
            frame = joined(parts)
            lengths = {colour: len(part) // len(copies[colour]) for colour, part in parts.items()}
            ranks = [np.repeat(np.array(copies[colour], np.int64), lengths[colour]) for colour in parts]
            frame["rank"] = pd.array(np.concatenate(ranks), "Int64")
            frames[name] = frame.sort_values("rank", kind="stable", ignore_index=True)
        return frames

    def _repeated(self, colour: int, ranks: list[int], name: str) -> pd.DataFrame:
        frame = self.reductions[colour].frames[name]
        rows = np.tile(np.arange(len(frame)), len(ranks))
        made = frame.iloc[rows].reset_index(drop=True)
        if name == "collectives" and len(frame):
            # Give each rank its own groups and peers.
            layout, of = self.programs.layout, self.programs.program_of[ranks[0]]
            program = self.programs.programs[of]
            theirs = facts_of_copy(program, layout, ranks[0], of)
            for column in ("process_group", "group_ranks", "src_rank", "dst_rank"):
                values: list[Any] = []
                for rank in ranks:
                    facts = facts_of_copy(program, layout, rank, of)
                    own = {theirs[number][column]: facts[number][column] for number in facts}
                    values += [own.get(value, value) for value in frame[column].astype(object).tolist()]
                is_text = column in ("process_group", "group_ranks")
                made[column] = pd.Categorical(values) if is_text else pd.array(values, "Int64")
            gpu, each = self.programs.cluster.gpu_of(ranks[0]), list(map(self.programs.cluster.gpu_of, ranks))
            made["device"] = made["device"].where(made["device"] != gpu, np.repeat(each, len(frame)))
        return made


def _host(cluster: Cluster, rank: int) -> str:
    return f"node{cluster.node_of(rank)}"


def _on_gpu(frame: pd.DataFrame, gpu: int, wanted: int) -> pd.DataFrame:
    """Return a frame in which the rows of one GPU are those of another one."""
    if gpu == wanted:
        return frame
    return frame.assign(device=frame["device"].mask(frame["device"].eq(gpu).fillna(False), wanted))


class _JobTraces:
    """The traces of a job, each made when it is used.

    Args:
        name: The name of the job.
        programs: What all ranks do.
        times: By class of ranks.
        runs: The runs by rank.
        build: By rank that ran, what makes a Trace of its record.
    """

    def __init__(
        self,
        name: str,
        programs: JobPrograms,
        times: Mapping[int, RankTimes],
        runs: Mapping[int, RankRun],
        build: Mapping[int, Callable[[str, RankRun, RankTimes, Mapping[int, Any]], Trace]],
    ) -> None:
        self.name, self.times = name, times
        self._programs, self._runs, self._build = programs, runs, build
        self._kept: dict[int, Trace] = {}

    def keep(self) -> None:
        """Make all traces now."""
        self._kept = {rank: self.read(rank) for rank in self._programs.program_of}

    def read(self, rank: int) -> Trace:
        """Return the Trace of a rank."""
        if rank in self._kept:
            return self._kept[rank]
        programs = self._programs
        of = programs.program_of[rank]
        program = programs.programs[of]
        facts = facts_of_copy(program, programs.layout, rank, of)
        times = self.times[programs.colours[rank]]
        trace = self._build[of](f"{self.name}, rank {rank}", self._runs[of], times, facts)
        info = trace.info.replace(rank=rank, world_size=programs.cluster.num_gpus, host=_host(programs.cluster, rank))
        gpus = programs.cluster.gpu_of(of), programs.cluster.gpu_of(rank)
        frames = {name: _on_gpu(getattr(trace, name), *gpus) for name in ("events", "memory")}
        return trace.replace(info=info, **frames)

    def read_events(self, rank: int, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
        """Events of a rank: these columns (None for all) of the rows of one step (None for all)."""
        return events_of(self.read(rank), columns, step)
