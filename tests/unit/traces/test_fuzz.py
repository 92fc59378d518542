"""For any bytes, `load` returns a Trace or raises a TraceFormatError."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from budget import examples
from chrome import RECORDED, kernel, launch, needs_recorded, op
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.frames import Trace, check_frame

SMALL = (
    "hta/call_stack__backward_thread.json",
    "hta/cpu_only_rank-34.json.gz",
    "hta/triton_example__triton_example.json.gz",
    "hta/critical_path__cuda_event_sync_multi_stream.json.gz",
    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "kineto/gpu_metrics_input.json",
)
MADE = json.dumps(
    {
        "baseTimeNanoseconds": 10**18,
        "traceEvents": [
            op(1.125, 9, **{"Input Dims": [[2]], "Call stack": "a.py(1): f"}),
            launch(2, 3, 5),
            kernel(8, 4, correlation=5, grid=[1, 1, 1]),
            {"ph": "i", "name": "[memory]", "ts": 3, "pid": 10, "tid": 11, "args": {"Bytes": 5, "Device Type": 1}},
            {"ph": "B", "name": "r", "ts": 3, "pid": 10, "tid": 11},
            {"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": "main"}},
        ],
        "distributedInfo": {"rank": 0},
    }
).encode()


def check(data, settings_name="t.json"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / settings_name
        path.write_bytes(data)
        try:
            trace = cudalens.load(path)
        except TraceFormatError as error:
            named = str(path) in str(error)
            assert named
            return
        assert isinstance(trace, Trace)
        for name, frame in trace.frames.items():
            check_frame(name, frame)
        assert (trace.events["dur"] >= 0).all()
        assert trace.events["ts"].is_monotonic_increasing
        again = Trace.load(trace.save(Path(folder) / "again.cudalens"))
        assert len(again) == len(trace)


def mutated(data, edits):
    buffer = bytearray(data)
    for where, kind, value in edits:
        at = where % max(len(buffer), 1)
        if kind == "set" and buffer:
            buffer[at] = value
        elif kind == "insert":
            buffer[at:at] = bytes([value])
        elif kind == "cut":
            del buffer[at : at + value]
        elif kind == "token":
            buffer[at:at] = TOKENS[value % len(TOKENS)]
        elif kind == "stop":
            del buffer[-value:]
    return bytes(buffer)


TOKENS = (
    b"}",
    b"{",
    b"]",
    b"[",
    b'"',
    b"\\",
    b",",
    b":",
    b"NaN",
    b"null",
    b"-",
    b"1e999",
    b'"ts":',
    b"\xff",
    b"\\ud800",
    b"9" * 30,
)
EDIT = st.tuples(
    st.integers(0, 1 << 20), st.sampled_from(["set", "insert", "cut", "token", "stop"]), st.integers(0, 255)
)
EDITS = st.lists(EDIT, min_size=1, max_size=6)
QUICK = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(EDITS)
def test_a_small_trace_with_its_bytes_changed(edits):
    check(mutated(MADE, edits))


@QUICK
@given(EDITS)
def test_its_compressed_bytes_changed(edits):
    check(mutated(gzip.compress(MADE, mtime=0), edits))


@needs_recorded
@pytest.mark.parametrize("file", SMALL)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=EDITS, packed=st.booleans())
def test_recorded_files_with_their_bytes_changed(file, edits, packed):
    data = (RECORDED / file).read_bytes()
    if packed or not data.startswith(b"\x1f\x8b"):
        check(mutated(data, edits))
    else:
        check(mutated(gzip.decompress(data), edits))


@QUICK
@given(st.binary(max_size=200))
@example(b"\x1f\x8b")
@example(b"\x1f\x8b\x08\x00")
@example(b"PK\x05\x06" + bytes(18))
def test_any_bytes(data):
    check(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
ARG_NAMES = (
    "External id,correlation,stream,device,Input Dims,Input type,Call stack,grid,bytes,Bytes,Device Type,Device Id,Addr"
    ",name,registers per thread,blocks per SM,Collective name,flops"
)
ARGS = st.dictionaries(st.sampled_from(ARG_NAMES.split(",")), JSON, max_size=5)
FIELDS = {
    "ph": st.sampled_from(["X", "i", "M", "B", "E", "b", "e", "s", "f", "C"]) | JSON,
    "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "Kernel", "gpu_memcpy", "other", "cuda_sync"]) | JSON,
    "name": st.sampled_from(["[memory]", "thread_name", "ProfilerStep#3", "k"]) | JSON,
    "ts": st.integers(-(10**16), 10**16) | st.floats() | JSON,
    "dur": st.integers(-5, 10**6) | JSON,
    "pid": st.integers(0, 3) | JSON,
    "tid": st.integers(0, 3) | st.just("stream 7") | JSON,
    "args": ARGS | JSON,
    "id": JSON,
}
ENTRY = st.fixed_dictionaries({}, optional=FIELDS) | JSON


@QUICK
@given(
    st.lists(ENTRY, max_size=6),
    st.dictionaries(
        st.sampled_from(["baseTimeNanoseconds", "distributedInfo", "deviceProperties", "with_stack"]), JSON
    ),
)
def test_any_json_in_any_field(entries, around):
    check(json.dumps({**around, "traceEvents": entries}).encode("utf-8", "surrogatepass"))
