"""Each rule finds exactly the rows that were corrupted, and nothing in a healthy trace."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from trust_traces import BASE, found, frame_columns, healthy_rows, host, moved, operators, row, trace_of

import cudalens
from cudalens.analysis import findings, trust, trust_findings
from cudalens.frames import Problem, Ranks, RunInfo, Trace, build_events
from cudalens.views.sections.verdict import verdict

EXAMPLES = examples(10)
OPS = [(50, 200, 300, 4_003, 7)] * 6


def rules(report):
    return [finding.rule for finding in report.trust.findings]


def events_at(trace, **facts):
    events = trace.events
    hit = np.ones(len(events), bool)
    for name, value in facts.items():
        hit &= (events[name] == value).fillna(False).to_numpy(dtype=bool)
    return set(np.flatnonzero(hit).tolist())


@settings(max_examples=EXAMPLES)
@given(operators)
def test_nothing_is_found_in_a_healthy_trace(ops):
    report = trust(trace_of(healthy_rows(ops)))
    assert not [f for f in report.trust.findings if f.severity != "note"]
    assert report.trust.verdict == "clean"


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_lost_kernels_are_found_by_their_launches(ops, data):
    rows = healthy_rows(ops)
    lost = data.draw(st.sets(st.integers(0, len(ops) - 1), min_size=1, max_size=len(ops) - 1))
    kept = [r for r in rows if not (r["cat"] == "kernel" and r["correlation_id"] - 100 in lost)]
    trace = trace_of(kept)
    wanted = {r for i in lost for r in events_at(trace, correlation_id=100 + i, cat="cuda_runtime")}
    report = trust(trace)
    assert found(report, "lost work") == wanted
    assert report.trust.verdict == "partial"


def test_loss_at_the_start_is_reported_separately_and_names_the_cupti_problem():
    kept = [r for r in healthy_rows(OPS) if not (r["cat"] == "kernel" and r["correlation_id"] < 102)]
    (finding,) = trust(trace_of(kept)).trust.findings
    assert finding.what == "2 launches at the start of the recording without recorded work"
    assert "CUPTI" in finding.done


def test_launches_without_a_later_wait_ran_after_the_recording():
    kept = [r for r in healthy_rows(OPS) if r["correlation_id"] not in (105, 99_999) or r["cat"] == "cuda_runtime"]
    kept = [r for r in kept if r["name"] != "cudaDeviceSynchronize"]
    report = trust(trace_of(kept))
    assert rules(report) == ["work from after"]
    assert report.trust.verdict == "clean"


def test_launches_while_a_stream_is_captured_need_no_work():
    rows = [r for r in healthy_rows(OPS) if not (r["cat"] == "kernel" and r["correlation_id"] in (102, 103))]
    calls = {r["correlation_id"]: r["ts"] for r in rows if r["cat"] == "cuda_runtime"}
    rows.append(host("cudaStreamBeginCapture", "cuda_runtime", calls[102] - 20, 5, correlation_id=501))
    rows.append(host("cudaStreamEndCapture_v10000", "cuda_runtime", calls[103] + 15, 5, correlation_id=502))
    assert rules(trust(trace_of(rows))) == []


def test_a_driver_call_within_the_runtime_call_is_the_same_launch():
    rows = healthy_rows(OPS)
    inner = [
        host("cuLaunchKernel", "cuda_driver", r["ts"] + 1, 5, correlation_id=900 + i)
        for i, r in enumerate(rows)
        if r["name"] == "cudaLaunchKernel"
    ]
    assert rules(trust(trace_of(rows + inner))) == []


def test_no_device_activity_at_all():
    report = trust(trace_of([r for r in healthy_rows(OPS) if r["cat"] != "kernel"]))
    assert rules(report) == ["no device activity"]
    assert "CUPTI" in report.trust.findings[0].done


def test_launches_without_device_work_are_not_a_run_of_the_cpu():
    kept = [r for r in healthy_rows(OPS) if r["cat"] != "kernel"]
    copies = [host("aten::copy_", "cpu_op", 10**6 * k, 900_000) for k in range(20)]
    trace = trace_of(kept + copies)
    assert findings(trace) == []
    assert "no device work was recorded" in verdict(trace)
    assert "CPU" not in verdict(trace)


def test_a_torch_trace_without_an_operator_is_not_clean():
    trace = trace_of([host("forward", "user_annotation", 0, 77_900_000_000)])
    trace = trace.replace(info=trace.info.replace(source="file:kineto"))
    assert trust(trace).trust.verdict == "partial"
    assert verdict(trace).startswith("77.9 s recorded: neither an operator nor GPU work was recorded; advice: ")


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_kernels_without_a_launch(ops, data):
    rows = healthy_rows(ops)
    kernels = [r for r in rows if r["cat"] == "kernel"]
    first = {}
    for kernel in sorted(kernels, key=lambda r: r["ts"]):
        first.setdefault(kernel["stream"], id(kernel))
    later = [k for k, r in enumerate(rows) if r["cat"] == "kernel" and id(r) != first[r["stream"]]]
    if not later:
        return
    chosen = data.draw(st.sets(st.sampled_from(later), min_size=1))
    trace = trace_of([r | {"correlation_id": None} if k in chosen else r for k, r in enumerate(rows)])
    report = trust(trace)
    events = trace.events
    wanted = np.flatnonzero((events["cat"] == "kernel") & events["correlation_id"].isna())
    assert found(report, "unlinked work") == set(wanted.tolist())


def test_work_from_before_the_recording_is_healthy():
    rows = healthy_rows(OPS)
    head = [
        row("gemm9", "kernel", BASE - 5_000 + 900 * i, 800, device=0, stream=7, correlation_id=i + 1) for i in range(3)
    ]
    report = trust(trace_of(rows + head))
    assert (rules(report), report.trust.verdict) == (["work from before"], "clean")
    assert found(report, "work from before") == {0, 1, 2}


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_early_kernels(ops, data):
    rows = healthy_rows(ops)
    calls = {r["correlation_id"]: r["ts"] for r in rows if r["cat"] == "cuda_runtime"}
    kernels = [k for k, r in enumerate(rows) if r["cat"] == "kernel"]
    chosen = data.draw(st.sets(st.sampled_from(kernels), min_size=1))
    by = data.draw(st.integers(1, 10_000))
    corrupt = [r | {"ts": calls[r["correlation_id"]] - by} if k in chosen else r for k, r in enumerate(rows)]
    trace = trace_of(corrupt)
    wanted = {r for k in chosen for r in events_at(trace, cat="kernel", correlation_id=rows[k]["correlation_id"])}
    assert found(trust(trace), "early work") == wanted


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_kernels_that_outlast_the_wait_for_them(ops, data):
    rows = healthy_rows(ops)
    end = rows[-1]["ts"] + rows[-1]["dur"]
    kernels = [k for k, r in enumerate(rows) if r["cat"] == "kernel"]
    chosen = data.draw(st.sets(st.sampled_from(kernels), min_size=1))
    by = data.draw(st.integers(1, 10_000))
    corrupt = [r | {"ts": end - r["dur"] + by} if k in chosen else r for k, r in enumerate(rows)]
    trace = trace_of(corrupt)
    wanted = {r for k in chosen for r in events_at(trace, cat="kernel", correlation_id=rows[k]["correlation_id"])}
    assert found(trust(trace), "late work") == wanted


def test_a_wait_for_a_device_that_is_not_known_proves_nothing():
    rows = healthy_rows(OPS)
    late = moved(rows, 10**6)
    trace = trace_of(late)
    two = trace.replace(info=trace.info.replace(devices=trace.info.devices * 2))
    assert found(trust(trace), "late work")
    assert not found(trust(two), "late work")


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_overlaps_on_one_stream(ops, data):
    """The slow oracle: a row overlaps where any earlier row of its stream runs beyond its start by over a tick."""
    rows = healthy_rows([(*op[:4], 7) for op in ops])
    kernels = [k for k, r in enumerate(rows) if r["cat"] == "kernel"]
    chosen = data.draw(st.sets(st.sampled_from(kernels), min_size=1))
    longer = data.draw(st.integers(2_000, 30_000))
    trace = trace_of([r | {"dur": r["dur"] + longer} if k in chosen else r for k, r in enumerate(rows)])
    work = trace.events[trace.events["cat"] == "kernel"]
    ends = (work["ts"] + work["dur"]).tolist()
    wanted = {
        int(work.index[i]) for i in range(len(work)) if any(ends[j] - int(work["ts"].iloc[i]) > 1_024 for j in range(i))
    }
    assert found(trust(trace), "overlapping work") == wanted


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaGraphLaunch", "hipExtModuleLaunchKernel"]
)
def test_launches_that_allow_overlaps(name):
    rows = [r | {"name": name} if r["name"] == "cudaLaunchKernel" else r for r in healthy_rows(OPS)]
    rows = [r | {"dur": r["dur"] + 3_000} if r["correlation_id"] == 102 and r["cat"] == "kernel" else r for r in rows]
    report = trust(trace_of(rows))
    assert (rules(report), report.trust.verdict) == (["allowed overlap"], "clean")


def test_pages_of_unified_memory_move_beside_the_work_of_their_stream():
    rows = healthy_rows(OPS)
    kernel = next(r for r in rows if r["cat"] == "kernel")
    page = {"name": "Memcpy DtoH (Unified) (Unknown -> Unknown)", "cat": "gpu_memcpy", "correlation_id": None}
    pages = [kernel | page | {"ts": kernel["ts"] + at, "dur": 9_000} for at in (0, 3_000)]
    assert "overlapping work" not in rules(trust(trace_of([*rows, *pages])))


def test_kernels_of_no_length_had_no_times_but_for_files_in_microseconds():
    rows = [r | {"dur": 0} if r["correlation_id"] == 103 and r["cat"] == "kernel" else r for r in healthy_rows(OPS)]
    assert rules(trust(trace_of(rows))) == ["no duration"]
    coarse = [r | {"ts": r["ts"] // 1000 * 1000, "dur": r["dur"] // 1000 * 1000} for r in rows]
    report = trust(trace_of(coarse))
    assert report.trust.verdict == "clean"
    assert "rounded to nothing" in rules(report)


def test_lengths_that_cannot_be():
    rows = healthy_rows(OPS)
    endless = [r | {"dur": 10**15} if r["correlation_id"] == 105 and r["cat"] == "kernel" else r for r in rows]
    assert "absurd durations" in rules(trust(trace_of(endless)))
    negative = [*rows, host("aten::odd", "cpu_op", BASE - 50, -5, external_id=77)]
    report = trust(trace_of(negative))
    assert found(report, "negative durations") == {0}


@pytest.mark.parametrize(
    ("num_copies", "text"), [(1, "1 device row recorded twice"), (2, "2 device rows recorded twice")]
)
def test_duplicates_are_counted_in_words(num_copies, text):
    rows = healthy_rows(OPS)
    kernels = [row for row in rows if row["cat"] == "kernel"]
    assert text in str(trust(trace_of([*rows, *kernels[:num_copies]])))


@settings(max_examples=EXAMPLES)
@given(operators, st.data())
def test_duplicates(ops, data):
    rows = healthy_rows(ops)
    chosen = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))
    trace = trace_of(rows + [rows[k] for k in chosen])
    report = trust(trace)
    keys = ["ts", "dur", "name", "cat", "device", "stream", "pid", "tid", "correlation_id", "external_id"]
    twice = trace.events.duplicated(keys).to_numpy()
    on_device = trace.events["device"].notna().to_numpy()
    assert found(report, "duplicate work") == set(np.flatnonzero(twice & on_device).tolist())
    assert found(report, "duplicate rows") == set(np.flatnonzero(twice & ~on_device).tolist())


def test_equal_python_calls_without_an_id_are_no_duplicates():
    calls = [host("f.py(3): g", "python_function", BASE, 1) for _ in range(3)]
    assert rules(trust(trace_of(healthy_rows(OPS) + calls))) == []


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=2, max_size=12))
def test_torn_calls_against_a_slow_oracle(spans):
    """A call is torn where it begins within an earlier sibling, of the tree that the frame has, and outlasts it."""
    rows = [
        host(f"f{i}", "cpu_op", BASE + 7 * start, 7 * length, external_id=i + 1)
        for i, (start, length) in enumerate(spans)
    ]
    trace = trace_of(rows)
    events = trace.events
    start, end, parent = (
        events["ts"].tolist(),
        (events["ts"] + events["dur"]).tolist(),
        events["parent"].fillna(-1).tolist(),
    )
    wanted = {
        i
        for i in range(len(events))
        if any(parent[j] == parent[i] and start[j] <= start[i] < end[j] < end[i] for j in range(i))
    }
    crossing = any(start[j] < start[i] < end[j] < end[i] for i in range(len(events)) for j in range(len(events)))
    assert found(trust(trace), "torn calls") == wanted
    assert bool(wanted) == crossing


def test_ranges_may_cross_functions():
    rows = [
        *healthy_rows(OPS),
        host("ProfilerStep#1", "user_annotation", BASE, 500),
        host("f.py(1): step", "python_function", BASE + 400, 300),
    ]
    assert "torn calls" not in rules(trust(trace_of(rows)))


def test_rows_of_another_clock():
    rows = healthy_rows(OPS)
    lost = [r | {"ts": BASE - 10**14} if r["correlation_id"] == 104 and r["cat"] == "kernel" else r for r in rows]
    report = trust(trace_of(lost))
    assert found(report, "far away") == {0}
    assert found(report, "early work") == {0}
    assert report.trust.verdict == "partial"
    long = [*rows, host("python", "python_function", BASE - 10**14, 2 * 10**14)]
    assert "far away" not in rules(trust(trace_of(long)))


def test_steps_that_overlap_or_are_missing():
    steps = [
        host(f"ProfilerStep#{n}", "user_annotation", BASE + at, dur)
        for n, at, dur in [(1, 0, 100), (2, 90, 100), (5, 300, 50)]
    ]
    trace = trace_of(healthy_rows(OPS) + steps)
    report = trust(trace)
    assert found(report, "overlapping steps") == events_at(trace, name="ProfilerStep#2")
    assert found(report, "missing steps") == events_at(trace, name="ProfilerStep#5")
    (missing,) = [f for f in report.trust.findings if f.rule == "missing steps"]
    assert (missing.severity, missing.what) == ("note", "2 profiler steps were not recorded")


def test_calls_that_share_an_id():
    rows = healthy_rows(OPS)
    again = host("cudaLaunchKernel", "cuda_runtime", BASE - 5_000, 10, correlation_id=101)
    trace = trace_of([again, *rows])
    first, *_ = sorted(events_at(trace, correlation_id=101, cat="cuda_runtime"))
    report = trust(trace)
    assert found(report, "shared ids") == events_at(trace, correlation_id=101, cat="cuda_runtime") - {first}


def test_rows_outside_of_a_live_run():
    rows = [*healthy_rows(OPS), host("aten::before", "cpu_op", BASE - 10**10, 50, external_id=500)]
    window = {"started_ns": BASE - 100, "ended_ns": BASE + 10**6, "start_s": 0.001, "stop_s": 0.001}
    assert found(trust(trace_of(rows, source="cuda", **window)), "outside the window") == {0}
    assert found(trust(trace_of(rows, source="file:kineto", **window)), "outside the window") == set()


def test_deep_python_stacks_are_cut():
    deep = [host(f"f.py({i}): f", "python_function", BASE - 100, 10**6 - i) for i in range(128)]
    report = trust(trace_of(healthy_rows(OPS) + deep))
    assert (found(report, "cut Python stacks"), report.trust.verdict) == ({0}, "clean")
    assert not found(trust(trace_of(healthy_rows(OPS) + deep[:127])), "cut Python stacks")


def test_damage_of_the_file_is_reported():
    trace = trace_of(
        healthy_rows(OPS), problems=(Problem("event without ts", 3, "event 17"), Problem("invalid UTF-8", 1, "event 2"))
    )
    (finding,) = trust(trace).trust.findings
    assert (finding.rule, finding.count, finding.what, finding.where) == ("damage", 3, "event without ts", "event 17")


def test_a_file_of_a_virtual_device_that_is_cut_short_is_partial(tmp_path):
    whole, half = tmp_path / "whole.json", tmp_path / "half.json"
    trace_of(healthy_rows(OPS), source="virtual:h100").to_chrome(whole)
    text = whole.read_text()
    half.write_text(text[: text.index('"dur"', len(text) // 3)])
    assert cudalens.load(whole).info.trust.verdict == "clean"
    cut = cudalens.load(half)
    assert cut.info.is_simulated
    assert cut.info.trust.verdict == "partial"
    assert "damage" in rules(trust(cut))


def test_simulated_times_report_it_and_stay_clean():
    report = trust(trace_of(healthy_rows(OPS), source="virtual:h100"))
    assert (rules(report), report.trust.verdict) == (["simulated"], "clean")


def test_the_profilers_own_time():
    rows = [*healthy_rows(OPS), host("Buffer Flush", "overhead", BASE + 100, 20_000)]
    assert rules(trust(trace_of(rows))) == ["profiler overhead"]


def test_the_frame_has_a_row_per_finding_and_ranks_have_theirs():
    trace = trace_of([r for r in healthy_rows(OPS) if r["cat"] != "kernel"])
    frame = trust(trace).frame
    assert list(frame.columns) == ["rule", "severity", "count", "what", "where", "done", "rows"]
    assert frame.loc[0, "rows"].tolist() == sorted(events_at(trace, name="cudaLaunchKernel"))
    both = trust_findings(Ranks({0: trace, 3: trace}, name="job"))
    assert both["rank"].tolist() == [0, 3]


def test_a_trace_without_events_is_clean():
    empty = Trace(RunInfo(name="none", source="file:chrome"))
    assert trust(empty).trust.verdict == "clean"
    assert len(trust(empty).frame) == 0
    lone = build_events(frame_columns([host("aten::one", "cpu_op", BASE, 1)]))
    assert trust(Trace(RunInfo(name="one", source="file:chrome"), events=lone)).trust.findings == ()
    assert isinstance(trust(empty).frame, pd.DataFrame)


def test_work_that_all_begins_after_the_recording_is_noted():
    """Earlier work that was not recorded, or a late clock; no figure is proven wrong."""
    ops = [(10, 10, 0, 100, 7)] * 30
    rows = [row for row in healthy_rows(ops) if row["name"] != "cudaDeviceSynchronize"]
    last = max(row["ts"] + row["dur"] for row in rows if row["device"] is None)
    first = min(row["ts"] for row in rows if row["device"] is not None)
    late = trust(trace_of(moved(rows, last - first)))
    assert late.trust.verdict == "clean"
    assert len(found(late, "work all later")) == 30
    assert not found(trust(trace_of(moved(rows, last - first - 1))), "work all later")
    few = [row for row in moved(rows, last - first) if row["correlation_id"] is None or row["correlation_id"] < 119]
    assert not found(trust(trace_of(few)), "work all later")
