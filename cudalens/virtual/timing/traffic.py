"""Count the bytes that an operator reads and writes, by its schema. Caches are not modelled.

A tensor that is passed twice is read once; a tensor that repeats elements (``expand``, overlapping windows) counts its
elements in memory; an in-place operator reads and writes; a gather reads the selected rows, not the table. Data that an
operator passes between its own kernels (a sort's passes, a workspace) is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from cudalens.device.tensors import stored_parts
from cudalens.virtual.timing.kernel_times import PICKS, TOUCHES

_READ, _WRITE, _UNREAD, _BOTH, _TWICE, _PICKED, _TOUCHED = range(7)

#: In-place operators that do not read their output.
_OVERWRITES: Final = frozenset(
    (
        "fill_",
        "zero_",
        "copy_",
        "uniform_",
        "normal_",
        "exponential_",
        "cauchy_",
        "geometric_",
        "log_normal_",
        "random_",
        "bernoulli_",
    )
)

#: Arguments that are used only for their shape, by operator; ``*_like`` and ``new_*`` also read none.
_SHAPE_ONLY: Final = {"nll_loss_backward": {1}, "nll_loss2d_backward": {1}, "max_pool2d_with_indices_backward": {1}}


#: Arguments that are read twice, once for the statistics: recorded at 3 and 5 times a tensor's bytes (V100).
_READ_TWICE: Final[dict[str, frozenset[str]]] = dict.fromkeys(
    (
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_batch_norm_with_update",
        "cudnn_batch_norm",
        "native_batch_norm_backward",
        "cudnn_batch_norm_backward",
        "batch_norm_backward",
    ),
    frozenset({"input", "grad_out", "grad_output"}),
)

#: Position of the argument of those operators by which they use the running statistics instead: each element is then
#: read once, and computed on its own.
_IS_TRAINING: Final = {
    "native_batch_norm": 5,
    "_native_batch_norm_legit": 5,
    "cudnn_batch_norm": 5,
    "native_batch_norm_backward": 7,
}

#: Operators that draw a random number for each element.
_DRAWS: Final = (
    "uniform_ normal_ exponential_ cauchy_ geometric_ log_normal_ random_ bernoulli_ rand randn randint rand_like "
    "randn_like randperm"
)
RANDOM: Final = frozenset(_DRAWS.split())

#: Operators that access their tensors like a pointwise operator but lack torch's tag.
_LIKE_POINTWISE: Final = frozenset(
    {"clone", "_to_copy", "full", "ones", "zeros", "rand", "randn", "randint", "arange", "linspace", "native_dropout"}
)


class _Plan:
    """How an overload uses each tensor argument, by position and by name, from its schema."""

    __slots__ = ("arguments", "is_pointwise", "is_training", "keywords", "returns_new")

    def __init__(self, func: torch._ops.OpOverload) -> None:
        schema = func._schema
        uses = [
            (index, argument, _access(schema, index, argument))
            for index, argument in enumerate(schema.arguments)
            if "Tensor" in str(argument.type)
        ]
        self.arguments = tuple((index, access) for index, argument, access in uses if not argument.kwarg_only)
        self.keywords = {argument.name: access for _, argument, access in uses}
        self.returns_new = any(value.alias_info is None for value in schema.returns)
        name = _name(schema)
        self.is_training = _IS_TRAINING.get(name)
        self.is_pointwise = (
            torch.Tag.pointwise in func.tags
            or name in _LIKE_POINTWISE
            or name in _OVERWRITES
            or name.endswith("_like")
            or name.startswith(("new_", "_foreach_"))
        )


_plans: dict[torch._ops.OpOverload, _Plan] = {}


def traffic(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Traffic:
    """Return the traffic of a call of `func`.

    Args:
        func: An operator overload.
        args: The arguments of the call.
        kwargs: The keyword arguments of the call.
        out: The result of the call.
    """
    plan = _plans.get(func)
    if plan is None:
        plan = _plans[func] = _Plan(func)
    moved = Traffic(func, args, kwargs, out)
    uses_running = plan.is_training is not None and not args[plan.is_training]
    for index, access in plan.arguments:
        if index >= len(args):
            break
        moved.add(args[index], _READ if uses_running and access == _TWICE else access)
    for name in kwargs:
        if name in plan.keywords:
            moved.add(kwargs[name], plan.keywords[name])
    if plan.returns_new:
        moved.add(out, _WRITE)
    moved.is_pointwise = plan.is_pointwise
    if uses_running and "backward" not in func._schema.name:
        moved.is_pointwise, moved.has_broadcast = True, False  # its kernel loads whole vectors
    return moved


class Traffic:
    """The traffic of a call. Uses slots and few calls, because it is created for every operator.

    Attributes:
        num_bytes: Bytes read and written.
        num_elements: Elements of the largest tensor, or list of tensors, that it reads or writes.
        dtype: The dtype of its first tensor; None if it has none.
        is_pointwise: Whether each element of the result depends on one element of each operand.
        has_broadcast: Whether operands of different sizes count as broadcast.
    """

    __slots__ = (
        "_args",
        "_func",
        "_kwargs",
        "_least",
        "_num_most",
        "_out",
        "_permuted",
        "_seen",
        "dtype",
        "has_broadcast",
        "is_pointwise",
        "num_bytes",
        "num_elements",
    )

    def __init__(self, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        self._func, self._args, self._kwargs, self._out = func, args, kwargs, out
        self.num_bytes = self.num_elements = self._num_most = self._least = 0
        self.dtype: torch.dtype | None = None
        self.is_pointwise = False
        self.has_broadcast = True
        self._permuted: list[tuple[int, tuple[int, ...], bool]] | None = None
        self._seen: set[int] = set()

    def add(self, value: Any, access: int) -> None:
        """Count a tensor, or each tensor of a list, once; ignore other values."""
        if isinstance(value, Tensor):
            self._add_elements(self._moved(value, access))
        elif isinstance(value, list | tuple):
            self._add_elements(sum([self._moved(item, access) for item in value if isinstance(item, Tensor)]))

    def _moved(self, value: Tensor, access: int) -> int:
        """Add a tensor's bytes; returns the elements that were moved."""
        if id(value) in self._seen:
            return 0
        self._seen.add(id(value))
        if self.dtype is None:
            self.dtype = value.dtype
        if access == _UNREAD:
            return 0
        if value.layout is not torch.strided:
            # A sparse tensor's stored values and indices.
            self.num_bytes += sum(part.nbytes for part in stored_parts(value)) * (2 if access >= _BOTH else 1)
            return stored_elements(value)
        num_elements = value.numel()
        moved = value.nbytes
        if not value.is_contiguous():
            distinct, span = distinct_and_span(value)
            moved = min(distinct, span) * value.element_size()
            if self._permuted is None:
                self._permuted = []
            self._permuted.append((num_elements, value.stride(), distinct == span == num_elements))
        if access >= _PICKED:
            moved = self._part(value, moved, access)
            num_elements = moved // value.element_size()
        elif access >= _BOTH:
            moved = 2 * min(moved, self._most_updated(value))
        self.num_bytes += moved
        return num_elements

    def _add_elements(self, num_elements: int) -> None:
        """Update the largest number of elements, how often it occurs, and the smallest of the others above 1."""
        most = self.num_elements
        if num_elements == most:
            self._num_most += 1
            return
        if num_elements > most:
            self.num_elements, self._num_most = num_elements, 1
            num_elements = most
        if num_elements > 1 and (num_elements < self._least or not self._least):
            self._least = num_elements

    def _most_updated(self, value: Tensor) -> int:
        """Bytes of a dense tensor that an in-place operator can change: adding a sparse one changes its stored rows."""
        for other in self._args:
            if isinstance(other, Tensor) and other.layout is torch.sparse_coo:
                return stored_elements(other) * value.element_size()
        return value.nbytes

    def _part(self, table: Tensor, whole_bytes: int, access: int) -> int:
        """Bytes of a table that a gather reads, or that a scatter reads and writes."""
        rule = (PICKS if access == _PICKED else TOUCHES)[_name(self._func._schema)]
        num_elements = rule(table, self._args, self._kwargs, self._out)
        part_bytes = min(whole_bytes, num_elements * table.element_size())
        return part_bytes if access == _PICKED else 2 * part_bytes

    @property
    def is_strided(self) -> bool:
        """Whether it is pointwise with a broadcast or non-contiguous operand, which PyTorch does not vectorise."""
        if not self.is_pointwise:
            return False
        if self.has_broadcast and self._least > 0:
            return True
        # Large tensors have gaps or differ in memory order; one common order (channels last) is vectorised.
        permuted = self._permuted or ()
        large = [(strides, whole) for num_elements, strides, whole in permuted if num_elements == self.num_elements]
        if not large:
            return False
        return len(large) != self._num_most or len(set(large)) > 1 or not large[0][1]

    @property
    def is_permuted(self) -> bool:
        """Whether its large tensors have their rows in different dimensions, as those of a transposed copy do.

        A warp then reads or writes each element in a memory sector of its own.
        """
        if not self.is_pointwise or self._permuted is None:
            return False
        large = [strides for num_elements, strides, _ in self._permuted if num_elements == self.num_elements]
        row_dims = set()  # the dimension whose elements are nearest to each other in memory; the last of several
        for strides in large:
            distances = [(stride or math.inf, -dim) for dim, stride in enumerate(strides)]
            row_dims.add(-min(distances)[1] if distances else -1)
        if large and len(large) != self._num_most:  # the others are contiguous
            row_dims.add(len(large[0]) - 1)
        return len(row_dims) > 1


