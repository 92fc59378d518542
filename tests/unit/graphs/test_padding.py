"""Arguments whose lengths grow are padded to a few lengths, if the user says so."""

from __future__ import annotations

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.errors import GraphError
from cudalens.graphs import GraphManager, Pad


@pytest.fixture
def manager():
    with virtual.device("h100"):
        made = GraphManager(debug=True, eager_if_slower=False)
        yield made
        made.shutdown()


def _ids(length: int, rows: int = 2) -> torch.Tensor:
    return torch.arange(1, rows * length + 1, device="cuda").reshape(rows, length) % 7


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(8, 5, device="cuda")
        self.head = torch.nn.Linear(5, 8, device="cuda")

    def forward(self, input_ids, attention_mask=None):
        hidden = self.embedding(input_ids)
        if attention_mask is not None:
            hidden = hidden * attention_mask.unsqueeze(-1)
        return self.head(hidden.cumsum(1))


def test_growing_lengths_share_the_recordings_of_their_buckets(manager) -> None:
    model = _Model().eval()
    step = manager.wrap(model, pad={"input_ids": Pad(8, results=1)})
    with torch.no_grad():
        for length in range(1, 17):
            found = step(_ids(length))
            padded = torch.nn.functional.pad(_ids(length), (0, -length % 8))
            assert torch.equal(found, model(padded)[:, :length])
            assert found.shape == (2, length, 8)
            del found
    assert len(manager.nodes()) == 2
    assert step._function.counts.replays == 12


def test_a_mask_is_padded_with_the_value_that_is_stated(manager) -> None:
    model = _Model()
    pad = {"attention_mask": 4, "input_ids": Pad(4, value=3, results=1)}
    step = manager.wrap(model, pad=pad)
    with torch.no_grad():
        for length in (1, 2, 3, 4, 2):
            ids, mask = _ids(length), torch.ones(2, length, device="cuda")
            missing = -length % 4
            expected = model(
                torch.nn.functional.pad(ids, (0, missing), value=3), torch.nn.functional.pad(mask, (0, missing))
            )
            assert torch.equal(step(ids, attention_mask=mask), expected[:, :length])
    assert len(manager.nodes()) == 1


def test_gradients_are_those_of_the_padded_call(manager) -> None:
    weight = torch.nn.Parameter(torch.tensor([0.5, 2.0, 3.0], device="cuda"))
    step = manager.wrap(lambda x: (x * weight).cumsum(0), pad={"x": Pad(4, dim=0, results=0)})
    for length in (1, 3, 2, 4, 3):
        x = torch.rand(length, 3, device="cuda", requires_grad=True)
        other = x.detach().clone().requires_grad_()
        weight.grad = None
        step(x).sum().backward()
        found = x.grad, weight.grad
        weight.grad = None
        padded = torch.nn.functional.pad(other, (0, 0, 0, -length % 4))
        (padded * weight).cumsum(0)[:length].sum().backward()
        assert torch.equal(found[0], other.grad)
        assert torch.equal(found[1], weight.grad)


def test_a_call_that_runs_without_a_graph_gets_the_padded_argument_too(manager) -> None:
    step = manager.wrap(lambda x: (x.sum(), x.numel(), print(end="")), pad={"x": Pad(8, results={})})
    for _ in range(5):
        total, length, _ = step(torch.ones(5, device="cuda"))
        assert (total.item(), length) == (5.0, 8)


def test_a_result_of_the_padded_length_is_refused_until_it_is_stated_whether_it_is_cut(manager) -> None:
    step = manager.wrap(lambda x: (x.sum(), x * 2), pad={"x": 8})
    words = r"\[1\] has size \[8\].*padded from 5 to 8.*Pad\(8, results=0\).*results=\{\}"
    with pytest.raises(GraphError, match=words):
        step(torch.ones(5, device="cuda"))
    kept = manager.wrap(lambda x: (x.sum(), x * 2), pad={"x": Pad(8, results={})})
    assert kept(torch.ones(5, device="cuda"))[1].tolist() == [2.0] * 5 + [0.0] * 3
    cut = manager.wrap(lambda x: (x.sum(), x * 2), pad={"x": Pad(8, results={"[1]": 0})})
    assert cut(torch.ones(5, device="cuda"))[1].tolist() == [2.0] * 5


