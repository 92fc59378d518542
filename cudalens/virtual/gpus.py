"""The assembled virtual GPUs: machine, allocators and what they do for a tensor."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.device import gpu_trace
from cudalens.virtual.allocator import AllocatorConf, Block, CachingAllocator
from cudalens.virtual.capture.graph_memory import moved
from cudalens.virtual.dispatch.workspaces import Workspaces
from cudalens.virtual.tensors.arenas import follow, keeps_bytes, move_in
from cudalens.virtual.tensors.residency import KEY, Residence
from cudalens.virtual.timing.machine import Device, Machine
from cudalens.virtual.timing.streams import CudaEvent, Stream
from cudalens.virtual.timing.work import Work
from cudalens.virtual.torch_cuda.errors import INVALID_DEVICE, cuda_error
from cudalens.virtual.torch_cuda.generators import default_generators
from cudalens.virtual.torch_cuda.gpu_trace import GpuTraceSignals
from cudalens.virtual.torch_cuda.stacks import python_stack, warn_user

if TYPE_CHECKING:
    from cudalens.virtual.allocator import PoolId
    from cudalens.virtual.specs.registry import DeviceSpec

_SYNCS: Final = "called a synchronizing CUDA operation"
#: The sync debug mode "error".
_SYNCS_RAISE: Final = 2


class Target(threading.local):
    """Where the call that is under way on this thread puts its result.

    Attributes:
        is_named: The call named a device.
        device: That virtual device; None for the host.
        is_factory: The user called a factory: a host tensor made now was meant to be one.
        is_assigning: ``x[...] = value`` is under way, whose Python numbers are written by a kernel.
    """

    is_named: bool = False
    device: Device | None = None
    is_factory: bool = False
    is_assigning: bool = False

    @contextmanager
    def named(self, device: Device | None = None) -> Iterator[None]:
        """The call under way names `device`; None for the host."""
        before = self.is_named, self.device
        self.is_named, self.device = True, device
        try:
            yield
        finally:
            self.is_named, self.device = before


class StreamFence:
    """An event of the allocator's own on a stream."""

    __slots__ = ("_event",)

    def __init__(self, machine: Machine, stream: Stream) -> None:
        self._event = CudaEvent(machine)
        stream.mark(self._event)

    def is_done(self) -> bool:
        """Whether what the stream held has ended by the host's time."""
        return self._event.has_passed()

    def wait(self) -> None:
        """Block the host until then."""
        self._event.wait_done()


class AllocatorHost:
    """What the allocator of one device asks of the rest."""

    def __init__(self, device: Device) -> None:
        self._device, self._machine = device, device.machine

    def fence(self, stream: int) -> StreamFence:
        """Mark what the stream of that handle holds now; of this device, or of another one that uses its memory."""
        devices = [self._device, *self._machine.devices]
        found = next(filter(None, (device.find_stream(stream) for device in devices)), None)
        return StreamFence(self._machine, found or self._device.external_stream(stream))

    def now_us(self) -> int:
        """The virtual clock, microseconds."""
        return self._machine.now_ns // 1000

    def is_capturing(self) -> bool:
        """Whether a capture is under way on the device."""
        return any(capture.device is self._device for capture in self._machine.captures)

    def synchronize(self) -> None:
        """Block the host until the device is done."""
        self._device.drain()

    def on_segment(self, action: str, address: int, num_bytes: int) -> None:
        """The driver was asked for a segment, or given one back: that takes the host's time."""
        spec = self._device.spec
        name, cost = {
            "segment_alloc": ("cudaMalloc", spec.malloc_ns),
            "segment_map": ("cuMemMap", spec.malloc_ns),
            "segment_free": ("cudaFree", spec.free_ns),
            "segment_unmap": ("cuMemUnmap", spec.free_ns),
        }[action]
        self._machine.call(name, cost)


