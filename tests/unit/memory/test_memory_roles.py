"""Roles of blocks, derived from the live objects."""

from __future__ import annotations

import json

import pytest
import torch

import cudalens
from cudalens.memory.objects import can_look
from cudalens.memory.snapshot import storage_address

pytestmark = pytest.mark.usefixtures("device")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(256, 256)
        self.norm = torch.nn.BatchNorm1d(256)
        self.last = torch.nn.Linear(256, 256)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


@pytest.fixture
def trained():
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 256, device="cuda")
    model(x).sum().backward()
    optimizer.step()
    out = model(x)
    namespace = {"model": model, "optimizer": optimizer, "x": x, "out": out}
    return namespace, cudalens.memory_snapshot(keep=False, namespace=namespace)


def category_of(trace, tensor):
    device, address = storage_address(tensor)
    blocks = trace.blocks[(trace.blocks["state"] != "inactive").to_numpy()]
    (found,) = blocks["category"][((blocks["addr"] == address) & (blocks["device"] == device)).to_numpy()]
    return found


def test_parameters_gradients_and_optimizer_state(trained):
    held, trace = trained
    model, optimizer = held["model"], held["optimizer"]
    for parameter in model.parameters():
        assert category_of(trace, parameter) == "parameter"
        assert category_of(trace, parameter.grad) == "gradient"
        assert category_of(trace, optimizer.state[parameter]["exp_avg"]) == "optimizer state"
        assert category_of(trace, optimizer.state[parameter]["exp_avg_sq"]) == "optimizer state"
    assert category_of(trace, model.norm.running_mean) == "parameter"


def test_a_leaf_that_requires_gradients_is_a_parameter():
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)
    plain = torch.randn(64, 64, device="cuda")
    (plain @ weight).sum().backward()
    trace = cudalens.memory_snapshot(keep=False, namespace={"weight": weight, "plain": plain})
    assert category_of(trace, weight) == "parameter"
    assert category_of(trace, weight.grad) == "gradient"
    assert category_of(trace, plain) != "parameter"


@pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")
def test_inputs_and_activations(trained):
    held, trace = trained
    assert category_of(trace, held["x"]) == "input"
    assert category_of(trace, held["out"]) == "activation"
    blocks = trace.blocks
    saved = blocks[blocks["names"].astype(str).str.contains("out.grad_fn", regex=False).to_numpy()]
    unowned = saved[saved["names"].map(lambda text: json.loads(text)[0] == "out.grad_fn").to_numpy(bool)]
    assert len(unowned) >= 3  # what the norm, relu and last layer saved
    assert set(unowned["category"]) == {"activation"}


def test_workspaces_are_distinguished_from_tensors_of_their_size(trained):
    trace = trained[1]
    size = 4096 * 8 * 1024
    blocks = trace.blocks[(trace.blocks["num_bytes"] == size).to_numpy()]
    assert len(blocks)
    assert set(blocks["category"]) == {"workspace"}
    mine = torch.zeros(size, dtype=torch.uint8, device="cuda")
    again = cudalens.memory_snapshot(keep=False, namespace={"mine": mine})
    assert category_of(again, mine) != "workspace"


def test_a_released_graph_leaves_no_activation(trained):
    held, _ = trained
    held["out"].sum().backward()
    del held["out"]
    trace = cudalens.memory_snapshot(keep=False, namespace=held)
    assert "activation" not in set(trace.blocks["category"].dropna())


def test_checkpointed_activations_are_not_recomputed():
    calls = []

    def step(x):
        calls.append(x)
        return torch.relu(x * 2)

    x = torch.ones(256, device="cuda", requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(step, x, use_reentrant=False)
    num_calls, allocated = len(calls), torch.cuda.memory_allocated()
    cudalens.memory_snapshot(keep=False, namespace={"out": out})
    assert len(calls) == num_calls
    assert torch.cuda.memory_allocated() == allocated


def test_a_tensor_of_a_variable_without_a_role_is_a_variables():
    kept = torch.zeros(1 << 20, device="cuda")
    trace = cudalens.memory_snapshot(keep=False, namespace={"kept": kept})
    blocks = trace.blocks[(trace.blocks["state"] == "active_allocated").to_numpy()]
    assert set(blocks["category"]) == {"variable"}
    assert "at the end, by category" in str(trace.summary())
    assert "variable" in str(trace.summary())
