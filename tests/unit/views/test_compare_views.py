"""A comparison in words, as a page and as a figure."""

import re

import pandas as pd
import pytest
from sample_traces import HOSTILE, LONG_KERNEL, gpu_bound_trace, gpu_trace, wide_trace

import cudalens
from cudalens.errors import OutputError
from cudalens.frames import RunInfo, Trace
from cudalens.views import assets
from cudalens.views.compare.changes import BETTER, UNSURE, WORSE, changes_section, names
from cudalens.views.compare.comparison import compare
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text


def slower(trace, factor, **info):
    """`trace` with all times multiplied."""
    events = trace.events
    start = int(events["ts"].min())
    times = {"ts": start + (events["ts"] - start) * factor, "dur": events["dur"] * factor}
    times["self_dur"] = events["self_dur"] * factor
    return trace.replace(events=events.assign(**times), info=trace.info.replace(**info))


def runs(trace):
    """Three runs without noise between them."""
    return [trace, trace, trace]


class TestVerdict:
    def test_slower(self):
        found = compare(runs(gpu_trace(6)), runs(slower(gpu_trace(6), 2, name="twice")))
        assert found.verdict.startswith("twice takes 2 times as long (900 µs → 1.80 ms a step, 99 % interval 2 times)")
        assert "most from ampere_sgemm_128x64_tn (+" in found.verdict

    def test_faster(self):
        found = compare(runs(slower(gpu_trace(6), 2, name="twice")), runs(gpu_trace(6)))
        assert found.verdict.startswith("cell-3 is 2 times as fast (1.80 ms → 900 µs a step, 99 % interval 2 times)")

    def test_one_run_on_a_side_shows_no_noise_between_runs(self):
        for sides in (
            (gpu_trace(6), slower(gpu_trace(6), 2, name="b")),
            ([gpu_trace(6)] * 3, slower(gpu_trace(6), 2, name="b")),
        ):
            found = compare(*sides)
            assert found.verdict.startswith(
                "b took 2 times as long in these runs (900 µs → 1.80 ms a step); noise between runs is not included "
                "(give several runs a side); most from ampere_sgemm_128x64_tn (+"
            )
            assert "so nothing is claimed beyond these runs" in str(found)

    def test_much_slower_is_said_in_times(self):
        found = compare(runs(gpu_trace(6)), runs(slower(gpu_trace(6), 10, name="slow")))
        assert "slow takes 10 times as long (900 µs → 9.00 ms a step, 99 % interval 10 times)" in found.verdict

    def test_no_change(self):
        assert compare(gpu_trace(4), gpu_trace(4)).verdict == "no change: 900 µs a step in both"

    def test_unknown_noise(self):
        verdict = compare(gpu_trace(1), slower(gpu_trace(1), 2, name="b")).verdict
        assert verdict.startswith(
            "b took 2 times as long (900 µs → 1.80 ms a step), but noise is unknown: each side has"
        )
        assert "cell-3 has one step" in compare(gpu_trace(1), slower(gpu_trace(5), 2, name="b")).verdict

    def test_steps_that_vary_widely_give_a_range_of_multiples(self):
        calm = gpu_trace(3)
        wild = slower(calm, 1, name="wild")
        steps = wild.events.index[wild.events["name"].astype(str).str.startswith("ProfilerStep#")]
        events = wild.events.copy()
        events.loc[steps, "dur"] = [200_000, 1_500_000, 90_000_000]
        verdict = compare(calm, wild.replace(events=events)).verdict
        assert re.search(
            r"no change beyond noise: 900 µs → 1\.50 ms a step \(they vary so much that (0\.\d+|near 0) to over 99 "
            r"times as long is possible, profile more repeats to find out\)",
            verdict,
        ), verdict

    def test_the_hosts_calls_are_named_where_the_gpu_did_not_change(self):
        a = gpu_trace(1)
        events = a.events.copy()
        call = events.index[events["cat"] == "cuda_runtime"][0]
        events.loc[call, ["dur", "self_dur"]] += 900_000
        step = events.index[events["name"].astype(str).str.startswith("ProfilerStep#")][0]
        events.loc[step, "dur"] += 900_000
        verdict = compare(a, a.replace(events=events, info=a.info.replace(name="b"))).verdict
        name = events["name"].loc[call]
        assert f"most from {name} on the host (+900 µs)" in verdict

    def test_the_largest_change_is_named_wherever_it_is(self):
        """A call of the host lost 3 ms, a memset 135 µs."""
        a = gpu_trace(4)
        events = a.events.copy()
        calls = events.index[events["cat"] == "cuda_runtime"]
        events.loc[calls, ["dur", "self_dur"]] += 3_000_000
        memset = events.index[events["cat"] == "gpu_memcpy"]
        events.loc[memset, ["dur", "self_dur"]] += 135_000
        steps = events.index[events["name"].astype(str).str.startswith("ProfilerStep#")]
        events.loc[steps, "dur"] += 3_000_000
        b = a.replace(events=events, info=a.info.replace(name="b"))
        assert "most from cudaLaunchKernel on the host (+" in compare(a, b).verdict

    def test_a_slower_kernel_is_named_where_the_step_did_not_change(self):
        a = gpu_trace(4)
        events = a.events.copy()
        kernels = events.index[events["name"] == "ampere_sgemm_128x64_tn"]
        events.loc[kernels, ["dur", "self_dur"]] = (events.loc[kernels, ["dur", "self_dur"]] * 1.1).astype("int64")
        b = a.replace(events=events, info=a.info.replace(name="b"))
        verdict = compare(runs(a), runs(b)).verdict
        assert (
            verdict == "no change: 900 µs a step in both; 1 kernel and 1 operator or call changed, most "
            "ampere_sgemm_128x64_tn (+40.1 µs, +10 %)"
        )

    def test_stacks_on_one_side_make_host_times_not_comparable(self):
        a = gpu_trace(4)
        events = slower(a, 2).events
        first = events["cat"].astype(str).mask(events.index == events.index[events["cat"] == "user_annotation"][-1])
        events["cat"] = pd.Categorical(first.fillna("python_function"))
        b = slower(a, 2, name="b").replace(events=events)
        found = compare(runs(a), runs(b))
        assert "only one side was recorded with Python stacks" in found.verdict
        assert "only 'b' was recorded with Python stacks: host times are not comparable" in str(found)
        assert not set(found.ops[found.ops["where"] == "host"]["status"]) & {"faster", "slower"}
        assert "slower" in set(found.kernels["status"])

    def test_a_gpu_on_one_side_alone(self):
        gpu = gpu_trace(4)
        host = gpu.events[gpu.events["device"].isna()].reset_index(drop=True)
        host = host.assign(dur=host["dur"] * 2, launch=pd.NA, parent=pd.NA)
        cpu = gpu.replace(events=host.astype(gpu.events.dtypes.to_dict()), info=gpu.info.replace(name="host"))
        verdict = compare(runs(gpu), runs(cpu)).verdict
        assert verdict.startswith("host takes 2 times as long")
        assert verdict.endswith("only one of them used the GPU")

    def test_simulated_times_say_so(self):
        model = slower(gpu_trace(4), 1, name="model", source="virtual:h100")
        assert compare(model, model).verdict.startswith("[simulated: h100] no change")
        mixed = compare(model, gpu_trace(4))
        assert mixed.verdict.startswith("[model is simulated (h100), the other was measured] ")
        assert "'model' is simulated and 'cell-3' was measured" in str(mixed)

    def test_memory_is_reported(self):
        a, b = gpu_trace(4), gpu_trace(4)
        b = b.replace(memory=b.memory.assign(allocated_bytes=b.memory["allocated_bytes"] * 4))
        found = compare(a, b)
        assert "peak memory 4.00 MiB → 16.0 MiB (cuda:0)" in found.verdict
        assert "no change" in found.verdict


