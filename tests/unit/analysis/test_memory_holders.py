"""Whose a block is, from the names that stand in a Trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.analysis.memory.holders import holders

NAME = st.sampled_from(
    [
        "x",
        "loss",
        "history[0]",
        "history[1]",
        "history[2].grad_fn",
        "trainer.history[0]",
        "trainer.history[11]",
        "Out[7]",
        "Out[7][0]",
        "Out[8]",
        "opt.param_groups[0]['params'][0]",
        "<exception>.f.x",
        "a['b.c'][3]",
    ]
)


def found(*blocks):
    return [
        (one.name, one.num_bytes, one.num_blocks) for one in holders([n for n, _ in blocks], [b for _, b in blocks])
    ]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([(["x"], 4)], [("x", 4, 1)]),
        ([(["h[0]"], 1), (["h[1]"], 1)], [("h", 2, 2)]),
        ([(["t.log.h[0]"], 1), (["t.log.h[17]"], 1)], [("t.log.h", 2, 2)]),
        ([(["loss", "h[1]"], 1), (["h[0]"], 1)], [("h", 2, 2)]),
        ([(["loss", "h[0]"], 1)], [("h[0]", 1, 1)]),
        ([(["Out[7]"], 1), (["Out[8][0]"], 2)], [("Out[8][0]", 2, 1), ("Out[7]", 1, 1)]),
        (
            [(["w", "opt.param_groups[0]['params'][0]"], 1), (["opt.state[w]['m']"], 2)],
            [("opt.state[w]['m']", 2, 1), ("w", 1, 1)],
        ),
        ([(["h[0].grad_fn"], 1), (["h[0]"], 1)], [("h[0]", 2, 2)]),
        ([(["<exception>.f.x", "x"], 1)], [("x", 1, 1)]),
        ([(["<exception>.f.x"], 1)], [("<exception>.f.x", 1, 1)]),
        ([([], 3), (["x"], 1)], [(None, 3, 1), ("x", 1, 1)]),
        ([(["d['a.b']"], 1), (["d['a.c']"], 1)], [("d", 2, 2)]),
        ([], []),
    ],
)
def test_blocks_go_to_who_holds_most(blocks, expected):
    assert found(*blocks) == expected


@given(st.lists(st.tuples(st.lists(NAME, max_size=4), st.integers(0, 1 << 40)), max_size=30))
def test_each_block_counts_once_for_one_of_its_holders(blocks):
    expected = holders([names for names, _ in blocks], [size for _, size in blocks])
    rows = [row for one in expected for row in one.rows]
    assert sorted(rows) == list(range(len(blocks)))
    for one in expected:
        assert one.num_bytes == sum(blocks[row][1] for row in one.rows)
        assert one.num_blocks == len(one.rows)
        for row in one.rows:
            names = blocks[row][0]
            assert not names if one.name is None else any(name.startswith(one.name) for name in names)
    assert [one.num_bytes for one in expected] == sorted((one.num_bytes for one in expected), reverse=True)
