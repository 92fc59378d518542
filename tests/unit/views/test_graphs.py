"""The graph tree: its layout against a slow oracle, its markup, what is folded, cut and escaped."""

import gzip
import json
from html.parser import HTMLParser

import comm
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_comm import RecordingComm, ask
from sample_graphs import (
    failed_rows,
    fan_rows,
    function,
    graphs_trace,
    hostile_graphs,
    large_rows,
    layers_rows,
    path,
    recording,
    small_rows,
)
from sample_traces import HOSTILE, gpu_trace
from test_mimebundle import ALLOWED, Markup

from cudalens.report import to_html
from cudalens.views import notebook
from cudalens.views.graphs import model as graphs_tree
from cudalens.views.graphs import section as graphs
from cudalens.views.graphs.model import MAX_CHAIN, MAX_NODES, Fold, graphs_view
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import facts
from cudalens.views.sections.write_html import to_html as section_html

ELEMENTS = ALLOWED | {"details", "summary", "ol", "span", "b", "code", "dl", "dt", "dd", "rect", "h4"}


def html_of(trace, *limit):
    return section_html(graphs.section(trace, *limit))


def shape(chain):
    """A chain as nested lists of numbers: a number, then its branches."""
    return [[stop.recording.node, *(shape(branch) for branch in stop.branches)] for stop in chain.stops]


def forest(rows):
    return [shape(chain) for chain in graphs_tree.chains(graphs_view(graphs_trace(rows)))]


def test_the_current_path_goes_straight_down_and_others_branch_off():
    rows = [
        recording(0, "a", replays=100, state="on the path"),
        recording(1, "b", 0, replays=99),
        recording(2, "c", 0, replays=1, state="current"),
        recording(3, "d", 1, replays=98),
    ]
    assert forest(rows) == [[[0, [[1], [3]]], [2]]]


def test_without_a_current_path_the_most_travelled_goes_straight_down():
    rows = [recording(0, "a"), recording(1, "b", 0, replays=2), recording(2, "c", 0, replays=5), recording(3, "d")]
    assert forest(rows) == [[[0, [[1]]], [2]], [[3]]]


parents = st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 1000), st.booleans()), max_size=30)


@settings(max_examples=examples(40))  # each makes a frame of all columns
@given(parents)
def test_every_recording_is_once_below_the_one_that_it_follows(given_rows):
    """Parents may be missing, later, or form circles, as in a file that lies."""
    rows = [
        recording(node, "f", None if parent < 0 else parent, replays=replays, state="current" if now else "idle")
        for node, (parent, replays, now) in enumerate(given_rows)
    ]
    view = graphs_view(graphs_trace(rows))
    seen = []

    def walk(chain, above):
        for stop in chain.stops:
            node = stop.recording.node
            assert view.parents.get(node) == above
            seen.append(node)
            for branch in stop.branches:
                walk(branch, node)
            above = node

    for chain in graphs_tree.chains(view):
        walk(chain, None)
    assert sorted(seen) == list(range(len(rows)))
    for node, (parent, _, _) in enumerate(given_rows):
        if node not in view.parents and 0 <= parent < len(rows):  # cut: it must have been on a circle, or led into one
            way, at = set(), node
            while at is not None and at not in way:
                way.add(at)
                at = given_rows[at][0] if 0 <= given_rows[at][0] < len(rows) else None
            assert at is not None


@settings(max_examples=examples(15))
@given(st.integers(1, 400), st.randoms(use_true_random=False))
def test_nesting_stays_logarithmic(num, random):
    rows = [recording(n, "f", None if n == 0 else random.randrange(n), replays=random.randrange(9)) for n in range(num)]

    def depth(chain):
        return 1 + max((depth(branch) for stop in chain.stops for branch in stop.branches), default=0)

    deepest = max(depth(chain) for chain in graphs_tree.chains(graphs_view(graphs_trace(rows))))
    assert deepest <= 2 + (9 * num).bit_length()