class TestText:
    def test_changes_are_in_tables(self):
        renamed = str(compare(gpu_trace(5), slower(gpu_trace(5, kernel="hopper"), 2, name="b")))
        assert "ampere_sgemm_128x64_tn → hopper" in renamed
        text = str(compare(gpu_trace(5), slower(gpu_trace(5, mm="aten::bmm"), 2, name="b")))
        assert re.search(r"^aten::bmm +device .*added +0 → 1$", text, re.MULTILINE)
        assert re.search(r"^aten::copy_ +host .*2x +1$", text, re.MULTILINE)

    def test_nothing_but_the_answer_where_nothing_changed(self):
        text = str(compare(gpu_trace(5), gpu_trace(5)))
        assert len(text.splitlines()) == 2
        assert "5 and 5 steps; medians" in text

    def test_equal_names_get_a_letter(self):
        found = compare(gpu_trace(2), gpu_trace(2))
        assert names(found.differences) == ("cell-3 (a)", "cell-3 (b)")

    def test_long_tables_are_cut_and_counted(self):
        found = compare(wide_trace(2000), slower(wide_trace(2000), 2, name="b"))
        table = changes_section(found.differences, "kernels")
        hidden = len(found.kernels) - 12
        assert hidden > 100
        assert f"and {hidden} other kernels" in to_text(table)
        assert len(to_text(table).splitlines()) == 1 + 2 + 12 + 1
        assert to_html(table).count("<tr>") == 1 + 25


