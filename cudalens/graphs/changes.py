"""The change of a program that lets a call replay, as lines of a diff: ``-`` for an old line, ``+`` for a new one."""

from __future__ import annotations

import dis
import linecache
import re
import sys
from types import FrameType
from typing import Final

import torch

from cudalens.device.stacks import Place, is_passed_by, place_of

_TORCH: Final = torch.__file__.rpartition("__init__")[0]
_OPTIMIZERS: Final = f"{_TORCH}optim/"
_DISTRIBUTIONS: Final = f"{_TORCH}distributions/"
_SCALER: Final = f"{_TORCH}amp/grad_scaler.py"

#: ``optimizer.step()``, and ``scaler.step(optimizer)``.
_STEP: Final = re.compile(r"([\w.]+)\.step\(\)")
_SCALED_STEP: Final = re.compile(r"\.step\(\s*([\w.]+)")
_LEARNING_RATE: Final = re.compile(r"(.+?)\.?param_groups\[\d+\]\['lr'\]")
#: What OneCycleLR and CyclicLR change besides the learning rate, and the line that leaves it out.
_MOMENTUM: Final = re.compile(r"param_groups\[\d+\]\['(betas|momentum)'\]")
_FIXED_MOMENTUM: Final = "+ torch.optim.lr_scheduler.OneCycleLR(..., cycle_momentum=False)"

#: Distributions check their parameters and values on the host; this leaves the checks out.
_NO_VALIDATION: Final = "+ torch.distributions.Distribution.set_default_validate_args(False)  # once"

#: Methods of a tensor that copy it to the host, and what a function returns in place of their result.
_TO_HOST: Final = re.compile(r"\.(item|tolist|cpu)\(\)")

#: Functions of libraries that wait for the device, and the line that leaves them out.
_LIBRARIES: Final = {
    # transformers looks for padding in the first and last token of a batch without a mask.
    "warn_if_padding_and_no_attention_mask": "+ model.config.pad_token_id = None  # if the batches have no padding",
    # It looks for several sequences in a row of a batch without a mask; not if there is a cache.
    "find_packed_sequence_indices": "+ model(..., use_cache=True)  # if each row of a batch is one sequence",
}

#: The file of transformers that calls torch.utils.checkpoint for the layers of a model, and the line that ends this.
_CHECKPOINTED_LAYERS: Final = "/transformers/modeling_layers.py"
_NO_CHECKPOINTS: Final = "+ model.gradient_checkpointing_disable()  # keeps activations: more memory, equal results"

#: The file of ``torch.autograd.graph.save_on_cpu``, the statement of a program that enters it, and what replaces it.
_OFFLOAD: Final = f"{_TORCH}autograd/graph.py"
_OFFLOADED: Final = re.compile(r"with (?:[\w.]+\.)?save_on_cpu\(.*\):$")
_NO_OFFLOAD: Final = "+ if True:  # activations stay on the device: more memory, equal results"


def change_of_checkpoint() -> str:
    """The change for random numbers that torch.utils.checkpoint draws now; "" if none is known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_CHECKPOINTED_LAYERS):
            return _NO_CHECKPOINTS
        frame = frame.f_back
    return ""


def change_of_caller(here: Place) -> str:
    """The change for an operator that forbids a graph, by the code of torch that runs it now; "" if none is known.

    Args:
        here: The line of the program that led to it.
    """
    if (line := _LIBRARIES.get(here.function.rpartition(".")[2])) is not None:
        return line
    files = _files_of_torch()
    if any(file == _SCALER for file in files):
        return capturable_line(_optimizer_in(here), is_scaled=True)
    if any(file.startswith(_OPTIMIZERS) for file in files):
        return capturable_line(_optimizer_in(here))
    if any(file.startswith(_DISTRIBUTIONS) for file in files):
        return _NO_VALIDATION
    # A return statement without the copy to the host, which the caller can make.
    if here.source.startswith("return ") and _TO_HOST.search(here.source) is not None:
        return f"- {here.source}\n+ {_TO_HOST.sub('.detach()', here.source)}"
    return ""


def change_of_offload(here: Place) -> tuple[Place, str]:
    """The statement by which what a backward needs is copied to the host now, and the change that leaves it out.

    Args:
        here: The line of the program that led to the copy.

    Returns:
        The line itself, and no change, for another copy.
    """
    if here.code is None or _OFFLOAD not in _files_of_torch():
        return here, ""
    starts = [(line, offset) for offset, line in dis.findlinestarts(here.code) if line is not None]
    for line, offset in sorted(starts, reverse=True):
        source = linecache.getline(here.filename, line).strip()
        if line <= here.line and _OFFLOADED.match(source) and (place := place_of(here.code, offset)) is not None:
            return place, f"- {source}\n{_NO_OFFLOAD}"
    return here, ""


def capturable_line(optimizer: str, *, is_scaled: bool = False) -> str:
    """The line that prepares an optimizer.

    Args:
        optimizer: What the program calls it.
        is_scaled: Whether a GradScaler calls its step, which a fused optimizer decides on the device.
    """
    option = ", fused=True" if is_scaled else ""
    return f"+ cudalens.graphs.capturable({optimizer}{option})  # once, before the first step"


def change_of_step(here: Place) -> str:
    """The change for the step of an optimizer that is not capturable."""
    return capturable_line(_optimizer_in(here))


def change_of_value(label: str) -> str:
    """The change for a Python value that differs in each call, by its name; "" if none is known."""
    rate = _LEARNING_RATE.match(label)
    if rate is not None:
        return capturable_line(rate[1])
    return _FIXED_MOMENTUM if _MOMENTUM.search(label) else ""


def _optimizer_in(here: Place) -> str:
    source = here.source
    found = _STEP.search(source) or _SCALED_STEP.search(source)
    return "optimizer" if found is None else found[1]


def _files_of_torch() -> list[str]:
    """The files of the stack frames between the program and the operator that runs now."""
    frame = sys._getframe(1)
    found = []
    while frame is not None and is_passed_by(frame.f_code.co_filename):
        found.append(frame.f_code.co_filename)
        frame = frame.f_back  # type: ignore[assignment]
    return found
