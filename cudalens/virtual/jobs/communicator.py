"""Launch the collectives of one rank: their streams, their times without waits for other ranks, and a record."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.device.stacks import file_label
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.jobs import gloo_calls
from cudalens.virtual.jobs.nccl_rules import check_own_output, check_sizes, check_splits, check_tensors
from cudalens.virtual.jobs.operators import OPERATORS, PAIRS, REDUCING
from cudalens.virtual.shapes.storage import forget, tensors_among
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.jobs.topology import Cluster
    from cudalens.virtual.timing.machine import Device

#: NCCL's kernel of each collective, and torch's name of it in traces.
_KERNELS: Final = {
    "all_gather": ("ncclDevKernel_AllGather_RING_LL", "_allgather_base"),
    "all_reduce": ("ncclDevKernel_AllReduce_Sum_{dtype}_RING_LL", "allreduce"),
    "all_to_all": ("ncclDevKernel_SendRecv", "all_to_all"),
    "broadcast": ("ncclDevKernel_Broadcast_RING_LL", "broadcast"),
    "gather": ("ncclDevKernel_SendRecv", "gather"),
    "recv": ("ncclDevKernel_SendRecv", "recv"),
    "reduce": ("ncclDevKernel_Reduce_Sum_{dtype}_RING_LL", "reduce"),
    "reduce_scatter": ("ncclDevKernel_ReduceScatter_Sum_{dtype}_RING_LL", "_reduce_scatter_base"),
    "scatter": ("ncclDevKernel_SendRecv", "scatter"),
    "send": ("ncclDevKernel_SendRecv", "send"),
}

#: Backends without tensors of the host.
_DEVICE_ONLY: Final = ("nccl", "cuda:nccl")

_ROOT: Final = "{kind} at {line} has the root {root}, and its group has {size} ranks, counted from 0."
_ANY_SOURCE: Final = (
    "recv without a source (at {line}) takes whatever comes first, which NCCL does not support. Name the source: "
    "torch.distributed.recv(tensor, src=rank)."
)

#: torch's names of dtypes in traces of collectives.
_DTYPES: Final = {
    torch.bfloat16: "BFloat16",
    torch.float16: "Half",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
}

#: Attribute of a storage: the event after the functional collective that makes it.
_END_KEY: Final = "_cudalens_collective_end"

#: The name of the mean among reductions.
AVERAGE: Final = "avg"

#: Part of the device that a collective's kernel uses: NCCL runs on up to 24 of the 132 SMs of an H100.
_ROOM: Final = 24 / 132


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective that a rank launched.

    Attributes:
        kind: A name in torch.distributed; "send" and "recv" between two ranks.
        role: The number of its process group among those of the rank.
        ranks: The ranks of the group.
        seq: Its number in the group, from 1; of a send or a receive, its number between the two ranks.
        num_bytes: The message as nccl-tests defines it.
        in_elements: Elements that the rank gives.
        out_elements: Elements that the rank gets.
        dtype: torch's name of the dtype.
        peer: The other rank of a send or a receive, or the root.
        in_splits: Parts of the first dimension for each rank, of an all_to_all with splits.
        out_splits: Parts of the first dimension from each rank.
        reduction: How elements are combined; "" without a reduction.
        line: The line of the program, as ``file.py:12``.
        torch_name: torch's name in traces.
        twin: The number of earlier process groups of the rank with the same ranks.
    """

    kind: str
    role: int
    ranks: tuple[int, ...]
    seq: int
    num_bytes: int
    in_elements: int
    out_elements: int
    dtype: str
    peer: int | None
    in_splits: tuple[int, ...]
    out_splits: tuple[int, ...]
    reduction: str
    line: str
    torch_name: str
    twin: int = 0


