"""Memory in words."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from cudalens.analysis.memory.totals import last_refusal
from cudalens.frames import RunInfo, Trace
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.views.memory import words as memory_words
from cudalens.views.sections import verdict as text
from cudalens.views.sections.page import summary

MIB = 1 << 20
FRAME = {"filename": "In[4]", "name": "train", "line": 12}
INNER = {"filename": "/x/site-packages/torch/nn/functional.py", "name": "linear", "line": 7}


def snapshot(*blocks, history=()):
    """A snapshot of one segment with blocks (address, MiB, state)."""
    total = sum(size for _, size, _ in blocks) * MIB
    return {
        "segments": [
            {
                "device": 0,
                "address": 0,
                "total_size": total,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "blocks": [
                    {"address": at * MIB, "size": size * MIB, "requested_size": size * MIB, "state": state}
                    for at, size, state in blocks
                ],
            }
        ],
        "device_traces": [list(history)],
    }


def action(kind, at, size, time_us, frames=(INNER, FRAME)):
    entry = {"action": kind, "addr": at * MIB, "size": size * MIB, "stream": 0, "time_us": time_us}
    return entry | {"frames": list(frames)}


def trace_of(raw, names=(), status="ok", error=None, cells=()):
    made = snapshot_frames(raw)
    frames = made.frames
    blocks = frames["blocks"]
    if names:
        shown = [json.dumps(list(own)) if own else None for own in names]
        counts = [len(own) if own is not None else None for own in names]
        blocks = blocks.assign(
            names=pd.Categorical(shown),
            num_tensors=pd.array(counts, dtype="Int64"),
        )
    if cells:
        blocks = blocks.assign(cell=pd.Categorical(cells))
    info = RunInfo(name="t", source="cuda", status=status, error=error, options=made.options)
    return Trace(info, **(frames | {"blocks": blocks}))


@pytest.fixture
def trace():
    history = [
        action("alloc", 0, 10, 1),
        action("alloc", 10, 30, 2, [INNER, {**FRAME, "line": 13}]),
        action("free_requested", 10, 30, 3),
        action("free_completed", 10, 30, 3),
    ]
    raw = snapshot((0, 10, "active_allocated"), (10, 30, "inactive"), history=history)
    raw["segments"][0]["blocks"][0]["frames"] = [INNER, FRAME]
    return trace_of(raw, names=[["history[0]"], None])


def test_the_verdict_has_peak_line_rest_and_holder(trace):
    assert memory_words.memory_verdict(trace) == (
        "peak 40.0 MiB (allocated) at In[4]:13; 10.0 MiB left: 1 tensor held by `history[0]`"
    )
    assert text.verdict(trace) == memory_words.memory_verdict(trace)
    assert text.what(trace) == "Memory"


@pytest.mark.parametrize(
    ("used", "free", "expected"),
    [(3, 17, ""), (3, 63, ""), (10, 90, "; fragmentation 90 %"), (950, 50, ""), (920, 80, "")],
)
def test_fragmentation_is_reported_where_much_is_wasted(used, free, expected):
    shown = memory_words.memory_verdict(trace_of(snapshot((0, used, "active_allocated"), (used, free, "inactive"))))
    assert shown == f"{used}{'.00' if used < 10 else '.0' if used < 100 else ''} MiB allocated{expected}"


def test_a_history_that_began_late_qualifies_its_peak():
    """The block of 10 MiB was there before the history."""
    history = [action("alloc", 10, 30, 2), action("free_requested", 10, 30, 3), action("free_completed", 10, 30, 3)]
    made = trace_of(snapshot((0, 10, "active_allocated"), (10, 30, "inactive"), history=history))
    assert memory_words.memory_verdict(made).startswith("peak 40.0 MiB (allocated) at In[4]:12; ")
    late = made.replace(info=made.info.replace(source="file:torch_snapshot"))
    assert memory_words.memory_verdict(late).startswith(
        "peak 40.0 MiB (allocated) at In[4]:12 since the history began; "
    )


def test_the_summary_lists_holders_and_lines(trace):
    shown = str(summary(trace))
    assert "`history[0]`" in shown
    assert "In[4]:12" in shown
    assert "cuda:0: 40.0 MiB reserved: asked for 10.0 MiB (25 %), rounding 0 B (0.0 %), gaps 30.0 MiB (75 %)," in shown


def test_nothing_left_is_reported():
    history = [action("alloc", 0, 10, 1), action("free_requested", 0, 10, 2), action("free_completed", 0, 10, 2)]
    shown = memory_words.memory_verdict(trace_of(snapshot((0, 10, "inactive"), history=history)))
    assert "all recorded allocations are freed" in shown


def test_a_refused_allocation_is_first():
    refused = {"action": "oom", "device_free": 5 * MIB, "size": 90 * MIB, "stream": 0, "time_us": 9, "frames": [FRAME]}
    raw = snapshot((0, 10, "active_allocated"), history=[action("alloc", 0, 10, 1), refused])
    shown = memory_words.memory_verdict(trace_of(raw))
    assert shown.startswith(
        "out of memory at In[4]:12: 90.0 MiB asked for, 5.00 MiB free on the device, "
        "0 B of the reserved 10.0 MiB unused, "
        "10.0 MiB held by In[4]:12; "
    )
    assert "fragmentation" not in shown


def test_out_of_memory_is_judged_at_the_allocation_that_failed():
    """Not at the end, after the exception has released most of what was held."""
    refused = {"action": "oom", "device_free": 5 * MIB, "size": 12 * MIB, "stream": 0, "time_us": 9, "frames": [FRAME]}
    held = [action("alloc", at, size, 1) for at, size in ((0, 30), (30, 6), (44, 20))]
    released = [
        action(kind, at, size, 20) for at, size in ((0, 30), (30, 6)) for kind in ("free_requested", "free_completed")
    ]
    raw = snapshot((0, 44, "inactive"), (44, 20, "active_allocated"), history=[*held, refused, *released])
    trace = trace_of(raw)
    shown = memory_words.memory_verdict(trace)
    assert "8.00 MiB of the reserved 64.0 MiB unused (the largest piece 8.00 MiB), 56.0 MiB held by In[4]:12" in shown
    refusal = last_refusal(trace)
    assert refusal.is_fragmented  # 8 + 5 MiB for 12
    assert refusal.largest_unused_bytes == 8 * MIB


def test_without_a_history_the_exception_gives_the_sizes():
    error = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has …"
    shown = memory_words.memory_verdict(trace_of(snapshot((0, 10, "active_allocated")), status="raised", error=error))
    assert shown.startswith("out of memory: 2.00 GiB asked for; 10.0 MiB allocated")


def test_a_file_without_names_states_nothing_of_holders():
    shown = memory_words.memory_verdict(trace_of(snapshot((0, 10, "active_allocated"))))
    assert shown == "10.0 MiB allocated"


def test_leaks_are_listed_by_cell():
    raw = snapshot(*((i, 1, "active_allocated") for i in range(4)), (4, 20, "active_allocated"))
    names = [["h[0]"], ["h[1]"], ["model.w"], [], ["model.v"]]
    found = trace_of(raw, names=names, cells=["In[9]", "In[9]", "In[9]", "In[9]", "In[2]"])
    assert memory_words.leaks_text(found).split("\n") == [
        "In[2] left 20.0 MiB: 1 tensor held by `model.v`",
        "In[9] left 4.00 MiB: 2 tensors held by `h`, 1 by `model.w`, 1 block that no variable holds",
    ]


def test_variables_of_functions_are_shown_as_such():
    found = trace_of(snapshot((0, 1, "active_allocated")), names=[["<last exception>.train.batch"]])
    assert "held by the traceback of the last exception (`train.batch`)" in memory_words.memory_verdict(found)


def test_names_are_foreign_and_shown_as_text():
    hostile = "d['<img src=x onerror=alert(1)>\\n']"
    found = trace_of(snapshot((0, 1, "active_allocated")), names=[[hostile]])
    assert "<img" not in summary(found)._repr_html_()
    assert len(memory_words.memory_verdict(found).split("\n")) == 1


def test_broken_names_in_a_file_are_no_names(trace):
    for written in ("[", "{}", "[1, 2]", "null", "x"):
        blocks = trace.blocks.assign(names=pd.Categorical([written, None]))
        assert "10.0 MiB left" in memory_words.memory_verdict(trace.replace(blocks=blocks))


def test_a_diff_names_the_place_behind_native_stack_frames():
    gather = {"filename": "??", "name": "torch::CapturedTraceback::gather(bool, bool, bool)", "line": 0}
    raw = snapshot((0, 10, "active_allocated"), (10, 30, "active_allocated"))
    stacks = [gather, {"filename": "/a b/train.py", "name": "train", "line": 12}], [gather]
    for block, frames in zip(raw["segments"][0]["blocks"], stacks, strict=True):
        block["frames"] = frames
    diff = trace_of(snapshot((0, 0, "inactive"))).memory_diff(trace_of(raw))
    rows = [line.split("  ")[0] for line in str(diff).splitlines()[-2:]]
    assert rows == ["native code", "train.py:12 train"]


def test_wide_names_of_a_diff_are_no_headings():
    raw = snapshot((0, 8, "active_allocated"))
    before, after = (trace_of(raw), trace_of(snapshot((0, 12, "active_allocated"))))
    named = [one.replace(info=one.info.replace(name=name)) for one, name in ((before, "a"), (after, "b"))]
    assert ">a</th>" in named[0].memory_diff(named[1])._repr_html_()
    wide = [
        one.replace(info=one.info.replace(name=f"{one.info.name}_memory_snapshot_of_{k}"))
        for k, one in enumerate(named)
    ]
    shown = wide[0].memory_diff(wide[1])._repr_html_()
    assert ">before</th>" in shown
    assert ">after</th>" in shown


def test_a_diff_without_stacks_is_by_holder():
    """12 MiB more and 8 MiB less are not "+4 MiB" of one unknown stack."""
    before = trace_of(snapshot((0, 8, "active_allocated"), (8, 1, "active_allocated")), names=[["old"], ["model"]])
    after = trace_of(snapshot((0, 12, "active_allocated"), (12, 1, "active_allocated")), names=[["new"], ["model"]])
    for trace in (before, after):
        assert trace.blocks["stack"].isna().all()
    diff = before.memory_diff(after)
    shown = str(diff)
    assert diff.by == "holder"
    assert "`new`" in shown
    assert "+12.0 MiB" in shown
    assert "-8.00 MiB" in shown
    assert before.memory_diff(after, by="category").by == "category"


def test_a_workspace_is_known_by_its_size():
    raw = snapshot((0, 10, "active_allocated"), (10, 30, "active_allocated"))
    block = raw["segments"][0]["blocks"][0]
    block["requested_size"] = 8_519_680
    block["frames"] = [{"filename": "/x/torch/nn/modules/module.py", "name": "_call_impl", "line": 7}]
    raw["segments"][0]["blocks"][1]["frames"] = block["frames"]
    assert trace_of(raw).blocks["category"].tolist() == ["workspace", "activation"]


def test_the_peak_of_one_of_two_devices_names_it():
    raw = snapshot((0, 10, "inactive"), history=[action("alloc", 0, 10, 1), action("free_requested", 0, 10, 2)])
    other = snapshot((0, 90, "active_allocated"))["segments"][0] | {"device": 1}
    raw["segments"].append(other)
    raw["device_traces"].append([action("alloc", 0, 90, 1)])
    assert memory_words.memory_verdict(trace_of(raw)).startswith("peak 90.0 MiB (allocated on cuda:1) at ")
