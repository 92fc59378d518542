"""Damaged, foreign and hostile files: `load` returns a Trace that counts the damage, or raises an error."""

import bz2
import gzip
import io
import json
import lzma
import zipfile
import zlib

import pytest
from budget import every
from chrome import column, kernel, launch, load_bytes, load_events, op, problems, write

import cudalens
from cudalens.errors import TraceFormatError

EVENTS = [op(i, 1, name=f"op {i}") for i in range(100)]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()
EVENT = b'{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "tid": 2, "ts": 3, "dur": 4}'


def one_more(entry, after=b""):
    """A trace with `entry` between two valid events."""
    return b'{"traceEvents": [' + EVENT + b", " + entry + b", " + EVENT + after + b"]}"


def test_json_that_stops_in_the_middle_of_an_event(tmp_path):
    cut = TEXT.index(b'"op 57"')
    trace = load_bytes(tmp_path, TEXT[:cut])
    assert len(trace) == 57
    (problem,) = trace.info.problems
    assert problem.kind == "the file stops before its end"
    assert problem.where == f"event 57, byte {TEXT.rindex(b'{', 0, cut)}"


@pytest.mark.parametrize("keep", [b"op 99", b"op 0", b'"traceEvents": [{'])
def test_every_cut_keeps_what_is_complete(tmp_path, keep):
    cut = TEXT.index(keep)
    if b"0" in keep:
        with pytest.raises(TraceFormatError, match="no usable event"):
            load_bytes(tmp_path, TEXT[:cut])
    elif b"op" in keep:
        assert len(load_bytes(tmp_path, TEXT[:cut])) == 99


