"""Names of torch.profiler that work here as they do there."""

from __future__ import annotations

import json

import pytest
import torch
from torch.profiler import ProfilerActivity

import cudalens
from cudalens import profile, virtual
from cudalens.errors import ProfilerBusyError, ProfilerError


def work():
    for n in (2, 2, 3):
        torch.mm(torch.ones(n, n), torch.ones(n, n))


@pytest.fixture(scope="module")
def trace():
    with profile("names", shapes=True, stacks=True, cpu_only=True, keep=False) as p:
        work()
    return p.trace


def metadata(trace):
    return json.loads(trace.info.extra["metadata"])


def test_averages_by_torchs_names_of_groups(trace):
    by_shape = trace.key_averages(group_by_input_shape=True)
    assert by_shape.equals(trace.key_averages(by=["name", "input_shapes"]))
    assert by_shape.equals(trace.key_averages(group_by_input_shapes=True))
    assert by_shape.loc[by_shape["name"] == "aten::mm", "count"].tolist() in ([2, 1], [1, 2])
    by_both = trace.key_averages(group_by_input_shape=True, group_by_stack_n=3)
    assert by_both.equals(trace.key_averages(by=["name", "input_shapes", "stack:3"]))
    assert trace.key_averages(group_by_input_shape=False, group_by_stack_n=0).equals(trace.key_averages())
    with pytest.raises(TypeError, match="overload names are not recorded"):
        trace.key_averages(group_by_overload_name=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'group_by_shape'"):
        trace.key_averages(group_by_shape=True)


def test_a_table_takes_torchs_options(trace):
    lines = trace.table(header="All of it", time_unit="us", row_limit=3).splitlines()
    assert lines[0] == "All of it"
    times = [word for line in lines[3:6] for word in line.split() if word.endswith("us")]
    assert len(times) >= 9
    assert all(float(time.removesuffix("us")) >= 0 for time in times)
    (total,) = [line for line in lines if line.startswith("Self CPU time total")]
    averages = trace.key_averages()
    assert total == f"Self CPU time total: {averages['self_ns'].sum() / 1000:.3f}us"
    with pytest.raises(ValueError, match="time_unit is 'h'; expected None or one of s, ms, us, ns"):
        trace.table(time_unit="h")


def test_a_table_of_top_level_events_and_narrow_columns(trace):
    assert trace.table(top_level_events_only=True) == trace.table(top_level=True) != trace.table()
    narrow = trace.table(max_name_column_width=6, max_src_column_width=4)
    assert "aten:…" in narrow
    assert "aten::mm" not in narrow
    assert "aten::mm" in trace.table(max_name_column_width=None)
    assert "[[2,2],[2,2]]" in trace.table(group_by_input_shape=True)
    assert "[[2,2…" in trace.table(group_by_input_shape=True, max_shapes_column_width=6)


def test_metadata_is_kept_with_the_trace_and_written_to_chrome_json(tmp_path):
    p = profile("meta", cpu_only=True, keep=False, custom_trace_id_callback=lambda: "id-7")
    p.preset_metadata_json("config", '{"layers": 2}')
    with p:
        p.add_metadata("note", 'a "quoted" text')
        p.add_metadata_json("lr", "0.1")
        with profile("inner") as inner:
            inner.add_metadata("of", "the outer one")
    added = {"config": {"layers": 2}, "note": 'a "quoted" text', "lr": 0.1, "of": "the outer one", "trace_id": "id-7"}
    assert metadata(p.trace) == added
    written = json.loads(p.trace.to_chrome(tmp_path / "t.json").read_text())
    assert {key: written[key] for key in added} == added
    saved = cudalens.load(p.trace.save(tmp_path / "t.cudalens"))
    assert metadata(saved) == added


def test_metadata_cannot_replace_the_events_of_a_file(tmp_path):
    with profile("meta", cpu_only=True, keep=False) as p:
        p.add_metadata("traceEvents", "mine")
        torch.ones(2)
    assert len(cudalens.load(p.trace.to_chrome(tmp_path / "t.json")).events) == len(p.trace.events)


def test_each_cycle_has_the_metadata_and_an_id_of_its_own():
    ids = iter(("first", "second"))
    plan = cudalens.schedule(active=1, repeat=2)
    with profile("cycles", cpu_only=True, keep=False, schedule=plan, custom_trace_id_callback=lambda: next(ids)) as p:
        p.add_metadata("job", "7")
        for _ in range(2):
            work()
            p.step()
    assert [metadata(trace) for trace in p.traces] == [{"job": "7", "trace_id": id_} for id_ in ("first", "second")]


def test_metadata_of_another_kind_is_refused():
    p = profile("meta", cpu_only=True, keep=False)
    with pytest.raises(TypeError, match="'n' is int, expected text; add_metadata_json takes JSON"):
        p.add_metadata("n", 7)
    with pytest.raises(ValueError, match=r"'n' is not JSON: .* add_metadata takes plain text"):
        p.add_metadata_json("n", "{")


def test_collection_can_be_paused():
    with profile("toggled", cpu_only=True, keep=False) as p:
        torch.ones(2)
        p.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        torch.zeros(2)
        p.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        torch.eye(2)
    names = set(p.trace.events["name"])
    assert {"aten::ones", "aten::eye"} <= names
    assert "aten::zeros" not in names
    with pytest.raises(ProfilerError, match="nothing is recorded now"):
        p.toggle_collection_dynamic(False, [ProfilerActivity.CPU])


def test_work_of_a_virtual_device_cannot_be_paused():
    with virtual.device("h100"), profile("virtual", keep=False) as p:
        with pytest.raises(ProfilerError, match="cpu_only=True leaves it out"):
            p.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        torch.ones(2, device="cuda")
    assert len(p.trace.events)


def test_emit_itt_runs_the_program_and_leaves_no_profiler():
    with cudalens.emit_itt(record_shapes=True):
        assert torch.ones(2).sum() == 2
    with cudalens.emit_itt(enabled=False):
        assert not torch.autograd._profiler_enabled()
    with profile(cpu_only=True, keep=False), pytest.raises(ProfilerBusyError, match="before emit_itt"):
        cudalens.emit_itt().__enter__()
    assert not torch.autograd._profiler_enabled()


@pytest.fixture(scope="module")
def profiled():
    with profile(
        "results", shapes=True, stacks=True, cpu_only=True, keep=False, custom_trace_id_callback=lambda: "7"
    ) as p:
        work()
    return p


def test_results_by_the_names_of_torchs_profile_object(profiled, tmp_path):
    trace = profiled.trace
    assert profiled.key_averages(group_by_input_shape=True).equals(trace.key_averages(group_by_input_shape=True))
    assert profiled.table(sort_by="cpu_time_total", row_limit=3) == trace.table(
        "cpu_time_total", 3, max_src_column_width=75
    )
    assert profiled.total_average().equals(cudalens.analysis.total_average(trace))
    assert profiled.events().equals(trace.events)
    assert profiled.function_events.equals(trace.events)
    assert profiled.self_cpu_time_total == trace.key_averages()["self_ns"].sum() / 1000
    assert profiled.trace_id == "7"
    written = cudalens.load(profiled.export_chrome_trace(tmp_path / "trace.json"))
    assert (written.events["name"] == "aten::mm").sum() == 3


def test_stacks_are_exported_with_the_metric_of_torch(profiled, tmp_path):
    lines = profiled.export_stacks(tmp_path / "stacks.txt").read_text().splitlines()
    host_ns = sum(int(line.rpartition(" ")[2]) for line in lines)
    assert host_ns == profiled.trace.events["self_dur"].clip(lower=0).sum()
    assert any("work" in line for line in lines)
    with pytest.raises(
        ValueError, match="metric: 'time'; expected one of 'self_cpu_time_total', 'self_cuda_time_total'"
    ):
        profiled.export_stacks(tmp_path / "stacks.txt", "time")
    with profile("no stacks", cpu_only=True, keep=False) as bare:
        work()
    with pytest.raises(ProfilerError, match=r"export_stacks needs cudalens.profile\(stacks=True\)"):
        bare.export_stacks(tmp_path / "stacks.txt")
    assert bare.trace_id is None


def test_results_before_the_end_are_refused():
    p = profile("not entered", cpu_only=True, keep=False)
    for read in (p.table, p.key_averages, p.total_average, p.events, lambda: p.self_cpu_time_total, lambda: p.trace_id):
        with pytest.raises(ProfilerError, match="there is no trace yet"):
            read()


def profile_inside(start):
    torch.eye(3)
    with start():
        torch.zeros(3)


@pytest.mark.parametrize(
    "start", [torch.profiler.profile, torch.autograd.profiler.profile, torch.autograd.profiler.emit_itt]
)
def test_a_torch_profiler_inside_is_refused_and_the_trace_is_kept(start):
    with (
        pytest.raises(ProfilerBusyError, match="cudalens is recording in this process"),
        profile("outer", keep=False) as p,
    ):
        profile_inside(start)
    assert set(p.trace.events["name"]) >= {"aten::eye"}
    assert p.trace.info.status == "raised"
    with torch.profiler.profile() as after:
        torch.zeros(3)
    assert len(after.events()) > 0


def test_a_range_lasts_until_a_future_under_torchs_name():
    future = torch.futures.Future()
    with profile("future", cpu_only=True, keep=False) as p:
        with cudalens.record_function("call") as range_:
            extended = range_._call_end_callbacks_on_future(future)
        torch.eye(3)
        future.set_result(5)
        assert extended.wait() == 5
    events = p.trace.events
    (call,) = events[events["name"] == "call"].itertuples()
    eye = events[events["name"] == "aten::eye"].iloc[0]
    assert call.ts + call.dur > eye["ts"] + eye["dur"]


def test_the_device_of_an_extension_that_is_not_there():
    with (
        pytest.raises(ProfilerError, match="use_device='privateuseone': there is no such device"),
        profile(use_device="privateuseone"),
    ):
        pass


def test_the_averages_of_a_profile_print_torchs_table():
    with cudalens.profile(shapes=True) as profiled:
        torch.ones(4, 4) @ torch.ones(4, 4)
        torch.ones(2, 4) @ torch.ones(4, 4)
    trace = profiled.trace
    assert profiled.key_averages().table(sort_by="cpu_time_total", row_limit=3) == trace.table("cpu_time_total", 3)
    by_shape = profiled.key_averages(group_by_input_shape=True)
    assert by_shape.table(row_limit=5) == trace.table(row_limit=5, by=["name", "input_shapes"])
    assert type(by_shape.sort_values("count")).__name__ == "DataFrame"
