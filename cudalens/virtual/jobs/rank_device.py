"""`RankDevice`: the virtual GPUs that one rank of a job sees, with torch.distributed's NCCL backend."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import context
from cudalens.virtual.jobs.communicator import AVERAGE, Collective, Communicator, program_line
from cudalens.virtual.jobs.exchanges import Mailbox
from cudalens.virtual.jobs.mismatch import GroupCall
from cudalens.virtual.jobs.nccl_names import install_nccl_names
from cudalens.virtual.jobs.operators import OPERATORS, Operator
from cudalens.virtual.jobs.rank_numbers import RankReads
from cudalens.virtual.jobs.rank_reads import RankReader, note_uneven_parts
from cudalens.virtual.jobs.reducer import Reducer, ReducerLogger, broadcast_coalesced, refuse_hook
from cudalens.virtual.patching import Patches, when_imported
from cudalens.virtual.shapes.reading import Defaults
from cudalens.virtual.shapes.storage import tensors_among

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.jobs.topology import Cluster
    from cudalens.virtual.shapes.operators import Shapes
    from cudalens.virtual.shapes.recipes import Recipe

#: Backends that a job replaces.
_KNOWN: Final = ("nccl", "gloo", "fake")
_BACKEND: Final = (
    "a job on virtual GPUs has no backend {backend!r}: its collectives are modelled as NCCL's. Use "
    "init_process_group('nccl')."
)
_COALESCING: Final = (
    "_coalescing_manager() gets a device at {line}: with values, gloo computes the collectives of a job, and it does "
    "not coalesce them. Leave the device out, or run the job without values."
)
_SPLIT: Final = (
    "split_group() at {line} splits a group that does not have all ranks of the job: a rank does not know how others "
    "split theirs. Make the groups with new_group() on all ranks."
)
_PREMULTIPLIED: Final = (
    "ReduceOp.PREMUL_SUM at {line} is of NCCL, and gloo computes the values of this job. Use ReduceOp.SUM and multiply "
    "before it (FSDP2: leave out set_gradient_divide_factor), or run the job without values."
)
_NVSHMEM: Final = (
    "{name} needs NVSHMEM or symmetric memory, which kernels write across GPUs; a job on virtual GPUs models "
    "collectives of process groups only. Use torch.distributed's collectives."
)
_REGISTERED: Final = (
    "{name} makes memory that NCCL registers with the network; a job on virtual GPUs does not model it. Leave it out: "
    "collectives accept other memory."
)
_SPAWN: Final = (
    "torch.multiprocessing.spawn at {line} starts the ranks itself, and its processes have no virtual GPUs: a job "
    "starts them. Let the program be what one rank runs, as under torchrun: it reads RANK, LOCAL_RANK and WORLD_SIZE."
)
_RPC: Final = (
    "torch.distributed.rpc at {line} calls functions of other ranks; a job on virtual GPUs models collectives and "
    "sends of process groups only."
)
_PLACE: Final = (
    "init_process_group at {line} has {name}={asked}; in this job it is {wanted}. On GPUs the job would hang there. "
    "Leave the argument out, or read RANK and WORLD_SIZE from the environment."
)


@dataclass(frozen=True)
class Meeting:
    """How the processes of ranks with values find each other, and what they report.

    Attributes:
        store: A file of torch.distributed's FileStore.
        report: Called with "starts" and a `Collective` when the rank has started one, with "waits" or "resumes" and
            None around the waits of the host for collectives, and with "joins" and a `GroupCall` or "joined" and None
            around the creation of a process group, which waits for all ranks.
    """

    store: Path
    report: Callable[[str, Any], None]


class RankDevice(context.device):
    """The virtual GPUs of one node, as one rank of a job sees them.

    Args:
        cluster: The GPUs of the job.
        rank: The rank.
        mailbox: The objects that ranks sent which ran before.
        defaults: What the program reads for unknown values, of a rank without values.
        recipes: What ranks that ran before found about the shapes of results; of a rank without values.
        meeting: Where the processes of ranks with values meet: collectives are then those of gloo. None for a rank
            without values.
        alloc_conf: Text as in PYTORCH_CUDA_ALLOC_CONF.

    Attributes:
        communicator: The collectives of the rank; from the first time that the device is enabled.
        reads: What it read that differs between ranks, and for which of them it would do the same.
        joined: The calls that made a process group and waited for all ranks.
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
        alloc_conf: str | None = None,
    ) -> None:
        super().__init__(cluster.spec, values=meeting is not None, alloc_conf=alloc_conf)
        if defaults is not None:
            self.defaults = defaults
        self._meeting, self._recipes = meeting, recipes
        self.num_devices = cluster.gpus_per_node
        self._cluster, self._rank, self._mailbox = cluster, rank, mailbox or Mailbox()
        self.communicator: Communicator | None = None
        self.reads = RankReads(rank, cluster.num_gpus)
        self.joined: list[GroupCall] = []
        self._has_device = False  # whether the program gave init_process_group a device

    def _install(self, gpus: Gpus) -> None:
        make_group, new_group = dist.init_process_group, dist.new_group
        make_ddp = torch.nn.parallel.DistributedDataParallel.__init__
        get_rank = dist.get_rank
        super()._install(gpus)
        report = None if self._meeting is None else self._meeting.report
        self.communicator = gpus.communicator = Communicator(gpus, self._cluster, self._rank, report)
        patches = self._patches
        install_nccl_names(patches)
        self._replace_groups(patches, make_group, new_group)
        if not self.values:
            reader = RankReader(self._cluster, gpus.communicator, self.reads, get_rank)
            reader.install(patches)
            note_uneven_parts(patches, reader)
        _replace_barriers(patches, gpus.communicator, has_values=self.values)
        _note_calls(patches, gpus.communicator)
        _accept_bfloat16_hooks(patches)
        _refuse_symmetric_memory(patches)
        _refuse_processes(patches)
        _use_plain_random_numbers(patches)
        forget_results()
        if report is not None:
            _report_waits(patches, report)
            patches.set(torch._C._distributed_c10d.ProcessGroup, "_start_coalescing", _refuse(_COALESCING))
        if gpus.shapes is not None:
            gpus.shapes.recipes = gpus.shapes.recipes if self._recipes is None else self._recipes
            self._mailbox.install(patches, self._rank)
            patches.set(torch.nn.parallel.DistributedDataParallel, "__init__", make_ddp)
            patches.set(dist, "Reducer", Reducer)
            patches.set(dist, "Logger", ReducerLogger)
            patches.set(dist, "_broadcast_coalesced", broadcast_coalesced)
            patches.set(dist, "_register_comm_hook", refuse_hook)
            patches.set(dist, "_register_builtin_comm_hook", refuse_hook)
            _expect_full_batches(patches, gpus.shapes)
            module = torch.nn.parallel.distributed
            patches.set(module, "_verify_param_shape_across_processes", lambda *args, **kwargs: None)

    def _replace_groups(self, patches: Patches, make: Callable[..., Any], new: Callable[..., Any]) -> None:
        communicator = self.communicator
        assert communicator is not None
        backend, num_ranks = "fake" if not self.values else "gloo", self._cluster.num_gpus
        backends, num_worlds = communicator.backends, itertools.count()

        @functools.wraps(make)
        def init_process_group(given: Any = None, *args: Any, **kwargs: Any) -> Any:
            asked = str(kwargs.pop("backend", given) or "cpu:gloo,cuda:nccl").lower()
            _check_backend(asked)
            kwargs |= dict(zip(_INIT_ARGUMENTS, args, strict=False))
            self._has_device = kwargs.get("device_id") is not None
            _check_place("world_size", kwargs, num_ranks)
            _check_place("rank", kwargs, self._rank)
            kwargs = {name: value for name, value in kwargs.items() if name in ("timeout", "group_name")}
            if backend == "fake":
                from torch.testing._internal.distributed.fake_pg import FakeStore

                kwargs |= {"store": FakeStore(), "rank": self._rank, "world_size": num_ranks}
            elif self._meeting is not None:
                path = f"{self._meeting.store}{next(num_worlds)}"  # a new one after destroy_process_group()
                store = torch._C._distributed_c10d.FileStore(path, num_ranks)
                kwargs |= {"store": store, "rank": self._rank, "world_size": num_ranks}
            with self._joining("init_process_group", range(num_ranks)):
                make(backend, **kwargs)
            communicator.add_group(range(num_ranks), _world(), asked)

        @functools.wraps(new)
        def new_group(ranks: Any = None, timeout: Any = None, given: Any = None, *args: Any, **kwargs: Any) -> Any:
            asked = str(kwargs.pop("backend", given) or backends[_world().group_name]).lower()
            _check_backend(asked)
            kwargs.pop("pg_options", None)
            kwargs.pop("device_id", None)
            if timeout is not None:
                kwargs["timeout"] = timeout
            is_local = kwargs.get("use_local_synchronization", False)
            members = range(num_ranks) if ranks is None else ranks
            with self._joining("new_group", members, _local_name(members) if is_local else ""):
                group = new(ranks, backend=backend, **kwargs)
            communicator.add_group(members, group, asked)
            return group

        def get_backend(group: Any = None) -> str:
            asked = backends[(group or _world()).group_name]
            return "gloo" if asked == "gloo" else "nccl"

        def get_object_device(group: Any = None) -> str:
            """Return the device of the tensors that objects are sent in: NCCL has none of the host."""
            asked = backends[(group or _world()).group_name]
            return "cpu" if "gloo" in asked else "cuda"

        module = dist.distributed_c10d
        for owner in (dist, module, torch.distributed.device_mesh):
            for name, function in (
                ("init_process_group", init_process_group),
                ("new_group", new_group),
                ("split_group", self._splitting(dist.split_group, new_group)),
                ("get_backend", get_backend),
                ("_get_object_coll_device", get_object_device),
            ):
                if hasattr(owner, name):
                    patches.set(owner, name, function)

    def _splitting(self, split: Callable[..., Any], new_group: Callable[..., Any]) -> Callable[..., Any]:
        """Return a split_group() that makes its groups as new_group() does."""
        num_ranks = self._cluster.num_gpus

        @functools.wraps(split)
        def split_group(parent_pg: Any = None, split_ranks: Any = None, timeout: Any = None, *_: Any, **kw: Any) -> Any:
            if not split_ranks or not self._has_device:
                return split(parent_pg, split_ranks)  # torch's own errors
            if len(dist.get_process_group_ranks(parent_pg)) != num_ranks:
                raise VirtualDeviceError(_SPLIT.format(line=program_line()))
            groups = [new_group(ranks, timeout, group_desc=kw.get("group_desc")) for ranks in split_ranks]
            own = (group for ranks, group in zip(split_ranks, groups, strict=True) if self._rank in ranks)
            return next(own, None)

        return split_group

    @contextmanager
    def _joining(self, function: str, ranks: Sequence[int], name: str = "") -> Iterator[None]:
        """Note that the rank waits for all others to create a process group, or with a name only for its members."""
        self.joined.append(GroupCall(tuple(sorted(ranks)), f"{function} at {program_line()}", name))
        if self._meeting is not None:
            self._meeting.report("joins", self.joined[-1])
        yield
        if self._meeting is not None:
            self._meeting.report("joined", None)


