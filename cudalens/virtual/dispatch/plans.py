"""Cached properties of aten operators that the dispatch mode needs: one plan per overload."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device.modes import uses_conjugates
from cudalens.virtual.dispatch import attention, cuda_layouts, cuda_ops, flash_attention, fused_layers, recurrent
from cudalens.virtual.dispatch.cuda_dtypes import CASTING, lacking_dtypes
from cudalens.virtual.dispatch.workspaces import BLAS_OPS
from cudalens.virtual.tensors.residency import ADOPT_KEY, residence_of
from cudalens.virtual.timing import cost
from cudalens.virtual.torch_cuda.comm import suggested_format

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device


#: Operators that launch nothing.
_NO_WORK: Final = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "empty_permuted",
        "resize_",
        "resize_as_",
        "set_",
        "set_data",
        "_local_scalar_dense",  # `kernels.fetch` models its copy
        "detach_",
        "lift",
        "lift_fresh",
        "is_same_size",
        "requires_grad_",
        "record_stream",
        "is_pinned",
        "_has_compatible_shallow_copy_type",
        "_unsafe_view",
        "unsafe_split",
        "unsafe_chunk",
        "squeeze_",
        "unsqueeze_",
        "t_",
        "transpose_",
        "swapaxes_",
        "as_strided_",
        "sym_size",
        "sym_stride",
        "sym_numel",
        "sym_storage_offset",
        "size",
        "stride",
        "numel",
        "dim",
        "is_contiguous",
        "_version",
        "_to_cpu",
        "_nested_tensor_size",
    }
)

#: Operators that wait for the stream on a CUDA device, because the host needs their result, its size or its validity.
_SYNCS: Final = frozenset(
    {
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "equal",
        "allclose",
        "unique_dim",
        "unique_consecutive",
        "unique_dim_consecutive",
        "_unique",
        "_unique2",
        "bincount",
        "is_nonzero",
        "_linalg_check_errors",
        "_coalesce",
        "_to_sparse",
        "repeat_interleave",  # without output_size
    }
)

_RESIZING: Final = frozenset({"resize_", "resize_as_", "set_", "_resize_output_"})

#: Operators that index by tensors, and copy host indices to the device.
_INDEXING: Final = frozenset(
    {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
)

#: Operators that use TensorIterator without torch's pointwise tag.
_ITERATED: Final = frozenset(
    {
        "copy_",
        "fill_",
        "floor_divide",
        "floor_divide_",
        "where",
        "masked_fill",
        "masked_fill_",
        "sum",
        "mean",
        "lerp",
        "lerp_",
    }
)

#: Other operators that accept a 0-dim host tensor as a number.
_TAKES_NUMBERS: Final = frozenset(
    {
        "masked_fill",
        "masked_fill_",
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "index_fill",
        "index_fill_",
        "where",
    }
)

#: Namespaces of torch's own operators in C++. In _c10d_functional one is in Python: it makes the tensor that waits for
#: a collective at its first use.
_TORCHS: Final = frozenset({"aten", "prim", "prims", "profiler", "c10d", "quantized"})

#: Namespaces of collectives.
_COMMUNICATING: Final = frozenset({"c10d", "_c10d_functional"})

_REPLACEMENTS: Final = (
    fused_layers.REPLACEMENTS
    | attention.REPLACEMENTS
    | flash_attention.REPLACEMENTS
    | cuda_ops.REPLACEMENTS
    | cuda_layouts.REPLACEMENTS
    | recurrent.REPLACEMENTS
)

_ZEROING: Final = frozenset({"zeros", "zeros_like", "zero_", "new_zeros", "zero"})
_COPYING: Final = frozenset({"copy_", "clone", "_to_copy", "contiguous"})


@dataclass(frozen=True, slots=True)
class Plan:
    """Properties of an overload.

    Attributes:
        name: As in ``aten::add``.
        makes: Whether it is a factory (has a device argument).
        draws: Whether it draws random numbers.
        is_view: Whether it returns views without computing anything.
        has_work: Whether it launches a kernel.
        syncs: Whether the host waits for its result.
        resizes: Whether it may resize an existing storage.
        is_pointwise: Whether it uses TensorIterator, which has its own message for mixed devices.
        takes_numbers: Whether it accepts 0-dim host tensors as numbers.
        indexes: Whether it indexes by tensors, which may be on the host; a boolean index makes the host wait for its
            count.
        copies: Whether it copies within the device; torch uses the driver's copy if the layout is unchanged.
        zeros: Whether it fills with zeros, by a memset.
        calls_blas: Whether it calls cuBLAS, which needs a workspace.
        side: The additional operators that run first; None without them.
        casts: Whether it converts its operand to the dtype of its result first (`cast_operand`).
        instead: The replacement that computes its values; None for the operator itself.
        is_composite: Whether it consists of other operators, without a CPU implementation.
        is_of_library: Whether a library defines it, so that its implementation may be Python code.
        communicates: Whether it is a collective, or waits for one.
        writes_list: Whether it writes a list of tensors (``_foreach_add_``). torch's kernels count these writes for
            autograd, except under a dispatch mode.
        conjugates: Whether its kernel multiplies by conjugated views.
        lacking: The dtypes that it has on the CPU alone.
        takes_time: Whether it takes host time. Named ranges do not, so that recording them does not change times.
    """

    name: str
    makes: bool
    draws: bool
    is_view: bool
    has_work: bool
    syncs: bool
    resizes: bool
    is_pointwise: bool
    takes_numbers: bool
    indexes: bool
    zeros: bool
    copies: bool
    calls_blas: bool
    side: Side | None
    casts: bool
    instead: Any
    is_composite: bool
    is_of_library: bool
    communicates: bool
    writes_list: bool
    conjugates: bool
    lacking: frozenset[torch.dtype]
    takes_time: bool


def make_plan(func: Any) -> Plan:
    """Create the plan of an overload from its schema."""
    schema = func._schema
    short = schema.name.partition("::")[2]
    arguments = {argument.name for argument in schema.arguments}
    is_view = _is_view(schema) and short not in _RESIZING
    is_pointwise = torch.Tag.pointwise in func.tags or short in _ITERATED
    return Plan(
        name=schema.name,
        makes="device" in arguments,
        draws="generator" in arguments or torch.Tag.nondeterministic_seeded in func.tags,
        is_view=is_view,
        has_work=not is_view and short not in _NO_WORK,
        syncs=short in _SYNCS,
        resizes=short in _RESIZING or any(argument.is_out for argument in schema.arguments),
        is_pointwise=is_pointwise,
        takes_numbers=is_pointwise or short in _TAKES_NUMBERS or short.startswith("_foreach_"),
        indexes=short in _INDEXING,
        zeros=short in _ZEROING,
        copies=short in _COPYING,
        calls_blas=short in BLAS_OPS,
        side=SIDES.get(short),
        casts=schema.name in CASTING,
        instead=_REPLACEMENTS.get(short) if func._overloadname == "default" else None,
        is_composite=_has_kernel(func, "CompositeImplicitAutograd") and not _has_kernel(func, "CPU"),
        is_of_library=func.namespace not in _TORCHS,
        communicates=func.namespace in _COMMUNICATING,
        writes_list=short.startswith("_foreach_") and short.endswith("_"),
        conjugates=uses_conjugates(func),
        lacking=lacking_dtypes(short) if func.namespace == "aten" else frozenset(),
        takes_time=func.namespace != "profiler",
    )


def python_kernel(func: Any, is_on_device: bool) -> Any:
    """Return the dispatch key of a library operator's implementation in Python, or None for an implementation in C++.

    Args:
        func: The overload.
        is_on_device: Whether it gets a tensor of a device, for which one for CUDA is preferred.
    """
    base = func.name().replace("::", "/")
    kernels = {"CUDA": "CUDA"} if is_on_device else {}
    kernels |= {"CPU": "CPU", "CompositeExplicitAutograd": "CPU"}
    return next((key for name, key in kernels.items() if f"{base}/{name}" in torch.library._impls), None)


def _has_kernel(func: Any, key: str) -> bool:
    """Whether `func` is implemented for a dispatch key; ``prim::`` operators are not registered in the dispatcher."""
    name = func.name()
    return not name.startswith("prim::") and bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _is_view(schema: Any) -> bool:
    """Return whether every returned tensor aliases an argument that is not written."""
    infos = [value.alias_info for value in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)


# Model the extra memory and kernels of CUDA implementations that the CPU implementation of an operator does not have.
#
# Only what PyTorch's source defines exactly. What depends on an algorithm chosen by a library (cuDNN, CUB) is not
# modelled: convolutions, sorts and reductions of a million elements use additional scratch memory on a real GPU.

_CALL: Final = "__torch_function__"
_FILE: Final = str(Path(__file__).parents[1] / "tensors" / "device_arguments.py")


def is_torch_function(frame: FrameType) -> bool:
    """Return whether a frame is of the function mode, and handles the function: it does not pass it on at once."""
    code = frame.f_code
    return code.co_name == _CALL and code.co_filename == _FILE and "handler" in frame.f_locals


def is_call_on_device() -> bool:
    """Return whether the current torch function got a tensor of a device; True without a current function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_torch_function(frame):
            given = frame.f_locals
            return _has_resident(given["args"]) or _has_resident(tuple(given["kwargs"].values()))
        frame = frame.f_back
    return True


