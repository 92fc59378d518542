"""The binary payload against a slow reader of its own; what the page makes of it is tested in tests/browser."""

import json
import zlib
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from sample_traces import gpu_trace

from cudalens.frames import RunInfo, StackTable, Trace, build_events, build_memory
from cudalens.frames.info import sources_to_extra
from cudalens.views.timeline import payload
from cudalens.views.timeline.payload import BRIEF_TEXT, FLAG_INSTANT, FLAG_LAUNCHED, FLAG_OUTSIDE, MAX_TEXT, pack

INFO = RunInfo(name="test", source="cpu")


def read(blob):
    """Header, and columns as lists of Python integers or texts; follows the layout's description, byte by byte."""
    assert blob[:4] == b"CLP1"
    codec, head = (int.from_bytes(blob[k : k + 4], "little") for k in (4, 8))
    decode = zlib.decompress if codec else bytes
    header = json.loads(decode(blob[12 : 12 + head]))
    at, columns = 12 + head, {}
    for name, column in header["columns"].items():
        if "text" in column:
            columns[name] = json.loads(decode(blob[at : at + column["text"]]))
            at += column["text"]
            continue
        values = [0] * column["n"]
        for k, plane in enumerate(column["planes"]):
            data = bytes([-1 - plane]) * column["n"] if plane < 0 else decode(blob[at : at + plane])
            at += max(plane, 0)
            values = [v | b << 8 * k for v, b in zip(values, data, strict=True)]
        columns[name] = [(v >> 1) ^ -(v & 1) for v in values] if column["signed"] else values
    assert at == len(blob)
    return header, columns


def unfold(header, columns):
    """(start, dur) of every event, from the meaning of closed, gap and tail alone."""
    times, row = [], 0
    for lane in header["lanes"]:
        open_, last_end = [], {0: 0}

        def close(open_=open_, last_end=last_end):
            at, start = open_.pop()
            end = last_end.get(len(open_) + 1, start) + columns["tail"][at]
            times[at] = (start, end - start)
            last_end[len(open_)] = end

        for i in range(row, row + lane["count"]):
            for _ in range(columns["closed"][i]):
                close()
            depth = len(open_)
            before = last_end.get(depth, open_[-1][1] if open_ else 0)
            times.append(None)
            open_.append((i, before + columns["gap"][i]))
            last_end.pop(depth + 1, None)
        while open_:
            close()
        row += lane["count"]
    return times


def rows_of(header, columns, times):
    """Row in the frame of every event."""
    order = sorted(range(len(times)), key=lambda i: (times[i][0], -times[i][1]))
    rows, at = list(range(len(times))), 0
    for step, off in zip(columns["row_at"], columns["row_off"], strict=True):
        at += step
        rows[at] += off
    found = [0] * len(times)
    for k, i in enumerate(order):
        found[i] = rows[k]
    return found


def launches_of(columns):
    calls = [i for i, kind in enumerate(columns["kind"]) if kind in columns["launchers"]]
    found, ordinal, steps = [], -1, iter(columns["launch"])
    for flags in columns["flags"]:
        if flags & FLAG_LAUNCHED:
            ordinal += next(steps) + 1
            found.append(calls[ordinal])
        else:
            found.append(-1)
    return found


