"""The state of a ``torch.cuda.CUDAGraph`` object: its active capture, its graph and its memory pool."""

from __future__ import annotations

import itertools
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

import torch

from cudalens.device import gpu_trace
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.capture.stream_capture import MODES, CapturedGraph, GraphCapture, Mode
from cudalens.virtual.patching import torch_version
from cudalens.virtual.timing import cost
from cudalens.virtual.timing.streams import Stream
from cudalens.virtual.torch_cuda.errors import ILLEGAL_STATE, cuda_error

if TYPE_CHECKING:
    from cudalens.virtual.allocator import PoolId
    from cudalens.virtual.gpus import Gpus
    from cudalens.virtual.timing.machine import Device


_graph_pools = itertools.count(1)
_user_pools = itertools.count(1)


def new_pool_id(*, is_user_created: bool) -> PoolId:
    """Return a new memory pool id: the first number is set for a graph's own pool, the second for a user's pool."""
    return (0, next(_user_pools)) if is_user_created else (next(_graph_pools), 0)


class GraphState:
    """The state of a ``CUDAGraph`` object.

    Attributes:
        gpus: The virtual GPUs that it belongs to.
        keeps: Whether it keeps the uninstantiated graph (``keep_graph``).
        owner: A weak reference to the object.
        stream: The stream of its last capture.
        device: The device of its last capture; None before the first.
        pool_id: Its memory pool.
        capture: The active capture; None without one.
        graph: The captured graph; None before.
        is_instantiated: Whether it is ready to launch.
        has_template: Whether the uninstantiated graph still exists.
        generators: The generators that the program registered.
    """

    #: ``enable_debug_mode`` is for all graphs of the process, as in torch.
    is_debugging = False

    def __init__(self, gpus: Gpus, owner: Any, *, keeps: bool) -> None:
        self.gpus, self.keeps = gpus, keeps
        self.owner, self._number = weakref.ref(owner), id(owner)
        self.stream: Stream = gpus.machine.current_stream()
        self.device: Device | None = None
        self.pool_id: PoolId = (0, 0)
        self.capture: GraphCapture | None = None
        self.graph: CapturedGraph | None = None
        self.is_instantiated = self.has_template = self._holds_pool = False
        self.generators: list[Any] = []
        self._seeds: list[Seeds] = []

    def begin(self, pool: PoolId | None, mode: str) -> None:
        """``capture_begin``.

        Raises:
            RuntimeError: A capture cannot start here; torch's message, or CUDA's error.
        """
        machine = self.gpus.machine
        stream = machine.current_stream()
        self._check_begin(stream, mode)
        self.stream, self.device = stream, machine.current_device
        if self._holds_pool:
            self.reset()  # after an earlier capture that failed
        if pool is None or tuple(pool) == (0, 0):
            pool = new_pool_id(is_user_created=False)
        self.pool_id = (int(pool[0]), int(pool[1]))
        self._hold(before_capture(self.gpus, stream))
        capture = GraphCapture(stream, cast("Mode", mode))
        self.device.allocator.begin_allocate_to_pool(self.pool_id, capture.accepts)
        self.gpus.serve_graphs(self.device, self.pool_id)
        self._holds_pool = True
        try:
            capture.begin()
        except BaseException:
            self.device.allocator.end_allocate_to_pool(self.pool_id)
            self.reset()
            raise
        capture.owner = self.owner
        self.capture = capture
        self._hold(after_begin(self.gpus, stream))
        gpu_trace.emit(gpu_trace.CaptureBegan(self._number, stream.handle, self.pool_id))

    def _check_begin(self, stream: Stream, mode: str) -> None:
        if mode not in MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {mode}"
            )
        if self.is_instantiated:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if self.capture is not None:
            raise cuda_error(ILLEGAL_STATE)
        if stream is stream.device.default_stream:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )

    def _hold(self, seeds: Seeds | None) -> None:
        if seeds is not None:
            self._seeds.append(seeds)

    def end(self) -> None:
        """``capture_end`` of torch before 2.15.

        Raises:
            RuntimeError: Nothing was captured; torch's message, or CUDA's error.
        """
        self.end_capture()
        if not self.keeps:
            self.instantiate()
        self.drop_template()

    def end_capture(self) -> None:
        """``capture_end_pre``: the graph is complete and not instantiated.

        Raises:
            RuntimeError: Nothing was captured; torch's message, or CUDA's error.
        """
        if self.gpus.machine.current_stream() is not self.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        capture, device = self.capture, self.device
        if capture is None or device is None:
            raise RuntimeError("capture_end() called before capture_begin().")
        is_valid = False
        try:
            capture.end()
            is_valid = True
        finally:
            if capture not in self.gpus.machine.captures:  # after an attempt of another thread it is still active
                device.allocator.end_allocate_to_pool(self.pool_id)
                self.capture = None
                gpu_trace.emit(gpu_trace.CaptureEnded(self._number, self.stream.handle, is_valid))
        self.graph = CapturedGraph(capture)
        if not self.graph.nodes:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=4,
            )
        self.has_template = True

    def drop_template(self) -> None:
        """``capture_end_post``: the uninstantiated graph is dropped, unless it is kept."""
        self.has_template = self.keeps or GraphState.is_debugging

    def instantiate(self) -> None:
        """Instantiate the graph.

        Raises:
            RuntimeError: Nothing was captured, or it is instantiated and does not keep the graph; torch's message.
        """
        if self.graph is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if self.is_instantiated and not self.keeps:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")
        machine = self.gpus.machine
        machine.call("cudaGraphInstantiate", machine.spec.graph_launch_ns)
        self.is_instantiated = True

    def replay(self) -> None:
        """Launch it on the current stream of its device.

        Raises:
            RuntimeError: Nothing was captured; torch's message.
            VirtualDeviceError: Its virtual device has ended, or memory that it uses was freed.
        """
        if self.gpus.is_closed:
            raise VirtualDeviceError(
                "This CUDA graph belongs to a virtual device that has ended. Capture it again on the current one."
            )
        if self.graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if not self.is_instantiated:
            self.instantiate()
        machine = self.gpus.machine
        with machine.host_time.in_call():
            stream = machine.current_stream(self.device)
            fill(stream, self.graph.num_generators)
            self.graph.replay(stream)
            gpu_trace.emit(gpu_trace.GraphReplayed(self._number, stream.handle))

    def reset(self) -> None:
        """Release the graph and its memory."""
        if self.capture is not None and self.device is not None:
            self.capture.abandon()
            self.device.allocator.end_allocate_to_pool(self.pool_id)
            gpu_trace.emit(gpu_trace.CaptureEnded(self._number, self.stream.handle, is_valid=False))
        if self._holds_pool and self.device is not None:
            if self.graph is not None:
                self.gpus.workspaces.release_for_graph(self.stream.handle)
            self.device.allocator.release_pool(self.pool_id)
            gpu_trace.emit(gpu_trace.GraphDestroyed(self._number))
        self.capture, self.graph, self._holds_pool = None, None, False
        self.is_instantiated = self.has_template = False
        self.generators.clear()
        self._seeds.clear()

    def pool(self) -> PoolId:
        """Return the id of its memory pool.

        Raises:
            RuntimeError: Nothing was captured; torch's message.
        """
        if self.graph is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self.pool_id

    def pools(self) -> list[PoolId]:
        """Return the ids of all memory pools that it holds."""
        return [self.pool_id] if self._holds_pool else []

    def dump(self, path: str) -> None:
        """``debug_dump`` of torch before 2.15: write the graph in Graphviz format if debugging is on."""
        if not (GraphState.is_debugging or self.keeps):
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", stacklevel=4)
            return
        warnings.warn("DEBUG: calling debug_dump()", stacklevel=4)
        if self.graph is not None and self.has_template:
            warnings.warn(f"DEBUG: calling cudaGraphDebugDotPrint() with {path}", stacklevel=4)
            self.write_dot(path)
            self.has_template = self.keeps

    def write_dot(self, path: str) -> None:
        """Write the graph in Graphviz format."""
        assert self.graph is not None
        Path(path).write_text(dot(self.graph), encoding="utf-8")

    def template_pointer(self) -> int:
        """``raw_cuda_graph``.

        Raises:
            RuntimeError: The graph is not kept, or not captured; torch's message.
            VirtualDeviceError: Otherwise: there is no such object.
        """
        if not self.keeps:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"
            )
        if not self.has_template:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance until capture_end() has been called")
        raise _no_driver("raw_cuda_graph()")

    def exec_pointer(self) -> int:
        """``raw_cuda_graph_exec``.

        Raises:
            RuntimeError: The graph is not instantiated; torch's message.
            VirtualDeviceError: Otherwise: there is no such object.
        """
        if not self.is_instantiated:
            raise RuntimeError("You cannot access the raw cudaGraphExec_t instance until instantiate() has been called")
        raise _no_driver("raw_cuda_graph_exec()")

    def __del__(self) -> None:
        if not self.gpus.is_closed:
            self.reset()


