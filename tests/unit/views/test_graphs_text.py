"""CUDA graphs in words: each variant of the verdict, and the tree in letters."""

import re

import pytest
from sample_graphs import (
    SKIP,
    failed_rows,
    fan_rows,
    function,
    graphs_trace,
    hostile_graphs,
    large_rows,
    layers_rows,
    recording,
    small_rows,
)
from sample_traces import gpu_trace

from cudalens.views.graphs import section as graphs
from cudalens.views.graphs import words as graphs_words
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import summary
from cudalens.views.sections.write_text import to_text


def report(trace):
    return to_text(graphs.section(trace))


def verdict(*rows):
    return graphs_words.verdict(graphs_trace(list(rows)))


def test_the_verdict_of_a_decode_loop():
    assert graphs_words.verdict(graphs_trace()) == (
        "4 graphs, replayed 960 of 1,009 calls, 4.1x faster than eager (310 µs less a replay), 312 MiB reserved; "
        "1 function runs eager: update_cache writes its input 'cache'; recorded again twice; 1 warning"
    )


def test_nothing_is_claimed_that_was_not_seen():
    graph = recording(0, "f", eager_ns=None)
    assert verdict(function(0, "f", replays=0), graph) == "1 graph, none replayed yet, 312 MiB reserved"
    measured = verdict(function(0, "f", replays=8), graph | {"count": 8})
    assert measured == "1 graph, replayed 8 of 10 calls, 88 launches fewer than eager, 312 MiB reserved"
    uncounted = verdict(function(0, "f", replays=8), graph | {"count": 8, "num_kernels": None})
    assert uncounted == "1 graph, replayed 8 of 10 calls, speed not measured, 312 MiB reserved"
    unpooled = function(0, "f", replays=8, reserved_bytes=None)
    assert "pool" not in verdict(unpooled, graph | {"count": 8, "reserved_bytes": None})
    assert verdict(graph | {"count": 8}).startswith("1 graph, replayed 8 times, 88 launches fewer")


def test_nothing_recorded_yet():
    warm = function(0, "f", "warm", recordings=0)
    assert verdict(warm) == "no graph recorded yet: f is warm, the next call records"
    assert verdict(warm, warm | {"function": "g", "function_id": 1}) == (
        "no graph recorded yet: f and 1 other are warm, the next call records"
    )
    never = function(0, "f", None, warmups=0, recordings=0)
    assert verdict(never) == "no graph recorded: nothing has been called yet"
    assert graphs_words.verdict(gpu_trace()) == ""


def test_eager_functions_are_named_with_their_reason():
    rows = [function(n, f"f{n}", "eager", eager=1, recordings=0, detail=f"does {n}.") for n in range(4)]
    assert verdict(*rows) == "no graph recorded in 8 calls; 4 functions run eager: f0 does 0, f1 does 1, and 2 others"


@pytest.mark.parametrize(
    ("eager", "replay", "words"),
    [
        (4_100, 1_000, "4.1x faster than eager"),
        (41_000, 1_000, "41x faster than eager"),
        (1_000, 1_000, "as fast as eager"),
        (1_040, 1_000, "as fast as eager"),
        (1_000, 2_000, "2.0x slower than eager"),
    ],
)
def test_how_replays_compare(eager, replay, words):
    row = recording(0, "f", replays=9, eager_ns=eager, replay_ns=replay)
    assert words in verdict(function(0, "f", replays=9), row)


def test_a_speed_of_few_replays_states_of_how_many():
    rows = [recording(0, "f", replays=60), recording(1, "f", 0, replays=40, eager_ns=None)]
    assert "4.1x faster than eager (310 µs less a replay, measured on 60 % of replays)" in verdict(*rows)


def test_all_but_a_few_calls_are_not_all():
    words = verdict(function(0, "f", replays=10_000), recording(0, "f", replays=10_000))
    assert "replayed 10,000 of 10,002 calls" in words


def test_a_loss_of_time_is_a_loss():
    row = recording(0, "f", replays=9, eager_ns=1_000, replay_ns=3_500)
    assert "3.5x slower than eager (2.50 µs more a replay)" in verdict(function(0, "f", replays=9), row)


def test_wrong_results_come_first_whatever_else_there_is():
    trace = graphs_trace(failed_rows(), events=True, races=True)
    head = "replay differs from eager in 1 of 3 graphs checked: decode (graph 3) by up to 0.25, first at output 0[3, 7]"
    assert text.verdict(trace).startswith(head)
    shown = str(summary(trace))
    assert shown.index("✗ decode (graph 3)") < shown.index("Race 1: ")
    fine = [row | {"is_equal": True} if row["kind"] == "recording" else row for row in small_rows()]
    assert "; replay equals eager (4 graphs checked)" in graphs_words.verdict(graphs_trace(fine))


