"""Findings in the verdict, the text, the table and the page; past runs as a table."""

import re
from pathlib import Path

import pandas as pd
from sample_traces import HOSTILE, cpu_trace, gpu_bound_trace, gpu_trace

from cudalens.analysis import findings as found_in
from cudalens.frames import Trace
from cudalens.views.sections import findings
from cudalens.views.sections import verdict as text
from cudalens.views.sections.history import History
from cudalens.views.sections.page import facts
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text


def html_of(trace):
    return to_html(findings.section(trace))


def text_of(trace):
    return to_text(findings.section(trace))


def test_the_verdict_names_the_most_expensive_finding_with_its_cost():
    assert text.verdict(gpu_trace()).startswith(
        "3.00 ms, GPU busy 45 %: up to 980 µs (33 %) lost to other host work; advice: move that work"
    )


def test_a_trace_without_findings_has_no_word_of_them():
    trace = cpu_trace()
    assert found_in(trace) == []
    assert findings.verdict(trace) == text_of(trace) == html_of(trace) == ""
    assert facts(trace)["findings"] is None


def test_the_text_lists_them_with_what_to_try_within_100_columns():
    lines = text_of(gpu_trace()).splitlines()
    assert re.fullmatch(r"Findings: \d+, largest expected gain first", lines[0])
    assert lines[1].split() == ["gain", "finding"]
    assert lines[3].strip() == "980 µs (33 %)  other host work (likely)"
    assert max(map(len, lines)) <= 100
    assert sum(line.strip().startswith("try: ") for line in lines) == len(found_in(gpu_trace()))


def test_modelled_times_report_it():
    trace = gpu_trace(source="virtual:h100")
    assert "(modelled times)" in text_of(trace)
    assert "(modelled times)" in html_of(trace)


def test_rows_of_the_page_carry_an_event_of_theirs():
    trace = gpu_trace()
    tree = str(facts(trace)["findings"])
    for one in found_in(trace):
        assert f"'data-event': '{one.rows[0]}'" in tree


def test_what_can_be_typed_is_set_as_code():
    html = html_of(gpu_bound_trace())
    assert "<code>torch.set_float32_matmul_precision(&quot;high&quot;)</code>" in html


def test_hostile_names_stay_text():
    trace = gpu_bound_trace(kernel=f"<_sgemm_{HOSTILE}")
    assert HOSTILE in str([one.what for one in found_in(trace)])
    assert "<img" not in html_of(trace)


def test_kernels_have_the_short_names_of_the_tables():
    names = [f"void at::native::sgemm_convolve_sgemm<float, {kind}, {'int, ' * 30}float>(float*)" for kind in "12"]
    (found,) = {one.what for one in found_in(gpu_bound_trace(kernel=names[0])) if "most of it in" in one.what}
    assert "most of it in sgemm_convolve_sgemm; tensor cores" in found


def test_past_runs_as_a_table():
    row = {
        "when": pd.Timestamp("2026-01-02 03:04:05", tz="UTC"),
        "name": "<b>train</b>",
        "device": "H100",
        "value_ns": 10_000_000,
        "num_steps": 3,
        "wall_ns": 30_000_000,
        "busy_ns": 15_000_000,
        "peak_memory_bytes": pd.NA,
        "code_hash": "",
    }
    shown = History(pd.DataFrame([row] * 30), Path("h.sqlite"))
    lines = repr(shown).splitlines()
    assert lines[0] == "30 runs, the last 20, kept in h.sqlite"
    assert len(lines) == 23
    cells = "2026-01-02 03:04:05|<b>train</b>|10.0 ms|a step of 3|50 %|-|H100"
    assert re.split(r" {2,}", lines[3]) == cells.split("|")
    assert "<b>" not in shown._repr_html_()
    assert repr(History(pd.DataFrame(), None)).startswith("no run yet, of this session")


def test_the_comparison_with_past_runs_is_saved(tmp_path):
    from cudalens.frames.info import Baseline

    trace = gpu_trace()
    baseline = Baseline(value_ns=30, median_ns=20, low_ns=19, high_ns=21, num_runs=4)
    known = trace.replace(info=trace.info.replace(baseline=baseline))
    back = Trace.load(known.save(tmp_path / "t.cudalens"))
    assert back.info.baseline == baseline
    assert "50 % slower than the last 4 runs (20 ns)" in text.verdict(back)