def _no_driver(what: str) -> VirtualDeviceError:
    return VirtualDeviceError(
        f"{what} returns a pointer to a CUDA driver object, and a virtual device has no driver. Use debug_dump() to "
        "see the graph's nodes, or a real GPU."
    )


def dot(graph: CapturedGraph) -> str:
    """Return a graph in Graphviz format."""
    lines = ["digraph dot {", f'subgraph cluster_{graph.id} {{ label="graph_{graph.id}" node [shape="record"]']
    for number, node in enumerate(graph.nodes):
        name = "event" if node.work is None else node.work.name
        name = "".join(f"\\{mark}" if mark in '"\\{}|<>' else mark for mark in name)
        lines.append(f'"{number}" [label="{{{number} | {name}}}"];')
    lines += [f'"{dep}" -> "{number}";' for number, node in enumerate(graph.nodes) for dep in node.deps]
    return "\n".join([*lines, "}", "}", ""])


# The device memory of a graph's random seed and offset.

#: From torch 2.13 every capture has its own tensors, on the default stream; before, all graphs shared a pair.
_PER_CAPTURE: Final = torch_version() >= (2, 13)

_NUM_TENSORS: Final = 2
_NUM_BYTES: Final = 8
_META: Final = torch.device("meta")

_shared: WeakValueDictionary[tuple[int, int], Seeds] = WeakValueDictionary()


