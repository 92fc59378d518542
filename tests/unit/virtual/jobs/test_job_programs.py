"""Programs of torch.distributed in jobs without values: what each rank holds, and what its collectives are."""

import os
import re
import subprocess
import sys
import threading
from datetime import timedelta
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.distributed.rpc
import torch.multiprocessing
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import cudalens
from cudalens.errors import VirtualDeviceError

SIZE = 4


def begin():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return dist.get_rank()


def run_all(program):
    return cudalens.virtual.job(program, f"h100x{SIZE}", run_ranks="all")


def collectives_of(job, rank):
    return job.frames["collectives"].query(f"rank == {rank}")


def test_each_rank_has_its_own_part_of_an_uneven_dtensor():
    found = {}

    def uneven():
        mesh = init_device_mesh("cuda", (SIZE,))
        x = distribute_tensor(torch.ones(10, 6, device="cuda"), mesh, [Shard(0)])
        doubled = x * 2
        again = doubled.redistribute(placements=[Replicate()]).redistribute(placements=[Shard(0)])
        found[dist.get_rank()] = doubled.device_mesh.get_coordinate()[0], len(x.to_local()), len(again.to_local())

    run_all(uneven)
    assert found == {0: (0, 3, 3), 1: (1, 3, 3), 2: (2, 3, 3), 3: (3, 1, 1)}


def test_the_norm_of_all_gradients_is_reduced_once():
    """``Tensor.to`` of a DTensor to the device where it is gives the DTensor itself: its parts are not added up."""

    def clip():
        begin()
        mesh = init_device_mesh("cuda", (SIZE,))
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
        for layer in model:
            fully_shard(layer, mesh=mesh)
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        grad = model[0].weight.grad
        assert grad.to(grad.device) is grad
        assert grad.to(grad.device, torch.float64).placements == grad.placements
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    kinds = collectives_of(run_all(clip), 1)["kind"].tolist()
    assert kinds.count("allreduce") == 1


def test_batches_of_all_ranks_are_normalised_together_in_three_collectives_of_a_step():
    def normalise():
        rank = begin()
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).cuda()
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        model(torch.randn(2 + rank, 3, 8, 8, device="cuda")).sum().backward()

    found = collectives_of(run_all(normalise), 3)
    # mean, inverse deviation and count of each rank; then the sums of two gradients of each channel
    assert found["kind"].tolist() == ["allgather", "allreduce"]
    assert found["num_bytes"].tolist() == [4 * SIZE * (2 * 8 + 1), 4 * 2 * 8]


