"""A job accepts what torch's NCCL backend accepts, computes what NCCL computes, and raises torch's errors otherwise."""

import os
import sys

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as functional

import cudalens
from cudalens.errors import VirtualDeviceError
from tests.unit.virtual.jobs.programs_of_ranks import start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs with values fork")


def reduce_on_the_host():
    dist.all_reduce(torch.ones(3))


def reduce_on_the_host_by_a_function():
    functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)


def reduce_shorts():
    dist.all_reduce(torch.ones(3, dtype=torch.int16, device="cuda"))


def reduce_bits():
    dist.all_reduce(torch.ones(3, dtype=torch.int32, device="cuda"), op=ReduceOp.BAND)


def average_bools():
    dist.all_reduce(torch.ones(3, dtype=torch.bool, device="cuda"), op=ReduceOp.AVG)


def reduce_a_transposed_tensor():
    dist.all_reduce(torch.ones(3, 4, device="cuda").t())


def broadcast_a_column():
    dist.broadcast(torch.ones(3, 4, device="cuda")[:, 1], 0)


def gather_into_another_dtype():
    dist.all_gather_into_tensor(torch.empty(6, device="cuda"), torch.ones(3, device="cuda").half())


def gather_into_too_little():
    dist.all_gather_into_tensor(torch.empty(5, device="cuda"), torch.ones(3, device="cuda"))


def scatter_too_much():
    dist.reduce_scatter_tensor(torch.empty(3, device="cuda"), torch.ones(7, device="cuda"))


def exchange_other_sizes():
    dist.all_to_all_single(torch.empty(6, device="cuda"), torch.ones(4, device="cuda"))


def exchange_more_than_there_is():
    x = torch.ones(4, 2, device="cuda")
    dist.all_to_all_single(torch.empty_like(x), x, [2, 2], [3, 2])


def exchange_more_by_a_function():
    functional.all_to_all_single(torch.ones(4, 2, device="cuda"), [2, 2], [3, 2], dist.group.WORLD)


def exchange_with_three():
    x = torch.ones(4, 2, device="cuda")
    dist.all_to_all_single(torch.empty_like(x), x, [2, 1, 1], [2, 1, 1])


def gather_other_sizes_than_given():
    dist.all_gather([torch.empty(3, device="cuda"), torch.empty(5, device="cuda")], torch.ones(4, device="cuda"))


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (reduce_on_the_host, RuntimeError, "No backend type associated with device type cpu"),
        (reduce_on_the_host_by_a_function, RuntimeError, "No backend type associated with device type cpu"),
        (reduce_shorts, TypeError, "not supported for NCCL process group: Short"),
        (reduce_bits, ValueError, "Cannot use ReduceOp.BAND with NCCL"),
        (average_bools, TypeError, "Cannot use ReduceOp.AVG with boolean inputs"),
        (reduce_a_transposed_tensor, ValueError, "Tensors must be contiguous"),
        (broadcast_a_column, ValueError, "Tensors must be contiguous"),
        (gather_into_another_dtype, TypeError, "must have the same type"),
        (gather_into_too_little, ValueError, "must be equal to world_size times input tensor size"),
        (scatter_too_much, ValueError, "must be the same size as output size times world size"),
        (exchange_other_sizes, RuntimeError, "Tensors are not equal in size or data type"),
        (exchange_more_than_there_is, RuntimeError, "Split sizes doesn't match total dim 0 size"),
        (exchange_more_by_a_function, RuntimeError, "Split sizes doesn't match total dim 0 size"),
        (gather_other_sizes_than_given, ValueError, "must have the same number of elements"),
        (exchange_with_three, RuntimeError, "Number of tensor splits not equal to group size"),
    ],
)
def test_what_nccl_refuses_is_an_error_of_a_job(call, kind, message, values):
    def program():
        start()
        call()

    with pytest.raises(kind, match=message):
        cudalens.virtual.job(program, "h100x2", values=values)


