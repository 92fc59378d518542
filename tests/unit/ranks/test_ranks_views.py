"""The pictures of a job, offline and live, and the modelled bandwidth beside the measured one."""

import jobs
import pytest
from jobs import Job, Plant

import cudalens
from cudalens.views.ranks import pictures
from cudalens.views.sections.markup import Node


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    job = Job(data=3, steps=4, plants=(Plant("rank", 2, "aten::mm", 1.5),))
    return cudalens.load_ranks(jobs.simulate(job).write(tmp_path_factory.mktemp("job")))


@pytest.fixture
def parts(ranks):
    """The controls and pictures of the live view, by what they are."""
    ipywidgets = pytest.importorskip("ipywidgets")
    box = ranks.widget()
    _, heat, row, timeline, collective, fan, scatter = box.children
    yield {
        "heat": heat, "step": row.children[0], "ranks": row.children[1], "timeline": timeline,
        "collective": collective, "fan": fan, "scatter": scatter,
    }  # fmt: skip
    box.close()
    assert isinstance(heat, ipywidgets.HTML)


def test_the_live_view_draws_the_step_and_the_ranks_that_are_chosen(ranks, parts):
    assert list(parts["step"].options) == [0, 1, 2, 3]
    assert list(parts["ranks"].value) == [0, 1, 2]
    for step in (0, 3):
        parts["step"].value = step
        assert f"Step {step} of 3 ranks" in parts["timeline"].value
    parts["ranks"].value = (1,)
    assert "Step 3 of 1 ranks" in parts["timeline"].value
    assert "rank 1: work runs" in parts["timeline"].value
    assert "rank 2: work runs" not in parts["timeline"].value


def test_compute_is_drawn_as_the_time_in_which_it_runs(ranks):
    """Not as the time between two communications, most of which can be idle: the area of the dark bars is the union."""
    for rank, trace in ranks.items():
        work = trace.events[trace.events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
        work = work[(work["step"] == 2).fillna(False) & ~work["name"].str.contains("nccl")]
        covered, reached = 0, 0
        for start, end in sorted(zip(work["ts"], work["ts"] + work["dur"], strict=True)):
            covered += max(0, end - max(start, reached))
            reached = max(reached, end)
        picture = pictures.merged_timeline(ranks, step=2, chosen=[rank])
        bars = [node.attributes for node in picture.children if isinstance(node, Node) and node.tag == "rect"]
        area = sum(float(bar["width"]) * float(bar["height"]) for bar in bars if bar.get("fill-opacity") == ".85")
        pieces = ranks.frames["stretches"]
        mine = pieces[(pieces["rank"] == rank) & (pieces["step"] == 2)]
        assert int(mine["busy_ns"].sum()) == covered
        whole = sum(float(bar["width"]) for bar in bars if bar.get("fill-opacity") == ".15") * 10.5
        assert area / whole == pytest.approx(covered / int((mine["end_ns"] - mine["start_ns"]).sum()), abs=0.02)


def test_the_live_view_draws_the_collective_that_is_chosen(ranks, parts):
    options = parts["collective"].options
    assert options[0][0].startswith("allreduce of ")
    found = ranks.analysis.collectives
    for label, match in options[:2]:
        parts["collective"].value = match
        step = found.loc[found["match"] == match, "step"].iloc[0]
        assert f"step {step}" in label
        assert f"in step {step}" in parts["fan"].value


def test_the_page_has_the_timelines_of_the_slowest_steps_folded(ranks):
    page = ranks.summary()._repr_html_()
    steps = ranks.analysis.steps.groupby("step")["step_ns"].max()
    assert f"Step {steps.idxmax()} of 3 ranks" in page
    assert "<details" in page
    assert "<script" not in page


def test_curves_of_a_calibrated_gpu_are_those_of_the_model(ranks):
    curves = ranks.transfer_curves
    assert set(curves["kind"]) == {"allreduce"}
    row = curves[curves["num_bytes"] == 16 << 20].iloc[0]
    ns = cudalens.virtual.collective_time("h100", "all_reduce", 3, 16 << 20)
    assert row["bus_bytes_per_s"] == pytest.approx((16 << 20) / ns * 1e9 * 4 / 3)
    assert "dashed: modelled for NVIDIA H100" in ranks.summary()._repr_html_()


def test_an_unknown_gpu_has_no_curve_and_a_cut_trace_is_named(tmp_path):
    folder = jobs.simulate(Job(data=2, steps=2)).write(tmp_path)
    for rank in range(2):
        path = folder / f"rank-{rank}.json"
        text = path.read_text().replace("NVIDIA H100 80GB HBM3", "Voodoo2")
        path.write_text(text[: len(text) * 9 // 10] if rank == 1 else text)
    ranks = cudalens.load_ranks(folder)
    assert "the trace of rank 1 is partial: see ranks[1].trust()" in str(ranks.summary())
    assert "1 problem in the files" in ranks.summary().verdict
    first = folder / "rank-0.json"
    first.write_text(first.read_text()[: len(text) * 9 // 10])
    both = cudalens.load_ranks(folder)
    assert "the traces of ranks 0 to 1 are partial: see ranks[0].trust()" in str(both.summary())
    assert not len(ranks.transfer_curves)
    assert "dashed" not in ranks.summary()._repr_html_()
