"""Data that Chrome's events cannot represent: extra frames, counters, marks; and hostile values in their place."""

import base64
import json

import numpy as np
import pandas as pd
import pytest
from budget import examples
from chrome import kernel, launch, load_events, op, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudalens import traces
from cudalens.frames import FRAMES, Judged, RunInfo, StackTable, Trace, build_events, columns_of, empty_frame

EPOCH = 1_716_423_322_388_068_751
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
EXTRA = ("memory", "races", "graphs", "blocks", "syncs", "metrics", "counters", "marks")
NUM_EVENTS, NUM_STACKS = 3, 2
INTEGERS = {"Int32": st.integers(-(1 << 31), (1 << 31) - 1), "UInt64": st.integers(0, (1 << 64) - 1)}
INTEGERS |= {"int32": INTEGERS["Int32"], "Int64": st.integers(-(1 << 62), 1 << 62)}


def base_trace():
    table = StackTable()
    for k in range(NUM_STACKS):
        table.add([f"f.py({k}): inner", "train.py(1): step"])
    events = build_events(
        {
            "ts": EPOCH + np.arange(NUM_EVENTS, dtype=np.int64) * 10,
            "dur": np.full(NUM_EVENTS, 4),
            "name": pd.Categorical(list("abc")),
            "cat": pd.Categorical(["cpu_op"] * NUM_EVENTS),
            "pid": pd.array([1] * NUM_EVENTS, dtype="Int64"),
            "tid": pd.array([1] * NUM_EVENTS, dtype="Int64"),
            "stack": pd.array([1, None, None], dtype="Int64"),
        }
    )
    return Trace(RunInfo(name="r", source="cuda"), events=events, stacks=table.to_frame())


@st.composite
def values(draw, column, n):
    """Values for a column, of the catalog's dtype; links refer to existing rows."""
    if column.dtype == "category":
        return pd.Categorical(draw(st.lists(st.none() | TEXT, min_size=n, max_size=n)))
    if column.names:
        limit = {"events": NUM_EVENTS, "stacks": NUM_STACKS}.get(column.names, 0)
        some = st.integers(0, limit - 1) if limit else st.none()
    elif column.dtype in ("bool", "boolean"):
        some = st.booleans()
    elif column.dtype.startswith("Float"):
        some = st.floats(0, 1e6, width=32)
    elif column.name == "ts":
        some = st.integers(EPOCH, EPOCH + 10**9)
    else:
        some = INTEGERS.get(column.dtype, INTEGERS["Int64"])
    can_miss = column.dtype[0].isupper() or column.dtype == "boolean"
    found = draw(st.lists(st.none() | some if can_miss else some, min_size=n, max_size=n))
    return pd.array(found, dtype=column.dtype) if can_miss else np.array(found, column.dtype)


@st.composite
def frames(draw):
    found = {}
    for name in draw(st.lists(st.sampled_from(EXTRA), unique=True, max_size=2)):
        n = draw(st.integers(1, 2))
        found[name] = pd.DataFrame({column.name: draw(values(column, n)) for column in columns_of(name)})
    return found


def stack_texts(trace):
    entries = trace.stacks.astype({"file": object, "function": object})
    return entries.groupby("stack")[["file", "line", "function"]].apply(lambda part: part.astype(str).values.tolist())


def assert_same(trace, again):
    texts, texts_again = stack_texts(trace), stack_texts(again)
    for name in EXTRA:
        frame, other = trace.frames[name], again.frames[name]
        assert len(frame) == len(other)
        for column in columns_of(name):
            pair = [f[column.name] for f in (frame, other)]
            if column.names == "stacks":
                pair = [pd.Series([None if pd.isna(k) else table[k] for k in series], dtype=object)
                        for series, table in zip(pair, (texts, texts_again), strict=True)]  # fmt: skip
            elif column.dtype == "category":
                pair = [series.astype(object) for series in pair]
            pd.testing.assert_series_equal(*pair, obj=f"{name}.{column.name}")


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(frames(), st.booleans(), st.booleans())
def test_every_frame_survives(tmp_path, found, packed, tracks):
    trace = base_trace().replace(**found)
    again = traces.load(trace.to_chrome(tmp_path / ("t.json.gz" if packed else "t.json"), tracks=tracks))
    assert again.info.problems == ()
    assert again.events["name"].tolist() == list("abc")
    assert_same(trace, again)
    assert again.events["stack"].notna().tolist() == [True, False, False]


def test_what_was_judged_survives(tmp_path):
    trace = base_trace()
    trace = trace.replace(info=trace.info.replace(judged=Judged(7, 2)))
    assert traces.load(trace.to_chrome(tmp_path / "t.json")).info.judged == Judged(7, 2)


def test_stacks_that_are_there_already_are_not_added(tmp_path):
    syncs = empty_frame("syncs").reindex([0]).assign(ts=np.array([EPOCH]), stack=pd.array([1], dtype="Int64"))
    syncs = syncs.astype({column.name: column.dtype for column in columns_of("syncs")})
    again = traces.load(base_trace().replace(syncs=syncs).to_chrome(tmp_path / "t.json"))
    assert again.stacks["stack"].nunique() == 1
    assert again.syncs["stack"].tolist() == again.events["stack"].dropna().tolist()


def written(trace, folder, **options):
    return json.loads(trace.to_chrome(folder / "t.json", **options).read_bytes())


def counters(data):
    found = {}
    for event in data["traceEvents"]:
        if event["ph"] == "C":
            found.setdefault((event["pid"], event["name"]), []).append((event["ts"], event["args"]["value"]))
    return found


