"""DistributedDataParallel without values: torch's C++ reducer in Python, with the same buckets and copies.

The C++ reducer reads the results of its collectives through pointers, which tensors without values do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from cudalens.errors import VirtualDeviceError

_HOOK: Final = (
    "DistributedDataParallel.register_comm_hook needs values: the hook gets the buckets of torch's C++ reducer. "
    "Simulate the job without the hook."
)
_UNUSED: Final = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`. "
    "Parameters that did not receive a gradient: {names}"
)
_SHOWN_NAMES: Final = 5


class _Bucket:
    """Gradients that one all_reduce sums.

    Args:
        parameters: The parameters, in order.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        first = self.parameters[0]
        sizes = [parameter.numel() for parameter in self.parameters]
        self.buffer = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
        parts = torch.split(self.buffer, sizes)
        self.views = dict(zip(map(id, self.parameters), parts, strict=True))
        self.num_pending = len(self.parameters)
        self.work: Any = None

    def view_of(self, parameter: Tensor) -> Tensor:
        """The part of the buffer of a parameter's gradient."""
        return self.views[id(parameter)].view(parameter.shape)


class Reducer:
    """Sums gradients over a process group, bucket by bucket, during the backward pass; the C++ class's interface."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: Any,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = 25 << 20,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: dict[int, str] | None = None,
        first_bucket_bytes_cap: int = 1 << 20,
        *rest: Any,
    ) -> None:
        self._parameters, self._group = list(parameters), process_group
        self._size = process_group.size()
        self._names = param_to_name_mapping or {}
        self._limits = [first_bucket_bytes_cap, bucket_bytes_cap]
        self._finds_unused, self._views_gradients = find_unused_parameters, gradient_as_bucket_view
        self._order: list[Tensor] = []
        self._reached: set[int] = set()  # the identities of parameters with a gradient of this pass
        self._is_rebuilt = find_unused_parameters
        self._is_expecting, self._is_queued = False, False
        self._next = 0
        self._make_buckets([[self._parameters[index] for index in indices] for indices in bucket_indices])
        register: Any = Tensor.register_post_accumulate_grad_hook
        self._hooks = [register(parameter, self._ready) for parameter in self._parameters]

    def _make_buckets(self, groups: Sequence[Sequence[Tensor]]) -> None:
        self._buckets = [_Bucket(group) for group in groups]
        self._bucket_of = {id(parameter): bucket for bucket in self._buckets for parameter in bucket.parameters}

    def set_logger(self, logger: Any) -> None:
        """Do nothing."""

    def prepare_for_forward(self) -> None:
        """Check that the last backward pass reached every parameter.

        Raises:
            RuntimeError: It did not; torch's message.
        """
        if self._is_expecting and self._reached:
            missing = [index for index, one in enumerate(self._parameters) if id(one) not in self._reached]
            names = ", ".join(self._names.get(index, str(index)) for index in missing[:_SHOWN_NAMES])
            raise RuntimeError(_UNUSED.format(names=names))

    def prepare_for_backward(self, outputs: Sequence[Tensor]) -> None:
        """Expect a gradient of every parameter."""
        self._is_expecting, self._next = True, 0
        self._reached.clear()
        for bucket in self._buckets:
            bucket.num_pending, bucket.work = len(bucket.parameters), None
        if not self._is_rebuilt:
            self._order = []

    def _rebuild_buckets(self) -> bool:
        """After the first backward pass, put parameters into buckets in the order in which gradients came."""
        if self._is_rebuilt or len(self._order) != len(self._parameters):
            return False
        self._is_rebuilt = True
        indices, _ = dist._compute_bucket_assignment_by_size(  # type: ignore[attr-defined]
            self._order, self._limits, [False] * len(self._order)
        )
        self._make_buckets([[self._order[index] for index in group] for group in indices])
        return True

    def _ready(self, parameter: Tensor) -> None:
        """The gradient of a parameter is complete."""
        if not self._is_expecting:  # in no_sync()
            return
        self._reached.add(id(parameter))
        if not self._is_queued:
            self._is_queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        if not self._is_rebuilt or self._finds_unused:
            self._order.append(parameter)
        bucket = self._bucket_of[id(parameter)]
        with torch.no_grad():
            self._fill(bucket, parameter)
        bucket.num_pending -= 1
        self._reduce_ready()

    def _fill(self, bucket: _Bucket, parameter: Tensor) -> None:
        """Divide a gradient by the number of ranks, into its bucket."""
        view, gradient = bucket.view_of(parameter), parameter.grad
        assert gradient is not None
        if gradient.untyped_storage()._cdata == view.untyped_storage()._cdata:  # from the second iteration on
            view.div_(self._size)
            return
        torch.mul(gradient, 1.0 / self._size, out=view)
        if self._views_gradients:
            parameter.grad = view

    def _reduce_ready(self) -> None:
        """Start the collectives of complete buckets, in order."""
        while self._next < len(self._buckets) and not self._buckets[self._next].num_pending:
            bucket = self._buckets[self._next]
            bucket.work = dist.all_reduce(bucket.buffer, group=self._group, async_op=True)
            self._next += 1

    def _finish(self) -> None:
        """At the end of a backward pass: wait for the collectives, and copy the sums to the gradients."""
        self._is_queued = False
        if self._finds_unused:
            for bucket in self._buckets[self._next :]:
                bucket.num_pending = 0
            self._reduce_ready()
        if self._next < len(self._buckets):
            return  # the next forward pass raises the error
        self._is_expecting = False
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.work.wait()
                self._copy_back(bucket)

    def _copy_back(self, bucket: _Bucket) -> None:
        if self._views_gradients:
            return
        for parameter in bucket.parameters:
            if parameter.grad is not None:
                parameter.grad.copy_(bucket.view_of(parameter))

    def _remove_autograd_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _set_static_graph(self) -> None:
        """Parameters without a gradient have none in every iteration."""
        self._finds_unused = True

    def _delay_all_reduce(self) -> None:
        """Do nothing. The C++ class reduces a static graph's first gradients here; `_finish` does it for all passes."""

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        """Do nothing."""

    def _get_zeros_like_grad_buckets(self) -> list[Any]:
        raise VirtualDeviceError(_HOOK)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise VirtualDeviceError(
            f"DistributedDataParallel without values does not support {name} of torch's reducer (communication hooks, "
            "join(), mixed precision of DDP). Use FSDP2 or autocast, or simulate the job without it."
        )