def _local_name(ranks: Sequence[int]) -> str:
    """Return the name of a group that only its members make."""
    return str(dist.distributed_c10d._process_group_name(sorted(ranks), use_hashed_name=True))


def _world() -> Any:
    """The default process group."""
    return dist.group.WORLD


def _check_backend(asked: str) -> None:
    """Raise an error for a backend that a job does not replace.

    Raises:
        VirtualDeviceError: It is another one than NCCL or gloo, such as MPI.
    """
    for part in asked.lower().split(","):
        name = part.rpartition(":")[2]
        if name not in _KNOWN:
            raise VirtualDeviceError(_BACKEND.format(backend=name))


#: Arguments of init_process_group after the backend.
_INIT_ARGUMENTS: Final = ("init_method", "timeout", "world_size", "rank", "store", "group_name")


def _check_place(name: str, given: Mapping[str, Any], wanted: int) -> None:
    """Check the rank or the world size that a program gives to init_process_group, or has set in the environment.

    Raises:
        VirtualDeviceError: It is not that of the job: on GPUs, the ranks would wait for each other forever.
    """
    asked = int(given.get(name, -1))
    if asked < 0:
        asked = int(os.environ.get(name.upper(), wanted))
    if asked != wanted:
        raise VirtualDeviceError(_PLACE.format(line=program_line(), name=name, asked=asked, wanted=wanted))


