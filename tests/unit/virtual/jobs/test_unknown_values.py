"""Programs of jobs that read values which are not computed, or write files with them."""

import os
import re

import pytest
import torch
import torch.distributed as dist
from torch import nn

import cudalens
from cudalens.__main__ import main
from cudalens.errors import VirtualDeviceError
from tests.unit.virtual.jobs.programs_of_ranks import start

READING = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(1 << 20, device="cuda")
dist.all_reduce(x)
print("the loss is", x.sum().item())
"""


def on_one_line(shown):
    """The text of what is shown, without the breaks of its lines."""
    return re.sub(r"\s+", " ", str(shown))


def reads_its_loss(steps=2):
    start()
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 64, device="cuda")).sum()
        loss.backward()
        dist.all_reduce(model.weight.grad)
        if not torch.isfinite(loss):
            raise ValueError("the loss is not finite")
        losses.append(loss.item())  # read here
        optimizer.step()
    assert losses == [0.0] * steps


def test_a_job_reads_zero_and_names_the_line():
    job = cudalens.virtual.job(reads_its_loss, "h100x16")
    ((place, text),) = job.read_at
    assert place.startswith(f"{__file__}:")
    assert text.endswith("# read here")
    assert re.search(r"test_unknown_values\.py:\d+ \(losses.append.* got 0\. ", on_one_line(job.summary()))
    assert "got 0. " in on_one_line(job.summary()._repr_html_())


def test_a_job_reads_another_default_or_none():
    numbers = []

    def program():
        start()
        numbers.append(torch.randn(8, device="cuda").sum().item())

    assert "got 2.5. " in on_one_line(cudalens.virtual.job(program, "h100x2", default=2.5).summary())
    assert set(numbers) == {2.5}
    with pytest.raises(VirtualDeviceError, match=r"line \d+ .*sum\(\)\.item"):
        cudalens.virtual.job(program, "h100x2", default=None)


def test_lines_of_all_ranks_that_ran_are_named():
    def program():
        start()
        x = torch.randn(8, device="cuda").sum()
        if dist.get_rank() == 1:
            x.item()  # by rank 1
        else:
            bool(x > 0)  # by the others

    texts = [text for _, text in cudalens.virtual.job(program, "h100x4").read_at]
    assert texts == ["bool(x > 0)  # by the others", "x.item()  # by rank 1"]


def test_a_job_that_reads_nothing_has_no_such_line():
    def program():
        start()
        torch.randn(8, device="cuda").sum()

    job = cudalens.virtual.job(program, "h100x2")
    assert job.read_at == []
    assert "No values are computed" not in on_one_line(job.summary())


def test_a_job_with_values_reads_them():
    def program():
        start()
        return torch.full((4,), 2.0, device="cuda").sum().item()

    job = cudalens.virtual.job(program, "h100x2", values=True)
    assert job.results == {0: 8.0, 1: 8.0}
    assert job.read_at == []


def test_a_line_that_waits_for_another_value_is_an_error():
    def program():
        start()
        is_done = torch.zeros(1, device="cuda").bernoulli_()
        while not is_done.item():
            pass

    with pytest.raises(VirtualDeviceError, match=r"while not is_done.item\(\).* has read 0 100,000 times"):
        cudalens.virtual.job(program, "h100x2")


def test_a_plan_reads_zero_and_names_the_line():
    def train(dp, tp):
        reads_its_loss(dp * tp)

    plan = cudalens.plan(train, "h100x4")
    assert plan.layouts["error"].isna().all()
    ((_, text),) = plan.read_at
    assert text.endswith("# read here")
    assert re.search(r"test_unknown_values\.py:\d+ \(losses.append.* got 0\. ", on_one_line(plan))
    assert cudalens.plan(train, "h100x4", default=None).layouts["error"].str.contains("not torch.isfinite").all()


def test_the_command_reads_zero_and_names_the_line(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(READING)
    assert main(["job", str(script), "--gpus", "h100x4"]) in (0, None)
    assert re.search(r"train\.py:6 \(print.*\) got 0\. ", on_one_line(capsys.readouterr().out))


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"of an earlier run")
    return path


def saves(path):
    start()
    model = nn.Linear(64, 64, device="cuda")
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "step": 3}, path)
    dist.barrier()
    return model


def test_a_file_with_values_that_are_not_computed_is_not_written_and_counted(checkpoint):
    job = cudalens.virtual.job(lambda: saves(checkpoint), "h100x16")
    assert checkpoint.read_bytes() == b"of an earlier run"
    ((path, (place, text)),) = job.unwritten.items()
    assert path == str(checkpoint)
    assert place.startswith(f"{__file__}:")
    assert text.startswith("torch.save(")
    assert re.search(
        r"1 file is not written, .*: \S*test_unknown_values\.py:\d+ \(torch\.save", on_one_line(job.summary())
    )


def test_a_plan_and_fit_do_not_write_it_either(checkpoint):
    plan = cudalens.plan(lambda dp, tp: saves(checkpoint), "h100x2")
    assert plan.layouts["error"].isna().all()
    assert "1 file is not written, " in on_one_line(plan)

    def step():
        torch.save(torch.randn(8, device="cuda"), checkpoint)

    found = cudalens.fit(step, devices=["t4"])
    assert found.devices["fits"].all()
    assert list(found.unwritten) == [str(checkpoint)]
    assert "1 file is not written, " in on_one_line(found)
    assert checkpoint.read_bytes() == b"of an earlier run"


def test_a_file_with_known_values_is_written(tmp_path):
    def program():
        start()
        if dist.get_rank() == 0:
            torch.save({"step": 3, "ones": torch.ones(4, device="cuda")}, tmp_path / "state.pt")

    job = cudalens.virtual.job(program, "h100x2")
    assert torch.load(tmp_path / "state.pt", map_location="cpu")["ones"].tolist() == [1.0] * 4
    assert not job.unwritten


def test_loading_a_file_that_was_not_written_is_an_error_with_both_lines(checkpoint):
    def program():
        saves(checkpoint).load_state_dict(torch.load(checkpoint)["model"])

    with pytest.raises(
        VirtualDeviceError, match=r"torch\.load.*model\.pt.*torch\.save at \S*test_unknown_values\.py:\d+"
    ):
        cudalens.virtual.job(program, "h100x2")


@pytest.mark.parametrize("default", [None, 0.0])
def test_outside_of_a_report_saving_is_an_error_that_leaves_the_file(checkpoint, default):
    with cudalens.virtual.device("h100", values=False, default=default):
        model = nn.Linear(64, 64, device="cuda")
        with pytest.raises(VirtualDeviceError, match=r"What torch\.save writes is needed at .*values=True") as caught:
            torch.save(model.state_dict(), checkpoint)
    assert "A default number does not replace it" in str(caught.value)
    assert checkpoint.read_bytes() == b"of an earlier run"


def test_saving_to_an_open_file_is_an_error_that_names_the_path_as_the_way_out(tmp_path):
    def program():
        start()
        with open(tmp_path / os.environ["RANK"], "wb") as file:
            torch.save(nn.Linear(64, 64, device="cuda").state_dict(), file)

    with pytest.raises(VirtualDeviceError, match="to an open file"):
        cudalens.virtual.job(program, "h100x2")