def are_scratch(args: tuple[Any, ...]) -> bool:
    """Return whether one of an operator's host tensors is internal."""
    return any(isinstance(arg, torch.Tensor) and ADOPT_KEY in attributes(arg) for arg in args)


def mark_result(out: Any, args: tuple[Any, ...]) -> Any:
    """Mark a result in new memory as internal; returns it."""
    if isinstance(out, torch.Tensor) and not any(out is arg for arg in args):
        mark(out)
    return out


class _Marked(threading.local):
    """The storages that were marked in the thread's current backward pass; None outside of one."""

    storages: list[weakref.ref[torch.UntypedStorage]] | None = None


_marked = _Marked()


def mark(tensor: torch.Tensor) -> None:
    """Mark a host tensor as internal."""
    attributes(tensor)[ADOPT_KEY] = True
    if _marked.storages is not None:
        _marked.storages.append(weakref.ref(tensor.untyped_storage()))


@contextmanager
def collected_marks() -> Iterator[Callable[[], bool]]:
    """Collect the tensors that are marked in the block; gives a function that says whether one of them is left."""
    outer, _marked.storages = _marked.storages, []
    found = _marked.storages

    def is_any_left() -> bool:
        storages = [reference() for reference in found]
        return any(storage is not None and ADOPT_KEY in storage.__dict__ for storage in storages)

    try:
        yield is_any_left
    finally:
        _marked.storages = outer


