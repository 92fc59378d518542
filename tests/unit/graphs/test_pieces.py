"""The tree shows the pieces of a recording that is split at reads of the host, and what each break costs."""

from __future__ import annotations

import pytest
import torch

from cudalens import virtual
from cudalens.graphs import GraphManager
from cudalens.views.graphs.model import graphs_view
from cudalens.views.graphs.section import graph_tree


def _step(x):
    x = x * 2 + 1
    if x.sum() > 0:
        x = x.cos()
    return x, (x + 1).max().item()


@pytest.fixture
def trace():
    from cudalens.api.run_info import graphs_trace

    with virtual.device("h100"):
        manager = GraphManager(eager_if_slower=False)
        step = manager.wrap(_step, name="step")
        for _ in range(5):
            step(torch.ones(4, device="cuda"))
        made = graphs_trace(manager, "cell")
        manager.shutdown()
    return made


def test_each_piece_has_its_launches_and_the_read_behind_it(trace) -> None:
    pieces = trace.graphs[trace.graphs["kind"] == "piece"]
    recording = trace.graphs[trace.graphs["kind"] == "recording"].iloc[0]
    assert pieces["piece"].tolist() == [0, 1, 2]
    assert pieces["node"].eq(recording["node"]).all()
    assert pieces["num_kernels"].sum() == recording["num_kernels"]
    # x * 2, + 1, sum, > 0; cos, + 1, max; nothing
    assert pieces["num_kernels"].tolist() == [4, 3, 0]
    assert pieces["detail"].iloc[:2].tolist() == ["reads True", f"reads {float(torch.tensor(3.0).cos() + 1)}"]
    assert ["if x.sum() > 0" in str(pieces["source"].iloc[0]), ".item()" in str(pieces["source"].iloc[1])] == [True] * 2


def test_the_host_waits_for_each_read_and_not_behind_the_last_piece(trace) -> None:
    pieces = trace.graphs[trace.graphs["kind"] == "piece"]
    waits = pieces["wait_ns"].tolist()
    assert waits[0] > 0
    assert waits[1] > 0
    assert pieces["wait_ns"].isna().tolist() == [False, False, True]


def test_the_tree_names_the_pieces_and_the_change_in_text_and_html(trace) -> None:
    view = graphs_view(trace)
    (pieces,) = view.pieces.values()
    assert pieces[1].change.startswith("- return x, (x + 1).max().item()")
    shown = graph_tree(trace)
    assert "piece 1 of 3: 4 operators; then the host waits" in str(shown)
    assert "µs and reads True at" in str(shown)
    html = shown._repr_html_()
    assert html.count("; then the host waits") == 2
    assert "+ return x, (x + 1).max().detach()" in html
    assert html.count("the launch of one more graph") == 1