def test_sparse_gradients_of_data_parallel_are_refused_as_by_nccl():
    def program():
        start()
        model = torch.nn.Embedding(10, 4, sparse=True).cuda()
        model = torch.nn.parallel.DistributedDataParallel(model)
        model(torch.zeros(5, dtype=torch.long, device="cuda")).sum().backward()

    with pytest.raises(RuntimeError, match="NCCL does not support all_reduce with sparse tensors"):
        cudalens.virtual.job(program, "h100x2", values=True)


@pytest.mark.parametrize("call", [lambda x: dist.broadcast(x, 7), lambda x: dist.reduce(x, -2)])
def test_a_root_that_the_group_does_not_have_is_named(call):
    def program():
        start()
        call(torch.ones(2, device="cuda"))

    with pytest.raises(VirtualDeviceError, match=r"has the root (7|-2), and its group has 2 ranks"):
        cudalens.virtual.job(program, "h100x2")


def test_tensors_of_the_host_are_accepted_beside_nccl_if_the_program_asks_for_gloo():
    def program():
        dist.init_process_group("cpu:gloo,cuda:nccl")
        x = torch.full((2,), float(dist.get_rank() + 1))
        dist.all_reduce(x)
        return x

    job = cudalens.virtual.job(program, "h100x2", values=True)
    assert all(one.tolist() == [3.0, 3.0] for one in job.results.values())


def results_of(call):
    """What `call` returns on two ranks, given the rank."""

    def program():
        start()
        return call(dist.get_rank())

    found = cudalens.virtual.job(program, "h100x2", values=True).results
    assert torch.equal(found[0], found[1])
    return found[0].tolist()


@pytest.mark.parametrize("sizes", [(2, 2, 3), (12,), (4, 3)])
def test_all_gather_fills_an_output_of_any_shape(sizes):
    def gather(rank):
        out = torch.empty(sizes, device="cuda")
        dist.all_gather_into_tensor(out, torch.full((2, 3), float(rank), device="cuda"))
        return out.view(-1)

    assert results_of(gather) == [0.0] * 6 + [1.0] * 6


def test_all_gather_of_tensors_of_different_sizes():
    def gather(rank):
        out = [torch.empty(size, device="cuda") for size in ((2,), (1, 3))]
        dist.all_gather(out, torch.full((2,) if rank == 0 else (1, 3), float(rank), device="cuda"))
        return torch.cat([one.flatten() for one in out])

    assert results_of(gather) == [0.0, 0.0, 1.0, 1.0, 1.0]


def test_all_gather_of_scalars():
    def gather(rank):
        out = torch.empty(2, device="cuda")
        dist.all_gather_into_tensor(out, torch.tensor(float(rank), device="cuda"))
        return out

    assert results_of(gather) == [0.0, 1.0]


@pytest.mark.parametrize("sizes", [(2, 2, 3), (12,), (4, 3)])
def test_reduce_scatter_divides_an_input_of_any_shape(sizes):
    def scatter(rank):
        out = torch.empty(2, 3, device="cuda")
        dist.reduce_scatter_tensor(out, torch.full(sizes, float(rank), device="cuda"))
        return out.view(-1)

    assert results_of(scatter) == [1.0] * 6


def reduce_bools(x):
    dist.all_reduce(x)
    return x


@pytest.mark.parametrize("reduce", [reduce_bools, lambda x: functional.all_reduce(x, "sum", dist.group.WORLD)])
def test_the_sum_of_bools_is_a_bool(reduce):
    def bits(rank):
        return reduce(torch.tensor([True, rank == 1, False], device="cuda")).view(torch.uint8)

    assert results_of(bits) == [1, 1, 0]


@pytest.mark.parametrize("operation", [ReduceOp.SUM, ReduceOp.AVG])
@pytest.mark.parametrize("root", [0, 2])
def test_a_reduce_leaves_the_tensors_of_other_ranks_alone(operation, root):
    def program():
        start()
        x = torch.full((2,), float(dist.get_rank()), device="cuda")
        dist.reduce(x, root, op=operation)
        return x

    found = cudalens.virtual.job(program, "h100x4", values=True).results
    wanted = {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0, root: 6.0 if operation == ReduceOp.SUM else 1.5}
    assert {rank: x.tolist() for rank, x in found.items()} == {rank: [x, x] for rank, x in wanted.items()}


