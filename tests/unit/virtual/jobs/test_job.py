"""Simulated jobs of many ranks: data parallel and sharded training without values."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import cudalens
from cudalens.frames import Ranks
from tests.unit.virtual.jobs.programs_of_ranks import WIDTH, Block, data_parallel, sharded, start, train

PARAMETER_BYTES = 4 * 2 * (8 * WIDTH * WIDTH + 5 * WIDTH)


@pytest.fixture(scope="module")
def ddp():
    return cudalens.virtual.job(data_parallel, "h100x16")


@pytest.fixture(scope="module")
def fsdp():
    return cudalens.virtual.job(sharded, "h100x16")


def test_ranks_that_do_the_same_run_once_and_are_ranks_like_any_others(ddp):
    assert isinstance(ddp, Ranks)
    assert (len(ddp), ddp.ran) == (16, (0,))
    assert ddp[9].info.rank == 9
    assert ddp[9].info.host == "node1"
    assert ddp[9].info.source == "virtual:h100"
    collectives = ddp.analysis.collectives
    assert set(collectives["members"]) == {16}
    assert set(collectives["confidence"]) == {"high"}


def test_a_program_that_uses_no_gpu_is_told_so():
    answer = str(cudalens.virtual.job(lambda: nn.Linear(2, 2), "h100x2").summary()).splitlines()[0]
    assert answer.startswith("[simulated] Nothing ran on the 2 GPUs: ")


def test_a_copied_rank_works_on_its_own_gpu(ddp):
    for rank, gpu in ((5, 5), (11, 3)):
        assert set(ddp[rank].events["device"].dropna()) == {gpu}
        assert set(ddp[rank].memory.query("device_type == 'cuda'")["device"]) == {gpu}
        assert ddp[rank].events["device"].isna().equals(ddp[0].events["device"].isna())  # calls of the host have none
    collectives = ddp.frames["collectives"]
    assert (collectives["device"] == collectives["rank"] % 8).all()


def test_ddp_sums_all_gradients_in_buckets_during_the_backward_pass(ddp):
    found = ddp.analysis.collectives
    of_one_step = found[(found["rank"] == 3) & (found["step"] == 1)]
    assert set(of_one_step["kind"]) == {"allreduce"}
    assert of_one_step["num_bytes"].sum() == PARAMETER_BYTES
    assert len(of_one_step) > 2
    events = ddp[3].events
    kernels = events[(events["cat"] == "kernel") & (events["step"] == 1)]
    products = kernels[kernels["name"].str.contains("mm")]
    first = kernels[kernels["collective"].notna()].iloc[0]
    assert first["ts"] < products["ts"].max()  # the last product runs after the first collective has begun
    assert first["stream"] not in set(products["stream"])


def test_a_static_graph_with_an_unused_parameter_sums_the_gradients_in_every_step():
    def program():
        start()
        model = nn.ModuleList([Block(64), Block(64)]).cuda()
        model.forward = model[0].forward
        train(DistributedDataParallel(model, static_graph=True), batch=8, width=64)

    found = cudalens.virtual.job(program, "h100x4").analysis.collectives
    sums = found[found["rank"] == 0].groupby("step")["num_bytes"].sum()
    assert sums.loc[[0, 1]].tolist() == [4 * 2 * (2 * 4 * 64 * 64 + 5 * 64)] * 2


def test_a_step_lasts_as_long_as_its_products_and_what_of_communication_they_do_not_hide(ddp):
    found = ddp.frames["collectives"]
    communication_ns = found[(found["rank"] == 0) & (found["step"] == 1)]["dur"].sum()
    step = ddp.analysis.steps.query("rank == 0 and step == 1").iloc[0]
    assert step["compute_ns"] < step["step_ns"] < step["compute_ns"] + communication_ns
    assert ddp.step_low_ns < ddp.step_ns < ddp.step_high_ns


def test_the_optimizer_is_a_part_of_the_step(ddp):
    events = ddp[3].events
    optimizer = events[events["name"].str.startswith("Optimizer.step") & (events["cat"] == "user_annotation")]
    assert optimizer["step"].tolist() == [0, 1]
    assert ddp.frames["steps"]["step"].dropna().nunique() == 2


def test_fsdp2_gathers_parameters_twice_and_scatters_gradients_once(fsdp):
    found = fsdp.frames["collectives"]
    of_one_step = found[(found["rank"] == 15) & (found["step"] == 1)]
    by_kind = of_one_step.groupby("kind", observed=True)["num_bytes"].sum()
    assert by_kind["reducescatter"] == PARAMETER_BYTES
    assert PARAMETER_BYTES < by_kind["allgather"] <= 2 * PARAMETER_BYTES
    assert of_one_step["stream"].nunique() == 2


def test_sharded_parameters_take_less_memory(ddp, fsdp):
    assert list(fsdp.memory["rank"]) == list(range(16))
    assert fsdp.fits
    assert fsdp.memory["allocated_bytes"].max() < ddp.memory["allocated_bytes"].max() - PARAMETER_BYTES / 2


def test_a_slow_gpu_is_named_with_what_the_job_loses(fsdp):
    slow = cudalens.virtual.job(sharded, "h100x16", slow_gpus={5: 1.5})
    loss_ns = slow.step_ns - fsdp.step_ns
    first = slow.analysis.stragglers.found[0]
    assert "rank 5 " in str(slow.summary()).splitlines()[0]
    assert str(slow.summary()).count("the job loses") == 1
    assert set(slow.frames["summary"]["num_steps"]) == {slow.num_steps}
    assert "recorded" not in str(slow.summary())
    assert first.loss_ns == pytest.approx(loss_ns, rel=0.2)
    assert loss_ns > 0.2 * fsdp.step_ns


def wide():
    """DistributedDataParallel of blocks whose products take longer than their collectives."""
    start()
    train(DistributedDataParallel(nn.Sequential(*(Block() for _ in range(8))).cuda()), batch=8192)


@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
def test_the_traces_of_a_slow_gpu_alone_show_what_data_parallel_loses(factor):
    """Also where the waiting collectives of the other ranks make their backward pass slower."""
    usual, slow = (cudalens.virtual.job(wide, "h100x4", slow_gpus=gpus) for gpus in ({}, {2: factor}))
    loaded = Ranks(dict(slow), name="loaded")  # without what only the simulation knows
    first = loaded.analysis.stragglers.found[0]
    assert first.rank == 2
    assert first.loss_ns == pytest.approx(slow.step_ns - usual.step_ns, rel=0.1)


def test_a_rank_that_waits_for_one_that_waits_for_the_slow_gpu_does_not_hide_the_loss():
    def program():
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicas", "shards"))
        model = nn.Sequential(*(nn.Linear(2048, 2048, device="cuda") for _ in range(4)))
        for layer in (*model, model):
            fully_shard(layer, mesh=mesh)
        train(model, batch=4096)

    usual, slow = (cudalens.virtual.job(program, "h100x4", slow_gpus=gpus) for gpus in ({}, {3: 1.4}))
    first = slow.analysis.stragglers.found[0]
    assert first.rank == 3
    assert first.loss_ns == pytest.approx(slow.step_ns - usual.step_ns, rel=0.1)


@pytest.mark.parametrize("factor", [1.0, 1.1, 1.5])
def test_kernels_beside_a_collective_have_the_other_sms(factor):
    """NCCL uses 24 of 132 SMs, also while its kernel waits for a rank that is slower than that or not as much."""
    events = cudalens.virtual.job(wide, "h100x4", slow_gpus={2: factor})[0].events
    collectives = events[events["collective"].notna() & (events["cat"] == "kernel")]
    products = events[events["name"].str.contains("::mm") & (events["grid"] == "[4096,1,1]")]
    busy = [(ts, ts + dur) for ts, dur in zip(collectives["ts"], collectives["dur"], strict=True)]
    alone, beside = [], []
    for ts, dur in zip(products["ts"], products["dur"], strict=True):
        if any(start <= ts and ts + dur <= end for start, end in busy):
            beside.append(dur)
        elif not any(start < ts + dur and ts < end for start, end in busy):
            alone.append(dur)
    assert alone
    assert max(alone) == min(alone)
    assert all(dur == pytest.approx(alone[0] * 132 / 108, rel=1e-3) for dur in beside)
    assert beside or factor == 1.0


@pytest.mark.parametrize("steps", [1, 2])
def test_an_evaluation_after_the_last_step_of_the_optimizer_is_not_a_step(steps):
    def program(num_evaluations):
        start()
        model = DistributedDataParallel(Block().cuda())
        train(model, steps=steps)
        with torch.no_grad():
            for _ in range(num_evaluations):
                model(torch.randn(2048, WIDTH, device="cuda"))

    plain, evaluated = (cudalens.virtual.job(partial(program, count), "h100x2") for count in (0, 5))
    assert (plain.num_steps, evaluated.num_steps) == (steps - 1, steps - 1)
    assert evaluated.analysis.steps["step"].nunique() == steps - 1
    assert evaluated.analysis.steps["compute_ns"].tolist() == plain.analysis.steps["compute_ns"].tolist()
    if steps == 1:  # all of the program
        assert evaluated.step_ns > plain.step_ns
        assert str(evaluated.summary()).startswith("[simulated] The program takes")
    else:
        assert evaluated.step_ns == plain.step_ns == evaluated.analysis.stragglers.step_ns


def test_a_slow_link_is_named_with_what_the_job_loses(fsdp):
    slow = cudalens.virtual.job(sharded, "h100x16", slow_links={1: 4.0})
    loss_ns = slow.step_ns - fsdp.step_ns
    (loss,) = slow.losses.itertuples()
    assert (loss.what, loss.where) == ("slow link", 1)
    assert loss.loss_ns == pytest.approx(loss_ns, abs=2)
    assert loss_ns > 0.1 * fsdp.step_ns
    assert "the links of node 1 are 4 times slower: the job loses" in str(slow.summary()).splitlines()[0]


def test_jitter_costs_what_ranks_wait_for_the_slowest_of_them(fsdp):
    noisy = cudalens.virtual.job(sharded, "h100x16", jitter=0.3)
    loss_ns = noisy.step_ns - fsdp.step_ns
    (loss,) = noisy.losses.itertuples()
    assert (loss.what, loss.amount) == ("jitter", 0.3)
    assert loss.loss_ns == pytest.approx(loss_ns, abs=2)  # both are medians of the same steps
    assert loss_ns > 0.02 * fsdp.step_ns
    assert "the times of kernels vary by 30 %" in str(noisy.summary()).splitlines()[0]
    assert noisy.analysis.steps["wait_ns"].sum() > fsdp.analysis.steps["wait_ns"].sum()


def test_each_slow_part_has_its_own_loss_and_a_usual_job_has_none(fsdp):
    assert fsdp.losses.empty
    slow = cudalens.virtual.job(sharded, "h100x16", slow_gpus={5: 1.5, 6: 1.0001}, slow_links={1: 4.0})
    losses = slow.losses.set_index(["what", "where"])["loss_ns"]
    assert losses["slow GPU", 5] > 0.1 * fsdp.step_ns
    assert abs(losses["slow GPU", 6]) < 0.01 * fsdp.step_ns
    assert losses["slow link", 1] > 0.1 * fsdp.step_ns
    rows = [line.split("  ")[0].strip() for line in str(slow.summary()).splitlines()]
    assert "0 to 4, 7" in [" ".join(row.split()) for row in rows]


def test_ranks_that_do_the_same_share_a_row_and_a_picture(fsdp):
    text, html = str(fsdp.summary()), fsdp.summary()._repr_html_()
    assert text.splitlines()[-1].startswith("0 to 15 ")
    assert "clock" not in text
    assert html.count("<svg") == 2


def union_ns(rows):
    """Time in which at least one of these ran."""
    total, reached = 0, -1
    for begin, end in sorted(zip(rows["ts"], rows["ts"] + rows["dur"], strict=True)):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total


def with_work_before_the_module(on_rank, work):
    """Data-parallel training in which one rank works on something else between two steps."""
    start()
    model = DistributedDataParallel(Block().cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = torch.ones(4096, WIDTH)
    x = given.cuda()
    for _ in range(3):
        if torch.distributed.get_rank() == on_rank:
            work(given)
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def multiply(given):
    wide = given.cuda()
    for _ in range(6):
        wide @ wide.T


def test_work_between_two_steps_belongs_to_the_next_one():
    """Before the first call of a module, as where a batch is prepared: the other ranks wait for it."""
    job = cudalens.virtual.job(partial(with_work_before_the_module, 1, multiply), "h100x4")
    assert "; rank 1 is slow: the job loses " in str(job.summary()).splitlines()[0]
    events = job[1].events
    kernels = events[events["cat"] == "kernel"]
    kernels = kernels[~kernels["name"].astype(str).str.contains("nccl")]
    mine = job.analysis.steps.query("rank == 1")
    assert mine["compute_ns"].sum() == union_ns(kernels)
    assert (mine["idle_ns"] < 0.01 * mine["step_ns"]).all()
    assert kernels["step"].notna().all()


def test_copies_between_two_steps_are_not_idle_time():
    job = cudalens.virtual.job(
        partial(with_work_before_the_module, 2, lambda given: [given.cuda() for _ in range(3)]), "h100x4"
    )
    assert "; rank 2 is slow: the job loses " in str(job.summary()).splitlines()[0]
    mine = job.analysis.steps.query("rank == 2")
    copies = job[2].events.query("cat == 'gpu_memcpy'")
    from_host = copies[copies["name"].astype(str).str.contains("HtoD")]
    assert mine["copy_ns"].sum() >= union_ns(from_host) > 5_000_000
    assert (mine["idle_ns"] < 0.02 * mine["step_ns"]).all()


def scan(given):
    torch.empty(16384, 8192, device="cuda").logcumsumexp(0)


def test_an_operator_that_no_other_rank_runs_has_no_factor():
    job = cudalens.virtual.job(partial(with_work_before_the_module, 3, scan), "h100x4")
    assert "  from traces  rank 3 alone spends time in aten::logcumsumexp: the job loses " in str(job.summary())
