"""Plans of layouts, the command, and what a simulated job shows."""

import os

import pytest
import torch
import torch.distributed as dist

import cudalens
from cudalens.__main__ import main
from cudalens.errors import VirtualDeviceError
from cudalens.views.ranks.simulated import plan_section
from cudalens.views.sections.unknown_values import UnknownValues

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
    cheap = plan_section(found.layouts.assign(cost=2.5e-05), ["dp", "tp"], "h100x4", UnknownValues())
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


def sum_once(dp, tp, repeats=2):
    """Sum as often as an option asks."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for _ in range(repeats):
        dist.all_reduce(torch.ones(1 << 20, device="cuda"))
    return [1][4 // dp - 1]


def test_arguments_with_a_default_value_are_not_sizes_of_a_layout():
    layouts = cudalens.plan(sum_once, "h100x4", layouts=[{"dp": 4, "tp": 1}]).layouts
    assert list(layouts.columns[:3]) == ["dp", "tp", "step_ns"]
    assert layouts["step_ns"].iloc[0] == cudalens.virtual.job(lambda: sum_once(4, 1), "h100x4").step_ns
    assert len(cudalens.plan(sum_once, "h100x2").layouts) == 2


def test_where_all_arguments_have_a_default_value_those_of_one_or_none_are_sizes():
    def train(dp=None, tp=1, repeats=2):
        sum_once(dp or int(os.environ["WORLD_SIZE"]), tp, repeats)

    layouts = cudalens.plan(train, "h100x2").layouts
    assert list(layouts.columns[:3]) == ["dp", "tp", "step_ns"]
    assert len(layouts) == 2


def test_a_layout_that_fails_with_an_error_of_its_own_does_not_end_the_plan():
    layouts = cudalens.plan(sum_once, "h100x4").layouts
    assert layouts["error"].isna().tolist() == [True, False, False]
    assert "IndexError" in layouts["error"].iloc[1]


def test_sizes_can_be_positional_only_and_keyword_only_arguments():
    def both(dp, steps=1, /, *, tp):
        assert steps == 1
        torch.ones(dp << 20, tp, device="cuda")

    def named(dp, tp):
        both(dp, tp=tp)

    frames = [cudalens.plan(one, "h100x4", layouts=[{"dp": 2, "tp": 2}]).layouts for one in (both, named)]
    assert frames[0].error.isna().all()
    assert frames[0].to_dict() == frames[1].to_dict()


def test_a_plan_in_which_no_layout_runs_or_nothing_is_done_says_so():
    def fails(dp):
        raise KeyError("no such size")

    assert str(cudalens.plan(fails, "h100x4")).splitlines()[0] == "[simulated] None of 1 layout runs on h100x4."
    assert "Nothing ran on h100x4" in str(cudalens.plan(lambda dp: None, "h100x4"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 3}, "4 GPUs cannot be distributed evenly over 3 nodes"),
        ({"layouts": [{"dp": 4, "pp": 1}]}, "expected sizes of dp, tp"),
        ({"layouts": [{"dp": 4}]}, "expected sizes of dp, tp"),
        ({"layouts": [(4, 1)]}, r"the layout \(4, 1\); expected sizes of dp, tp, as \{'dp': 4, 'tp': 1\}"),
        ({"price_per_gpu_hour": float("nan")}, "expected 0 or more"),
        ({"price_per_gpu_hour": -1.0}, "expected 0 or more"),
    ],
)
def test_options_that_no_layout_can_have_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        cudalens.plan(gather, "h100x4", **options)


def test_an_unknown_network_and_an_active_device_are_refused():
    with pytest.raises(VirtualDeviceError, match="no network 'token ring'"):
        cudalens.plan(gather, "h100x4", network="token ring")
    with cudalens.virtual.device("h100"), pytest.raises(VirtualDeviceError, match="one is active"):
        cudalens.plan(gather, "h100x4")
