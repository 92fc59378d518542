"""Prepare an optimizer for CUDA graphs: its step counters and learning rates become tensors on the device."""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.errors import GraphError

#: Optimizers whose step reads a learning rate that is a tensor without waiting for the device.
_TENSOR_RATES: Final = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Adadelta", "RMSprop")

#: Optimizers without `capturable` that do so if they are fused.
_FUSED: Final = ("SGD",)


def capturable(optimizer: torch.optim.Optimizer, *, fused: bool = False) -> str:
    """Change an optimizer so that its `step()` can be part of a CUDA graph.

    Options, learning rates and counters are changed in place; parameters, momenta and averages are not. Schedulers
    that are made for the optimizer go on: they write into the tensor of the learning rate::

        model = torch.nn.Linear(4, 2, device="cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        print(cudalens.graphs.capturable(optimizer))

    Args:
        optimizer: One of ``torch.optim`` with an option `capturable`, or SGD.
        fused: Use the fused form, too, whose step a GradScaler skips on the device. It skips other forms on the host,
            which has to wait for the device.

    Returns:
        What was changed, and what that changes in the numbers; "" if nothing had to be changed.

    Raises:
        GraphError: The optimizer has no such form, or its parameters are not on a CUDA device.
    """
    name = type(optimizer).__name__
    options = [key for key in ("capturable", "fused") if key in optimizer.defaults]
    if "capturable" not in options and name not in _FUSED:
        raise GraphError(
            f"{name} has no option capturable. Call optimizer.step() outside of the graphed function, or use one that "
            f"has it: {', '.join(_TENSOR_RATES)}, Rprop, or SGD."
        )
    if fused and "fused" not in options:
        raise GraphError(f"{name} has no fused form. Call scaler.step(optimizer) outside of the graphed function.")
    wanted = [key for key in options if key == "capturable" or fused or name in _FUSED]
    is_tensor_rate = name in (*_TENSOR_RATES, *_FUSED)
    changed: dict[str, None] = {}
    for group in optimizer.param_groups:
        device = _device_of(group, name)
        for option in wanted:
            if not group.get(option):
                group[option] = True
                changed[f"{option}=True"] = None
        if "fused" in wanted:
            group["foreach"] = False
        if is_tensor_rate and not isinstance(group["lr"], torch.Tensor):
            group["lr"] = torch.tensor(group["lr"], dtype=torch.float32, device=device)
            changed["learning rates are tensors on the device"] = None
        if _move_counters(optimizer, group):
            changed["step counters are on the device"] = None
    if not changed:
        return ""
    optimizer.defaults |= dict.fromkeys(wanted, True)
    if "fused" in wanted:
        optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]
    return f"{name}: {', '.join(changed)}. {_effect_on_numbers(is_fused='fused' in wanted)}"


def _effect_on_numbers(*, is_fused: bool) -> str:
    if is_fused:
        return (
            "One kernel updates all parameters, with the learning rate in float32: the order of its operations is "
            "another one, so parameters can differ from before in their last digits."
        )
    return (
        "Bias corrections and step sizes are computed on the device in float32 instead of as Python numbers in "
        "float64, so parameters can differ from before in their last digits."
    )


def _device_of(group: dict[str, Any], name: str) -> torch.device:
    """The device of the parameters of a group.

    Raises:
        GraphError: It is not a CUDA device, or they are on several.
    """
    devices = {parameter.device for parameter in group["params"]}
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        found = ", ".join(sorted(map(str, devices))) or "none"
        raise GraphError(f"{name}: the parameters of a group have to be on one CUDA device; found {found}.")
    return next(iter(devices))


def _move_counters(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    """Move the step counters of a group to the device of their parameters; whether there was one to move."""
    has_moved = False
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.is_cuda:
                state[key] = value.to(parameter.device)
                has_moved = True
    return has_moved