def test_the_parts_of_a_mean_of_integers_are_rounded_towards_zero():
    def part(rank):
        out = torch.empty(2, dtype=torch.int64, device="cuda")
        given = torch.tensor([1, -4], device="cuda").repeat(2) + rank
        dist.reduce_scatter_tensor(out, given, op=ReduceOp.AVG)
        return out

    assert results_of(part) == [1, -3]


def test_options_with_a_mean_can_be_used_again():
    def means(rank):
        options, x = dist.AllreduceOptions(), torch.tensor([1.0, 2.0], device="cuda")
        options.reduceOp = ReduceOp.AVG
        for _ in range(2):
            dist.group.WORLD.allreduce([x], options).wait()
        return x

    assert results_of(means) == [1.0, 2.0]


def test_a_mean_of_integers_is_rounded_towards_zero():
    def mean(rank):
        x = torch.tensor([3, -4], device="cuda") + torch.tensor([rank, -rank], device="cuda")
        dist.all_reduce(x, op=ReduceOp.AVG)
        return x

    assert results_of(mean) == [3, -4]


@pytest.mark.parametrize("is_functional", [False, True])
def test_float8_tensors_are_moved(is_functional):
    def gather(rank):
        x = torch.full((2,), rank + 1.0, device="cuda").to(torch.float8_e4m3fn)
        if is_functional:
            return functional.all_gather_tensor(x, 0, dist.group.WORLD).float()
        out = torch.empty(4, dtype=torch.float8_e4m3fn, device="cuda")
        dist.all_gather_into_tensor(out, x)
        return out.float()

    assert results_of(gather) == [1.0, 1.0, 2.0, 2.0]


def test_a_sum_of_float8_needs_no_values():
    def program():
        start()
        dist.all_reduce(torch.ones(4, device="cuda").to(torch.float8_e4m3fn))

    with pytest.raises(VirtualDeviceError, match="float8_e4m3fn at test_nccl_rules"):
        cudalens.virtual.job(program, "h100x2", values=True)
    assert cudalens.virtual.job(program, "h100x2").step_ns > 0


def sum_of_pairs():
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    options.config.max_ctas = 8
    gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if dist.is_nccl_available() else "gloo", device_id=gpu, pg_options=options)
    every = dist.new_group(range(4), pg_options=options)
    pair = dist.split_group(split_ranks=[[0, 1], [2, 3]], pg_options=options)
    x, y = torch.full((2, 3), float(dist.get_rank()), device=gpu)
    dist.all_reduce(x, group=every)
    dist.all_reduce(y, group=pair)
    return dist.get_backend(), x[0].item(), y[0].item(), dist.get_process_group_ranks(pair)


def test_options_of_nccl_and_groups_that_split_work():
    """Builds of torch without CUDA have no ProcessGroupNCCL; a job has it, and leaves nothing behind."""
    before = dist.is_nccl_available(), hasattr(dist, "ProcessGroupNCCL"), dist.split_group
    results = cudalens.virtual.job(sum_of_pairs, "h100x4", values=True).results

    assert [*results.values()] == [("nccl", 6.0, 1.0, [0, 1])] * 2 + [("nccl", 6.0, 5.0, [2, 3])] * 2
    assert len(cudalens.virtual.job(sum_of_pairs, "h100x4")) == 4
    assert (dist.is_nccl_available(), hasattr(dist, "ProcessGroupNCCL"), dist.split_group) == before


def split_without_a_device():
    start()
    dist.split_group(split_ranks=[[0], [1]])


def split_a_part():
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    dist.split_group(dist.new_group([0]), [[0]])


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        (split_without_a_device, RuntimeError, "No device associated with the default pg"),
        (split_a_part, VirtualDeviceError, r"split_group\(\) at .*test_nccl_rules.py:\d+ splits a group that does not"),
        (lambda: dist.ProcessGroupNCCL(None, 0, 1), VirtualDeviceError, "makes a communicator of NCCL by itself"),
    ],
    ids=["without a device", "part", "made by hand"],
)
def test_what_cannot_be_split_or_made_by_hand_is_refused(program, kind, message):
    with pytest.raises(kind, match=message):
        cudalens.virtual.job(program, "h100x2")
