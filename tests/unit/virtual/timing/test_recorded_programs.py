"""Predicted times of whole recorded programs: kernel by kernel, from the recorded shapes."""

from pathlib import Path

import pytest
from recorded_calls import recorded_calls

from cudalens.gpus.registry import SPECS
from cudalens.virtual.timing.cost import kernel_work

RECORDED = Path(__file__).parents[5] / "shared" / "recorded" / "tracelens"
QWEN = RECORDED / "h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
BERT = RECORDED / "h100__gaunernst_bert-small-uncased__1016001.json.gz"

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