def test_races_come_before_graphs_and_those_before_the_profile():
    line = text.verdict(graphs_trace(events=True, races=True))
    assert line.index("1 race") < line.index("4 graphs") < line.index("GPU busy")
    alone = text.verdict(graphs_trace())
    assert "GPU busy" not in alone
    assert "no operator" not in alone


def test_simulated_times_report_it():
    assert text.verdict(graphs_trace(source="virtual:h100")).startswith("[simulated: h100] 4 graphs")


def tree_lines(rows):
    lines = report(graphs_trace(rows)).split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("graphs "))
    return lines[start + 2 : lines.index("", start) if "" in lines[start:] else None]


def test_the_tree_in_letters():
    names = [" ".join(line.split()[:2]) for line in tree_lines(small_rows())]
    assert names == ["● prefill", "├─○ decode", "● decode", "◉ sample", "(◉ the"]
    first = tree_lines(small_rows())[0].split()
    assert first[-9:] == ["3", "410", "µs", "100", "µs", "4.1x", "8.00", "MiB", "1/2"]


def test_branches_within_branches_keep_their_rails():
    rows = [
        recording(0, "a", replays=50),
        recording(1, "b", 0, replays=90),
        recording(2, "c", 0, replays=9),
        recording(3, "d", 2, replays=5),
        recording(4, "e", 2, replays=4),
        recording(5, "f", 4, replays=3),
    ]
    lines = [line[:8].rstrip() for line in tree_lines(rows)]
    assert lines[:6] == ["○ a floa", "├─○ c fl", "│ ├─○ d", "│ ○ e fl", "│ ○ f fl", "○ b floa"]


def test_trees_are_apart():
    lines = report(graphs_trace([recording(0, "a"), recording(1, "b")])).split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("graphs ")) + 2
    assert [line.split()[1] if line else "" for line in lines[start : start + 3]] == ["a", "", "b"]


def test_long_chains_and_many_branches_fold():
    shown = report(graphs_trace(layers_rows()))
    assert "⋮ 41 more in a row: mlp x21, attend x20, 20,992 replays" in shown
    assert "embed → (attend → mlp) x24 · 512 times" in shown
    shown = report(graphs_trace(fan_rows()))
    assert "├⋮ 34 more branches: variant x34, 595 replays" in shown
    assert "⋮ 36 more trees: variant x36, 666 replays" in shown


@pytest.mark.parametrize("rows", [small_rows(), failed_rows(), large_rows(), layers_rows(60)])
def test_the_text_fits_a_terminal(rows):
    shown = report(graphs_trace(rows))
    assert max(map(len, shown.split("\n"))) <= 100
    assert shown.count("\n") < 160


def test_hostile_texts_stay_on_their_lines():
    shown = report(hostile_graphs())
    assert all(c == "\n" or c.isprintable() for c in shown)


def test_explaining_and_listing_alone():
    trace = graphs_trace()
    shown = str(graphs.explanation(trace))
    assert re.search(r"^update_cache runs eager +40\b", shown, re.MULTILINE)
    assert "why: writes its input 'cache'" in shown
    assert "at: In[5]:3 cache[:, position] = keys" in shown
    assert SKIP["advice"].split(",")[0] in shown
    assert shown.index("runs eager") < shown.index("warning") < shown.index("recorded again")
    assert "update_cache" in graphs.explanation(trace)._repr_html_()
    assert "update_cache" in graphs.functions_shown(trace)._repr_html_()
    assert graphs.explanation(graphs_trace([function(0, "f", replays=1)])) is None
    assert str(graphs.functions_shown(trace)).split("\n")[3].split()[:2] == ["update_cache", "41"]
    assert graphs.functions_shown(gpu_trace()) is None


def test_how_to_measure_is_explained_where_nothing_was_measured():
    replayed = recording(0, "f", replays=9, eager_ns=None)
    assert graphs_words.UNMEASURED in report(graphs_trace([replayed]))
    for other in (recording(1, "g", 0), recording(1, "g", 0, replay_ns=None)):
        assert graphs_words.UNMEASURED not in report(graphs_trace([other]))
    assert graphs_words.UNMEASURED not in report(graphs_trace([replayed, recording(1, "g", 0)]))
