"""The recorder's records, and the virtual times computed from places."""

from itertools import count, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.frames import RawRows
from cudalens.virtual import device
from cudalens.virtual.profile import event_rows, timeline
from cudalens.virtual.profile.host_tree import read_tree
from cudalens.virtual.profile.recorder import MARK, Recorder
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.streams import CudaEvent


@pytest.fixture
def gpus():
    with device("h100x2") as virtual:
        yield virtual.gpus


@pytest.fixture
def recorder(gpus):
    gpus.machine.recorder = recorder = Recorder(gpus.machine, count(1))
    yield recorder
    gpus.machine.recorder = None


def kernel(name="k", op=None):
    return Work("kernel", name, 1000, op=op)


def test_a_launch_is_a_call_and_work_of_one_number(gpus, recorder):
    stream = gpus.devices[0].default_stream
    placed = stream.launch(kernel(op="aten::add"))
    recorder.close()
    (call,), ((where, work, when),) = recorder.acts, recorder.works
    assert (call.name, call.end_ns - call.start_ns) == ("cudaLaunchKernel", gpus.spec.launch_ns)
    assert (where, work.name, when) == (stream, "k", placed)
    assert call.correlation_id == placed.correlation_id
    assert recorder.op_of(call.correlation_id) == "aten::add"
    assert recorder.op_of(call.correlation_id + 1) is None


def test_what_happens_in_a_handler_bears_its_mark_and_what_does_not_has_its_own(gpus, recorder):
    machine = gpus.machine
    begun = recorder.begin("aten::mul")
    machine.call("cudaMalloc", 10)
    inner = recorder.begin("aten::add")
    machine.call("cudaFree", 10)
    recorder.end(inner)
    machine.call("cudaLaunchKernel", 10)
    recorder.end(begun)
    machine.call("cudaEventQuery", 10)
    recorder.close()
    (outer, name, at), (inside, *_) = recorder.begun
    assert (name, at) == ("aten::mul", 0)
    assert recorder.ended == [(inside, 20), (outer, 30)]
    marks = {act.name: act.mark for act in recorder.acts}
    assert marks["cudaMalloc"] == marks["cudaLaunchKernel"] == outer
    assert marks["cudaFree"] == inside
    assert marks["cudaEventQuery"] not in (outer, inside)


def test_waits_name_the_waiting_stream(gpus, recorder):
    gpu, machine = gpus.devices[0], gpus.machine
    side = gpu.pool_stream()
    gpu.default_stream.launch(kernel())
    cuda_event = CudaEvent(machine)
    gpu.default_stream.record(cuda_event)
    side.wait(cuda_event)
    side.synchronize()
    cuda_event.synchronize()
    gpu.synchronize()
    found = [(wait.name, wait.stream) for wait in recorder.waits]
    assert found == [
        ("Stream Wait Event", side),
        ("Stream Synchronize", side),
        ("Event Synchronize", gpu.default_stream),
        ("Context Synchronize", None),
    ]
    assert all(wait.end_ns >= wait.start_ns for wait in recorder.waits)


def test_the_allocators_actions_come_with_the_sizes_of_blocks_and_freeing_is_one_act(gpus, recorder):
    recorder.listen_to_memory()
    block = gpus.reserve(gpus.devices[1], 1000)
    gpus.release(gpus.devices[1], block)
    recorder.close()
    gpus.release(gpus.devices[1], gpus.reserve(gpus.devices[1], 1000))  # there is no listener any more
    acts = [act for act in recorder.acts if act.__class__.__name__ == "MemoryAct"]
    assert [(act.kind, act.device, act.num_bytes, act.block_bytes) for act in acts] == [
        ("segment_alloc", 1, 2 << 20, 2 << 20),
        ("alloc", 1, 1000, 1024),
        ("free_requested", 1, 1000, 1024),
        ("free_completed", 1, 1000, 1024),
    ]
    assert acts[2].mark == acts[3].mark != acts[1].mark


def test_a_recorder_begins_and_ends_with_the_machines_time(gpus):
    gpus.machine.now_ns += 70
    recorder = Recorder(gpus.machine, count(1))
    gpus.machine.now_ns += 5
    recorder.close()
    assert (recorder.start_ns, recorder.end_ns) == (70, 75)
    assert recorder.first_mark != recorder.last_mark


def test_a_torch_that_cannot_mark_is_refused_in_words(gpus, monkeypatch):
    monkeypatch.delattr(torch._C._profiler, "_RecordFunctionFast")
    with pytest.raises(RuntimeError, match=r"no torch\._C\._profiler\._RecordFunctionFast.*Use torch"):
        Recorder(gpus.machine, count(1))


