"""Make the traces of a distributed job with a known truth: a small simulation of ranks, groups, links and clocks.

A job has ``stages`` times ``data`` ranks. In each step a stage runs its micro-batches in the order of 1F1B, receives
and sends activations, reduces its gradients in buckets beside the backward pass, runs the optimizer, and meets all
ranks in one all-reduce. The same random durations are drawn with and without a planted fault, so that the difference
of two simulations is what the fault costs.
"""

import gzip
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

EPOCH_NS = 1_790_000_000_000_000_000
#: Times in the files are positive whatever the offset of a clock.
_START_NS = 60_000_000_000
#: Operators of a layer: name, mean duration in ns, line, shapes.
FORWARD = (
    ("aten::layer_norm", 60_000, "model.py(31): norm", [[512, 1024]]),
    ("aten::mm", 400_000, "train.py(88): project", [[512, 1024], [1024, 4096]]),
    ("aten::gelu", 80_000, "model.py(40): act", [[512, 4096]]),
    ("aten::addmm", 300_000, "model.py(44): out", [[1024], [512, 4096], [4096, 1024]]),
)
BACKWARD = (
    ("aten::gelu_backward", 120_000, "train.py(91): backward", [[512, 4096]]),
    ("aten::mm", 800_000, "train.py(91): backward", [[4096, 512], [512, 1024]]),
    ("aten::native_layer_norm_backward", 100_000, "train.py(91): backward", [[512, 1024]]),
)
OPTIMIZER = (("aten::_foreach_add_", 350_000, "train.py(95): step", [[4096, 1024]]),)
_COMPUTE, _REDUCE, _NEXT, _PREV, _RECV_PREV, _RECV_NEXT = 7, 20, 24, 25, 26, 27
_KERNELS = {"allreduce": "AllReduce_Sum_bf16_RING_LL", "send": "SendRecv", "recv": "SendRecv"}


@dataclass(frozen=True)
class Plant:
    """A fault: `kind` is rank, stage, operator, link, jitter, host or data."""

    kind: str
    where: int = 0
    op: str | None = None
    factor: float = 1.3


@dataclass(frozen=True)
class Job:
    """What to simulate; times in ns."""

    data: int = 4
    stages: int = 1
    steps: int = 6
    micro: int = 2
    layers: int = 2
    chunks: int = 1  # pieces of the model on each rank; more than one is interleaved 1F1B
    noise: float = 0.02
    seed: int = 0
    plants: tuple[Plant, ...] = ()
    form: str = "today"  # today, no_seq, cpu_names, bare, gloo (operators and communication on the host)
    offset_ns: float = 0  # largest offset of a clock
    drift_ppm: float = 0
    end_noise_ns: float = 3_000
    host_ns: float = 8_000
    bytes_per_ns: float = 25.0
    shared: float = (
        0.0  # part of its speed that compute loses while a communication kernel waits or transfers; one stage
    )

    @property
    def ranks(self):
        return self.data * self.stages

    def group(self, rank):
        """The data-parallel group of a rank."""
        first = rank // self.data * self.data
        return list(range(first, first + self.data))

    def clean(self):
        return replace(self, plants=())


@dataclass(eq=False)
class _Comm:
    name: str
    group: str
    ranks: list
    seq: int
    num_bytes: int
    transfer: float
    src: int | None = None
    dst: int | None = None
    arrived: dict = field(default_factory=dict)
    late: dict = field(default_factory=dict)

    @property
    def is_complete(self):
        return len(self.arrived) == len(self.ranks)

    def end(self, rank):
        return max(self.arrived.values()) + self.transfer + self.late[rank]


@dataclass(eq=False)
class _Rank:
    number: int
    rng: np.random.Generator
    host: float = 0.0
    compute: float = 0.0
    last: dict = field(default_factory=dict)
    seqs: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)
    comms: list = field(default_factory=list)
    step: int = 0
    factors: dict = field(default_factory=dict)