class Communicator:
    """Launches the collectives of one rank.

    Args:
        gpus: The virtual GPUs of the rank's node.
        cluster: The GPUs of the job.
        rank: The rank.
        report: Called with "starts" and each collective, "waits" and "resumes", of a rank with values; else None.

    Attributes:
        averages_itself: Whether values are computed: gloo, which computes them, has no mean.
        log: The collectives in order, by the correlation id of their launch.
        groups: The ranks of each process group of this rank, in order of creation.
        every_group: The ranks of each process group of the job that the program made, also those without this rank.
        names: The number of each process group of this rank, by its name.
        backends: The backend that the program gives to each process group of this rank, by its name.
        started_at: The line at which the program made its first process group; "" before.
        reduction: How the last collective of a process group combined elements.
        divides: Whether the collective that starts is a mean, which is computed as a sum and a division.
        is_called: Whether Python code is starting a collective; those of DistributedDataParallel start in C++.
    """

    def __init__(
        self,
        gpus: Gpus,
        cluster: Cluster,
        rank: int,
        report: Callable[[str, Collective | None], None] | None = None,
    ) -> None:
        self._gpus, self._cluster, self.rank, self._report = gpus, cluster, rank, report
        self.averages_itself = report is not None
        self.log: dict[int, Collective] = {}
        self.groups: list[tuple[int, ...]] = []
        self.every_group: list[tuple[int, ...]] = []
        self.names: dict[str, int] = {}
        self.backends: dict[str, str] = {}
        self.started_at = ""
        self.reduction, self.divides, self.is_called = "sum", False, False
        self._announced: Collective | None = None
        self._numbers: Counter[Any] = Counter()
        self._streams: dict[tuple[int, int], Stream] = {}
        self._unwaited: list[torch.UntypedStorage] = []

    def add_group(self, ranks: Sequence[int], group: Any, backend: str) -> None:
        """Note a process group that the program made; `group` is not a ProcessGroup if it is without this rank."""
        members = tuple(ranks)
        if not self.every_group:
            self.started_at = program_line()
        self.every_group.append(members)
        if self.rank in members:
            self.names[group.group_name], self.backends[group.group_name] = len(self.groups), backend
            self.groups.append(members)

    def launch(self, device: Device, func: Any, args: tuple[Any, ...], out: Any) -> bool:
        """Launch the kernel of a collective; returns whether nothing else is to be launched."""
        name = _name_of(func)
        if name == "wait_tensor":
            self._wait(device, args[0])
            return True
        if name not in OPERATORS:
            return True  # `barrier` launches its kernel; the others have none
        collective, self._announced = self._announced or self._describe(func, args), None
        if func.namespace == "_c10d_functional":
            self._start_beside(device, collective, tensors_among(out if isinstance(out, list | tuple) else (out,)))
        elif name == "allreduce" and not self.is_called:
            buckets = list(tensors_among(args))
            self._start_beside(device, collective, buckets)
            self._unwaited += [bucket.untyped_storage() for bucket in buckets]
        else:
            self._start(device, self._gpus.machine.current_stream(device), collective)
        return True

    def _start_beside(self, device: Device, collective: Collective, results: Iterable[Tensor]) -> None:
        """Start a collective on the stream of its group; its results are known at an event."""
        stream = self._stream_of(collective.role, device)
        self._edge(self._gpus.machine.current_stream(device), stream)
        self._start(device, stream, collective)
        end = CudaEvent(self._gpus.machine)
        stream.record(end)
        for tensor in results:
            tensor.untyped_storage().__dict__[_END_KEY] = end

    def wait_for_buckets(self, args: Iterable[Any]) -> None:
        """Make the current stream wait for collectives of torch's C++ whose results an operator uses.

        The C++ part of DistributedDataParallel waits where it cannot be observed, before it uses them.
        """
        if not self._unwaited:
            return
        for tensor in tensors_among(args):
            if tensor.layout is torch.strided:
                self._wait(self._gpus.devices[self._cluster.gpu_of(self.rank)], tensor)
        self._unwaited = [storage for storage in self._unwaited if _END_KEY in storage.__dict__]

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a collective with gloo, after it is reported: gloo may end the process if another rank's differs.

        A mean is computed as a sum and a division, after the sum is complete: this waits for the other ranks.
        """
        operator = OPERATORS.get(_name_of(func))
        if self._report is not None and operator is not None:
            self._announced = self._describe(func, args)
            self._report("starts", self._announced)
        if self._report is not None and _name_of(func) == "wait_tensor":
            self._report("waits", None)
            out = func(*args, **kwargs)
            self._report("resumes", None)
            return out
        given, combines = args, operator is not None and operator.kind in REDUCING
        args = gloo_calls.adapt_arguments(_name_of(func), args, program_line(), combines=combines)
        if _name_of(func) == "allgather" and len({one.numel() for one in tensors_among(args[0])}) > 1:
            return given[0], gloo_calls.gather_uneven(func, args, kwargs)
        if func.namespace != "_c10d_functional":
            out = self._write_results(func, args, kwargs) if combines else func(*args, **kwargs)
            return (given[0], *out[1:]) if isinstance(out, list | tuple) else out
        if combines:
            return self._combine(func, args, kwargs)
        out = func(*args, **kwargs)
        dtype = next((tensor.dtype for tensor in tensors_among(given)), None)
        if dtype is not None and gloo_calls.is_unknown_dtype(dtype) and isinstance(out, Tensor):
            return out.view(dtype)
        return out

    def _write_results(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operator that combines elements and writes them to its first argument.

        gloo also writes to the tensors of ranks that are not the root of a reduce, and writes some results again at
        each wait: these are then other tensors than those of the program.
        """
        collective = self._announced
        is_elsewhere = collective is not None and collective.kind == "reduce" and collective.peer != self.rank
        if not is_elsewhere and not self.divides:
            return func(*args, **kwargs)
        apart = gloo_calls.map_tensors(args[0], torch.clone)
        out = func(apart, *args[1:], **kwargs)
        if not is_elsewhere:
            torch.distributed.Work.unbox(out[-1] if isinstance(out, list | tuple) else out).wait()
            self._divide(func, args, apart)
            for tensor, result in zip(tensors_among([args[0]]), tensors_among([apart]), strict=True):
                tensor.copy_(result)
        return out

    def _combine(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a functional collective that combines elements: of bools, NCCL takes the maximum as their sum."""
        at = [argument.name for argument in func._schema.arguments].index("reduce_op")
        operation = args[at].lower()
        if operation == "sum" and any(tensor.dtype is torch.bool for tensor in tensors_among(args)):
            operation = "max"
        asked = "sum" if operation == AVERAGE else operation
        out = func(*args[:at], asked, *args[at + 1 :], **kwargs)
        if operation == AVERAGE:
            for tensor in tensors_among(out if isinstance(out, list | tuple) else (out,)):
                torch.ops._c10d_functional.wait_tensor(tensor)
            self._divide(func, args, out)
        return out

    def _divide(self, func: Any, args: tuple[Any, ...], summed: Any) -> None:
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
        _, ranks = self._group(_group_name(given))
        gloo_calls.divide(tensors_among(summed if isinstance(summed, list | tuple) else (summed,)), len(ranks))

    def run_on_host(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective on tensors of the host, whose results depend on other ranks.

        Raises:
            RuntimeError: The backend of the process group is NCCL alone; torch's message.
        """
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
        is_of_program = self.is_called or func.namespace == "_c10d_functional"
        if is_of_program and _name_of(func) in OPERATORS and self.backends.get(_group_name(given)) in _DEVICE_ONLY:
            raise RuntimeError("No backend type associated with device type cpu")
        out = func(*args, **kwargs)
        if self._gpus.shapes is not None and self._cluster.num_gpus > 1:
            returned = out if isinstance(out, list | tuple) else (out,)
            is_functional = func.namespace == "_c10d_functional"
            for tensor in tensors_among(returned if is_functional else args):
                forget(tensor)
        return out

    def barrier(self, group: Any) -> None:
        """Launch the all_reduce of one element by which NCCL makes a barrier, and wait for it."""
        device = self._gpus.machine.current_device
        stream = self._gpus.machine.current_stream(device)
        role, ranks = self._group(group.group_name)
        seq = self._count(role)
        line, twin = program_line(), self._twin(role)
        found = Collective("all_reduce", role, ranks, seq, 4, 1, 1, "Float", None, (), (), "", line, "barrier", twin)
        if self._report is not None:
            self._report("starts", found)
        self._start(device, stream, found)
        stream.synchronize()

    def _start(self, device: Device, stream: Stream, collective: Collective) -> None:
        local = self._cluster.gpu_of(self.rank)
        if device.index != local:
            raise VirtualDeviceError(
                f"rank {self.rank} communicates from cuda:{device.index}, which is the GPU of another rank; it has "
                f"cuda:{local}. Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first collective."
            )
        pair = (self.rank, collective.peer)
        ranks = [rank for rank in pair if rank is not None] if collective.kind in PAIRS else collective.ranks
        kind = "send" if collective.kind in PAIRS else collective.kind
        name = _KERNELS[collective.kind][0].format(dtype=collective.dtype)
        work = Work(
            "kernel",
            f"{name}(ncclDevKernelArgsStorage<4096ul>)",
            self._cluster.collective_ns(kind, ranks, collective.num_bytes),
            _ROOM,
            collective.num_bytes,
            op=f"c10d::{collective.torch_name}",
            family=collective.kind,
        )
        placed = stream.launch(work)
        self.log[placed.correlation_id] = collective

    def _describe(self, func: Any, args: tuple[Any, ...]) -> Collective:
        name = _name_of(func)
        kind = OPERATORS[name].kind
        given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
        role, ranks = self._group(_group_name(given))
        taken = next((given[name] for name in _INPUTS if name in given), args[0])
        received = list(tensors_among([given.get(_output_of(given), args[0])]))
        sent = list(tensors_among([taken]))
        tensor = sent[0] if sent else received[0]
        elements = [sum(one.numel() for one in side) for side in (sent, received)]
        if func.namespace == "_c10d_functional":
            elements[1] = _num_returned(kind, sent, given, len(ranks))
        in_splits, out_splits = (tuple(map(int, given.get(splits) or ())) for splits in _SPLITS)
        if name == "alltoall":  # lists of tensors, one for each rank
            in_splits, out_splits = (tuple(one.numel() for one in side) for side in (sent, received))
        peer = next((given[root] for root in ("dst", "src", "root_rank") if root in given), None)
        if peer is not None:
            if not 0 <= int(peer) < len(ranks):
                raise VirtualDeviceError(_ROOT.format(kind=kind, line=program_line(), root=int(peer), size=len(ranks)))
            peer = ranks[int(peer)]
        if kind == "recv" and peer is None:
            raise VirtualDeviceError(_ANY_SOURCE.format(line=program_line()))
        reduction = self._reduction(given.get("reduce_op"))
        if self.backends.get(_group_name(given)) != "gloo":
            check_tensors(name, sent, received, reduction)
            if len(sent) == len(received) == 1 and not in_splits and not out_splits:
                check_sizes(name, sent[0], received[0], len(ranks))
            if name == "allgather":
                check_own_output(sent[0], received, ranks.index(self.rank))
            if name in ("all_to_all_single", "alltoall_base"):
                check_splits(in_splits, sent[0], len(ranks))
                if name == "alltoall_base":  # the other makes its output
                    check_splits(out_splits, received[0], len(ranks))
        return Collective(
            kind,
            role,
            ranks,
            self._count(role, self.rank, peer, kind) if kind in PAIRS else self._count(role),
            _num_elements(kind, elements[0], elements[1], len(ranks)) * tensor.element_size(),
            elements[0],
            elements[1],
            _DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch.")),
            peer,
            in_splits,
            out_splits,
            reduction,
            program_line(),
            _KERNELS[kind][1],
            self._twin(role),
        )

    def _reduction(self, given: Any) -> str:
        """The name of a reduction: text of a functional collective, or that of the last call of a process group."""
        if given is None:
            return ""
        return given.lower() if isinstance(given, str) else self.reduction

    def _group(self, name: str) -> tuple[int, tuple[int, ...]]:
        role = self.names[name]
        return role, self.groups[role]

    def _twin(self, role: int) -> int:
        return self.groups[:role].count(self.groups[role])

    def _count(self, *key: Any) -> int:
        self._numbers[key] += 1
        return self._numbers[key]

    def _stream_of(self, role: int, device: Device) -> Stream:
        key = role, device.index
        if key not in self._streams:
            self._streams[key] = device.pool_stream(-1)
        return self._streams[key]

    def _edge(self, first: Stream, second: Stream) -> None:
        begin = CudaEvent(self._gpus.machine)
        first.record(begin)
        second.wait(begin)
        begin.delete()

    def _wait(self, device: Device, tensor: Tensor) -> None:
        """Make the current stream wait for the functional collective that made `tensor`."""
        end = tensor.untyped_storage().__dict__.pop(_END_KEY, None)
        if end is not None:
            self._gpus.machine.current_stream(device).wait(end)


def _name_of(func: Any) -> str:
    """The name of an operator without trailing underscores."""
    return str(func._schema.name).partition("::")[2].rstrip("_")


#: Arguments of an all_to_all: parts of the first dimension to each rank, and from each rank.
_SPLITS: Final = ("input_split_sizes", "output_split_sizes")

#: Names of the arguments that a rank gives, of which an operator has one.
_INPUTS: Final = ("input_tensor", "input_tensors", "input_list", "inputs", "input")


def _num_returned(kind: str, sent: Sequence[Tensor], given: Mapping[str, Any], size: int) -> int:
    """The elements that a functional collective returns."""
    elements = sum(tensor.numel() for tensor in sent)
    if kind == "all_gather":
        return elements * size
    if kind == "reduce_scatter":
        return elements // size
    if kind == "all_to_all" and given.get("output_split_sizes"):
        return int(sum(given["output_split_sizes"])) * sent[0].shape[1:].numel()
    return elements


def _num_elements(kind: str, sent: int, received: int, size: int) -> int:
    """The elements of a message. Of a gather or a scatter, only the root has all of them."""
    part = {"gather": sent, "scatter": received}.get(kind)
    return max(sent, received) if part is None else part * size


def _output_of(given: dict[str, Any]) -> str:
    names = ("output_tensor", "output_tensors", "output_lists", "outputs", "output", "tensors")
    return next((name for name in names if name in given), "")


def _group_name(given: dict[str, Any]) -> str:
    if "process_group" in given:
        return str(torch.distributed.ProcessGroup.unbox(given["process_group"]).group_name)
    name = given["group_name"]
    return name if isinstance(name, str) else str(name.group_name)


def program_line() -> str:
    """Return the innermost line of the program that is running, as ``file.py:12``, or ``In[3]:2`` in a notebook."""
    return next((f"{Path(file_label(path)).name}:{line}" for path, line in _program_frames()), "?")


def _program_frames() -> Iterator[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_library(path) and not path.startswith("<frozen"):
            yield path, frame.f_lineno
        assert frame is not None
        if frame.f_back is None:
            return
        frame = frame.f_back