def attributes(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the attributes of a tensor's storage; empty without one."""
    try:
        return tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):  # no storage
        return {}


def _has_resident(values: tuple[Any, ...] | list[Any]) -> bool:
    return any(
        residence_of(value) is not None if isinstance(value, torch.Tensor) else _has_resident(value)
        for value in values
        if isinstance(value, torch.Tensor | list | tuple)
    )


_aten = torch.ops.aten

#: Computes from an operator's arguments what runs first: overloads, their arguments, and tensors like their results.
Side = Callable[[tuple[Any, ...]], list[tuple[Any, tuple[Any, ...], torch.Tensor]]]


def _softmax_backward(args: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...], torch.Tensor]]:
    """``grad * output`` is a separate tensor (softmax_backward_cuda_out, ATen/native/cuda/SoftMax.cu)."""
    grad, output = args[:2]
    return [(_aten.mul.Tensor, (grad, output), grad)]


def _copies_of(*positions: int) -> Side:
    """Return the side of a kernel that reads the arguments at some positions as contiguous memory: their copies."""

    def copy_operands(args: tuple[Any, ...]) -> list[tuple[Any, tuple[Any, ...], torch.Tensor]]:
        others = [args[position] for position in positions if not args[position].is_contiguous()]
        return [_copy_to(operand, torch.contiguous_format) for operand in others]

    return copy_operands


def _copy_convolved(operands: Sequence[torch.Tensor]) -> list[tuple[Any, tuple[Any, ...], torch.Tensor]]:
    """Copy operands of another format: cuDNN gets all with channels last if one of them is so, else contiguous.

    Source: cudnn_conv_suggest_memory_format in ATen/native/ConvUtils.h.

    It sees one-dimensional convolutions as two-dimensional ones of other strides, which are left out.
    """
    if operands[0].dim() < 4:
        return []
    formats = {suggested_format(operand) for operand in operands}
    channels_last = formats - {torch.contiguous_format}
    chosen = channels_last.pop() if channels_last else torch.contiguous_format
    others = [operand for operand in operands if not operand.is_contiguous(memory_format=chosen)]
    return [_copy_to(operand, chosen) for operand in others]


def _copy_to(operand: torch.Tensor, memory_format: torch.memory_format) -> tuple[Any, tuple[Any, ...], torch.Tensor]:
    like = torch.empty(operand.shape, dtype=operand.dtype, device="meta", memory_format=memory_format)
    return _aten.clone.default, (operand,), like


#: By operator name. Implementations in ATen/native/cuda: layer_norm_kernel.cu, group_norm_kernel.cu, SoftMax.cu,
#: ReflectionPad.cu, ReplicationPadding.cu, MaxUnpooling.cu.
SIDES: Final[dict[str, Side]] = {
    "_softmax_backward_data": _softmax_backward,
    "convolution": lambda args: _copy_convolved(args[:2]),
    "convolution_backward": lambda args: _copy_convolved(args[:3]),
    **dict.fromkeys(
        (
            "native_layer_norm",
            "_fused_rms_norm",
            "native_group_norm",
            "_softmax",
            "_log_softmax",
            "reflection_pad2d",
            "replication_pad2d",
        ),
        _copies_of(0),
    ),
    **dict.fromkeys(
        (
            "native_layer_norm_backward",
            "_fused_rms_norm_backward",
            "native_group_norm_backward",
            "max_unpool2d",
            "max_unpool3d",
        ),
        _copies_of(0, 1),
    ),
}


def compute(gpus: Gpus, device: Device, side: Side, args: tuple[Any, ...]) -> list[Block]:
    """Run the first operators; returns their memory, which the caller frees after the operator was issued.

    Raises:
        torch.OutOfMemoryError: The virtual device is full; torch's message.
    """
    blocks = []
    for func, arguments, like in side(args):
        blocks.append(gpus.reserve(device, like.numel() * like.element_size()))
        gpus.launch(device, cost.kernel_work(gpus.spec, func, arguments, {}, like))
    return blocks
