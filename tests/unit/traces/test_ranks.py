"""Folders with a trace of each rank of a job, intact and damaged."""

import pytest
from chrome import RECORDED, kernel, launch, needs_recorded, op, write

import cudalens
from cudalens.errors import TraceFormatError

NOW_US = 1_700_000_000_000_000


def rank_file(folder, rank, *, name=None, world=2, at_us=0, **job):
    around = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, **job}}
    events = [op(NOW_US + at_us, 90), launch(NOW_US + at_us + 5, 4, 1), kernel(NOW_US + at_us + 20, 50, correlation=1)]
    return write(folder / (name or f"host_{rank}.pt.trace.json.gz"), events, **around)


def kinds(ranks):
    return {problem.kind: problem.count for problem in ranks.problems}


def test_ranks_come_in_order_of_what_the_files_state(tmp_path):
    rank_file(tmp_path, 1, name="a.json")
    rank_file(tmp_path, 0, name="b.json.gz")
    (tmp_path / "notes.md").write_text("not a trace")
    ranks = cudalens.load_ranks(tmp_path)
    assert list(ranks) == [0, 1]
    assert (ranks.name, ranks.problems) == (tmp_path.name, ())
    assert [trace.info.rank for trace in ranks.values()] == [0, 1]
    assert cudalens.analysis.key_averages(ranks[0]).shape[0] == 3


@pytest.mark.parametrize(
    "names",
    [
        ("rank-0.json", "rank-1.json"),
        ("sampled_rank_0.json.gz", "sampled_rank_1.json.gz"),
        ("dlrm_worker0_step_12.1694128201545.pt.trace.json", "dlrm_worker1_step_12.1694128201556.pt.trace.json"),
        ("run.0.json", "run.1.json"),
    ],
)
def test_a_rank_that_is_missing_in_the_file_is_in_its_name(tmp_path, names):
    for at, name in enumerate(names):
        rank_file(tmp_path, None, name=name, at_us=at)
    ranks = cudalens.load_ranks(tmp_path)
    assert {rank: trace.info.name for rank, trace in ranks.items()}.keys() == {0, 1}
    assert [trace.events["ts"].min() for trace in ranks.values()] == [NOW_US * 1000, NOW_US * 1000 + 1000]
    assert ranks.problems == ()


def test_files_in_folders_of_their_own(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        rank_file(tmp_path / f"rank{rank}", None, name="trace.json")
    assert list(cudalens.load_ranks(tmp_path)) == [0, 1]


def test_a_missing_rank_is_counted(tmp_path):
    for rank in (0, 2):
        rank_file(tmp_path, rank, world=4)
    ranks = cudalens.load_ranks(tmp_path)
    assert list(ranks) == [0, 2]
    (problem,) = ranks.problems
    assert (problem.kind, problem.count, problem.where) == ("rank without a file", 2, "rank 1, 3 of 4")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"world": 8}, "8 ranks, the others have 3 ranks"),
        ({"world": 3, "pg_config": [{"pg_desc": "default_pg", "ranks": [0, 1, 5]}]}, "default process group"),
        ({"world": 3, "at_us": 3_600_000_000}, "starts +3600 s from the others"),
    ],
)
def test_a_file_of_another_job_is_left_out(tmp_path, other, words):
    group = {"pg_config": [{"pg_desc": "default_pg", "ranks": [0, 1, 2]}]}
    for rank in (0, 2):
        rank_file(tmp_path, rank, world=3, **group)
    rank_file(tmp_path, 1, **(group | other))
    ranks = cudalens.load_ranks(tmp_path)
    assert list(ranks) == [0, 2]
    assert kinds(ranks) == {"file of another job": 1, "rank without a file": 1}
    assert words in ranks.problems[0].where
    assert "host_1.pt.trace.json.gz" in ranks.problems[0].where


def test_clocks_of_hosts_may_differ_a_little(tmp_path):
    rank_file(tmp_path, 0)
    rank_file(tmp_path, 1, at_us=5_000_000)
    assert kinds(cudalens.load_ranks(tmp_path)) == {}


def test_two_files_of_one_rank(tmp_path):
    rank_file(tmp_path, 0, name="a.json")
    rank_file(tmp_path, 1, name="b.json")
    rank_file(tmp_path, 1, name="c.json", at_us=10)
    ranks = cudalens.load_ranks(tmp_path)
    assert kinds(ranks) == {"second file of one rank": 1}
    assert ranks[1].info.name == "b"
    assert "'c.json' is of rank 1, as 'b.json' is" in ranks.problems[0].where


def test_damaged_files_are_counted_and_the_others_kept(tmp_path):
    whole = rank_file(tmp_path, 0)
    cut = rank_file(tmp_path, 1)
    cut.write_bytes(cut.read_bytes()[:10])
    (tmp_path / "empty.json").write_bytes(b"")
    ranks = cudalens.load_ranks(tmp_path)
    assert list(ranks) == [0]
    assert kinds(ranks) == {"file that cannot be read": 2, "rank without a file": 1}
    assert ranks[0].info.name == whole.name.removesuffix(".pt.trace.json.gz")


def test_a_file_that_names_no_rank(tmp_path):
    rank_file(tmp_path, 0)
    rank_file(tmp_path, None, name="trace.json")
    assert kinds(cudalens.load_ranks(tmp_path)) == {"file that names no rank": 1, "rank without a file": 1}


def test_nothing_usable_is_an_error_that_states_what_was_there(tmp_path):
    with pytest.raises(TraceFormatError, match="no file whose name ends in"):
        cudalens.load_ranks(tmp_path)
    (tmp_path / "rank0.json").write_text("{")
    with pytest.raises(TraceFormatError, match="no usable trace of a rank among 1 file; first: file that cannot"):
        cudalens.load_ranks(tmp_path)
    with pytest.raises(TraceFormatError, match=r"cudalens\.load reads one file"):
        cudalens.load_ranks(tmp_path / "rank0.json")
    with pytest.raises(TraceFormatError, match="found nothing"):
        cudalens.load_ranks(tmp_path / "absent")


def test_load_states_what_reads_a_folder(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]')
    with pytest.raises(TraceFormatError, match=r"2 traces .*cudalens\.load_ranks"):
        cudalens.load(tmp_path)


@needs_recorded
def test_half_of_a_recorded_job():
    ranks = cudalens.load_ranks(RECORDED / "param_dlrm8")
    assert list(ranks) == [0, 1, 2, 3]
    assert [len(trace) for trace in ranks.values()] == [len(cudalens.load(path)) for path in sorted_files()]
    assert kinds(ranks) == {"rank without a file": 4}
    assert ranks.problems[0].where == "rank 4, 5, 6, 7 of 8"


def sorted_files():
    return sorted((RECORDED / "param_dlrm8").iterdir())


@needs_recorded
def test_two_recorded_ranks_of_many(tmp_path):
    for name in ("timeline_analysis__sampled_rank-0.json.gz", "trace_filter__sampled_rank-1.json.gz"):
        (tmp_path / name).symlink_to(RECORDED / "hta" / name)
    ranks = cudalens.load_ranks(tmp_path)
    assert list(ranks) == [0, 1]
    assert kinds(ranks) == {"rank without a file": 126}
