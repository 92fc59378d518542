"""Operators with tensors on different devices: which combinations torch allows, and its error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from cudalens.virtual.dispatch.plans import Plan, attributes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.tensors.residency import ADOPT_KEY, KEY, dense_parts, is_sparse, residence_of
from cudalens.virtual.timing.machine import Device


def locate(args: Sequence[Any]) -> tuple[Device | None, bool]:
    """Return the first device among the tensors, and whether any tensor is not on it."""
    device: Device | None = None
    saw_host = False
    for arg in args:
        if isinstance(arg, torch.Tensor):
            try:
                residence = arg.untyped_storage().__dict__.get(KEY)
            except (RuntimeError, NotImplementedError):
                if not is_sparse(arg):
                    continue  # it has no storage
                residence = residence_of(arg)
            if residence is None or residence.gpus.is_closed:
                saw_host = True
            elif device is None:
                device = residence.device
            elif device is not residence.device:
                saw_host = True
        elif type(arg) is list or type(arg) is tuple:
            inner, inner_host = locate(arg)
            saw_host = saw_host or inner_host or (inner is not None and device is not None and inner is not device)
            device = device or inner
    return device, saw_host


#: Arguments that a CUDA operator reads on the host, by operator.
_ON_HOST: Final[dict[str, frozenset[str]]] = {
    "aten::_pack_padded_sequence_backward": frozenset({"batch_sizes"}),
    **dict.fromkeys(("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"), frozenset({"batch_sizes"})),
    "aten::_ctc_loss": frozenset({"targets", "input_lengths", "target_lengths"}),
    "aten::_ctc_loss_backward": frozenset({"targets", "input_lengths", "target_lengths"}),
    **dict.fromkeys((f"aten::_fused_{name}_" for name in ("adam", "adamw", "sgd", "adagrad")), frozenset({"lr"})),
}


def adopt_or_raise(
    gpus: Gpus,
    plan: Plan,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: Device,
    *,
    indexes: bool,
) -> list[torch.Tensor]:
    """Check the tensors that are not on `device`; returns the index tensors to copy from the host.

    With `indexes`, index tensors may be on the host: the operator is an index expression, or a part of one (torch 2.15
    assigns numbers with ``index_fill_``).

    Raises:
        RuntimeError: A tensor is on another device, and the operator does not accept it; torch's message.
    """
    to_bring: list[torch.Tensor] = []
    on_host = _ON_HOST.get(plan.name, frozenset())
    for name, tensor in _named_tensors(func, args, kwargs):
        residence = residence_of(tensor)
        marked = [] if residence is not None else [part for part in dense_parts(tensor) if _take_mark(part)]
        if marked:
            for part in marked:
                adopt(gpus, part, device, in_arena=part is tensor)
        elif residence is None and indexes and name in ("indices", "index"):
            to_bring.append(tensor)
        elif residence is None and ((tensor.dim() == 0 and plan.takes_numbers) or name in on_host):
            continue
        elif residence is None or residence.device is not device:
            raise RuntimeError(_message(plan, name, tensor, gpus.torch_devices[device.index]))
    return to_bring


def _take_mark(tensor: torch.Tensor) -> bool:
    """Remove the mark of an internal tensor; return whether it had one."""
    return bool(attributes(tensor).pop(ADOPT_KEY, False))


def adopt_target(gpus: Gpus, target: torch.Tensor, source: torch.Tensor) -> None:
    """Move a target that torch created for internal use to the device of the copy's source."""
    residence = residence_of(source)
    if residence is not None:
        adopt_marked(gpus, target, residence.device)


def adopt_marked(gpus: Gpus, tensor: torch.Tensor, device: Device) -> None:
    """Move a tensor to a device, if torch created it for internal use."""
    if residence_of(tensor) is None and _is_strided(tensor) and ADOPT_KEY in tensor.untyped_storage().__dict__:
        del tensor.untyped_storage().__dict__[ADOPT_KEY]
        adopt(gpus, tensor, device)


def check_out(gpus: Gpus, plan: Plan, kwargs: dict[str, Any], device: Device) -> None:
    """Check the device of output arguments.

    Raises:
        RuntimeError: An output is not on `device`; torch's message.
    """
    where = gpus.torch_devices[device.index]
    for name, tensor in kwargs.items():
        if not _is_strided(tensor):
            continue
        residence = residence_of(tensor)
        if residence.device is device if residence is not None else ADOPT_KEY in tensor.untyped_storage().__dict__:
            continue
        if plan.is_pointwise:
            raise RuntimeError(_message(plan, name, tensor, where))
        raise RuntimeError(f"Expected out tensor to have device {where}, but got {tensor.device} instead")


def adopt(gpus: Gpus, tensor: torch.Tensor, device: Device, *, in_arena: bool = True) -> None:
    """Move a tensor that torch created for internal use to a device.

    The tensor can be a view of another one that only torch's C++ has (as in ``_pad_packed_sequence``). That one cannot
    be moved to an arena, so that the view must not be, either; nor can the parts of a sparse tensor.
    """
    capture = gpus.machine.current_stream(device).capture if gpus.machine.captures else None
    if capture is not None:
        capture.adopt(tensor)
    is_part = tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()
    gpus.place_tensor(tensor, device, in_arena=in_arena and not is_part)


def _named_tensors(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    found: list[tuple[str, torch.Tensor]] = []
    named = ((argument.name, value) for argument, value in zip(func._schema.arguments, args, strict=False))
    for name, value in (*named, *kwargs.items()):
        items = value if isinstance(value, list | tuple) else (value,)
        tensors = [item for item in items if isinstance(item, torch.Tensor)]
        found += [(name, tensor) for tensor in tensors if _is_strided(tensor) or is_sparse(tensor)]
    return found


def _is_strided(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _message(plan: Plan, name: str, tensor: torch.Tensor, where: torch.device) -> str:
    if plan.is_pointwise:
        first, second = sorted((str(where), str(tensor.device)), key=lambda text: text == "cpu")
        return f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    method = plan.name.partition("::")[2]
    return (
        f"Expected all tensors to be on the same device, but got {name} is on {tensor.device}, different from other "
        f"tensors on {where} (when checking argument in method wrapper_CUDA_{method})"
    )