@dataclass(eq=False)
class Result:
    """A simulated job: the true times of its steps, its clocks, and the rows of each rank."""

    job: Job
    step_ends: np.ndarray
    offsets: np.ndarray
    drifts: np.ndarray
    ranks: list
    comms: dict

    @property
    def step_ns(self):
        """Mean time of a step after the first."""
        return float(np.diff(self.step_ends).mean())

    def clock(self, rank, at):
        """Recorded time of true time `at` on the clock of a rank."""
        return at + self.offsets[rank] + self.drifts[rank] * at

    def write(self, folder, *, compressed=False):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.job.ranks):
            text = self.text(rank).encode()
            path = folder / f"rank-{rank}.json{'.gz' if compressed else ''}"
            path.write_bytes(gzip.compress(text, 1) if compressed else text)
        return folder

    def text(self, rank):
        """The trace of one rank as Kineto writes it."""
        return _Writer(self, rank).text()


def simulate(job):
    """Run `job` and return its `Result`."""
    comms = {}
    ranks = [_Rank(r, np.random.default_rng([job.seed, r])) for r in range(job.ranks)]
    ends = np.zeros((job.ranks, job.steps + 1))
    programs = {state.number: _program(job, state, comms, ends) for state in ranks}
    waiting = dict.fromkeys(programs)
    while programs:
        moved = False
        for number in list(programs):
            comm = waiting[number]
            if comm is not None and not comm.is_complete:
                continue
            moved = True
            try:
                waiting[number] = next(programs[number])
            except StopIteration:
                del programs[number]
        assert moved, "the simulated job is in a deadlock"
    rng = np.random.default_rng([job.seed, 10_000])
    offsets = rng.uniform(-job.offset_ns, job.offset_ns, job.ranks)
    drifts = rng.uniform(-job.drift_ppm, job.drift_ppm, job.ranks) * 1e-6
    return Result(job, ends.max(axis=0), offsets, drifts, ranks, comms)


def _program(job, rank, comms, ends):
    """One rank: yields the communication that it must wait for."""
    stage = rank.number // job.data
    order = _order(job, stage)
    for step in range(job.steps):
        rank.step = step
        _draw_faults(job, rank)
        begin = rank.host
        num_backward = dict.fromkeys(range(job.chunks), 0)
        for kind, chunk in order:
            num_backward[chunk] += kind == "b"
            at = chunk * job.stages + stage
            yield from _microbatch(job, rank, comms, at, kind, kind == "b" and num_backward[chunk] == job.micro)
        for comm in rank.comms:
            yield comm
            rank.compute = max(rank.compute, comm.end(rank.number))
        rank.comms = []
        for op in OPTIMIZER:
            yield from _run(job, rank, op)
        norm = yield from _post(job, rank, comms, "allreduce", "0", list(range(job.ranks)), 4, _REDUCE)
        yield norm
        rank.compute = max(rank.compute, norm.end(rank.number))
        rank.host = max(rank.host, rank.compute) + 5_000
        ends[rank.number, step + 1] = rank.host
        rank.rows.append(("step", step, begin, rank.host - begin))