def _replace_barriers(patches: Patches, communicator: Communicator, *, has_values: bool) -> None:
    kind: Any = torch._C._distributed_c10d.ProcessGroup
    barrier, monitored = kind.barrier, kind.monitored_barrier

    @functools.wraps(barrier)
    def barrier_(group: Any, *args: Any, **kwargs: Any) -> Any:
        communicator.barrier(group)
        return barrier(group, *args, **kwargs)

    @functools.wraps(monitored)
    def monitored_barrier(group: Any, *args: Any, **kwargs: Any) -> None:
        communicator.barrier(group)
        if has_values:  # torch's fake process group has none
            monitored(group, *args, **kwargs)

    patches.set(kind, "barrier", barrier_)
    patches.set(kind, "monitored_barrier", monitored_barrier)


def _report_waits(patches: Patches, report: Callable[[str, Collective | None], None]) -> None:
    """Report when the host waits for a collective of another process."""

    def reporting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            report("waits", None)
            result = original(work, *args, **kwargs)
            report("resumes", None)
            return result

        return wait

    kind: Any = torch._C._distributed_c10d.Work
    for name in ("synchronize", "wait"):
        patches.set(kind, name, reporting(vars(kind)[name]))


def _expect_full_batches(patches: Patches, shapes: Shapes) -> None:
    """Without values, SyncBatchNorm uses the statistics of all ranks: it leaves out those of empty batches."""
    from torch.nn.modules import _functions

    kind: Any = _functions.SyncBatchNorm
    original = kind.forward
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def forward(*args: Any) -> Any:
        defaults = shapes.defaults
        shapes.defaults = replace(defaults, num_rows=parameters.bind(*args).arguments["world_size"])
        try:
            return original(*args)
        finally:
            shapes.defaults = defaults

    patches.set(kind, "forward", staticmethod(forward))


