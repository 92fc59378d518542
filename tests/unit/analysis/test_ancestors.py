"""Rows of the call tree looked up from below, against one row at a time; trees shallow and deep."""

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import host, trace_of

from cudalens.analysis.event_arrays import is_within_same, nearest, nearest_of, running_at
from cudalens.analysis.time.idle import Host


def climbed(row, parent, is_found):
    while row >= 0 and not is_found(row):
        row = parent[row]
    return row


def above_all(row, parent):
    while (row := int(parent[row])) >= 0:
        yield row


@st.composite
def trees(draw):
    """Parents, and ends that no row beneath passes: a chain that is deeper than what is climbed step by step, twigs."""
    chain = draw(st.integers(0, 80))
    parent = list(range(-1, chain - 1))
    for at in range(chain, chain + draw(st.integers(0, 12))):
        parent.append(draw(st.integers(-1, at - 1)))
    end = []
    for above in parent:
        end.append(1000 if above < 0 else end[above] - draw(st.integers(0, 3)))
    return np.array(parent, np.int64), np.array(end, np.int64)


@settings(max_examples=examples(60), deadline=None)
@given(trees(), st.data())
def test_the_nearest_marked_row(tree, data):
    parent, _ = tree
    marked = np.array(data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent))), bool)
    if data.draw(st.booleans()):
        marked[1:] = False
    expected = [climbed(row, parent, lambda at: marked[at]) for row in range(len(parent))]
    assert nearest(marked, parent).tolist() == expected
    rows = np.array([-1, *range(len(parent))], np.int64)
    assert nearest_of(rows, marked, parent).tolist() == [-1, *expected]


@settings(max_examples=examples(60), deadline=None)
@given(trees(), st.integers(740, 1001))
def test_the_row_that_still_runs(tree, time):
    parent, end = tree
    rows = np.array([-1, *range(len(parent))], np.int64)
    found = running_at(rows, np.full(len(rows), time), end, parent)
    assert found.tolist() == [-1, *(climbed(row, parent, lambda at: end[at] > time) for row in range(len(parent)))]


@settings(max_examples=examples(60), deadline=None)
@given(trees(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_rows_within_others_of_their_key(tree, random, num_keys):
    parent, _ = tree
    depth = np.array([len(list(above_all(row, parent))) for row in range(len(parent))], np.int64)
    rows = np.array(random.sample(range(len(parent)), random.randint(0, len(parent))), np.int64)
    key = np.array([random.randrange(num_keys) for _ in rows], np.int64)
    keyed = dict(zip(rows.tolist(), key.tolist(), strict=True))
    expected = [any(keyed.get(up) == keyed[row] for up in above_all(row, parent)) for row in keyed]
    assert is_within_same(rows, key, parent, depth).tolist() == expected


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 3)), max_size=12),
    st.lists(st.tuples(st.integers(-2, 52), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_what_a_thread_was_in(events, asked):
    trace = trace_of([host(ts, dur, "op", tid=tid) for ts, dur, tid in events], at=0)
    looked = Host(trace)
    frame = trace.events
    number = {int(tid): int(looked.thread[row]) for row, tid in enumerate(frame["tid"])}
    asked = [(at, tid) for at, tid in asked if tid in number]
    found = looked.innermost(
        np.array([number[tid] for _, tid in asked], np.int64), np.array([at for at, _ in asked], np.int64)
    )
    parent = frame["parent"].fillna(-1).astype(int).tolist()
    for row, (at, tid) in zip(found.tolist(), asked, strict=True):
        begun = [i for i in range(len(frame)) if frame.at[i, "tid"] == tid and frame.at[i, "ts"] <= at]
        last = begun[-1] if begun else -1
        assert row == climbed(last, parent, lambda i, at=at: frame.at[i, "ts"] + frame.at[i, "dur"] > at)


@pytest.mark.parametrize("depth", [1, 16, 17, 18, 500])
def test_a_deep_stack_is_climbed_to_its_root(depth):
    parent, end = np.arange(-1, depth - 1), 10_000 - np.arange(depth)
    leaf = np.array([depth - 1])
    assert running_at(leaf, np.array([9_999]), end, parent).tolist() == [0]
    assert running_at(leaf, np.array([10_000]), end, parent).tolist() == [-1]
    assert nearest_of(leaf, np.arange(depth) == 0, parent).tolist() == [0]
