"""Traces of what a graph manager did: a small one, large ones, odd ones, and one whose texts are hostile."""

import json

import pandas as pd
from sample_races import races_frame, read_after_write
from sample_traces import HOSTILE, HOSTILE_STYLE, gpu_trace

from cudalens.frames import RunInfo, StackTable, Trace, columns_of

MIB = 1 << 20


def graphs_frame(rows):
    """The frame `graphs` of dicts; what a dict leaves out is missing, or zero where it cannot be."""
    columns = {}
    for column in columns_of("graphs"):
        values = [row.get(column.name) for row in rows]
        if column.dtype == "category":
            codes, texts = pd.factorize(pd.Series(values, dtype=object))
            columns[column.name] = pd.Categorical.from_codes(codes, categories=pd.Index(list(texts), dtype="str"))
        elif column.dtype == "int64":
            columns[column.name] = pd.Series([value or 0 for value in values], dtype="int64").to_numpy()
        else:
            columns[column.name] = pd.array(values, dtype=column.dtype)
    return pd.DataFrame(columns)


def function(number, name, state="recorded", *, replays=0, warmups=1, recordings=1, eager=0, **more):
    return {
        "kind": "function",
        "function": name,
        "function_id": number,
        "state": state,
        "count": replays + warmups + recordings + eager,
        "num_warmups": warmups,
        "num_recordings": recordings,
        "num_replays": replays,
        "num_eager": eager,
        "device": 0,
        "pool": "[0, 1]",
        "reserved_bytes": 312 * MIB,
    } | more


def recording(node, name, parent=None, *, number=0, replays=0, state="idle", **more):
    return {
        "kind": "recording",
        "function": name,
        "function_id": number,
        "variant": "float32[4, 512, 1024]",
        "node": node,
        "parent": parent,
        "mode": "inference",
        "state": state,
        "count": replays,
        "place": f"In[7]:{node + 2}",
        "source": f"hidden = {name}(hidden)",
        "device": 0,
        "pool": "[0, 1]",
        "pool_bytes": (node + 1) * 8 * MIB,
        "reserved_bytes": 312 * MIB,
        "num_kernels": 12,
        "num_static_inputs": 9,
        "num_copied_inputs": 1,
        "copied_bytes": 8 * MIB,
        "num_outputs": 2,
        "num_live_outputs": None if state == "idle" else 1,
        "record_ns": 4_200_000,
        "eager_ns": 410_000,
        "replay_ns": 100_000,
    } | more


def path(nodes, count):
    return {"kind": "path", "function": "", "path": json.dumps(nodes), "count": count}


SKIP = {
    "kind": "skip",
    "function": "update_cache",
    "function_id": 3,
    "count": 40,
    "reason": "MUTATED_INPUT",
    "detail": "writes its input 'cache'",
    "advice": "declare it static where it is the same tensor in every call (static=...), or ask for it to be copied "
    "back (mutations='copy').",
    "place": "In[5]:3",
    "source": "cache[:, position] = keys",
}
RERECORD = {
    "kind": "rerecord",
    "function": "decode",
    "function_id": 1,
    "count": 2,
    "reason": "NEW_SHAPE",
    "detail": "got tensors of new sizes: tokens float32[3, 1] instead of float32[4, 1]",
    "advice": "pad to a few sizes.",
    "place": "In[7]:4",
    "source": "hidden = decode(tokens)",
}
WARNING = {
    "kind": "warning",
    "function": "decode",
    "function_id": 1,
    "count": 1,
    "reason": "OUTPUT_SPOILED",
    "detail": "overwrote outputs of an earlier step that were still held: logits",
    "advice": "clone what you keep beyond a step; touching it raises an error.",
    "place": "In[7]:9",
    "source": "best = logits.argmax(-1)",
}


def small_rows(**changes):
    """A decode loop: prefill, then decode of two sizes, then sample; the cache's update runs eager."""
    return [
        function(0, "prefill", replays=3),
        function(1, "decode", replays=480, warmups=2, recordings=2),
        function(2, "sample", replays=477, warmups=1, recordings=1),
        function(3, "update_cache", "eager", eager=40, warmups=1, recordings=0, reason="MUTATED_INPUT",
                 detail="writes its input 'cache'", place="In[5]:3", source="cache[:, position] = keys"),
        recording(0, "prefill", number=0, replays=3, state="on the path"),
        recording(1, "decode", 0, number=1, replays=474, state="on the path", variant="float32[4, 1, 1024]"),
        recording(2, "sample", 1, number=2, replays=477, state="current", variant="float32[4, 32000], top_k=50"),
        recording(3, "decode", 0, number=1, replays=6, variant="float32[3, 1, 1024]",
                  reason="NEW_SHAPE", detail=RERECORD["detail"]) | changes,
        path([0, 1, 2], 474),
        path([0, 3], 6),
        SKIP,
        RERECORD,
        WARNING,
    ]  # fmt: skip