def _note_calls(patches: Patches, communicator: Communicator) -> None:
    """Record that Python starts a collective, and how it combines elements: its operator's arguments do not show it."""
    kind: Any = torch._C._distributed_c10d.ProcessGroup
    for operator in OPERATORS.values():
        for name in operator.methods:
            if name in vars(kind):
                patches.set(kind, name, _noting(vars(kind)[name], operator, communicator))


def _noting(original: Callable[..., Any], operator: Operator, communicator: Communicator) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(group: Any, *args: Any, **kwargs: Any) -> Any:
        options = next((value for value in (*args, *kwargs.values()) if hasattr(value, "reduceOp")), None)
        asked = None if options is None else copy(options.reduceOp)
        if options is not None:
            communicator.reduction = str(getattr(asked, "op", asked)).rpartition(".")[2].lower()
            if communicator.averages_itself:
                _set_reduction_of_gloo(options, operator, communicator, args)
        communicator.is_called = True
        try:
            return original(group, *args, **kwargs)
        finally:
            if options is not None:
                options.reduceOp = asked  # a program may use its options again
            communicator.is_called = communicator.divides = False
            communicator.reduction = "sum"  # as of collectives that torch's C++ starts

    return start


def _set_reduction_of_gloo(options: Any, operator: Operator, communicator: Communicator, args: Any) -> None:
    """Give the options of a collective the reduction by which gloo computes what NCCL does.

    Raises:
        VirtualDeviceError: It has none.
    """
    if communicator.reduction == "premul_sum":
        raise VirtualDeviceError(_PREMULTIPLIED.format(line=program_line()))
    averages = operator.averages_on_gloo and all(one.is_floating_point() for one in tensors_among(args))
    communicator.divides = communicator.reduction == AVERAGE and not averages
    if communicator.divides:
        options.reduceOp = dist.ReduceOp.SUM
    elif communicator.reduction == "sum" and any(one.dtype is torch.bool for one in tensors_among(args)):
        options.reduceOp = dist.ReduceOp.MAX


def _accept_bfloat16_hooks(patches: Patches) -> None:
    """Let DistributedDataParallel have hooks in bfloat16, for which it asks whether the build of torch has NCCL."""
    kind: Any = torch.nn.parallel.DistributedDataParallel
    original = kind._check_comm_hook

    @functools.wraps(original)
    def check(module: Any, hook: Callable[..., Any]) -> None:
        try:
            original(module, hook)
        except TypeError as error:
            if "NCCL" not in str(error):
                raise

    patches.set(kind, "_check_comm_hook", check)


