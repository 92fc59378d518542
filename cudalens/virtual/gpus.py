"""`Gpus`: the state of one set of virtual GPUs (machine, allocators, tensor placement)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import torch

from cudalens.device import gpu_trace
from cudalens.virtual.allocator import AllocatorConf, Block, CachingAllocator
from cudalens.virtual.capture.graph_memory import relocate
from cudalens.virtual.dispatch.workspaces import Workspaces
from cudalens.virtual.shapes.ended import end_tensors
from cudalens.virtual.tensors.arenas import follow, has_arena, move_in
from cudalens.virtual.tensors.residency import KEY, Residence
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.machine import NO_GPUS, Device, Machine
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.torch_cuda.errors import INVALID_DEVICE, GpuTraceSignals, Handles, cuda_error
from cudalens.virtual.torch_cuda.generators import default_generators
from cudalens.virtual.torch_cuda.stacks import python_stack, warn_user

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.allocator import PoolId
    from cudalens.virtual.shapes.operators import Shapes

_Result = TypeVar("_Result")

_SYNCS: Final = "called a synchronizing CUDA operation"
#: The sync debug mode "error".
_SYNCS_RAISE: Final = 2


class Target(threading.local):
    """The target device of the current call on this thread.

    Attributes:
        is_named: Whether the call named a device.
        device: That virtual device; None for the host.
        is_factory: Whether the user called a factory, whose host tensors are meant to be on the host.
        is_assigning: Whether the call is ``x[...] = value``, which writes Python numbers by a kernel.
        has_internal: Whether torch's C++ has created a host tensor for internal use in the call; it may be the result.
    """

    is_named: bool = False
    device: Device | None = None
    is_factory: bool = False
    is_assigning: bool = False
    has_internal: bool = False

    @contextmanager
    def named(self, device: Device | None = None) -> Iterator[None]:
        """Set `device` as named by the current call; None for the host."""
        before = self.is_named, self.device
        self.is_named, self.device = True, device
        try:
            yield
        finally:
            self.is_named, self.device = before

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """As outside of any call, for user code that torch's C++ calls back."""
        before = dict(vars(self))
        vars(self).clear()
        try:
            yield
        finally:
            vars(self).update(before)


class _KernelName(threading.local):
    """The name of the kernels that a thread launches; None for that of their operator."""

    text: str | None = None


class StreamFence:
    """An internal event of the allocator on a stream."""

    __slots__ = ("_event",)

    def __init__(self, machine: Machine, stream: Stream) -> None:
        self._event = CudaEvent(machine)
        stream.mark(self._event)

    def is_done(self) -> bool:
        """Return whether the stream's work before it has ended at the host time."""
        return self._event.has_passed()

    def wait(self) -> None:
        """Block the host until that work has ended."""
        self._event.wait_done()


class AllocatorHost:
    """The host interface of one device's allocator."""

    def __init__(self, device: Device) -> None:
        self._device, self._machine = device, device.machine

    def fence(self, stream: int) -> StreamFence:
        """Record an event on the stream of that handle, on this device or on another one that uses its memory."""
        devices = [self._device, *self._machine.devices]
        found = next(filter(None, (device.find_stream(stream) for device in devices)), None)
        return StreamFence(self._machine, found or self._device.external_stream(stream))

    def now_us(self) -> int:
        """Return the virtual time, microseconds."""
        return self._machine.now_ns // 1000

    def is_capturing(self) -> bool:
        """Return whether a graph capture is active on the device."""
        return any(capture.device is self._device for capture in self._machine.captures)

    def on_segment(self, action: str, address: int, num_bytes: int) -> None:
        """Record the runtime call that allocates or frees a segment; cudaFree waits for the whole device."""
        spec = self._device.spec
        name, cost = {
            "segment_alloc": ("cudaMalloc", spec.malloc_ns),
            "segment_map": ("cuMemMap", spec.malloc_ns),
            "segment_free": ("cudaFree", spec.free_ns),
            "segment_unmap": ("cuMemUnmap", spec.free_ns),
        }[action]
        self._machine.call(name, cost, self._device.tail_ns if action == "segment_free" else 0)