INFO = {"name": "cell-7", "source": "cuda"}


def graphs_trace(rows=None, *, events=False, races=False, **info):
    """What a graph manager did in a cell, beside what was profiled or watched in it."""
    frames = {"graphs": graphs_frame(small_rows() if rows is None else rows)}
    if races:
        stacks = StackTable()
        frames |= {"races": races_frame([read_after_write(stacks)]), "stacks": stacks.to_frame()}
    if events:
        return gpu_trace().replace(**frames)
    return Trace(RunInfo(**(INFO | info)), **frames)


def failed_rows():
    """One of three checked recordings differs."""
    rows = small_rows(is_equal=False, max_abs_diff=0.25, first_diff="output 0[3, 7]: 1.5 eager, 1.25 replayed")
    for row in rows:
        if row["kind"] == "recording" and row["node"] < 2:
            row["is_equal"] = True
    return rows


def layers_rows(num_layers=24, num_steps=512):
    """A long chain: two functions in turn, with a branch of another size in the middle, and forward and backward."""
    rows = [
        function(0, "embed", replays=num_steps),
        function(1, "attend", replays=num_steps * num_layers, warmups=num_layers, recordings=num_layers),
        function(2, "mlp", replays=num_steps * num_layers, warmups=num_layers, recordings=num_layers),
        recording(0, "embed", number=0, replays=num_steps, state="on the path", mode="forward"),
    ]
    for node in range(1, 2 * num_layers + 1):
        kind = 1 if node % 2 else 2
        state = "current" if node == 2 * num_layers else "on the path"
        rows.append(recording(node, ["", "attend", "mlp"][kind], node - 1, number=kind, replays=num_steps, state=state,
                              mode="forward", eager_ns=90_000 * kind, replay_ns=31_000))  # fmt: skip
    rows.append(path(list(range(2 * num_layers + 1)), num_steps))
    return rows


def large_rows(num=300, seed=7):
    """A forest of `num` recordings of a dozen functions, grown at random but always the same."""
    names = [f"{verb}_{noun}" for verb in ("attend", "mix", "norm") for noun in ("in", "out", "cross", "self")]
    rows = [function(number, name, replays=number * 10) for number, name in enumerate(names)]
    state = seed
    for node in range(num):
        state = (state * 1103515245 + 12345) % (1 << 31)
        parent = None if node == 0 or state % 61 == 0 else max(0, node - 1 - (state >> 8) % 4 * ((state >> 12) % 9))
        number = (state >> 5) % len(names)
        replays = (state >> 3) % 900
        rows.append(recording(node, names[number], parent, number=number, replays=replays,
                              eager_ns=20_000 + state % 900_000, replay_ns=9_000 + (state >> 4) % 200_000,
                              is_equal=None if node % 97 else node % 2 == 0, max_abs_diff=1e-3))  # fmt: skip
    last = rows[-1]
    last["state"] = "current"
    by_node = {row["node"]: row for row in rows if row["kind"] == "recording"}
    at = last["parent"]
    while at is not None:
        by_node[at]["state"] = "on the path"
        at = by_node[at]["parent"]
    return rows


def fan_rows(num=40):
    """One recording that everything follows, and as many trees."""
    rows = [function(0, "begin", replays=900), function(1, "variant", replays=num * 3, recordings=num)]
    rows.append(recording(0, "begin", replays=900))
    for node in range(1, num + 1):
        rows.append(recording(node, "variant", 0, number=1, replays=node, variant=f"int64[{node}]"))
        rows.append(recording(num + node, "variant", None, number=1, replays=node, variant=f"int64[{node}], root"))
    return rows


def hostile_graphs():
    """Every text of every row is markup, and the tree is no tree."""
    rows = [dict(row) for row in small_rows(is_equal=False, first_diff=HOSTILE)]
    for number, row in enumerate(rows):
        for name in ("function", "variant", "detail", "advice", "place", "source", "pool", "mode", "reason"):
            row[name] = HOSTILE if (number + len(name)) % 2 else HOSTILE_STYLE
    rows += [recording(20, HOSTILE, 21), recording(21, HOSTILE, 20), recording(22, "orphan", 99),
             recording(22, "again", 22), path([0, 77, 22], 1), {"kind": "path", "path": "[1, [}", "count": 1},
             {"kind": HOSTILE, "function": HOSTILE, "count": 1}]  # fmt: skip
    return graphs_trace(rows, name=HOSTILE)
