import base64
import json
import re
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from sample_traces import HOSTILE, gpu_trace, hostile_trace, wide_trace

import cudalens.report as html
from cudalens.errors import OutputError
from cudalens.frames import RunInfo, Trace
from cudalens.report import to_html
from cudalens.views import assets
from cudalens.views.timeline import payload

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "div", "header", "h1", "span", "button", "main", "p", "strong"),
    *("ul", "li", "svg", "path", "text", "table", "thead", "tbody", "tr", "th", "td", "noscript", "footer", "details"),
    *("summary", "dl", "dt", "dd", "pre", "kbd", "script", "code", "b", "rect"),
}


class Page(HTMLParser):
    def __init__(self, markup):
        super().__init__()
        self.elements, self.attributes, self.scripts, self.metas = set(), set(), {}, {}
        self.open = None
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.elements.add(tag)
        self.attributes |= known.keys()
        if tag == "meta" and "http-equiv" in known:
            self.metas[known["http-equiv"]] = known["content"]
        if tag == "script":
            self.open = (known.get("type"), known.get("id"))
            self.scripts[self.open] = ""

    def handle_endtag(self, tag):
        if tag == "script":
            self.open = None

    def handle_data(self, data):
        if self.open:
            self.scripts[self.open] += data


@pytest.fixture
def page_of(tmp_path):
    def write(trace, **options):
        return Page(to_html(trace, tmp_path / "report.html", **options).read_text(encoding="utf-8"))

    return write


def test_the_report_is_written_where_it_was_asked_for(tmp_path):
    path = gpu_trace().to_html(str(tmp_path / "r.html"))
    assert path == tmp_path / "r.html"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_a_missing_folder_is_refused_before_the_work(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        to_html(gpu_trace(), tmp_path / "no" / "r.html")


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")
    monkeypatch.setattr(payload, "pack", lambda *args, **keys: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        to_html(gpu_trace(), path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    one, two = (to_html(gpu_trace(), tmp_path / name).read_bytes() for name in "ab")
    assert one == two


def test_everything_is_in_the_file(page_of):
    trace = gpu_trace()
    page = page_of(trace)
    blocks = {name: text for (_, name), text in page.scripts.items() if name}
    packed = base64.b64decode(blocks["cudalens-payload"])
    assert packed[:4] == b"CLP1"
    for name in assets.LIBRARIES:
        assert base64.b64decode(blocks[f"cudalens-{name}"]) == assets.library(name)
    assert json.loads(blocks["cudalens-facts"])["facts"]["verdict"].startswith("3.00 ms, GPU busy 45 %")
    assert not page.attributes & {"src", "href", "action", "onload", "onerror"}


def test_the_policy_allows_the_one_script_and_no_network(page_of):
    page = page_of(gpu_trace())
    policy = page.metas["Content-Security-Policy"]
    digest = base64.b64encode(sha256(page.scripts["module", None].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' blob:" in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


def test_hostile_texts_stay_text(page_of):
    page = page_of(hostile_trace(), title=HOSTILE)
    assert page.elements <= ALLOWED
    assert not any(name.startswith("on") or name in ("src", "href") for name in page.attributes)
    assert len(page.scripts) == 6
    assert json.loads(page.scripts["application/json", "cudalens-facts"])["facts"]["notes"][1].startswith(
        "3x </script><img"
    )


def test_the_static_part_needs_no_script(tmp_path):
    text = to_html(gpu_trace(), tmp_path / "r.html").read_text()
    body = text[text.index("<body>") : text.index("<script")]
    assert body.index("<h1>Profile of cell-3</h1>") < body.index("<strong>3.00 ms, GPU busy 45 %") < body.index("<svg")
    assert "ampere_sgemm_128x64_tn" in body
    assert "<noscript>" in body


def test_a_title_of_ones_own(page_of, tmp_path):
    page_of(gpu_trace(), title="Before & after")
    assert "<h1>Before &amp; after</h1>" in (tmp_path / "report.html").read_text()


def test_an_empty_trace_has_a_report(page_of):
    page = page_of(Trace(RunInfo(name="empty", source="cpu")))
    assert "svg" not in page.elements


def test_details_give_way_before_the_file_gets_too_long(tmp_path):
    trace = wide_trace(40_000)
    assert to_html(trace, tmp_path / "r.html", max_bytes=1_300_000).stat().st_size < 1_300_000


def test_facts_about_the_run():
    facts = dict(html.facts_of(gpu_trace(num_steps=3, rank=1, world_size=8)))
    assert facts["When"] == "2023-11-14 22:13:20 UTC"
    assert facts["Devices"] == "0: NVIDIA H100 (compute capability 9.0, 80.0 GiB, 132 SMs)"
    assert facts["Rank"] == "1 of 8"
    assert facts["Options"] == "memory=True"
    assert "Host" not in facts


@pytest.mark.parametrize(
    ("started", "text"), [(None, ""), (5_000_000, ""), (2**63, "2262-04-11 23:47:16 UTC"), (10**19, "")]
)
def test_only_the_epochs_clock_gives_a_date(started, text):
    assert html.when(started) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("cuda", "recorded on a GPU"),
        ("file:chrome", "read from a chrome file"),
        ("virtual:h100", "simulated on a virtual h100; times are modelled"),
        ("odd", "odd"),
    ],
)
def test_the_source_in_words(source, text):
    assert html.source_text(RunInfo(name="x", source=source)) == text


def test_blocks_cannot_end_their_script_element():
    assert not re.search("[<>&]", html._json({"a": HOSTILE}))
    assert json.loads(html._json({"a": HOSTILE})) == {"a": HOSTILE}