def test_counters_of_the_launch_queue(tmp_path):
    rows = [launch(0, 1, 1), launch(2, 1, 2), kernel(5, 9, correlation=1), kernel(14, 2, correlation=2)]
    found = counters(written(load_events(tmp_path, rows), tmp_path))
    assert found == {(0, "launch queue (launched, not begun)"): [(0, 1), (2, 2), (5, 1), (14, 0)]}


def test_counters_of_memory_and_gauges(tmp_path):
    memory = pd.DataFrame({c.name: empty_frame("memory")[c.name].reindex(range(3)) for c in columns_of("memory")})
    memory["ts"] = EPOCH + np.array([0, 1000, 2000])
    memory["action"] = pd.Categorical(["alloc", "alloc", "free_completed"])
    memory["device_type"], memory["device"] = pd.Categorical(["cuda"] * 3), pd.array([0] * 3, dtype="Int32")
    memory["num_bytes"] = np.array([512, 512, 512])
    memory["allocated_bytes"] = pd.array([512, 1024, 512], dtype="Int64")
    memory["reserved_bytes"] = pd.array([2048, 2048, 2048], dtype="Int64")
    memory = memory.astype({c.name: c.dtype for c in columns_of("memory")})
    metrics = pd.DataFrame({c.name: empty_frame("metrics")[c.name].reindex(range(2)) for c in columns_of("metrics")})
    metrics["ts"], metrics["device"] = EPOCH + np.array([0, 5000]), pd.array([0, 0], dtype="Int32")
    metrics["physical_index"] = pd.array([3, 3], dtype="Int32")
    metrics["power_watts"] = pd.array([100.0, 250.0], dtype="Float32")
    metrics = metrics.astype({c.name: c.dtype for c in columns_of("metrics")})
    data = written(base_trace().replace(memory=memory, metrics=metrics), tmp_path)
    found = {key: [value for _, value in series] for key, series in counters(data).items()}
    assert found == {
        (0, "memory allocated (bytes)"): [512, 1024, 512],
        (0, "memory reserved (bytes)"): [2048, 2048],
        (0, "power (W)"): [100.0, 250.0],
    }
    assert not counters(written(base_trace().replace(memory=memory, metrics=metrics), tmp_path, tracks=False))


def races_frame():
    races = pd.DataFrame({c.name: empty_frame("races")[c.name].reindex(range(2)) for c in columns_of("races")})
    races["ts"] = pd.array([EPOCH + 5, EPOCH + 9], dtype="Int64")
    races["is_suppressed"] = [False, True]
    texts = {"kind": "read after write", "first_op": "aten::mul_", "second_op": "aten::sum"}
    texts |= {"first_place": "In[1]:2", "second_place": "In[1]:4", "second_stream_name": "stream 7"}
    for name, value in texts.items():
        races[name] = pd.Categorical([value] * 2)
    for side in ("first", "second"):
        races[f"{side}_device"] = pd.array([0, 0], dtype="Int32")
    fill = {c.name: 0 for c in columns_of("races") if c.dtype in ("int64", "bool")}
    return races.fillna(fill).astype({c.name: c.dtype for c in columns_of("races")})


def test_races_are_marked_with_both_places_and_an_arrow(tmp_path):
    data = written(base_trace().replace(races=races_frame()), tmp_path)
    marks = [event for event in data["traceEvents"] if event.get("cat") == "cudalens_mark"]
    assert [mark["ph"] for mark in marks] == ["i", "s", "i", "f"]
    first, _, second, _ = marks
    assert (first["name"], second["name"]) == (
        "race, first access: aten::mul_",
        "race, second access: aten::sum",
    )
    assert (first["args"]["first_place"], first["args"]["second_place"]) == ("In[1]:2", "In[1]:4")
    assert second["tid"] == "races: stream 7"
    assert marks[1]["id"] == marks[3]["id"]


def embedded(tmp_path, value):
    data = written(base_trace().replace(races=races_frame()), tmp_path)
    data["cudalens"] = value(data["cudalens"]) if callable(value) else value
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(data))
    return traces.load(path)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        {},
        {"num_events": 3, "frames": "!!"},
        {"num_events": 3, "frames": base64.b64encode(b"PK no zip").decode()},
        lambda good: good | {"num_events": 4},
        lambda good: good | {"extra": 1},
        lambda good: good | {"frames": good["frames"][:-40]},
    ],
)
def test_a_damaged_value_is_a_problem_not_an_error(tmp_path, value):
    trace = embedded(tmp_path, value)
    assert len(trace) == NUM_EVENTS
    assert problems(trace) == {"frames of cudalens that cannot be read": 1}
    assert len(trace.races) == 0


def test_links_into_nowhere_are_refused(tmp_path):
    syncs = empty_frame("syncs").reindex([0]).assign(ts=np.array([EPOCH]), event=pd.array([99], dtype="Int64"))
    syncs = syncs.astype({column.name: column.dtype for column in columns_of("syncs")})
    again = traces.load(base_trace().replace(syncs=syncs).to_chrome(tmp_path / "t.json"))
    assert problems(again) == {"frames of cudalens that cannot be read": 1}


def test_a_trace_that_needs_no_more_has_no_more(tmp_path):
    assert "cudalens" not in written(load_events(tmp_path, [op(0, 1)]), tmp_path)
    assert set(EXTRA) | {"events", "stacks"} == set(FRAMES)