POSITIONS = {
    "mesh.get_local_rank": lambda mesh: mesh.get_local_rank("dp"),
    "mesh.get_coordinate": lambda mesh: mesh.get_coordinate()[0],
    "group.rank": lambda mesh: mesh.get_group("dp").rank(),
    "GROUP_RANK": lambda mesh: int(os.environ["GROUP_RANK"]),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_a_rank_that_reads_its_position_or_its_node_has_its_own_memory(name):
    def holds_more_at_first():
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
        x = torch.ones((8 if POSITIONS[name](mesh) == 0 else 4) << 20, device="cuda")
        dist.all_reduce(x[:1])

    job = cudalens.virtual.job(holds_more_at_first, f"h100x{SIZE}", nodes=2)
    assert job.ran == (0, 1, 2, 3)
    assert job.memory["allocated_bytes"].tolist() == [32 << 20, 32 << 20, 16 << 20, 16 << 20]


def sharded_linear():
    """A layer of 1030 rows, which 4 or 12 ranks do not divide, and one of 9, of which some of 12 ranks have none."""
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    model = fully_shard(nn.Sequential(nn.Linear(515, 1030), nn.Linear(1030, 9)).cuda(), mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.ones(16, 515, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_ranks_that_hold_less_of_what_fsdp_divides_run_by_themselves():
    job, whole = cudalens.virtual.job(sharded_linear, f"h100x{SIZE}"), run_all(sharded_linear)
    assert job.step_ns == whole.step_ns
    assert job.memory["allocated_bytes"].tolist() == whole.memory["allocated_bytes"].tolist()
    many, each = (
        cudalens.virtual.job(sharded_linear, "h100x12", nodes=2, run_ranks=which) for which in ("auto", "all")
    )
    assert many.ran == (0, 9, 11)  # the last rank has fewer of the 1030 rows, and the last three none of the 9
    assert many.step_ns == each.step_ns
    assert many.memory["allocated_bytes"].tolist() == each.memory["allocated_bytes"].tolist()


def test_the_note_of_copied_ranks_names_those_that_were_compared():
    def reads():
        sizes = {20: 4}
        dist.all_reduce(torch.ones(sizes.get(begin(), 8), device="cuda"))

    job = cudalens.virtual.job(reads, "h100x12", nodes=2)
    assert job.ran == (0,)
    assert "were compared only on ranks 1 and 11" in job.note
    assert re.search(r"what depends on the rank after test_job_programs\.py:\d+ is not known", job.note)


def test_lists_of_uneven_tensors_are_exchanged():
    rows = [[1, 2, 3, 4], [4, 1, 1, 2], [0, 5, 1, 0], [2, 2, 2, 2]]

    def exchange():
        rank = begin()
        sent = [torch.ones(number, 3, device="cuda") for number in rows[rank]]
        received = [torch.empty(rows[other][rank], 3, device="cuda") for other in range(SIZE)]
        dist.all_to_all(received, sent)

    job = run_all(exchange)
    assert [int(collectives_of(job, rank)["out_elements"].iloc[0]) for rank in range(SIZE)] == [21, 30, 21, 24]


def test_lists_that_do_not_fit_together_are_found():
    def exchange():
        rank = begin()
        sent = [torch.ones(2 + (rank == 1), device="cuda") for _ in range(SIZE)]
        dist.all_to_all([torch.empty(2, device="cuda") for _ in range(SIZE)], sent)

    with pytest.raises(VirtualDeviceError, match="differs in its splits: rank 0 at"):
        run_all(exchange)


@pytest.mark.parametrize("values", [False, True])
def test_a_group_that_not_all_ranks_make_is_found(values):
    def leaves_a_rank_out():
        rank = begin()
        if rank < 3:
            dist.new_group([0, 1, 2])

    def makes_its_own_pair():
        rank = begin()
        dist.new_group([0, 1] if rank < 2 else [2, 3])

    with pytest.raises(VirtualDeviceError, match=r"test_job_programs\.py:\d+"):
        cudalens.virtual.job(leaves_a_rank_out, f"h100x{SIZE}", values=values)
    pairs = r"process group 1 of the job differs: rank \d calls new_group at .* for ranks \d, \d; rank \d calls"
    with pytest.raises(VirtualDeviceError, match=pairs):
        cudalens.virtual.job(makes_its_own_pair, f"h100x{SIZE}", values=values)


def test_a_group_that_only_its_ranks_make_is_accepted():
    def makes_its_own_pair():
        pair = [0, 1] if begin() < 2 else [2, 3]
        dist.all_reduce(torch.ones(4, device="cuda"), group=dist.new_group(pair, use_local_synchronization=True))

    assert collectives_of(run_all(makes_its_own_pair), 3)["group_ranks"].tolist() == ["[2, 3]"]


def test_all_ranks_meet_in_a_monitored_barrier():
    def meets(is_alone):
        rank = begin()
        group = dist.new_group(backend="gloo")
        if not is_alone or rank == 0:
            dist.monitored_barrier(group, timeout=timedelta(seconds=5))

    assert len(collectives_of(run_all(lambda: meets(False)), 1)) == 1
    with pytest.raises(VirtualDeviceError, match="the job hangs"):
        run_all(lambda: meets(True))


def test_the_states_of_a_divided_optimizer_cannot_be_collected_without_values():
    def collect():
        begin()
        model = DistributedDataParallel(nn.Linear(8, 8).cuda())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.consolidate_state_dict()

    with pytest.raises(VirtualDeviceError, match="consolidate_state_dict needs objects of all ranks"):
        run_all(collect)


def test_a_rank_has_the_environment_that_torchrun_gives_it():
    found = []

    def read():
        found.append({name: os.environ[name] for name in ("ROLE_RANK", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID")})
        assert dist.is_torchelastic_launched()
        begin()

    cudalens.virtual.job(read, "h100x4", nodes=2, run_ranks=[0, 3])
    assert found == [
        {"ROLE_RANK": "0", "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"},
        {"ROLE_RANK": "3", "GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"},
    ]
    assert "ROLE_RANK" not in os.environ


@pytest.mark.parametrize("values", [False, True])
def test_process_groups_can_be_made_again(values):
    def makes_them_twice():
        for _ in range(2):
            begin()
            x = torch.ones(4, device="cuda")
            dist.all_reduce(x)
            dist.destroy_process_group()
        return x

    job = cudalens.virtual.job(makes_them_twice, f"h100x{SIZE}", values=values)
    assert len(collectives_of(job, 2)) == 2
    assert all(torch.equal(found, torch.full((4,), 4.0)) for found in job.results.values())


class TwoParts(nn.Module):
    """Two layers, of which the second one can be left out."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, has_second=True):
        x = self.first(x)
        return self.second(x) if has_second else x


def test_a_model_that_is_checkpointed_as_a_whole_sums_its_gradients_once_in_each_step():
    def recompute():
        begin()
        model = DistributedDataParallel(TwoParts().cuda())
        for _ in range(3):
            x = torch.ones(4, 8, device="cuda", requires_grad=True)
            checkpoint(model, x, use_reentrant=False).sum().backward()

    assert collectives_of(run_all(recompute), 1)["kind"].tolist().count("allreduce") == 3


def test_parameters_without_a_gradient_are_named_in_a_later_step():
    def leaves_out():
        begin()
        model = DistributedDataParallel(TwoParts().cuda())
        for step in range(4):
            model(torch.ones(4, 8, device="cuda"), step != 2).sum().backward()

    with pytest.raises(RuntimeError, match=r"did not receive a gradient: second\.weight, second\.bias"):
        run_all(leaves_out)


INTERRUPTED = """
import os, signal, sys
import torch, torch.distributed as dist
import cudalens

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo.utils":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())

def train():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    model(torch.ones(4, 8, device="cuda")).sum().backward()

try:
    cudalens.virtual.job(train, "h100x2")
except KeyboardInterrupt:
    print("interrupted,", len(cudalens.virtual.job(train, "h100x2")), "ranks")
"""


def test_an_interrupt_while_torch_is_imported_does_not_break_later_jobs():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted, 2 ranks\n"


def test_memory_that_another_thread_allocates_does_not_delay_the_program():
    def train(has_loader):
        begin()
        model = DistributedDataParallel(nn.Linear(64, 64).cuda())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            if has_loader:  # such as the thread of a DataLoader with pin_memory=True
                thread = threading.Thread(target=partial(torch.empty, 1024 << step, pin_memory=True))
                thread.start()
                thread.join()
            model(torch.ones(8, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    with_loader, without = (run_all(partial(train, has_loader)) for has_loader in (True, False))
    assert with_loader.step_ns == without.step_ns


def test_a_rank_does_not_read_what_another_one_has_set():
    read = []

    def sets():
        begin()
        read.append(os.environ.setdefault("FOLDER", f"folder_{dist.get_rank()}"))

    cudalens.virtual.job(sets, "h100x2", run_ranks="all")
    assert read == ["folder_0", "folder_1"]
    assert "FOLDER" not in os.environ


@pytest.mark.parametrize("values", [False, True])
def test_processes_that_load_batches_end_as_without_a_job(values):
    def train():
        begin()
        data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2))
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2, pin_memory=True)
        return [batch.cuda(non_blocking=True).cpu() for (batch,) in loader]

    job = cudalens.virtual.job(train, "h100x2", values=values)
    if values:
        assert torch.equal(torch.cat(job.results[1]), torch.arange(12.0).reshape(6, 2))


def spawns():
    torch.multiprocessing.spawn(begin, nprocs=2)


def calls_others():
    torch.distributed.rpc.init_rpc("worker", rank=0, world_size=4)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(
    ("program", "message"),
    [(spawns, r"spawn at test_job_programs.py:\d+ starts the ranks"), (calls_others, "rpc at .* functions of other")],
)
def test_programs_that_start_or_call_other_processes_are_refused(program, message, values):
    with pytest.raises(VirtualDeviceError, match=message):
        cudalens.virtual.job(program, f"h100x{SIZE}", values=values)


def test_fsdp2_keeps_its_parameters_on_the_host():
    """Only a layer at a time is on the GPU: without the policy, the parameters, their moments and gradients are."""
    width, num_layers = 2048, 3

    def trains(policy):
        mesh = init_device_mesh("cuda", (SIZE,))
        model = nn.Sequential(*[nn.Linear(width, width, device="meta") for _ in range(num_layers)])
        for layer in model:
            fully_shard(layer, mesh=mesh, offload_policy=policy)
        fully_shard(model, mesh=mesh, offload_policy=policy)
        model.to_empty(device="cpu" if isinstance(policy, CPUOffloadPolicy) else "cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(4, width, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    offloaded, kept = (run_all(lambda p=policy: trains(p)) for policy in (CPUOffloadPolicy(), OffloadPolicy()))
    assert cudalens.virtual.active() is None
    shard = num_layers * width * width * 4 // SIZE
    peaks = [job.memory["allocated_bytes"].max() for job in (offloaded, kept)]
    assert peaks[1] - peaks[0] > 2 * shard


@pytest.mark.parametrize("values", [False, True])
def test_fsdp2_parameters_get_the_initial_values_of_their_modules(values):
    def program():
        mesh = init_device_mesh("cuda", (2,))
        with torch.device("meta"):
            model = nn.Linear(64, 32)
        fully_shard(model, mesh=mesh)
        model.to_empty(device="cuda")
        model.reset_parameters()
        bound = 64**-0.5
        return [model.weight.full_tensor().abs().max().item() / bound, model.weight.to_local().shape] if values else []

    results = cudalens.virtual.job(program, "h100x2", values=values).results
    for largest, shape in results.values():
        assert 0.9 < largest <= 1
        assert shape == (16, 64)
