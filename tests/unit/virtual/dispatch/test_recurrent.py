"""Recurrent layers: one operator of cuDNN, with the values and gradients of the CPU's operators."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import cudalens.virtual

LAYERS = {
    "gru": lambda: nn.GRU(5, 7),
    "two layers": lambda: nn.GRU(5, 7, num_layers=2),
    "both directions": lambda: nn.GRU(5, 7, num_layers=2, bidirectional=True),
    "batch first": lambda: nn.GRU(5, 7, batch_first=True),
    "without bias": lambda: nn.GRU(5, 7, bias=False),
    "tanh": lambda: nn.RNN(5, 7, num_layers=2),
    "relu": lambda: nn.RNN(5, 7, nonlinearity="relu", bidirectional=True, batch_first=True),
    "double": lambda: nn.GRU(5, 7).double(),
    "lstm": lambda: nn.LSTM(5, 7, num_layers=2, bidirectional=True, batch_first=True),
    "lstm in double": lambda: nn.LSTM(5, 7, bias=False).double(),
    "projected": lambda: nn.LSTM(5, 9, num_layers=2, proj_size=7, bidirectional=True),
}


def run(make, place, *, is_packed=False, steps=1):
    """Results, gradients and the layout of the output after a step of SGD."""
    torch.manual_seed(0)
    layer = make()
    dtype = next(layer.parameters()).dtype
    x = torch.randn(4, 3, 5, dtype=dtype)
    batch = 4 if layer.batch_first else 3
    state = torch.randn(layer.num_layers * (1 + layer.bidirectional), batch, 7, dtype=dtype)
    layer, x, state = layer.to(place), x.to(place).requires_grad_(), state.to(place).requires_grad_()
    cells = torch.randn(*state.shape[:2], layer.hidden_size, dtype=dtype).to(place).requires_grad_()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    found = []
    for _ in range(steps):
        given = x
        if is_packed:
            lengths = torch.tensor([2, 3, 1, 3] if layer.batch_first else [4, 2, 1])
            given = pack_padded_sequence(x, lengths, batch_first=layer.batch_first, enforce_sorted=False)
        out, last = layer(given, (state, cells) if isinstance(layer, nn.LSTM) else state)
        if isinstance(layer, nn.LSTM):
            last = torch.cat([part.flatten() for part in last])
        if is_packed:
            out, _ = pad_packed_sequence(out, batch_first=layer.batch_first)
        (out.square().sum() + last.sum()).backward()
        optimizer.step()
        found += [out, last]
    gradients = [each.grad for each in (x, state, cells, *layer.parameters()) if each.grad is not None]
    return [tensor.detach().cpu() for tensor in (*found, *gradients, *layer.parameters())], out.stride()


@pytest.mark.parametrize("is_packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_are_the_cpus(name, is_packed):
    expected, strides = run(LAYERS[name], "cpu", is_packed=is_packed, steps=2)
    with cudalens.virtual.device("h100"):
        results, found = run(LAYERS[name], "cuda", is_packed=is_packed, steps=2)
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=0, atol=0)
    assert found == strides


def test_a_layer_without_a_first_state_and_one_without_a_batch():
    for shape in ((4, 3, 5), (4, 5)):
        torch.manual_seed(0)
        layer, x = nn.GRU(5, 7), torch.randn(shape)
        expected = layer(x)
        with cudalens.virtual.device("h100"):
            results = layer.cuda()(x.cuda())
            assert [torch.equal(*pair) for pair in zip((r.cpu() for r in results), expected, strict=True)] == [
                True,
                True,
            ]
        layer.cpu()


def kernels_of(call):
    with cudalens.profile(keep=False) as profiled:
        call()
    events = profiled.trace.events
    names = events["name"].astype(str)
    return names[events["cat"] == "kernel"].tolist(), set(names[events["cat"] == "cpu_op"])


def test_kernels_are_a_product_of_all_steps_and_two_of_each_step():
    with cudalens.virtual.device("h100"):
        layer, x = nn.GRU(64, 64, num_layers=2).cuda(), torch.randn(10, 8, 64, device="cuda")
        kernels, operators = kernels_of(lambda: layer(x))
    assert [name for name in kernels if "_cudnn_rnn" in name] == 2 * [
        "simulated::_cudnn_rnn::input<float>",
        *10 * ["simulated::_cudnn_rnn::state<float>", "simulated::_cudnn_rnn::gates<float>"],
    ]
    assert "aten::_cudnn_rnn" in operators
    assert not operators & {"aten::linear", "aten::tanh_", "aten::sigmoid_"}


def test_the_operators_of_a_step_run_where_cudnn_is_off():
    with cudalens.virtual.device("h100"):
        layer, x = nn.GRU(8, 8).cuda(), torch.randn(3, 2, 8, device="cuda")
        with torch.backends.cudnn.flags(enabled=False):
            _, operators = kernels_of(lambda: layer(x))
    assert "aten::_cudnn_rnn" not in operators


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_computes_in_its_dtype_with_copies_of_the_weights(dtype):
    with cudalens.virtual.device("h100"):
        layer, x = nn.GRU(8, 8).cuda(), torch.randn(3, 2, 8, device="cuda")
        with torch.autocast("cuda", dtype):
            kernels, _ = kernels_of(lambda: layer(x))
            out, state = layer(x)
        out.float().sum().backward()
        assert (out.dtype, state.dtype) == (dtype, dtype)
        assert {p.grad.dtype for p in layer.parameters()} == {torch.float32}
        assert sum("_to_copy" in name for name in kernels) == 6  # the input, the state and four weights
        wanted, _ = layer.cpu().to(dtype)(x.cpu().to(dtype))
        assert torch.equal(out.cpu(), wanted)


@pytest.mark.parametrize("batch_first", [False, True])
def test_dropout_between_layers_draws_from_the_devices_generator(batch_first):
    with cudalens.virtual.device("h100"):
        layer = nn.GRU(8, 8, num_layers=3, dropout=0.5, bidirectional=True, batch_first=batch_first).cuda()
        x = torch.randn(3, 2, 8, device="cuda")
        kernels, _ = kernels_of(lambda: layer(x))
        torch.manual_seed(1)
        first, state = layer(x)
        torch.manual_seed(1)
        with torch.backends.cudnn.flags(enabled=False):
            out, last = layer(x)
        torch.testing.assert_close(first, out)
        torch.testing.assert_close(state, last)
        assert first.stride() == out.stride()
        assert not torch.equal(layer(x)[0], first)
    assert sum("native_dropout" in name for name in kernels) == 2
    assert sum("_cudnn_rnn::input" in name for name in kernels) == 6


def test_backward_in_evaluation_raises_the_error_of_a_gpu():
    with cudalens.virtual.device("h100"):
        layer, x = nn.GRU(8, 8).cuda().eval(), torch.randn(3, 2, 8, device="cuda")
        with pytest.raises(RuntimeError, match="backward can only be called in training mode"):
            layer(x)[0].sum().backward()


def shapes(make, values):
    """Sizes and strides of the results and gradients of a step, and the memory at its peak."""
    with cudalens.virtual.device("h100", values=values):
        layer = make().cuda()
        x = torch.randn(4, 3, 5, device="cuda", dtype=next(layer.parameters()).dtype, requires_grad=True)
        out, last = layer(x)
        out.sum().backward()
        states = last if isinstance(last, tuple) else (last,)
        tensors = (out, *states, x.grad, *(parameter.grad for parameter in layer.parameters()))
        return [(tensor.shape, tensor.stride()) for tensor in tensors], torch.cuda.max_memory_allocated()


@pytest.mark.parametrize("name", LAYERS)
def test_without_values_sizes_and_memory_are_those_with_values(name):
    assert shapes(LAYERS[name], False) == shapes(LAYERS[name], True)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_without_values_a_large_layer_needs_no_memory_of_the_host(kind):
    with cudalens.virtual.device("h100", values=False):
        layer, x = kind(2048, 2048, num_layers=4).cuda(), torch.randn(512, 96, 2048, device="cuda", requires_grad=True)
        layer(x)[0].sum().backward()
        assert x.grad.shape == x.shape


def test_a_captured_step_replays_with_new_inputs():
    with cudalens.virtual.device("h100"):
        layer, x = nn.GRU(8, 8).cuda(), torch.randn(3, 2, 8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out, _ = layer(x)
        for _ in range(2):
            x.normal_()
            graph.replay()
            assert torch.equal(out, layer(x)[0])


@pytest.mark.parametrize("is_frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("make", [nn.GRU, nn.LSTM, nn.RNN])
def test_a_captured_layer_of_another_order_replays_bit_for_bit(make, is_frozen):
    with cudalens.virtual.device("h100"):
        layer, x = make(8, 8, batch_first=True).cuda(), torch.randn(3, 4, 8, device="cuda")
        layer.requires_grad_(not is_frozen)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out, _ = layer(x)
        for _ in range(8):
            x.normal_()
            graph.replay()
            assert torch.equal(out, layer(x)[0])


def test_a_graphed_training_step_equals_an_eager_one():
    def losses(graphs):
        torch.manual_seed(0)
        layer = nn.GRU(8, 8).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run_step = cudalens.cudagraph(step) if graphs else step
        return [run_step(torch.full((3, 2, 8), k / 8, device="cuda")).item() for k in range(8)], run_step

    with cudalens.virtual.device("h100"):
        expected, _ = losses(False)
        found, step = losses(True)
        assert found == expected
        with cudalens.profile(keep=False) as profiled:
            step(torch.ones(3, 2, 8, device="cuda"))
        kernels = profiled.trace.events.query("cat == 'kernel'")
        assert kernels[kernels["name"].astype(str).str.contains("_cudnn_rnn")]["graph_id"].notna().all()
