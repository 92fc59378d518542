"""Patches of torch for a device without values: modules are built without memory."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.operators import KNOWN_ELEMENTS
from cudalens.virtual.shapes.storage import lacks_values, without_values
from cudalens.virtual.tensors.residency import residence_of


def install(patches: Patches, gpus: Gpus) -> None:
    """Install the patch, if the device has no values."""
    if gpus.shapes is None:
        return
    make_parameter = torch.nn.Parameter.__new__

    def __new__(cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it is Python's
        """Give up the values of large host parameters when they are made, before anything writes them."""
        parameter = make_parameter(cls, data, *args, **kwargs)
        if not gpus.is_closed and _is_large_on_host(parameter):
            with below_modes():
                parameter.data = without_values(parameter)
        return parameter

    patches.set(torch.nn.Parameter, "__new__", staticmethod(__new__))


def _is_large_on_host(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and tensor.numel() > KNOWN_ELEMENTS
        and residence_of(tensor) is None
        and not lacks_values(tensor)
    )
