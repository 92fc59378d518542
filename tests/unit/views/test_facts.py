"""Facts of a Trace: each is computed once, however many views read it, and none keeps a Trace alive."""

import cProfile
import gc
import weakref
from collections import Counter

import pytest
from sample_graphs import failed_rows, graphs_trace
from sample_traces import gpu_trace

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.facts import averages, found_in, summarize, wait_groups, wait_summary
from cudalens.frames import RunInfo, Trace
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.views.sections import page


def calls_in(function, package="analysis"):
    """How often each function of a package of cudalens was called, by module and name."""
    profile = cProfile.Profile()
    profile.runcall(function)
    calls = Counter()
    for entry in profile.getstats():
        _, is_ours, module = (
            getattr(entry.code, "co_filename", "")
            .replace("\\", "/")
            .rpartition(f"/cudalens/{package}/".replace("//", "/"))
        )
        if is_ours:
            calls[module, entry.code.co_name] += entry.callcount
    return calls


def test_one_display_computes_each_fact_once():
    waits = frame_of_rows("syncs", [{"ts": 0, "seen_by": "runtime", "dur": 90_000, "kind": "item", "place": "In[3]:5"}])
    trace = gpu_trace(options={"syncs": True}).replace(syncs=waits)
    calls = calls_in(trace._repr_mimebundle_)
    for fact in (
        ("time/averages.py", "key_averages"),
        ("time/sync_advice.py", "wait_groups"),
        ("time/sync_advice.py", "summarize_syncs"),
        ("findings/__init__.py", "found_in"),
        ("summary.py", "summarize"),
    ):
        assert calls[fact] == 1, fact
    assert calls["time/sync_advice.py", "syncs"] == 0


def test_races_and_graphs_are_read_and_drawn_once_for_text_and_html():
    calls = calls_in(graphs_trace(failed_rows(), events=True, races=True)._repr_mimebundle_, "")
    for fact in (
        ("views/races/model.py", "race_views"),
        ("views/races/section.py", "races_verdict"),
        ("views/races/svg.py", "happens_before_svg"),
        ("views/graphs/model.py", "graphs_view"),
        ("views/graphs/words.py", "verdict"),
        ("views/graphs/model.py", "_chain"),
        ("analysis/graphs.py", "summarize_graphs"),
        ("views/timeline/svg.py", "timeline_svg"),
    ):
        assert calls[fact] == (4 if fact[1] == "_chain" else 1), fact  # four recordings in one tree


def test_memory_is_replayed_and_counted_once():
    calls = calls_in(memory_trace()._repr_mimebundle_, "")
    for fact in (
        ("frames/snapshots/history.py", "replay"),  # of one device
        ("analysis/memory/replay.py", "memory_peak"),
        ("analysis/memory/replay.py", "block_lifetimes"),
        ("analysis/memory/totals.py", "fragmentation"),
        ("views/memory/words.py", "memory_verdict"),
        ("views/memory/map_payload.py", "curve_svg"),
        ("views/memory/map_payload.py", "map_svg"),
    ):
        assert calls[fact] == 1, fact


def memory_trace():
    """One block that is held and one that was freed, with their history."""
    actions = [("alloc", 0), ("alloc", 512), ("free_requested", 512), ("free_completed", 512)]
    history = [
        {"action": action, "addr": addr, "size": 512, "stream": 0, "time_us": time, "frames": []}
        for time, (action, addr) in enumerate(actions)
    ]
    blocks = [
        {"address": addr, "size": 512, "requested_size": 512, "state": state}
        for addr, state in ((0, "active_allocated"), (512, "inactive"))
    ]
    segment = {"device": 0, "address": 0, "total_size": 1024, "stream": 0, "segment_type": "large", "blocks": blocks}
    found = snapshot_frames({"segments": [segment | {"segment_pool_id": (0, 0)}], "device_traces": [history]})
    info = RunInfo(name="memory", source="file:torch_snapshot", options=found.options, extra=found.extra)
    return Trace(info, **found.frames)


def test_a_second_display_computes_none_again():
    trace = gpu_trace()
    trace._repr_mimebundle_()
    calls = calls_in(trace._repr_mimebundle_)
    assert not calls["time/averages.py", "key_averages"]
    assert not calls["summary.py", "summarize"]


def test_a_result_belongs_to_one_trace():
    computed = []
    name_of = once_per_trace(lambda trace: computed.append(trace.info.name) or trace.info.name)
    first, second = gpu_trace(name="first"), gpu_trace(name="second")
    assert [name_of(first), name_of(second), name_of(first)] == ["first", "second", "first"]
    assert computed == ["first", "second"]


def test_facts_do_not_keep_a_trace_alive():
    trace = gpu_trace()
    for fact in (averages, found_in, summarize, wait_groups, wait_summary):
        fact(trace)
    alive = weakref.ref(trace)
    del trace
    gc.collect()
    assert alive() is None


def test_text_draws_no_picture(monkeypatch):
    """A summary as text is computed without the pictures, which it does not show."""
    trace = gpu_trace(3)
    monkeypatch.setattr(page, "timeline_svg", lambda trace: pytest.fail("the timeline was drawn"))
    monkeypatch.setattr(page.memory, "pictures", lambda trace: pytest.fail("the memory was drawn"))
    assert str(trace.summary())