class TestSpread:
    @staticmethod
    def slow(kinds, times):
        """The same, one moment after the other, in fractions cut to whole ns."""
        counted, latest = [], None
        for at, (kind, time) in enumerate(zip(kinds, times, strict=True)):
            if kind == 1 or (kind == 2 and time > latest):
                counted.append(at)
            if kind == 1:
                latest = time if latest is None else max(latest, time)
        fixed, high = {}, None
        for at in counted:
            high = times[at] if high is None else max(high, times[at])
            fixed[at] = high
        found = [None] * len(kinds)
        for left, right in pairwise(counted):
            for at in range(left, right):
                found[at] = fixed[left] + (fixed[right] - fixed[left]) * (at - left) // (right - left)
        found[counted[-1]] = fixed[counted[-1]]
        return found

    @given(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1000))),
        st.integers(0, 1000),
        st.integers(0, 1000),
    )
    def test_as_one_moment_after_the_other(self, moments, first, last):
        kinds = [1, *(kind for kind, _ in moments), 1]
        times = [first, *(time for _, time in moments), last]
        found = timeline.spread(np.array(kinds), np.array(times)).tolist()
        assert found == self.slow(kinds, times)
        assert found == sorted(found)

    def test_moments_share_the_time_between_anchors_evenly(self):
        assert timeline.spread(np.array([1, 0, 0, 0, 1]), np.array([100, 0, 0, 0, 500])).tolist() == [
            *(100, 200, 300, 400, 500)
        ]

    def test_a_soft_anchor_counts_only_where_it_is_later(self):
        kinds = np.array([1, 0, 2, 0, 1])
        assert timeline.spread(kinds, np.array([0, 0, 80, 0, 100])).tolist() == [0, 40, 80, 90, 100]
        assert timeline.spread(kinds, np.array([0, 0, 0, 0, 100])).tolist() == [0, 25, 50, 75, 100]


def rows(*events, tids=None):
    """Raw columns of (name, start, end)."""
    names, begins, ends = zip(*events, strict=True)
    n = len(names)
    frame = event_rows.to_columns(
        "events",
        [
            {"ts": begin, "dur": end - begin, "name": name, "cat": "cpu_op", "tid": tid}
            for name, begin, end, tid in zip(names, begins, ends, tids or [1] * n, strict=True)
        ],
    )
    return RawRows(frame)


class TestTree:
    def test_a_row_precedes_the_rows_that_it_encloses(self):
        tree = read_tree(rows(("b", 2, 4), ("a", 0, 10), (f"{MARK}7", 5, 6), ("c", 2, 3)))
        assert tree.row.tolist() == [1, 0, 3, 2]
        assert tree.parent.tolist() == [-1, 0, 1, 0]
        assert tree.size.tolist() == [4, 2, 1, 1]
        assert tree.begin.tolist() == [0, 1, 2, 5]
        assert tree.end.tolist() == [7, 4, 3, 6]
        assert tree.place_of == {7: 3}

    def test_threads_follow_each_other(self):
        tree = read_tree(rows(("a", 0, 10), ("b", 1, 2), ("c", 3, 4), tids=[5, 6, 5]))
        assert tree.lane.tolist() == [0, 0, 1]
        assert tree.tid.tolist() == [5, 6]
        assert tree.row.tolist() == [0, 2, 1]

    @given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=12))
    def test_every_beginning_and_end_has_its_own_number(self, spans):
        events = [("x", min(span), max(span)) for span in spans]
        if not events:
            return
        tree = read_tree(rows(*events))
        assert sorted([*tree.begin.tolist(), *tree.end.tolist()]) == list(range(2 * len(events)))
        for place, parent in enumerate(tree.parent.tolist()):
            if parent >= 0:
                assert tree.begin[parent] < tree.begin[place] < tree.end[place] < tree.end[parent]


def test_streams_have_the_numbers_that_cupti_gives_them(gpus):
    first, second = gpus.devices
    numbers = event_rows.StreamNumbers()
    pool = [first.pool_stream() for _ in range(3)]
    assert [numbers[stream] for stream in (first.default_stream, *pool)] == [7, 20, 24, 28]
    assert numbers[second.default_stream] == 7
    external = first.external_stream(0x1234)
    assert numbers[external] == 20 + 4 * 32 * 4


def test_launch_facts_are_those_of_the_modelled_grid(gpus):
    facts = event_rows._launch_facts((264, 1, 1), (96, 1, 1), gpus.spec.num_sms)
    assert facts == {"grid": "[264,1,1]", "block_dim": "[96,1,1]", "blocks_per_sm": 2.0, "warps_per_sm": 6.0}
    assert event_rows._launch_facts(None, None, gpus.spec.num_sms) == {}


@pytest.mark.parametrize(
    ("call", "category"),
    [("cudaLaunchKernel", "cuda_runtime"), ("cuMemMap", "cuda_driver"), ("cudaMalloc", "cuda_runtime")],
)
def test_categories_of_calls(call, category):
    assert event_rows.category_of_call(call) == category
