"""Collectives that ranks make in different ways are found before anything hangs, with the lines of both."""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils import cpp_extension

import cudalens
from cudalens.errors import VirtualDeviceError

HERE = Path(__file__).name
needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="jobs with values fork")


def begin():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return dist.get_rank(), torch.ones(8, device="cuda")


def order():
    rank, x = begin()
    if rank == 0:
        dist.all_reduce(x)
        dist.broadcast(x, 0)
    else:
        dist.broadcast(x, 0)
        dist.all_reduce(x)


def size():
    rank, x = begin()
    dist.all_reduce(x if rank == 0 else x[:4])


def dtype():
    rank, x = begin()
    dist.all_reduce(x if rank == 0 else torch.ones(4, device="cuda", dtype=torch.float64))


def kind():
    rank, x = begin()
    if rank == 0:
        dist.all_reduce(x)
    else:
        dist.broadcast(x, 0)


def reduction():
    rank, x = begin()
    dist.all_reduce(x, op=dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.MAX)


def root():
    rank, x = begin()
    dist.broadcast(x, src=rank)


def group():
    rank, x = begin()
    pair = dist.new_group([0, 1])
    dist.all_reduce(x, group=pair if rank == 0 else None)


def one_more():
    rank, x = begin()
    dist.all_reduce(x)
    if rank == 0:
        dist.all_reduce(x)
    torch.cuda.synchronize()


def splits():
    rank, x = begin()
    sent = [2, 6] if rank == 0 else [3, 5]
    dist.all_to_all_single(torch.empty(8, device="cuda"), x, [4, 4], sent)


def send_without_receive():
    rank, x = begin()
    if rank == 0:
        dist.send(x, 1)


def dtype_of_a_send():
    rank, x = begin()
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x.half(), 0)


def size_of_a_send():
    rank, x = begin()
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x[:4], 0)


def receive_from_each_other():
    rank, x = begin()
    dist.recv(x, 1 - rank)
    dist.send(x, 1 - rank)


def no_barrier():
    rank, _ = begin()
    if rank == 0:
        dist.barrier()


def root_of_objects():
    rank, _ = begin()
    dist.broadcast_object_list([rank], src=rank)


def deprecated_names():
    rank, x = begin()
    if rank == 0:
        dist.reduce_scatter_tensor(x[:4].clone(), x)
    else:
        dist.all_gather_into_tensor(x.repeat(2), x)


DIFFERENT = {
    deprecated_names: "kind",
    order: "kind",
    size: "size",
    dtype: "dtype",
    kind: "kind",
    reduction: "reduction",
    root: "root",
    splits: "splits",
    size_of_a_send: "size",
    dtype_of_a_send: "dtype",
}
#: What the two ranks call last.
HANGING = {
    group: ("group=pair if rank == 0", "group=pair if rank == 0"),
    one_more: ("        dist.all_reduce(x)", "    dist.all_reduce(x)"),
    send_without_receive: ("dist.send(x, 1)", "init_process_group"),
    receive_from_each_other: ("dist.recv(x, 1 - rank)", "dist.recv(x, 1 - rank)"),
    no_barrier: ("dist.barrier()", "init_process_group"),
}


def line_of(program, text, after=0):
    first = program.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()[first - 1 :]
    return first + next(number for number, line in enumerate(lines) if number > after and text in line)


def message_of(program, *, values=False):
    with pytest.raises(VirtualDeviceError) as caught:
        cudalens.virtual.job(program, "h100x2", values=values)
    return str(caught.value)


@pytest.fixture(params=[False, pytest.param(True, marks=needs_fork)], ids=["shapes", "values"])
def values(request):
    """Whether the job computes values."""
    return request.param


@pytest.mark.parametrize("program", DIFFERENT, ids=lambda program: program.__name__)
def test_two_ranks_that_make_different_collectives(program, values):
    message = message_of(program, values=values)
    assert f"differs in its {DIFFERENT[program]}: rank " in message
    assert f"rank 0 at {HERE}:" in message
    assert f"rank 1 at {HERE}:" in message


def test_splits_that_differ_are_named(values):
    message = message_of(splits, values=values)
    assert "all_to_all(8 x Float, sends 2, 6, gets 4, 4)" in message
    assert "all_to_all(8 x Float, sends 3, 5, gets 4, 4)" in message


