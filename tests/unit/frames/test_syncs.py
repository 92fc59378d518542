"""Waits from the runtime calls of a recording, and their marriage with what was seen."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.frames import StackTable, build_events, check_frame, empty_frame
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.frames.sync_kinds import find_waits
from cudalens.frames.syncs import LiveProgram, build_syncs, match

TID = 7


class Recording:
    """Rows of a recording, in the words of the domain; times in µs."""

    def __init__(self):
        self.rows = []

    def add(self, name, cat, start, dur, **more):
        self.rows.append({"ts": start * 1000, "dur": dur * 1000, "name": name, "cat": cat, **more})
        return self

    def op(self, name, start, dur):
        return self.add(name, "cpu_op", start, dur, pid=1, tid=TID)

    def python(self, name, start, dur):
        return self.add(name, "python_function", start, dur, pid=1, tid=TID)

    def call(self, name, start, dur, cid=None, tid=TID):
        return self.add(name, "cuda_runtime", start, dur, pid=1, tid=tid, correlation_id=cid)

    def work(self, name, start, dur, cid, cat="kernel", **more):
        return self.add(name, cat, start, dur, device=0, stream=7, correlation_id=cid, **more)

    def copy(self, name, start, dur, cid):
        return self.work(name, start, dur, cid, "gpu_memcpy", num_bytes=4)

    def events(self):
        names = dict.fromkeys(name for row in self.rows for name in row)
        columns = {name: [row.get(name) for row in self.rows] for name in names}
        nullable = {"pid", "tid", "correlation_id", "stream", "num_bytes"}
        return build_events(
            {
                name: pd.array(values, dtype="Int64")
                if name in nullable
                else pd.array(values, dtype="Int32")
                if name == "device"
                else np.array(values)
                for name, values in columns.items()
            }
        )

    def syncs(self, around=None, **frames):
        found = build_syncs({"events": self.events(), **frames}, around)
        check_frame("syncs", found["syncs"])
        check_frame("stacks", found["stacks"])
        return found["syncs"]


def item(recording, start, cid=1):
    """loss.item() of a GPU that is 100 µs behind."""
    recording.op("aten::item", start, 130).op("aten::_local_scalar_dense", start + 1, 128)
    recording.call("cudaMemcpyAsync", start + 2, 6, cid).call("cudaStreamSynchronize", start + 9, 100)
    return recording.copy("Memcpy DtoH (Device -> Pinned)", start + 100, 2, cid)


def test_a_blocking_copy_is_one_wait():
    (row,) = item(Recording(), 10).syncs().to_dict("records")
    assert (row["ts"], row["dur"]) == (12_000, 107_000)
    assert (row["kind"], row["op"]) == ("item", "aten::item")
    assert row["call"] == "cudaMemcpyAsync + cudaStreamSynchronize"
    assert (row["device"], row["stream"], row["num_bytes"], row["tid"]) == (0, 7, 4, TID)
    assert row["gpu_dur"] == 100_000  # until 112 µs, when the copy had ended
    assert row["seen_by"] == "runtime"


def test_the_event_is_the_call_that_took_longest():
    recording = item(Recording(), 10)
    (row,) = recording.syncs()["event"]
    assert recording.events()["name"].iloc[row] == "cudaStreamSynchronize"


def test_copies_that_do_not_block_are_no_waits():
    recording = Recording().op("aten::copy_", 0, 30).call("cudaMemcpyAsync", 1, 5, 1)
    assert recording.copy("Memcpy HtoD (Pinned -> Device)", 10, 5, 1).syncs().empty


def test_a_pageable_copy_blocks_whatever_it_is_called():
    recording = Recording().op("aten::copy_", 0, 30).call("cudaMemcpyAsync", 1, 25, 1)
    (row,) = recording.copy("Memcpy HtoD (Pageable -> Device)", 10, 5, 1).syncs().to_dict("records")
    assert (row["kind"], row["dur"]) == ("pageable copy to device", 25_000)


def test_a_copy_on_the_device_is_not_part_of_the_wait_that_follows():
    recording = Recording().call("cudaMemcpyAsync", 1, 5, 1).call("cudaStreamSynchronize", 7, 30)
    (row,) = recording.copy("Memcpy DtoD (Device -> Device)", 8, 5, 1).syncs().to_dict("records")
    assert (row["ts"], row["kind"]) == (7_000, "stream synchronize")


def test_calls_of_two_threads_are_two_waits():
    recording = Recording().call("cudaMemcpyAsync", 1, 5, 1).call("cudaStreamSynchronize", 7, 30, tid=8)
    found = recording.copy("Memcpy DtoH (Device -> Pageable)", 8, 5, 1).syncs()
    assert found["tid"].tolist() == [TID, 8]


def test_a_retry_of_the_allocator_is_one_wait():
    recording = Recording().op("aten::empty", 0, 100)
    recording.call("cudaMalloc", 1, 4).call("cudaFree", 6, 50).call("cudaFree", 57, 3).call("cudaMalloc", 61, 9)
    (row,) = recording.syncs().to_dict("records")
    assert (row["kind"], row["ts"], row["dur"]) == ("allocator retry", 1_000, 69_000)


def test_asking_for_memory_is_no_wait():
    assert Recording().op("aten::empty", 0, 100).call("cudaMalloc", 1, 4).syncs().empty


@pytest.mark.parametrize(("gpu_us", "expected"), [(0, []), (40, ["memory release"]), (400, [])])
def test_a_library_that_frees_memory_waits_if_the_call_lasts_as_long_as_the_gpu_works(gpu_us, expected):
    recording = Recording().op("aten::conv2d", 0, 100).call("cudaLaunchKernel", 1, 2, 1).call("cudaFree", 10, 35)
    if gpu_us:
        recording.work("conv", 4, gpu_us, 1)
    assert recording.syncs()["kind"].tolist() == expected


def test_the_profilers_own_wait_is_none_of_the_programs():
    recording = item(Recording(), 10).call("cudaDeviceSynchronize", 500, 20)
    assert recording.syncs()["kind"].tolist() == ["item"]
    own = item(Recording(), 10).python("torch/autograd/profiler.py(375): __exit__", 400, 200)
    assert own.call("cudaDeviceSynchronize", 500, 20).syncs()["kind"].tolist() == ["item"]


def test_of_two_at_the_end_the_first_is_the_programs():
    recording = Recording().op("aten::mm", 0, 10).call("cudaDeviceSynchronize", 20, 50)
    assert recording.call("cudaDeviceSynchronize", 80, 5).syncs()["ts"].tolist() == [20_000]


def test_where_the_programs_end_is_known_nothing_is_guessed():
    recording = Recording().op("aten::mm", 0, 10).call("cudaDeviceSynchronize", 20, 50)
    recording.call("cudaDeviceSynchronize", 80, 5)
    assert len(recording.syncs(LiveProgram(until_ns=200_000))) == 2
    assert len(recording.syncs(LiveProgram(until_ns=75_000))) == 1
    # By clocks that may differ by 10 µs the second may be the profiler's.
    assert len(recording.syncs(LiveProgram(until_ns=85_000, skew_ns=10_000))) == 1


def test_a_driver_call_beneath_its_runtime_call_is_the_same_wait():
    recording = Recording().call("cudaDeviceSynchronize", 1, 50).op("aten::mm", 60, 10)
    recording.add("cuCtxSynchronize", "cuda_driver", 2, 48, pid=1, tid=TID)
    assert len(recording.syncs()) == 1


def test_python_calls_give_the_place_and_become_a_stack():
    recording = Recording().python("train.py(12): step", 0, 200).python("torch/nn/module.py(5): call", 1, 190)
    recording.python("<built-in method item of Tensor object at 0x7f>", 5, 150)
    found = build_syncs({"events": item(recording, 10).events()})
    (row,) = found["syncs"].to_dict("records")
    assert (row["place"], row["kind"]) == ("step (train.py)", "item")  # line 12 is the first of the function
    of_stack = found["stacks"][found["stacks"]["stack"] == row["stack"]]
    assert of_stack["function"].tolist() == ["<built-in method item of Tensor object at 0x7f>", "call", "step"]
    assert pd.isna(row["source"])  # nothing is read from this machine's files for a recording of another's


def test_recorded_stacks_of_operators_give_the_place():
    table = StackTable()
    table.add(["torch/x.py(1): f", "model.py(44): forward"])
    events = item(Recording(), 10).events()
    events["stack"] = pd.array([0 if name == "aten::item" else None for name in events["name"]], dtype="Int64")
    (row,) = build_syncs({"events": events, "stacks": table.to_frame()})["syncs"].to_dict("records")
    assert (row["place"], row["stack"]) == ("model.py:44", 0)


def seen(ts, call="cudaStreamSynchronize", **more):
    return {"ts": ts, "kind": "item", "call": call, "pid": 1, "tid": TID, "seen_by": "callback", **more}


def test_one_wait_that_two_saw_is_one_row():
    sightings = frame_of_rows(
        "syncs", [seen(18_000, place="In[3]:5", expression="loss.item()", source="print(loss.item())")]
    )
    (row,) = item(Recording(), 10).syncs(syncs=sightings).to_dict("records")
    assert (row["dur"], row["place"], row["expression"]) == (107_000, "In[3]:5", "loss.item()")
    assert row["seen_by"] == "callback, runtime"


def test_a_wait_that_begins_long_after_its_callback_is_one_row():
    """Between them, listeners of the callback took 3 ms: so it was recorded on a GPU."""
    sightings = frame_of_rows("syncs", [seen(18_000, dur=3_300_000)])
    (row,) = item(Recording(), 3_200).syncs(syncs=sightings).to_dict("records")
    assert row["seen_by"] == "callback, runtime"


def test_an_operator_that_returned_before_a_wait_began_did_not_wait_in_it():
    sightings = frame_of_rows("syncs", [seen(18_000, dur=1_000_000)])
    assert item(Recording(), 3_200).syncs(syncs=sightings)["seen_by"].tolist() == ["callback", "runtime"]


def test_what_only_one_saw_is_a_row_of_its_own():
    sightings = frame_of_rows("syncs", [seen(2_000_000), seen(2_000_100, call="cudaDeviceSynchronize")])
    found = item(Recording(), 10).syncs(syncs=sightings)
    assert found["seen_by"].tolist() == ["runtime", "callback", "callback"]
    assert found["dur"].isna().tolist() == [False, True, True]


def test_waits_for_another_thing_are_not_the_same_wait():
    found = item(Recording(), 10).syncs(syncs=frame_of_rows("syncs", [seen(18_000, call="cudaEventSynchronize")]))
    assert found["seen_by"].tolist() == ["runtime", "callback"]


def test_what_the_host_waits_in_while_it_empties_the_cache_is_that():
    recording = Recording().call("cudaDeviceSynchronize", 10, 20).call("cudaFree", 31, 40).op("aten::mm", 90, 5)
    sighting = seen(9_000, call="cudaFree", dur=64_000, place="In[1]:1", expression="torch.cuda.empty_cache()")
    found = recording.syncs(syncs=frame_of_rows("syncs", [sighting]))
    assert found["kind"].tolist() == ["empty_cache()", "empty_cache()"]
    assert found["place"].tolist() == ["In[1]:1", "In[1]:1"]


def test_a_copy_just_before_is_not_part_of_it():
    recording = Recording().op("aten::copy_", 0, 8).call("cudaMemcpyAsync", 1, 5, 1).call("cudaFree", 10, 40)
    recording.copy("Memcpy HtoD (Pageable -> Device)", 2, 1, 1)
    sighting = seen(9_000, call="cudaFree", dur=42_000, expression="torch.cuda.empty_cache()")
    assert recording.syncs(syncs=frame_of_rows("syncs", [sighting]))["kind"].tolist() == [
        "pageable copy to device",
        "empty_cache()",
    ]


def test_an_empty_cache_with_nothing_in_it_is_no_wait():
    sighting = seen(9_000, call="cudaFree", dur=2_000, expression="torch.cuda.empty_cache()")
    assert Recording().op("aten::mm", 90, 5).syncs(syncs=frame_of_rows("syncs", [sighting])).empty


def test_a_recording_without_calls_has_no_waits():
    assert build_syncs({"events": empty_frame("events")})["syncs"].empty
    assert Recording().op("aten::mm", 0, 5).syncs().empty


@settings(max_examples=examples(60), deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(3_000, 10_000), st.integers(1, 500), st.booleans()), min_size=1, max_size=12),
    offset_us=st.integers(-40, 40),
)
def test_waits_and_sightings_find_each_other_by_time(gaps, offset_us):
    """Waits milliseconds apart, some of them unseen, by clocks that differ: each sighting goes with its own."""
    recording, now, sightings, wanted = Recording(), 0, [], []
    for gap, dur, is_seen in gaps:
        now += gap
        recording.call("cudaStreamSynchronize", now, dur)
        wanted.append(len(sightings) if is_seen else -1)
        if is_seen:
            sightings.append(seen((now + offset_us) * 1000))
        now += dur
    events = recording.events()
    assert (
        match(events, find_waits(events), frame_of_rows("syncs", sightings) if sightings else empty_frame("syncs"))
        == wanted
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["cudaStreamSynchronize", "cudaMemcpy", "cudaLaunchKernel", "cudaMalloc"]), max_size=20),
    st.integers(1, 3),
)
def test_no_call_is_counted_twice_and_none_is_lost(calls, num_threads):
    recording = Recording()
    for number, call in enumerate(calls):
        recording.call(call, 10 * number, 5, tid=number % num_threads)
    if not calls:
        return
    events = recording.events()
    found = [row for wait in find_waits(events) for row in wait.rows]
    blocking = events.index[events["name"].isin(["cudaStreamSynchronize", "cudaMemcpy"])].tolist()
    assert sorted(found) == blocking
