"""What a graph manager did, in numbers, against sums made by hand."""

import sys
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "views"))

from sample_graphs import MIB, RERECORD, SKIP, failed_rows, function, graphs_frame, graphs_trace, recording, small_rows

from cudalens.analysis.graphs import pool_bytes, speed, summarize_graphs


def test_calls_graphs_and_trees_are_counted():
    result = summarize_graphs(graphs_trace())
    assert (result.num_functions, result.num_graphs, result.num_trees) == (4, 4, 1)
    assert (result.num_calls, result.num_replays, result.num_warmups, result.num_eager) == (1009, 960, 5, 40)
    assert result.replayed_pct == pytest.approx(100 * 960 / 1009)
    assert (result.num_rerecords, result.num_warnings, result.num_checked) == (2, 1, 0)
    assert [(f.name, f.why) for f in result.eager] == [("update_cache", "writes its input 'cache'")]


def test_without_functions_replays_are_those_of_the_recordings():
    result = summarize_graphs(graphs_trace([recording(0, "f", replays=7), recording(1, "g", 0, replays=5)]))
    assert (result.num_calls, result.num_replays, result.replayed_pct) == (0, 12, None)


def test_why_a_function_is_eager_is_its_most_frequent_skip_where_it_states_nothing_itself():
    rare = SKIP | {"detail": "rare", "count": 1}
    other = SKIP | {"detail": "of another", "count": 99, "function_id": 0}
    rows = [function(3, "f", "eager", eager=41), rare, SKIP, other, RERECORD]
    assert [f.why for f in summarize_graphs(graphs_trace(rows)).eager] == ["writes its input 'cache'"]
    assert [f.why for f in summarize_graphs(graphs_trace(rows[:1])).eager] == [""]


def test_a_warm_function_that_was_run_eager_since_is_not_about_to_record():
    rows = [function(3, "f", "warm", eager=4, recordings=0), SKIP, function(4, "g", "warm", recordings=0)]
    result = summarize_graphs(graphs_trace(rows))
    assert [(f.name, f.why) for f in result.eager] == [("f", "writes its input 'cache'")]
    assert result.warm == ("g",)


times = st.one_of(st.none(), st.integers(1, 10**9))


@settings(max_examples=examples(40))  # each makes a frame of all columns
@given(st.lists(st.tuples(st.integers(0, 1000), times, times), max_size=20))
def test_speed_is_the_ratio_of_what_the_replays_would_have_taken(rows):
    frame = graphs_frame([
        recording(n, "f", replays=count, eager_ns=eager, replay_ns=replay)
        for n, (count, eager, replay) in enumerate(rows)
    ])  # fmt: skip
    found = speed(frame)
    known = [(c, e, r) for c, e, r in rows if c and e is not None and r is not None]
    if not known:
        assert found is None
        return
    assert found.num_replays == sum(c for c, _, _ in known)
    assert found.ratio == pytest.approx(sum(c * e for c, e, _ in known) / sum(c * r for c, _, r in known))


def test_each_pool_counts_once():
    rows = [
        recording(0, "f", pool="[0, 1]", reserved_bytes=5 * MIB),
        recording(1, "f", pool="[0, 1]", reserved_bytes=5 * MIB),
        recording(2, "f", pool="[0, 2]", reserved_bytes=7 * MIB),
        recording(3, "f", pool="[0, 1]", reserved_bytes=3 * MIB, device=1),
        recording(4, "f", pool=None, reserved_bytes=None),
    ]
    assert pool_bytes(graphs_frame(rows)) == 15 * MIB
    assert pool_bytes(graphs_frame(rows[-1:])) is None


def test_failed_checks_are_distinguished_from_passed_and_unchecked_ones():
    result = summarize_graphs(graphs_trace(failed_rows()))
    assert result.num_checked == 3
    assert [(f.node, f.function, f.max_abs_diff) for f in result.failed] == [(3, "decode", 0.25)]


def test_an_empty_frame_has_a_summary():
    result = summarize_graphs(graphs_trace([]))
    assert (result.num_graphs, result.num_replays, result.eager) == (0, 0, ())
    assert result.speed is None
    assert result.pool_bytes is None
    assert summarize_graphs(graphs_trace(small_rows()[:1])).num_graphs == 0
