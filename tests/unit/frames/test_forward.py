"""Which forward operator a backward row belongs to."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from cudalens.frames import build_events, nullable


def events_of(rows, thread_numbers=None):
    """Events of (tid, sequence number, forward thread) in order of time, None for what is missing."""

    def ints(values):
        return nullable(np.array([v or 0 for v in values], np.int64), np.array([v is None for v in values], bool))

    n = len(rows)
    return build_events(
        {
            "ts": np.arange(n) * 10,
            "dur": np.full(n, 5),
            "name": pd.Categorical(["op"] * n),
            "cat": pd.Categorical(["cpu_op"] * n),
            "pid": ints([1] * n),
            "tid": ints([row[0] for row in rows]),
            "sequence_nr": ints([row[1] for row in rows]),
            "fwd_tid": ints([row[2] for row in rows]),
        },
        thread_numbers=thread_numbers,
    )


def forward_of(rows, thread_numbers=None):
    return [None if pd.isna(row) else int(row) for row in events_of(rows, thread_numbers)["forward"]]


def slowly(rows, thread_numbers):
    """The definition: the last row before it of the thread that it names, with its number, that is no backward row."""
    found = []
    for at, (_, number, named) in enumerate(rows):
        row = None
        for other in range(at if named and number is not None else 0):
            tid, other_number, other_named = rows[other]
            if tid is not None and not other_named and other_number == number and thread_numbers.get(tid) == named:
                row = other
        found.append(row)
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from([70, 71, 72, None]), st.none() | st.integers(0, 3), st.sampled_from([None, 0, 1, 2, 9])
        ),
        max_size=30,
    ),
    st.sampled_from([{70: 1, 71: 2}, {70: 2}, {}]),
)
def test_the_last_forward_row_of_that_thread_and_number(rows, thread_numbers):
    assert forward_of(rows, thread_numbers) == slowly(rows, thread_numbers)


def test_what_encloses_the_creator_and_what_came_before_it_are_not_it():
    rows = [(70, 4, None), (70, 5, None), (70, 5, None), (70, 5, None), (71, 5, 1), (71, 5, 1), (71, 4, 1)]
    assert forward_of(rows, {70: 1, 71: 2}) == [None, None, None, None, 3, 3, 0]
    assert forward_of(rows) == forward_of(rows, {70: 1, 71: 2})


def test_the_thread_in_a_file_is_the_one_that_fits():
    """Thread 70 (torch's 1) ran the forward; thread 71 (torch's 2) ran its backward, and a forward within it again."""
    rows = [(70, n, None) for n in range(6)]
    rows += [(71, 5, 1), (71, 0, None), (71, 1, None), (71, 1, 2), (71, 0, 2)]
    rows += [(71, n, 1) for n in range(4, -1, -1)]
    expected = [*[None] * 6, 5, None, None, 8, 7, 4, 3, 2, 1, 0]
    assert forward_of(rows, {70: 1, 71: 2}) == expected
    assert forward_of(rows) == expected


def test_a_file_in_which_two_threads_fit_equally_well_gives_none():
    rows = [(70, 0, None), (71, 0, None), (72, 0, 1), (72, 0, 2)]
    assert forward_of(rows) == [None] * 4
    assert forward_of(rows, {70: 2, 71: 1}) == [None, None, 1, 0]


def test_without_numbers_nothing_is_linked():
    assert forward_of([(70, None, None), (70, None, 1)]) == [None, None]
    assert forward_of([]) == []
    assert str(events_of([])["forward"].dtype) == "Int64"
