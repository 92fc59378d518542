"""kernel_sequences against counting by hand."""

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import trace_of, work
from recorded_traces import needs_recorded, opened

from cudalens.analysis import kernel_sequences


def kernels(text, stream=7, gap=1, start=0):
    """A kernel per letter; every one takes 10 and `gap` after it."""
    return [work(start + i * (10 + gap), 10, letter, stream=stream) for i, letter in enumerate(text)]


def places_of(text, part):
    return [i for i in range(len(text) - len(part) + 1) if text[i : i + len(part)] == part]


def by_hand(text, low, high, min_count):
    """Sequence -> non-overlapping places, of the maximal ones."""
    found = {}
    for width in range(low, min(high, len(text)) + 1):
        for part in {text[i : i + width] for i in range(len(text) - width + 1)}:
            at = places_of(text, part)
            longer = {text[i : i + width + 1] for i in range(len(text) - width)} if width < high else set()
            is_held = any(len(places_of(text, one)) == len(at) and part in (one[1:], one[:-1]) for one in longer)
            apart = []
            for place in at:
                if not apart or place >= apart[-1] + width:
                    apart.append(place)
            if not is_held and len(apart) >= min_count:
                found[part] = apart
    return found


def distinct(found, cost):
    """Costliest first, without those most of whose places are taken."""
    taken, kept = set(), []
    for part in sorted(found, key=cost):
        places = [at + i for at in found[part] for i in range(len(part))]
        if 2 * len(taken.intersection(places)) <= len(places):
            kept.append(part)
            taken.update(places)
    return kept


@settings(max_examples=examples(30), deadline=None)
@given(st.text("abc", max_size=24), st.integers(2, 4), st.integers(0, 3), st.integers(1, 3))
def test_against_counting_by_hand(text, low, more, min_count):
    high = low + more
    frame = kernel_sequences(trace_of(kernels(text)), (low, high), min_count=min_count, top=1000)
    wanted = by_hand(text, low, high, min_count)
    for row in frame.to_dict("records"):
        part = "".join(row["sequence"])
        assert row["count"] == len(wanted[part])
        assert row["kernel_ns"] == 10 * len(part) * row["count"]
        assert row["gap_ns"] == (len(part) - 1) * row["count"]
        assert row["first"] == wanted[part][0]
    given_order = ["".join(sequence) for sequence in frame["sequence"]]
    rank = {part: i for i, part in enumerate(given_order)}
    cost = lambda part: (-(11 * len(part) - 1) * len(wanted[part]), -len(part), rank.get(part, 10**6))  # noqa: E731
    assert [cost(part)[:2] for part in given_order] == sorted(cost(part)[:2] for part in given_order)
    # Of equal cost either may be kept; all that are kept are so by the rule, none more can be.
    covered = distinct({part: wanted[part] for part in given_order}, cost)
    assert covered == given_order
    if wanted:
        assert given_order[0] in wanted


def test_one_stream_one_sequence():
    rows = kernels("abcabc", 7) + kernels("abc", 20, start=3)
    frame = kernel_sequences(trace_of(rows), 3)
    assert frame[["stream", "count"]].to_numpy().tolist() == [[7, 2]]
    assert kernel_sequences(trace_of(rows), 3, min_count=1)["stream"].tolist()[:2] == [7, 20]


def test_gaps_are_those_of_the_stream_where_kernels_overlap():
    rows = [work(at + ts, dur, name) for at in (0, 40) for ts, dur, name in [(0, 20, "a"), (5, 5, "b"), (25, 5, "c")]]
    frame = kernel_sequences(trace_of(rows), 3)
    assert frame[["count", "kernel_ns", "gap_ns"]].to_numpy().tolist() == [[2, 60, 10]]


def test_rotations_of_a_loop_come_once():
    frame = kernel_sequences(trace_of(kernels("abcd" * 10)), (2, 4))
    assert frame["sequence"].tolist() == [("a", "b", "c", "d")]
    assert frame["count"].tolist() == [10]


def test_a_long_gap_interrupts_and_copies_do_not():
    rows = kernels("ab") + kernels("ab", start=10_000)
    rows.append(work(10, 1, "Memset (Device)"))
    assert kernel_sequences(trace_of(rows), 2)["count"].tolist() == [2]
    assert not len(kernel_sequences(trace_of(rows), 4, min_count=1, max_gap_ns=100))
    assert len(kernel_sequences(trace_of(rows), 4, min_count=1))


@pytest.mark.parametrize("length", [1, 0, (3, 2), (1, 4)])
def test_lengths_that_make_no_sense(length):
    with pytest.raises(ValueError, match="expected a number from 2"):
        kernel_sequences(trace_of([]), length)


@needs_recorded
def test_layers_of_a_model():
    frame = kernel_sequences(opened("tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz"))
    assert (frame["count"].max(), frame["length"].max()) >= (2, 10)
    assert not len(kernel_sequences(opened("hta/cpu_only_rank-34.json.gz")))
