"""The filter language of queries, against pandas; and what it refuses."""

import numpy as np
import pytest
from made_traces import host, trace_of, work

from cudalens.analysis import query
from cudalens.errors import TraceError


@pytest.fixture(scope="module")
def trace():
    rows = [host(1000 * k, 900 - 10 * k, f"aten::op{k}", shapes="[[2]]" if k % 2 else None) for k in range(10)]
    return trace_of([*rows, *(work(1000 * k + 500, 100 * k, "gemm", stream=7 + k % 2) for k in range(5))])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("dur > 850", lambda f: f.dur > 850),
        ("100 < dur <= 300", lambda f: (f.dur > 100) & (f.dur <= 300)),
        ('"op" in name', lambda f: f.name.str.contains("op")),
        ('"op" not in name', lambda f: ~f.name.str.contains("op")),
        ('name == "gemm" or name == "aten::op3"', lambda f: f.name.isin(["gemm", "aten::op3"])),
        ('name in ["gemm", "aten::op3"]', lambda f: f.name.isin(["gemm", "aten::op3"])),
        ('name != "gemm"', lambda f: f.name != "gemm"),
        ('cat == "kernel" and stream == 8', lambda f: (f.cat == "kernel") & (f.stream == 8).fillna(False)),
        ("stream != 8", lambda f: (f.stream != 8).fillna(False)),
        ("not stream == 8", lambda f: ~(f.stream == 8).fillna(False)),
        ("isna(stream)", lambda f: f.stream.isna()),
        ('startswith(name, "aten::op1")', lambda f: f.name.str.startswith("aten::op1")),
        ("is_instant", lambda f: f.is_instant),
        ("ts + dur < ts + 500", lambda f: f.dur < 500),
        ("dur + 4611686018427387000 + 4611686018427387000 > 0", lambda f: f.dur > -1),
        ("dur - 4611686018427387000 - 4611686018427387000 < 0", lambda f: f.dur > -1),
        ("depth + 4000000000 > 5", lambda f: f.dur > -1),
        (r'name in ["\ud800", "gemm"]', lambda f: f.name == "gemm"),
        (r'name == "\ud800"', lambda f: f.dur < 0),
        ("dur / 2 >= self_dur * 0.5", lambda f: f.dur > -1),
        ("row in (3, 4)", lambda f: f.index.isin([3, 4])),
        ("dur > -1e6", lambda f: f.dur > -1),
        ('shapes == "[[2]]"', lambda f: (f.shapes == "[[2]]").fillna(False)),
        ("1 < 2", lambda f: f.dur > -1),
    ],
)
def test_like_pandas(trace, where, expected):
    events = trace.events.assign(name=trace.events["name"].astype(str))
    assert query(trace, where=where).index.tolist() == events.index[np.asarray(expected(events), bool)].tolist()


def test_columns_sort_and_limit(trace):
    found = query(trace, where='cat == "kernel"', columns=["name", "dur"], sort="-dur", limit=2)
    assert found.columns.tolist() == ["name", "dur"]
    assert found["dur"].tolist() == [400, 300]
    assert query(trace, sort="dur")["dur"].is_monotonic_increasing


def test_large_integers_are_exact(trace):
    last = int(trace.events["ts"].max())
    assert len(query(trace, where=f"ts == {last}")) == 1
    assert len(query(trace, where=f"ts == {last + 1}")) == 0


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("__import__('os').system('true')", "no such function"),
        ("name.__class__ == 1", "not allowed"),
        ("(lambda: 1)() == 1", "not allowed"),
        ("(lambda: 1)()", "no such function"),
        ("[x for x in (1,)] == 1", "not allowed"),
        ("dur ** 999999999 > 1", "not allowed"),
        ("dur == 10 ** 9", "not allowed"),
        ("dur", "neither true nor false"),
        ("duration > 1", "there is no column duration"),
        ("durr > 1", "did you mean dur"),
        ("dur > 'a'", "a text and a number cannot be compared"),
        ("name < 3", "a text and a number cannot be compared"),
        ("'a' in dur", "has numbers"),
        ("name + name == 'x'", "expected numbers"),
        ("dur is 3", "`is` is not allowed"),
        ("f'{name}' == 'x'", "not allowed"),
        ("dur > 1 if dur else 2", "neither"),
        ("(x := 1) == 1", "not allowed"),
        ("dur > 1; 2", "not an expression"),
        ("dur > " + "9" * 400, "too large"),
        ("dur > 1e400", "too large"),
        ("-" * 900 + "1 > dur", "too many|not allowed|not an expression"),
        ("(" * 300 + "dur" + ")" * 300 + " > 1", "not an expression|neither"),
        ("dur > 1 or " * 200 + "dur > 1", "characters"),
        ("\x00", "not an expression|neither"),
        ("1 / 0 > dur", "cannot be computed"),
        ("startswith(name, 3)", "no such function"),
        ("isna(name, dur)", "no such function"),
    ],
)
def test_refuses(trace, where, message):
    with pytest.raises(TraceError, match=message):
        query(trace, where=where)


def test_unknown_frame_and_column(trace):
    with pytest.raises(TraceError, match="invalid value for frame: 'event'; expected one of 'events'"):
        query(trace, "event")
    with pytest.raises(TraceError, match="no column 'names'; did you mean name"):
        query(trace, columns=["names"])
    with pytest.raises(TraceError, match="no column 'size'"):
        query(trace, sort="-size")
