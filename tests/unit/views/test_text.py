import json
from html.parser import HTMLParser

import pandas as pd
import pytest
import sample_traces
from sample_traces import cpu_trace, gpu_trace

import cudalens
from cudalens.analysis import key_averages
from cudalens.frames import Problem, RunInfo, Trace
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import summary


def test_verdict_is_the_answer_and_the_first_advice_and_details_have_the_rest():
    answer, advice = text.verdict(gpu_trace()).split("; ")
    support = text.details(gpu_trace()).split("; ")
    assert answer == "3.00 ms, GPU busy 45 %: up to 980 µs (33 %) lost to other host work"
    assert advice.startswith("advice: move that work (logging, metrics, Python loops over elements)")
    assert support[0].startswith("most in ampere_sgemm_128x64_tn (89 % of GPU time)")
    assert support[1] == "9 launches, 6 kernels, 9 CPU ops"
    assert support[2] == "3 steps of 900 µs ± 0 ns"
    assert support[3] == "peak memory 4.00 MiB (cuda)"
    assert support[4] == "profiling cost 62.0 ms more (start 20.0 ms, stop 30.0 ms, frames 12.0 ms)"


def test_a_peak_a_thousand_times_smaller_is_left_out():
    trace = gpu_trace()
    host = trace.memory.head(1).astype({"device_type": object}).assign(device_type="cpu", allocated_bytes=252)
    both = pd.concat([host, trace.memory.astype({"device_type": object})], ignore_index=True)
    both = both.astype({"device_type": "category", **{name: trace.memory[name].dtype for name in ("action",)}})
    line = text.details(Trace(trace.info, events=trace.events, memory=both))
    assert "peak memory 4.00 MiB (cuda);" in line
    assert "cpu" not in line


def test_verdict_without_a_device_is_about_the_cpu():
    line = text.verdict(cpu_trace())
    assert line.startswith("2.00 ms, CPU ops busy 65 %; most in aten::addmm (62 % of CPU self time)")
    line += text.details(cpu_trace())
    assert "GPU" not in line
    assert "launch" not in line


@pytest.mark.parametrize("source", ["cuda", "virtual:h100"])
def test_verdict_of_a_program_that_never_used_the_recorded_gpu_says_so(source):
    assert "CPU ops busy 65 %, nothing ran on the GPU; most in" in text.verdict(cpu_trace(source=source))
    assert "GPU" not in text.verdict(cpu_trace(source="cpu"))
    assert "ran on the GPU" not in text.verdict(cpu_trace(source=source, options={"cpu_only": True}))
    assert "ran on the GPU" not in text.verdict(gpu_trace(source=source))


def test_verdict_of_a_file_claims_no_overhead():
    assert "profiling cost" not in text.details(gpu_trace(source="file:chrome"))


def test_verdict_of_a_virtual_run_claims_its_overhead_until_it_comes_from_a_file(tmp_path):
    trace = gpu_trace(source="virtual:h100")
    assert "profiling cost" in text.details(trace)
    read = cudalens.load(trace.to_chrome(tmp_path / "run.json"))
    assert "[simulated: h100]" in text.verdict(read)
    assert "profiling cost" not in text.details(read)


def test_verdict_marks_simulated_times():
    assert text.verdict(gpu_trace(source="virtual:h100")).startswith("[simulated: h100] 3.00 ms")


@pytest.mark.parametrize(
    ("status", "said"), [("raised", "the code raised"), ("interrupted", "the code was interrupted")]
)
def test_verdict_states_how_the_code_ended(status, said):
    assert text.verdict(gpu_trace(status=status)).endswith(said)


def test_verdict_counts_the_damage():
    problems = (Problem("event without ts", 2, "event 17"), Problem("negative dur", 1, "event 3"))
    assert text.verdict(gpu_trace(problems=problems)).endswith("3 problems in the data")


def test_verdict_of_nothing_is_a_sentence():
    assert text.verdict(Trace(RunInfo(name="empty", source="cpu"))) == "0 ns; no operator or kernel was recorded"


def test_verdict_is_one_line_whatever_the_names():
    assert "\n" not in text.verdict(gpu_trace(kernel="a\nb\r\nc\u2028d"))


def test_summary_prints_aligned_within_100_columns():
    shown = str(summary(gpu_trace()))
    verdict, details, empty, *lines = shown.split("\n")
    head, rule, *rows = lines[lines.index("") + 1 :]
    assert verdict == text.verdict(gpu_trace())
    assert details == f"  {text.details(gpu_trace())}"
    assert empty == ""
    assert all(len(line) <= 100 for line in (head, rule, *rows))
    end = head.index("count") + len("count")
    assert [row[:end].split()[-1] for row in rows] == [row[2] for row in summary(gpu_trace()).rows]


def test_summary_rows_are_the_largest_of_each_side():
    trace = gpu_trace()
    averages = key_averages(trace)
    rows = summary(trace).rows
    device = averages[averages["is_device"]]
    assert [row[0] for row in rows[: len(device)]] == list(device["name"])
    assert [row[-1].split()[-1] for row in rows[: len(device)]] == ["GPU"] * len(device)
    host = averages[~averages["is_device"]].head(5)
    assert [row[0] for row in rows[len(device) :]] == list(host["name"])


def test_summary_repr_is_its_text():
    shown = summary(cpu_trace())
    assert repr(shown) == str(shown)


def test_summary_lists_what_went_wrong():
    shown = str(
        summary(gpu_trace(status="raised", error="ValueError: no", problems=(Problem("NaN dur", 4, "event 2"),)))
    )
    assert "  ! The profiled code raised: ValueError: no" in shown
    assert "  ! 4x NaN dur (first: event 2)" in shown


class Elements(HTMLParser):
    """Names of the elements and attributes in a document."""

    def __init__(self, markup):
        super().__init__()
        self.elements, self.attributes = set(), set()
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_html_of_hostile_texts_holds_only_our_elements():
    found = Elements(summary(sample_traces.hostile_trace())._repr_html_())
    assert found.elements <= {
        "div",
        "p",
        "details",
        "summary",
        "span",
        "strong",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "style",
    }
    assert found.attributes <= {"class", "scope", "title", "data-label", "data-wide"}


def test_a_file_of_a_program_without_a_gpu_and_without_torch_says_so(tmp_path):
    rows = [
        {"name": name, "ph": "X", "ts": start, "dur": 40, "pid": 0, "tid": 0, "args": {"type": name}}
        for start, name in ((0, "load_cache"), (50, "LayerNorm1"), (100, "store_cache"))
    ]
    path = tmp_path / "simulator.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    first = str(cudalens.load(path).summary()).splitlines()[0]
    assert first.startswith("140 µs, no GPU work and no CPU operator recognised; ")
