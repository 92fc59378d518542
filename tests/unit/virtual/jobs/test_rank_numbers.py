"""Programs in which some ranks of a large job do something else, and the numbers by which they are found."""

import copy
import json
import os
import pickle
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.jobs import followed_code
from cudalens.virtual.jobs.rank_numbers import RankReads
from tests.unit.virtual.jobs.programs_of_ranks import start

NUM_RANKS = 16
LARGE, SMALL = 4 << 20, 1 << 20


def by_rank_text():
    return int(os.environ["RANK"]) == 3


def by_text():
    return os.environ["RANK"] == "3"


def by_get_rank():
    return dist.get_rank() == 3


def by_group():
    return dist.new_group(range(NUM_RANKS)).rank() + 1 == 4


def by_constant_set():
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ["WORLD_SIZE"])
    return rank in {3, 40} and rank < size


def by_range():
    return dist.get_rank() in range(3, 4)


def by_gpu():
    return int(os.environ["LOCAL_RANK"]) % 8 == 3


def by_current_gpu():
    return torch.cuda.current_device() == 3


def by_node():
    return bool(int(os.environ["GROUP_RANK"]))


def by_mesh():
    mesh = init_device_mesh("cuda", (4, 4), mesh_dim_names=("dp", "tp"))
    return mesh.get_coordinate()[0] == 1 and mesh.get_local_rank("tp") > 2


LARGE_RANKS = {
    by_rank_text: [3],
    by_text: [3],
    by_get_rank: [3],
    by_group: [3],
    by_constant_set: [3],
    by_range: [3],
    by_gpu: [3, 11],
    by_current_gpu: [3, 11],
    by_node: [8, 9, 10, 11, 12, 13, 14, 15],
    by_mesh: [7],
}


@pytest.mark.parametrize("is_large", LARGE_RANKS, ids=lambda one: one.__name__)
def test_a_rank_in_the_middle_that_does_something_else_is_found(is_large):
    def program():
        start()
        x = torch.ones(LARGE if is_large() else SMALL, device="cuda")
        dist.all_reduce(x[:8])

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    held = job.memory.set_index("rank")["allocated_bytes"]
    assert held[held == 4 * LARGE].index.tolist() == LARGE_RANKS[is_large]
    assert set(held) == {4 * LARGE, 4 * SMALL}
    assert set(LARGE_RANKS[is_large][:1]) <= set(job.ran)
    assert len(job.ran) < NUM_RANKS


def test_a_rank_that_only_waits_for_its_gpu_is_not_a_copy():
    def program():
        start()
        model = nn.Linear(2048, 2048, device="cuda")
        for _ in range(3):
            y = model(torch.ones(2048, 2048, device="cuda"))
            if dist.get_rank() == 3:
                torch.cuda.synchronize()
            dist.all_reduce(y)

    job, each = (cudalens.virtual.job(program, f"h100x{NUM_RANKS}", run_ranks=which) for which in ("auto", "all"))
    assert job.ran == (0, 3)
    assert job.step_ns == each.step_ns


def sends_less():
    dist.all_reduce(torch.ones(4 if dist.get_rank() == 11 else 8, device="cuda"))


def leaves_early():
    if int(os.environ["RANK"]) != 11:
        dist.all_reduce(torch.ones(8, device="cuda"))


def sums_with_others():
    groups = [dist.new_group(range(8)), dist.new_group(range(8, NUM_RANKS))]
    own = groups[dist.get_rank() // 8]
    dist.all_reduce(torch.ones(8, device="cuda"), group=None if dist.get_rank() == 11 else own)


@pytest.mark.parametrize("mistake", [sends_less, leaves_early, sums_with_others])
def test_a_mistake_of_a_rank_in_the_middle_is_found(mistake):
    def program():
        start()
        mistake()

    with pytest.raises(VirtualDeviceError, match=r"rank 11 (at|has ended)"):
        cudalens.virtual.job(program, f"h100x{NUM_RANKS}")


def test_a_program_that_only_chooses_its_gpu_runs_once():
    def program():
        dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
        gpu = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(gpu)
        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).to(gpu), device_ids=[gpu])
        model(torch.ones(4, 8, device=torch.device(f"cuda:{gpu}"))).sum().backward()

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert job.ran == (0,)
    assert "is not known" not in job.note


