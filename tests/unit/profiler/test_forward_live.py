"""Forward rows of live runs against the arrows that Kineto draws of the very same run, and against a file of it."""

from __future__ import annotations

import json

import pytest
import torch
from profiled_programs import mlp_training, recorded, threaded_autograd, transformer_step
from torch.utils.checkpoint import checkpoint

import cudalens
from cudalens.frames import RunInfo, Trace
from cudalens.profiler import ProfilerOptions


def recomputed() -> None:
    layer = torch.nn.Linear(4, 4)
    checkpoint(
        lambda x: layer(x).relu().exp(), torch.randn(2, 4, requires_grad=True), use_reentrant=True
    ).sum().backward()


def double_backward() -> None:
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    gradient.sum().backward()


PROGRAMS = [mlp_training, transformer_step, threaded_autograd, recomputed, double_backward]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_arrow_of_kinetos_is_in_the_frame(program, tmp_path):
    frames, peer = recorded(program, ProfilerOptions(cpu_only=True))
    peer.export_chrome_trace(str(tmp_path / "peer.json"))
    written = json.loads((tmp_path / "peer.json").read_text())
    base = int(written.get("baseTimeNanoseconds", 0))
    ends: dict[int, dict[str, tuple[int, int]]] = {}
    for entry in written["traceEvents"]:
        if entry.get("cat") == "fwdbwd":
            ends.setdefault(entry["id"], {})[entry["ph"]] = (entry["tid"], round(entry["ts"] * 1000) + base)
    events = frames["events"]
    # Chrome JSON holds floating microseconds from a base: a few nanoseconds are lost.
    places = {}
    for row, (tid, ts) in enumerate(zip(events["tid"], events["ts"], strict=True)):
        places.setdefault((int(tid), int(ts)), []).append(row)
    linked = {(int(row), int(up)) for row, up in events["forward"].dropna().items()}
    assert ends
    for pair in ends.values():
        starts, stops = (_rows_near(places, *pair[end]) for end in "sf")
        assert any((stop, start) in linked for stop in stops for start in starts)
    backward = events[(events["fwd_tid"].fillna(0) > 0)]
    assert len(backward) >= len(ends)
    assert (events["tid"].iloc[list(backward["forward"].dropna())].notna()).all()


def _rows_near(places, tid, ts):
    found = [row for shift in range(-1, 2) for row in places.get((tid, ts + shift), [])]
    assert found
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_file_gives_what_the_live_run_gave_or_nothing(program, tmp_path):
    frames, _ = recorded(program, ProfilerOptions(cpu_only=True))
    live = Trace(RunInfo(name="run", source="cpu"), **frames)
    read = cudalens.load(live.to_chrome(tmp_path / "live.json")).events["forward"]
    expected = live.events["forward"]
    assert expected.notna().any()
    assert len(read) == len(expected)
    if program is not threaded_autograd:  # whose threads are all alike
        assert read.notna().sum() == expected.notna().sum()
    assert (read.dropna() == expected[read.notna()]).all()
