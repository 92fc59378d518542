"""Programs of packages for equations, probability, privacy, interpretation and metric learning."""

from __future__ import annotations

import captum.attr
import e3nn.o3
import einops.layers.torch
import gpytorch
import opacus
import pyro
import pytorch_metric_learning.losses
import tensordict
import torch
import torchdiffeq
import vector_quantize_pytorch
from program import Programs, batches, inference_step, training_step
from torch import nn

PROGRAMS = Programs()


def _mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


@PROGRAMS.add
def torchdiffeq_dopri(device):
    field = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to(device)
    times = torch.linspace(0, 1, 4).to(device)
    return inference_step(lambda x: torchdiffeq.odeint(lambda t, y: field(y), x, times)), batches(device, 4, 8)


@PROGRAMS.add
def torchdiffeq_adjoint_training(device):
    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, time, y):
            return self.layer(y).tanh() * time

    field, times = Field().to(device), torch.linspace(0, 1, 3).to(device)

    def loss(x):
        return torchdiffeq.odeint_adjoint(field, x, times, method="rk4")[-1].square().mean()

    return training_step(field, loss), batches(device, 4, 8)


class _Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@PROGRAMS.add
def gpytorch_training(device):
    x = torch.linspace(0, 1, 12).to(device)
    y = torch.sin(x * 6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = _Process(x, y, likelihood).to(device)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return training_step(model, lambda: -marginal(model(x), y), optimizer), [()] * 4


@PROGRAMS.add
def pyro_regression(device):
    pyro.clear_param_store()
    x, y = torch.randn(16).to(device), torch.randn(16).to(device)

    def model():
        slope = pyro.param("slope", lambda: torch.zeros(()).to(device))
        with pyro.plate("data", 16):
            pyro.sample("y", pyro.distributions.Normal(slope * x, 1.0), obs=y)

    inference = pyro.infer.SVI(model, lambda: None, pyro.optim.Adam({"lr": 0.1}), pyro.infer.Trace_ELBO())
    return lambda: (inference.step(), pyro.param("slope").detach().clone()), [()] * 4


@PROGRAMS.add
def opacus_per_sample_gradients(device):
    model = opacus.GradSampleModule(_mlp().to(device))

    def step(x):
        model.zero_grad()
        model(x).square().mean().backward()
        return [parameter.grad_sample.clone() for parameter in model.parameters()]

    return step, batches(device, 4, 8)


@PROGRAMS.add
def captum_integrated_gradients(device):
    attribution = captum.attr.IntegratedGradients(_mlp().to(device))
    return lambda x: attribution.attribute(x, target=1, n_steps=5), batches(device, 4, 8)


@PROGRAMS.add
def metric_learning_triplets(device):
    model, labels = _mlp().to(device), torch.tensor([0, 0, 1, 1, 2, 2]).to(device)
    loss = pytorch_metric_learning.losses.TripletMarginLoss()
    return training_step(model, lambda x: loss(model(x), labels)), batches(device, 6, 8)


@PROGRAMS.add
def tensordict_memmap(device):
    def step(x):
        data = tensordict.TensorDict({"x": x, "inner": {"y": x * 2}}, batch_size=[4])
        stacked = torch.stack([data, data.apply(lambda value: value + 1)])
        return stacked["inner", "y"], stacked[:, 1:3]["x"], data.to("cpu")["x"].sum(), stacked.device is None

    return step, batches(device, 4, 8)


@PROGRAMS.add
def einops_layers(device):
    model = nn.Sequential(
        einops.layers.torch.Rearrange("b (h d) -> b h d", h=2),
        einops.layers.torch.Reduce("b h d -> b d", "max"),
        nn.Linear(4, 4),
    ).to(device)
    return training_step(model, lambda x: einops.einsum(model(x), x[:, :4], "b d, b d ->")), batches(device, 4, 8)


@PROGRAMS.add
def e3nn_tensor_product(device):
    product = e3nn.o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o").to(device)
    other = torch.randn(4, 4).to(device)
    return training_step(product, lambda x: product(x, other).square().mean()), batches(device, 4, 5)


@PROGRAMS.add
def vector_quantise(device):
    model = vector_quantize_pytorch.VectorQuantize(dim=8, codebook_size=16, kmeans_init=False).eval().to(device)
    return inference_step(lambda x: model(x)[:2]), batches(device, 2, 4, 8)


@PROGRAMS.add
def distributions(device):
    def step(x):
        normal = torch.distributions.Normal(x, x.exp())
        categorical = torch.distributions.Categorical(logits=x)
        other = torch.distributions.Normal(x + 1, torch.ones_like(x))
        return normal.log_prob(x), categorical.entropy(), torch.distributions.kl_divergence(normal, other)

    return step, batches(device, 4, 8)


@PROGRAMS.add
def scripted_module(device):
    model = torch.jit.script(_mlp().to(device))
    return training_step(model, lambda x: model(x).square().mean()), batches(device, 4, 8)


@PROGRAMS.add
def traced_module(device):
    model = _mlp().eval().to(device)
    return inference_step(torch.fx.symbolic_trace(model)), batches(device, 4, 8)
