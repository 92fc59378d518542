"""Call tree, flame graph and attribution against slow oracles that look at one event at a time."""

import itertools

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.analysis import attribution, call_tree, flame_graph
from cudalens.frames import RunInfo, StackTable, Trace, build_events
from cudalens.traces.export.flame import collapsed_lines

CATS = {"a": "cpu_op", "b": "cpu_op", "r": "user_annotation", "nn.Module: M_0": "python_function"}
CATS |= {"nn.Module: L_0": "python_function", "me.py(3): f": "python_function", "torch/x.py(9): g": "python_function"}


@st.composite
def traces(draw):
    """Nested host events on two threads, some of which launch kernels; a few kernels without a launch."""
    rows, cid = [], [0]

    def nest(tid, start, end, level):
        at = start
        while end - at > 1 and level < 4 and draw(st.booleans()):
            low = draw(st.integers(at, end - 1))
            high = draw(st.integers(low + 1, end))
            name = draw(st.sampled_from([*CATS, "cudaLaunchKernel"]))
            if name == "cudaLaunchKernel":
                cid[0] += 1
                rows.append((low, high - low, name, "cuda_runtime", None, tid, cid[0]))
                rows.append((low + 1, draw(st.integers(0, 9)), "k", "kernel", 0, None, cid[0]))
            else:
                rows.append((low, high - low, name, CATS[name], None, tid, None))
                nest(tid, low, high, level + 1)
            at = high

    for tid in (1, 2):
        nest(tid, 0, 60, 0)
    if draw(st.booleans()):
        rows.append((5, 7, "k", "kernel", 0, None, 999))
    return made(rows)


def made(rows):
    if not rows:
        return Trace(RunInfo(name="t", source="cuda"))
    ts, dur, name, cat, device, tid, cid = zip(*rows, strict=True)
    columns = {"ts": np.array(ts), "dur": np.array(dur), "name": pd.Categorical(name), "cat": pd.Categorical(cat)}
    columns |= {
        "device": pd.array(device, "Int32"),
        "stream": pd.array([None if d is None else 7 for d in device], "Int64"),
    }
    columns |= {"tid": pd.array(tid, "Int64"), "pid": pd.array(tid, "Int64"), "correlation_id": pd.array(cid, "Int64")}
    return Trace(RunInfo(name="t", source="cuda"), events=build_events(columns))


def chain(events, row):
    """Rows from `row` up to its root."""
    found = [row]
    while not pd.isna(parent := events["parent"][found[-1]]):
        found.append(int(parent))
    return found


def launched_by(events, row):
    return None if pd.isna(events["launch"][row]) else int(events["launch"][row])


