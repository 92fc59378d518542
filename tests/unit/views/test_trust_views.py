"""Trust in words: nothing on the face of a clean trace, a badge and the reason on every other."""

from html.parser import HTMLParser

import pytest

from cudalens.frames import Overhead, RunInfo, Trace, Trust, TrustFinding
from cudalens.report import to_html
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import facts

EVIL = "<script>alert(1)</script>"
LOST = TrustFinding(
    rule="lost work", severity="partial", count=3, what=f"3 launches {EVIL}", where="row 7", done="Mend it.", rows=(7,)
)
MOVED = TrustFinding(rule="early work", severity="repaired", count=2, what="2 rows", done="Moved.", rows=(1, 2))
NOTE = TrustFinding(rule="simulated", severity="note", count=1, what="a model")


def trace(trust=None, **facts):
    return Trace(RunInfo(name="run", source="file:kineto", trust=trust, **facts))


@pytest.mark.parametrize("trust", [None, Trust("clean"), Trust("clean", (NOTE,))])
def test_a_clean_trace_has_no_badge(trust):
    assert not text.verdict(trace(trust)).startswith("[")
    assert facts(trace(trust))["badge"] is None
    assert text.notes(trace(trust)) == []


def test_what_is_wrong_is_in_the_badge_and_the_notes():
    found = trace(Trust("partial", (LOST, MOVED, NOTE)))
    assert text.verdict(found).startswith("[partial trace] ")
    assert facts(found)["badge"] == "partial trace"
    assert text.notes(found) == [
        f"wrong: 3 launches {EVIL} (first: row 7). Mend it.",
        "repaired: 2 rows. Moved.",
    ]
    assert text.verdict(trace(Trust("repaired", (MOVED,)))).startswith("[repaired trace] ")


def test_the_report_lists_all_findings_and_runs_nothing(tmp_path):
    found = trace(Trust("partial", (LOST, MOVED, NOTE)))
    page = to_html(found, tmp_path / "r.html").read_text()
    assert "How far to trust it: partial" in page
    assert "<dt>repaired: early work</dt>" in page
    assert "<dt>note: simulated</dt>" in page
    assert EVIL not in page
    assert "How far to trust it" not in to_html(trace(), tmp_path / "s.html").read_text()


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.cells, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.cells.append(data)


def test_the_object_prints_and_shows_as_a_table():
    shown = trace(Trust("repaired", (MOVED,))).trust()
    verdict, _, _, first, *rest = str(shown).splitlines()
    assert verdict == "repaired: 2 rows"
    assert first.split() == ["repaired", "early", "work", "2"]
    assert [line.strip() for line in rest] == ["what: 2 rows", "done: Moved."]
    assert repr(shown) == str(shown)
    page = _Cells()
    page.feed(shown._repr_html_())
    assert page.cells[:1] == ["repaired: 2 rows"]
    assert {"repaired", "early work", "Moved."} <= set(page.cells)
    assert page.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


def test_lines_stay_narrow():
    long = TrustFinding(rule="lost work", severity="repaired", count=1, what="many words " * 30)
    assert max(map(len, str(trace(Trust("repaired", (long,))).trust()).splitlines()[1:])) <= 100


def overhead(**changes):
    values = {"profiled_ns": 12_100_000, "unprofiled_ns": 11_400_000, "num_unprofiled": 1}
    return text.slowdown(RunInfo(name="a", source="cpu", overhead=Overhead(**(values | changes))))


def test_what_profiling_cost():
    assert overhead() == "profiling made it 6.1 % slower: 12.1 ms against 11.4 ms unprofiled"
    assert overhead(num_profiled=5, num_unprofiled=5).endswith("unprofiled, means of 5 runs")
    assert overhead(is_warm=False).endswith("unprofiled (the profiled run was the first: warm up to compare)")
    assert overhead(unprofiled_ns=24_200_000) == "profiled it ran 2 times as fast: 12.1 ms against 24.2 ms unprofiled"
    many = {"num_profiled": 5, "num_unprofiled": 5}
    assert overhead(**many, low_pct=2.0, high_pct=11.0) == (
        "profiling made it 6.1 % slower (95 % interval +2.0 to +11 %): 12.1 ms against 11.4 ms unprofiled, "
        "medians of 5 runs"
    )
    assert overhead(**many, low_pct=-2.0, high_pct=11.0) == (
        "profiling did not slow it beyond noise: 12.1 ms against 11.4 ms unprofiled, medians of 5 runs "
        "(95 % interval -2.0 to +11 %)"
    )
    failed = overhead(unprofiled_ns=None, error="ValueError: twice")
    assert failed == "its slowdown by profiling is not known: the unprofiled run raised ValueError: twice"
    assert text.slowdown(RunInfo(name="a", source="cpu")) == ""