def _refuse_symmetric_memory(patches: Patches) -> None:
    """Refuse memory that is shared with other GPUs or registered with the network."""
    module = sys.modules.get("torch.distributed._symmetric_memory")
    if module is None:
        import torch.distributed._symmetric_memory as module
    making = ("empty", "rendezvous", "set_backend", "get_mem_pool", "get_mempool_allocator")
    for name in (*making, "enable_symm_mem_for_group", "get_symm_mem_workspace"):
        if hasattr(module, name):
            text = _NVSHMEM.format(name=f"torch.distributed._symmetric_memory.{name}")
            patches.set(module, name, _refuse(text))
    kind: Any = torch._C._distributed_c10d.Backend
    patches.set(kind, "mem_allocator", property(_refuse(_REGISTERED.format(name="mem_allocator"))))
    for name in ("register_mem_pool", "deregister_mem_pool"):
        patches.set(kind, name, _refuse(_REGISTERED.format(name=name)))


def _refuse_processes(patches: Patches) -> None:
    """Refuse what starts other processes or calls them: they have no virtual GPUs, and the rank would wait for them."""
    import torch.multiprocessing

    module: Any = torch.multiprocessing
    for owner in (module, sys.modules[module.start_processes.__module__]):
        patches.set(owner, "start_processes", _refuse(_SPAWN))
    when_imported(patches, "torch.distributed.rpc", lambda rpc: patches.set(rpc, "init_rpc", _refuse(_RPC)))


def _refuse(text: str) -> Callable[..., Any]:
    """Return a function that raises an error with a text, in which ``{line}`` is the line of the program."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise VirtualDeviceError(text.format(line=program_line()))

    return refused


class _PlainTracker:
    """A tracker of DTensor's random numbers that leaves the generator alone.

    DTensor writes offsets of a Philox generator into its state, and a virtual device has the CPU's generator.
    """

    def __init__(self) -> None:
        self.distribute_region_enabled = False

    @contextmanager
    def _distribute_region(self, spec: Any, generator: Any = None) -> Iterator[None]:
        yield

    def _manual_seed(self, parallel_seed: int) -> None:
        torch.manual_seed(parallel_seed)


def _use_plain_random_numbers(patches: Patches) -> None:
    import torch.distributed.tensor._random as random

    patches.set(random, "_rng_tracker", _PlainTracker())


def forget_results() -> None:
    """Clear what torch keeps about tensors of one rank and would use for another one.

    Fake results hold devices, and each rank has another one. What DTensor found for an operator holds a mesh with the
    rank's own position: meshes of two ranks, and of two jobs, are equal to its caches.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.tensor import DTensor, _redistribute

    propagator = DTensor._op_dispatcher.sharding_propagator
    clears = (
        getattr(FakeTensorMode, "cache_clear", None),
        getattr(propagator.propagate_op_sharding, "cache_clear", None),
        getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None),
        getattr(_redistribute._gen_transform_infos, "cache_clear", None),
        getattr(_redistribute, "clear_redistribute_planner_cache", None),
    )
    for clear in clears:
        if clear is not None:
            clear()


@contextmanager
def rank_environment(cluster: Cluster, rank: int, port: int = 29500) -> Iterator[None]:
    """Set the environment variables that torchrun sets for a rank, and leave torch.distributed as it was found.

    Raises:
        VirtualDeviceError: A process group exists already.
    """
    if dist.is_initialized():
        raise VirtualDeviceError(
            "job() makes its own process groups, and one exists in this process. Call "
            "torch.distributed.destroy_process_group() first."
        )
    local, node = cluster.gpu_of(rank), cluster.node_of(rank)
    wanted = {
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": cluster.num_gpus,
        "LOCAL_WORLD_SIZE": cluster.gpus_per_node,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": cluster.num_nodes,
        "NODE_RANK": node,
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": cluster.num_gpus,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in wanted.items()})
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    show_error = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = show_error  # that of init_process_group names the rank before each line
        for name in os.environ.keys() - before.keys():  # what the program has set, which another rank would read
            del os.environ[name]
        os.environ.update(before)
        gc.collect()  # modules of DistributedDataParallel must end before their group
        if dist.is_initialized():
            dist.destroy_process_group()
        forget_results()