def test_the_note_says_that_uses_of_the_number_of_a_gpu_were_not_compared():
    job = cudalens.virtual.job(start, f"h100x{NUM_RANKS}")
    assert job.ran == (0,)
    assert re.search(r"uses of the GPU's number, read at .*\.py:\d+, other than comparisons .* not compared", job.note)


def test_the_note_names_where_the_rank_is_read():
    def program():
        start()
        assert dist.get_rank() >= 0

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert re.search(r"compared only on ranks 1 and 15 \(it is read at .*test_rank_numbers\.py:\d+\)", job.note)


def test_ranks_that_ran_to_be_compared_have_sent_nothing_when_they_run_again():
    """Rank 15, at the end of the list, does something else: then all ranks run, and read what the others sent once."""

    def program():
        start()
        rank = dist.get_rank()
        size = ([256] * 15 + [512])[rank]
        got = [0]
        if 0 < rank < 3:
            dist.recv_object_list(got, src=rank - 1)
        if rank < 2:
            dist.send_object_list([got[0] + size], dst=rank + 1)
        model = nn.Linear(size, size + got[0], device="cuda")
        for _ in range(3):
            model(torch.ones(size, size, device="cuda"))
            dist.all_reduce(torch.ones(8, device="cuda"))

    job, each = (cudalens.virtual.job(program, f"h100x{NUM_RANKS}", run_ranks=which) for which in ("auto", "all"))
    assert job.ran == each.ran == tuple(range(NUM_RANKS))
    assert job.step_ns == each.step_ns
    assert job.memory.equals(each.memory)


def test_a_rank_that_is_compared_is_not_recorded_and_its_errors_name_it():
    def program():
        start()
        assert [*[True] * 15, False][dist.get_rank()], "the last one"

    with pytest.raises(AssertionError, match="the last one") as raised:
        cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert raised.value.__notes__ == ["In rank 15 of the job."]


SIZES_OF_GPUS = [SMALL] * 3 + [LARGE] * 5


def at_an_index():
    torch.ones(SIZES_OF_GPUS[int(os.environ["LOCAL_RANK"])], device="cuda")


def at_a_stored_index():
    gpu = torch.cuda.current_device()
    sizes = [SMALL, LARGE, SMALL, LARGE] * 2
    torch.ones(sizes[gpu], device="cuda")


def at_an_index_in_a_function_inside():
    gpu = int(os.environ["LOCAL_RANK"])

    def size():
        return SIZES_OF_GPUS[gpu]

    torch.ones(size(), device="cuda")


def of_a_size_from_arithmetic():
    torch.ones(SMALL * (1 + int(os.environ["LOCAL_RANK"])), device="cuda")


@pytest.mark.parametrize(
    "use", [at_an_index, at_a_stored_index, at_an_index_in_a_function_inside, of_a_size_from_arithmetic]
)
@pytest.mark.parametrize("num_gpus", [8, NUM_RANKS])
def test_numbers_of_gpus_that_decide_sizes_are_followed(use, num_gpus):
    def program():
        start()
        use()

    job, each = (cudalens.virtual.job(program, f"h100x{num_gpus}", run_ranks=which) for which in ("auto", "all"))
    assert job.memory.allocated_bytes.tolist() == each.memory.allocated_bytes.tolist()
    assert each.memory.allocated_bytes.nunique() > 1


@pytest.mark.skipif(not os.supports_bytes_environ, reason="the environment has no bytes here")
def test_the_environment_has_bytes():
    def program():
        start()
        assert os.environb[b"RANK"] == os.environ["RANK"].encode()
        torch.ones(LARGE if int(os.environb[b"RANK"]) == 3 else SMALL, device="cuda")

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert "is not known" in job.note
    assert cudalens.virtual.job(program, "h100x8").memory.allocated_bytes.nunique() == 2


def test_the_note_names_ints_that_a_later_python_does_not_follow(monkeypatch):
    monkeypatch.setattr(followed_code, "_IS_KNOWN", False)

    def program():
        start()
        torch.ones(LARGE if int(os.environ["RANK"]) == 3 else SMALL, device="cuda")

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert re.search(r"what depends on the rank after .*test_rank_numbers\.py:\d+.* is not known", job.note)