def refuse_hook(*args: Any) -> None:
    """Refuse a communication hook, in place of the functions that give one to the C++ reducer.

    Raises:
        VirtualDeviceError: Always.
    """
    raise VirtualDeviceError(_HOOK)


class ReducerLogger:
    """The C++ class's interface, which logs nothing."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: {}


def broadcast_coalesced(group: Any, tensors: Sequence[Tensor], buffer_bytes: int, source: int = 0) -> None:
    """Broadcast tensors in buckets, as torch's C++ function does.

    Args:
        group: The process group.
        tensors: The tensors.
        buffer_bytes: The size of a bucket.
        source: The rank in the group that sends.
    """
    dense = [tensor.detach() for tensor in tensors if tensor.numel()]
    if not dense:
        return
    indices, _ = dist._compute_bucket_assignment_by_size(  # type: ignore[attr-defined]
        dense, [buffer_bytes], [False] * len(dense)
    )
    for group_indices in indices:
        flat = torch.cat([dense[index].reshape(-1) for index in group_indices])
        dist.broadcast(flat, dist.get_global_rank(group, source), group=group)
        parts = torch.split(flat, [dense[index].numel() for index in group_indices])
        for index, part in zip(group_indices, parts, strict=True):
            dense[index].copy_(part.view(dense[index].shape))
