"""Plans of layouts, the command, and what a simulated job shows."""

import os

import pytest
import torch
import torch.distributed as dist

import cudalens
from cudalens.__main__ import main
from cudalens.views.ranks.section import plan_section

SCRIPT = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
x = torch.ones(int(sys.argv[1]), device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
"""


def gather(dp, tp):
    """Gather over the second dimension; larger groups take longer."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if tp == 4:
        raise ValueError("four are too many")
    groups = [dist.new_group(list(range(first * tp, first * tp + tp))) for first in range(dp)]
    part = torch.ones(1 << 24, device="cuda")
    if tp > 1:
        dist.all_gather_into_tensor(torch.empty(tp << 24, device="cuda"), part, group=groups[0])


@pytest.fixture(scope="module")
def found():
    return cudalens.plan(gather, "h100x4", price_per_gpu_hour=3600.0)


def test_a_plan_has_all_layouts_with_the_fastest_first_and_those_that_fail_last(found):
    layouts = found.layouts
    assert list(zip(layouts["dp"], layouts["tp"], strict=True)) == [(4, 1), (2, 2), (1, 4)]
    assert layouts["step_ns"].iloc[0] < layouts["step_ns"].iloc[1]
    assert layouts["fits"].tolist() == [True, True, False]
    assert "four are too many" in layouts["error"].iloc[2]


def test_a_plan_names_the_best_and_its_cost(found):
    verdict = str(found).splitlines()[0]
    assert verdict.startswith("[simulated] dp 4 x tp 1 is the fastest layout that fits on h100x4: ")
    assert verdict.endswith(" % for the whole program.")  # it has no steps
    cheap = plan_section(found.layouts.assign(cost=2.5e-05), ["dp", "tp"], "h100x4")
    assert cheap.blocks[0].rows[0].cells[-1] == "0.000025"
    best = found.layouts.iloc[0]
    assert best["cost"] == pytest.approx(best["step_ns"] / 1e9 * 4)


def test_a_plan_shows_as_a_table_in_a_notebook_and_a_cost_only_with_a_price(found):
    assert "<th" in found._repr_html_()
    assert "cost" in str(found)
    assert "cost" not in str(cudalens.plan(gather, "h100x4", layouts=[{"dp": 4, "tp": 1}]))


def test_the_command_runs_a_script_with_its_arguments_on_every_rank(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert not main(["job", str(script), "1024", "--gpus", "h100x16"])
    text = capsys.readouterr().out
    assert not main(["job", str(script), "--gpus", "h100x16", "--", "1024", "--flag=1"])
    assert capsys.readouterr().out.splitlines()[0] == text.splitlines()[0]
    assert "on 16 GPUs" in text.splitlines()[0]
    assert "simulated" in text
    assert "InfiniBand 400 Gb/s per GPU" in text


def test_the_command_refuses_gpus_that_do_not_divide_over_nodes_in_one_line(tmp_path, capsys):
    script = tmp_path / "sums.py"
    script.write_text(SCRIPT)
    assert main(["job", str(script), "--gpus", "h100x10", "--nodes", "3"])
    message = capsys.readouterr().err
    assert "10 GPUs cannot be distributed evenly over 3 nodes" in message
    assert "Traceback" not in message
