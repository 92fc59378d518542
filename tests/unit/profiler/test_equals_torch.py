"""Our averages of a run against torch's own averages of the very same run."""

from __future__ import annotations

import pytest
from profiled_programs import PROGRAMS, averages_of_ours, averages_of_torch, mlp_training, recorded, transformer_step

from cudalens.analysis import key_averages
from cudalens.frames import RunInfo, Trace
from cudalens.profiler import ProfilerOptions

OPTIONS = {
    "plain": ProfilerOptions(cpu_only=True),
    "shapes": ProfilerOptions(shapes=True, flops=True, cpu_only=True),
    "memory": ProfilerOptions(memory=True, cpu_only=True),
    "stacks": ProfilerOptions(stacks=True, cpu_only=True),
    "all": ProfilerOptions(memory=True, shapes=True, stacks=True, modules=True, flops=True, cpu_only=True),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_counts_and_times_by_name_equal_torch_to_the_nanosecond(program, options):
    frames, peer = recorded(program, options)
    trace = Trace(RunInfo(name="run", source="cpu"), **frames)
    expected = averages_of_torch(peer)
    assert averages_of_ours(key_averages(trace)) == expected
    assert len(expected) > 2


def test_flops_by_name_equal_torch():
    frames, peer = recorded(mlp_training, OPTIONS["shapes"])
    averages = key_averages(Trace(RunInfo(name="run", source="cpu"), **frames))
    ours = {str(name): int(flops) for name, flops in zip(averages["name"], averages["flops"].fillna(0), strict=True)}
    assert ours == {row.key: row.flops or 0 for row in peer.key_averages()}
    assert ours["aten::addmm"] > 0


def test_parents_equal_torch():
    frames, peer = recorded(transformer_step, OPTIONS["plain"])
    events = frames["events"]
    theirs = {}
    for event in peer._parse_kineto_results(peer.kineto_results):
        theirs[round(event.time_range.start * 1000), event.name] = event
    listed = type(peer.function_events)(theirs.values())
    listed._populate_cpu_children()
    zero = peer.kineto_results.trace_start_ns()
    key = list(zip((events["ts"] - zero).tolist(), events["name"].tolist(), strict=True))
    for row, parent in enumerate(events["parent"].to_numpy(dtype=int, na_value=-1)):
        found = theirs[key[row]].cpu_parent
        expected = None if found is None else (round(found.time_range.start * 1000), found.name)
        assert (key[parent] if parent >= 0 else None) == expected