def _order(job, stage):
    """Forward and backward passes of a rank with their chunks: 1F1B, interleaved if it has several chunks."""
    total, turns = job.micro * job.chunks, job.stages * job.chunks
    warm = job.stages - stage - 1 if job.chunks == 1 else 2 * (job.stages - stage - 1) + (job.chunks - 1) * job.stages
    warm = min(warm, total)
    forward = [("f", k % turns // job.stages) for k in range(total)]
    backward = [("b", job.chunks - 1 - k % turns // job.stages) for k in range(total)]
    paired = [one for pair in zip(forward[warm:], backward[: total - warm], strict=True) for one in pair]
    return forward[:warm] + paired + backward[total - warm :]


def _draw_faults(job, rank):
    """The factors of this step; the same random numbers are drawn whatever is planted."""
    is_hit = rank.rng.random() < 0.3
    rank.factors = {}
    for plant in job.plants:
        hits = {
            "rank": rank.number == plant.where,
            "data": rank.number == plant.where,
            "jitter": rank.number == plant.where and is_hit,
            "stage": rank.number // job.data == plant.where,
            "operator": True,
        }
        if hits.get(plant.kind):
            rank.factors[plant.op] = plant.factor


def _microbatch(job, rank, comms, stage, kind, is_last):
    forward = kind == "f"
    source = stage - 1 if forward else stage + 1
    target = stage + 1 if forward else stage - 1
    if 0 <= source < job.stages * job.chunks:
        received = yield from _p2p(job, rank, comms, source, stage, kind, _RECV_PREV if forward else _RECV_NEXT)
        yield received
        rank.compute = max(rank.compute, received.end(rank.number))
    for _ in range(job.layers):
        for op in FORWARD if forward else BACKWARD:
            yield from _run(job, rank, op)
        if not forward and is_last:
            ranks = job.group(rank.number)
            group = f"dp{stage % job.stages}"
            bucket = yield from _post(job, rank, comms, "allreduce", group, ranks, 16 << 20, _REDUCE)
            rank.comms.append(bucket)
    if 0 <= target < job.stages * job.chunks:
        yield from _p2p(job, rank, comms, stage, target, kind, _NEXT if forward else _PREV)


def _p2p(job, rank, comms, source, target, kind, stream):
    lane = rank.number % job.data
    src, dst = (stage % job.stages * job.data + lane for stage in (source, target))
    name = "send" if rank.number == src else "recv"
    group = f"pp{lane}" if job.chunks == 1 else f"pp{lane}{kind}"
    return (yield from _post(job, rank, comms, name, group, [src, dst], 4 << 20, stream, src, dst))


def _run(job, rank, op):
    name, mean, _, _ = op
    factor = rank.factors.get(name, rank.factors.get(None, 1.0))
    dur = mean * np.exp(job.noise * rank.rng.standard_normal()) * factor
    launched = _launch(job, rank)
    begin = max(rank.compute, launched + 2_000)
    if job.shared and (comm := rank.last.get(_REDUCE)):
        yield comm  # its end is known once all ranks have arrived, which does not depend on this operator
        beside = max(comm.end(rank.number) - begin, 0)
        dur += min(beside, dur / (1 - job.shared)) * job.shared
    rank.compute = begin + dur
    rank.rows.append(("op", op, launched, begin, dur, factor))


def _launch(job, rank):
    """Time at which the host's next launch call ends."""
    slow = [p.factor for p in job.plants if p.kind == "host" and p.where == rank.number]
    rank.host += job.host_ns * (slow[0] if slow else 1)
    return rank.host - 1_000


def _post(job, rank, comms, name, group, ranks, num_bytes, stream, src=None, dst=None):
    """Enqueue a communication after the compute stream; waits for the one before it on its stream."""
    is_p2p = src is not None
    counter = (group, "p2p", src, dst) if is_p2p else group
    seq = rank.seqs[counter] = rank.seqs.get(counter, 0) + 1
    slow = [p.factor for p in job.plants if p.kind == "link" and p.where in ranks and len(ranks) < job.ranks]
    transfer = (15_000 + num_bytes / job.bytes_per_ns) * (slow[0] if slow else 1)
    key = (counter, seq)
    comm = comms.setdefault(key, _Comm(name, group, ranks, seq, num_bytes, transfer, src, dst))
    launched = _launch(job, rank)
    before = rank.last.get(stream)
    if before is not None:
        yield before
    free = before.end(rank.number) if before else 0
    comm.late[rank.number] = rank.rng.random() * job.end_noise_ns
    comm.arrived[rank.number] = max(rank.compute, launched + 2_000, free)
    rank.last[stream] = comm
    rank.rows.append(("comm", comm, name, launched, stream))
    return comm


class _Writer:
    """Writes the rows of one rank as Chrome trace JSON."""

    def __init__(self, result, rank):
        self.result, self.rank, self.job = result, rank, result.job
        self.id = 0

    def text(self):
        events = [event for row in self.result.ranks[self.rank].rows for event in getattr(self, f"_{row[0]}")(*row[1:])]
        config = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": list(range(self.job.ranks))}]
        backend = "gloo" if self.job.form == "gloo" else "nccl"
        around = {"backend": backend, "rank": self.rank, "world_size": self.job.ranks}
        if self.job.form != "bare":
            around["pg_config"] = config
        devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}] if backend == "nccl" else []
        head = {"schemaVersion": 1, "distributedInfo": around, "deviceProperties": devices}
        head |= {"baseTimeNanoseconds": EPOCH_NS - _START_NS, "record_shapes": 1, "with_stack": 1}
        return f'{json.dumps(head)[:-1]}, "traceEvents": [\n' + ",\n".join(events) + "\n]}"

    def _event(self, cat, name, pid, tid, at, dur, args):
        begin = round(self.result.clock(self.rank, at)) + _START_NS
        length = max(round(self.result.clock(self.rank, at + dur)) + _START_NS - begin, 1)
        return (
            f'{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, '
            f'"ts": {begin // 1000}.{begin % 1000:03d}, "dur": {length / 1000:.3f}, "args": {{{args}}}}}'
        )

    def _step(self, number, begin, dur):
        yield self._event("user_annotation", f"ProfilerStep#{number}", 9, 9, begin, dur, "")

    def _launched(self, name, launched, args, kernel, at, dur, stream, kernel_args=""):
        self.id += 1
        host = self.job.host_ns * 0.7
        yield self._event("cpu_op", name, 9, 9, launched - host + 1_500, host, f'"External id": {self.id}{args}')
        yield self._event(
            "cuda_runtime", "cudaLaunchKernel", 9, 9, launched - 1_000, 1_000, f'"correlation": {self.id}'
        )
        own = f'"device": 0, "stream": {stream}, "correlation": {self.id}, "External id": {self.id}{kernel_args}'
        yield self._event("kernel", kernel, 0, stream, at, dur, own)

    def _op(self, op, launched, at, dur, factor):
        name, _, line, shapes = op
        if factor != 1 and any(p.kind == "data" and p.where == self.rank for p in self.job.plants):
            shapes = [[round(shapes[0][0] * factor), *shapes[0][1:]], *shapes[1:]]
        args = f', "Input Dims": {json.dumps(shapes)}, "Call stack": "{line};train.py(120): main"'
        if self.job.form == "gloo":
            yield self._event("cpu_op", name, 9, 9, at, dur, args[2:])
            return
        yield from self._launched(name, launched, args, f"{name[6:]}_kernel", at, dur, _COMPUTE)

    def _comm(self, comm, name, launched, stream):
        start = comm.arrived[self.rank]
        if self.job.form == "gloo":
            dims = f'"Input Dims": [[{comm.num_bytes // 2}]]'
            yield self._event("cpu_op", "c10d::allreduce_", 9, 9, start - 100, 100, dims)
            yield self._event("user_annotation", "gloo:all_reduce", 9, stream, start, comm.end(self.rank) - start, dims)
            return
        facts = {
            "Collective name": name,
            "In msg nelems": comm.num_bytes // 2,
            "Out msg nelems": comm.num_bytes // 2,
            "dtype": "BFloat16",
            "Process Group Name": comm.group,
            "Group size": self.job.stages if comm.src is not None else len(comm.ranks),
            "Process Group Ranks": json.dumps(self._group_ranks(comm)),
            "Seq": comm.seq,
        }
        if comm.src is not None:
            facts |= {"Src Rank": comm.src, "Dst Rank": comm.dst}
        if self.job.form == "no_seq":
            del facts["Seq"]
        args = "" if self.job.form == "bare" else ", " + json.dumps(facts)[1:-1]
        kernel = f"ncclDevKernel_{_KERNELS[name]}(ncclDevKernelArgsStorage<4096ul>)"
        if self.job.form == "bare":
            kernel = "ncclKernel_AllReduce_RING_LL_Sum_float()" if name == "allreduce" else "ncclKernel_SendRecv()"
        on_kernel = args if self.job.form in ("today", "no_seq") else ""
        dur = comm.end(self.rank) - start
        yield from self._launched("record_param_comms", launched, args, kernel, start, dur, stream, on_kernel)

    def _group_ranks(self, comm):
        if comm.src is None:
            return comm.ranks
        lane = comm.src % self.job.data
        return [stage * self.job.data + lane for stage in range(self.job.stages)]