def test_objects_from_different_ranks(values):
    message = message_of(root_of_objects, values=values)
    line = line_of(root_of_objects, "broadcast_object_list")
    assert "1 of the process group of ranks 0, 1 differs in its root: rank " in message
    assert len(re.findall(rf"{HERE}:{line} calls broadcast\w*\(.*?root ", message)) == 2


def test_reductions_of_reduce_scatter_tensor_differ(values):
    def program():
        rank, _ = begin()
        op = dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM
        dist.reduce_scatter_tensor(torch.ones(2, device="cuda"), torch.ones(4, device="cuda"), op=op)

    message = message_of(program, values=values)
    assert "differs in its reduction: " in message
    assert "calls reduce_scatter(4 x Float, sum)" in message
    assert "calls reduce_scatter(4 x Float, max)" in message


@needs_fork
def test_a_reduction_of_nccl_alone_needs_no_values():
    def program():
        begin()
        mesh = init_device_mesh("cuda", (2,))
        model = fully_shard(nn.Linear(8, 8, device="cuda"), mesh=mesh)
        model.set_gradient_divide_factor(3.0)
        model(torch.ones(2, 8, device="cuda")).sum().backward()

    assert len(cudalens.virtual.job(program, "h100x2").ran) == 2
    assert f"ReduceOp.PREMUL_SUM at {HERE}:{line_of(program, 'backward()')} is of NCCL" in message_of(
        program, values=True
    )


def test_a_barrier_is_named(values):
    def program():
        rank, _ = begin()
        x = torch.ones(8, device="cuda")
        if rank == 0:
            dist.all_reduce(x)
        else:
            dist.barrier()

    message = message_of(program, values=values)
    assert "differs in its kind: " in message
    assert "calls all_reduce(8 x Float, sum)" in message
    assert "calls barrier(" in message


@pytest.mark.parametrize("program", HANGING, ids=lambda program: program.__name__)
def test_a_rank_that_waits_forever(program, values):
    message = message_of(program, values=values)
    assert "the job hangs: no rank can go on" in message
    first, second = HANGING[program]
    lines = Path(__file__).read_text().splitlines()
    found = {int(line) for line in re.findall(rf"{HERE}:(\d+)", message)}
    assert len(found) == 2 or first == second
    assert all(any(text in lines[line - 1] for line in found) for text in (first, second))


def without_a_rank():
    if os.environ["RANK"] == "1":
        return
    dist.init_process_group("nccl")


def without_a_rank_in_a_group():
    if begin()[0] == 0:
        dist.new_group([0, 1])
    else:
        dist.all_reduce(torch.ones(8, device="cuda"))


def after_another_number_of_groups():
    rank, _ = begin()
    if rank == 0:
        dist.new_group([0], use_local_synchronization=True)
    dist.new_group([0, 1], use_local_synchronization=True)  # two names


def without_a_member():
    rank, _ = begin()
    if rank == 0:
        dist.new_group([0, 1], use_local_synchronization=True)  # rank 1 does not


def test_ranks_that_name_their_group_differently_are_found(values):
    message = message_of(after_another_number_of_groups, values=values)
    line = line_of(after_another_number_of_groups, "# two names")
    assert "the process group of ranks 0, 1 is not the same on each rank: " in message
    for rank in (0, 1):
        assert f"rank {rank} calls new_group at {HERE}:{line} for ranks 0, 1" in message


def test_a_group_without_a_member_is_found(values):
    message = message_of(without_a_member, values=values)
    assert f"new_group at {HERE}:{line_of(without_a_member, '# rank 1 does not')}" in message
    assert "rank 1 does not make it" in message or "rank 1 has ended" in message


def test_a_rank_that_never_starts_is_found(values):
    message = message_of(without_a_rank, values=values)
    line = line_of(without_a_rank, "init_process_group")
    wanted = f"rank 0 waits for all ranks in init_process_group at {HERE}:{line}"
    assert wanted in message
    assert "rank 1 has ended, or waits for its own work, after its start, without init_process_group" in message


@needs_fork
def test_a_rank_that_waits_for_another_to_make_a_group_is_found():
    message = message_of(without_a_rank_in_a_group, values=True)
    assert f"rank 0 waits for all ranks in new_group at {HERE}:" in message
    assert f"rank 1 at {HERE}:" in message


