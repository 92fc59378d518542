"""Races as frames and in plain text."""

import pandas as pd
from hypothesis import assume, given
from hypothesis import strategies as st

from cudalens import Trace
from cudalens.frames import RunInfo, StackTable
from cudalens.frames.catalog_frames import check_frame
from cudalens.sanitizer import replay
from cudalens.sanitizer.engine import HOST, Access, Memory, Race, Region, StreamId
from cudalens.sanitizer.races_frame import Finding, overlap, races_frames


class Place:
    """As the live collector's, with texts that are given."""

    def __init__(self, text, source=""):
        self.text, self.source = text, source

    def __str__(self):
        return self.text


def touch(stream, start, run, *, is_write=True, place=None, generation=0, **more):
    memory = Memory("", 512, 1024, StreamId(0, 0), Place("In[1]:2", "a = torch.ones(256)"))
    values = {"op": "aten::mul_", "argument": "self", "shape": (256,), "dtype": "float32", "memory": memory} | more
    return Access(stream, 1, is_write, "a", Region(start, run), values.pop("op"), place, generation, **values)


def race(first_place="In[2]:3", second_place="In[2]:5", *, count=1, **more):
    return Race(
        touch(StreamId(0, 0x7F00), 512, 1024, place=Place(first_place, "a.mul_(2)")),
        touch(StreamId(0, 0), 1024, 512, place=Place(second_place, "b = a.sum()"), **{"op": "aten::sum", **more}),
        count=count,
    )


def test_a_race_is_a_row_with_both_accesses():
    frames = races_frames([Finding(race(count=514, is_write=False), seen_ns=17)])
    row = check_frame("races", frames["races"]).loc[0]
    assert (row["ts"], row["kind"], row["count"]) == (17, "read after write", 514)
    assert (row["first_op"], row["first_is_write"], row["first_stream"]) == ("aten::mul_", True, 0x7F00)
    assert (row["second_op"], row["second_is_write"], row["second_stream"]) == ("aten::sum", False, 0)
    assert (row["first_shape"], row["first_dtype"]) == ("[256]", "float32")
    assert (row["first_low_byte"], row["first_high_byte"]) == (0, 1023)
    assert (row["second_low_byte"], row["second_high_byte"]) == (512, 1023)
    assert (row["overlap_low_byte"], row["overlap_high_byte"], row["overlap_bytes"]) == (512, 1023, 512)
    assert (row["first_place"], row["first_source"]) == ("In[2]:3", "a.mul_(2)")
    assert (row["alloc_place"], row["alloc_source"]) == ("In[1]:2", "a = torch.ones(256)")
    assert pd.isna(row["fix"])
    assert pd.isna(row["first_stride"])


def test_without_races_the_frame_is_empty_with_the_right_columns():
    assert check_frame("races", races_frames([])["races"]).empty
    assert Trace(RunInfo(name="x", source="cpu")).races.empty


def test_the_host_has_no_device_and_no_stream():
    host = Race(touch(StreamId(1, "nccl"), 512, 8), touch(HOST, 512, 8, is_write=False))
    row = races_frames([host])["races"].loc[0]
    assert (row["kind"], row["second_stream_name"], row["first_device"]) == ("host access", "the host", 1)
    assert pd.isna(row["second_device"])
    assert pd.isna(row["second_stream"])
    assert pd.isna(row["first_stream"])


def test_the_trace_keeps_them_through_a_file(tmp_path):
    trace = Trace(RunInfo(name="x", source="cpu"), **races_frames([race(), Finding(race(), is_suppressed=True)]))
    loaded = Trace.load(trace.save(tmp_path / "run.cudalens"))
    pd.testing.assert_frame_equal(loaded.races, trace.races)
    assert str(loaded.summary()) == str(trace.summary())


def test_races_of_a_recorded_program_are_rows_too():
    ops = [
        {"op": "alloc", "t": "a", "bytes": 64, "stream": "s0"},
        {"op": "launch", "stream": "s1", "reads": [], "writes": ["a[0:32:8:2]"], "name": "fill"},
        {"op": "launch", "stream": "s2", "reads": ["a[0:20]"], "writes": [], "name": "sum"},
    ]
    frames = races_frames(replay(ops))
    row = frames["races"].loc[0]
    assert (row["first_stream_name"], row["overlap_bytes"], row["overlap_high_byte"]) == ("stream s1", 6, 17)
    assert "both touch bytes 0 to 17 (18 B), 6 B of them of the block's 64 B" in text_of(**frames)


regions = st.builds(
    Region,
    start=st.integers(0, 12),
    run=st.integers(1, 3),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)


def bytes_of(region):
    return {
        region.start + i * region.strides[0] + j * region.strides[1] + k
        for i in range(region.shape[0])
        for j in range(region.shape[1])
        for k in range(region.run)
    }


@given(regions, regions)
def test_the_bytes_in_common_are_counted_exactly(one, two):
    shared = bytes_of(one) & bytes_of(two)
    assume(shared)
    assert overlap(one, two) == (min(shared), max(shared), len(shared))


def test_large_strided_regions_are_not_counted():
    large = Region(0, 1, (1 << 21,), (4,))
    assert overlap(large, Region(0, 1 << 23)) == (0, 4 * ((1 << 21) - 1), None)


def text_of(**frames):
    """As a reader sees them."""
    return str(Trace(RunInfo(name="x", source="cuda"), **frames).summary())


def test_the_race_in_text_has_two_columns_and_marks_where_the_stacks_part():
    table = StackTable()
    stacks = [table.add([f"In[2]({line}): step", "In[3](1): <module>", "outer.py(9): run"]) for line in (3, 5)]
    frames = races_frames([race(count=514)], stacks=table)
    frames["races"]["first_stack"] = pd.array(stacks[:1], "Int64")
    frames["races"]["second_stack"] = pd.array(stacks[1:], "Int64")
    lines = text_of(**frames).splitlines()
    assert lines[0] == "1 race, seen 514 times"
    heads = next(line for line in lines if "Later access" in line)
    middle = heads.index("Later access")
    both = {line[:middle].split("  ")[0]: (line[:middle], line[middle:]) for line in lines}
    assert both["Operation"][0].split()[1:] == ["mul_", "writes", "self"]
    assert both["Stream"][1] == "the default stream"
    assert "called from In[2], line 3, in step" in both["Call stack"][0]
    assert "called from In[2], line 5, in step" in both["Call stack"][1]
    assert sum("called from" in line for line in lines) == 1
    assert "2 stack frames in common: In[3]:1 in <module>" in "\n".join(lines)
    assert "Allocated at In[1]:2: a = torch.ones(256)" in "\n".join(lines)


def test_long_texts_are_cut_at_their_beginning_and_lines_stay_narrow():
    long = race("/a/very/long/path/" + "x" * 200 + "/train.py:123")
    text = text_of(**races_frames([long]))
    assert "…" in text
    assert "/train.py:123" in text
    assert max(len(line) for line in text.splitlines()[1:]) <= 100


def test_suppressed_races_are_not_reported():
    frames = races_frames([race(), Finding(race("In[9]:1"), is_suppressed=True)])
    text = text_of(**frames)
    assert text.startswith("1 race; 1 more suppressed\n")
    assert text.count("Operation ") == 1
    assert "In[9]:1" not in text