@st.composite
def traces(draw):
    """Traces of few events that touch, nest, overlap, tie, launch each other, on few lanes."""
    n = draw(st.integers(0, 40))

    def each(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    device = each(st.sampled_from([None, None, 0, 1]))
    ts = each(st.integers(0, 30))
    base = draw(st.sampled_from([0, -5, 1_700_000_000_000_000_000, 2**62]))
    cat = [c if d is None else "kernel" for c, d in zip(each(st.sampled_from(_HOST_CATS)), device, strict=True)]
    events = build_events(
        {
            "ts": [base + t for t in ts],
            "dur": each(st.integers(0, 12)),
            "is_instant": np.array(each(st.booleans()), bool) & draw(st.booleans()),
            "name": pd.Categorical(each(st.sampled_from(["a", "b", "</script>", "ProfilerStep#1", "é 🙂\u2028"]))),
            "cat": pd.Categorical(cat),
            "device": pd.array(device, dtype="Int32"),
            "stream": pd.array([None if d is None else 7 for d in device], dtype="Int64"),
            "pid": pd.array([None if d is not None else 1 for d in device], dtype="Int64"),
            "tid": pd.array([None if d is not None else i % 2 for i, d in enumerate(device)], dtype="Int64"),
            "correlation_id": pd.array(each(st.sampled_from([None, 1, 2, 2**63 - 1])), dtype="Int64"),
        },
        async_mask=np.array(each(st.booleans()), bool) & draw(st.booleans()),
    )
    if draw(st.booleans()):
        events = events.sample(frac=1, random_state=draw(st.integers(0, 9))).reset_index(drop=True)
        events["launch"] = pd.array([None] * n, dtype="Int64")
    return Trace(INFO, events=events)


_HOST_CATS = ["cpu_op", "cuda_runtime", "overhead", "user_annotation"]


@settings(max_examples=examples(150), deadline=None)
@given(traces(), st.booleans())
def test_what_is_packed_can_be_read_back_exactly(trace, compress):
    header, columns = read(pack(trace, compress=compress))
    events = trace.events
    times = unfold(header, columns)
    rows = rows_of(header, columns, times)
    assert sorted(rows) == list(range(len(events)))
    lane = [k for k, item in enumerate(header["lanes"]) for _ in range(item["count"])]
    place = {row: i for i, row in enumerate(rows)}
    launch = launches_of(columns)
    for i, row in enumerate(rows):
        event = events.iloc[row]
        kind = columns["kind"][i]
        assert (times[i][0] + int(header["t0"]), times[i][1]) == (event["ts"], event["dur"])
        assert columns["names"][columns["kind_name"][kind]] == event["name"]
        assert header["cats"][columns["kind_cat"][kind]] == event["cat"]
        assert bool(columns["flags"][i] & FLAG_INSTANT) == event["is_instant"]
        assert (header["lanes"][lane[i]]["kind"] == "device") == pd.notna(event["device"])
        assert launch[i] == (place[event["launch"]] if pd.notna(event["launch"]) else -1)
    assert self_times(header, columns, times) == [events["self_dur"].iloc[row] for row in rows]


def self_times(header, columns, times):
    """Self time as the page derives it: of each event, its children are taken off."""
    own, row = [dur for _, dur in times], 0
    for lane in header["lanes"]:
        members = [i for i in range(row, row + lane["count"]) if not columns["flags"][i] & FLAG_OUTSIDE]
        row += lane["count"]
        if lane["kind"] == "device":
            continue
        for k, i in enumerate(members):
            start, end = times[i][0], sum(times[i])
            above = [j for j in members[:k] if sum(times[j]) >= max(end, start + 1)]
            if above:
                own[above[-1]] -= times[i][1]
    at = 0
    for step, off in zip(columns["self_at"], columns["self_off"], strict=True):
        at += step
        own[at] += off
    return own


def test_lanes_are_streams_then_the_thread_with_the_steps_then_the_busiest():
    events = build_events(
        {
            "ts": [0, 1, 2, 3, 4, 5],
            "dur": [1] * 6,
            "name": pd.Categorical(["x", "x", "x", "x", "x", "ProfilerStep#1"]),
            "cat": pd.Categorical(["cpu_op", "cpu_op", "cpu_op", "kernel", "kernel", "user_annotation"]),
            "device": pd.array([None, None, None, 1, 0, None], dtype="Int32"),
            "stream": pd.array([None, None, None, 7, 9, None], dtype="Int64"),
            "pid": pd.array([5, 5, 5, None, None, 5], dtype="Int64"),
            "tid": pd.array([2**60, 3, 3, None, None, 1], dtype="Int64"),
            "thread": pd.Categorical([None, "worker", "worker", None, None, None]),
        }
    )
    header, _ = read(pack(Trace(INFO, events=events)))
    assert [lane["label"] for lane in header["lanes"]] == [
        "GPU 0 · stream 9",
        "GPU 1 · stream 7",
        "thread 1",
        "worker 3",
        f"thread {2**60}",
    ]
    assert header["lanes"][4]["tid"] == str(2**60), "JavaScript would round it"


def test_times_that_doubles_cannot_hold_are_clipped_and_counted():
    events = build_events(
        {
            "ts": [-(2**63), 1_000, 2_000, 2**63 - 1],
            "dur": [5, 5, 2**63 - 1, 0],
            "name": pd.Categorical(["x"] * 4),
            "cat": pd.Categorical(["cpu_op"] * 4),
        }
    )
    header, columns = read(pack(Trace(INFO, events=events)))
    assert header["num_clipped"] == 3
    starts = [start for start, _ in unfold(header, columns)]
    assert all(0 <= start <= 2**53 for start in starts)
    assert 1_000 in [start + int(header["t0"]) for start in starts]


def test_long_names_are_cut_and_report_it():
    events = build_events(
        {"ts": [0], "dur": [1], "name": pd.Categorical(["n" * 1_000_000]), "cat": pd.Categorical(["cpu_op"])}
    )
    blob = pack(Trace(INFO, events=events), compress=False)
    _, columns = read(blob)
    assert columns["names"] == ["n" * MAX_TEXT + "… [1,000,000 characters]"]
    assert len(blob) < 10_000


@pytest.fixture
def detailed():
    n = 3000
    stacks = StackTable()
    ids = [stacks.add([f"file.py({k}): f{k}", "main.py(1): <module>"]) for k in range(500)]
    ids_64 = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, n).tolist()
    events = build_events(
        {
            "ts": np.arange(n) * 100,
            "dur": np.full(n, 50),
            "name": pd.Categorical(["op"] * n),
            "cat": pd.Categorical(["cpu_op"] * n),
            "shapes": pd.Categorical([None if k % 3 else f"[[{k % 7}, 2]]" for k in range(n)]),
            "stack": pd.array([ids[k % 500] for k in range(n)], dtype="Int64"),
            "external_id": pd.array([None if k % 5 == 0 else v for k, v in enumerate(ids_64)], dtype="Int64"),
            "occupancy_pct": pd.array([None if k % 2 else 12.5 for k in range(n)], dtype="Float32"),
        }
    )
    return Trace(INFO, events=events, stacks=stacks.to_frame())


