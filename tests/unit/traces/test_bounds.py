"""Files that expand without bounds are refused by their sizes, before memory is taken."""

import gzip
import io
import json
import os
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chrome import column, load_events, op, problems, write

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.frames import limits
from cudalens.traces import source
from cudalens.traces.chrome import reader, stream


@pytest.fixture
def little(monkeypatch):
    """Limits for small files: they may expand to a megabyte, whatever their size."""
    monkeypatch.setattr(limits, "FREE_BYTES", 1 << 20)


def saved_with(path, name, table, **options):
    """A saved Trace whose frame `name` is `table`."""
    whole, changed = path.with_suffix(".whole"), io.BytesIO()
    load_events(path.parent, [op(1, 2)]).save(whole)
    pq.write_table(table, changed, **options)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for member in source.namelist():
            target.writestr(member, changed.getvalue() if member == f"{name}.parquet" else source.read(member))
    return path


def test_compressed_events_that_expand_too_much(tmp_path, little):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + json.dumps(op(1, 2)).encode() + b"," + b" " * (9 << 20)))
    with pytest.raises(TraceFormatError, match=r"found [\d,]+ bytes or more in the text .* compressed bytes"):
        cudalens.load(path)


def test_max_bytes_raises_the_limit(tmp_path, little):
    path = tmp_path / "spaces.json.gz"
    path.write_bytes(gzip.compress(b" " * (9 << 20) + json.dumps([op(1, 2)]).encode()))
    with pytest.raises(TraceFormatError, match=r"max_bytes=") as refusal:
        cudalens.load(path)
    suggested = int(str(refusal.value).rpartition("max_bytes=")[2].rstrip(").").replace("_", ""))
    assert suggested < 9 << 20  # the text was not read to its end
    assert column(cudalens.load(path, max_bytes=10 << 20), "name") == ["aten::add"]


def test_max_bytes_lowers_the_limit(tmp_path):
    path = write(tmp_path / "t.json", [op(i, 1) for i in range(100)])
    with pytest.raises(TraceFormatError, match="at most 1,000"):
        cudalens.load(path, max_bytes=1000)


def test_a_member_that_expands_too_much(tmp_path, little):
    path = load_events(tmp_path, [op(1, 2)]).save(tmp_path / "t.cudalens")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tmp_path / "b.cudalens", "w") as target:
        for name in source.namelist():
            data, how = (bytes(9 << 20), zipfile.ZIP_DEFLATED) if name == "races.parquet" else (source.read(name), 0)
            target.writestr(name, data, how)
    with pytest.raises(TraceFormatError, match=r"'races.parquet': found 9,437,184 bytes or more"):
        cudalens.load(tmp_path / "b.cudalens")


def test_many_rows_in_a_few_bytes(tmp_path, little):
    rows = pa.array(np.zeros(1_000_000, np.int64))
    path = saved_with(tmp_path / "rows.cudalens", "stacks", pa.table({"stack": rows, "line": rows}))
    assert path.stat().st_size < 60_000
    with pytest.raises(TraceFormatError, match=r"bytes or more in frame 'stacks'"):
        cudalens.load(path)


TEXTS = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array(["x" * 1_000_000]))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (TEXTS, "column 'stack' of type dictionary<"),
        (TEXTS.dictionary_decode().slice(0, 1), "column 'stack' of type string"),
        (pa.array([[[1]]]), "column 'stack' of type list<"),
        (pa.array([{"a": 1}]), "column 'stack' of type struct<"),
    ],
    ids=["dictionary", "text", "lists", "objects"],
)
def test_values_of_other_types_are_refused_before_they_are_read(tmp_path, column, found):
    path = saved_with(tmp_path / "texts.cudalens", "stacks", pa.table({"stack": column}))
    with pytest.raises(TraceFormatError, match=found):
        cudalens.load(path)


@pytest.mark.parametrize(
    ("columns", "rows", "found"), [(400, 1, "400 columns"), (2, 2000, "2,000 row groups of 2,000")]
)
def test_many_columns_and_row_groups_are_refused(tmp_path, columns, rows, found):
    table = pa.table({str(number): np.zeros(rows, np.int64) for number in range(columns)})
    path = saved_with(tmp_path / "many.cudalens", "stacks", table, row_group_size=1)
    with pytest.raises(TraceFormatError, match=found):
        cudalens.load(path)


def test_a_large_trace_of_equal_rows_is_loaded(tmp_path):
    trace = load_events(tmp_path, [op(i, 1) for i in range(20_000)])
    assert len(cudalens.load(trace.save(tmp_path / "t.cudalens"))) == 20_000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceFormatError, match="a pipe or device"):
        cudalens.load(tmp_path / "pipe")


def test_a_long_name_of_a_file(tmp_path):
    with pytest.raises(TraceFormatError, match="too long"):
        cudalens.load(tmp_path / ("x" * 5000))


@pytest.mark.parametrize("unit", [b"[", b'{"a":', b'"', b'{"ph":"X","args":{"a":['])
def test_deep_nesting_is_given_up(tmp_path, unit):
    text = b'{"traceEvents": [' + unit * (2 << 20)
    (tmp_path / "t.json").write_bytes(text)
    with pytest.raises(TraceFormatError, match="no usable event"):
        cudalens.load(tmp_path / "t.json")