@pytest.mark.parametrize(
    ("given", "text"), [({"world_size": 3, "rank": 0}, "world_size=3"), ({"world_size": 2, "rank": 5}, "rank=5")]
)
def test_another_world_size_or_rank_than_that_of_the_job_is_refused(given, text, values):
    message = message_of(lambda: dist.init_process_group("nccl", **given), values=values)
    assert f"init_process_group at {HERE}:" in message
    assert f"has {text}; in this job it is " in message


def test_a_program_may_end_with_sys_exit(values):
    def ends(code):
        begin()
        dist.all_reduce(torch.ones(8, device="cuda"))
        sys.exit(code)

    cudalens.virtual.job(lambda: ends(0), "h100x2", values=values)
    assert "ended with exit code 3" in message_of(lambda: ends(3), values=values)


def test_a_program_that_ends_its_process_does_not_end_that_of_the_caller():
    before = os._exit
    cudalens.virtual.job(lambda: os._exit(0), "h100x2")
    assert "rank 0 ended with exit code 7" in message_of(lambda: os._exit(7))
    assert os._exit is before


def test_an_error_of_a_rank_names_it_and_is_the_last_that_does():
    def fails():
        rank, _ = begin()
        if rank == 1:
            raise ValueError("no such shard")

    before = sys.excepthook
    with pytest.raises(ValueError, match="no such shard") as error:
        cudalens.virtual.job(fails, "h100x2")
    assert error.value.__notes__ == ["In rank 1 of the job."]
    assert sys.excepthook is before  # torch's names rank 0 in all later errors


def test_both_lines_are_those_of_the_calls():
    message = message_of(order)
    assert f"rank 0 at {HERE}:{line_of(order, 'dist.all_reduce')}" in message
    assert f"rank 1 at {HERE}:{line_of(order, 'dist.broadcast', after=4)}" in message


def nccl_backend():
    begin()
    return dist.group.WORLD._get_backend(torch.device("cuda"))


def hooked():
    begin()
    return DistributedDataParallel(torch.nn.Linear(8, 8).cuda())


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda: dist.init_process_group("mpi"), "no backend 'mpi'"),
        (lambda: torch.cuda.nccl.all_reduce([begin()[1]]), "torch.cuda.nccl.all_reduce needs NCCL and a GPU"),
        (lambda: torch.cuda.nccl.reduce([begin()[1]]), "or the collectives of torch.distributed."),
        (lambda: symmetric_memory.empty(8, device=begin()[1].device), "needs NVSHMEM or symmetric memory"),
        (lambda: symmetric_memory.set_backend("NVSHMEM"), "set_backend needs NVSHMEM or symmetric memory"),
        (lambda: symmetric_memory.get_mem_pool("cuda"), "get_mem_pool needs NVSHMEM or symmetric memory"),
        (
            lambda: torch.ops.symm_mem.one_shot_all_reduce(begin()[1], "sum", "0"),
            "symm_mem::one_shot_all_reduce: it needs symmetric memory or NVSHMEM",
        ),
        (lambda: torch.ops.symm_mem.nvshmem_put(begin()[1], 1), "nvshmem_put: it needs symmetric memory or NVSHMEM"),
        (lambda: nccl_backend().mem_allocator, "mem_allocator makes memory that NCCL registers"),
        (lambda: nccl_backend().register_mem_pool(None), "register_mem_pool makes memory that NCCL registers"),
        (lambda: cpp_extension.load_inline("kernel", "", "__global__ void k() {}"), "cannot run code for a GPU"),
        (lambda: (begin(), dist.all_gather_object([None, None], 1)), "needs objects of all ranks"),
        (lambda: hooked().register_comm_hook(None, default_hooks.fp16_compress_hook), "needs values: the hook gets"),
        (
            lambda: hooked()._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS),
            "needs values: the hook",
        ),
        (lambda: (begin(), dist.recv(torch.ones(1, device="cuda"))), "recv without a source"),
    ],
)
def test_what_is_not_modelled_is_refused_with_its_reason(program, reason):
    assert reason in message_of(program)


def test_a_rank_that_uses_the_gpu_of_another_one_is_refused():
    def forgets_its_device():
        dist.init_process_group("nccl")
        dist.all_reduce(torch.ones(8, device="cuda") * dist.get_rank())

    assert "rank 1 communicates from cuda:0, which is the GPU of another rank" in message_of(forgets_its_device)
