"""A rule or a view with a fault becomes a problem of the Trace; everything else is shown."""

import sys

import pytest
from sample_traces import gpu_trace

from cudalens.analysis import cached, findings
from cudalens.views.sections import page

pytestmark = pytest.mark.usefixtures("plants_failures")


@pytest.fixture(autouse=True)
def nothing_kept():
    cached.forget_all()
    yield
    cached.forget_all()


def faulty(arrays):
    """``made_to_fail``: a rule with a fault."""
    yield from ()
    raise IndexError("list index \x1b[31m out of range")


def test_a_rule_that_fails_is_reported_and_the_others_are_shown(monkeypatch):
    trace = gpu_trace(6)
    before = str(trace.summary())
    usual = findings(trace)
    cached.forget_all()
    rules = sys.modules["cudalens.analysis.findings"]  # the package, whose name `cudalens.analysis` gives its function
    monkeypatch.setattr(rules, "RULES", (faulty, *rules.RULES))
    assert findings(trace) == usual
    text = str(trace.summary())
    assert "  ! fault of cudalens: the finding 'made_to_fail' failed: IndexError at test_failures.py:" in text
    assert "\x1b" not in text
    assert "1 part could not be computed" in text.splitlines()[0]
    assert text.splitlines()[-5:] == before.splitlines()[-5:]


def test_a_view_that_fails_is_reported_and_the_others_are_shown(monkeypatch, tmp_path):
    trace = gpu_trace(6)

    def fails(trace):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(page._VIEWS, "waits", fails)
    assert "fault of cudalens: the view waits failed: ZeroDivisionError at " in str(trace.summary())
    assert "could not be computed" in page.facts(trace)["verdict"]
    assert "the view waits failed" in trace.to_html(tmp_path / "r.html").read_text()
    assert trace.brief()["costs"]


def test_numbers_of_the_brief_that_fail_leave_the_rest(monkeypatch):
    from cudalens.views import brief

    def costs(trace):
        raise ValueError("no costs")

    monkeypatch.setattr(brief, "cost_facts", costs)
    found = gpu_trace(6).brief()
    assert found["costs"] == []
    assert found["numbers"]


def test_a_first_line_that_fails_leaves_the_tables(monkeypatch):
    from cudalens.views.memory import words

    monkeypatch.setattr(words, "has_refused", lambda trace: 1 / 0)
    text = str(gpu_trace(6).summary())
    assert text.startswith("the first line could not be computed")
    assert "ampere_sgemm_128x64_tn" in text
