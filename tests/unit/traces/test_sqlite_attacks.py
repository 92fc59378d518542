"""SQLite files that are broken, half-written, in use, or malicious."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from budget import examples
from chrome import column, problems
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlite_files import execute, nsys_call, nsys_file, nsys_kernel, nvprof_file, strings, write_tables

from cudalens.errors import CudalensError, TraceFormatError
from cudalens.traces import load

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def test_a_file_of_another_kind_is_called_by_its_tables(tmp_path):
    path = write_tables(tmp_path / "a.sqlite", {"users": [{"id": 1}], "posts": [{"id": 1}]})
    with pytest.raises(TraceFormatError, match=r"other tables \(posts, users\).*nsys export --type sqlite"):
        load(path)


def test_a_database_without_tables(tmp_path):
    path = tmp_path / "a.sqlite"
    execute(path, "CREATE TABLE a (b)", "DROP TABLE a")
    with pytest.raises(TraceFormatError, match="without tables"):
        load(path)


@pytest.mark.parametrize("size", [17, 99, 100, 4096, -4096, -1])
def test_a_file_that_is_cut_short(tmp_path, size):
    path = nsys_file(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(TraceFormatError) as raised:
        load(path)
    assert str(path) in str(raised.value)


def test_a_file_that_only_begins_like_one(tmp_path):
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8192)
    with pytest.raises(TraceFormatError, match="cannot be read"):
        load(path)


@settings(max_examples=examples(50), phases=(Phase.explicit, Phase.generate))
@given(data=st.data())
def test_damage_anywhere_is_an_error_of_ours_or_counted(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    path = nsys_file(folder)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 12))):
        raw[data.draw(st.integers(100, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    with suppress(CudalensError):
        load(path)
    assert [entry.name for entry in folder.iterdir()] == [path.name]


def test_a_hot_journal_beside_it(tmp_path):
    path = nsys_file(tmp_path)
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + b"\0" * 500)
    with pytest.raises(TraceFormatError, match=r"incomplete file.*-journal"):
        load(path)
    journal.write_bytes(b"")  # what a finished writer leaves
    assert len(load(path)) == 3
    assert journal.exists()


def test_a_log_that_was_not_written_back(tmp_path):
    path = nsys_file(tmp_path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO StringIds VALUES (99, 'more')")
        writer.commit()
        with pytest.raises(TraceFormatError, match=r"incomplete file.*-wal.*wal_checkpoint"):
            load(path)
    before = sorted(entry.name for entry in tmp_path.iterdir())
    assert len(load(path)) == 3
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks are mandatory there")
def test_a_file_that_another_process_writes(tmp_path):
    path = nsys_file(tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LOCKER, str(path)], **pipes) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(TraceFormatError, match="another process is writing"):
            load(path)
        other.communicate("")
    assert len(load(path)) == 3


def test_a_file_that_may_not_be_written_nor_its_folder(tmp_path):
    path = nsys_file(tmp_path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert len(load(path)) == 3
    finally:
        tmp_path.chmod(0o700)


def test_a_path_with_characters_that_mean_something_in_a_uri(tmp_path):
    folder = tmp_path / "a?mode=rwc&b#c %41"
    folder.mkdir()
    assert len(load(nsys_file(folder))) == 3


def test_views_and_virtual_tables_are_never_run(tmp_path):
    path = nsys_file(tmp_path, **{KERNELS: None, "NVTX_EVENTS": None})
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i + 1 AS end FROM n"
    execute(path, f"CREATE VIEW {KERNELS} AS {endless}")
    trace = load(path)
    assert column(trace, "cat") == ["cuda_runtime"]
    assert problems(trace) == {"view or virtual table in place of a table, never run": 1}


def test_generated_columns_are_never_computed(tmp_path):
    path = nsys_file(tmp_path, NVTX_EVENTS=None, CUPTI_ACTIVITY_KIND_RUNTIME=None)
    execute(
        path,
        f"DROP TABLE {KERNELS}",
        f"CREATE TABLE {KERNELS} (start, end, deviceId, streamId, demangledName AS (start))",
        f"INSERT INTO {KERNELS} VALUES (1, 2, 0, 7)",
    )
    assert column(load(path), "name") == ["kernel without a name (string NULL)"]


def test_triggers_do_not_run(tmp_path):
    path = nsys_file(tmp_path)
    execute(path, f"CREATE TRIGGER boom AFTER INSERT ON {KERNELS} BEGIN SELECT load_extension('/x'); END")
    assert len(load(path)) == 3


def test_names_that_would_end_the_query(tmp_path):
    hostile = 'x"; DROP TABLE StringIds; --'
    path = write_tables(tmp_path / "a.sqlite", {"StringIds": strings("a")})
    quoted = hostile.replace('"', '""')
    execute(path, f'CREATE TABLE "CUPTI_ACTIVITY_KIND_{quoted}" ("start{quoted}", "end")')
    execute(path, 'CREATE TABLE "a""b" ("c""d")')
    before = path.read_bytes()
    assert len(load(path)) == 0
    assert path.read_bytes() == before


def test_missing_columns_wrong_types_and_nulls(tmp_path):
    kernels = [
        nsys_kernel(200, 300, 5, 1),
        nsys_kernel(None, 300, 6, 1),
        nsys_kernel(400, None, 7, 1),
        nsys_kernel(600, 500, 8, 1),
        nsys_kernel("soon", 300, 9, 1),
        nsys_kernel(700, 800, b"blob", 1),
        nsys_kernel(900.0, 1000.0, 10, 1),
        nsys_kernel(900.5, 1000, 11, 1),
        nsys_kernel(1 << 62, 1 << 62, 12, 1),
        nsys_kernel(1100, 1200, 13, 1, device=1 << 40),
        nsys_kernel(1300, 1400, 14, None),
    ]
    path = nsys_file(tmp_path, NVTX_EVENTS=None, **{KERNELS: kernels})
    execute(path, f"ALTER TABLE {KERNELS} DROP COLUMN shortName")
    trace = load(path)
    found = trace.events[trace.events["cat"] == "kernel"]
    assert len(found) == 7
    assert list(found["dur"]) == [100, 0, 0, 100, 100, 100, 100]
    assert found["name"].iloc[-1] == "kernel without a name (string NULL)"
    assert found["correlation_id"].isna().tolist() == [False] * 3 + [True] + [False] * 3
    assert problems(trace) == {
        f"'start' of {KERNELS} that is not an integer": 2,
        f"'correlationId' of {KERNELS} that is not an integer": 1,
        "event without a usable end, taken as length 0": 1,
        "negative dur": 1,
        "'device' beyond 32 bits": 1,
        "event without a usable start": 4,
    }


def test_nothing_usable_is_an_error(tmp_path):
    path = nsys_file(
        tmp_path, NVTX_EVENTS=None, CUPTI_ACTIVITY_KIND_RUNTIME=None, **{KERNELS: [nsys_kernel(None, None, 1, 1)]}
    )
    with pytest.raises(TraceFormatError, match="no usable event; first damage: event without a usable start"):
        load(path)


def test_text_that_is_no_utf8(tmp_path):
    path = nsys_file(tmp_path)
    execute(path, "UPDATE StringIds SET value = CAST(x'6bff6b' AS TEXT) WHERE id = 1")
    assert "k\ufffdk" in column(load(path), "name")


def test_names_that_are_no_text(tmp_path):
    path = nsys_file(tmp_path)
    execute(path, "UPDATE StringIds SET value = x'00ff' WHERE id = 1", "UPDATE NVTX_EVENTS SET text = 7")
    assert len(load(path)) == 3


def test_a_cell_larger_than_the_limit_costs_its_table_alone(tmp_path):
    path = nsys_file(tmp_path)
    execute(path, "CREATE TABLE META_DATA_EXPORT (name, value)")
    execute(path, "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', zeroblob(3000000))")
    assert "nsys" not in load(path).info.versions


def test_more_rows_than_the_bytes_can_hold(tmp_path):
    """Pages that occur in a table many times: a small file with endless rows."""
    kernels = [nsys_kernel(i, i + 1, i, 1) for i in range(1, 4001)]
    path = nsys_file(tmp_path, NVTX_EVENTS=None, **{KERNELS: kernels})
    raw = bytearray(path.read_bytes())
    page = 4096
    with closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNELS,))
    at = (root - 1) * page
    assert raw[at] == 5  # an inner page: its cells name the pages below
    num_cells = int.from_bytes(raw[at + 3 : at + 5], "big")
    first_leaf = None
    for i in range(num_cells):
        cell = at + int.from_bytes(raw[at + 12 + 2 * i : at + 14 + 2 * i], "big")
        first_leaf = first_leaf or bytes(raw[cell : cell + 4])
        raw[cell : cell + 4] = first_leaf
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(TraceFormatError, match="cut short"):
        load(path)
    path.write_bytes(raw)
    # The same leaf again and again: its correlation ids repeat, and no more rows come than the bytes could hold.
    assert len(load(path)) <= len(raw) // 4


def test_a_pipe_or_a_folder_is_no_database(tmp_path):
    with pytest.raises(TraceFormatError):
        load(tmp_path)
    os.symlink(tmp_path / "nowhere.sqlite", tmp_path / "link.sqlite")
    with pytest.raises(TraceFormatError, match="No such file"):
        load(tmp_path / "link.sqlite")


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdrep", ".qdstrm"])
def test_a_report_that_was_not_exported(tmp_path, suffix):
    path = tmp_path / f"report{suffix}"
    path.write_bytes(b"\x01\x02report of nsys itself")
    with pytest.raises(TraceFormatError, match=r"nsys export --type sqlite"):
        load(path)


def test_a_report_of_nsight_compute(tmp_path):
    path = tmp_path / "report.ncu-rep"
    path.write_bytes(b"NVR\0\x01\x02")
    with pytest.raises(TraceFormatError, match="Nsight Compute"):
        load(path)


@pytest.mark.parametrize("make", [nsys_file, nvprof_file])
def test_the_same_file_twice_gives_the_same_trace(tmp_path, make):
    path = make(tmp_path)
    first, second = load(path), load(path)
    assert first.events.equals(second.events)


def test_many_calls_of_one_id_in_two_processes_stay_apart(tmp_path):
    calls = [nsys_call(100, 150, 5, 0), nsys_call(100, 150, 5, 0, tid=(1 << 48) | (7 << 24) | 8)]
    trace = load(nsys_file(tmp_path, CUPTI_ACTIVITY_KIND_RUNTIME=calls))
    assert trace.events["correlation_id"].nunique() == 2
