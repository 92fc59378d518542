"""Values that torch caches must not be computed from the patches of a virtual device."""

import programs
import torch

from cudalens.virtual import device


def test_torch_keeps_its_own_getters():
    torch.overrides.get_default_nowrap_functions.cache_clear()
    with device("h100"):
        torch.overrides.get_default_nowrap_functions()
    assert torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()


def test_dynamo_can_be_imported_first_on_a_virtual_device():
    program = """
import torch
from cudalens.virtual import device
with device("h100"):
    weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
    weight.sum().backward()
    torch.optim.AdamW([weight]).step()
    import torch._dynamo
"""
    done = programs.run("-c", program)
    assert done.returncode == 0, done.stderr