def test_a_chain_as_long_as_can_be_needs_no_depth_of_its_own():
    rows = [recording(n, "f", n - 1 if n else None) for n in range(MAX_NODES + 5)]
    view = graphs_view(graphs_trace(rows))
    assert (len(view.recordings), view.num_hidden) == (MAX_NODES, 5)
    (chain,) = graphs_tree.chains(view)
    items = graphs_tree.chain_items(chain)
    assert len(items) < MAX_CHAIN
    (fold,) = [item for item in items if isinstance(item, Fold)]
    assert len(fold.stops) + len(items) - 1 == MAX_NODES
    html = html_of(graphs_trace(rows), 10_000_000)
    assert "and 5 recordings more in trace.graphs" in html
    assert len(Rows(html).rows) == MAX_NODES


def test_what_asks_for_a_look_is_never_folded():
    rows = [recording(n, "f", n - 1 if n else None) for n in range(60)]
    rows[30] |= {"is_equal": False}
    rows[40] |= {"state": "current"}
    (chain,) = graphs_tree.chains(graphs_view(graphs_trace(rows)))
    shown = [item.recording.node for item in graphs_tree.chain_items(chain) if not isinstance(item, Fold)]
    assert {0, 30, 40, 59} <= set(shown)
    assert len(shown) < 30
    fan = [recording(0, "f"), *(recording(n, "f", 0, replays=100 - n) for n in range(1, 40))]
    fan[39] |= {"is_equal": False}
    (chain,) = graphs_tree.chains(graphs_view(graphs_trace(fan)))
    branches, fold = graphs_tree.split_branches(chain.stops[0].branches)
    assert [branch.stops[0].recording.node for branch in branches] == [2, 3, 4, 5, 6, 39]
    assert len(fold.chains) == 38 - len(branches)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        ("abc", ["a", "b", "c"]),
        ("aaab", ["a x3", "b"]),
        ("eababab", ["e", "(a → b) x3"]),
        ("abcabcabca", ["(a → b → c) x3", "a"]),
        ("", []),
    ],
)
def test_repeats_along_a_path_are_counted(names, labels):
    assert graphs_tree.path_names(list(names)) == labels


@given(st.lists(st.sampled_from("abc"), max_size=24))
def test_a_path_written_with_repeats_is_the_same_path(names):
    spelled = []
    for part in graphs_tree.path_names(names):
        group, _, times = part.rpartition(" x")
        spelled += (group or times).strip("()").split(" → ") * (int(times) if group else 1)
    assert spelled == names


def test_paths_that_are_none_are_left_out():
    rows = [recording(0, "f"), path([0], 3), path([9], 1)]
    rows += [{"kind": "path", "path": bad, "count": 1} for bad in ("[1, [}", '["0"]', "{}", "[]", None, "[" * 9999)]
    assert [(p.nodes, p.count) for p in graphs_view(graphs_trace(rows)).paths] == [((0,), 3)]


class Rows(HTMLParser):
    """Texts of the summaries of recordings, and how many details lists there are."""

    def __init__(self, markup):
        super().__init__()
        self.rows, self.num_details, self.num_open = [], 0, 0
        self.within = False
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        if tag == "details" and dict(attrs).get("class") == "cg-row":
            self.within = None
        if tag == "summary" and self.within is None:
            self.within = True
            self.rows.append([])
        self.num_details += tag == "dl"

    def handle_endtag(self, tag):
        if tag == "summary":
            self.within = False

    def handle_data(self, data):
        if self.within:
            self.rows[-1].append(data)


def test_rows_show_name_replays_times_pool_and_held_outputs():
    rows = Rows(html_of(graphs_trace())).rows
    for labels in ("prefill", "3x", "100 µs", " 4.1x", "8.00 MiB", "1/2"):
        assert labels in rows[0]
    assert "current" in rows[-1]
    assert rows[-1][0] == "sample"


def test_a_recording_of_which_nothing_is_known_has_a_row():
    blank = {"kind": "recording", "function": "f", "node": 0, "state": None}
    (row,) = Rows(html_of(graphs_trace([blank]))).rows
    assert [cell for cell in row if cell.strip()] == ["f", "0x"]


def test_rows_are_reached_by_keyboard_and_named():
    html = html_of(graphs_trace())
    assert html.count('<details class="cg-row">') == 4  # summaries take the focus by themselves
    assert 'aria-label="Graph tree"' in html
    assert "eager 410 µs, replay 100 µs" in html


