"""Saving and loading: exact, whole or not at all, and never fooled."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budget import every, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudalens import OutputError, Trace, TraceFormatError
from cudalens.frames import RunInfo, build_events, columns_of, empty_frame
from cudalens.frames.catalog_frames import FRAMES_SINCE
from cudalens.frames.info import Baseline


def assert_same(one, other):
    assert one.info == other.info
    for name, frame in one.frames.items():
        pd.testing.assert_frame_equal(frame, other.frames[name])


def rewritten(path, change):
    """`path` with its members changed by `change(name, data)`; None drops a member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, data in members.items():
            if (new := change(name, data)) is not None:
                archive.writestr(name, new)
    path.write_bytes(sink.getvalue())
    return path


@pytest.fixture
def saved(gpu_trace, tmp_path):
    return gpu_trace.save(tmp_path / "run.cudalens")


def test_a_round_trip_is_exact(gpu_trace, saved):
    assert_same(gpu_trace, Trace.load(saved))


nullable_ints = st.none() | st.integers(-(2**63), 2**63 - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(40))
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**40), 2**60),
            st.integers(0, 2**40),
            st.text(max_size=8),
            nullable_ints,
            st.none() | st.floats(width=32, allow_nan=False),
        ),
        max_size=12,
    )
)
def test_any_events_round_trip(tmp_path, rows):
    events = build_events(
        {
            "ts": [r[0] for r in rows],
            "dur": [r[1] for r in rows],
            "name": pd.Categorical([r[2] for r in rows]),
            "cat": pd.Categorical(["cpu_op"] * len(rows)),
            "external_id": pd.array([r[3] for r in rows], dtype="Int64"),
            "occupancy_pct": pd.array([r[4] for r in rows], dtype="Float32"),
        }
    )
    trace = Trace(RunInfo(name="日本", source="cpu"), events=events)
    assert_same(trace, Trace.load(trace.save(tmp_path / "any.cudalens")))


def test_the_same_trace_gives_the_same_bytes(gpu_trace, saved, tmp_path):
    assert gpu_trace.save(tmp_path / "again.cudalens").read_bytes() == saved.read_bytes()


def test_every_cut_of_the_file_is_refused_by_name(saved, tmp_path):
    whole = saved.read_bytes()
    broken = tmp_path / "cut.cudalens"
    for length in range(0, len(whole), every(97)):
        broken.write_bytes(whole[:length])
        with pytest.raises(TraceFormatError, match=r"cut\.cudalens"):
            Trace.load(broken)


def test_flipped_bytes_are_refused_or_harmless(gpu_trace, saved, tmp_path):
    whole = bytearray(saved.read_bytes())
    broken = tmp_path / "flipped.cudalens"
    for at in range(0, len(whole), every(61)):
        whole[at] ^= 0xFF
        broken.write_bytes(whole)
        whole[at] ^= 0xFF
        try:
            trace = Trace.load(broken)
        except TraceFormatError as error:
            assert "flipped.cudalens" in str(error)  # noqa: PT017
        else:
            assert_same(gpu_trace, trace)


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "events.pickle", "events.parquet/../x"])
def test_members_that_are_unknown_are_refused(saved, name):
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(TraceFormatError, match="unknown member"):
        Trace.load(saved)


def test_a_missing_member_is_named(saved):
    rewritten(saved, lambda name, data: None if name == "memory.parquet" else data)
    with pytest.raises(TraceFormatError, match=r"memory\.parquet.*found nothing"):
        Trace.load(saved)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_is_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("events.parquet", b"x")
    with pytest.raises(TraceFormatError, match="twice"):
        Trace.load(saved)


def test_a_newer_version_states_which_and_what_to_do(saved):
    def newer(name, data):
        return json.dumps({**json.loads(data), "version": 99, "new": 1}) if name == "trace.json" else data

    rewritten(saved, newer)
    with pytest.raises(TraceFormatError, match=r"format version 99; expected version 1 to 9.*newer"):
        Trace.load(saved)


def test_codes_outside_of_their_texts_are_refused(saved):
    def fewer_texts(name, data):
        if name != "trace.json":
            return data
        head = json.loads(data)
        head["categories"]["events"]["name"] = ["only one"]
        return json.dumps(head)

    rewritten(saved, fewer_texts)
    with pytest.raises(TraceFormatError, match=r"events\.parquet"):
        Trace.load(saved)


def test_missing_values_where_none_may_be_are_refused(saved):
    def holes(name, data):
        if name != "events.parquet":
            return data
        table = pq.read_table(pa.BufferReader(data))
        at = table.column_names.index("dur")
        sink = io.BytesIO()
        pq.write_table(table.set_column(at, "dur", pa.array([None] * len(table), pa.int64())), sink)
        return sink.getvalue()

    rewritten(saved, holes)
    with pytest.raises(TraceFormatError, match="'dur' has 6 missing values"):
        Trace.load(saved)


