"""Ranks in files and names that are no ranks, names that contradict contents, and ranks that are not there."""

import msgspec
import pytest
from test_ranks import rank_file

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.traces.flight_recorder import read_flight_records


@pytest.mark.parametrize("stated", [-1, 1 << 20, 99_999_999_999])
def test_a_number_that_is_no_rank_is_taken_from_the_name(tmp_path, stated):
    rank_file(tmp_path, 0, name="rank-0.json")
    rank_file(tmp_path, stated, name="rank-1.json")
    assert list(cudalens.load_ranks(tmp_path)) == [0, 1]


def test_a_size_that_no_job_has_is_unknown(tmp_path):
    for rank, size in enumerate((-1, 0, 10**12)):
        rank_file(tmp_path, rank, world=size)
    ranks = cudalens.load_ranks(tmp_path)
    assert [info.world_size for info in ranks.infos.values()] == [None] * 3
    assert ranks.problems == ()


def test_a_number_in_a_name_that_is_no_rank_is_ignored(tmp_path):
    rank_file(tmp_path, 0, name="rank-0.json")
    rank_file(tmp_path, None, name="rank-169412820.json")
    (problem, _) = cudalens.load_ranks(tmp_path).problems
    assert problem.kind == "file that names no rank"


def test_a_selected_rank_is_found_in_a_file_with_another_number(tmp_path):
    for rank in range(3):
        rank_file(tmp_path, rank, name=f"run_{(rank + 1) % 3}.json", world=3)
    for rank in range(3):
        ranks = cudalens.load_ranks(tmp_path, select=[rank])
        assert (list(ranks), ranks.problems) == ([rank], ())


@pytest.mark.parametrize(
    ("select", "words"), [([9], "no file of rank 9 among 2 files of ranks 0 to 1"), ([], "no rank")]
)
def test_a_selected_rank_without_a_file_is_named(tmp_path, select, words):
    for rank in range(2):
        rank_file(tmp_path, rank, name=f"rank-{rank}.json")
    with pytest.raises(TraceFormatError, match=words):
        cudalens.load_ranks(tmp_path, select=select)


@pytest.mark.parametrize("state", [{"world_size": 10**12}, {"groups": {"0": [0, 10**12]}}, {"rank": -1}])
def test_sizes_of_a_job_in_a_state_file_are_bounded(tmp_path, state):
    entry = {"profiling_name": "gloo:all_reduce", "collective_seq_id": 1, "process_group": ["0", "default_pg"]}
    dump = {"entries": [entry | {"time_created_ns": 1}]}
    (tmp_path / "rank_0.dump_1.json").write_bytes(msgspec.json.encode(dump))
    plain = {"rank": 0, "world_size": 2, "written_ns": 2}
    (tmp_path / "rank_0.dump_1.state.json").write_bytes(msgspec.json.encode(plain | state))
    (problem,) = read_flight_records(tmp_path).problems
    assert "Expected `int`" in problem.where


def test_the_name_of_a_job_is_that_of_the_folder(tmp_path):
    from fsspec.implementations.memory import MemoryFileSystem

    path = rank_file(tmp_path, 0, name="rank-0.json", world=1)
    MemoryFileSystem().pipe_file("/odd-job/rank-0.json", path.read_bytes())
    for source in (
        "memory://odd-job",
        "memory://odd-job/",
        "memory://odd-job/*.json",
        ["memory://odd-job/rank-0.json"],
    ):
        assert cudalens.load_ranks(source).name == "odd-job"
    assert cudalens.load_ranks([path]).name == tmp_path.name


def test_a_store_beside_the_files_is_no_rank(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        rank_file(tmp_path / f"rank{rank}", rank, name="trace.json")
    for _ in range(2):
        ranks = cudalens.load_ranks(
            (tmp_path / f"rank{rank}/trace.json" for rank in range(2)), store=tmp_path / "store"
        )
        assert (list(ranks), ranks.name) == ([0, 1], tmp_path.name)
    assert cudalens.load_ranks(tmp_path).problems == ()
    with pytest.raises(TraceFormatError, match=r"Ranks\.open opens it"):
        cudalens.load_ranks(tmp_path / "store")