def test_details_are_exact(detailed):
    header, columns = read(pack(detailed))
    events = detailed.events
    assert {d["name"] for d in header["details"]} == {"shapes", "stack", "external_id", "occupancy_pct"}
    assert header["dropped"] == []
    for k in (0, 1, 3, 6, 2999):
        for name in ("shapes", "occupancy_pct"):
            code = columns[f"{name}.codes"][k]
            shown = columns[f"{name}.values"][code - 1] if code else None
            want = events[name].iloc[k]
            assert shown == (None if pd.isna(want) else str(want))
    assert columns["stack.values"][columns["stack.codes"][7] - 1] == "file.py(7): f7\nmain.py(1): <module>"
    known, steps = columns["external_id.known"], columns["external_id.steps"]
    values = (np.cumsum(np.array(steps, object)) + 2**63) % 2**64 - 2**63
    assert list(values) == [int(v) for v in events["external_id"].dropna()]
    assert known == [int(v) for v in events["external_id"].notna()]


def test_details_beyond_the_budget_are_left_out_and_named(detailed):
    whole = pack(detailed)
    budget = len(whole) + payload._HEADER_RESERVE - 10_000
    small = pack(detailed, max_bytes=budget)
    header, columns = read(small)
    assert header["dropped"] == ["external_id"], "24 kB of random ids"
    assert "external_id.steps" not in columns
    assert len(small) < len(whole) - 10_000


def test_the_last_whole_steps_are_sent_where_not_all_events_fit(monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 10)
    trace = gpu_trace(steps=400)
    limit = payload._HEADER_RESERVE + len(pack(trace)) * 2 // 3
    header, _ = read(pack(trace, max_bytes=limit))
    first = header["first_row"]
    assert 0 < first < len(trace) // 2 + 200
    assert (header["n"], header["num_all"]) == (len(trace) - first, len(trace))
    assert str(trace.events["name"].iloc[first]).startswith("ProfilerStep#")
    assert header["begin"] == trace.events["ts"].iloc[first] - int(header["t0"])
    assert sum(lane["count"] for lane in header["lanes"]) == header["n"]


def test_all_events_are_sent_where_they_fit():
    trace = gpu_trace(steps=40)
    assert read(pack(trace, max_bytes=5_000_000))[0]["first_row"] == 0
    assert pack(trace, max_bytes=5_000_000) == pack(trace)


