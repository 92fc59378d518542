"""Python objects that ranks of a job send to each other. Ranks run one after the other, in order of rank."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch.distributed as dist

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.jobs.communicator import program_line
from cudalens.virtual.jobs.mismatch import describe_difference
from cudalens.virtual.patching import Patches, when_imported

_MISSING: Final = (
    "rank {rank} needs an object of rank {source} ({name}), which has not run: without values the ranks of a job run "
    "one after the other, in order of rank. Let every rank compute the object itself. For stages of a pipeline, pass "
    "input_args and output_args to PipelineStage: tensors that require gradients, but for the input of the first stage."
)
_COLLECTIVE: Final = (
    "{name} needs objects of all ranks: without values the ranks of a job run one after the other. Let every rank "
    "compute them itself, or leave the call out."
)


class MissingObjectError(VirtualDeviceError):
    """A rank needs an object of a rank that has not run."""


class Mailbox:
    """The objects that ranks have sent, for ranks that run later."""

    def __init__(self) -> None:
        self._sent: defaultdict[Any, deque[Any]] = defaultdict(deque)
        self._broadcast: dict[Any, list[Any]] = {}
        self._roots: dict[Any, tuple[int, int, str]] = {}

    def copy(self) -> Mailbox:
        """Return one with the same objects, which does not change with this one."""
        made = Mailbox()
        made._sent.update({key: deque(sent) for key, sent in self._sent.items()})
        made._broadcast.update(self._broadcast)
        made._roots.update(self._roots)
        return made

    def install(self, patches: Patches, rank: int) -> None:
        """Replace torch.distributed's functions for objects, for one rank."""
        functions = {
            "send_object_list": self._sending(rank),
            "recv_object_list": self._receiving(rank),
            "broadcast_object_list": self._broadcasting(rank),
            **{name: _refuse(name) for name in _COLLECTIVES},
        }
        for owner in (dist, dist.distributed_c10d):
            for name, function in functions.items():
                patches.set(owner, name, function)
        when_imported(
            patches, "torch.distributed.optim.zero_redundancy_optimizer", lambda module: _refuse_states(patches, module)
        )
        when_imported(patches, "torch.distributed.pipelining.stage", lambda module: _derive_gradients(patches, module))
        when_imported(patches, "torch.distributed.pipelining.schedules", lambda module: _vote_alone(patches, module))

    def _sending(self, rank: int) -> Callable[..., None]:
        def send_object_list(
            object_list: list[Any], dst: int | None = None, group: Any = None, *args: Any, **kwargs: Any
        ) -> None:
            self._sent[rank, _global_rank(dst, group, kwargs.get("group_dst"))].append(list(object_list))

        return send_object_list

    def _receiving(self, rank: int) -> Callable[..., int]:
        def recv_object_list(
            object_list: list[Any], src: int | None = None, group: Any = None, *args: Any, **kwargs: Any
        ) -> int:
            source = _global_rank(src, group, kwargs.get("group_src"))
            sent = self._sent[source, rank]
            if not sent:
                raise MissingObjectError(_MISSING.format(rank=rank, source=source, name="recv_object_list"))
            object_list[:] = sent.popleft()
            return source

        return recv_object_list

    def _broadcasting(self, rank: int) -> Callable[..., None]:
        numbers: defaultdict[tuple[int, ...], int] = defaultdict(int)

        def broadcast_object_list(
            object_list: list[Any], src: int | None = None, group: Any = None, *args: Any, **kwargs: Any
        ) -> None:
            source = _global_rank(src, group, kwargs.get("group_src"))
            members = tuple(dist.get_process_group_ranks(group))
            numbers[members] += 1
            key = members, numbers[members]
            first_rank, root, line = self._roots.setdefault(key, (rank, source, program_line()))
            if root != source:
                first = first_rank, f"broadcast_object_list(root {root})", line
                second = rank, f"broadcast_object_list(root {source})", program_line()
                raise describe_difference(f"broadcast_object_list {numbers[members]}", members, "root", first, second)
            if source == rank:
                self._broadcast[key] = list(object_list)
            elif key not in self._broadcast:
                raise MissingObjectError(_MISSING.format(rank=rank, source=source, name="broadcast_object_list"))
            else:
                object_list[:] = self._broadcast[key]

        return broadcast_object_list


#: Functions whose result has an object of each rank.
_COLLECTIVES: Final = ("all_gather_object", "gather_object", "scatter_object_list")


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise VirtualDeviceError(_COLLECTIVE.format(name=f"torch.distributed.{name}"))

    return refused


def _refuse_states(patches: Patches, module: ModuleType) -> None:
    """Refuse to collect the states of an optimizer that is divided over ranks."""
    patches.set(module, "_broadcast_object", _refuse("optim.ZeroRedundancyOptimizer.consolidate_state_dict"))


def _global_rank(rank: int | None, group: Any, group_rank: int | None) -> int:
    """The rank in the job of a rank that may be given in its group."""
    if rank is not None:
        return int(rank)
    world: Any = dist.group.WORLD
    return int(dist.get_global_rank(group or world, group_rank or 0))


def _derive_gradients(patches: Patches, module: ModuleType) -> None:
    """The sizes of gradients that a stage of a pipeline receives are those of its outputs."""
    kind: Any = vars(module)["PipelineStage"]
    receive = kind._recv_meta

    def _recv_meta(stage: Any, src_stage: int) -> Any:
        if src_stage < stage.stage_index:
            return receive(stage, src_stage)
        gradients = vars(module)["_derive_grad_metas"](stage._stage_meta.outputs)
        return vars(module)["_StageBackwardMeta"](backward_metas=gradients)

    patches.set(kind, "_recv_meta", _recv_meta)
    patches.set(kind, "_send_meta", _send_forwards(kind._send_meta))


def _send_forwards(send: Callable[..., None]) -> Callable[..., None]:
    def _send_meta(stage: Any, meta: Any, dst_stage: int) -> None:
        if dst_stage > stage.stage_index:
            send(stage, meta, dst_stage)

    return _send_meta


def _vote_alone(patches: Patches, module: ModuleType) -> None:
    """The stages of a pipeline vote whether sizes are given to all of them; each assumes that the others vote alike."""
    kind: Any = vars(module).get("_PipelineSchedule")
    if kind is None or not hasattr(kind, "_warmup_p2p"):
        return
    modes = vars(module)["InferenceMode"]
    original = kind._warmup_p2p

    def _warmup_p2p(schedule: Any, stages: Any, has_backward: bool, p2p_done: bool) -> None:
        if not all(isinstance(stage, vars(module)["PipelineStage"]) for stage in stages):
            original(schedule, stages, has_backward, p2p_done)
            return
        for stage in stages:
            needs_dynamic = modes.needs_dynamic(stage._user_meta, has_backward)
            stage._inference_mode = modes.DYNAMIC if needs_dynamic else modes.STATIC

    patches.set(kind, "_warmup_p2p", _warmup_p2p)
