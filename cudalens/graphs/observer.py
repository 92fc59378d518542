"""Observe by its operators which tensors a function uses, in warm-up and recording; never in a replay.

A graph keeps addresses. So before one is captured it has to be known which tensors the function takes from outside
besides its arguments, which it overwrites, what it makes and leaves behind, and whether it does what no capture allows.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from threading import get_ident
from types import FrameType
from typing import Any, Final, TypeAlias

import torch
import torch.utils.checkpoint
from torch._C import _functorch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from cudalens.device import accumulation
from cudalens.device.index_masks import fills_by_mask, waits_for_mask
from cudalens.device.modes import conjugation, has_own_dispatch, is_faking
from cudalens.device.own_work import own_work
from cudalens.device.stacks import Place, place
from cudalens.device.streams import current_stream
from cudalens.graphs.changes import change_of_caller, change_of_checkpoint, change_of_offload
from cudalens.graphs.host_values import (
    MOST_COMPARED_BYTES,
    MOST_CONSTANT_BYTES,
    Upload,
    Uploads,
    can_be_constant,
    is_small,
    replaced,
)
from cudalens.graphs.liveness import OutputRef, memory_parts, span, storage_id, version_of
from cudalens.graphs.masks import KnownMasks, indices_of
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.undo import MOST_SAVED_BYTES

#: Operators whose result's value or size the host has to wait for.
_SYNCHRONISING: Final = frozenset(
    {
        "_linalg_check_errors",
        "_local_scalar_dense",
        "_unique",
        "_unique2",
        "argwhere",
        "bincount",
        "equal",
        "is_nonzero",
        "item",
        "linalg_eig",
        "masked_select",
        "nonzero",
        "nonzero_numpy",
        "unique_consecutive",
        "unique_dim",
        "unique_dim_consecutive",
    }
)

#: Namespaces of the operators of torch.distributed.
_COLLECTIVES: Final = frozenset({"c10d", "_c10d_functional", "c10d_functional"})

#: Runs an operator that reads a value of the device: with its arguments, the line that calls it, the tensors from
#: outside that were overwritten before, the positions of such arguments, and the launches that were captured so far.
RunWait: TypeAlias = Callable[
    [Any, tuple[Any, ...], Mapping[str, Any], Place, Sequence[torch.Tensor], Iterable[int], int], Any
]

#: Their result has the values of their argument.
_HOST_COPIES: Final = frozenset({"_pin_memory", "clone", "pin_memory"})

#: They wait where an index is a mask.
_INDEXING: Final = frozenset({"_index_put_impl_", "index", "index_put", "index_put_"})

#: Arguments that an operator overwrites though its schema does not say so.
_COPIES: Final = frozenset({"_to_copy", "copy_", "to", "_copy_from"})
_UNDECLARED_WRITES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ("running_mean", "running_var")
)

#: Methods that read elements of a CPU tensor; others give its address.
_READING_METHODS: Final = frozenset({"numpy", "tolist", "__array__"})

_ALLOCATES_ONLY: Final = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"})


@dataclass(frozen=True, slots=True)
class External:
    """A tensor that a function takes from outside without its being an argument.

    Attributes:
        tensor: It, or the first view of it that was used.
        place: Where it was used first.
        is_written: Whether the function overwrites it.
        version: Its version counter before the function used it.
    """

    tensor: torch.Tensor
    place: Place
    is_written: bool
    version: int = 0

    @property
    def num_writes(self) -> int:
        """How often autograd counted an in-place change of it since then."""
        return version_of(self.tensor) - self.version


@dataclass(frozen=True, slots=True)
class CapturedOperator:
    """An operator that was captured, and the nodes that it added to its graph.

    Attributes:
        piece: Number of the graph in a split recording.
        first: Position of its first node.
        end: The position behind its last one.
        name: Of the operator.
        place: The line that called it.
        module: Id of the innermost module whose forward called it; None outside of modules or if that is unknown.
    """

    piece: int
    first: int
    end: int
    name: str
    place: Place
    module: int | None


@dataclass(frozen=True, slots=True)
class Made:
    """A storage that a function made.

    Attributes:
        ref: A weak reference.
        is_on_device: Whether it is device memory.
        is_in_pool: Whether the thread of the call made it. The memory pool of a warm-up is for this thread alone; on a
            GPU, autograd runs a backward in another one.
        operator: Who made it.
        place: Where.
    """

    ref: OutputRef
    is_on_device: bool
    is_in_pool: bool
    operator: str
    place: Place


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the operators of one run of a function.

    Args:
        inputs: The tensors among its arguments.
        device: Index of the device whose memory it is about.
        known: In a capture, the copies on the device of the CPU tensors that the warm-up copied there.
        may_wait: Whether a recording can be split where the host reads a value of the device.
        wait: In a capture, what runs an operator that reads such a value.

    Attributes:
        written: Positions in `inputs` of those that were overwritten, with the first place where.
        externals: Tensors from outside, by the identity of their storage.
        made: Storages that it made, by identity.
        addresses: Where those on the device are, also those that it freed.
        generators: Random generators that it named.
        findings: What no capture allows, in order.
        uses_device: Whether an operator gave a tensor on a device, or wrote one.
        num_kernels: Operators that launch work.
        last_place: Where the latest operator was called.
        first_read: Where it first read a value at which a recording can be split.
        has_other_threads: Whether operators ran on other threads, as those of a backward on a GPU.
        uploads: The CPU tensors that it copies to the device.
        used_on_host: Positions in `inputs` of CPU tensors that it uses otherwise, with the first operator and place.
        read_on_host: Small CPU tensors from outside whose values it reads, by the identity of their storage.
        has_hidden_copies: Whether torch copied Python data to the device where no mode sees it.
        wait: As the argument.
        num_captured: In a capture, gives the number of nodes so far, or None if that is unknown.
        captured: In a capture, the operators that added nodes.
    """

    def __init__(
        self,
        inputs: Sequence[torch.Tensor],
        device: int,
        known: Sequence[Upload] | None = None,
        *,
        may_wait: bool = False,
        wait: RunWait | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._may_wait, self.wait, self._stream = may_wait, wait, 0
        self.uploads = Uploads(inputs, known)
        self.has_hidden_copies = False
        self.used_on_host: dict[int, tuple[str, Place]] = {}
        self.read_on_host: dict[int, External] = {}
        self._from_device: set[int] = set()
        self._host_outside: set[int] = set()
        self._inputs: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        self._num_bytes = [tensor.untyped_storage().nbytes() if storage_id(tensor) else 0 for tensor in inputs]
        for position, tensor in enumerate(inputs):
            if key := storage_id(tensor):
                self._inputs.setdefault(key, []).append((position, span(tensor)))
        self.device = device
        self.written: dict[int, tuple[str, Place]] = {}
        self.externals: dict[int, External] = {}
        self.num_captured: Callable[[], int | None] | None = None
        self.captured: list[CapturedOperator] = []
        self._num_reads = 0
        self.made: dict[int, Made] = {}
        self.addresses: set[int] = set()
        self.generators: list[torch.Generator] = []
        self._masks = KnownMasks()
        self.findings: list[Finding] = []
        self.uses_device, self.num_kernels = False, 0
        self.last_place: Place | None = None
        self.first_read: Place | None = None
        self._thread, self.has_other_threads = get_ident(), False

    def __enter__(self) -> Any:
        self._stream = current_stream(self.device)
        return super().__enter__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper around the handler, which would hide who calls it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, and note what it touches.

        A class of tensors with a ``__torch_dispatch__`` of its own runs first: the operators that it calls come here.
        """
        if types and has_own_dispatch(types):  # under a FakeTensorMode, it finds out the sizes of its results
            return func(*args, **(kwargs or {})) if is_faking() else NotImplemented
        if func is accumulation.ADD:
            func = accumulation.addition(args, kwargs)
        kwargs = kwargs or {}
        here = self.last_place = place(1)
        self.has_other_threads = self.has_other_threads or get_ident() != self._thread
        name = func._schema.name.partition("::")[2]
        num_masked = self._masks.count(args) if name in _INDEXING and waits_for_mask(args, kwargs) else None
        is_read = num_masked is None and self._can_read(func, name, args, kwargs)
        if is_read and self.first_read is None:
            self.first_read = here
        self._note_arguments(func, name, args, kwargs, here, waits=num_masked is None and not is_read)
        if name == "lift_fresh" and args[0].is_cuda and storage_id(args[0]) not in self.made:
            self._note_hidden_copy(args[0], here)
        first = None if self.num_captured is None else self.num_captured()
        uploaded = self._upload(name, args, kwargs)
        if uploaded:
            self._join_capture()
            out = func(*replaced(args, uploaded), **kwargs)
        elif is_read and self.wait is not None:
            outside = [one.tensor for one in self.externals.values() if one.is_written]
            out = self.wait(func, args, kwargs, here, outside, self.written, self.num_kernels)
            self._num_reads, first = self._num_reads + 1, 0
        elif num_masked is not None and self.uploads.is_capture:
            out = func(args[0], indices_of(args[1], num_masked), *args[2:], **kwargs)
        else:
            with conjugation(func):
                out = func(*args, **kwargs)
        if is_read and name == "index":
            self._masks.note(args, out)
        if first is not None:
            self._note_captured(first, name, here)
        if name in _HOST_COPIES:
            self._note_host_copy(name, args[0], out, here)
        self._note_results(name, args, out, kwargs, here, is_allowed=bool(uploaded) or is_read)
        self._count_launch(func, name, args, kwargs, out, is_recorded=not is_read)
        if torch.Tag.nondeterministic_seeded in func.tags and not any(one.is_cuda for one in _tensors(out)):
            self._find(Reason.OUTSIDE_CALL, f"{name} on the CPU", here)
        return out

    def note_outputs(self, outputs: Sequence[Any]) -> None:
        """What it returns and neither made nor got as an argument comes from outside, too."""
        for tensor in _tensors(list(outputs)):
            if tensor.is_cuda and is_plain(tensor):
                self._note_use(tensor, "", self.last_place or Place(None, 0), is_write=False)

    def has_used(self, tensor: torch.Tensor) -> bool:
        """Whether it took a tensor as an argument or from outside, or one that shares its memory."""
        key = storage_id(tensor)
        return key in self._inputs or key in self.externals

    def left_behind(self, given: Sequence[torch.Tensor]) -> list[Made]:
        """What it made on a device, still lives, and is not among the tensors `given`."""
        known = {storage_id(tensor) for tensor in given}
        return [
            made
            for key, made in self.made.items()
            if key not in known and made.is_on_device and made.ref.address and made.ref.is_alive()
        ]

    def _note_captured(self, first: int, name: str, here: Place) -> None:
        """Note which nodes an operator added to the graph."""
        end = None if self.num_captured is None else self.num_captured()
        if end is not None and end > first:
            self.captured.append(CapturedOperator(self._num_reads, first, end, name, here, _calling_module()))

    def _can_read(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether an operator reads a value of the device, or makes a result of its size, and a recording can be split.

        If the value is another one in a replay, the function runs again from its start. So what it wrote outside until
        then must be memory of this device that can be set back, and no other rank may have received anything.
        """
        if func.namespace in _COLLECTIVES:
            self._may_wait = False
        if not self._may_wait or not (_synchronises(name, args, kwargs) or _is_small_copy_to_host(name, args, kwargs)):
            return False
        tensors = list(_tensors((args, tuple(kwargs.values()))))
        if not all(_is_plain_on(self.device, tensor) for tensor in tensors):
            return False
        is_in_order = (
            get_ident() == self._thread
            and torch._C._current_graph_task_id() == -1
            and current_stream(self.device) == self._stream
        )
        return is_in_order and self._can_undo()

    def _can_undo(self) -> bool:
        """Whether all that was written outside so far can be saved before each replay."""
        outside = [one.tensor for one in self.externals.values() if one.is_written]
        num_bytes = sum(tensor.untyped_storage().nbytes() for tensor in outside)
        num_bytes += sum(self._num_bytes[position] for position in self.written)
        is_here = all(_is_plain_on(self.device, tensor) for tensor in outside)
        return is_here and num_bytes <= MOST_SAVED_BYTES

    def _note_arguments(self, func: Any, name: str, args: Any, kwargs: Any, here: Place, *, waits: bool) -> None:
        written = {id(tensor) for tensor in _written_tensors(func, name, args, kwargs)}
        self._masks.forget(tensor for tensor in _tensors((args, kwargs)) if id(tensor) in written)
        is_on_device = False
        on_host = []
        for tensor in _tensors((args, tuple(kwargs.values()))):
            if not is_plain(tensor):
                self._find(Reason.ODD_TENSOR, f"{type(tensor).__name__}, {tensor.layout} in {name}", here)
            elif tensor.is_cuda:
                is_on_device = True
                if name == "lift_fresh":  # what torch has just made of Python data
                    continue
                self._note_use(tensor, name, here, is_write=id(tensor) in written)
            elif tensor.device.type == "cpu":
                on_host.append(tensor)
        if waits:
            self._check_operator(name, args, kwargs, here, is_on_device=is_on_device)
        if on_host and name != "lift_fresh":  # what torch.tensor() has just made
            self._check_host_operands(func, name, on_host, written, here, args, kwargs, is_on_device=is_on_device)
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs) and is_checkpointed():
            self._find(Reason.RECOMPUTED, f"{name} inside torch.utils.checkpoint", here, change_of_checkpoint())
        generator = kwargs.get("generator")
        if isinstance(generator, torch.Generator) and all(generator is not known for known in self.generators):
            self.generators.append(generator)

    def _note_use(self, tensor: torch.Tensor, name: str, here: Place, *, is_write: bool) -> None:
        key = storage_id(tensor)
        if key in self._inputs:
            if is_write:
                # Of arguments that share a storage, mark those whose memory overlaps with what the operator wrote.
                start, end = span(tensor)
                for position, (first, last) in self._inputs[key]:
                    if start < last and first < end:
                        self.written.setdefault(position, (name, here))
        elif key not in self.made:
            known = self.externals.get(key)
            if known is None:
                self.externals[key] = External(tensor, here, is_write, version_of(tensor))
            elif is_write and not known.is_written:
                self.externals[key] = replace(known, is_written=True)

    def _check_operator(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], here: Place, *, is_on_device: bool
    ) -> None:
        if is_on_device and _synchronises(name, args, kwargs):
            self._find(Reason.SYNCHRONISES, "indexing by a mask" if name in _INDEXING else name.lstrip("_"), here)

    def _check_host_operands(
        self,
        func: Any,
        name: str,
        on_host: Sequence[torch.Tensor],
        written: set[int],
        here: Place,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        is_on_device: bool,
    ) -> None:
        """Note how an operator uses CPU tensors."""
        is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.arguments)
        goes_to_device = is_on_device or getattr(kwargs.get("device"), "type", "") == "cuda"
        is_copy = name in _COPIES and goes_to_device
        is_index = name in _INDEXING and goes_to_device and not fills_by_mask(args, kwargs)
        for tensor in on_host:
            is_written, key = id(tensor) in written, storage_id(tensor)
            if key not in self.made:
                self._host_outside.add(key)
            if self.uploads.is_argument(tensor):
                is_uploaded = (is_copy or is_index) and not is_written
                if not is_view and not is_uploaded and name not in _HOST_COPIES:
                    self.used_on_host.setdefault(self.uploads.position(tensor), (name, here))
            elif key in self._from_device:
                if not is_view and not is_written:
                    self._find(Reason.SYNCHRONISES, f"{name} of host memory that the device writes", here)
            elif key not in self.made:
                if is_copy and (is_written or (tensor.is_pinned() and not _is_blocking(name, args, kwargs))):
                    continue  # the graph has its address
                self._note_host_read(name, tensor, here, is_written=is_written, is_copy=is_copy)

    def note_host_call(self, tensor: torch.Tensor, method: str, here: Place) -> None:
        """Note a method that reads the memory of a CPU tensor without an operator."""
        if self.uploads.is_argument(tensor):
            self.used_on_host.setdefault(self.uploads.position(tensor), (f"{method}()", here))
        elif storage_id(tensor) in self._from_device:
            self._find(Reason.SYNCHRONISES, f"{method}() of host memory that the device writes", here)
        elif storage_id(tensor) not in self.made and method in _READING_METHODS:
            self._note_host_read(f"{method}()", tensor, here, is_written=False, is_copy=False)

    def _note_host_read(self, name: str, tensor: torch.Tensor, here: Place, *, is_written: bool, is_copy: bool) -> None:
        """Note a CPU tensor from outside: a small one that is not written is compared before each replay."""
        if is_small(tensor) and not is_written:
            self.read_on_host.setdefault(storage_id(tensor), External(tensor, here, is_written=False))
        elif not is_copy:
            self._find(Reason.CPU_SCALAR, f"in {name}", here)

    def _upload(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> dict[int, torch.Tensor]:
        """The CPU tensors that an operator copies to the device, each with what takes its place."""
        sources = list(_tensors(args))
        if name in _INDEXING and fills_by_mask(args, kwargs):
            return {}  # a number, which the kernel gets as an argument
        if name in _INDEXING and sources and sources[0].is_cuda:
            indices = [one for one in _tensors(tuple(args[1:2])) if one.dtype not in (torch.bool, torch.uint8)]
            values = _tensors(tuple(args[2:3]))  # of index_put, which copies them to the device
            found = [one for one in (*indices, *values) if not one.is_cuda and self._is_known(one)]
            return {id(one): self.uploads.add(one, one.dtype, is_asynchronous=False) for one in found}
        if name not in _COPIES or not sources:
            return {}
        source = sources[-1]
        is_copied_in = name == "copy_" and len(sources) > 1 and sources[0].is_cuda
        is_moved = name == "_to_copy" and getattr(kwargs.get("device"), "type", "") == "cuda"
        if source.is_cuda or not (is_copied_in or is_moved) or not self._is_known(source):
            return {}
        dtype = sources[0].dtype if is_copied_in else kwargs.get("dtype") or source.dtype
        return {id(source): self.uploads.add(source, dtype, is_asynchronous=not _is_blocking(name, args, kwargs))}

    def _note_host_copy(self, name: str, source: torch.Tensor, copy: torch.Tensor, here: Place) -> None:
        """Note a copy on the CPU of an argument: it may be copied to the device in its place."""
        if self.uploads.is_argument(source) and not self.uploads.note_copy(source, copy):
            self.used_on_host.setdefault(self.uploads.position(source), (name, here))

    def _join_capture(self) -> None:
        """Let a side stream that the program copies to the device on take part in the capture.

        Such a copy needs to wait for nothing, so programs do not let the side stream wait for another one. The copy of
        the recording reads memory of the graph.
        """
        if self.uploads.is_capture and not torch.cuda.is_current_stream_capturing():
            captured = torch.cuda.ExternalStream(self._stream, self.device)  # type: ignore[no-untyped-call]
            with own_work():
                torch.cuda.current_stream(self.device).wait_stream(captured)

    def _note_hidden_copy(self, made: torch.Tensor, here: Place) -> None:
        """Note a tensor that torch has made of Python data on the device, with a copy that no mode sees."""
        if self.uploads.is_capture or made.numel() * made.element_size() > MOST_CONSTANT_BYTES:
            self._find(Reason.PAGEABLE_COPY, "host to device", here)
            return
        self.has_hidden_copies = True
        with own_work():
            self.uploads.add(made.cpu(), made.dtype, is_asynchronous=False)

    def _is_known(self, source: torch.Tensor) -> bool:
        """Whether a replay can have the values of a CPU tensor: a constant, an argument, or one that is compared."""
        if not is_plain(source) or not can_be_constant(source):
            return False
        is_compared = storage_id(source) in self.read_on_host
        return is_compared or self.uploads.is_argument(source) or self.is_constant(source)

    def is_constant(self, source: torch.Tensor) -> bool:
        """Whether a CPU tensor is made in the call, of neither arguments nor values of the device."""
        key = storage_id(source)
        is_made = key in self.made and key not in self._from_device
        return is_made and source.device.type == "cpu" and not self.uploads.is_argument(source)

    def _note_results(self, name: str, args: Any, out: Any, kwargs: Any, here: Place, *, is_allowed: bool) -> None:
        for tensor in _tensors(out):
            if tensor.is_cuda and tensor.layout is not torch.strided:
                self._find(Reason.ODD_TENSOR, f"{type(tensor).__name__}, {tensor.layout} of {name}", here)
        for tensor in chain.from_iterable(map(memory_parts, _tensors(out))):
            if not is_plain(tensor):
                continue
            key = storage_id(tensor)
            if key not in self._inputs and key not in self.externals and key not in self._host_outside:
                known = self.made.get(key)
                if known is None or not known.ref.is_alive() or known.ref.address != _address(tensor):
                    is_on_device, is_in_pool = tensor.get_device() == self.device, get_ident() == self._thread
                    self.made[key] = Made(OutputRef(tensor), is_on_device, is_in_pool, name, here)
                    if is_on_device:
                        self.addresses.add(_address(tensor))
        if name in _COPIES and not is_allowed:
            self._check_copy(name, args, out, kwargs, here)

    def _count_launch(self, func: Any, name: str, args: Any, kwargs: Any, out: Any, *, is_recorded: bool) -> None:
        """Count an operator that launches work: it writes, or makes memory of its own; a view does neither.

        One that runs between two graphs is not part of the recording.
        """
        if name in _ALLOCATES_ONLY:
            return
        given = list(_tensors((args, tuple(kwargs.values()))))
        results = [tensor for tensor in _tensors(out) if tensor.is_cuda]
        known = set(map(storage_id, given))
        writes = func._schema.is_mutable and any(tensor.is_cuda for tensor in given)
        self.uses_device = self.uses_device or writes or bool(results)
        launches = writes or any(storage_id(tensor) not in known for tensor in results)
        self.num_kernels += is_recorded and launches

    def _check_copy(self, name: str, args: Any, out: Any, kwargs: Any, here: Place) -> None:
        found = list(_tensors(args))
        source = found[0] if found else None
        if name == "copy_" and len(found) > 1:
            source = found[1]
        if source is None or not isinstance(out, torch.Tensor) or source.is_cuda == out.is_cuda:
            return
        if source.numel() == 0:
            return
        host = out if source.is_cuda else source
        here, change = change_of_offload(here)
        is_blocking = _is_blocking(name, args, kwargs)
        direction = "device to host" if source.is_cuda else "host to device"
        if host.device.type == "cpu" and not host.is_pinned():
            reason = Reason.SYNCHRONISES if source.is_cuda and is_blocking else Reason.PAGEABLE_COPY
            self._find(reason, direction, here, change or None)
        elif is_blocking:
            self._find(Reason.SYNCHRONISES, f"a copy from {direction} without non_blocking=True", here)
        elif storage_id(host) in self.made:
            self._from_device.add(storage_id(host))
            self._find(Reason.PAGEABLE_COPY, f"{direction}, in host memory that the call makes", here, change or None)
        else:  # the graph has its address
            if source.is_cuda:
                self._from_device.add(storage_id(host))
            self._note_use(host, name, here, is_write=source.is_cuda)

    def _find(self, reason: Reason, what: str, here: Place, change: str | None = None) -> None:
        if all(finding.reason is not reason for finding in self.findings):
            self.findings.append(Finding(reason, what, here, change_of_caller(here) if change is None else change))


def _is_plain_on(device: int, tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.get_device() == device and is_plain(tensor)


def _synchronises(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the host waits for the value of an operator's result, or for its size."""
    if name in _INDEXING:
        return waits_for_mask(args, kwargs)
    if name == "repeat_interleave":
        return isinstance(args[0], torch.Tensor) and kwargs.get("output_size") is None
    return name in _SYNCHRONISING


def _is_small_copy_to_host(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a copy waits, and has few enough bytes to compare them in each replay."""
    if name != "_to_copy" or getattr(kwargs.get("device"), "type", "") != "cpu" or kwargs.get("non_blocking"):
        return False
    return bool(args[0].numel() * args[0].element_size() <= MOST_COMPARED_BYTES)


def _is_blocking(name: str, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether the host waits for a copy."""
    return not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))


def _draws(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator with torch's tag of random numbers draws some: attention without dropout does not."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            given = args[position] if position < len(args) else kwargs.get("dropout_p", argument.default_value)
            return bool(given)
    return True


def is_checkpointed() -> bool:
    """Whether torch.utils.checkpoint runs the calling code: its backward will compute it again."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != torch.utils.checkpoint.__file__:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


def _calling_module() -> int | None:
    """The id of the innermost module whose forward calls the operator that runs now; None if that is unknown.

    It is unknown before Python 3.12, where the variables of a frame can only be read into the dict that ``locals()``
    gives the program, and where this dict keeps tensors alive.
    """
    if _variable_of is None:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward":
            try:
                module = _variable_of(frame, "self")
            except NameError:
                module = None
            if isinstance(module, torch.nn.Module):
                return id(module)
        frame = frame.f_back
    return None


def _frame_reader() -> Any:
    """Python's function that reads one variable of a frame; None before Python 3.12."""
    read: Any = getattr(ctypes.pythonapi, "PyFrame_GetVar", None)
    if read is not None:
        read.restype, read.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object]
    return read


_variable_of: Final = _frame_reader()


def is_inside_observer() -> bool:
    """Whether this thread runs a function of a manager, or a part of it that autograd took to a thread of its own."""
    return any(isinstance(mode, Observer) for mode in _get_current_dispatch_mode_stack())


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def is_transformed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the wrapper of a transform of torch.func, or of ``is_grads_batched=True``."""
    return bool(_functorch.is_functorch_wrapped_tensor(tensor) or _functorch.is_legacy_batchedtensor(tensor))


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has one storage of its own or shared, and is no wrapper around others."""
    return (
        tensor.layout is torch.strided
        and not is_transformed(tensor)
        and not tensor._is_zerotensor()
        and not runs_code(type(tensor))
        and storage_id(tensor) != 0
    )


@functools.cache
def runs_code(kind: Any) -> bool:
    """Whether a class of tensors has a ``__torch_function__`` or ``__torch_dispatch__`` of its own."""
    if has_own_dispatch((kind,)):
        return True
    own = getattr(kind, "__torch_function__", None)
    return getattr(own, "__func__", own) not in (
        torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
        torch._C._disabled_torch_function_impl,
    )


def is_wrapper(tensor: Any) -> bool:
    """Whether the class of a tensor calls operators itself, on tensors inside."""
    kind: Any = type(tensor)
    return runs_code(kind)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _written_tensors(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that an operator overwrites, by its schema."""
    hidden = _UNDECLARED_WRITES.get(name, ())
    for position, argument in enumerate(func._schema.arguments):
        declared = argument.alias_info is not None and argument.alias_info.is_write
        if declared or argument.name in hidden:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from _tensors(given)
