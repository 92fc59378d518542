"""Times are exact to the nanosecond in every number format."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest
from chrome import column, load_bytes, load_events, op
from hypothesis import given
from hypothesis import strategies as st

from cudalens.traces.chrome.records import exact_ns, microseconds_to_ns, to_ns
from cudalens.traces.chrome.values import MISSING

NO_DECIMALS = re.compile(rb"(?!)")


@given(st.integers(0, (1 << 43) * 1000 - 1))
def test_doubles_below_2_to_the_43_microseconds_are_exact(ns):
    text = f"{ns // 1000}.{ns % 1000:03d}"
    assert microseconds_to_ns(np.array([float(text)]), NO_DECIMALS, text.encode()) == [ns]


@given(st.integers(-(10**17), 10**17))
def test_decimal_text_is_exact(ns):
    text = f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"
    assert exact_ns(text) == ns
    assert to_ns(text) == ns


@given(st.decimals(-(10**12), 10**12, places=6, allow_nan=False))
def test_more_decimals_are_rounded(us):
    assert to_ns(str(us)) == round(Fraction(us) * 1000)


@pytest.mark.parametrize("value", ["x", "", "NaN", "Infinity", "1e400", "1e999999999", True, None, [], {}, 10**30, 2.5])
def test_what_is_no_time(value):
    assert to_ns(value) == MISSING


def test_doubles_that_are_too_coarse_are_refused():
    large = np.array([1712195495519689.0])
    assert microseconds_to_ns(large, re.compile(rb"\d\."), b"1712195495519689.047") is None
    assert microseconds_to_ns(large, re.compile(rb"\d\."), b"1712195495519689") == [1712195495519689000]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1610366728298088", 1610366728298088000),
        ("1712195495519689.047", 1712195495519689047),
        ("4458676522709.059", 4458676522709059),
        ("4398046511104.001", 4398046511104001),
        ("8796093022209.999", 8796093022209999),
        ("4611686018427386", 4611686018427386000),
        ('"1712195495519689.047"', 1712195495519689047),
        ('"25"', 25000),
        ("2.5e3", 2500000),
        ("-3.25", -3250),
        ("0.0005", 0),
    ],
)
def test_ts_as_files_write_it(tmp_path, text, ns):
    data = json.dumps({"traceEvents": [op("TS", 1), op(7, 2)]}).replace('"TS"', text)
    trace = load_bytes(tmp_path, data.encode())
    assert sorted(column(trace, "ts")) == sorted([ns, 7000])
    assert trace.info.problems == ()


def test_epoch_microseconds_with_decimals_all_through_a_file(tmp_path):
    """The first slices hold whole numbers, and only later ones need exact decimals."""
    base = 1712195495000000
    texts = [f"{base + i}" if i < 5000 else f"{base + i}.{i % 1000:03d}" for i in range(10_000)]
    events = ",".join(f'{{"ph":"X","name":"x","cat":"cpu_op","pid":1,"tid":1,"ts":{t},"dur":0.125}}' for t in texts)
    trace = load_bytes(tmp_path, f'{{"x": "{"y" * 2_000_000}", "traceEvents":[{events}]}}'.encode())
    assert column(trace, "ts") == [(base + i) * 1000 + (i % 1000 if i >= 5000 else 0) for i in range(10_000)]
    assert set(column(trace, "dur")) == {125}


def test_base_time_that_is_none(tmp_path):
    for base in (-5, "soon", None, 1 << 70, True, [1]):
        trace = load_events(tmp_path, [op(1, 2)], baseTimeNanoseconds=base)
        assert column(trace, "ts") == [1000]
        assert [p.kind for p in trace.info.problems] == ["unusable 'baseTimeNanoseconds'"]
