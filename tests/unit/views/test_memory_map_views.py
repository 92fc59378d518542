"""The memory map's still picture, its payload's size, the diff of two snapshots; tests/browser has the page."""

import json
import random
import zlib

import comm
import numpy as np
import pandas as pd
import pytest
from recording_comm import RecordingComm, ask

from cudalens import Trace
from cudalens.analysis import block_lifetimes, blocks_at, memory_diff, memory_peak
from cudalens.analysis.memory.holders import lifetime_categories
from cudalens.frames import RunInfo
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.views.memory import section as memory
from cudalens.views.memory.map_payload import add_rest, pack
from cudalens.views.notebook import MAX_HTML_BYTES, static_html
from cudalens.views.sections import page
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text
from cudalens.views.widget import TimelineWidget

BASE, MIB = 0x7F00_0000_0000, 1 << 20
HOSTILE = "</script><img src=x onerror=alert(1)>"


def section_html(trace):
    return to_html(next(section for section in page.sections(trace) if section.name == "memory"))


def stack(*entries):
    return [{"filename": file, "name": name, "line": 3} for file, name in (*entries, ("/app/main.py", HOSTILE))]


MODULE = stack(("/x/site-packages/torch/nn/modules/module.py", "_call_impl"))
BACKWARD = stack(("/x/site-packages/torch/autograd/graph.py", "_engine_run_backward"))
LOADER = stack(("/x/site-packages/torch/utils/data/dataloader.py", "__next__"))


