"""XPlane and Perfetto files become the events and counters that their tools recorded."""

import gzip
from pathlib import Path

import pytest
from chrome import column, load_bytes, problems

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.traces import load
from cudalens.traces.protobuf.perfetto import _SCHEMA as PERFETTO
from cudalens.traces.protobuf.wire import WireError, fields, kind_of_message, message_classes
from cudalens.traces.protobuf.xplane import _SCHEMA as XPLANE

DATA = Path(__file__).parents[2] / "data"
PLANE = XPLANE | {
    "StatEntry": {"key": (1, "int64"), "value": (2, "Metadata")},
    "XPlane": {
        "name": (2, "bytes"),
        "lines": (3, "*XLine"),
        "event_metadata": (4, "*Entry"),
        "stat_metadata": (5, "*StatEntry"),
        "stats": (6, "*XStat"),
    },
    "XSpace": {"planes": (1, "*XPlane")},
}


def space(*planes):
    """An XSpace from planes: name, and lines of (id, name, start in ns, events of (name, offset, length, stats))."""
    found = message_classes("x", "xplane", PLANE)["XSpace"]()
    for name, lines in planes:
        plane = found.planes.add(name=name.encode())
        numbers = {}

        def number(text, entries, numbers=numbers):
            if text not in numbers:
                numbers[text] = len(numbers) + 1
                entries.add(key=numbers[text]).value.name = text.encode()
            return numbers[text]

        for line_id, label, start, events in lines:
            line = plane.lines.add(id=line_id, name=label.encode(), timestamp_ns=start)
            for event_name, offset, length, stats in events:
                event = line.events.add(metadata_id=number(event_name, plane.event_metadata))
                event.offset_ps, event.duration_ps = offset * 1000, length * 1000
                for key, value in stats.items():
                    stat = event.stats.add(metadata_id=number(key, plane.stat_metadata))
                    if isinstance(value, int):
                        stat.int64_value = value
                    else:
                        stat.str_value = value.encode()
    return found.SerializeToString()


def test_a_run_of_jax_is_the_same_in_both_of_its_files():
    trace, chrome = (cudalens.load(DATA / f"jax_cpu.{suffix}") for suffix in ("xplane.pb", "trace.json.gz"))
    assert trace.info.source == "file:xplane"
    assert trace.info.problems == ()
    shift = trace.events["ts"].min() - chrome.events["ts"].min()
    for name in ("name", "dur", "thread", "parent", "depth"):
        assert column(trace, name) == column(chrome, name)
    assert (trace.events["ts"] - chrome.events["ts"] == shift).all()
    assert column(trace, "name").count("train") == 3
    assert 1_700_000_000 * 10**9 < trace.info.started_ns < 2_000_000_000 * 10**9  # from the epoch


def test_kernels_of_a_gpu_and_the_calls_that_launch_them(tmp_path):
    launch = ("cuLaunchKernel", 100, 5, {"correlation_id": 7})
    details = "regs:24 static_shared:0 dynamic_shared:0 grid:8,2,1 block:128,1,1 occ_pct:50"
    kernel = ("gemm", 300, 50, {"correlation_id": 7, "kernel_details": details})
    copy = ("MemcpyH2D", 400, 20, {"memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"})
    derived = ("fusion.1", 300, 50, {})
    data = space(
        ("/host:CPU", [(12, "main", 1000, [("run", 0, 900, {}), launch])]),
        (
            "/device:GPU:1",
            [(14, "Stream #14(Kernel,Memcpy)", 1000, [kernel, copy]), (200, "XLA Ops", 1000, [derived])],
        ),
    )
    trace = load_bytes(tmp_path, data, "host.xplane.pb")
    found = trace.events.set_index("name")
    assert trace.info.problems == ()
    assert found["cat"].to_dict() == {
        "run": "cpu_op",
        "cuLaunchKernel": "cuda_driver",
        "gemm": "kernel",
        "MemcpyH2D": "gpu_memcpy",
        "fusion.1": "unknown",
    }
    gemm = found.loc["gemm"]
    assert (gemm["ts"], gemm["dur"], gemm["device"], gemm["stream"]) == (1300, 50, 1, 14)
    assert (gemm["grid"], gemm["block_dim"], gemm["registers"]) == ("[8,2,1]", "[128,1,1]", 24)
    assert found.loc["MemcpyH2D", "num_bytes"] == 4096
    assert column(trace, "name")[gemm["launch"]] == "cuLaunchKernel"
    assert found.loc["fusion.1", "thread"] == "XLA Ops"


def test_the_operations_of_a_tpu_are_its_work(tmp_path):
    data = space(("/device:TPU:2", [(1, "XLA Ops", 0, [("dot.3", 5, 10, {})]), (2, "Steps", 0, [("0", 0, 20, {})])]))
    trace = load_bytes(tmp_path, data, "host.xplane.pb")
    assert column(trace, "name") == ["0", "dot.3"]
    assert column(trace, "device") == [None, 2]
    assert column(trace, "cat") == ["unknown", "kernel"]


