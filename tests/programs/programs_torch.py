"""Programs of torch's own parts that other people's code is built from."""

from __future__ import annotations

import torch
from program import Programs, batches, inference_step, training_step
from torch import nn

PROGRAMS = Programs()


def _mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


@PROGRAMS.add
def save_on_cpu(device):
    model = _mlp().to(device)

    def loss(x):
        with torch.autograd.graph.save_on_cpu(pin_memory=device != "cpu"):
            return model(x).square().mean()

    return training_step(model, loss), batches(device, 4, 8)


@PROGRAMS.add
def func_per_sample_gradients(device):
    model = _mlp().to(device)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(model, parameters, (x,)).square().mean()

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0)), [
        (parameters, x) for (x,) in batches(device, 4, 8)
    ]


@PROGRAMS.add
def func_hessian(device):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to(device)
    return torch.func.hessian(lambda x: model(x).sum()), batches(device, 4)


@PROGRAMS.add
def gradient_penalty(device):
    model = _mlp().to(device)

    def loss(x):
        x = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return (gradient.norm(2, dim=1) - 1).square().mean()

    return training_step(model, loss), batches(device, 4, 8)


@PROGRAMS.add
def sparse_embedding(device):
    model = nn.Embedding(16, 8, sparse=True).to(device)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)

    def step(ids):
        optimizer.zero_grad()
        loss = model(ids).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach(), model.weight.grad.coalesce().values(), model.weight.detach().clone()

    return step, batches(device, 6, high=16)


@PROGRAMS.add
def sparse_matrix_product(device):
    matrix = torch.randn(8, 8).relu().to_sparse().to(device)
    return lambda x: torch.sparse.mm(matrix, x), batches(device, 8, 4)


@PROGRAMS.add
def quantised_weights(device):
    weight = torch.randn(16, 8)
    scale = weight.abs().amax(1, keepdim=True) / 127
    packed, scale = (weight / scale).round().to(torch.int8).to(device), scale.to(device)
    return inference_step(lambda x: nn.functional.linear(x, packed.to(x.dtype) * scale)), batches(device, 4, 8)


@PROGRAMS.add
def fake_quantised_training(device):
    model = nn.Linear(8, 4).to(device)
    scale, zero = torch.full((4,), 0.05).to(device), torch.zeros(4, dtype=torch.int32).to(device)

    def loss(x):
        weight = torch.fake_quantize_per_channel_affine(model.weight, scale, zero, 0, -128, 127)
        return nn.functional.linear(x, weight, model.bias).square().mean()

    return training_step(model, loss), batches(device, 4, 8)


@PROGRAMS.add
def side_stream_prefetch(device):
    model = _mlp().to(device)

    def step(host):
        if device == "cpu":
            return model(host)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = host.pin_memory().to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        return model(x)

    return inference_step(step), batches("cpu", 4, 8)


@PROGRAMS.add
def lstm_training(device):
    model = nn.LSTM(8, 8, num_layers=2, dropout=0.2).to(device)
    return training_step(model, lambda x: model(x)[0].square().mean()), batches(device, 5, 2, 8)


@PROGRAMS.add
def batch_norm_training(device):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    train = training_step(model, lambda x: model(x).square().mean(), optimizer)
    return lambda x: (train(x), [buffer.clone() for buffer in model.buffers()]), batches(device, 2, 3, 8, 8)


@PROGRAMS.add
def gradient_scaler(device):
    model = _mlp().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=64.0)

    def step(x):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

    return step, batches(device, 4, 8)


@PROGRAMS.add
def transformer_encoder(device):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    return training_step(model, lambda x: model(x).square().mean()), batches(device, 2, 5, 16)
