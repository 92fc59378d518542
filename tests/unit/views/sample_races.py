"""Traces with races to look at: two plain ones, many, and one whose texts are hostile."""

import json

import pandas as pd
from sample_traces import HOSTILE, HOSTILE_STYLE, T0, gpu_trace

from cudalens.frames import Judged, RunInfo, StackTable, Trace, columns_of

DIFF = """--- In[7]
+++ In[7]
@@ -4,3 +4,4 @@
     with torch.cuda.stream(side):
         grads.mul_(scale)
+    torch.cuda.current_stream().wait_stream(side)
     total = grads.sum()
"""

COMMON = ["In[7](12): <module>", "train.py(88): fit", "train.py(140): main"]


def races_frame(rows):
    """The frame `races` of dicts; what a dict leaves out is missing, or zero where it cannot be."""
    columns = {}
    for column in columns_of("races"):
        values = [row.get(column.name) for row in rows]
        if column.dtype == "category":
            codes, texts = pd.factorize(pd.Series(values, dtype=object))
            columns[column.name] = pd.Categorical.from_codes(codes, categories=pd.Index(list(texts), dtype="str"))
        elif column.dtype in ("int64", "bool"):
            columns[column.name] = pd.Series([value or 0 for value in values], dtype=column.dtype).to_numpy()
        else:
            columns[column.name] = pd.array(values, dtype=column.dtype)
    return pd.DataFrame(columns)


def side(name, op, argument, is_write, stream, place, source, stack, **more):
    fields = {
        "op": op,
        "argument": argument,
        "is_write": is_write,
        "device": 0,
        "stream": 0,
        "stream_name": stream,
        "tensor": "grads",
        "shape": "[1024, 1024]",
        "dtype": "float32",
        "low_byte": 0,
        "high_byte": (4 << 20) - 1,
        "place": place,
        "source": source,
        "stack": stack,
    } | more
    return {f"{name}_{key}": value for key, value in fields.items()}


SIDE, DEFAULT = "stream 0x5581e0", "the default stream"

# Forms as cudalens.sanitizer.fixes.recorded.between writes them.
BETWEEN = [
    {"act": "first", "stream": SIDE, "op": "aten::mul_", "place": "In[7]:5"},
    {"act": "launch", "stream": SIDE, "op": "aten::add_", "place": "In[7]:6"},
    {"act": "event_record", "stream": SIDE, "event": 1},
    {"act": "launch", "stream": SIDE, "op": "aten::relu", "place": "In[7]:7"},
    {"act": "event_wait", "stream": "stream 0x77aa10", "event": 1},
    {"act": "second", "stream": DEFAULT, "op": "aten::sum", "place": "In[7]:8"},
]
REUSED = [
    {"act": "first", "stream": SIDE, "op": "aten::add"},
    {"act": "free", "tensor": "batch", "place": "In[8]:6"},
    {"act": "alloc", "tensor": "other", "place": "In[8]:7"},
    {"act": "second", "stream": DEFAULT, "op": "aten::zeros"},
]


def read_after_write(stacks, **changes):
    row = {
        "ts": T0 + 1_700_000,
        "kind": "read after write",
        "count": 512,
        "is_suppressed": False,
        "overlap_low_byte": 0,
        "overlap_high_byte": (4 << 20) - 1,
        "overlap_bytes": 4 << 20,
        "block_bytes": 4 << 20,
        "alloc_place": "In[3]:2",
        "alloc_source": "grads = torch.empty(1024, 1024, device='cuda')",
        "alloc_stack": stacks.add(["In[3](2): make", "In[3](9): <module>"]),
        "fix": "make the current stream wait for the side stream before reading `grads`",
        "fix_diff": DIFF,
        "between": json.dumps(BETWEEN),
    }
    first = ["In[7](5): scale_grads", "In[7](11): step", *COMMON]
    second = ["In[7](8): total", *COMMON]
    row |= side("first", "aten::mul_", "self", True, SIDE, "In[7]:5", "grads.mul_(scale)", stacks.add(first))
    row |= side("second", "aten::sum", "self", False, DEFAULT, "In[7]:8", "total = grads.sum()", stacks.add(second))
    return row | changes


def use_after_free(stacks, **changes):
    row = {
        "ts": T0 + 2_100_000,
        "kind": "use after free",
        "count": 2,
        "is_suppressed": False,
        "overlap_low_byte": 0,
        "overlap_high_byte": 1023,
        "overlap_bytes": 1024,
        "block_bytes": 8192,
        "free_place": "In[8]:6",
        "free_source": "del batch",
        "alloc_place": "In[8]:7",
        "alloc_source": "other = torch.zeros(2048, device='cuda')",
        "fix": "record the side stream's use of the block with the allocator",
        "between": json.dumps(REUSED),
    }
    row |= side("first", "aten::add", "self", False, SIDE, "In[8]:4", "out = batch + 1", None,
                tensor="batch", shape="[256]", high_byte=1023)  # fmt: skip
    row |= side("second", "aten::zeros", "out", True, DEFAULT, "In[8]:7", "other = torch.zeros(2048)", None,
                tensor="other", shape="[2048]", high_byte=8191)  # fmt: skip
    return row | changes


INFO = RunInfo(name="cell-7", source="cuda", started_ns=T0, ended_ns=T0 + 3_000_000, judged=Judged(1204, 3))


def race_trace(*, events=False, **info):
    """Two races in three places, seen 514 times; with the events of a run, or without any."""
    stacks = StackTable()
    rows = [read_after_write(stacks), use_after_free(stacks, second_place="In[7]:8")]
    frames = {"races": races_frame(rows), "stacks": stacks.to_frame()}
    if events:
        return gpu_trace(judged=INFO.judged, **info).replace(**frames)
    return Trace(INFO.replace(**info), **frames)


def many_races(number, **info):
    """`number` races of four kinds."""
    stacks = StackTable()
    kinds = ("write after read", "read after write", "write after write", "use after free")
    rows = [
        read_after_write(stacks, kind=kinds[k % 4], count=k + 1, first_place=f"In[7]:{k}", second_tensor=f"grads{k}")
        for k in range(number)
    ]
    return Trace(INFO.replace(**info), races=races_frame(rows), stacks=stacks.to_frame())


def clean_trace(**info):
    """A run that was judged and found clean."""
    return Trace(INFO.replace(**info))


def hostile_races(*, events=False):
    """Every text of a race tries to become markup."""
    stacks = StackTable()
    texts = {column.name: HOSTILE if k % 2 else HOSTILE_STYLE for k, column in enumerate(columns_of("races"))
             if column.dtype == "category"}  # fmt: skip
    hostile = stacks.add([f"{HOSTILE}(3): {HOSTILE_STYLE}", HOSTILE])
    step = {"act": HOSTILE, "stream": HOSTILE, "name": HOSTILE_STYLE, "event": HOSTILE, "place": HOSTILE}
    row = read_after_write(stacks) | texts
    row |= {"first_stack": hostile, "second_stack": hostile, "alloc_stack": hostile, "first_shape": f'["{HOSTILE}"]'}
    row |= {"between": json.dumps([step, step | {"act": "event_record"}, step | {"act": "event_wait"}])}
    row |= {"fix_diff": f"+{HOSTILE}\n-{HOSTILE_STYLE}\n@@ {HOSTILE}"}
    frames = {"races": races_frame([row, row | {"between": HOSTILE}]), "stacks": stacks.to_frame()}
    return gpu_trace(name=HOSTILE).replace(**frames) if events else Trace(INFO.replace(name=HOSTILE), **frames)
