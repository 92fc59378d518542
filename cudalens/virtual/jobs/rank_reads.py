"""Give the program of a rank numbers that are followed where it reads what differs between ranks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import torch.distributed as dist

from cudalens.virtual.jobs import rank_numbers
from cudalens.virtual.jobs.communicator import program_line
from cudalens.virtual.jobs.followed_code import checks_identity, indexes_with_gpu
from cudalens.virtual.jobs.layout import Layout
from cudalens.virtual.jobs.rank_numbers import RankNumber, RankReads, RankText, caller
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from cudalens.virtual.jobs.communicator import Communicator
    from cudalens.virtual.jobs.topology import Cluster
    from cudalens.virtual.patching import Patches

Reader = Callable[..., Any]

#: Files whose stack frames are not callers of what they replace.
_OWN_FILES: Final = (__file__, rank_numbers.__file__)

#: The position of a rank in a group that it does not have.
_NO_POSITION: Final = -1


class RankReader:
    """Replaces what a program reads of its rank, its node, its GPU and its positions in groups.

    Args:
        cluster: The GPUs of the job.
        communicator: The collectives of the rank.
        reads: Notes what is read.
        get_rank: torch's function.
    """

    def __init__(self, cluster: Cluster, communicator: Communicator, reads: RankReads, get_rank: Reader) -> None:
        self._cluster, self._communicator, self._reads, self._get_rank = cluster, communicator, reads, get_rank
        self._known: dict[tuple[int, int], list[int]] = {}

    def install(self, patches: Patches) -> None:
        """Replace torch's functions, and reads of the environment."""
        self._replace_environment(patches)
        for owner in (dist, dist.distributed_c10d):
            patches.set(owner, "get_rank", self._followed(self._get_rank, self._positions))
            node_rank = vars(owner)["get_node_local_rank"]
            patches.set(owner, "get_node_local_rank", self._followed(node_rank, lambda *args, **kwargs: self._gpus()))
        mesh, group = torch.distributed.device_mesh.DeviceMesh, torch._C._distributed_c10d.ProcessGroup
        replaced: list[tuple[Any, str, Callable[..., list[int]]]] = [
            (mesh, "get_rank", lambda mesh: self._positions()),
            (mesh, "get_local_rank", lambda mesh, mesh_dim=None: self._positions(mesh.get_group(mesh_dim))),
            (group, "rank", self._positions),
            (torch.cuda, "current_device", self._gpus),
        ]
        for kind, name, values in replaced:
            patches.set(kind, name, self._followed(vars(kind)[name], values))
        get_coordinate = vars(mesh)["get_coordinate"]

        @functools.wraps(get_coordinate)
        def coordinate(mesh: Any) -> Any:
            found = get_coordinate(mesh)
            if found is None or _is_called_by_library():
                return found
            numbers = [self._number(self._positions(mesh.get_group(dim)), at) for dim, at in enumerate(found)]
            return type(found)(numbers)

        patches.set(mesh, "get_coordinate", coordinate)

    def _replace_environment(self, patches: Patches) -> None:
        cluster, read = self._cluster, os.environ.__class__.__getitem__
        ranks = range(cluster.num_gpus)
        variables = {
            "RANK": ranks,
            "ROLE_RANK": ranks,
            "LOCAL_RANK": self._gpus(),
            "GROUP_RANK": [*map(cluster.node_of, ranks)],
            "NODE_RANK": [*map(cluster.node_of, ranks)],
        }

        def getitem(environ: Any, key: Any) -> Any:
            text = read(environ, key)
            if isinstance(key, bytes) and os.fsdecode(key) in variables and not _is_called_by_library():
                self._reads.reads_rank = True
                self._reads.note_unfollowed()
            if key not in variables or not text.isdecimal() or _is_called_by_library():
                return text
            number = self._number(variables[key], int(text), is_gpu=key == "LOCAL_RANK")
            return RankText.of(number) if isinstance(number, RankNumber) else text

        patches.set(os.environ.__class__, "__getitem__", getitem)

    def _followed(self, original: Reader, values: Callable[..., Iterable[int]]) -> Reader:
        """Return a function that does the same; to the program it returns a number that has `values` on all ranks."""
        is_gpu = values == self._gpus

        @functools.wraps(original)
        def read(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if found is None or found < 0 or _is_called_by_library():
                return found
            return self._number(values(*args, **kwargs), found, is_gpu=is_gpu)

        return read

    def _number(self, values: Iterable[int], found: int, *, is_gpu: bool = False) -> int:
        """Return a number that has `values` on all ranks, or `found` if the program uses it as no other int can be."""
        reads = self._reads
        code = caller(*_OWN_FILES).f_code
        reads.reads_rank |= not is_gpu or indexes_with_gpu(code)
        reads.read_at[program_line()] = None
        number = reads.number(values, is_gpu=is_gpu)
        if int.__index__(number) != found:  # the program has changed it, or has chosen the GPU of another rank
            return found
        if checks_identity(code):
            reads.note_unfollowed()
            return found
        return number

    def _gpus(self) -> list[int]:
        """The number of the GPU of each rank on its node."""
        return [*map(self._cluster.gpu_of, range(self._cluster.num_gpus))]

    def _positions(self, group: Any = None) -> list[int]:
        """The position of each rank in its group that corresponds to `group`, of all ranks if None."""
        if group is None:
            return [*range(self._cluster.num_gpus)]
        return self._positions_of(self._communicator.names[group.group_name])

    def _positions_of(self, role: int) -> list[int]:
        """The position of each rank in its group that corresponds to that of this rank with number `role`."""
        every_group = self._communicator.every_group
        key = role, len(every_group)
        if key not in self._known:
            groups = Layout(self._cluster.num_gpus, every_group).groups
            self._known[key] = [
                own[role].index(rank) if role < len(own) else _NO_POSITION for rank, own in groups.items()
            ]
        return self._known[key]

    def note_parts(self, size: int, num_parts: int) -> None:
        """Note that torch divides a size, as `torch.chunk` does, over one of the groups of that number of ranks."""
        if size % num_parts == 0:
            return
        self._reads.has_uneven_parts = True
        full = -(-size // num_parts)
        for role, members in enumerate(self._communicator.groups):
            if len(members) == num_parts:
                at = np.array(self._positions_of(role))
                self._reads.note_answers(np.clip(size - at * full, 0, full))


def _is_called_by_library() -> bool:
    return is_library(caller(*_OWN_FILES).f_code.co_filename)


def note_uneven_parts(patches: Patches, reader: RankReader) -> None:
    """Note which ranks hold less of what FSDP2 or DTensor divides."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param
    from torch.distributed.tensor import Shard

    chunk, size_and_offset = vars(_fsdp_param)["_chunk_with_empty"], Shard.local_shard_size_and_offset

    @functools.wraps(chunk)
    def chunk_with_empty(tensor: Any, num_chunks: int, dim: int) -> Any:
        reader.note_parts(tensor.size(dim), num_chunks)
        return chunk(tensor, num_chunks, dim)

    @functools.wraps(size_and_offset)
    def local_shard_size_and_offset(size: Any, num_chunks: Any, rank: Any) -> Any:
        reader.note_parts(size, num_chunks)
        return size_and_offset(size, num_chunks, rank)

    patches.set(_fsdp_param, "_chunk_with_empty", chunk_with_empty)
    patches.set(Shard, "local_shard_size_and_offset", staticmethod(local_shard_size_and_offset))
