"""The compiled scanner and the Python reader make the same Trace of any file."""

import gzip
import json
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from budget import examples
from chrome import RECORDED, kernel, launch, needs_recorded, op, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fuzz import EDITS, ENTRY, MADE, SMALL, mutated

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.traces import source
from cudalens.traces.chrome.scanned import SWITCH, Scanner, is_scanner_in_use

pytestmark = pytest.mark.skipif(not is_scanner_in_use(), reason="the scanner was not compiled")
QUICK = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
LARGE = ("kineto/resnet50_workers4.1623213129365.pt.trace.json.gz", "hta/ns_resolution_rank-0.json.gz")
STRINGS = [
    '"plain"', '"with \\"quotes\\" and \\\\"', '"\\u00e9\\u4e2d"', '"\\ud83d\\ude00"', '"\\ud800"', '"中文 é"', '""',
    '"a\\/b\\n\\t"', '"\\q"', '"tab\there"', '"' + "x" * 40 + '\\n"', '"open',
]  # fmt: skip
NUMBERS = [
    "0", "-0", "7", "-7", "007", "7.0", "7.5", "0.001", "1.0005", "3.0025", "0.00049999999", "12345678.1234567",
    "1e3", "1E-2", "1e999", "-1.5", "9007199254740993", "9223372036854775807", "-9223372036854775808", "1" * 30,
    "8796093022208.123", "8796093022207.999", "8796093022207.9999", "4458676426133.574", "1.", ".5", "-", "+1", "0x10",
    "NaN", "Infinity", "4611686018427387.903", "4611686018427387", "0.484848484848484862", "1e-400",
]  # fmt: skip
OTHERS = ["null", "true", "false", "[]", "{}", "[1,[2,{}]]", '{"a":{"b":[null,"]"]}}', "[1,]", "[" * 70 + "]" * 70]
VALUE = st.sampled_from([*STRINGS, *NUMBERS, *OTHERS])
ARGUMENT = st.sampled_from(
    ["External id", "external id", "stream", "device", "Input Dims", "Input dims", "Call stack", "blocks per SM",
     "registers per thread", "correlation", "wait_on_stream", "Collective name", "unknown", "est. achieved occupancy %",
     "theoretical occupancy %", "flops", "Flops", "str\\u0065am"]
)  # fmt: skip
KEYS = st.sampled_from(["name", "cat", "pid", "tid", "ts", "dur", "id", "id2", "scope", "args", "ph", "n\\u0061me"])
TEXTS = [("a", [[1]]), ("b", [[1]]), ("a", [[2]]), ("c", [[2]])]
SPACE = st.sampled_from(["", " ", "\n  ", "\t\r"])


