"""Predicted times of whole recorded programs: kernel by kernel, from the recorded shapes."""

from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest
import torch
from recorded_calls import recorded_calls
from recorded_launches import recorded_launches

from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing.cost import kernel_work, kernel_works

RECORDED = Path(__file__).parents[5] / "shared" / "recorded"
QWEN = RECORDED / "tracelens" / "h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
BERT = RECORDED / "tracelens" / "h100__gaunernst_bert-small-uncased__1016001.json.gz"
RECOMMENDERS = {
    "a100": RECORDED / "hta" / "trace_diff__control.json.gz",
    "rank 0": RECORDED / "hta" / "timeline_analysis__sampled_rank-0.json.gz",
    "rank 1": RECORDED / "hta" / "trace_filter__sampled_rank-1.json.gz",
}

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="no recorded traces in ../shared/recorded")


def predicted_us(call):
    return kernel_work(SPECS["h100"], call.func, call.args, call.kwargs, call.out).duration_ns / 1e3


@pytest.mark.parametrize(("path", "covered"), [(QWEN, 0.6), (BERT, 0.95)], ids=["Qwen1.5-0.5B", "bert-small"])
def test_the_kernels_of_a_program_take_about_as_long_as_recorded(path, covered):
    calls, total_us = recorded_calls(path)
    recorded_us = sum(call.kernel_us for call in calls)
    assert recorded_us >= covered * total_us
    assert 0.8 <= sum(map(predicted_us, calls)) / recorded_us <= 1.25


def test_long_kernels_are_within_a_factor_of_two():
    calls, _ = recorded_calls(QWEN)
    ratios = [predicted_us(call) / call.kernel_us for call in calls if call.kernel_us >= 20]
    assert len(ratios) > 500
    assert sum(0.5 < ratio < 2 for ratio in ratios) >= 0.95 * len(ratios)


@pytest.fixture
def tf32():
    """The recorded products ran with TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize(("name", "within"), [("a100", 0.9), ("rank 0", 0.75), ("rank 1", 0.75)])
def test_kernels_of_a_training_take_about_as_long_as_recorded(name, within):
    """The GPU of the ranks is not named: 8-GPU jobs with kernels of compute capability 8.0."""
    launched = list(recorded_launches(RECOMMENDERS[name]))
    pairs = [(a100_us(found.call), found.call.kernel_us, found.is_alone) for found in launched]
    assert 0.8 <= sum(guess for guess, *_ in pairs) / sum(recorded for _, recorded, _ in pairs) <= 1.25
    ratios = [guess / recorded for guess, recorded, is_alone in pairs if is_alone and recorded >= 20]
    assert len(ratios) > 250
    assert sum(0.5 < ratio < 2 for ratio in ratios) >= within * len(ratios)


def a100_us(call):
    return (
        sum(work.duration_ns for work in kernel_works(SPECS["a100"], call.func, call.args, call.kwargs, call.out)) / 1e3
    )


@pytest.mark.usefixtures("tf32")
def test_no_time_by_shape_is_within_a_factor_of_two_of_most_kernels_beside_collectives():
    """The same call lasts longer beside a collective of another stream, which predictions by shape cannot contain."""
    launched = list(recorded_launches(RECOMMENDERS["a100"]))
    alone = defaultdict(list)
    for found in launched:
        if found.is_alone:
            alone[shape_of(found.call)].append(found.call.kernel_us)
    ratios = [
        median(alone[shape_of(found.call)]) / found.call.kernel_us
        for found in launched
        if not found.is_alone and found.call.kernel_us >= 20 and shape_of(found.call) in alone
    ]
    assert len(ratios) > 300
    assert sum(0.5 < ratio < 2 for ratio in ratios) < 0.5 * len(ratios)


def shape_of(call):
    return str(call.func), tuple(tuple(value.shape) for value in call.args if isinstance(value, torch.Tensor))
