"""Replace ``torch.cuda.CUDAGraph`` and the C functions of torch/cuda/graphs.py.

A CPU build of torch has dummy classes, which get methods; in a CUDA build, torch's own source of the Python class runs
again on a virtual base class (as in handles.py).
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.capture.graph_state import GraphState, new_pool_id
from cudalens.virtual.patching import Patches, fill, fill_function, is_dummy, run_source
from cudalens.virtual.torch_cuda import errors

if TYPE_CHECKING:
    from cudalens.virtual.allocator import PoolId
    from cudalens.virtual.gpus import Gpus

GRAPH_KEY: Final = "_cudalens_graph"


def install(patches: Patches, gpus: Gpus, *, in_place: bool | None = None) -> None:
    """Make torch.cuda's graphs virtual.

    Args:
        patches: Undone at the end.
        gpus: The virtual GPUs.
        in_place: Whether to add methods to torch's class or to create a new class; by default depends on torch's build.
    """
    graphs = torch.cuda.graphs
    if is_dummy(torch._C._CUDAGraph) if in_place is None else in_place:
        fill(patches, torch._C._CUDAGraph, graph_methods(gpus))
    else:
        patches.set(torch._C, "_CUDAGraph", type("_CUDAGraph", (), graph_methods(gpus)))
        made = new_class(graphs)
        for owner in (graphs, torch.cuda):
            patches.set(owner, "CUDAGraph", made)
    fill_function(patches, "_graph_pool_handle", lambda: new_pool_id(is_user_created=True), (graphs,))
    fill_function(patches, "_cuda_isCurrentStreamCapturing", lambda: is_capturing(gpus), (graphs,))
    if hasattr(graphs, "_dump_graph_dot"):  # torch 2.15, by CUDA's bindings
        patches.set(graphs, "_dump_graph_dot", dump_dot)
    patches.set(GraphState, "is_debugging", False)
    # torch stores its side stream on the class; the next device has other streams.
    patches.set(graphs.graph, "default_capture_stream", None)


def new_class(graphs: ModuleType) -> Any:
    """``CUDAGraph`` on the virtual base class; it runs the hooks that are registered with the module (torch 2.15)."""
    names = run_source(graphs)
    names.update({name: hooks for name, hooks in vars(graphs).items() if re.fullmatch(r"_global_\w+_hooks", name)})
    if "_dump_graph_dot" in names:
        names["_dump_graph_dot"] = dump_dot
    return names["CUDAGraph"]


def is_capturing(gpus: Gpus) -> bool:
    """Return whether the thread's current stream is being captured, invalidated or not."""
    return gpus.machine.current_stream().capture is not None


def state_of(graph: Any) -> GraphState:
    """Return the state of a ``CUDAGraph`` object.

    Raises:
        VirtualDeviceError: The object was created for a real device.
    """
    state: GraphState | None = vars(graph).get(GRAPH_KEY)
    if state is None:
        raise VirtualDeviceError(
            "This CUDAGraph was created outside of the virtual device. Create it inside the block that uses it."
        )
    if state.gpus.is_closed:
        errors.refuse("graph")
    return state


def graph_methods(gpus: Gpus) -> dict[str, Any]:
    """Return the methods of ``_CUDAGraph`` by name."""

    def new(cls: Any, keep_graph: bool = False) -> Any:
        made = object.__new__(cls)
        made.__dict__[GRAPH_KEY] = GraphState(gpus, made, keeps=bool(keep_graph))
        gpus.handles.add(made, "graph")
        return made

    def capture_begin(self: Any, pool: PoolId | None = None, capture_error_mode: str = "global") -> None:
        state_of(self).begin(pool, capture_error_mode)

    def debug_dump(self: Any, debug_path: str) -> None:
        state_of(self).dump(debug_path)

    return {
        "__new__": staticmethod(new),
        "__init__": lambda self, *args, **kwargs: None,
        "capture_begin": capture_begin,
        "capture_end": lambda self: state_of(self).end(),
        "capture_end_pre": lambda self: state_of(self).end_capture(),
        "capture_end_post": lambda self: state_of(self).drop_template(),
        "instantiate": lambda self: state_of(self).instantiate(),
        "register_generator_state": lambda self, generator: state_of(self).generators.append(generator),
        "replay": lambda self: state_of(self).replay(),
        "reset": lambda self: state_of(self).reset(),
        "pool": lambda self: state_of(self).pool(),
        "pools": lambda self: state_of(self).pools(),
        "_has_graph_exec": property(lambda self: state_of(self).is_instantiated),
        "enable_debug_mode": lambda self: setattr(GraphState, "is_debugging", True),
        "debug_dump": debug_dump,
        "raw_cuda_graph": lambda self: state_of(self).template_pointer(),
        "raw_cuda_graph_exec": lambda self: state_of(self).exec_pointer(),
        "get_currently_capturing_graph": staticmethod(lambda: currently_capturing(gpus)),
        "begin_capture_to_if_node": lambda self, predicate: refuse_conditional(),
        "begin_capture_to_while_node": lambda self, predicate: refuse_conditional(),
        "set_conditional_handle_for_current_node": lambda self, predicate: refuse_conditional(),
        "end_capture_to_conditional_node": lambda self: refuse_conditional(),
    }


def currently_capturing(gpus: Gpus) -> Any:
    """Return the ``CUDAGraph`` that captures the current stream.

    Raises:
        RuntimeError: There is none; torch's message.
    """
    capture = gpus.machine.current_stream().capture
    owner = getattr(capture, "owner", None)
    graph = owner() if owner is not None else None
    if graph is None:
        raise RuntimeError("The current stream is not currently capturing.")
    return graph


def dump_dot(graph: Any, path: str, *, verbose: bool = True) -> None:
    """Write a graph in Graphviz format, as torch 2.15: also in a hook at the end of a capture.

    Raises:
        RuntimeError: The uninstantiated graph does not exist; torch's message.
    """
    state = state_of(graph)
    if not state.has_template:
        state.template_pointer()
    state.write_dot(path)


def refuse_conditional() -> None:
    """Refuse conditional nodes, which branch on a kernel's result.

    Raises:
        VirtualDeviceError: Always.
    """
    raise VirtualDeviceError(
        "Conditional nodes of a CUDA graph are not modelled on a virtual device. Capture the branches as separate "
        "graphs and choose between them on the host, or use a real GPU."
    )