def read(path, scanner):
    """The Trace of `path`, or the error, in a form that compares."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = scanner
    try:
        trace = cudalens.load(path)
    except TraceFormatError as error:
        return str(error)
    finally:
        os.environ.pop(SWITCH) if before is None else os.environ.update({SWITCH: before})
    frames = {
        name: {c: frame[c].astype(object).where(frame[c].notna(), None).tolist() for c in frame}
        for name, frame in trace.frames.items()
    }
    return trace.info.replace(build_s=None), frames


def scan(scanner, text):
    """What `scanner` finds in `text`; what follows it in memory is not read."""
    return scanner.scan(text + b',{"ph": "X", "name": "more"}', len(text), False)


def check_equal(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_bytes(data)
        assert read(path, "1") == read(path, "0")


@st.composite
def texts_of_entries(draw):
    """Entries with values of every spelling, some of them broken, between entries as Kineto writes them."""
    good = [json.dumps(op(1.125, 9, **{"External id": 4})), json.dumps(launch(2.5, 3, 5))]
    good += [json.dumps(kernel(8, 4.25, correlation=5, grid=[1, 1, 1]), indent=1)]
    found = []
    for _ in range(draw(st.integers(1, 3))):
        space = draw(SPACE)
        args = [f'"{draw(ARGUMENT)}"{space}:{draw(VALUE)}' for _ in range(draw(st.integers(0, 3)))]
        fields = {"ph": draw(st.sampled_from(['"X"', '"X"', '"s"', '"i"', '"M"'])), "ts": "12.25", "dur": "3"}
        fields |= {"name": '"n"', "cat": draw(st.sampled_from(['"cpu_op"', '"kernel"', '"cuda_runtime"', '"other"']))}
        fields |= {"pid": "1", "tid": "2", "args": "{" + ",".join(args) + "}"}
        pairs = [f'"{key}"{space}:{space}{value}' for key, value in fields.items()]
        pairs += [f'"{draw(KEYS)}":{draw(VALUE)}' for _ in range(draw(st.integers(0, 1)))]
        found.append("{" + space + ("," + space).join(draw(st.permutations(pairs))) + space + "}")
    return ",\n".join([*good, *found, *good])


@QUICK
@given(texts_of_entries())
def test_values_of_every_spelling(text):
    check_equal(f'{{"schemaVersion": 1, "traceEvents": [{text}]}}'.encode())


WARPS = '{{"ph": "X", "cat": "kernel", "ts": 1, "args": {{"warps per SM": {}}}}}'
DECIMALS = st.builds(
    "{}{}.{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**18),
    st.text("0123456789", min_size=1, max_size=19),
    st.sampled_from(["", "", "e5", "E-7", "e+22", "e-22", "e23", "e-300", "e99999999999999999999"]),
)


@settings(QUICK, max_examples=examples(400))
@given(st.one_of(DECIMALS, st.floats(0, 1e6, width=64).map(repr), st.floats(0, 2.0**100, width=32).map(repr)))
def test_numbers_are_rounded_as_python_rounds_them(text):
    found = scan(Scanner(), WARPS.format(text).encode())
    if found is not None:
        with np.errstate(over="ignore"):
            assert found.fields["warps_per_sm"].values.tolist() == [np.float64(text).astype(np.float32)]


def test_usual_numbers_are_not_left_to_python():
    texts = ["0", "0.25", "136.22222222222223", "-1.5", "9.259259e-05", "100", "0.1", "16777217.0000001", "1e22"]
    values = scan(Scanner(), ",".join(map(WARPS.format, texts)).encode()).fields["warps_per_sm"].values
    assert values.tolist() == np.array(texts, np.float64).astype(np.float32).tolist()


def test_phases_that_are_spelled_with_escapes():
    event = json.dumps(op(1.5, 9)).replace('"X"', r'"\u0058"')
    check_equal(f"[{event}]".encode())
    check_equal(f"[{json.dumps(op(1, 2))}, {event}, {json.dumps(kernel(8, 4))}]".encode())


def test_files_with_many_long_and_repeated_keys():
    keys = [f"key {number}" for number in range(300)] + ["a key of more than thirty-two characters " * 2]
    entries = [op(number, 1, **{key: number, "External id": number}) for number, key in enumerate(keys * 2)]
    entries += [op(9000, 1, **{"External id": 7, keys[-1]: 1})]
    text = json.dumps({"traceEvents": entries})
    check_equal(text.encode())
    check_equal(text.replace('"External id": 7', '"External id": 8, "External id" : 9').encode())


@QUICK
@given(st.lists(ENTRY, max_size=6))
def test_any_json_in_any_field(entries):
    check_equal(json.dumps({"traceEvents": entries}).encode("utf-8", "surrogatepass"))


@QUICK
@given(EDITS)
def test_a_small_trace_with_its_bytes_changed(edits):
    check_equal(mutated(MADE, edits))


@needs_recorded
@pytest.mark.parametrize("file", [*SMALL, *LARGE])
def test_recorded_files(file):
    assert read(RECORDED / file, "1") == read(RECORDED / file, "0")


@needs_recorded
@pytest.mark.parametrize("file", SMALL)
@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=EDITS)
def test_recorded_files_with_their_bytes_changed(file, edits):
    data = (RECORDED / file).read_bytes()
    check_equal(mutated(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data, edits))


def test_the_scanner_reads_what_kineto_writes():
    # Without this, the other tests would pass if the scanner declined everything.
    text = ",".join(json.dumps(event) for event in (op(1.5, 9), launch(2, 3, 5), kernel(8, 4, grid=[2, 1, 1])))
    found = scan(Scanner(), text.encode())
    assert found.names == ["aten::add", "cudaLaunchKernel", "add_kernel"]
    assert found.ts.tolist() == [1500, 2000, 8000]
    assert found.tracks == [("cpu_op", 10, 11), ("cuda_runtime", 10, 11), ("kernel", 0, 7)]
    assert found.fields["grid"].raw == [b"[2, 1, 1]"]
    assert found.fields["correlation"].values.tolist() == [5]


def test_texts_are_numbered_over_all_slices():
    scanner, slices = Scanner(), [op(1, 9, name=name, **{"Input Dims": dims}) for name, dims in TEXTS]
    found = [scan(scanner, json.dumps(entry).encode()) for entry in slices]
    assert [one.name.tolist() for one in found] == [[0], [1], [0], [2]]
    assert [one.names for one in found] == [["a"], ["b"], [], ["c"]]
    assert [one.fields["shapes"].raw for one in found] == [[b"[[1]]"], [], [b"[[2]]"], []]
    assert [one.fields["shapes"].values.tolist() for one in found] == [[0], [0], [1], [1]]


def test_a_slice_that_is_left_to_python_leaves_no_text():
    scanner, good = Scanner(), json.dumps(op(1, 9, name="a", **{"Input Dims": [[1]]})).encode()
    other = json.dumps(op(1, 9, cat="odd", tid=5, name="b", **{"Input Dims": [[2]]})).encode()
    bad = [other + b"," + good + b",{", other + b',{"ph": "X", "name": "\xff", "ts": 1}']
    found = [scan(scanner, text) for text in (good, *bad, other)]
    assert [one is None for one in found] == [False, True, True, False]
    assert (found[-1].names, found[-1].name.tolist(), found[-1].fields["shapes"].raw) == (["b"], [1], [b"[[2]]"])
    assert found[-1].tracks == [("cpu_op", 10, 11), ("odd", 10, 5)]
    scanner.undo()
    again = scan(scanner, other)
    assert (again.names, again.track.tolist()) == (["b"], [1])


def test_arguments_of_unusual_types_that_are_no_columns():
    # AMD's copies have "bytes" as a text, which is a column of device work only.
    call = launch(2, 3, 5)
    call["args"] |= {"bytes": "616", "stream": None}
    found = scan(Scanner(), json.dumps(call).encode())
    assert (found.num_entries, found.fields["correlation"].values.tolist()) == (1, [5])
    assert scan(Scanner(), json.dumps(kernel(2, 3, bytes="616")).encode()) is None
    check_equal(json.dumps({"traceEvents": [call, kernel(8, 4, bytes="616"), call]}).encode())


def test_many_texts_and_slices_of_which_some_are_left_to_python(tmp_path, monkeypatch):
    # Tables grow and shrink; texts are longer than a piece of their memory.
    monkeypatch.setattr(source, "PIECE", 4096)
    rng, events = random.Random(3), []
    for i in range(3000):
        name = f"n{rng.randrange(900)}" * rng.choice((1, 1, 1, 200))
        args = {"Input Dims": [[rng.randrange(500), i % 7]], "Collective name": rng.choice("abc")}
        events.append(op(i, 0.5, name=name, tid=rng.randrange(40), **args))
        if rng.random() < 0.01:
            events[-1]["ts"] = str(i)  # only the Python reader reads it
        elif rng.random() < 0.1:
            events.append(kernel(i, 0.25, stream=rng.randrange(9), **{"blocks per SM": rng.random()}))
    check_equal(json.dumps({"traceEvents": events}).encode())


@needs_recorded
def test_the_scanner_reads_recorded_files():
    for file in ("hta/ns_resolution_rank-0.json.gz", "kineto/resnet50_workers4.1623213129365.pt.trace.json.gz"):
        entries = json.loads(gzip.decompress((RECORDED / file).read_bytes()))["traceEvents"]
        found = scan(Scanner(), json.dumps(entries)[1:-1].encode())
        assert found.num_entries == len(entries)


@pytest.mark.parametrize("size", range(16, 300, 7))
def test_a_text_that_ends_anywhere_is_left_to_python(size):
    text = json.dumps(kernel(8.125, 4, name="k\\n" * 9, grid=[1, 1, 1])).encode()
    assert scan(Scanner(), text[: min(size, len(text) - 1)]) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_during_a_scan_leaves_its_copy_to_python():
    entries = [op(number, 1, name=f"n{number}", **{"Input Dims": [[number]]}) for number in range(40_000)]
    data, scanner = json.dumps(entries)[1:-1].encode(), Scanner()
    scanner.begin(data, len(data), False)
    if not (child := os.fork()):
        is_left = [scanner.scan(data, len(data), False) is None for _ in range(2)] == [True, True]
        scanner.undo()
        del scanner
        os._exit(0 if is_left else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scanner.scan(data, len(data), False).num_entries == len(entries)


def test_the_switch_turns_the_scanner_off(tmp_path, monkeypatch):
    path = write(tmp_path / "t.json", [op(1, 2)])
    monkeypatch.setenv(SWITCH, "0")
    assert not is_scanner_in_use()
    assert len(cudalens.load(path)) == 1
