"""torch.compile's own trees as a frame: torch's own classes, filled as a compiled function leaves them."""

from __future__ import annotations

import dataclasses
import types
from collections import defaultdict

import pytest
import torch

from cudalens import virtual
from cudalens.errors import GraphError
from cudalens.frames.catalog_frames import check_frame
from cudalens.graphs import inspector

OF_TORCH_2_15 = {"cudagraph_managed_input_rerecord_limit": 8, "cudagraph_managed_input_rerecord_action": "copy"}


def trees():
    """torch's module, imported by the tests only: the import takes seconds."""
    return pytest.importorskip("torch._inductor.cudagraph_trees")


def wrapped(number: int, name: str) -> object:
    def model(inputs):
        return inputs

    model.__qualname__ = name
    utils = pytest.importorskip("torch._inductor.cudagraph_utils")
    known = {field.name for field in dataclasses.fields(utils.WrappedFunction)}
    more = {name: value for name, value in OF_TORCH_2_15.items() if name in known}
    return utils.WrappedFunction(model, [0], utils.FunctionID(number), (), (), (), **more)


def node(number: int, function: object, parent: object = None) -> object:
    made = object.__new__(trees().CUDAGraphNode)
    made.id, made.wrapped_function = trees().GraphID(number), function
    made._parent = None if parent is None else (lambda: parent)
    made.children = defaultdict(list)
    made.non_static_input_idx, made.static_input_idxs = [1], [0]
    made.reconstructed_inputs = [torch.empty(2), torch.empty(3, 4)]
    made.outputs_metadata, made.outputs_weakrefs = [{}, None], [lambda: (1, 2), None]
    if parent is not None:
        parent.children[function.id].append(made)
    return made


@pytest.fixture
def tree(monkeypatch):
    """A tree in which f is recorded, g behind it twice; h writes its input."""
    f, g, h = wrapped(0, "f"), wrapped(1, "g"), wrapped(2, "h")
    manager = object.__new__(trees().CUDAGraphTreeManager)
    root = node(0, f)
    first, second = node(1, g, root), node(2, g, root)
    manager.roots = defaultdict(list, {f.id: [root]})
    manager.ids_to_funcs = {function.id: function for function in (f, g, h)}
    manager.warmed_up_functions, manager.warned_mutation = {f.id, g.id}, {h.id}
    manager.num_rerecord = {root.id: {g.id: 1}}
    manager.id_to_mode = {function.id: trees().CompilationMode.INFERENCE for function in (f, g, h)}
    manager.cuda_graphs_thread_pool = (0, 7)
    manager._current_node = second
    monkeypatch.setattr(inspector, "_manager", lambda device: manager)
    return types.SimpleNamespace(root=root, first=first, second=second)


def test_roots_children_and_the_current_path(tree) -> None:
    frame = check_frame("graphs", inspector.inspect_frame(0))
    recordings = frame[frame["kind"] == "recording"]
    assert recordings[["node", "depth", "state", "function"]].to_numpy().tolist() == [
        [0, 0, "on the path", "f"],
        [1, 1, "idle", "g"],
        [2, 1, "current", "g"],
    ]
    assert recordings["parent"].astype(object).where(recordings["parent"].notna(), None).tolist() == [None, 0, 0]
    assert recordings["copied_bytes"].tolist() == [48, 48, 48]
    assert recordings["num_live_outputs"].tolist()[2] == 1


def test_functions_with_their_mutations_and_rerecordings(tree) -> None:
    frame = inspector.inspect_frame(0)
    functions = frame[frame["kind"] == "function"].set_index("function")
    assert functions["num_recordings"].to_dict() == {"f": 1, "g": 2, "h": 0}
    assert functions.loc["h", "reason"] == "MUTATED_INPUT"
    again = frame[frame["kind"] == "rerecord"]
    assert again[["function", "count"]].to_numpy().tolist() == [["g", 1]]


def test_skips_that_torch_counted_without_keeping_a_reason(tree, monkeypatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setitem(counters["inductor"], "cudagraph_skips", 3)
    frame = inspector.inspect_frame(0)
    skips = frame[frame["kind"] == "skip"]
    assert skips["count"].tolist() == [3]
    assert "3 times" in skips["detail"].iloc[0]


def test_nothing_compiled_is_an_empty_frame(monkeypatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setitem(counters["inductor"], "cudagraph_skips", 0)
    with virtual.device("h100"):
        trace = inspector.inspect()
    assert len(trace.graphs) == 0


def test_a_device_that_is_not_there_is_named() -> None:
    with virtual.device("h100"), pytest.raises(GraphError, match="there is cuda:0 to cuda:0"):
        inspector.inspect(3)