def test_frames_of_a_foreign_file_must_link_to_rows_that_exist(saved):
    def far_away(name, data):
        if name != "events.parquet":
            return data
        table = pq.read_table(pa.BufferReader(data))
        at = table.column_names.index("parent")
        sink = io.BytesIO()
        pq.write_table(table.set_column(at, "parent", pa.array([10**9] * len(table), pa.int64())), sink)
        return sink.getvalue()

    rewritten(saved, far_away)
    with pytest.raises(TraceFormatError, match="'parent' names row 1000000000"):
        Trace.load(saved)


@pytest.mark.parametrize("content", [b"", b"PK", b"{}", b"\x80\x04}."])
def test_other_files_are_no_saved_traces(tmp_path, content):
    path = tmp_path / "other.cudalens"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"other\.cudalens"):
        Trace.load(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.cudalens", tmp_path):
        with pytest.raises(TraceFormatError, match="readable file"):
            Trace.load(path)


def test_a_folder_that_is_not_there_is_not_made(gpu_trace, tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        gpu_trace.save(tmp_path / "new" / "run.cudalens")
    assert not (tmp_path / "new").exists()


def test_a_path_that_ends_like_a_folder_is_one(gpu_trace, tmp_path):
    with pytest.raises(OutputError, match="it is a folder"):
        gpu_trace.save(f"{tmp_path}/run/")
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file_and_no_other(gpu_trace, saved, monkeypatch):
    before = saved.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(OutputError, match="No space left"):
        gpu_trace.save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_all_columns_are_stored(saved):
    with zipfile.ZipFile(saved) as archive:
        stored = pq.read_table(pa.BufferReader(archive.read("events.parquet"))).column_names
    assert stored == [column.name for column in columns_of("events")]
    assert np.all([info.date_time[0] == 1980 for info in zipfile.ZipFile(saved).infolist()])


def as_version(number, *dropped):
    """As a file of version `number` is: without what is newer, and without the frames `dropped`."""

    def change(name, data):
        frame = name.removesuffix(".parquet")
        if name == "trace.json":
            return json.dumps({**json.loads(data), "version": number})
        if frame in dropped or FRAMES_SINCE.get(frame, 1) > number:
            return None
        table = pq.read_table(pa.BufferReader(data))
        sink = io.BytesIO()
        pq.write_table(table.select([c.name for c in columns_of(frame) if c.since <= number]), sink)
        return sink.getvalue()

    return change


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_an_older_version_lacks_what_came_later(gpu_trace, saved, version):
    assert_same(gpu_trace, Trace.load(rewritten(saved, as_version(version))))


def test_a_baseline_that_an_earlier_release_wrote_is_read(saved):
    known = {"value_ns": 30, "median_ns": 20, "low_ns": 19, "high_ns": 21, "num_runs": 4}

    def with_standing(name, data):
        if name != "trace.json":
            return data
        head = json.loads(data)
        head["info"]["standing"] = known
        return json.dumps(head)

    assert Trace.load(rewritten(saved, with_standing)).info.baseline == Baseline(**known)


@pytest.mark.parametrize(("version", "frame"), [(2, "races"), (3, "blocks")])
def test_a_file_without_a_frame_of_its_version_is_damaged(saved, version, frame):
    with pytest.raises(TraceFormatError, match=rf"member '{frame}.parquet': found nothing"):
        Trace.load(rewritten(saved, as_version(version, frame)))


def test_a_file_of_this_version_without_one_of_its_columns_is_damaged(saved):
    def without_streams(name, data):
        if name != "memory.parquet":
            return data
        sink = io.BytesIO()
        pq.write_table(pq.read_table(pa.BufferReader(data)).drop_columns(["stream"]), sink)
        return sink.getvalue()

    with pytest.raises(TraceFormatError, match=r"member 'memory.parquet'.*stream"):
        Trace.load(rewritten(saved, without_streams))


def test_blocks_and_what_no_frame_holds_round_trip(gpu_trace, tmp_path):
    blocks = empty_frame("blocks").reindex(range(2)).assign(is_expandable=[True, False], segment_bytes=[2, 1 << 40])
    blocks = blocks.assign(num_bytes=[2, 512], addr=pd.array([2**64 - 1, pd.NA], "UInt64"), alloc=[0, pd.NA])
    blocks = blocks.assign(names=pd.Categorical(['["weights"]', None])).astype({"alloc": "Int64"})
    blocks["names"] = blocks["names"].cat.rename_categories(pd.Index(['["weights"]'], dtype="str"))
    info = gpu_trace.info.replace(extra={"allocator_settings": '{"max_split_size": -1}'})
    trace = gpu_trace.replace(info=info, blocks=blocks)
    assert_same(trace, Trace.load(trace.save(tmp_path / "blocks.cudalens")))
    beyond = gpu_trace.replace(blocks=blocks.assign(alloc=pd.array([2, pd.NA], "Int64")))
    with pytest.raises(TraceFormatError, match="column 'alloc' names row 2"):
        Trace.load(beyond.save(tmp_path / "beyond.cudalens"))
