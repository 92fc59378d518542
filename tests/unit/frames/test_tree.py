"""The call tree against a transcription of torch.profiler's own loop."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cudalens.frames import tree

event = st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(-1, 2))


def sorted_columns(events):
    ts = np.array([e[0] for e in events], np.int64)
    dur = np.array([e[1] for e in events], np.int64)
    lane = np.array([e[2] for e in events], np.int32)
    order = tree.sort_order(ts, dur)
    return ts[order], dur[order], lane[order]


def stack_parents(ts, dur, lane):
    """One stack of open events per lane: an event closes all that end too early to hold it."""
    result, stacks = [-1] * len(ts), {}
    for i in range(len(ts)):
        if lane[i] < 0:
            continue
        stack = stacks.setdefault(lane[i], [])
        while stack and (ts[i] >= ts[stack[-1]] + dur[stack[-1]] or ts[i] + dur[i] > ts[stack[-1]] + dur[stack[-1]]):
            stack.pop()
        if stack:
            result[i] = stack[-1]
        stack.append(i)
    return result


@given(st.lists(event, max_size=60))
def test_rows_are_by_start_then_longest_first_and_ties_keep_their_order(events):
    ts = np.array([e[0] for e in events], np.int64)
    dur = np.array([e[1] for e in events], np.int64)
    expected = sorted(range(len(events)), key=lambda i: (ts[i], -dur[i]))
    assert tree.sort_order(ts, dur).tolist() == expected


@given(st.lists(event, max_size=60))
def test_parents_are_those_of_a_stack_of_open_events(events):
    ts, dur, lane = sorted_columns(events)
    assert tree.parents(ts, dur, lane).tolist() == stack_parents(ts, dur, lane)


@given(st.lists(event, max_size=60))
def test_depth_counts_ancestors(events):
    ts, dur, lane = sorted_columns(events)
    parent = tree.parents(ts, dur, lane)
    depth = tree.depths(parent)
    for row, up in enumerate(parent):
        assert depth[row] == (0 if up < 0 else depth[up] + 1)


@given(st.lists(event, max_size=60))
def test_self_times_of_a_tree_add_up_to_its_roots(events):
    ts, dur, lane = sorted_columns(events)
    parent = tree.parents(ts, dur, lane)
    assert tree.self_durations(dur, parent).sum() == dur[parent < 0].sum()


def test_self_times_are_exact_beyond_what_a_double_holds():
    dur, parent = np.array([2**62 + 1, 2**61 + 1, 2**60 + 1]), np.array([-1, 0, 0])
    assert tree.self_durations(dur, parent).tolist() == [2**62 - 2**61 - 2**60 - 1, 2**61 + 1, 2**60 + 1]


def test_an_event_that_only_overlaps_is_no_child():
    ts, dur = np.array([0, 5]), np.array([10, 10])
    assert tree.parents(ts, dur, np.zeros(2, np.int32)).tolist() == [-1, -1]


def test_a_child_may_end_with_its_parent_after_a_shorter_sibling():
    ts, dur = np.array([0, 2, 5, 7, 9]), np.array([10, 2, 5, 1, 1])
    assert tree.parents(ts, dur, np.zeros(5, np.int32)).tolist() == [-1, 0, 0, 2, 2]


def test_a_point_at_the_end_of_an_interval_is_outside_of_it():
    ts, dur = np.array([0, 9, 10]), np.array([10, 0, 0])
    assert tree.parents(ts, dur, np.zeros(3, np.int32)).tolist() == [-1, 0, -1]


def test_a_deep_stack_of_a_hundred_thousand_calls():
    n = 100_000
    ts = np.arange(n, dtype=np.int64)
    dur = 2 * (n - ts)
    parent = tree.parents(ts, dur, np.zeros(n, np.int32))
    assert parent.tolist() == list(range(-1, n - 1))
    assert tree.depths(parent).tolist() == list(range(n))