def test_a_long_value_of_another_key_is_ignored(tmp_path):
    trace = load_events(tmp_path, [op(1, 2)], other=[[]] * 3_000_000, hostname="h")
    assert (len(trace), trace.info.host) == (1, "h")


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (b"{}", "event without ph"),
        (b'{"s": 1}', "event without ph"),
        (b'{"ph": "Q"}', "unknown phase 'Q'"),
        (b'{"ph": "i"}', "event without a usable ts"),
        (b'{"ph": "X"}', "event without a usable ts"),
        (b'{"ph": "C", "ts": 1}', "counter without a value"),
        (b'{"ph": "X", nan}', "event that is not JSON"),
        (b"[[]]", "entry that is not an event"),
    ],
)
def test_very_many_entries_that_are_no_events_are_not_read_to_the_end(tmp_path, monkeypatch, entry, kind):
    monkeypatch.setattr(reader, "_MAX_LOST", 1000)
    monkeypatch.setattr(stream, "_MAX_SPANS", 500)
    monkeypatch.setattr(source, "PIECE", 1 << 16)
    monkeypatch.setattr(stream, "_SCANNED_PIECE", 1 << 16)
    path = tmp_path / "many.json.gz"
    path.write_bytes(gzip.compress(b"[" + json.dumps(op(1, 2)).encode() + (b"," + entry) * 200_000 + b"]"))
    trace = cudalens.load(path)
    found = problems(trace)
    assert (len(trace), found["nearly all entries are not events: the rest is not read"]) == (1, 1)
    assert 1000 < found[kind] < 100_000


def test_many_entries_without_events_among_as_many_events_are_all_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_MAX_LOST", 1000)
    trace = load_events(tmp_path, [op(i // 2, 1) if i % 2 else {} for i in range(10_000)])
    assert (len(trace), problems(trace)) == (5000, {"event without ph": 4999})


def test_every_event_with_invalid_text_is_kept(tmp_path):
    entry = b'{"ph": "X", "ts": 1.5, "dur": 2, "name": "\xff", "cat": "cpu_op", "args": {"Input type": ["\xfe"]}}'
    (tmp_path / "t.json").write_bytes(b"[" + b",".join([entry] * 300) + b"]")
    trace = cudalens.load(tmp_path / "t.json")
    assert column(trace, "name") == ["\ufffd"] * 300
    assert column(trace, "dtypes") == ['["\ufffd"]'] * 300
    assert (column(trace, "ts")[0], problems(trace)) == (1500, {"invalid UTF-8": 300})


@pytest.mark.parametrize(
    ("begin", "unit"),
    [
        (b'{"rocprofiler-sdk-tool": [{}', b",{}"),
        (b'{"rocprofiler-sdk-tool": [{"agents": [{}', b",{}"),
        (b"[[1", b",1"),
        (b"\x0a\x0b\x12\x09/host:CPU", b"\x0a\x00"),
    ],
    ids=["processes", "agents", "times", "planes"],
)
def test_values_that_take_more_memory_than_their_text_are_refused(tmp_path, little, begin, unit):
    (tmp_path / "t.gz").write_bytes(gzip.compress(begin + unit * 150_000))
    with pytest.raises(TraceFormatError, match=r"bytes or more in the values of the file from [\d,]+ compressed"):
        cudalens.load(tmp_path / "t.gz")


def test_a_plain_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "t.json", "wb") as file:
        file.write(b"[[1")
        file.truncate(1 << 32)
    with pytest.raises(TraceFormatError, match="4,294,967,296 bytes or more in the file"):
        cudalens.load(tmp_path / "t.json", max_bytes=1 << 20)


def perfetto(compressed, count):
    """A Perfetto trace with `count` packets that hold the packets in `compressed`."""

    def field(number, data):
        size, text = len(data), b""
        while size > 127:
            size, text = size >> 7, text + bytes([size & 127 | 128])
        key = number << 3 | 2
        return (bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])) + text + bytes([size]) + data

    event = field(1, field(11, b"\x48\x03\xba\x01\x01a"))  # an instant named "a"
    return event + field(1, field(50, compressed(event))) * count


def test_compressed_packets_that_expand_too_much(tmp_path, little):
    (tmp_path / "t.pftrace").write_bytes(perfetto(lambda event: zlib.compress(event * 20_000, 9), 4))
    with pytest.raises(TraceFormatError, match="bytes or more in the values of compressed packets"):
        cudalens.load(tmp_path / "t.pftrace")


def test_many_compressed_packets_are_read(tmp_path, little):
    unknown = np.random.default_rng(0).bytes(10_000)
    packet = b"\x52" + bytes([len(unknown) & 127 | 128, len(unknown) >> 7]) + unknown  # a field that is not read
    (tmp_path / "t.pftrace").write_bytes(perfetto(lambda event: zlib.compress(event + packet), 400))
    trace = cudalens.load(tmp_path / "t.pftrace")
    assert (column(trace, "name"), trace.info.problems) == (["a"] * 401, ())
