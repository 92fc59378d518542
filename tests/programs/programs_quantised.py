"""Programs with quantised weights and optimizer states: torchao, optimum-quanto and torch's own quantised tensors."""

from __future__ import annotations

import torch
from optimum import quanto
from program import Programs, batches, inference_step, training_step
from torch import nn
from torchao.prototype.quantized_training import int8_weight_only_quantized_training
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
)
from torchao.quantization.qat import FakeQuantizedLinear, IntxFakeQuantizeConfig

PROGRAMS = Programs()


def _mlp():
    return nn.Sequential(nn.Linear(32, 64, dtype=torch.bfloat16), nn.ReLU(), nn.Linear(64, 32, dtype=torch.bfloat16))


def _inputs(device):
    return [(x.bfloat16(),) for (x,) in batches(device, 4, 32)]


@PROGRAMS.add
def torchao_int8_weights(device):
    model = _mlp().eval().to(device)
    quantize_(model, Int8WeightOnlyConfig())
    return inference_step(model), _inputs(device)


@PROGRAMS.add
def torchao_int8_activations(device):
    model = _mlp().eval().to(device)
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    return inference_step(model), _inputs(device)


@PROGRAMS.add
def torchao_quantisation_aware_training(device):
    weights = IntxFakeQuantizeConfig(torch.int4, group_size=8)
    model = nn.Sequential(FakeQuantizedLinear(32, 8, weight_config=weights)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training_step(model, lambda x: model(x).square().mean(), optimizer), batches(device, 4, 32)


@PROGRAMS.add
def torchao_int8_training(device):
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
    quantize_(model, int8_weight_only_quantized_training())
    return training_step(model, lambda x: model(x).square().mean()), batches(device, 4, 32)


@PROGRAMS.add
def quanto_int8_weights(device):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).eval().to(device)
    quanto.quantize(model, weights=quanto.qint8)
    quanto.freeze(model)
    return inference_step(model), batches(device, 4, 32)


@PROGRAMS.add
def observers(device):
    observer = torch.ao.quantization.MovingAverageMinMaxObserver().to(device)
    fake = torch.ao.quantization.FakeQuantize().to(device)

    def step(x):
        observer(x)
        return fake(x), *observer.calculate_qparams()

    return step, batches(device, 4, 32)