def stored_elements(tensor: Tensor) -> int:
    """Elements of a tensor; for a sparse tensor, the stored elements."""
    if tensor.layout is torch.strided:
        return tensor.numel()
    parts = stored_parts(tensor)
    return parts[0].numel() if parts else tensor.numel()


def distinct_and_span(tensor: Tensor) -> tuple[int, int]:
    """Elements along dimensions with a stride, and elements from the first to the last, in memory.

    A tensor uses the smaller of the two: overlapping windows span less.
    """
    span = distinct = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 0:
            return 0, 0
        if stride:
            distinct *= size
            span += (size - 1) * stride
    return distinct, span


def _name(schema: torch.FunctionSchema) -> str:
    """Return the operator name without its namespace."""
    return schema.name.partition("::")[2]


def _access(schema: torch.FunctionSchema, index: int, argument: Any) -> int:
    """Return how an argument is used: by its alias annotation, or by name where the schema does not specify it."""
    name = _name(schema)
    if index in _SHAPE_ONLY.get(name, ()) or name.endswith("_like") or name.startswith("new_"):
        return _UNREAD
    if argument.name in _READ_TWICE.get(name, ()):
        return _TWICE
    if index == 0 and name in PICKS:
        return _PICKED
    if index == 0 and name in TOUCHES and name.endswith("_"):
        return _TOUCHED
    if name.startswith("_fused_") and argument.name == "grads":
        return _READ  # written only where a scaler passes ``grad_scale``
    if argument.alias_info is not None and argument.alias_info.is_write:
        return _WRITE if argument.is_out or name in _OVERWRITES else _BOTH
    return _READ
