"""Operations of convolutions, against torch's own count and against TraceLens' reports of the same recordings."""

import json

import pytest
import torch
from recorded_traces import needs_recorded, opened
from torch.utils.flop_counter import conv_flop_count

from cudalens.analysis import roofline
from cudalens.analysis.time.operator_shapes import count_convolution

SETTINGS = {
    "plain": {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "transposed": False, "groups": 1},
    "strided": {"stride": [2, 3], "padding": [1, 2], "dilation": [1, 1], "transposed": False, "groups": 1},
    "dilated": {"stride": [1, 1], "padding": [2, 2], "dilation": [2, 2], "transposed": False, "groups": 1},
    "grouped": {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "groups": 2},
    "transposed": {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "transposed": True, "groups": 1},
}


def case(name):
    """Source, weight and result of a convolution, and its values as torch writes them."""
    one = SETTINGS[name]
    source, weight = torch.randn(2, 4, 9, 11), torch.randn(4, 6 if one["transposed"] else 4 // one["groups"], 3, 3)
    extra = [1, 1] if one["transposed"] else [0, 0]
    result = torch.convolution(
        source, weight, None, one["stride"], one["padding"], one["dilation"], one["transposed"], extra, one["groups"]
    )
    values = [one[key] for key in ("stride", "padding", "dilation", "transposed")] + [extra, one["groups"]]
    return source, weight, result, [str(value) for value in values]


@pytest.mark.parametrize("name", SETTINGS)
def test_forward_is_torchs_count(name):
    source, weight, result, values = case(name)
    shapes = [list(source.shape), list(weight.shape), *[[]] * 7]
    found = count_convolution("aten::convolution", shapes, json.dumps(["", "", "", *values]))
    is_transposed = SETTINGS[name]["transposed"]
    wanted = conv_flop_count(source.shape, weight.shape, result.shape, transposed=is_transposed)
    assert found == (result.numel(), wanted)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("mask", [[True, True, False], [False, True, False], [True, False, True]])
def test_backward_has_a_convolution_for_each_gradient_of_a_tensor(name, mask):
    source, weight, result, values = case(name)
    shapes = [list(one.shape) for one in (result, source, weight)]
    texts = json.dumps(["", "", "", "[0]", *values, str(mask)])
    found = count_convolution("aten::convolution_backward", [*shapes, *[[]] * 8], texts)
    assert found.result == source.numel() * mask[0] + weight.numel() * mask[1]
    once = conv_flop_count(source.shape, weight.shape, result.shape, transposed=SETTINGS[name]["transposed"])
    assert found.flops == sum(mask[:2]) * once


@pytest.mark.parametrize("values", [None, "[]", '["", "", "", "x", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]', "{"])
def test_nothing_is_claimed_without_the_settings(values):
    assert count_convolution("aten::convolution", [[1, 3, 8, 8], [4, 3, 3, 3], *[[]] * 7], values) is None


#: GFLOP of one call, and TFLOP/s over all calls, of TraceLens' CONV_fwd tables.
REPORTED = {
    "tracelens/mi300__google_owlv2-large-patch14-ensemble__1016001.json.gz": (6.242697216, 5 * 6242.697216 / 517.8994),
    "tracelens/mi300__facebook_timesformer-base-finetuned-k400__1016002.json.gz": (29.595009024, 76.66276),
    "tracelens/mi300__Falconsai_nsfw_image_detection__1016002.json.gz": (0.924844032, 17.41155),
}


@needs_recorded
@pytest.mark.parametrize("name", REPORTED)
def test_recorded_convolutions_reach_what_tracelens_reports(name):
    frame = roofline(opened(name))
    (row,) = frame[frame["name"] == "aten::_convolution"].to_dict("records")
    per_call, rate = REPORTED[name]
    assert row["flops"] == pytest.approx(row["count"] * per_call * 1e9)
    assert row["flops_per_s"] == pytest.approx(rate * 1e12, rel=1e-4)
