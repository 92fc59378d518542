import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.analysis import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1000, "1.00 µs"),
        (99_950, "100 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (1.5e9, "1.50 s"),
        (119.4e9, "119 s"),
        (125e9, "2 min 5 s"),
        (0.25, "0.25 ns"),
        (-1500, "-1.50 µs"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_duration(ns, text):
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1 << 20, "1.00 MiB"),
        (1000 << 10, "1000 KiB"),
        (80 << 30, "80.0 GiB"),
        (None, "-"),
    ],
)
def test_size(num_bytes, text):
    assert units.size(num_bytes) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0 %"), (0.01, "<0.1 %"), (4.25, "4.2 %"), (9.96, "10 %"), (100, "100 %"), (None, "-")]
)
def test_percent(share, text):
    assert units.percent(share) == text


@pytest.mark.parametrize(
    ("ratio", "text", "in_table"),
    [
        (0.18, "18 % slower", "+18 %"),
        (-0.05, "5.0 % faster", "-5.0 %"),
        (0.999, "100 % slower", "+100 %"),
        (1.0, "2 times as long", "2x"),
        (11.47, "12.5 times as long", "12.5x"),
        (-0.49, "49 % faster", "-49 %"),
        (-0.5, "2 times as fast", "1/2"),
        (-0.875, "8 times as fast", "1/8"),
        (1233.6, "1,235 times as long", "1,235x"),
        (-1.0, "100 % faster", "-100 %"),
    ],
)
def test_changes_from_a_factor_of_two_on_are_factors(ratio, text, in_table):
    assert units.time_change(ratio) == text
    assert units.signed_change(ratio) == in_table


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ("51 %", "51 %", "51 %"),
        ("51 %", "53 %", "51 to 53 %"),
        ("-2.0 %", "+11 %", "-2.0 to +11 %"),
        ("900 µs", "1.20 ms", "900 µs to 1.20 ms"),
        ("7.9", "8.1", "7.9 to 8.1"),
        ("0", "+1.20 ms", "0 to +1.20 ms"),
    ],
)
def test_an_interval_has_its_unit_once_and_no_equal_ends(low, high, text):
    assert units.interval(low, high) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(260.333, "260"), (1 / 3, "0.333"), (8, "8"), (2.5, "2.5"), (12345.6, "12,346"), (999.6, "1,000")],
)
def test_numbers_have_three_significant_digits(value, text):
    assert units.number(value) == text


SCALES = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}


@given(st.floats(1, 119e9))
def test_a_duration_is_off_by_half_of_its_third_digit_at_most(ns):
    number, unit = units.duration(ns).split(" ")
    assert float(number) * SCALES[unit] == pytest.approx(ns, rel=0.0051 if unit != "ns" else None, abs=0.51)
    assert re.fullmatch(r"\d{1,3}|\d\.\d\d|\d\d\.\d", number)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "launch", "1 launch"),
        (2, "launch", "2 launches"),
        (0, "event", "0 events"),
        (12_000, "kernel", "12,000 kernels"),
    ],
)
def test_plural(number, noun, text):
    assert units.plural(number, noun) == text


@given(st.text(), st.integers(8, 60))
def test_shortened_text_is_one_printable_line_of_the_width(text, width):
    line = units.shorten(text, width)
    assert len(line) <= width
    assert line == "" or line.isprintable()
    assert "\n" not in line


def test_shortened_text_keeps_both_ends():
    assert units.shorten("void kernel<float, 4>(int, long)", 16) == "void kerne…long)"


@pytest.mark.parametrize(
    ("place", "short"),
    [
        ("/home/me/train/loop.py:7", "train/loop.py:7"),
        ("replay (/opt/sglang/srt/model_executor/runner.py)", "replay (runner.py)"),
        (r"step (C:\work\train\loop.py)", "step (loop.py)"),
        ("work (In[3])", "work (In[3])"),
        ("In[3]:4", "In[3]:4"),
    ],
)
def test_a_place_has_the_end_of_its_path(place, short):
    assert units.short_place(place) == short
