"""Dispatch mode of the virtual device: runs aten operators on the CPU, and models allocation, launch and waits."""

from __future__ import annotations

import functools
import threading
from contextlib import nullcontext
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import accumulation, call_tracing
from cudalens.device.index_masks import waits_for_mask
from cudalens.device.modes import conjugation, has_own_dispatch, is_faking
from cudalens.virtual.allocator import Block
from cudalens.virtual.dispatch import kernels, refusals
from cudalens.virtual.dispatch.cuda_dtypes import check_dtypes
from cudalens.virtual.dispatch.fused_layers import COMPOSITES
from cudalens.virtual.dispatch.mixed_devices import adopt_or_raise, adopt_target, check_out, locate
from cudalens.virtual.dispatch.plans import (
    Plan,
    are_scratch,
    is_call_on_device,
    make_plan,
    mark,
    mark_result,
    python_kernel,
)
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.shapes.operators import Shapes
from cudalens.virtual.shapes.storage import lacks_values, tensors_among
from cudalens.virtual.tensors import arenas
from cudalens.virtual.tensors import arenas as hosting
from cudalens.virtual.tensors.copies import check_capture, run_copy
from cudalens.virtual.tensors.device_arguments import user_code
from cudalens.virtual.tensors.residency import (
    KEY,
    dense_parts,
    is_any_resident,
    is_pinned,
    is_sparse,
    parts_of,
    pin,
    residence_of,
)
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.torch_cuda import rng
from cudalens.virtual.torch_cuda.rng import Caller, call_now

