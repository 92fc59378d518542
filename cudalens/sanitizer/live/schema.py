"""The accesses of an operator: derived from its schema, and found among its arguments and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cudalens.sanitizer.engine.accesses import Operand

#: Operators that read or change only shapes and other metadata, contrary to their schema.
_METADATA: Final = frozenset(
    {
        "_coalesced_",
        "_dimI",
        "_dimV",
        "_has_compatible_shallow_copy_type",
        "_indices",
        "_is_zerotensor",
        "_nested_tensor_size",
        "_nested_tensor_storage_offsets",
        "_nested_tensor_strides",
        "_nnz",
        "_reshape_alias",
        "_resize_output_",
        "_unsafe_view",
        "_values",
        "_version",
        "dense_dim",
        "detach_",
        "dim",
        "is_coalesced",
        "is_contiguous",
        "is_non_overlapping_and_dense",
        "is_pinned",
        "is_same_size",
        "is_set_to",
        "is_strides_like_format",
        "lift",
        "lift_fresh",
        "numel",
        "rename_",
        "requires_grad_",
        "retain_grad",
        "set_",
        "set_data",
        "size",
        "sparse_dim",
        "squeeze_",
        "stride",
        "sym_is_contiguous",
        "sym_numel",
        "sym_size",
        "sym_storage_offset",
        "sym_stride",
        "unsafe_chunk",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "unsqueeze_",
    }
)

#: Arguments that an operator writes in training, and that its schema does not declare as written.
_TRAINING_WRITES: Final[Mapping[str, frozenset[str]]] = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), frozenset({"running_mean", "running_var"})
)

#: Arguments that c10d's operators write, which their schemas do not declare (torch/csrc/distributed/c10d/Ops.cpp).
_COLLECTIVE_WRITES: Final[Mapping[str, frozenset[str]]] = {
    "allreduce_": frozenset({"tensors"}),
    "allreduce_coalesced_": frozenset({"tensors"}),
    "broadcast_": frozenset({"tensors"}),
    "reduce_": frozenset({"tensors"}),
    "recv_": frozenset({"tensors"}),
    "recv_any_source_": frozenset({"tensors"}),
    "allgather_": frozenset({"output_tensors"}),
    "_allgather_base_": frozenset({"output_tensor"}),
    "allgather_coalesced_": frozenset({"output_lists"}),
    "allgather_into_tensor_coalesced_": frozenset({"outputs"}),
    "gather_": frozenset({"output_tensors"}),
    "scatter_": frozenset({"output_tensors"}),
    "reduce_scatter_": frozenset({"output_tensors"}),
    "_reduce_scatter_base_": frozenset({"output_tensor"}),
    "reduce_scatter_tensor_coalesced_": frozenset({"outputs"}),
    "alltoall_": frozenset({"output_tensors"}),
    "alltoall_base_": frozenset({"output"}),
}

_COPIES: Final = frozenset({"copy_", "_to_copy", "_copy_from", "_copy_from_and_resize"})

#: Operators that launch nothing after they wait for the stream.
_FETCHES: Final = frozenset({"_local_scalar_dense", "equal", "is_nonzero", "_linalg_check_errors", *_COPIES})


@dataclass(frozen=True, slots=True)
class Plan:
    """The accesses of an operator overload.

    Attributes:
        name: Its name, as in ``aten::add``.
        inputs: For each positional argument, its use and whether it is written; None for an argument without tensors
            whose elements are accessed.
        has_lists: Whether an argument is a list of tensors.
        by_name: `inputs` by the names of the arguments.
        outputs: For each result, its use; None if it is not a new tensor.
        is_silent: It accesses no element of any tensor.
        is_copy: It copies with the option ``non_blocking``.
        makes: It has a device argument: its results may be on any device.
        is_empty: It does not write its results.
        is_plain: It returns one new tensor, on the device of its arguments, and writes all of it.
        is_special: It is one of the next two kinds, which the schema does not describe.
        resizes: It may move a tensor to other memory, with its contents.
        records_stream: It is ``record_stream``.
        fetches: It launches nothing after it waits for the stream.
        is_collective: It runs on a stream of its process group.
        training: The plan in training, for operators with an argument ``training``.
        training_at: Position of that argument.
    """

    name: str
    inputs: tuple[tuple[Operand, bool] | None, ...] = ()
    has_lists: bool = False
    by_name: Mapping[str, tuple[Operand, bool]] = field(default_factory=dict)
    outputs: tuple[Operand | None, ...] = ()
    is_silent: bool = False
    is_copy: bool = False
    makes: bool = False
    is_empty: bool = False
    is_plain: bool = False
    is_special: bool = False
    resizes: bool = False
    records_stream: bool = False
    fetches: bool = False
    is_collective: bool = False
    training: Plan | None = None
    training_at: int = -1


def make_plan(func: Any) -> Plan:
    """Return the plan of an operator overload (``torch.ops.aten.add.Tensor``)."""
    schema = func._schema
    namespace, _, short = schema.name.partition("::")
    if namespace == "aten" and short == "resize_":
        return Plan(schema.name, is_special=True, resizes=True)
    if namespace == "aten" and short == "record_stream":
        return Plan(schema.name, is_special=True, records_stream=True)
    infos = [result.alias_info for result in schema.returns]
    is_view = bool(infos) and all(info is not None and not info.is_write for info in infos)
    if short in _METADATA or torch.Tag.inplace_view in func.tags or is_view:
        return Plan(schema.name, is_silent=True)
    hidden = _COLLECTIVE_WRITES.get(short, frozenset()) if namespace == "c10d" else frozenset()
    plan = _plan(func, short, hidden, None)
    if short not in _TRAINING_WRITES:
        return plan
    names = [argument.name for argument in schema.arguments]
    return _plan(func, short, frozenset(), (_plan(func, short, _TRAINING_WRITES[short], None), names.index("training")))


def _plan(func: Any, short: str, hidden_writes: frozenset[str], training: tuple[Plan, int] | None) -> Plan:
    schema = func._schema
    ignores = short.endswith("_like") or short.startswith("new_")
    uses: list[tuple[Operand, bool] | None] = []
    for position, argument in enumerate(schema.arguments):
        is_write = _is_written(argument) or argument.name in hidden_writes
        is_read = _holds_tensors(argument) and not (ignores and position == 0)
        uses.append((Operand(schema.name, argument.name), is_write) if is_read or is_write else None)
    names = [argument.name for argument in schema.arguments]
    outputs = _outputs(schema)
    is_elsewhere = "device" in names or short in _COPIES
    return Plan(
        name=schema.name,
        inputs=tuple(uses),
        has_lists=any("List" in str(a.type) for a, use in zip(schema.arguments, uses, strict=True) if use is not None),
        by_name={name: use for name, use in zip(names, uses, strict=True) if use is not None},
        outputs=outputs,
        is_plain=len(outputs) == 1 and not is_elsewhere and not _is_empty(short),
        is_copy=short in _COPIES,
        makes="device" in names,
        is_empty=_is_empty(short),
        fetches=short in _FETCHES,
        is_collective=schema.name.startswith(("c10d::", "_c10d_functional::")),
        training=None if training is None else training[0],
        training_at=-1 if training is None else training[1],
    )


def _outputs(schema: Any) -> tuple[Operand | None, ...]:
    """The uses of results; results that alias an argument are accesses of the argument."""
    fresh = [r.alias_info is None and _holds_tensors(r) for r in schema.returns]
    uses = [
        Operand(schema.name, r.name or "output") if is_fresh else None
        for r, is_fresh in zip(schema.returns, fresh, strict=True)
    ]
    return tuple(uses) if any(fresh) else ()


def _is_empty(short: str) -> bool:
    return short.startswith(("empty", "new_empty", "_empty"))


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _holds_tensors(value: Any) -> bool:
    return "Tensor" in str(value.type)


def pairs(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, tuple[Operand, bool]]]:
    """Return each argument whose elements are accessed, with its use; lists are flattened."""
    found: list[tuple[Any, tuple[Operand, bool]]] = []
    for value, use in zip(args, plan.inputs, strict=False):  # trailing arguments may be left out
        if use is not None:
            _add(found, value, use)
    if kwargs:
        for name, value in kwargs.items():
            use = plan.by_name.get(name)
            if use is not None:
                _add(found, value, use)
    return found


def _add(found: list[tuple[Any, tuple[Operand, bool]]], value: Any, use: tuple[Operand, bool]) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _add(found, item, use)
    else:
        found.append((value, use))


def results(out: Any, outputs: tuple[Operand | None, ...]) -> Iterable[tuple[torch.Tensor, Operand]]:
    """Return each fresh tensor among the results, with its use."""
    first = outputs[0]
    if isinstance(out, torch.Tensor):
        return () if first is None else ((out, first),)
    if not isinstance(out, list | tuple):
        return ()
    several = zip(out, outputs, strict=False) if len(outputs) > 1 else ((out, first),)
    return [(t, use) for value, use in several if use is not None for t in _flat(value) if isinstance(t, torch.Tensor)]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


#: The dense tensors of a sparse one, by layout.
_PIECES: Final = (
    (torch.sparse_coo, ("_indices", "_values")),
    (torch.sparse_csr, ("crow_indices", "col_indices", "values")),
    (torch.sparse_bsr, ("crow_indices", "col_indices", "values")),
    (torch.sparse_csc, ("ccol_indices", "row_indices", "values")),
    (torch.sparse_bsc, ("ccol_indices", "row_indices", "values")),
)


def storage_of(tensor: Any) -> Any:
    """Return the storage of a tensor, or None if it has none (sparse, nested, of a functorch level)."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def dense(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the tensor itself, or its `pieces` if it has no storage."""
    return pieces(tensor) if storage_of(tensor) is None else (tensor,)


def pieces(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the dense tensors of a tensor without a storage of its own; empty if they are unknown."""
    with _disable_current_modes():
        for layout, names in _PIECES:
            if tensor.layout == layout:
                return [getattr(tensor, name)() for name in names]
    return ()


def flag(name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return a boolean argument, given by position or by name; False if it was left out."""
    return bool(args[position] if 0 <= position < len(args) else kwargs.get(name, False))
