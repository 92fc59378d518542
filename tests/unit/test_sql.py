"""SQL queries over a trace and over the ranks of a job, and the verbs ``query`` and ``diff-memory``."""

import json

import pytest
from test_main_files import chrome

import cudalens
from cudalens.__main__ import main
from cudalens.errors import QueryError
from cudalens.frames import Ranks

pytest.importorskip("duckdb")
BY_NAME = "SELECT name, count(*) AS times, sum(dur) AS ns FROM events GROUP BY name ORDER BY name"


@pytest.fixture
def trace(tmp_path):
    return cudalens.load(chrome(tmp_path / "run.json", 100, steps=3))


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        path = chrome(folder / f"rank{rank}.json", 100 + rank, steps=3)
        content = json.loads((folder / f"rank{rank}.json").read_text())
        (folder / f"rank{rank}.json").write_text(
            json.dumps(content | {"distributedInfo": {"rank": rank, "world_size": 2}})
        )
        assert path
    return cudalens.load_ranks(folder, store=tmp_path / "store")


def test_frames_are_tables_and_rows_have_their_numbers(trace):
    found = trace.sql(BY_NAME)
    assert found["times"].tolist() == [1, 1, 1, 3]
    joined = trace.sql("SELECT c.name, p.name AS above FROM events c JOIN events p ON c.parent = p.row ORDER BY c.row")
    events = trace.events
    inner = events[events["parent"].notna()]
    assert joined["above"].tolist() == [events["name"].iloc[row] for row in inner["parent"]]


def test_a_missing_value_is_null(trace):
    assert trace.sql("SELECT count(*) AS n FROM events WHERE device IS NULL")["n"].tolist() == [len(trace)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM nothing",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM trace",
        "COPY events TO '{file}.csv'",
        "SET enable_external_access = true",
        "CREATE TABLE mine (a INTEGER)",
        "SELECT 1; SELECT 2",
        "SELECT FROM FROM",
        "",
    ],
)
def test_a_query_sees_nothing_but_the_frames(trace, tmp_path, query):
    with pytest.raises(QueryError):
        trace.sql(query.format(file=tmp_path / "run.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json"]


def test_a_store_is_read_as_it_is(store):
    """With the same result as the traces of the ranks, and nothing beside the store."""
    by_rank = "SELECT rank, max(row) AS last, sum(dur) AS ns FROM events GROUP BY rank ORDER BY rank"
    found = store.sql(by_rank)
    assert found["ns"].tolist() == [int(trace.events["dur"].sum()) for trace in store.values()]
    in_memory = Ranks(dict(store), name="job")
    assert found.equals(in_memory.sql(by_rank))
    assert store.sql("SELECT rank FROM summary ORDER BY rank")["rank"].tolist() == [0, 1]
    with pytest.raises(QueryError, match="Permission"):
        store.sql(f"SELECT * FROM read_text('{store.source.url}/../job/rank0.json')")


def test_the_verb_prints_a_table_csv_and_json(tmp_path, store, capsys):
    path = chrome(tmp_path / "run.json", 100, steps=3)
    assert main(["query", path, BY_NAME]) == 0
    assert "ProfilerStep#0" in capsys.readouterr().out
    assert main(["query", path, BY_NAME, "--json"]) == 0
    assert [row["times"] for row in json.loads(capsys.readouterr().out)] == [1, 1, 1, 3]
    assert main(["query", str(tmp_path / "store"), "SELECT count(DISTINCT rank) AS ranks FROM events", "--csv"]) == 0
    assert capsys.readouterr().out == "ranks\n2\n"
    assert main(["query", path, "SELECT * FROM kernels"]) == 3
    assert "events" in capsys.readouterr().err


def test_memory_of_two_files_without_blocks_is_refused(tmp_path, capsys):
    path = chrome(tmp_path / "run.json", 100)
    assert main(["diff-memory", path, path]) == 3
    assert "no memory blocks" in capsys.readouterr().err