def test_every_single_cut_of_a_small_trace(tmp_path):
    text = json.dumps({"x": [1, "]"], "traceEvents": EVENTS[:3], "y": {"z": "}]"}}).encode()
    counts = []
    for cut in range(0, len(text), every(1)):
        try:
            trace = load_bytes(tmp_path, text[:cut])
        except TraceFormatError:
            counts.append(0)
        else:
            assert trace.info.problems
            counts.append(len(trace))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_truncated_gzip_keeps_what_can_be_inflated(tmp_path):
    data = gzip.compress(json.dumps({"traceEvents": [op(i, 1, name=f"{i * 7919}") for i in range(20_000)]}).encode())
    trace = load_bytes(tmp_path, data[: len(data) // 2], "t.json.gz")
    assert 5_000 < len(trace) < 15_000
    assert column(trace, "ts") == [1000 * i for i in range(len(trace))]
    assert "the gzip data stop before their end" in problems(trace)


def test_a_gzip_without_its_last_bytes_keeps_everything(tmp_path):
    data = gzip.compress(TEXT)
    for lost in range(1, 9):
        trace = load_bytes(tmp_path, data[:-lost])
        assert len(trace) == 100
        assert "the gzip data stop before their end" in problems(trace)


def test_a_gzip_with_a_wrong_checksum_reports_it(tmp_path):
    data = gzip.compress(TEXT)
    trace = load_bytes(tmp_path, data[:-8] + bytes(8))
    assert len(trace) == 100
    assert any("damaged" in kind for kind in problems(trace))


def test_a_gzip_that_is_damaged_inside(tmp_path):
    data = bytearray(
        gzip.compress(json.dumps({"traceEvents": [op(i, 1, name=f"{i * 7919}") for i in range(9_000)]}).encode())
    )
    data[len(data) // 2] ^= 0xFF
    trace = load_bytes(tmp_path, bytes(data))
    assert 0 < len(trace) <= 9_000
    assert trace.info.problems


def test_a_gzip_of_nothing_and_of_no_trace(tmp_path):
    for content in (b"", b"hello", b"\0" * 100):
        with pytest.raises(TraceFormatError, match=r"t\.gz"):
            load_bytes(tmp_path, gzip.compress(content), "t.gz")
    with pytest.raises(TraceFormatError):
        load_bytes(tmp_path, zlib.compress(b"x"))


def test_a_small_gzip_that_inflates_to_gigabytes_is_read_piece_by_piece(tmp_path):
    squeezer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blank = b" " * (1 << 20)
    data = squeezer.compress(b'{"traceEvents": [' + EVENT + b",")
    data += b"".join(squeezer.compress(blank) for _ in range(40)) + squeezer.flush()
    trace = load_bytes(tmp_path, data)
    assert len(trace) == 1
    assert problems(trace)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"  \n ", "an empty file"),
        (b" " * 10_000, "nothing"),
        (b"{}", "no key at all"),
        (b'{"a": 1, "b": 2}', "'a', 'b'"),
        (b'{"nodes": [], "schema": "1.0.1"}', "execution trace"),
        (b"17", "17"),
        (b'"traceEvents"', "traceEvents"),
        (b"null", "null"),
        (b"[1, 2, 3]", "no usable event among 3"),
        (b"[[], [], []]", "no usable event among 3"),
        (b'{"traceEvents": null}', "null"),
        (b'{"traceEvents": {"a": 1}}', "after 'traceEvents'"),
        (b'{"traceEvents"', "broken JSON"),
        (b'{"traceEvents": ["a", "b c"]}', "no usable event"),
        (b"{" * 100_000, "broken JSON"),
        (b"[" * 100_000, "no usable event"),
        (b"\x80\x04\x95\x10\0", "pickle"),
        (b"SQLite format 3\0rest", "SQLite"),
        (b"<html></html>", "HTML"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\0\1\2\3", "data that begin with"),
        (b"PK\x03\x04 broken", "zip"),
    ],
)
def test_what_is_no_trace(tmp_path, content, found):
    with pytest.raises(TraceFormatError) as raised:
        load_bytes(tmp_path, content, "given.json")
    error = raised.value
    assert found in str(error)
    assert error.path.endswith("given.json")
    assert error.expected
    assert [path.name for path in tmp_path.iterdir()] == ["given.json"]


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(TraceFormatError, match="No such file"):
        cudalens.load(tmp_path / "missing.json")
    with pytest.raises(TraceFormatError, match="found a folder without files"):
        cudalens.load(tmp_path)


@pytest.mark.parametrize(
    ("entry", "num_events", "kind"),
    [
        (b'{"ph": "X", "name": "a", "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": "soon", "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": null, "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": NaN, "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": 1e400, "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": 1e17, "dur": 4}', 2, "event without a usable ts"),
        (b'{"ph": "i", "name": "a"}', 2, "event without a usable ts"),
        (b'{"ph": "X", "name": "a", "ts": 5}', 3, "event without dur"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": -7}', 3, "negative dur"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": -0.001}', 3, "negative dur"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": NaN}', 3, "event that is not strict JSON"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": Infinity}', 3, "event without dur"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": "long"}', 3, "unusable dur"),
        (b'{"ph": "X", "name": "a", "ts": 5, "dur": 1e400}', 3, "unusable dur"),
        (b'{"ph": "?", "name": "a", "ts": 5}', 2, "unknown phase '?'"),
        (b'{"ph": 7, "name": "a", "ts": 5}', 2, "event without ph"),
        (b'{"name": "a", "ts": 5}', 2, "event without ph"),
        (b"7", 2, "entry that is not an event"),
        (b'"text"', 2, "entry that is not an event"),
        (b"null", 2, "entry that is not an event"),
        (b"[1, [2]]", 2, "entry that is not an event"),
        (b'{"ph": "X" "name"}', 2, "event that is not JSON"),
        (b"{,}", 2, "event that is not JSON"),
        (b'{"ph": "X", "name": "\xff\xfe", "ts": 5, "dur": 1}', 3, "invalid UTF-8"),
        (b'{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 5, "dur": 1, "args": {"Call stack": "\xff"}}', 3, None),
        (b'{"ph": "X", "name": "\\ud800", "ts": 5, "dur": 1}', 3, "event that is not strict JSON"),
        (b'{"ph": "X", "name": "a\x01b", "ts": 5, "dur": 1}', 3, "event that is not strict JSON"),
        (
            b'{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 5, "dur": 1, "args": [1]}',
            3,
            "args that are not an object",
        ),
        (b'{"ph": "X", "cat": "kernel", "ts": 5, "dur": 1, "pid": 0, "args": {"stream": {}}}', 3, "unusable 'stream'"),
        (
            b'{"ph": "X", "cat": "kernel", "ts": 5, "dur": 1, "pid": "G"}',
            3,
            "device work without a device, taken as device 0",
        ),
        (
            b'{"ph": "X", "cat": "cpu_op", "ts": 5, "dur": 1, "args": {"External id": 99999999999999999999}}',
            3,
            "'external_id' beyond 64 bits",
        ),
    ],
)
def test_one_bad_entry_among_good_ones(tmp_path, entry, num_events, kind):
    trace = load_bytes(tmp_path, one_more(entry))
    assert len(trace) == num_events
    assert trace.info.options["file_events"] == 3
    assert kind is None or kind in problems(trace), problems(trace)
    assert (trace.events["dur"] >= 0).all()