def test_track_events_of_perfetto():
    trace = cudalens.load(DATA / "track_events.pftrace")
    assert trace.info.source == "file:perfetto"
    assert trace.info.problems == ()
    epoch = 1_700_000_000_000_000_000
    assert column(trace, "name") == ["step", "cudaLaunchKernel", "mark", "gemm", "interned"]
    assert column(trace, "ts") == [epoch + ns for ns in (2_000_000, 2_000_100, 2_000_250, 2_000_300, 3_000_050)]
    assert column(trace, "dur") == [1000, 100, 0, 600, 200]
    assert column(trace, "is_instant") == [False, False, True, False, False]
    assert column(trace, "thread") == ["main", "main", "main", None, "main"]
    assert column(trace, "pid") == [40, 40, 40, None, 40]
    assert (column(trace, "device")[3], column(trace, "stream")[3], column(trace, "launch")[3]) == (0, 7, 1)
    counters = trace.counters
    assert counters["ts"].tolist() == [epoch + 2_000_000, epoch + 2_000_500]
    assert counters[["name", "process", "unit"]].drop_duplicates().to_numpy().tolist() == [
        ["memory", "trainer", "bytes"]
    ]
    assert counters["value"].tolist() == [512, 1024]


@pytest.mark.parametrize("name", ["track_events.pftrace", "jax_cpu.xplane.pb"])
def test_compressed_with_gzip(tmp_path, name):
    data = (DATA / name).read_bytes()
    trace = load_bytes(tmp_path, gzip.compress(data), "any.gz")
    assert trace.frames.keys() == cudalens.load(DATA / name).frames.keys()
    assert len(trace) == len(cudalens.load(DATA / name))


def packets(*found):
    """A Perfetto trace from the fields of its packets."""
    classes = message_classes("x", "perfetto", PERFETTO | {"Trace": {"packet": (1, "*TracePacket")}})
    trace = classes["Trace"]()
    for values in found:
        packet = trace.packet.add(timestamp=values.pop("ts", 0), trusted_packet_sequence_id=1)
        for key, value in values.items():
            message = getattr(packet, key)
            for name, one in value.items():
                setattr(message, name, one)
    return trace.SerializeToString()


def test_a_begin_without_an_end_and_an_end_without_a_begin(tmp_path):
    data = packets(
        {"ts": 5, "track_event": {"type": 2, "track_uuid": 9}},
        {"ts": 10, "track_event": {"type": 1, "track_uuid": 9, "name": b"open"}},
        {"ts": 30, "track_event": {"type": 3, "track_uuid": 9, "name": b"mark"}},
        {"ts": 40, "track_event": {"type": 77, "track_uuid": 9}},
    )
    trace = load_bytes(tmp_path, data, "x.pftrace")
    assert problems(trace) == {
        "end without a begin": 1,
        "begin without an end, ended with the trace": 1,
        "a track event of an unknown type": 1,
    }
    assert column(trace, "thread") == ["track 9", "track 9"]


def test_a_trace_of_the_kernel_alone_says_what_to_do(tmp_path):
    data = packets({"ts": 1, "process_descriptor": {"pid": 3}}, {"ts": 2})
    with pytest.raises(TraceFormatError, match=r"2 packets without a track event.*ui\.perfetto\.dev"):
        load_bytes(tmp_path, data, "x.pftrace")


def write(folder, data):
    (folder / "x").write_bytes(data)
    return folder / "x"


@pytest.mark.parametrize("name", ["track_events.pftrace", "jax_cpu.xplane.pb"])
def test_every_cut_is_read_or_refused(tmp_path, name):
    data = (DATA / name).read_bytes()
    whole, counts = len(cudalens.load(DATA / name)), []
    for cut in range(0, len(data), max(1, len(data) // 15)):
        try:
            counts.append(len(load(write(tmp_path, data[:cut]))))
        except TraceFormatError:
            counts.append(0)
    assert max(counts) <= whole
    assert counts[0] == 0
    assert counts[-1] > 0


def test_without_the_package_protobuf_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "google.protobuf", None)
    with pytest.raises(TraceFormatError, match=r'pip install "cudalens\[protobuf\]"'):
        cudalens.load(DATA / "jax_cpu.xplane.pb")


def test_fields_of_a_message():
    assert [(f.number, f.kind, f.value) for f in fields(b"\x08\x96\x01\x12\x02ab\x1d\0\0\0\0")] == [
        (1, 0, 150),
        (2, 2, 0),
        (3, 5, 0),
    ]
    for broken in (b"\x08", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0b", b"\x00\x00"):
        with pytest.raises(WireError):
            list(fields(broken))
    assert kind_of_message(b"\x0a\x00") is None