@settings(deadline=None, max_examples=examples(30))
@given(traces())
def test_a_call_tree_is_the_sum_of_its_events(trace):
    events, slow = trace.events, {}

    def add(path, **values):
        entry = slow.setdefault(
            path, dict.fromkeys(("count", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns"), 0)
        )
        for key, value in values.items():
            entry[key] += int(value)

    for row in range(len(events)):
        dur = events["dur"][row]
        if events["cat"][row] == "kernel":
            launch = launched_by(events, row)
            above = () if launch is None else tuple(events["name"][r] for r in chain(events, launch)[::-1])
            add((*above, "k"), count=1, device_self_ns=dur)
            for k in range(len(above) + 1):
                add((*above, "k")[: k + 1], device_total_ns=dur)
        else:
            path = tuple(events["name"][r] for r in chain(events, row)[::-1])
            add(path, count=1, host_self_ns=events["self_dur"][row], host_total_ns=dur)
    tree, paths, found = call_tree(trace), [], {}
    for row in tree.itertuples():
        paths.append((*(() if pd.isna(row.parent) else paths[row.parent]), row.name))
        assert row.depth == len(paths[-1]) - 1
        found[paths[-1]] = {key: getattr(row, key) for key in next(iter(slow.values()))}
    assert found == slow


@settings(deadline=None, max_examples=examples(25))
@given(traces(), st.sampled_from(["host", "device"]))
def test_rectangles_are_within_their_parents_and_beside_each_other(trace, weight):
    flame = flame_graph(trace, weight)
    own = call_tree(trace)[f"{weight}_self_ns"].clip(lower=0).sum()
    assert flame["self_ns"].sum() == own
    inside = {}
    for row in flame.itertuples():
        key = None if pd.isna(row.parent) else int(row.parent)
        inside.setdefault(key, []).append((row.start_ns, row.start_ns + row.width_ns))
    for key, spans in inside.items():
        spans.sort()
        assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
        low, high = (
            (0, own) if key is None else (flame["start_ns"][key], flame["start_ns"][key] + flame["width_ns"][key])
        )
        assert spans[0][0] == low
        assert spans[-1][1] <= high


def key_of(events, row, by):
    for number, r in enumerate(above := chain(events, row)):
        name, cat = events["name"][r], events["cat"][r]
        if (by, cat) in {("op", "cpu_op"), ("range", "user_annotation")}:
            return name
        if by == "line" and name.startswith("me.py"):
            return "f (me.py)"  # line 3 is the first of the function, not the one that ran
        if by == "module" and name.startswith("nn.Module"):
            names = [
                events["name"][x].removeprefix("nn.Module: ")
                for x in above[number:]
                if events["name"][x].startswith("nn.Module")
            ]
            return ".".join(names[::-1])
    return None


@settings(deadline=None, max_examples=examples(40))
@given(traces(), st.sampled_from(["op", "range", "line", "module"]))
def test_attribution_adds_up_and_gives_each_event_to_one_key(trace, by):
    events, frame = trace.events, attribution(trace, by)
    host_self, device_self, host_total, device_total, begun = {}, {}, {}, {}, {}
    for row in range(len(events)):
        if events["cat"][row] == "kernel":
            launch = launched_by(events, row)
            key = None if launch is None else key_of(events, launch, by)
            device_self[key] = device_self.get(key, 0) + int(events["dur"][row])
            around = {None} if launch is None else {key_of(events, r, by) for r in chain(events, launch)}
            for outer in around - {None}:
                device_total[outer] = device_total.get(outer, 0) + int(events["dur"][row])
            continue
        key = key_of(events, row, by)
        host_self[key] = host_self.get(key, 0) + int(events["self_dur"][row])
        above = chain(events, row)[1:2]
        begun[key] = begun.get(key, 0) + (not above or key_of(events, above[0], by) != key)
        if key is not None and by != "module" and key not in [key_of(events, r, by) for r in chain(events, row)[1:]]:
            host_total[key] = host_total.get(key, 0) + int(events["dur"][row])
    labels = [None if pd.isna(k) else k for k in frame["key"]]
    columns = ("host_self_ns", "device_self_ns", "host_total_ns", "device_total_ns", "count")
    found = {column: dict(zip(labels, frame[column], strict=True)) for column in columns}
    keys = host_self.keys() | device_self.keys()
    assert set(labels) == keys
    assert len(labels) == len(keys)
    assert {k: found["host_self_ns"][k] for k in keys} == {k: host_self.get(k, 0) for k in keys}
    assert {k: found["device_self_ns"][k] for k in keys} == {k: device_self.get(k, 0) for k in keys}
    assert {k: found["host_total_ns"][k] for k in host_total} == host_total
    assert {k: found["count"][k] for k in keys} == {k: begun.get(k, 0) for k in keys}
    if None in keys:
        assert found["device_total_ns"][None] == device_self.get(None, 0)
        assert found["host_total_ns"][None] == host_self.get(None, 0)
    if by != "module":
        assert {k: found["device_total_ns"][k] for k in keys - {None}} == {
            k: device_total.get(k, 0) for k in keys - {None}
        }
    if by == "module":
        for key in keys - {None}:
            within = sum(v for k, v in host_self.items() if k == key or (k or "").startswith(key + "."))
            assert found["host_total_ns"][key] == within
    kernels = events["cat"] == "kernel"
    assert frame["host_self_ns"].sum() == events["self_dur"][~kernels].sum()
    assert frame["device_self_ns"].sum() == events["dur"][kernels].sum()


def test_backward_belongs_to_the_module_of_its_forward():
    ts = [0, 1, 20, 21, 22]
    names = ["nn.Module: M_0", "aten::mul", "MulBackward0", "cudaLaunchKernel", "k"]
    integers = {"tid": [1, 1, 2, 2, None], "pid": [1, 1, 1, 1, None], "sequence_nr": [None, 4, 4, None, None]}
    integers |= {
        "fwd_tid": [None, None, 1, None, None],
        "correlation_id": [None, None, None, 9, 9],
        "stream": [None] * 4 + [7],
    }
    columns = {"ts": np.array(ts), "dur": np.array([10, 5, 8, 2, 30]), "name": pd.Categorical(names)}
    columns["cat"] = pd.Categorical(["python_function", "cpu_op", "cpu_op", "cuda_runtime", "kernel"])
    columns["device"] = pd.array([None] * 4 + [0], "Int32")
    columns |= {name: pd.array(values, "Int64") for name, values in integers.items()}
    frame = attribution(Trace(RunInfo(name="t", source="cuda"), events=build_events(columns)), by="module")
    assert frame[["key", "host_self_ns", "device_self_ns"]].to_numpy().tolist() == [["M_0", 18, 30]]
    columns["module"] = pd.Categorical([None, "forward", "its own", None, None])
    frame = attribution(Trace(RunInfo(name="t", source="cuda"), events=build_events(columns)), by="module")
    assert frame[["host_self_ns", "device_self_ns"]].to_numpy().tolist() == [[13, 30], [5, 0]]
    assert frame["key"][0] == "forward"


def test_nothing_gives_empty_frames_with_the_same_columns():
    empty = Trace(RunInfo(name="t", source="cpu"))
    full = made([(0, 10, "a", "cpu_op", None, 1, None)])
    for analysis in (call_tree, flame_graph, attribution):
        assert len(analysis(empty)) == 0
        assert list(analysis(empty)) == list(analysis(full))
    with pytest.raises(ValueError, match="expected one of 'module', 'line'"):
        attribution(full, by="colour")
    with pytest.raises(ValueError, match="expected one of 'host', 'device'"):
        flame_graph(full, weight="memory")


@pytest.mark.parametrize("by", ["stack", "module"])
@pytest.mark.parametrize("weight", ["host", "device"])
def test_a_flame_graph_by_callers_is_what_collapsed_stacks_state(by, weight):
    """The same paths and the same costs as the file for flamegraph.pl has."""
    trace = with_callers()
    frame = flame_graph(trace, weight=weight, by=by)
    names, parent = frame["name"].astype(str).tolist(), frame["parent"].to_numpy(dtype=int, na_value=-1)
    lines = set()
    for row in range(len(frame)):
        path, at = [], row
        while at >= 0:
            path.append(names[at])
            at = parent[at]
        assert frame["depth"].iloc[row] == len(path) - 1
        if frame["self_ns"].iloc[row]:
            lines.add(f"{';'.join(path[::-1])} {frame['self_ns'].iloc[row]}")
    assert lines == set(collapsed_lines(trace, weight, by))
    assert any(line.startswith(f"(no {by})") for line in lines)
    whole = frame.loc[frame["depth"] == 0, "width_ns"].sum()
    assert whole == frame["self_ns"].sum() > 0
    assert set(frame["is_device"]) == ({False} if weight == "host" else {False, True})


def with_callers():
    """Operators of two lines of a file and of two modules, each with a kernel, and one of no line and no module."""
    rows = []
    for k in range(5):
        at = 100 * k
        rows += [
            ("aten::mm", "cpu_op", at, 50 + k, None, None),
            ("cudaLaunchKernel", "cuda_runtime", at + 10, 5, k, None),
        ]
        rows.append(("gemm", "kernel", at + 60, 20 + k, k, 0))
    names, cats, ts, dur, correlation, device = zip(*rows, strict=True)
    host = [None if d is not None else 1 for d in device]
    columns = {"name": pd.Categorical(names), "cat": pd.Categorical(cats), "ts": np.array(ts), "dur": np.array(dur)}
    columns |= {"pid": pd.array(host, "Int64"), "tid": pd.array(host, "Int64"), "stream": pd.array(device, "Int64")}
    columns |= {"device": pd.array(device, "Int32"), "correlation_id": pd.array(correlation, "Int64")}
    events = build_events(columns)
    table = StackTable()
    first, second = (table.add([f"train.py({line}): step", "train.py(9): main"]) for line in (3, 4))
    ops = np.flatnonzero(events["cat"] == "cpu_op")
    stack, module = np.full(len(events), -1), np.full(len(events), -1)
    stack[ops[:4]], module[ops[:4]] = [first, first, second, second], [0, 1, 1, 0]
    events["stack"] = pd.arrays.IntegerArray(np.maximum(stack, 0), stack < 0)
    events["module"] = pd.Categorical.from_codes(module, pd.Index(["Net.Linear", "Net.Conv"], dtype="str"))
    return Trace(RunInfo(name="run", source="cuda"), events=events, stacks=table.to_frame())


def test_groupings_of_flame_graphs_that_are_none():
    trace = Trace(RunInfo(name="run", source="cuda"))
    with pytest.raises(ValueError, match="invalid value for by: 'line'; expected one of 'tree', 'stack', 'module'"):
        flame_graph(trace, by="line")
    with pytest.raises(ValueError, match="per_thread=True requires by='tree'"):
        flame_graph(trace, by="stack", per_thread=True)
    for by in ("stack", "module"):
        assert flame_graph(trace, by=by).columns.equals(flame_graph(trace).columns)
        assert len(flame_graph(trace, by=by)) == 0