def test_deeply_nested_args(tmp_path):
    deep = b'{"ph": "X", "ts": 5, "dur": 1, "args": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"
    assert problems(load_bytes(tmp_path, one_more(deep))) == {"event nested too deeply": 1}


def test_duplicate_keys_take_the_last(tmp_path):
    trace = load_bytes(tmp_path, one_more(b'{"ph": "X", "ts": 5, "ts": 6, "dur": 1, "name": "a", "name": "b"}'))
    assert column(trace, "name")[-1] == "b"
    twice = b'{"traceEvents": [' + EVENT + b'], "traceEvents": [1]}'
    assert problems(load_bytes(tmp_path, twice)) == {"a second list of events, ignored": 1}


def test_ids_of_64_bits_and_more(tmp_path):
    huge, large = (1 << 64) - 1, (1 << 63) - 1
    events = [
        op(1, 2, pid=huge, tid=large, **{"External id": large}),
        op(3, 1, pid=1 << 200, tid=-(1 << 63), **{"External id": -5}),
        launch(4, 1, large, pid=1, tid=2),
        kernel(5, 1, correlation=large),
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "tid") == [large, None, 2, None]
    assert column(trace, "pid") == [None, None, 1, None]
    assert column(trace, "external_id") == [large, -5, None, None]
    assert column(trace, "launch")[3] == 2
    assert column(trace, "thread")[:2] == [str(huge), str(-(1 << 63))]


def test_hostile_names_stay_text(tmp_path):
    names = [
        "</script><img src=x onerror=alert(1)>",
        "\0",
        "\u2028\u202e",
        "ProfilerStep#" + "9" * 50,
        "",
        "\U0001f525" * 9,
    ]
    trace = load_events(tmp_path, [op(i, 1, name=name) for i, name in enumerate(names)])
    assert column(trace, "name") == names
    assert trace.info.problems == ()


def test_what_follows_the_events_is_damaged(tmp_path):
    cases = {
        b"[" + EVENT + b"] trailing": "something after the list of events",
        b'{"traceEvents": [' + EVENT + b'], "x": }': "broken JSON",
        b'{"traceEvents": [' + EVENT + b'], "x": [': "the file stops before its end",
        b'{"traceEvents": [' + EVENT + b"]": "the file stops before its end",
    }
    for text, kind in cases.items():
        trace = load_bytes(tmp_path, text)
        assert problems(trace) == {kind: 1}
        assert len(trace) == 1


def test_nan_around_the_events_is_forgiven(tmp_path):
    text = b'{"a": NaN, "b": "NaN", "traceEvents": [' + EVENT + b'], "c": [-Infinity]}'
    assert load_bytes(tmp_path, text).info.problems == ()


def test_damage_in_one_slice_leaves_the_others_alone(tmp_path):
    events = [op(i, 1, name=f"a rather long name to fill the file {i}") for i in range(30_000)]
    text = bytearray(write(tmp_path / "t.json", events).read_bytes())
    at = text.index(b'"a rather long name to fill the file 15000"')
    text[at - 2 : at] = b"!!"
    trace = load_bytes(tmp_path, bytes(text))
    assert len(trace) == 29_999
    (problem,) = trace.info.problems
    assert problem.kind == "event that is not JSON"
    assert problem.where.startswith("event 15000, byte ")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf", "-nan(ind)"])
def test_numbers_that_json_has_no_word_for_cost_no_event(tmp_path, word):
    """C++ prints them as nan and inf, for example "blocks per SM" if the number of multiprocessors is unknown."""
    args = f'{{"device": 0, "stream": 7, "blocks per SM": {word}, "registers per thread": 40}}'
    entry = f'{{"ph": "X", "cat": "kernel", "name": "a nan, inf", "ts": 5, "dur": 1, "args": {args}}}'
    text = one_more(entry.encode()).replace(b"{", f'{{"x": [{word}], '.encode(), 1)[:-1] + f', "y": {word}}}'.encode()
    trace = load_bytes(tmp_path, text)
    assert column(trace, "name")[-1] == "a nan, inf"
    assert column(trace, "registers")[-1] == 40
    assert column(trace, "blocks_per_sm")[-1] is None
    assert problems(trace) == {"event that is not strict JSON": 1}


