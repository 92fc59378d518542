"""`to_hta`: HTA's columns, and rank files that HTA itself opens, if HTA is installed."""

import json
import subprocess
from pathlib import Path

import pytest
from chrome import RECORDED, kernel, launch, load_events, needs_recorded, op

import cudalens
from cudalens.errors import OutputError
from cudalens.frames import Ranks, RunInfo, Trace
from cudalens.traces.export.hta import to_hta

HTA = Path(__file__).parents[3] / ".venv-hta" / "bin" / "python"
needs_hta = pytest.mark.skipif(not HTA.exists(), reason=f"HolisticTraceAnalysis is not installed at {HTA.parents[1]}")


@pytest.fixture
def trace(tmp_path):
    step = op(0, 50, "ProfilerStep#3", cat="user_annotation")
    work = kernel(8.25, 4.5, correlation=5, bytes=9_000, cat="gpu_memcpy")
    lost = kernel(30, 1, correlation=77)
    return load_events(tmp_path, [step, op(1.125, 9), launch(2, 3, 5), work, lost])


def test_columns_are_htas(trace):
    found = trace.to_hta()
    frame = found.decoded(0)
    assert frame["s_name"].tolist()[:3] == ["ProfilerStep#3", "aten::add", "cudaLaunchKernel"]
    assert frame["s_cat"].tolist()[3:] == ["gpu_memcpy", "kernel"]
    assert frame["ts"].tolist() == [0.0, 1.125, 2.0, 8.25, 30.0]
    assert frame["end"].tolist() == [50.0, 10.125, 5.0, 12.75, 31.0]
    assert frame["stream"].tolist() == [-1, -1, -1, 7, 7]
    assert (frame["pid"].tolist(), frame["tid"].tolist()) == ([10, 10, 10, 0, 0], [11, 11, 11, 7, 7])
    assert frame["correlation"].tolist() == [-1, -1, 5, 5, 77]
    assert frame["index_correlation"].tolist() == [-1, -1, 3, 2, 0]
    assert frame["iteration"].tolist()[:4] == [3, 3, 3, 3]
    assert frame["memory_bw_gbps"].tolist() == [0, 0, 0, 2.0, 0]
    assert frame["input_dims"].tolist() == ["-1"] * 5
    assert sorted(found.symbol_table.get_sym_table()) == found.symbol_table.sym_table


def test_ranks_share_symbols_and_a_clock(tmp_path):
    first = load_events(tmp_path, [op(100, 9, "a")])
    second = load_events(tmp_path, [op(103, 9, "b")])
    found = to_hta(Ranks({4: second, 0: first}, name="job"))
    assert found.get_ranks() == [0, 4]
    assert [found.get_trace(rank)["ts"].tolist() for rank in (0, 4)] == [[0.0], [3.0]]
    assert found.decoded(4)["s_name"].tolist() == ["b"]
    with pytest.raises(KeyError, match="there are: 0, 4"):
        found.get_trace(7)


def test_rank_files(tmp_path, trace):
    folder = to_hta(Ranks({0: trace, 3: trace}, name="job"), tmp_path / "job")
    assert sorted(file.name for file in folder.iterdir()) == ["rank-0.json.gz", "rank-3.json.gz"]
    again = cudalens.load(folder / "rank-3.json.gz")
    assert again.info.rank == 3
    assert again.events["name"].tolist() == trace.events["name"].tolist()
    to_hta(Ranks({0: trace, 3: trace}, name="job"), folder)  # the same files are replaced


def test_a_folder_with_other_traces_is_refused(tmp_path, trace):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "other.json").write_text("{}")
    with pytest.raises(OutputError, match=r"other\.json"):
        trace.to_hta(folder)
    assert [file.name for file in folder.iterdir()] == ["other.json"]


def test_nothing_to_write(tmp_path):
    with pytest.raises(ValueError, match="no rank"):
        to_hta(Ranks({}, name="job"))
    found = Trace(RunInfo(name="none", source="cpu")).to_hta()
    assert len(found.get_trace(0)) == 0


@needs_recorded
@needs_hta
def test_hta_opens_the_folder_and_finds_the_same(tmp_path):
    trace = cudalens.load(RECORDED / "hta" / "trace_diff__control.json.gz")
    folder = trace.to_hta(tmp_path / "job")
    program = (
        "import json, logging, sys; logging.disable(50)\n"
        "from hta.common.trace import Trace\n"
        "t = Trace(trace_dir=sys.argv[1]); t.parse_traces(use_multiprocessing=False)\n"
        "d = t.get_trace(t.get_ranks()[0])\n"
        "names = t.symbol_table.get_sym_table(); d = d.sort_index()\n"
        "print(json.dumps([[names[n], int(s), int(c), int(i)] for n, s, c, i in"
        " zip(d['name'], d['stream'], d['correlation'], d['iteration'])]))\n"
    )
    done = subprocess.run([HTA, "-c", program, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    found = trace.to_hta()
    ours = found.decoded(found.get_ranks()[0])
    assert [row[0] for row in theirs] == ours["s_name"].tolist()
    assert [row[1] for row in theirs] == ours["stream"].tolist()
    assert [row[2] for row in theirs] == ours["correlation"].tolist()