class Seeds:
    """Two blocks of device memory, freed with the last graph that holds them.

    Random kernels of a graph read their starting point from two one-element tensors (Note [CUDA Graph-safe RNG states]
    in ATen/cuda/CUDAGeneratorImpl.h). Here the numbers come from the device's generator; only the memory that torch
    allocates and the work of filling it are modelled.
    """

    def __init__(self, gpus: Gpus, stream: Stream) -> None:
        self._gpus, self._device = gpus, stream.device
        machine = gpus.machine
        current = machine.current_stream(stream.device)
        machine.set_stream(stream)
        try:
            self._blocks = [gpus.reserve(stream.device, _NUM_BYTES) for _ in range(_NUM_TENSORS)]
        finally:
            machine.set_stream(current)

    def __del__(self) -> None:
        if not self._gpus.is_closed:
            for block in getattr(self, "_blocks", ()):
                self._gpus.release(self._device, block)


def before_capture(gpus: Gpus, stream: Stream) -> Seeds | None:
    """Return the memory that torch allocates before a capture starts on `stream`, or None if it allocates it later."""
    if _PER_CAPTURE:
        return None
    key = id(gpus), stream.device.index
    seeds = _shared.get(key)
    if seeds is None:
        seeds = _shared[key] = Seeds(gpus, stream)
    return seeds


def after_begin(gpus: Gpus, stream: Stream) -> Seeds | None:
    """Return the memory that torch allocates after a capture has started, or None if it allocated it before."""
    return Seeds(gpus, stream.device.default_stream) if _PER_CAPTURE else None


def fill(stream: Stream, num_generators: int) -> None:
    """Fill the seed and offset of every generator that the graph draws from, before a replay."""
    if num_generators:
        number = torch.ops.aten.empty.memory_format([1], dtype=torch.int64, device=_META)
        work = cost.kernel_work(stream.device.spec, torch.ops.aten.fill_.Scalar, (number, 0), {}, number)
        for _ in range(_NUM_TENSORS * num_generators):
            stream.launch(work)