def test_failed_checks_come_first():
    html = html_of(graphs_trace(failed_rows()))
    assert html.index("Replay differs from eager in 1 of 3 graphs checked") < html.index("4 graphs in 1 tree")
    assert "✗ differs" in html
    assert "output 0[3, 7]: 1.5 eager, 1.25 replayed" in html


@pytest.mark.parametrize("rows", [large_rows(300), layers_rows(), fan_rows(), large_rows(MAX_NODES)])
def test_the_picture_of_a_saved_notebook_stays_small(rows):
    html = notebook.static_html(graphs_trace(rows))
    assert len(html.encode()) <= notebook.MAX_HTML_BYTES


def test_three_hundred_graphs_are_all_in_a_saved_notebook():
    html = notebook.static_html(graphs_trace(large_rows(300)))
    assert len(Rows(html).rows) == 300
    assert "more in trace.graphs" not in html


def test_what_does_not_fit_is_counted():
    html = html_of(graphs_trace(large_rows(300)), 40_000)
    shown = len(Rows(html).rows)
    assert 0 < shown < 300
    assert f"and {300 - shown} recordings more in trace.graphs" in html
    assert Rows(html_of(graphs_trace(large_rows(300)), 0)).rows == []


def test_hostile_texts_are_inert():
    for html in (notebook.static_html(hostile_graphs()), html_of(hostile_graphs())):
        page = Markup(html)
        assert page.elements <= ELEMENTS
        assert not [name for name in page.attributes if name.startswith("on")]
        assert "pwned" not in "".join(page.styles)


def test_the_page_gets_the_same_tree_and_the_paths(tmp_path):
    model = json.loads(gzip.decompress(graphs.pack(graphs_trace())))
    assert model["paths"] == [[0, 1, 2], [0, 3]]
    assert [part[0] for part in model["body"]] == ["div"] * 4
    assert graphs.pack(graphs_trace()) == graphs.pack(graphs_trace())
    page = to_html(graphs_trace(), tmp_path / "g.html").read_text()
    assert 'id="cudalens-graphs"' in page
    assert "<h1>CUDA graphs of cell-7</h1>" in page


def test_facts_and_order():
    names = ("hasGraphs", "graphsFirst", "hasProfile", "hasRaces")
    cases = {
        (True, False, False, False): graphs_trace(),
        (True, True, False, False): graphs_trace(failed_rows()),
        (True, False, True, True): graphs_trace(events=True, races=True),
        (False, False, True, False): gpu_trace(),
    }
    for expected, trace in cases.items():
        assert tuple(facts(trace)[name] for name in names) == expected
    html = notebook.static_html(graphs_trace(failed_rows(), events=True, races=True))
    assert html.index("cudalens-graphs") < html.index('class="cudalens-races"') < html.index("<svg xmlns")
    html = notebook.static_html(graphs_trace(events=True, races=True))
    assert html.index('class="cudalens-races"') < html.index('class="cudalens-graphs"')


def test_a_trace_without_graphs_shows_none():
    assert graphs.section(gpu_trace()) is None
    assert "cudalens-graphs" not in notebook.static_html(gpu_trace())
    assert text.what(gpu_trace()) == "Profile"
    assert text.what(graphs_trace([function(0, "f", "warm")])) == "CUDA graphs"
    assert HOSTILE not in html_of(hostile_graphs())
    assert html_of(graphs_trace(small_rows()[:4])).count("cg-tree") == 0


def test_the_tree_alone_prints_and_shows():
    tree = graphs_trace(source="virtual:h100").graph_tree()
    assert str(tree).startswith("[simulated: h100] 4 graphs, replayed 960 of 1,009 calls")
    assert "◉ sample" in repr(tree)
    html = tree._repr_html_()
    assert Markup(html).elements <= ELEMENTS
    assert len(Rows(html).rows) == 4
    assert ">simulated: h100<" in html
    assert "no function ran as CUDA graphs" in str(gpu_trace().graph_tree())


def test_the_widget_sends_the_graphs_when_asked(monkeypatch):
    from cudalens.views.widget import TimelineWidget

    monkeypatch.setattr(comm, "create_comm", RecordingComm)
    widget = TimelineWidget(graphs_trace())
    content, [sent] = ask(widget, "graphs")
    assert content == {"id": "q1"}
    assert bytes(sent) == graphs.pack(graphs_trace())
    widget.close()