class TestPage:
    @pytest.fixture
    def page(self):
        return compare(gpu_trace(5), slower(gpu_trace(5, mm=HOSTILE, kernel=HOSTILE), 2, name=HOSTILE))._repr_html_()

    def test_foreign_text_is_escaped(self, page):
        assert "<img" not in page
        assert "</script>" not in page
        assert "&lt;img" in page

    def test_needs_nothing_else(self):
        page = compare(gpu_trace(5), slower(gpu_trace(5), 2, name="b"))._repr_html_()
        assert not re.search(r"(src|href)=|@import|url\(", page)
        assert assets.style("compare") in page

    def test_both_timelines_are_on_one_axis(self):
        page = compare(gpu_trace(5), slower(gpu_trace(5), 2, name="b"))._repr_html_()
        picture = page[page.index("<svg") : page.index("</svg>")]
        assert "a: cell-3" in picture
        assert "b: b" in picture
        ends = [
            float(x) for x in re.findall(r'd="M([\d.]+) \d+V\d+" stroke="currentColor" stroke-opacity="\.6"', picture)
        ]
        assert (ends[0] - 150) * 2 == pytest.approx(ends[1] - 150, abs=1)

    @pytest.mark.parametrize("window", [(0, 7_000_000), (0, None), (None, 7_000_000)])
    def test_a_window_of_another_clock_is_not_on_the_axis_of_the_events(self, window):
        def without_window(trace, window=(None, None)):
            return trace.replace(info=trace.info.replace(started_ns=window[0], ended_ns=window[1]))

        sides = gpu_bound_trace(), slower(gpu_bound_trace(), 2, name="b")
        pages = [compare(*(without_window(run, chosen) for run in sides)) for chosen in (window, (None, None))]
        shown, expected = (re.findall(r"<svg.*?</svg>", page._repr_html_(), re.DOTALL)[0] for page in pages)
        assert shown == expected

    def test_is_written_whole_or_not_at_all(self, tmp_path):
        found = compare(gpu_trace(3), slower(gpu_trace(3), 2, name="<b>"))
        text = found.to_html(tmp_path / "x.html").read_text()
        assert text.startswith("<!doctype html>")
        assert "<title>&lt;b&gt; against cell-3</title>" in text
        assert "prefers-color-scheme: dark" in text
        with pytest.raises(OutputError):
            found.to_html(tmp_path / "missing" / "x.html")

    def test_without_events(self):
        trace = gpu_trace(2)
        memory = trace.memory.assign(event=pd.array([None] * len(trace.memory), dtype="Int64"))
        memory = Trace(RunInfo(name="x", source="cpu"), memory=memory)
        assert "<svg" not in compare(memory, memory)._repr_html_()


class TestFigure:
    def test_bars_are_the_changes(self):
        a, b = runs(gpu_trace(5)), runs(slower(gpu_trace(5), 2, name="b"))
        drawn = compare(a, b).figure()
        (bar,) = drawn.data
        assert (bar.type, bar.marker.color, bar.name) == ("bar", WORSE, "more")
        assert sorted(bar.x) == pytest.approx([0.02, 0.03, 0.402])
        assert LONG_KERNEL[:40] in " ".join(bar.customdata)
        assert "b takes 2 times as long" in drawn.layout.title.text

    def test_through_the_trace(self):
        a, b = gpu_trace(5), slower(gpu_trace(5), 2, name="b")
        assert b.figure("compare", other=a).data[0].marker.color == UNSURE
        assert compare(runs(b), runs(a)).figure().data[0].marker.color == BETTER
        assert gpu_trace(1).figure("compare", other=slower(gpu_trace(1), 2)).data[0].marker.color == UNSURE
        assert not a.figure("compare", other=a).data
        with pytest.raises(ValueError, match="expected one of"):
            a.figure("compare", other=b, by="colour")


def test_kernels_are_shown_by_what_differs_and_named_in_full_on_hover():
    kernel = "void cudnn::cnn::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, float const*, int)"
    html = compare(runs(gpu_trace(6, kernel=kernel)), runs(slower(gpu_trace(6, kernel=kernel), 2)))._repr_html_()
    assert '<span title="void cudnn::cnn::dgrad_engine&lt;float, 512' in html
    assert ">dgrad_engine</span>" in html


def test_autograd_ranges_are_shown_without_their_namespace():
    name = "autograd::engine::evaluate_function: AddmmBackward0"
    html = compare(runs(gpu_trace(6, mm=name)), runs(slower(gpu_trace(6, mm=name), 2)))._repr_html_()
    assert f'<span title="{name}">evaluate_function: AddmmBackward0</span>' in html


def test_the_frames_are_copies():
    found = cudalens.compare(gpu_trace(3), gpu_trace(3))
    ops = found.ops
    ops["mine"] = 1
    assert "mine" not in found.ops
    assert list(found.modules.columns) == list(found.ops.columns)