PLAIN = b'{"traceEvents": [' + EVENT + b"]}"


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "found", "todo"),
    [
        (
            zipped(trace=b"hello"),
            "a zip archive without a trace ('trace')",
            "If one of its files is a trace, load that.",
        ),
        (zipped(a=PLAIN, b=PLAIN), "a zip archive with 2 traces ('a', 'b')", "load_ranks"),
        (
            gzip.compress(gzip.compress(PLAIN, mtime=0), mtime=0),
            "gzip-compressed data in the compressed data",
            "Decompress it",
        ),
        (bz2.compress(PLAIN), "bzip2-compressed", "Decompress it"),
        (lzma.compress(PLAIN), "xz-compressed", "Decompress it"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd-compressed", "Decompress it"),
        (PLAIN.decode().encode("utf-16"), "UTF-16", "iconv"),
        (PLAIN.decode().encode("utf-16-le"), "UTF-16", "iconv"),
        (PLAIN.decode().encode("utf-16-be"), "UTF-16", "iconv"),
        (PLAIN.decode().encode("utf-32"), "UTF-32", "iconv"),
        (gzip.compress(PLAIN.decode().encode("utf-16"), mtime=0), "UTF-16 text in the compressed data", "iconv"),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,  # archives contain the time
)
def test_a_trace_in_other_wrappings_states_how_to_unwrap_it(tmp_path, content, found, todo):
    with pytest.raises(TraceFormatError) as raised:
        load_bytes(tmp_path, content)
    assert found in str(raised.value)
    assert todo in str(raised.value)


def test_invalid_utf_8_before_the_events_costs_no_event(tmp_path):
    trace = load_bytes(tmp_path, b'{"host_name": "\xff\xfe", "traceEvents": [' + EVENT + b'], "traceName": "\xff"}')
    assert len(trace) == 1
    assert trace.info.host == "\ufffd\ufffd"


class TestTextAroundTheEvents:
    def test_metadata_with_quotes_as_torch_writes_them(self, tmp_path):
        # torch's `profiler.add_metadata("key", 'a "quoted" value')` does not escape the quotes.
        text = b'{"schemaVersion": 1, "key": "a "quoted" value", "baseTimeNanoseconds": 5000, "traceEvents": ['
        trace = load_bytes(tmp_path, text + EVENT + b'], "traceName": "t"}')
        assert (column(trace, "ts"), problems(trace)) == ([8000], {"broken JSON before the events": 1})

    @pytest.mark.parametrize("value", [b"9" * 5000, rb'"\ud800"', rb'"\\ud800"', rb'"\ud83d\ude00"', b"1e999999"])
    def test_a_value_that_cannot_be_read_costs_that_value_alone(self, tmp_path, value):
        around = b'"baseTimeNanoseconds": 5000, "odd": ' + value
        before = load_bytes(tmp_path, b"{" + around + b', "traceEvents": [' + EVENT + b"]}")
        after = load_bytes(tmp_path, b'{"traceEvents": [' + EVENT + b"], " + around + b"}")
        assert column(before, "ts") == column(after, "ts") == [8000]
        assert problems(before) == problems(after)
        assert set(problems(before)) <= {"a value of 'odd' that cannot be read"}

    @pytest.mark.parametrize(
        "text",
        [
            rb'{"trace\u0045vents": [%s], "baseTimeNanoseconds": 5000}',
            b'{"traceEvents"' + b" " * 90 + b':[%s], "baseTimeNanoseconds": 5000}',
            b'{"baseTimeNanoseconds": 5000, "x": [' + b'{"traceEvents": [{}]},' * 40 + b'0], "traceEvents": [%s]}',
        ],
        ids=["escape", "spaces", "keys of other objects"],
    )
    def test_unusual_spellings_of_the_key(self, tmp_path, text):
        trace = load_bytes(tmp_path, text % EVENT)
        assert (column(trace, "name"), column(trace, "ts"), problems(trace)) == (["a"], [8000], {})

    def test_a_key_in_other_objects_alone_is_no_trace(self, tmp_path):
        with pytest.raises(TraceFormatError, match="found a JSON object with 'x'"):
            load_bytes(tmp_path, b'{"x": {"traceEvents": [' + EVENT + b"]}}")