def snapshot(*, steps, kept, num_slots=8):
    """Slots of 1 MiB in one segment: `steps` are (action, slot, stack), `kept` the stacks of slots that stay in use."""
    trace = [
        {"action": action, "addr": BASE + slot * MIB, "size": MIB - 100, "stream": 0, "time_us": k, "frames": frames}
        for k, (action, slot, frames) in enumerate(steps)
    ]
    blocks = [
        {"address": BASE + slot * MIB, "size": MIB, "requested_size": MIB - 100 if slot in kept else 0}
        | {"state": "active_allocated" if slot in kept else "inactive", "frames": kept.get(slot, [])}
        for slot in range(num_slots)
    ]
    segment = {"device": 0, "address": BASE, "total_size": num_slots * MIB, "stream": 0, "segment_type": "large"}
    segment |= {"segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace]}


def trace_of(found, name="sample"):
    frames = snapshot_frames(found)
    info = RunInfo(name=name, source="file:torch_snapshot", options=frames.options, extra=frames.extra)
    return Trace(info, **frames.frames)


def freed(slot, frames):
    return [("free_requested", slot, frames), ("free_completed", slot, frames)]


@pytest.fixture
def trace():
    steps = [("alloc", k, frames) for k, frames in enumerate([MODULE, BACKWARD, LOADER, MODULE, stack()])]
    steps += [*freed(0, []), *freed(1, []), *freed(2, [])]
    return trace_of(snapshot(steps=steps, kept={3: MODULE, 4: stack()}), HOSTILE)


def header_of(blob):
    return json.loads(zlib.decompress(blob[12 : 12 + int.from_bytes(blob[8:12], "little")]))


def test_what_is_gone_has_a_category_from_its_stack(trace):
    lives = block_lifetimes(trace)
    block_categories = lifetime_categories(trace, lives).astype(object).where(lambda c: c.notna(), None)
    slots = (lives["addr"].astype("int64") - BASE) // MIB
    assert dict(zip(slots, block_categories, strict=True)) == {
        0: "activation",
        1: None,  # a backward's temporary may be anything
        2: "input",
        3: "activation",
        4: None,
    }


def test_holders_at_the_peak_are_the_blocks_that_were_alive(trace):
    assert len(blocks_at(trace, row=int(memory_peak(trace)["row"]))) == 5
    text = to_text(memory.section(trace))
    peak = text.partition("at the peak of 5.00 MiB, by category")[2].split("\n\n")
    assert [line.split() for line in peak[0].split("\n")[2:]] == [
        ["activation", "2.00", "MiB", "40", "%", "2"],
        ["not", "known", "2.00", "MiB", "40", "%", "2"],
        ["input", "1.00", "MiB", "20", "%", "1"],
    ]
    (line,) = peak[1].split("\n")[2:]
    assert line.startswith(f"main.py:3 {HOSTILE}")
    assert line.split()[-5:] == ["5.00", "MiB", "100", "%", "5"]


def test_the_picture_escapes_foreign_text_and_states_the_numbers(trace):
    html = section_html(trace)
    assert "<img" not in html
    assert "&lt;img src=x" in html
    assert "peak 5.00 MiB" in html
    assert "8.00 MiB reserved" in html
    assert for_notebooks(html).partition("<style>:is(")[0] in static_html(trace)


def test_the_picture_stays_small_whatever_the_snapshot():
    steps = [step for k in range(3000) for step in [("alloc", k, stack((f"/app/f{k}.py", f"f{k}"))), *freed(k, [])]]
    kept = {k: stack((f"/app/f{k}.py", f"f{k}")) for k in range(0, 6000, 2)}
    large = trace_of(snapshot(steps=steps, kept=kept, num_slots=6000))
    assert len(section_html(large).encode()) < MAX_HTML_BYTES


def test_a_trace_without_allocator_has_no_map():
    nothing = Trace(RunInfo(name="empty", source="cpu"))
    assert not memory.has_memory_map(nothing)
    assert memory.section(nothing) is None
    assert memory.pools(nothing) is None
    assert not memory.is_alone(nothing)


def test_a_history_without_blocks_has_a_map():
    gone = snapshot(steps=[("alloc", 0, MODULE), *freed(0, [])], kept={})
    gone["segments"] = []
    trace = trace_of(gone)
    assert memory.has_memory_map(trace)
    assert "peak 1.00 MiB" in section_html(trace)
    assert header_of(pack(trace))["num_lives"] == 1


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_payload_keeps_to_its_limit_and_counts_what_it_left_out(share):
    draw = random.Random(1)
    stacks = [stack((f"/app/f{k}.py", f"f{k}")) for k in range(200)]
    slots = [draw.randrange(300) for _ in range(20_000)]
    steps = [step for slot in slots for step in [("alloc", slot, draw.choice(stacks)), *freed(slot, [])]]
    trace = trace_of(snapshot(steps=steps, kept={400: MODULE}, num_slots=500))
    full, bare = pack(trace), pack(trace, max_bytes=0)
    limit = len(bare) + int(share * (len(full) - len(bare)))
    cut = pack(trace, max_bytes=limit)
    assert len(cut) <= limit
    hidden = header_of(cut)["hidden"]["num"]
    assert hidden + header_of(cut)["num_lives"] == len(block_lifetimes(trace))
    assert 0 < hidden < len(block_lifetimes(trace))


def test_the_widget_hands_the_map_out(trace, monkeypatch):
    monkeypatch.setattr(comm, "create_comm", RecordingComm)
    widget = TimelineWidget(trace)
    facts = widget.get_state()["_facts"]
    assert facts["memoryFirst"] is True
    assert facts["memoryMap"] is not None
    content, [sent] = ask(widget, "memory")
    assert "error" not in content
    assert bytes(sent) == pack(trace, compress=False)
    widget.close()


def test_a_diff_shows_who_grew_who_shrank_and_both_curves():
    before = trace_of(snapshot(steps=[("alloc", 0, MODULE)], kept={0: MODULE}), HOSTILE)
    after = trace_of(snapshot(steps=[("alloc", k, BACKWARD) for k in (1, 2)], kept={1: BACKWARD, 2: BACKWARD}), HOSTILE)
    diff = before.memory_diff(after)
    pd.testing.assert_frame_equal(diff.frame, memory_diff(before, after))
    html = diff._repr_html_()
    assert "+1.00 MiB" in str(diff).partition("\n")[0]
    assert [html.count(f">{change}</td>") for change in ("+2.00 MiB", "-1.00 MiB")] == [1, 1]
    assert "<img" not in html
    assert f"{HOSTILE} (before)".replace("<", "&lt;").replace(">", "&gt;") in html
    assert "peak 2.00 MiB" in html


def test_equal_snapshots_do_not_differ():
    one = trace_of(snapshot(steps=[("alloc", 0, MODULE)], kept={0: MODULE}))
    assert "Nothing differs" in one.memory_diff(one)._repr_html_()


def test_a_history_in_time_and_one_without_have_no_curve_in_common():
    timed = trace_of(snapshot(steps=[("alloc", 0, MODULE)], kept={0: MODULE}))
    steps = snapshot(steps=[("alloc", 0, MODULE)], kept={0: MODULE})
    for row in steps["device_traces"][0]:
        del row["time_us"]
    html = timed.memory_diff(trace_of(steps), by="category")._repr_html_()
    assert "Allocated memory of both over time" not in html


def test_left_out_allocations_change_the_totals_from_the_first_row_of_the_history_on():
    """The first row allocates, the second frees it: with one row in each interval, the curve is +size, -size."""
    trace = trace_of(snapshot(steps=[("alloc", 0, MODULE), *freed(0, MODULE), ("alloc", 1, MODULE)], kept={1: MODULE}))
    hidden = block_lifetimes(trace).head(1)
    writer = RecordingWriter()
    header = add_rest(writer, trace, hidden, np.zeros(1, np.int64), 1)
    size = int(hidden["num_bytes"].iloc[0])
    assert header == {"num": 1, "bytes": size, "stretch": 1}
    assert hidden["alloc"].iloc[0] == 0
    changes = [0] * len(trace.memory)
    changes[0] = size
    asked, done = (int(hidden[f"free_{when}"].iloc[0]) for when in ("requested", "completed"))
    expected = {name: changes.copy() for name in ("rest.allocated", "rest.active")}
    expected["rest.allocated"][asked] = expected["rest.active"][done] = -size
    assert writer.columns == expected


class RecordingWriter:
    """A payload's writer that keeps the columns."""

    def __init__(self):
        self.columns = {}

    def add_ints(self, name, values):
        self.columns[name] = values.tolist()
