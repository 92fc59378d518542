"""What is in a graph: its nodes, live and from traces, with the longest path."""

from __future__ import annotations

import sys

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.analysis.graphs import nodes_of_rows
from cudalens.errors import GraphError
from cudalens.graphs import GraphManager


@pytest.fixture
def manager():
    with virtual.device("h100"):
        made = GraphManager(debug=True, eager_if_slower=False)
        yield made
        made.shutdown()


#: Before Python 3.12 the module that runs an operator is unknown.
HAS_MODULES = sys.version_info >= (3, 12)


class _WithLocals(torch.nn.Module):
    def forward(self, x):
        seen = locals()
        y = x * 2
        return y + len(seen)


def test_what_a_forward_gets_from_locals_is_as_without_a_graph(manager) -> None:
    step = manager.wrap(_WithLocals())
    for number in range(4):
        x = torch.full((4,), float(number), device="cuda")
        assert torch.equal(step(x), _WithLocals()(x))


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64, device="cuda")
        self.second = torch.nn.Sequential(torch.nn.Linear(64, 64, device="cuda"), torch.nn.ReLU())

    def forward(self, x):
        return self.second(self.first(x)) + 1


def test_each_node_has_its_operator_module_line_time_and_bytes(manager) -> None:
    step = manager.wrap(_Net())
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(8, 64, device="cuda"))
    frame = cudalens.graph_nodes(step).frame
    assert frame["operator"].tolist() == ["aten::addmm", "aten::addmm", "aten::relu", "aten::add"]
    names = ["first", "second.0", "second.1", "_Net"]
    assert frame["module"].fillna("").tolist() == (names if HAS_MODULES else [""] * 4)
    assert frame["source"].str.contains("self.second").all()
    assert (frame["dur_ns"] > 0).all()
    assert frame["num_bytes"].iloc[2] == 2 * 8 * 64 * 4
    assert frame["after"].tolist() == [(), (0,), (1,), (2,)]
    assert frame["is_longest"].all()


def test_branches_on_streams_and_the_longest_path(manager) -> None:
    side = torch.cuda.Stream()
    large, small = torch.ones(2048, 2048, device="cuda"), torch.ones(8, 8, device="cuda")

    def step(x):
        x = x + 1
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = large @ large
        z = small @ small
        torch.cuda.current_stream().wait_stream(side)
        return x.sum() + y.sum() + z.sum()

    graphed = manager.wrap(step)
    for _ in range(3):
        graphed(torch.ones(4, device="cuda"))
    shown = cudalens.graph_nodes(graphed)
    frame = shown.frame
    assert frame["after"].tolist()[1:3] == [(0,), (0,)]
    assert frame["stream"].nunique() == 2
    path = frame[frame["is_longest"]]
    assert path["node"].tolist()[:2] == [0, 1]
    assert 2 not in path["node"].tolist()
    assert shown.longest_ns == path["dur_ns"].sum() < frame["dur_ns"].sum()


def test_the_pieces_of_a_split_recording_follow_each_other(manager) -> None:
    def step(x):
        y = x * 2
        if y.sum() > 0:
            y = y.cos()
        return y

    graphed = manager.wrap(step)
    for _ in range(3):
        graphed(torch.ones(4, device="cuda"))
    frame = cudalens.graph_nodes(graphed).frame
    assert frame["piece"].tolist() == [0, 0, 0, 1]
    assert frame["operator"].iloc[3] == "aten::cos"
    assert frame["source"].iloc[3] == "y = y.cos()"
    assert frame["after"].iloc[3] == (2,)


def test_a_trace_has_the_nodes_of_the_replays_without_dependencies() -> None:
    with virtual.device("h100"):
        manager = GraphManager(eager_if_slower=False)
        step = manager.wrap(_Net(), name="step")
        x = torch.ones(8, 64, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                step(x)
            live = cudalens.graph_nodes(step)
            with cudalens.profile("replays") as p:
                for _ in range(4):
                    step(x)
        manager.shutdown()
    found = cudalens.graph_nodes(p.trace)
    assert found.frame["kernel"].tolist() == live.frame["kernel"].tolist()
    assert found.frame["dur_ns"].tolist() == live.frame["dur_ns"].tolist()
    assert found.frame["num_replays"].tolist() == [4] * 4
    assert found.frame["after"].isna().all()
    assert found.longest_ns == live.longest_ns
    assert "estimated from the times" in str(found)
    with pytest.raises(GraphError, match="there is no graph 12345 in the trace"):
        cudalens.graph_nodes(p.trace, 12345)


def test_it_prints_and_shows_what_is_known(manager) -> None:
    net = _Net()
    step = manager.wrap(lambda x: net(x) * 2, name="step")
    with torch.no_grad():
        for _ in range(3):
            step(torch.ones(8, 64, device="cuda"))
    shown = cudalens.graph_nodes(step)
    assert "step (graph 0): 5 nodes" in str(shown)
    assert ("second.0" in str(shown)) == HAS_MODULES
    assert "nan" not in str(shown)
    html = shown._repr_html_()
    assert html.count('class="is-longest"') == 5
    assert "<svg" in html


def test_what_has_no_graph_is_refused(manager) -> None:
    step = manager.wrap(lambda x: x + 1, name="step")
    with pytest.raises(GraphError, match="step has no recording; its recordings: none"):
        cudalens.graph_nodes(step)
    with pytest.raises(TypeError, match="expected a graphed function or a Trace"):
        cudalens.graph_nodes(7)


def test_the_longest_path_is_that_of_a_search_over_all_paths() -> None:
    generator = torch.Generator().manual_seed(5)
    for _ in range(40):
        rows = []
        for node in range(8):
            before = torch.nonzero(torch.rand(node, generator=generator) < 0.4).flatten().tolist()
            duration = int(torch.randint(1, 50, (), generator=generator))
            rows.append({"node": node, "kernel": "k", "after": tuple(before), "dur_ns": duration})

        def length(node: int, rows=rows) -> int:
            return rows[node]["dur_ns"] + max((length(one) for one in rows[node]["after"]), default=0)

        found = nodes_of_rows("graph", rows)
        assert found.longest_ns == max(map(length, range(8)))
        path = found.frame[found.frame["is_longest"]]
        assert path["dur_ns"].sum() == found.longest_ns