def test_code_that_asks_for_the_type_of_a_rank_gets_an_int_and_is_in_the_note():
    def program():
        start()
        rank = dist.get_rank()
        assert type(rank) is int
        torch.ones(LARGE if rank == 3 else SMALL, device="cuda")

    job = cudalens.virtual.job(program, f"h100x{NUM_RANKS}")
    assert "is not known" in job.note


def test_the_functions_of_a_program_have_their_own_code_after_a_job():
    code = by_rank_text.__code__
    cudalens.virtual.job(lambda: by_rank_text(), "h100x16")
    assert by_rank_text.__code__ is code


def test_ranks_in_the_same_list_are_alike():
    group, other = [1, 2], range(2, 4)
    for answer, alike in ((lambda rank: rank in group, [1, 2]), (lambda rank: rank not in other, [0, 1])):
        for own in alike:
            reads = RankReads(own, 4)
            assert answer(reads.number(range(4)))
            assert reads.alike.nonzero()[0].tolist() == alike


def test_groups_that_a_loop_makes_do_not_make_ranks_different():
    def program():
        start()
        rank = dist.get_rank()
        for first in range(0, NUM_RANKS, 4):
            ranks = list(range(first, first + 4))
            group = dist.new_group(ranks)
            if rank in ranks:
                own = group
        dist.all_reduce(torch.ones(8, device="cuda"), group=own)

    assert cudalens.virtual.job(program, f"h100x{NUM_RANKS}").ran == (0, 4, 8, 12)


def test_ranks_that_compare_numbers_of_their_own_do_not_all_run():
    def program():
        start()
        if dist.get_rank() in range(dist.get_world_size()):  # compares one number after the other
            dist.all_reduce(torch.ones(8, device="cuda"))

    job = cudalens.virtual.job(program, "h100x48")
    assert len(job.ran) < 20
    assert "31 ranks with other answers to comparisons did not run" in job.note


def test_a_rank_is_an_int_in_everything_else():
    rank = RankReads(2, 4).number(range(4))
    assert isinstance(rank, int)
    assert (f"{rank}", f"{rank:03d}", repr(rank), json.dumps([rank])) == ("2", "002", "2", "[2]")
    assert type(pickle.loads(pickle.dumps(rank))) is int
    assert copy.deepcopy([rank])[0] is rank
    assert [10, 20, 30][rank] == 30
    assert {2: "two"}[rank] == "two"
    assert torch.full((rank,), rank).tolist() == [2, 2]
    assert torch.tensor(rank).dtype == torch.int64
    assert (rank / 4, rank**2, divmod(7, rank), rank * 0.5, hash(rank)) == (0.5, 4, (3, 1), 1.0, 2)


@pytest.mark.parametrize(
    ("answer", "alike"),
    [
        (lambda rank: rank == 2, [2]),
        (lambda rank: rank != 2, [2]),
        (lambda rank: rank < 2, [2, 3]),
        (lambda rank: rank > 1, [2, 3]),
        (lambda rank: rank >= 2.5, [0, 1, 2]),
        (lambda rank: bool(rank), [1, 2, 3]),
        (lambda rank: (rank + 1) % 3 == 0, [2]),
        (lambda rank: 3 - rank == 1, [2]),
        (lambda rank: rank // 2 == 1, [2, 3]),
        (lambda rank: rank & 1 == 0, [0, 2]),
        (lambda rank: -rank == -2, [2]),
        (lambda rank: 1 << rank > 2, [2, 3]),
        (lambda rank: rank * rank == 4, [2]),
        (lambda rank: max(rank, 1) == 2, [2]),
        (lambda rank: rank in (1, 3), [0, 2]),
        (lambda rank: rank == "2", [0, 1, 2, 3]),
        (lambda rank: rank - rank == 0, [0, 1, 2, 3]),
    ],
)
def test_ranks_with_the_same_answers_are_alike(answer, alike):
    reads = RankReads(2, 4)
    assert answer(reads.number(range(4))) == answer(2)
    assert reads.alike.nonzero()[0].tolist() == alike
