"""``torch.cuda.CUDAGraph``: the object and its messages."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from graph_helpers import Capturing, assert_cuda_error, capture, fork

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device
from cudalens.virtual.torch_cuda import errors as cuda_errors

#: From torch 2.15 on, replay() instantiates a graph that is not instantiated.
NOT_CAPTURED = "without a preceding successful capture|must have been called before calling instantiate"


def test_begin_and_end_are_checked_in_torchs_words(graph_gpus):
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with pytest.raises(RuntimeError, match="CUDA graphs must be captured on a non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match=r"Unknown capture error mode. Expected `global`.*, got loose"):
        graph.capture_begin(capture_error_mode="loose")
    with pytest.raises(RuntimeError, match=r"capture_end\(\) called before capture_begin\(\)."):
        graph.capture_end()
    for call in (graph.replay, graph.pool):
        with pytest.raises(RuntimeError, match=NOT_CAPTURED):
            call()
    with pytest.raises(RuntimeError, match=r"capture_end\(\) must have been called before calling instantiate"):
        graph.instantiate()
    with torch.cuda.stream(side):
        graph.capture_begin()
        torch.ones(3, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(RuntimeError, match="same stream it began on"):
            graph.capture_end()
        with pytest.raises(RuntimeError) as info:
            torch.cuda.CUDAGraph().capture_begin()
        assert_cuda_error(info, 401, "the operation cannot be performed in the present state")
        with pytest.raises(RuntimeError, match="cannot be performed in the present state"):
            graph.capture_begin()
        graph.capture_end()
    with pytest.raises(RuntimeError, match="This CUDAGraph instance already owns a captured graph"):
        capture_again(graph)


def capture_again(graph):
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()


def test_an_empty_graph_is_warned_about_and_replays(graph_gpus):
    with pytest.warns(
        UserWarning, match="The CUDA Graph is empty. This usually means that the graph was attempted to be"
    ):
        graph, _ = capture(lambda: None)
    graph.replay()


def test_work_on_another_stream_is_not_captured(h100):
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    default = torch.cuda.stream(torch.cuda.default_stream())
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), torch.cuda.graph(graph), default:
        x.add_(1)
    assert x.tolist() == [2, 2, 2]
    graph.replay()
    assert x.tolist() == [2, 2, 2]


def test_a_kept_graph_is_instantiated_by_hand_or_at_first_replay(graph_gpus):
    x = torch.zeros(3, device="cuda")
    for by_hand in (True, False):
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with pytest.raises(RuntimeError, match=r"raw cudaGraph_t instance until capture_end\(\)"):
            graph.raw_cuda_graph()
        with torch.cuda.graph(graph):
            x.add_(1)
        if by_hand:
            graph.instantiate()
            graph.instantiate()
        graph.replay()
        for pointer in (graph.raw_cuda_graph, getattr(graph, "raw_cuda_graph_exec", graph.raw_cuda_graph)):
            with pytest.raises(VirtualDeviceError, match="a virtual device has no driver"):
                pointer()
    assert x.tolist() == [2, 2, 2]
    graph, _ = capture(lambda: x.add_(1))
    with pytest.raises(RuntimeError, match="only when keep_graph=true"):
        graph.instantiate()
    with pytest.raises(RuntimeError, match="unless CUDAGraph was initialized with keep_graph=true"):
        graph.raw_cuda_graph()


def test_debug_dump_draws_the_nodes(graph_gpus, tmp_path):
    x = torch.ones(300, device="cuda")
    path = tmp_path / "graph.dot"
    graph, _ = capture(fork(lambda: x * 2))
    if hasattr(torch.cuda.graphs, "_dump_graph_dot"):  # torch 2.15
        with pytest.raises(RuntimeError, match="unless CUDAGraph was initialized with keep_graph=true"):
            graph.debug_dump(str(path))
    else:
        with pytest.warns(UserWarning, match="CUDA Graphs debug not enabled"):
            graph.debug_dump(str(path))
    assert not path.exists()
    graph = torch.cuda.CUDAGraph()
    graph.enable_debug_mode()
    with torch.cuda.graph(graph):
        fork(lambda: (x * 2) + 1)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph.debug_dump(str(path))
    text = path.read_text()
    assert text.startswith("digraph")
    assert '"0" -> "1";' in text
    assert '"2" -> "3";' in text
    assert '"0" -> "2";' not in text


@pytest.mark.skipif(not hasattr(torch.cuda.graphs, "export_dot"), reason="torch 2.15 and later")
def test_a_hook_at_the_end_of_a_capture_draws_the_nodes(graph_gpus, tmp_path):
    graph, path = torch.cuda.CUDAGraph(), tmp_path / "graph.dot"
    graph.register_capture_end_hook(torch.cuda.graphs.export_dot(str(path)))
    with warnings.catch_warnings(action="error"), torch.cuda.graph(graph):
        torch.ones(3, device="cuda")
    assert path.read_text().startswith("digraph")


@pytest.mark.skipif(not hasattr(torch.cuda.graphs, "register_graph_replay_end_hook"), reason="torch 2.15 and later")
def test_hooks_for_all_graphs_run(graph_gpus):
    calls = []
    graphs = torch.cuda.graphs
    kinds = ("capture_start", "capture_end", "instantiate", "replay_start", "replay_end")
    handles = [
        getattr(graphs, f"register_graph_{kind}_hook")(lambda graph, kind=kind: calls.append(kind)) for kind in kinds
    ]
    graph, _ = capture(lambda: torch.ones(3, device="cuda"))
    graph.replay()
    for handle in handles:
        handle.remove()
    assert calls == list(kinds)


def test_conditional_nodes_are_not_modelled(graph_gpus):
    with pytest.raises(VirtualDeviceError, match="Conditional nodes of a CUDA graph are not modelled"):
        torch._C._CUDAGraph.begin_capture_to_if_node(torch.cuda.CUDAGraph(), torch.ones(1, device="cuda"))


def test_the_capturing_graph_is_known(graph_gpus):
    find = torch.cuda.CUDAGraph.get_currently_capturing_graph
    with pytest.raises(RuntimeError, match="The current stream is not currently capturing"):
        find()
    with Capturing() as running:
        assert find() is running.graph


def test_a_graph_does_not_outlive_its_device():
    with device("h100"):
        x = torch.ones(3, device="cuda")
        graph, _ = capture(lambda: x + 1)
        assert torch.cuda.graph.default_capture_stream is not None
    assert torch.cuda.graph.default_capture_stream is None
    with pytest.raises(VirtualDeviceError, match="belongs to a virtual CUDA device that has ended"):
        graph.replay()
    with device("h100"), pytest.raises(VirtualDeviceError, match="belongs to a virtual CUDA device that has ended"):
        graph.replay()


def test_a_graph_that_dies_in_the_middle_leaves_a_working_device(h100):
    x = torch.ones(3, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        x.add_(1)
        del graph
        gc.collect()
        assert not torch.cuda.is_current_stream_capturing()
        x.add_(1)
    side.synchronize()
    assert x.tolist() == [2, 2, 2]
    again, _ = capture(lambda: x.add_(1))
    again.replay()
    assert x.tolist() == [3, 3, 3]


def test_a_graph_of_the_second_device(h100):
    with torch.cuda.device(1):
        x = torch.ones(3, device="cuda")
        graph, out = capture(lambda: x + 1, stream=torch.cuda.Stream())
    graph.replay()
    assert out.device == torch.device("cuda:1")
    assert out.tolist() == [2, 2, 2]


def test_torchs_own_check_of_inputs_runs(h100):
    graph = torch.cuda.CUDAGraph()
    x = torch.ones(3, device="cuda")
    try:
        context = torch.cuda.graph(graph, check_input_liveness=True)
    except TypeError:
        pytest.skip("this torch has no check_input_liveness")
    with context:
        out = x + 1
    graph.replay()
    assert out.tolist() == [2, 2, 2]
    del x
    with pytest.raises(RuntimeError, match="CUDA graph replay detected 1 dead tensor"):
        graph.replay()


def test_every_cuda_error_has_torchs_form():
    error = cuda_errors.cuda_error(cuda_errors.INVALID_DEVICE)
    assert str(error).startswith("CUDA error: invalid device ordinal\nGPU device may be out of range")
    assert getattr(error, "error_code", 101) == 101
    assert "cudaErrorStreamCaptureUnsupported" in cuda_errors.message(cuda_errors.CAPTURE_UNSUPPORTED)


def test_an_assertion_on_the_device_fails_in_the_replay(graph_gpus):
    """A capture runs nothing, so nothing fails there; on a GPU the kernel checks the value in every replay."""
    x, graph = torch.zeros(3, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        torch._assert_async((x > 0).all(), "x has to be positive")
        y = x * 2
    with pytest.raises(RuntimeError, match="x has to be positive"):
        graph.replay()
    x.fill_(3)
    graph.replay()
    assert y.tolist() == [6.0, 6.0, 6.0]