class Communicator(Protocol):
    """Launches the collectives of one rank of a job."""

    def launch(self, device: Device, func: Any, args: tuple[Any, ...], out: Any) -> bool:
        """Launch the kernel of a collective; returns False for another operator."""

    def compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute the values of a collective."""

    def run_on_host(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective on tensors of the host."""

    def wait_for_buckets(self, args: Iterable[Any]) -> None:
        """Make the current stream wait for collectives of torch's C++ whose results an operator uses."""


class Gpus:
    """The virtual GPUs of one `cudalens.virtual.device` block.

    Attributes:
        machine: Streams, events and time.
        devices: The virtual GPUs.
        torch_devices: ``torch.device("cuda", index)`` of each.
        ordinals: Their indices before CUDA_VISIBLE_DEVICES is applied.
        is_closed: Whether the block has ended; its tensors are then plain CPU tensors.
        generators: The default random generator of each device.
        target: The target device of the current call.
        sync_debug_mode: 0 silent, 1 warn, 2 error, as torch.cuda.set_sync_debug_mode.
        workspaces: The workspaces of cuBLAS.
        serves_graphs: Whether a graph capture was started.
        handles: The torch objects (streams, events, graphs, pools) that the program made.
        on_first_use: Called before the first allocation, which initialises torch.cuda; None afterwards.
        shapes: Runs operators without values; None if values are computed.
        communicator: Launches collectives, in a job of many ranks; None otherwise.
    """

    def __init__(
        self,
        spec: DeviceSpec,
        num_devices: int,
        conf: AllocatorConf,
        *,
        ordinals: Sequence[int] | None = None,
        shapes: Shapes | None = None,
        measures_host: bool = False,
    ) -> None:
        self.spec = spec
        self.ordinals = list(range(num_devices) if ordinals is None else ordinals)
        self.machine = Machine(spec, num_devices, GpuTraceSignals(), measures_host=measures_host)
        self.devices = self.machine.devices
        self.torch_devices = [torch.device("cuda", index) for index in range(num_devices)]
        self.is_closed = self.serves_graphs = False
        self.target = Target()
        self.handles = Handles()
        self.sync_debug_mode = 0
        self.shapes = shapes
        self.communicator: Communicator | None = None
        self.on_first_use: Callable[[], None] | None = None
        self.generators = default_generators(self.torch_devices)
        self._lock, self._in_change = threading.RLock(), threading.Lock()
        self._kernel_name = _KernelName()
        self._released: deque[tuple[Device, Block]] = deque()
        self.workspaces = Workspaces(self.machine, self)
        for device in self.devices:
            device.allocator = CachingAllocator(
                device.index,
                spec.total_memory_bytes,
                AllocatorHost(device),
                conf=conf,
                context_bytes=spec.context_bytes,
                out_of_memory=torch.OutOfMemoryError,
            )

    def device_index(self, device: Any) -> int | None:
        """Return the index of the virtual GPU of a device argument, or None for another kind of device.

        Args:
            device: ``"cuda"``, ``"cuda:1"``, a torch.device, an index, or None.

        Raises:
            RuntimeError: The index is out of range, or there is no GPU; torch's message.
        """
        if device is None:
            return None
        if isinstance(device, Integral):
            given = int(device)
            index = given if given >= 0 else self.machine.current_device.index
        else:
            device = torch.device(device)
            if device.type != "cuda":
                return None
            index = device.index if device.index is not None else self.machine.current_device.index
        if index >= len(self.devices):
            raise cuda_error(INVALID_DEVICE) if self.devices else RuntimeError(NO_GPUS)
        return index

    def place_tensor(
        self, tensor: torch.Tensor, device: Device, *, block: Block | None = None, in_arena: bool = True
    ) -> Residence:
        """Place a tensor's storage on a device, in `block` or in a new block of the current stream.

        Args:
            tensor: In host memory.
            device: The device.
            block: A block for its storage.
            in_arena: Whether its bytes move to the arena of a block in a graph's pool.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's message.
        """
        if self.serves_graphs and in_arena:
            there = self._place_in_arena(tensor, device, block)
            if isinstance(there, Residence):
                return there
            block = there
        storage: Any = tensor.untyped_storage()
        num_bytes = storage.nbytes()
        if block is None and num_bytes:
            block = self.reserve(device, num_bytes)
        residence = storage.__dict__[KEY] = Residence(self, device, block, num_bytes)
        return residence

    def _place_in_arena(self, tensor: torch.Tensor, device: Device, block: Block | None) -> Residence | Block | None:
        """As `place_tensor` for a block of a graph's pool; otherwise returns the block."""
        storage = tensor.untyped_storage()
        there = follow(tensor, storage)
        if there is not None:
            return there
        if block is None and storage.nbytes():
            block = self.reserve(device, storage.nbytes())
        if block is None or not has_arena(block):
            return block
        there = move_in(self, tensor, device, block)
        relocate(tensor.untyped_storage(), there)
        return there

    def serve_graphs(self, device: Device, pool_id: PoolId) -> None:
        """Mark a memory pool of a device as used by graph captures."""
        if self.shapes is None:  # without values, tensors at the same address need not share bytes
            self.serves_graphs = True
            device.allocator.serve_graphs(pool_id)

    def reserve(self, device: Device, num_bytes: int) -> Block:
        """Allocate a block for the device's current stream.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's message.
        """
        if self.on_first_use is not None:
            self.on_first_use()
        device.has_context = True
        stream = self.machine.current_stream(device)
        block = self._alone(lambda: device.allocator.malloc(num_bytes, stream.handle, stack=python_stack))
        if self._released:
            self._free_released()
        self.machine.signals.memory_allocated(block.address)
        return block

    def release(self, device: Device, block: Block) -> None:
        """Free a block. Safe inside the garbage collector, which may run during an allocation."""
        self._released.append((device, block))
        self._free_released()

    def _free_released(self) -> None:
        with self._lock:
            if not self._in_change.locked():  # else the collector runs during an allocation of this thread
                self._alone(self._free_all)

    def _free_all(self) -> None:
        while self._released:
            device, block = self._released.popleft()
            self.machine.signals.memory_freed(block.address)
            device.allocator.free(block, stack=python_stack)

    def _alone(self, change: Callable[[], _Result]) -> _Result:
        """Change the allocators while no other thread does, and no finalizer of this one.

        Both locks are held by ``with`` alone: no interrupt, which a finalizer loses, can come between taking a lock and
        the block that gives it back.
        """
        with self._lock, self._in_change:
            return change()

    def record_stream(self, device: Device, block: Block, stream: Stream) -> None:
        """Record that `stream` uses a block: it is reused only after the stream has reached its free."""
        self._alone(lambda: device.allocator.record_stream(block, stream.handle))
        if self._released:
            self._free_released()
        gpu_trace.emit(gpu_trace.BlockRecordedOnStream(block.address, stream.handle))

    def stream_of(self, stream: Any) -> Stream:
        """Return the virtual stream of torch's stream object."""
        index, number = int(stream.device_index), int(stream.stream_id)
        return self.devices[index].stream(number)

    def launch(self, device: Device, work: Work, call: str = "cudaLaunchKernel") -> None:
        """Issue work to the device's current stream."""
        name = self._kernel_name.text
        if name is not None and work.kind == "kernel":
            # further kernels of the operator, such as simulated::convolution::to_channels_last<tf32>, keep their part
            parts = work.name.partition("<")[0].split("::")[2 if (work.op or "aten::").startswith("aten::") else 3 :]
            work = replace(work, name="::".join([name, *parts]))
        self.machine.current_stream(device).launch(work, call)

    @contextmanager
    def kernels_named(self, name: str) -> Iterator[None]:
        """Give this name to the kernels that the calling thread launches, and begin those of their parts with it."""
        before, self._kernel_name.text = self._kernel_name.text, name
        try:
            yield
        finally:
            self._kernel_name.text = before

    def check_sync(self) -> None:
        """Apply the sync debug mode before an implicit synchronisation.

        Raises:
            RuntimeError: The sync debug mode is "error"; torch's message.
        """
        if self.sync_debug_mode == _SYNCS_RAISE:
            raise RuntimeError(_SYNCS)
        if self.sync_debug_mode:
            warn_user(_SYNCS)

    def close(self) -> None:
        """Close the devices at the end of the block."""
        self.is_closed = True
        self._released.clear()
        if self.shapes is not None:
            end_tensors()