class Gpus:
    """The virtual GPUs of one `cudalens.virtual.device` block.

    Attributes:
        machine: Streams, events and time.
        devices: The GPUs.
        torch_devices: ``torch.device("cuda", index)`` of each.
        ordinals: Their numbers in the machine, before CUDA_VISIBLE_DEVICES hid and reordered.
        is_closed: Whether the block has ended: what outlived it is a plain CPU tensor.
        generators: Each device's default random generator.
        target: What the call that is under way says about its result's place.
        sync_debug_mode: 0 silent, 1 warn, 2 error, as torch.cuda.set_sync_debug_mode.
        workspaces: Scratch memory of cuBLAS.
        serves_graphs: Whether a graph capture has been begun.
        on_first_use: Called before the first memory is taken: torch.cuda initialises itself then. None afterwards.
    """

    def __init__(
        self, spec: DeviceSpec, num_devices: int, conf: AllocatorConf, *, ordinals: Sequence[int] | None = None
    ) -> None:
        self.spec = spec
        self.ordinals = list(range(num_devices) if ordinals is None else ordinals)
        self.machine = Machine(spec, num_devices, GpuTraceSignals())
        self.devices = self.machine.devices
        self.torch_devices = [torch.device("cuda", index) for index in range(num_devices)]
        self.is_closed = self.serves_graphs = False
        self.target = Target()
        self.sync_debug_mode = 0
        self.on_first_use: Callable[[], None] | None = None
        self.generators = default_generators(self.torch_devices)
        self._lock = threading.Lock()
        self._dead: deque[tuple[Device, Block]] = deque()
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
        """The virtual GPU that a spelling of a device names; None for another kind of device.

        Args:
            device: ``"cuda"``, ``"cuda:1"``, a torch.device, an index, or None.

        Raises:
            RuntimeError: The index is beyond the devices; torch's own words.
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
            raise cuda_error(INVALID_DEVICE)
        return index

    def settle(self, tensor: torch.Tensor, device: Device, *, block: Block | None = None) -> Residence:
        """Give a tensor's storage its place on a device: `block`, or one from the pool of the current stream.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's own words.
        """
        if self.serves_graphs:
            there = self._settle_in_pool(tensor, device, block)
            if isinstance(there, Residence):
                return there
            block = there
        storage: Any = tensor.untyped_storage()
        num_bytes = storage.nbytes()
        if block is None and num_bytes:
            block = self.reserve(device, num_bytes)
        residence = storage.__dict__[KEY] = Residence(self, device, block, num_bytes)
        return residence

    def _settle_in_pool(self, tensor: torch.Tensor, device: Device, block: Block | None) -> Residence | Block | None:
        """As `settle` in a graph's pool, where the tensor's bytes are its segment's; elsewhere returns the block."""
        storage = tensor.untyped_storage()
        there = follow(tensor, storage)
        if there is not None:
            return there
        if block is None and storage.nbytes():
            block = self.reserve(device, storage.nbytes())
        if block is None or not keeps_bytes(block):
            return block
        there = move_in(self, tensor, device, block)
        moved(tensor.untyped_storage(), there)
        return there

    def serve_graphs(self, device: Device, pool_id: PoolId) -> None:
        """A graph capture uses a memory pool of a device from now on."""
        self.serves_graphs = True
        device.allocator.serve_graphs(pool_id)

    def reserve(self, device: Device, num_bytes: int) -> Block:
        """A block from the pool of the device's current stream.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's own words.
        """
        if self.on_first_use is not None:
            self.on_first_use()
        stream = self.machine.current_stream(device)
        with self._lock:
            block: Block = device.allocator.malloc(num_bytes, stream.handle, stack=python_stack)
        if self._dead:
            self._bury()
        self.machine.signals.memory_allocated(block.address)
        return block

    def release(self, device: Device, block: Block) -> None:
        """Give a block back. Safe inside the garbage collector, which may run in the middle of an allocation."""
        self._dead.append((device, block))
        self._bury()

    def _bury(self) -> None:
        while self._dead and self._lock.acquire(blocking=False):
            try:
                device, block = self._dead.popleft()
                self.machine.signals.memory_freed(block.address)
                device.allocator.free(block, stack=python_stack)
            except IndexError:  # another thread took the last one
                return
            finally:
                self._lock.release()

    def record_stream(self, device: Device, block: Block, stream: Stream) -> None:
        """`stream` uses the block: it is not handed out again before what the stream holds when the block is freed."""
        with self._lock:
            device.allocator.record_stream(block, stream.handle)
        if self._dead:
            self._bury()
        gpu_trace.emit(gpu_trace.BlockRecordedOnStream(block.address, stream.handle))

    def stream_of(self, stream: Any) -> Stream:
        """The stream behind torch's stream object."""
        index, number = int(stream.device_index), int(stream.stream_id)
        return self.devices[index].stream(number)

    def launch(self, device: Device, work: Work, call: str = "cudaLaunchKernel") -> None:
        """Put work on the device's current stream."""
        self.machine.current_stream(device).launch(work, call)

    def check_sync(self) -> None:
        """An implicit synchronisation is about to happen: what the sync debug mode says to it.

        Raises:
            RuntimeError: The sync debug mode is "error"; torch's own words.
        """
        if self.sync_debug_mode == _SYNCS_RAISE:
            raise RuntimeError(_SYNCS)
        if self.sync_debug_mode:
            warn_user(_SYNCS)

    def close(self) -> None:
        """The block ends."""
        self.is_closed = True
        self._dead.clear()