def test_a_result_whose_size_equals_the_padded_length_by_chance_is_not_cut(manager) -> None:
    """The eight classes are as many as the padded tokens."""
    model = _Model()
    step = manager.wrap(lambda input_ids: model(input_ids).sum(1), pad={"input_ids": Pad(8, results=1)})
    step_named = manager.wrap(
        lambda input_ids: {"logits": model(input_ids), "pooled": model(input_ids).sum(1)},
        pad={"input_ids": Pad(8, results={"['logits']": 1})},
    )
    with torch.no_grad():
        found = step_named(_ids(5))
        assert found["logits"].shape == (2, 5, 8)
        assert found["pooled"].shape == (2, 8)
        assert step(_ids(5)).shape == (2, 5)  # the user stated that dimension 1 is the length


def test_results_that_do_not_have_the_stated_dimension_are_refused(manager) -> None:
    step = manager.wrap(lambda x: (x * 2, x.sum()), pad={"x": Pad(8, results=0)})
    with pytest.raises(GraphError, match=r"\[1\] has size \[\], which has no dimension 0 of the length of 'x'"):
        step(torch.ones(5, device="cuda"))


def test_a_function_that_overwrites_its_padded_argument_is_refused(manager) -> None:
    step = manager.wrap(lambda x: x.add_(1).sum(), pad={"x": Pad(8, results={})})
    with pytest.raises(GraphError, match="overwrites 'x', which is padded"):
        step(torch.ones(5, device="cuda"))
    with torch.inference_mode(), pytest.raises(GraphError, match="overwrites 'x', which is padded"):
        step(torch.ones(5, device="cuda"))


def test_tensors_in_a_container_are_padded_by_its_name_or_their_own(manager) -> None:
    def step(batch):
        return batch["ids"].float().cumsum(1) + batch["shift"]

    named = manager.wrap(step, pad={"batch['ids']": Pad(4, results=1)})
    batch = {"ids": _ids(3), "shift": torch.ones(1, device="cuda")}
    assert torch.equal(named(batch), step(batch))
    assert batch["ids"].shape == (2, 3)
    together = manager.wrap(lambda batch: batch[0] + batch[1], pad={"batch": Pad(4, results=1)})
    assert torch.equal(together([_ids(3), _ids(3)]), 2 * _ids(3))
    with pytest.raises(GraphError, match="several lengths"):
        together([_ids(3), _ids(1)])


def test_arguments_that_are_not_there_and_options_that_make_no_sense_are_refused(manager) -> None:
    with pytest.raises(GraphError, match="called without such an argument; its arguments are x"):
        manager.wrap(lambda x: x + 1, pad={"y": 8})(torch.ones(3, device="cuda"))
    with pytest.raises(GraphError, match="has 1 dimensions"):
        manager.wrap(lambda x: x + 1, pad={"x": Pad(8, dim=1)})(torch.ones(3, device="cuda"))
    with pytest.raises(TypeError, match="both static and padded"):
        manager.wrap(lambda x: x + 1, pad={"x": 8}, static="x")
    with pytest.raises(TypeError, match="multiples"):
        cudalens.cudagraph(lambda x: x + 1, pad={"x": 0})
    with pytest.raises(TypeError, match="a dict of arguments"):
        cudalens.cudagraph(lambda x: x + 1, pad=["x"])


@pytest.mark.filterwarnings("ignore:cudalens.cudagraph:RuntimeWarning")
def test_a_machine_without_a_device_pads_as_well() -> None:
    step = cudalens.cudagraph(lambda x: (x.numel(), x * 2), pad={"x": Pad(4, results={"[1]": 0})})
    length, doubled = step(torch.ones(3))
    assert length == 4
    assert doubled.tolist() == [2.0] * 3


def test_the_decorator_pads() -> None:
    with virtual.device("h100"):

        @cudalens.cudagraph(pad={"x": Pad(4, results=0)}, eager_if_slower=False)
        def step(x):
            return x * 2

        for length in (1, 2, 3, 4, 3):
            assert step(torch.ones(length, device="cuda")).tolist() == [2.0] * length
        assert step.on(0)._function.counts.replays == 3
        cudalens.graphs.reset()
