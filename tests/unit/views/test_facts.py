"""Facts of a Trace: each is computed once, however many views read it, and none keeps a Trace alive."""

import cProfile
import gc
import weakref
from collections import Counter

from sample_traces import gpu_trace

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.facts import averages, found_in, summarize, wait_groups, wait_summary
from cudalens.frames.schema import frame_of_rows


def calls_in(function):
    """How often each function of cudalens.analysis was called, by module and name."""
    profile = cProfile.Profile()
    profile.runcall(function)
    calls = Counter()
    for entry in profile.getstats():
        file = getattr(entry.code, "co_filename", "").replace("\\", "/")
        if "/cudalens/analysis/" in file:
            calls[file.rpartition("/analysis/")[2], entry.code.co_name] += entry.callcount
    return calls


def test_one_display_computes_each_fact_once():
    waits = frame_of_rows("syncs", [{"ts": 0, "seen_by": "runtime", "dur": 90_000, "kind": "item", "place": "In[3]:5"}])
    trace = gpu_trace(options={"syncs": True}).replace(syncs=waits)
    calls = calls_in(trace._repr_mimebundle_)
    for fact in (
        ("time/averages.py", "key_averages"),
        ("time/sync_groups.py", "wait_groups"),
        ("time/sync_groups.py", "summarize_syncs"),
        ("findings/__init__.py", "found_in"),
        ("summary.py", "summarize"),
    ):
        assert calls[fact] == 1, fact
    assert calls["time/sync_groups.py", "syncs"] == 0


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
