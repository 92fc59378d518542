"""`cudalens.fit`: does a program fit on a GPU, with which batch, and what would make it fit?"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from training_programs import LanguageModel

import cudalens
from cudalens.errors import VirtualDeviceError
from cudalens.virtual import SPECS
from cudalens.virtual.fit.runs import MAX_BATCH, largest, largest_beyond, quick_collections

_THOROUGH = os.environ.get("CUDALENS_HYPOTHESIS") == "thorough"


def _trained(model, make_loss, optimizer=torch.optim.AdamW):
    optimizer = optimizer(model.parameters())

    def train():
        optimizer.zero_grad()
        make_loss().backward()
        optimizer.step()

    return train


def perceptron(batch):
    model = nn.Sequential(nn.Linear(4096, 16384), nn.ReLU(), nn.Linear(16384, 4096)).cuda()
    x = torch.randn(batch * 1024, 4096, device="cuda")
    return _trained(model, lambda: model(x).square().mean())


def language_model(batch):
    model, words = LanguageModel(32_000, 512, 8, 4).cuda(), torch.randint(0, 9, (batch, 512), device="cuda")
    return _trained(model, lambda: model.loss(words))


def language_model_bfloat16(batch):
    model = LanguageModel(32_000, 1024, 16, 4).to("cuda", torch.bfloat16)
    words = torch.randint(0, 9, (batch, 1024), device="cuda")
    return _trained(model, lambda: model.loss(words))


def language_model_with_checkpoints(batch):
    model = LanguageModel(32_000, 1024, 16, 4, checkpoints=False).cuda()
    words = torch.randint(0, 9, (batch, 1024), device="cuda")
    return _trained(model, lambda: model.loss(words))


def inference(batch):
    model = LanguageModel(8_000, 1024, 16, 4).cuda().half()
    words = torch.randint(0, 9, (batch * 8, 1024), device="cuda")

    def run():
        with torch.inference_mode():
            model(words)

    return run


def convolutions(batch):
    layers = [nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)]
    model = nn.Sequential(nn.Conv2d(3, 64, 7), *layers, nn.AdaptiveAvgPool2d(1)).cuda()
    x = torch.randn(batch * 4, 3, 512, 512, device="cuda")
    return _trained(model, lambda: model(x).square().mean(), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))


def encoder(batch):
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = nn.TransformerEncoder(layer, 4).cuda()
    x = torch.randn(batch * 8, 512, 512, device="cuda")
    return _trained(model, lambda: model(x).square().mean())


def recurrent(batch):
    model = nn.GRUCell(2048, 2048).cuda()
    x = torch.randn(8, batch * 1024, 2048, device="cuda")

    def loss():
        state = torch.zeros_like(x[0])
        for step in x:
            state = model(step, state)
        return state.square().mean()

    return _trained(model, loss)


def embeddings(batch):
    table, head = nn.Embedding(1_000_000, 256).cuda(), nn.Linear(256, 1000).cuda()
    rows = torch.randint(0, 9, (batch * 4096, 8), device="cuda")
    return _trained(nn.ModuleList([table, head]), lambda: head(table(rows).sum(1)).square().mean())


def autocast(batch):
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).cuda()
    x = torch.randn(batch * 2048, 2048, device="cuda")

    def loss():
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float().square().mean()

    return _trained(model, loss)


MODELS = {
    function.__name__: function
    for function in (
        perceptron,
        language_model,
        language_model_bfloat16,
        language_model_with_checkpoints,
        inference,
        convolutions,
        encoder,
        recurrent,
        embeddings,
        autocast,
    )
}
DEVICES = ("t4", "l4", "a100", "h100")


def _runs(model, spec, batch):
    """Whether two steps run without an error on a device."""
    with cudalens.virtual.device(spec, values=False):
        try:
            step = model(batch)
            step()
            step()
        except torch.OutOfMemoryError:
            return False
        return True


def _by_brute_force(model, spec):
    """The largest batch that fits, each batch tried in turn, up to eight that do not fit."""
    batch = found = 0
    with quick_collections():
        while batch - found < 8:
            batch += 1
            found = batch if _runs(model, spec, batch) else found
    return found


CASES = [(name, device) for name in MODELS for device in DEVICES]


@pytest.mark.parametrize(("name", "device"), CASES if _THOROUGH else [("convolutions", "t4")])
def test_the_largest_batch_is_that_of_brute_force(name, device):
    found = cudalens.fit(MODELS[name], devices=[device], batch=1).devices["largest_batch"].item()
    assert found == _by_brute_force(MODELS[name], device)


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 100, 1000])
@pytest.mark.parametrize("guess", [1, 5, 99, 101, 5000])
def test_the_search_finds_the_last_that_fits_from_any_guess(limit, guess):
    assert largest(lambda batch: batch <= limit, guess) == limit


@pytest.mark.parametrize("guess", [1, 70, 74, 75, 81, 94, 200])
def test_the_search_crosses_batches_that_are_more_fragmented(guess):
    """As measured: 74 fits, 75 to 79 reserve more than 80, and the tensors of 95 are too large."""

    def fits(batch):
        return batch <= 94 and not 75 <= batch <= 79

    assert largest_beyond(fits, lambda batch: batch <= 96, largest(fits, guess)) == 94


def test_the_search_ends_where_every_batch_fits():
    assert largest_beyond(lambda batch: True, lambda batch: True, largest(lambda batch: True, 5)) == MAX_BATCH


def _linear(batch):
    model = nn.Linear(8192, 8192, bias=False, device="cuda")
    x = torch.randn(batch * 256, 8192, device="cuda")
    return _trained(model, lambda: model(x).sum())


@pytest.fixture(scope="module")
def small():
    """A layer of 256 MiB."""
    return cudalens.fit(_linear, devices=["a100-40gb"], batch=16)


def test_the_memory_at_the_peak_has_every_category(small):
    row = small.devices.iloc[0]
    weight = 256 << 20
    assert (row["parameters_bytes"], row["gradients_bytes"], row["optimizer_bytes"]) == (weight, weight, 2 * weight)
    parts = [f"{name}_bytes" for name in ("activations", "temporary", "cache", "context")]
    assert row["total_bytes"] == 4 * weight + row[parts].sum()
    assert row["context_bytes"] == SPECS["a100"].context_bytes
    assert row["operator"].startswith("aten::_foreach")
    assert row["line"].startswith(f"{__file__}:")


def test_a_name_of_the_a100_with_40_gb(small):
    assert list(small.devices["device"]) == ["a100"]


def test_text_and_html_begin_with_the_answer(small):
    assert str(small).startswith("[simulated] A batch of 16 fits on 1 of 1 device: a100 (up to ")
    html = small._repr_html_()
    assert "fits on 1 of 1 device" in html
    assert "Memory at the peak" in html


def test_changes_that_make_it_fit_are_checked():
    found = cudalens.fit(encoder, devices=["t4"], batch=24)
    assert not found.devices["fits"].item()
    changes = found.changes.set_index("change")
    assert changes.loc["checkpoint the blocks", "fits"]
    assert changes.loc["checkpoint the blocks", "saves_bytes"] > 8 << 30
    whole = found.devices["total_bytes"].item()
    done = changes[changes["error"] == ""]
    smaller = found.devices["largest_batch"].item()
    same_batch = done.drop(index=f"a batch of {smaller}")
    assert (same_batch["saves_bytes"] == whole - same_batch["total_bytes"]).all()
    # The largest batch fits because cached memory is freed, which is not a saving of the smaller batch.
    assert (
        0 < done.loc[f"a batch of {smaller}", "saves_bytes"] <= whole - done.loc[f"a batch of {smaller}", "total_bytes"]
    )
    assert changes.loc[f"a batch of {smaller}", "fits"]


def test_what_fits_needs_no_more_than_the_device_has():
    """The cached block of the first tensor is freed where the second one needs its memory."""

    def step():
        torch.empty(11 << 30, dtype=torch.uint8, device="cuda")
        torch.empty(12 << 30, dtype=torch.uint8, device="cuda")

    found = cudalens.fit(step, devices=["t4", "h100"])
    t4, h100 = found.devices.to_dict("records")
    assert t4["fits"]
    assert h100["fits"]
    assert t4["total_bytes"] == (12 << 30) + t4["context_bytes"]
    assert h100["total_bytes"] == (23 << 30) + h100["context_bytes"]


def test_a_program_without_a_batch_has_no_largest_batch():
    found = cudalens.fit(lambda: torch.ones(1 << 20, device="cuda").sum(), devices=["t4"])
    assert found.devices["largest_batch"].isna().all()
    assert found.devices["fits"].item()


def test_a_value_that_the_program_reads_is_zero_and_its_line_is_named():
    losses = []

    def step():
        losses.append(torch.randn(10, device="cuda").sum().item())  # read here

    found = cudalens.fit(step, devices=["t4"])
    assert found.devices["fits"].item()
    assert set(losses) == {0.0}
    ((place, text),) = found.read_at
    assert place.startswith(f"{__file__}:")
    assert text.endswith("# read here")
    assert "test_fit.py:" in str(found)
    assert "got 0" in str(found)
    cudalens.fit(step, devices=["t4"], default=2.5)
    assert losses[-1] == 2.5


def test_a_program_that_reads_nothing_has_no_line_of_reads(small):
    assert small.read_at == []
    assert "No values are computed" not in str(small)


def test_a_value_that_the_program_reads_is_an_error_without_a_default():
    def step():
        return torch.randn(10, device="cuda").sum().item()

    with pytest.raises(VirtualDeviceError, match=r"line \d+ .*sum\(\)\.item"):
        cudalens.fit(step, devices=["t4"], default=None)


@pytest.mark.parametrize(
    "is_bad",
    [
        lambda x: not torch.isfinite(x).all(),
        lambda x: torch.isnan(x).any(),
        lambda x: not (~torch.isnan(x)).all(),
        lambda x: torch.isinf(x).any() or (x != x).any(),
        lambda x: not torch.isfinite(x.sum()),
    ],
)
def test_a_program_that_looks_for_nan_takes_the_branch_of_a_real_run(is_bad):
    def step():
        x = torch.randn(4, 1 << 16, device="cuda") * 2
        if is_bad(x):
            raise ValueError("the loss is not finite")

    assert cudalens.fit(step, devices=["t4"]).devices["fits"].item()


def test_arguments_that_are_not_valid():
    with pytest.raises(ValueError, match="batch of at least 1"):
        cudalens.fit(_linear, batch=0)
    with pytest.raises(VirtualDeviceError, match="No virtual device is named"):
        cudalens.fit(_linear, devices=["gtx"])
    with cudalens.virtual.device("t4"), pytest.raises(VirtualDeviceError, match="enables its own"):
        cudalens.fit(_linear)


def test_the_search_keeps_what_it_found_where_a_larger_batch_reads_an_unknown_value():
    def program(batch):
        x = torch.randn(batch, 1 << 20, device="cuda")
        if batch > 500 and x.sum().item() > 0:  # read here
            x = x * 2
        return (x * 2).sum()

    found = cudalens.fit(program, devices=["l4"], batch=4, default=None)
    (row,) = found.devices.to_dict("records")
    assert 4 <= row["largest_batch"] <= 500
    assert f"{__file__}, line" in row["stopped_by"]
    assert "at least up to" in str(found)
    assert "# read here" in " ".join(str(found).split())


def test_a_library_that_looks_at_a_mask_of_ones_takes_the_branch_of_a_real_run():
    def program(batch):
        mask = torch.ones(batch, 4096, dtype=torch.long, device="cuda")
        x = torch.randn(batch, 4096, device="cuda")
        return x.sum() if bool((mask == 1).all()) else (x @ x.T).sum()

    (row,) = cudalens.fit(program, devices=["l4"], batch=1000).devices.to_dict("records")
    assert row["operator"] != "aten::mm"
    assert row["largest_batch"] > 100_000
    assert row["stopped_by"] == ""