def test_the_source_of_cells_counts_as_well(monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 10)
    random = np.random.default_rng(3)
    times = {"ts": np.arange(60_000) * 1_000, "dur": random.integers(1, 1_000, 60_000)}
    texts = {"name": pd.Categorical(["f"] * 60_000), "cat": pd.Categorical(["cpu_op"] * 60_000)}
    events = build_events(times | texts)
    letters = random.integers(0x4E00, 0x9FFF, (3, 9_000))
    cells = {f"In[{number}]": "".join(map(chr, row)) for number, row in enumerate(letters)}
    trace = Trace(structs.replace(INFO, extra=sources_to_extra(cells)), events=events)
    limit = len(pack(Trace(INFO, events=events))) + payload._HEADER_RESERVE
    assert len(pack(trace)) > limit
    blob = pack(trace, max_bytes=limit)
    assert read(blob)[0]["cells"] == cells
    assert len(blob) <= limit


def test_so_many_events_are_sent_in_any_case(monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 100)
    trace = gpu_trace(steps=400)
    header, _ = read(pack(trace, max_bytes=0))
    assert header["n"] in range(50, 101)


def test_names_are_cut_where_not_even_the_least_events_fit_with_whole_ones(monkeypatch):
    monkeypatch.setattr(payload, "MIN_EVENTS", 100)
    digits = np.random.default_rng(2).integers(0, 10, (2000, 150))
    names = ["f" + "".join(map(str, row)) for row in digits]
    times = {"ts": np.arange(2000) * 100, "dur": np.full(2000, 50)}
    texts = {"name": pd.Categorical(names), "cat": pd.Categorical(["cpu_op"] * 2000)}
    trace = Trace(INFO, events=build_events(times | texts))
    limit = payload._HEADER_RESERVE + 8_000
    blob = pack(trace, max_bytes=limit)
    header, columns = read(blob)
    assert len(blob) <= limit
    assert header["short"] == {}
    assert columns["names"] == [f"{name[:BRIEF_TEXT]}… [151 characters]" for name in names[-header["n"] :]]
    assert header["n"] >= 100


def test_marks_before_the_first_event_are_left_out():
    lanes = payload.Lanes(np.zeros(1, np.int64), [{}], {3: 0})
    marks = [{"at": 5, "lane": 3}, {"at": 20, "lane": 3}, {"at": 20, "lane": 1}, {"at": 30, "lane": -1}]
    assert payload.marks_from(marks, lanes, 10) == [{"at": 20, "lane": 0}, {"at": 30, "lane": -1}]


def test_memory_keeps_its_peaks_when_thinned(monkeypatch):
    monkeypatch.setattr(payload, "MAX_POINTS", 400)
    n = 5000
    allocated = np.random.default_rng(2).integers(0, 10_000, n)
    allocated[1234] = 77_777
    memory = build_memory(
        {
            "ts": np.arange(n) * 10,
            "action": ["alloc"] * n,
            "num_bytes": np.ones(n, np.int64),
            "device_type": ["cuda" if k % 2 else "cpu" for k in range(n)],
            "device": pd.array([0 if k % 2 else None for k in range(n)], dtype="Int32"),
            "allocated_bytes": pd.array(allocated, dtype="Int64"),
        },
        build_events({"ts": [0], "dur": [9], "name": pd.Categorical(["x"]), "cat": pd.Categorical(["cpu_op"])}),
    )
    events = build_events({"ts": [0], "dur": [9], "name": pd.Categorical(["x"]), "cat": pd.Categorical(["cpu_op"])})
    header, columns = read(pack(Trace(INFO, events=events, memory=memory)))
    facts = header["memory"]
    assert (facts["num_actions"], facts["devices"]) == (n, ["cpu", "cuda:0"])
    assert facts["n"] <= 400
    value, seen = defaultdict(int), defaultdict(dict)
    ts = np.cumsum(columns["mem.ts"])
    for k, device in enumerate(columns["mem.device"]):
        value[device] += columns["mem.allocated_bytes"][k]
        seen[device][int(ts[k])] = value[device] - 1
    assert seen[0][12_340] == 77_777
    for device in (0, 1):
        mine = allocated[device::2]
        assert max(seen[device].values()) == mine.max()
        assert min(seen[device].values()) == mine.min()
        assert all(allocated[t // 10] == v for t, v in seen[device].items())


def test_an_empty_trace_and_what_the_caller_adds():
    header, columns = read(pack(Trace(INFO), extra={"verdict": "nothing ran"}))
    assert (header["n"], header["lanes"], header["extra"]) == (0, [], {"verdict": "nothing ran"})
    assert columns["names"] == []