_aten = torch.ops.aten
_num_function_modes = torch._C._len_torch_function_stack
_NESTED = tuple(
    packet.default
    for name in ("tensor_from_tensor_list", "tensor_from_mask", "from_padded", "view_from_buffer", "view_from_jagged")
    if (packet := getattr(_aten, f"_nested_{name}", None)) is not None
)
#: Plans are cached for the lifetime of the process, as operators are.
_plans: dict[Any, Plan] = {}


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Handles every aten operator below autograd: runs it on CPU tensors, and models what a GPU would do."""

    cudalens_executes = True

    def __init__(self, gpus: Gpus) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._gpus, self._machine, self._target = gpus, gpus.machine, gpus.target
        self._host_time = gpus.machine.host_time
        self._shapes = gpus.shapes
        # A thread that never uses a GPU, such as one that pins the batches of a DataLoader, does not delay the program.
        is_beside = threading.get_ident() != gpus.machine.thread
        self._host_op_ns = 0 if is_beside else gpus.spec.host_op_ns
        self._special = {
            _aten._to_copy.default: self._to_copy,
            _aten.copy_.default: self._copy,
            _aten._pin_memory.default: self._pin,
            _aten.is_pinned.default: self._is_pinned,
            _aten._pack_padded_sequence.default: self._pack_sequence,
            **dict.fromkeys(_NESTED, self._nested),
        }

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Avoid the wrapper around the handler, which would import torch._dynamo (slow)."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile functions while this mode is on; it is off until the compiled code runs."""
        return True

    @call_tracing.pausable
    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if is_faking():
            return func(*args, **(kwargs or {}))
        if types and has_own_dispatch(types):
            return NotImplemented  # the operators that the subclass calls come here
        called = func
        if func is accumulation.ADD:
            func = accumulation.addition(args, kwargs)
        plan = _plan(func)
        if plan.is_composite:
            # Autograd decomposes it first, except in inference mode.
            torch._C._push_on_torch_dispatch_stack(self)
            try:
                return COMPOSITES.get(func, func.decompose)(*args, **(kwargs or {}))
            finally:
                torch._C._pop_torch_dispatch_stack(None)
        if plan.is_of_library and (key := python_kernel(func, is_any_resident(args))) is not None:
            return self._run_python(func, key, args, kwargs or {})
        recorder = self._machine.recorder
        try:
            self._host_time.enter()  # where no function mode saw the call: a scripted function runs in C++
            if recorder is None:
                return self._run_or_explain(func, args, kwargs or {})
            begun = recorder.begin(called._schema.name)  # torch's profiler records it under this name
            try:
                return self._run_or_explain(func, args, kwargs or {})
            finally:
                recorder.end(begun)
        finally:
            self._host_time.leave()

    def _run_python(self, func: Any, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the Python code of a library's operator, whose own operators use the device."""
        torch._C._push_on_torch_dispatch_stack(self)
        try:
            with user_code(self._gpus):
                keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
                return call_tracing.unpaused(func.redispatch, keys, *args, **kwargs)
        finally:
            torch._C._pop_torch_dispatch_stack(None)

    def _run_or_explain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._gpus.is_closed:  # on a thread that runs after the device has ended
            return func(*args, **kwargs)
        try:
            if _num_function_modes():  # in a backward pass: do not call the user's function modes
                with torch._C.DisableTorchFunction():
                    return self._dispatch(func, args, kwargs)
            return self._dispatch(func, args, kwargs)
        except RuntimeError as error:
            if self._gpus.serves_graphs and _plan(func).resizes and arenas.is_resize_error(error):
                again = lambda: self._run_or_explain(func, args, kwargs)  # noqa: E731
                return arenas.run_resizable(self._gpus, error, (*args, *kwargs.values()), again)
            better = refusals.explain(error, func._schema.name, (*args, *kwargs.values()), is_below=True)
            if better is None:
                raise
            try:
                raise better from error
            finally:
                del better  # this frame is in its traceback: a cycle would keep the tensors of the call

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        log = self._machine.op_log
        with conjugation(func) if _plan(func).conjugates else _NO_CONTEXT:
            out = self._execute(func, args, kwargs) if log is None else log.watch(self._execute, func, args, kwargs)
        if _plan(func).writes_list:
            increment_version([tensor for tensor in args[0] if not tensor.is_inference()])
        return out

    def _execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        plan = _plan(func)
        if plan.takes_time:
            self._machine.now_ns += self._host_op_ns
        if self._gpus.communicator is not None and not plan.is_view:
            self._gpus.communicator.wait_for_buckets((*args, *kwargs.values()))
        special = self._special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        device, is_mixed = locate(args)
        if kwargs and (device is None or not plan.resizes):
            named, saw_host = locate(list(kwargs.values()))
            is_mixed = is_mixed or saw_host or named is not (device and named)
            device = device or named
        if plan.makes:
            return self._make(plan, func, args, kwargs, device)
        if device is None:
            if plan.communicates and self._gpus.communicator is not None:
                return self._gpus.communicator.run_on_host(func, args, kwargs)
            rng.check_host(kwargs)
            begin = self._host_time.now_ns()
            out = self._on_host(func, args, kwargs)
            if are_scratch(args):
                return mark_result(out, args)
            self._host_time.add(begin)
            return out
        if is_mixed or (plan.resizes and kwargs):
            self._unmix(plan, func, args, kwargs, device)
        return self._run(plan, func, args, kwargs, device)

    def _run(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> Any:
        """Run an operator on the device: compute its values, then model allocation, launch and waits."""
        if not self._host_op_ns:
            self._host_op_ns = self._gpus.spec.host_op_ns
        if plan.is_view:
            return self._view(func(*args, **kwargs), device)
        if plan.lacking:
            check_dtypes(plan.name, plan.lacking, args)
        syncs = (plan.syncs and kwargs.get("output_size") is None) or (
            plan.indexes and waits_for_mask(args, kwargs, _is_on_host)
        )
        if syncs:
            self._gpus.check_sync()
        act = plan.instead or func
        if plan.communicates and self._shapes is None and self._gpus.communicator is not None:
            out = self._gpus.communicator.compute(func, args, kwargs)
        elif plan.draws or self._machine.captures or self._machine.op_log is not None or self._shapes is not None:
            out = self._compute(plan, act, args, kwargs, device)
        else:
            out = act(*args, **kwargs)
        if plan.resizes:
            self._reallocate(args, kwargs)
        if syncs:  # the host waits for the size of the result, then allocates it
            if plan.has_work:
                kernels.launch(self._gpus, device, plan, func, args, kwargs, out)
            kernels.fetch(self._gpus, device, plan.name)
            self._place_results(out, device)
            return out
        self._place_results(args[:1] if out is None else out, device)  # None: it wrote a list of tensors
        if plan.has_work:
            kernels.launch(self._gpus, device, plan, func, args, kwargs, out)
        return out

    def _view(self, out: Any, device: Device) -> Any:
        """Return the result of a view; that of a sparse tensor may have new indices and values."""
        if isinstance(out, torch.Tensor) and is_sparse(out):
            self._place_results(out, device)
        return out

    def _compute(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> Any:
        """Compute an operator that draws random numbers, has no values, or that a capture or a log may record."""
        call = self._caller(device)
        if self._shapes is not None:
            if plan.draws:
                self._draw(device, kwargs)
            return call(func, args, kwargs)
        return rng.run(self._gpus, device, func, args, kwargs, call) if plan.draws else call(func, args, kwargs)

    def _draw(self, device: Device, kwargs: dict[str, Any]) -> None:
        """Record that a random operator without values uses a generator."""
        generator = rng.generator_of(self._gpus, device, kwargs)
        capture = self._machine.current_stream(device).capture if self._machine.captures else None
        if capture is not None:
            capture.draw(generator)

    def _on_host(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator on tensors of the host, which may have no values."""
        if self._shapes is None or not any(map(lacks_values, tensors_among((*args, *kwargs.values())))):
            return func(*args, **kwargs)
        return self._shapes.run(func, args, kwargs)

    def _caller(self, device: Device) -> Caller:
        """The function that runs an operator: without values, in the device's current capture, in the log, or now."""
        capture = self._machine.current_stream(device).capture if self._machine.captures else None
        if self._shapes is not None:
            return self._shapes.run if capture is None else self._shapes.capture
        if capture is not None:
            return capture.run
        log = self._machine.op_log
        return call_now if log is None else functools.partial(log.run, device)

    def _place_results(self, out: Any, device: Device) -> None:
        """Allocate blocks for new storages among the results."""
        if isinstance(out, torch.Tensor) and not has_own_dispatch((type(out),)):
            # The parts of a compressed sparse tensor are aliases: moving them to an arena does not move the tensor.
            in_arena = out.layout in (torch.strided, torch.sparse_coo)
            for tensor in parts_of(out) or (out,):
                if KEY not in tensor.untyped_storage().__dict__:
                    self._gpus.place_tensor(tensor, device, in_arena=in_arena)
        elif isinstance(out, tuple | list):
            for item in out:
                self._place_results(item, device)

    def _make(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: Device | None) -> Any:
        """Run a factory: its result is on the device of the call, else on that of its tensor argument."""
        named, device = kwargs.get("device"), own
        if named is not None and named.type not in ("cpu", "cuda"):
            return func(*args, **kwargs)
        if named is not None and named.type == "cuda":
            device = self._gpus.devices[self._gpus.device_index(named) or 0]
        elif named is not None and self._target.is_named:
            device = self._target.device
        kwargs = {**kwargs, "device": _CPU if named is not None else None}
        if device is not None:
            return self._make_on(device, plan, func, args, kwargs)
        pinned = kwargs.get("pin_memory")
        rng.check_host(kwargs)
        out = self._on_host(func, args, {**kwargs, "pin_memory": None} if pinned else kwargs)
        if pinned:
            pin(out)
        stored = dense_parts(out) if isinstance(out, torch.Tensor) else ()
        if stored and not self._target.is_factory and is_call_on_device():
            # Created by torch's C++ for a tensor that it takes for a CPU tensor; the first operator decides its device.
            for part in stored:
                mark(part)
            self._target.has_internal = not self._target.is_named
        return out

    def _reallocate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Allocate a new block for a storage that was resized in place."""
        for tensor in (*args, *kwargs.values()):
            residence = residence_of(tensor) if isinstance(tensor, torch.Tensor) else None
            if residence is not None and tensor.layout is not torch.strided:
                self._place_results(tensor, residence.device)
            elif residence is not None and residence.num_bytes != tensor.untyped_storage().nbytes():
                self._gpus.place_tensor(tensor, residence.device)

    def _make_on(self, device: Device, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs.get("pin_memory"):
            raise RuntimeError("Only dense CPU tensors can be pinned")
        if self._shapes is not None:
            return self._make_shape(self._shapes, device, plan, func, args, kwargs)
        like = hosting.meta_result(func, args, kwargs)
        # Allocate the block first if it may not fit: the host must not write a tensor that the device cannot hold.
        block = None if like is None else self._gpus.reserve(device, like.untyped_storage().nbytes())
        out = None if like is None else self._blank(device, func, like, block)
        if out is None:
            out = rng.make(self._gpus, device, func, args, kwargs, self._caller(device))
        elif self._machine.captures or self._machine.op_log is not None:
            # Record a factory whose result was allocated without running it.
            capture = self._machine.current_stream(device).capture
            if capture is not None:
                capture.record_result(func, args, kwargs, out)
            elif self._machine.op_log is not None:
                self._machine.op_log.log_factory(device, func, args, kwargs)
        if block is not None and residence_of(out) is None:
            self._gpus.place_tensor(out, device, block=block)
        self._place_results(out, device)
        if plan.has_work:
            kernels.launch(self._gpus, device, plan, func, args, kwargs, out)
        return out

    def _make_shape(
        self, shapes: Shapes, device: Device, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """As `_make_on`, without values."""
        if plan.draws:
            self._draw(device, kwargs)
        is_captured = bool(self._machine.captures) and self._machine.current_stream(device).capture is not None
        out = shapes.make(func, args, kwargs, is_captured=is_captured)
        self._place_results(out, device)
        if plan.has_work:
            kernels.launch(self._gpus, device, plan, func, args, kwargs, out)
        return out

    def _blank(self, device: Device, func: Any, like: torch.Tensor, block: Block | None) -> torch.Tensor | None:
        """Create a factory's large result without writing its memory, if the factory allows it."""
        if block is None or not arenas.has_arena(block) or not hosting.leaves_blank(func):
            return hosting.blank(func, like)
        zeros = hosting.is_zeros(func) and self._machine.current_stream(device).capture is None
        return arenas.place_blank(self._gpus, like, device, block, zeros=zeros)

    def _unmix(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> None:
        """Handle tensors that are not on `device`: copy indices, move torch's internal tensors, refuse others.

        Raises:
            RuntimeError: An operator gets tensors of two devices; torch's message.
        """
        if plan.resizes:
            check_out(self._gpus, plan, kwargs, device)
        kwargs = {} if plan.resizes else kwargs
        indexes = plan.indexes or self._target.is_assigning
        for index in adopt_or_raise(self._gpus, plan, func, args, kwargs, device, indexes=indexes):
            if self._machine.captures:
                check_capture(self._gpus, index, (None, device))
            run_copy(self._gpus, index, index, (None, device), non_blocking=False, op=plan.name)

    def _to_copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``aten::_to_copy``: a copy of another device, dtype or layout."""
        source = _as_tensor(args[0])
        place, residence = kwargs.get("device"), residence_of(source)
        own = residence.device if residence is not None else None
        if place is not None and place.type not in ("cpu", "cuda"):
            return func(*args, **kwargs)
        target = own if place is None else self._place(place, own)
        kwargs = {**kwargs, "device": None if place is None else _CPU}
        if target is None and own is None:
            return self._on_host(func, (source,), kwargs)
        out = self._copied(func, source, kwargs, own, target)
        if target is not None:
            self._place_results(out, target)
        if own is target and target is not None:
            kernels.launch(self._gpus, target, _plan(func), func, args, kwargs, out)
        else:
            non_blocking = bool(kwargs.get("non_blocking"))
            run_copy(self._gpus, out, source, (own, target), non_blocking=non_blocking, op="aten::copy_")
        return out

    def _place(self, place: torch.device, own: Device | None) -> Device | None:
        """The target of a copy. "cpu" from torch's C++ means the device of the tensor, unless the user named it."""
        if place.type == "cuda":
            return self._gpus.devices[self._gpus.device_index(place) or 0]
        return None if self._target.is_named else own

    def _copied(
        self, func: Any, source: torch.Tensor, kwargs: dict[str, Any], own: Device | None, target: Device | None
    ) -> torch.Tensor:
        pinned = target is None and own is not None and bool(kwargs.get("non_blocking"))
        if self._machine.captures and not pinned:
            check_capture(self._gpus, source, (own, target))
        device = own or target
        assert device is not None
        with self._target.named(target):  # a mode that records the call below reads the device
            out: torch.Tensor = self._caller(device)(func, (source,), {**kwargs, "non_blocking": False})
        if pinned:
            # As in torch, the target of a non-blocking copy to the host is page-locked.
            pin(out)
        return out

    def _copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``aten::copy_``: copy into an existing tensor."""
        target, source = args[0], _as_tensor(args[1])
        adopt_target(self._gpus, target, source)
        places = [residence_of(source), residence_of(target)]
        devices = [residence.device if residence is not None else None for residence in places]
        device = devices[0] or devices[1]
        if device is None:
            return self._on_host(func, (target, source), {})
        is_number = self._target.is_assigning and source.dim() == 0
        if self._machine.captures and not is_number:
            check_capture(self._gpus, source if devices[0] is None else target, (devices[0], devices[1]))
        out = self._caller(device)(func, (target, source), {})
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if devices[0] is devices[1] or is_number:
            device = devices[1]
            assert device is not None
            kernels.launch(self._gpus, device, _plan(func), func, args, kwargs, out)
        else:
            run_copy(self._gpus, target, source, (devices[0], devices[1]), non_blocking=non_blocking, op="aten::copy_")
        return out

    def _pin(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if residence_of(args[0]) is not None:
            raise RuntimeError(f"cannot pin '{args[0].type()}' only dense CPU tensors can be pinned")
        pinned = self._on_host(_aten.clone.default, args[:1], {})
        pin(pinned)
        return pinned

    def _is_pinned(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return is_pinned(args[0])

    def _pack_sequence(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``aten::_pack_padded_sequence``: lengths and batch sizes are on the host."""
        residence, lengths = residence_of(args[0]), args[1]
        if residence_of(lengths) is not None:
            kind = f"{lengths.dim()}D {lengths.device} {lengths.type().rpartition('.')[2].removesuffix('Tensor')}"
            raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {kind} tensor")
        if residence is None:
            return self._on_host(func, args, kwargs)
        packed, batch_sizes = self._caller(residence.device)(func, args, kwargs)
        self._place_results(packed, residence.device)
        kernels.launch(self._gpus, residence.device, _plan(func), func, args, kwargs, packed)
        return packed, batch_sizes

    def _nested(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._refuse_nested(func, (*args, *kwargs.values()))
        return func(*args, **kwargs)

    def _refuse_nested(self, func: Any, args: tuple[Any, ...]) -> None:
        is_asked_for = any(isinstance(one, torch.device) and one.type == "cuda" for one in args)  # in a CUDA build
        if is_asked_for or locate(args)[0] is not None or (self._target.is_named and self._target.device is not None):
            raise refusals.nested(func._schema.name)


_CPU = torch.device("cpu")
_NO_CONTEXT = nullcontext()
#: The dtypes of the tensors that torch makes of Python numbers.
_NUMBER_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _plan(func: Any) -> Plan:
    plan = _plans.get(func)
    if plan is None:
        plan = _plans[func] = make_plan(func)
    return plan


def _as_tensor(value: Any) -> torch.Tensor:
    """Return a tensor argument: torch passes the tensor of a Python number (``x * 2`` under vmap) as that number."""
    if isinstance(value, torch.Tensor):
        return value
    return _aten.scalar_tensor.default(value, dtype=_NUMBER_DTYPES[type(value)])


def _is_on_host(tensor: torch.Tensor) -> bool:
    return residence_of(tensor) is None
