"""What changed between two runs, on runs whose changes are known."""

import numpy as np
import pandas as pd
import pytest

import cudalens
from cudalens.analysis.compare.runs import STATUSES, differences
from cudalens.errors import TraceError
from cudalens.frames import DeviceInfo, Ranks, RunInfo, Trace, build_events, build_memory

T0 = 1_700_000_000_000_000_000


def run(steps, *, name="run", source="cuda", memory=None, **info):
    """A Trace of `steps`, each a list of (op, host ns, kernel or None, device ns); a step with no number is a run."""
    rows, at, correlation = [], T0, 0
    for number, ops in enumerate(steps):
        start, first = at, len(rows)
        for op, host, kernel, device in ops:
            correlation += 1
            rows.append((op, "cpu_op", at, host, 1, None, None))
            if kernel is not None:
                rows.append(("cudaLaunchKernel", "cuda_runtime", at, host // 2, 1, None, correlation))
                cat = "gpu_memcpy" if kernel.startswith("Memcpy") else "kernel"
                rows.append((kernel, cat, at + host, device, None, 0, correlation))
            at += host + device
        rows.insert(first, (f"ProfilerStep#{number}", "user_annotation", start, at - start, 1, None, None))
    names, cats, ts, dur, tid, device, corr = zip(*rows, strict=True)
    columns = {"name": pd.Categorical(names), "cat": pd.Categorical(cats), "ts": np.array(ts), "dur": np.array(dur)}
    columns |= {"tid": pd.array(tid, dtype="Int64"), "pid": pd.array(tid, dtype="Int64")}
    columns |= {"device": pd.array(device, dtype="Int32"), "stream": pd.array(device, dtype="Int64")}
    columns |= {"correlation_id": pd.array(corr, dtype="Int64")}
    events = build_events(columns)
    frames = {} if memory is None else {"memory": held(memory, events)}
    return Trace(RunInfo(name=name, source=source, **info), events=events, **frames)


def held(values, events):
    columns = {"ts": T0 + 1 + np.arange(len(values)), "num_bytes": np.ones(len(values), np.int64)}
    columns |= {
        "action": pd.Categorical(["alloc"] * len(values)),
        "device_type": pd.Categorical(["cuda"] * len(values)),
    }
    columns |= {"device": pd.array([0] * len(values), dtype="Int32")}
    return build_memory(columns | {"allocated_bytes": pd.array(values, dtype="Int64")}, events)


def noisy(seed, mm, n=10, kernel="gemm", extra=()):
    rng = np.random.default_rng(seed)
    jitter = rng.normal(1, 0.02, n)
    return run([[("aten::mm", 1000, kernel, int(mm * j)), *extra] for j in jitter])


def several(seed, mm, **more):
    """Three noisy runs."""
    return [noisy(1_000 * seed + k, mm, **more) for k in range(3)]


def row(table, name, **where):
    found = table[table["name"] == name]
    for column, value in where.items():
        found = found[found[column] == value]
    assert len(found) == 1
    return found.iloc[0]


def test_what_became_faster_came_and_went():
    a = several(0, 50_000, extra=[("aten::softmax", 500, "softmax", 9_000)])
    b = several(1, 40_000, extra=[("aten::gelu", 500, "gelu", 3_000)])
    found = differences(a, b)
    assert found.whole.status == "faster"
    assert found.whole.low < found.whole.ratio < found.whole.high < 0
    assert row(found.kernels, "gemm")["status"] == "faster"
    assert row(found.kernels, "softmax")["status"] == "removed"
    assert row(found.kernels, "gelu")["status"] == "added"
    assert row(found.ops, "aten::mm", where="device")["delta_ns"] == row(found.kernels, "gemm")["delta_ns"]
    assert row(found.ops, "aten::mm", where="host")["status"] == "same"
    delta = found.kernels["delta_ns"].abs().tolist()
    assert delta == sorted(delta, reverse=True)
    swapped = differences(b, a)
    assert swapped.whole.status == "slower"
    assert row(swapped.kernels, "gemm")["status"] == "slower"


def test_of_many_steps_some_are_compared_and_a_note_reports_it():
    slow, fast = (run([[("aten::mm", 1000, "gemm", ns)]] * 5_000, name=f"{ns} ns") for ns in (5_000, 4_000))
    found = differences(slow, fast)
    assert found.whole.num_before == 5_000 // 4
    assert found.whole.ratio == pytest.approx(-1 / 6)
    assert row(found.kernels, "gemm")["delta_ns"] == -1_000
    assert "'5000 ns' has 5,000 profiler steps: 1 of 4 is compared" in found.notes


def test_what_comes_now_and_then_is_not_removed_where_it_stays_away():
    now_and_then = ("aten::item", 700, "item", 300)
    a = run([[("aten::mm", 1000, "gemm", 9_000 + k), *([now_and_then] if k == 4 else [])] for k in range(10)])
    b = run([[("aten::mm", 1000, "gemm", 9_000 + k)] for k in range(10)])
    assert row(differences(a, b).kernels, "item")["status"] == "same"
    assert row(differences(b, a).ops, "aten::item", where="host")["status"] == "same"


def test_what_is_in_every_second_step_of_one_side_is_added():
    steps = [
        [("aten::mm", 1000, "gemm", 9_000 + k), *([("aten::item", 70, "item", 30)] if k % 2 else [])] for k in range(8)
    ]
    a, b = run([[("aten::mm", 1000, "gemm", 9_000 + k)] for k in range(8)]), run(steps)
    for table, name in ((differences(a, b).kernels, "item"), (differences(a, b).ops, "aten::item")):
        found = table[table["name"] == name].iloc[0]
        assert (found["status"], found["a_count"], found["b_count"]) == ("added", 0, 0.5)
    assert row(differences(b, a).kernels, "item")["status"] == "removed"


def test_one_step_on_each_side_gives_differences_without_claims():
    found = differences(run([[("aten::mm", 1000, "gemm", 9_000)]]), run([[("aten::mm", 1000, "gemm", 12_000)]]))
    assert (found.whole.status, found.status) == ("unknown", "unknown")
    assert row(found.kernels, "gemm")["delta_ns"] == 3_000
    assert set(found.kernels["status"]) | set(found.ops["status"]) <= {"unknown", "same"}


def test_one_measured_run_on_a_side_claims_nothing():
    slow, fast = noisy(0, 50_000), noisy(1, 20_000)
    for sides in ((fast, slow), ([fast, noisy(2, 20_000)], slow)):
        found = differences(*sides)
        assert found.whole.limit == "noise between runs is not included"
        assert found.whole.low > 1
        assert found.status == "unknown"
        assert not set(found.kernels["status"]) & {"faster", "slower"}


def test_modelled_runs_have_no_noise_between_them():
    a, b = (run([[("aten::mm", 1000, "gemm", ns)]] * 3, source="virtual:h100") for ns in (9_000, 12_000))
    assert differences(a, b).status == "slower"
    assert row(differences(a, b).kernels, "gemm")["status"] == "slower"


def test_a_copy_between_other_places_is_another_copy():
    def copies(name):
        return run([[("aten::copy_", 1000, name, 5_000 + k)] for k in range(6)])

    found = differences(copies("Memcpy HtoD (Pageable -> Device)"), copies("Memcpy DtoD (Device -> Device)")).kernels
    assert sorted(found["status"]) == ["added", "removed"]


def test_noise_is_no_change():
    found = differences(noisy(0, 50_000), noisy(1, 50_000))
    assert found.whole.status == "same"
    assert found.whole.before_ns != found.whole.after_ns
    assert set(found.kernels["status"]) == set(found.ops["status"]) == {"same"}


def test_against_itself():
    for steps in (1, 5):
        a = noisy(0, 50_000, n=steps)
        found = differences(a, a)
        assert found.whole.status == "same"
        for table in (found.kernels, found.ops, found.memory):
            assert set(table["status"]) <= {"same"}
            assert (table.filter(like="delta") == 0).all(axis=None)


def test_one_repeat_does_not_show_noise():
    found = differences(noisy(0, 50_000, n=1), noisy(1, 20_000, n=9))
    assert (found.whole.status, found.whole.low) == ("unknown", None)
    assert row(found.kernels, "gemm")["status"] == "unknown"
    assert found.kernels["low_ns"].isna().all()


def test_lists_of_runs_are_repeats():
    def whole(mm):
        trace = run([[("aten::mm", 1000, "gemm", mm)]])
        return trace.replace(events=trace.events.assign(name=trace.events["name"].cat.rename_categories(
            {"ProfilerStep#0": "range"})))  # fmt: skip

    found = differences([whole(50_000 + k) for k in range(5)], [whole(30_000 + k) for k in range(4)])
    assert (found.whole.num_before, found.whole.num_after, found.whole.unit) == (5, 4, "run")
    assert found.whole.status == "faster"


def test_a_renamed_kernel_is_matched_by_the_op_that_launched_it():
    a, b = several(0, 50_000, kernel="ampere_sgemm"), several(1, 20_000, kernel="sm90_gemm")
    (only,) = differences(a, b).kernels.to_dict("records")
    assert (only["a_name"], only["b_name"], only["matched_by"]) == ("ampere_sgemm", "sm90_gemm", "op")
    assert (only["op"], only["status"]) == ("aten::mm", "faster")


def test_the_most_expensive_kernels_of_an_op_are_matched():
    big, small = ("aten::mm", 1000, "big", 9_000), ("aten::mm", 1000, "small", 500)
    a = run([[small, big]] * 3)
    b = run([[("aten::mm", 1000, "reduce", 700), ("aten::mm", 1000, "splitk", 8_000)]] * 3)
    table = differences(a, b).kernels
    assert dict(zip(table["a_name"], table["b_name"], strict=True)) == {"big": "splitk", "small": "reduce"}


def test_one_name_under_another_op_is_the_same_kernel():
    a, b = run([[("aten::mm", 10, "gemm", 90)]] * 3), run([[("aten::addmm", 10, "gemm", 90)]] * 3)
    (only,) = differences(a, b).kernels.to_dict("records")
    assert (only["matched_by"], only["status"]) == ("name", "same")
    ops = differences(a, b).ops
    assert set(ops[ops["name"].str.startswith("aten::")]["status"]) == {"added", "removed"}


def test_every_step_counts_the_last_one_too():
    steps = [[("aten::mm", 100, "gemm", 1_000 * k)] for k in (1, 2, 9)]
    found = differences(run(steps), run(steps[:2]))
    assert (found.whole.num_before, found.whole.num_after) == (3, 2)
    gemm = row(found.kernels, "gemm")
    assert (gemm["a_ns"], gemm["b_ns"]) == (2_000, 1_500)


def test_peaks_of_memory():
    steps = [[("aten::mm", 1000, "gemm", 1000)]] * 2
    found = differences(run(steps, memory=[100, 900, 50]), run(steps, memory=[100, 300, 50]))
    peak = row(found.memory, "peak allocated")
    assert (peak["where"], peak["a_bytes"], peak["b_bytes"]) == ("cuda:0", 475, 175)  # steps of 900 and 50, 300 and 50


def test_cpu_runs_have_no_kernels():
    found = differences([run([[("aten::mm", 900, None, 0)]] * 4)] * 2, [run([[("aten::mm", 500, None, 0)]] * 4)] * 2)
    assert found.kernels.empty
    assert row(found.ops, "aten::mm")["status"] == "faster"


def test_the_ranks_of_a_job_are_one():
    ranks = Ranks({0: noisy(0, 50_000), 1: noisy(1, 70_000)}, name="job")
    found = differences(ranks, ranks)
    assert (found.whole.num_before, found.whole.status) == (10, "same")
    slowest = differences(ranks[1], ranks[1])
    assert found.whole.before_ns == slowest.whole.before_ns
    assert row(found.kernels, "gemm")["a_ns"] == pytest.approx(60_000, rel=0.03)


def test_what_limits_the_comparison_is_noted():
    steps = [[("aten::mm", 900, "gemm", 100)]] * 2
    a = run(steps, name="model", source="virtual:h100", devices=(DeviceInfo(0, "H100"),), versions={"torch": "2.9"})
    b = run(steps, name="real", devices=(DeviceInfo(0, "A100"),), versions={"torch": "2.13"}, status="raised")
    notes = differences(a, b).notes
    assert len(notes) == 4
    assert "'model' is simulated and 'real' was measured" in notes[0]
    assert notes[1:3] == ("device: H100 before, A100 after", "torch: 2.9 before, 2.13 after")
    assert "raised" in notes[3]


@pytest.mark.parametrize("wrong", [7, "a run", None, [1]])
def test_what_is_no_run_is_refused(wrong):
    with pytest.raises(TypeError, match="expected a Trace"):
        differences(wrong, noisy(0, 100))


def test_empty_sides_are_refused():
    empty = Trace(RunInfo(name="nothing", source="cpu"))
    for side in (empty, [noisy(0, 100), empty]):
        with pytest.raises(TraceError, match=r"'nothing' .* has no event"):
            differences(noisy(0, 100), side)
    for side in ([], Ranks({}, name="job")):
        with pytest.raises(TraceError, match="has no Trace"):
            differences(side, noisy(0, 100))


def test_names_files_and_what_is_neither(tmp_path):
    path = noisy(0, 100).save(tmp_path / "a.cudalens")
    assert cudalens.compare(path, str(path)).verdict.startswith("no change")
    with pytest.raises(TraceError, match="is neither a run nor a file"):
        cudalens.compare("nonsense", path)


def test_statuses_are_those_that_are_named():
    found = differences(noisy(0, 50_000), noisy(1, 20_000, kernel="other"))
    for table in (found.kernels, found.ops, found.modules, found.memory):
        assert set(table["status"]) <= set(STATUSES)


def test_what_one_side_did_not_record_is_no_change():
    steps = [[("aten::mm", 1000, "gemm", 5000)]] * 3
    with_memory, without = run(steps, name="full", memory=[10, 30, 20]), run(steps, name="lean")
    for pair in ((with_memory, without), (without, with_memory), ([with_memory, without], with_memory)):
        found = differences(*pair)
        assert not len(found.memory)
        assert "'lean' did not record memory, so memory is not compared" in found.notes
    both = differences(with_memory, with_memory)
    assert len(both.memory)
    assert not [note for note in both.notes if "record" in note]


def test_modules_of_one_side_are_no_change():
    plain = run([[("aten::mm", 1000, "gemm", 5000)]] * 3, name="plain")
    modules = pd.Categorical(["Net"] * len(plain.events))
    named = Trace(RunInfo(name="named", source="cuda"), events=plain.events.assign(module=modules))
    assert len(differences(named, named).modules)
    found = differences(plain, named)
    assert not len(found.modules)
    assert "'plain' did not record modules, so modules are not compared" in found.notes


def test_no_interval_goes_below_taking_no_time_at_all():
    steps = [[("aten::mm", ns, None, 0)] for ns in (1_000, 1_200, 30_000)]
    a, b = run(steps), run(steps[::-1])
    whole = differences(a, run([[("aten::mm", 40_000, None, 0)], [("aten::mm", 2_000, None, 0)]])).whole
    assert -1 <= whole.low < 0 < whole.high
    assert whole.status == "same"
    assert differences(a, b).whole.status == "same"


def test_a_gpu_on_only_one_side_is_noted():
    a, b = run([[("aten::mm", 900, None, 0)]] * 4, name="cpu"), run([[("aten::mm", 900, "gemm", 100)]] * 4, name="gpu")
    assert "'cpu' has no device work, 'gpu' has" in differences(a, b).notes
    assert differences(b, a).notes == differences(a, b).notes
    assert differences(a, a).notes == ()


def test_calls_of_the_runtime_and_ranges_are_compared_by_their_own_time():
    """Time in an allocator or a wait is not an operator's time; steps are identified by their numbers."""
    a = run([[("aten::mm", 9_000, "gemm", 100)]] * 4)
    events = a.events.copy()
    calls = events.index[events["name"] == "cudaLaunchKernel"]
    events["name"] = events["name"].cat.rename_categories({"cudaLaunchKernel": "cudaMalloc"})
    b = a.replace(events=events)
    ops = differences(a, b).ops
    assert row(ops, "cudaMalloc")["status"] == "added"
    assert row(ops, "cudaLaunchKernel")["a_ns"] == events["self_dur"].loc[calls].median() == 4_500
    assert row(ops, "aten::mm", where="host")["status"] == "same"
    assert not ops["name"].str.startswith("ProfilerStep").any()
    ranges = pd.Categorical(events["cat"].astype(str).replace("cpu_op", "user_annotation"))
    found = differences(b, b.replace(events=events.assign(cat=ranges))).ops
    assert row(found, "aten::mm", where="host")["status"] == "same"
