from __future__ import annotations

import threading

import numpy as np
import torch
from profiled_programs import recorded, threaded_autograd

from cudalens.frames import check_frame
from cudalens.profiler import ProfilerOptions
from cudalens.profiler.launches import running_totals

OPTIONS = ProfilerOptions(memory=True, cpu_only=True)


def test_allocations_and_releases_with_sizes_totals_and_owner():
    held = []

    def program():
        held.append(torch.empty(1000, dtype=torch.uint8))
        held.append(torch.zeros(256))
        held.pop(0)

    frames, peer = recorded(program, OPTIONS)
    events, memory = frames["events"], check_frame("memory", frames["memory"])
    signed = [
        e.nbytes() for e in sorted(peer.kineto_results.events(), key=lambda e: e.start_ns()) if e.name() == "[memory]"
    ]
    assert signed[:2] == [1000, 1024]
    assert memory["num_bytes"].tolist() == [abs(size) for size in signed]
    assert memory["action"].tolist() == ["alloc" if size > 0 else "free_completed" for size in signed]
    assert memory["allocated_bytes"].tolist() == [sum(signed[: i + 1]) for i in range(len(signed))]
    assert set(memory["device_type"]) == {"cpu"}
    assert memory["device"].isna().all()
    assert memory["tid"].tolist() == [threading.get_native_id()] * len(memory)
    owners = [events["name"].iloc[int(row)] if row == row else None for row in memory["event"].astype(float)]
    assert owners[:2] == ["aten::empty", "aten::empty"]
    assert events["name"].iloc[int(events["parent"].iloc[int(memory["event"].iloc[1])])] == "aten::zeros"
    assert not events["name"].isin(["[memory]"]).any()


def test_no_memory_frame_without_the_option():
    frames, _ = recorded(threaded_autograd, ProfilerOptions(cpu_only=True))
    assert "memory" not in frames


def test_addresses_join_a_release_with_its_allocation():
    frames, _ = recorded(lambda: torch.empty(64), OPTIONS)
    memory = frames["memory"]
    assert memory["action"].tolist() == ["alloc", "free_completed"]
    assert memory["addr"].nunique() == 1
    assert memory["reserved_bytes"].isna().all()  # host memory has no reserve


def test_totals_without_torchs_own_are_summed_per_device():
    signed = np.array([10, 5, 7, -5, -10, 3])
    kinds = np.array([0, 1, 1, 1, 0, 1])
    device = np.array([-1, 0, 1, 0, -1, 0])
    refused = np.array([False, False, False, False, False, True])
    assert running_totals(signed, kinds, device, refused).tolist() == [10, 5, 7, 0, 0, 0]
