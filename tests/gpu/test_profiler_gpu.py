"""A live CUDA run against torch's own events of the same run."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def two_streams():
    side = torch.cuda.Stream()
    a = torch.randn(512, 512, device="cuda")
    with torch.profiler.record_function("work"):
        b = a @ a
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            c = (a @ a).relu_()
        torch.cuda.current_stream().wait_stream(side)
        host = (b + c).cpu()
        c.zero_()
    return host


@pytest.fixture(scope="module")
def run():
    import cudalens
    from cudalens.frames import RunInfo, Trace
    from cudalens.profiler import ProfilerCollector, ProfilerOptions

    two_streams()
    torch.cuda.synchronize()
    collector = ProfilerCollector(ProfilerOptions(memory=True))
    collector.start()
    peer = collector.session.torch_profile
    two_streams()
    collector.settle()
    collector.stop()
    trace = Trace(RunInfo(name="gpu", source="cuda"), **collector.frames())
    assert collector.problems == ()
    return trace, peer, cudalens


def on_device(peer):
    """The device's own events: torch marks what happens to the device's memory as events of the device, too."""
    events = [e for e in peer.kineto_results.events() if e.name() != "[memory]"]
    return [e for e in events if str(e.device_type()).endswith(".CUDA")]


def test_device_rows_equal_torchs(run):
    trace, peer, _ = run
    events = trace.events
    device = events[events["device"].notna()]
    theirs = Counter((e.start_ns(), e.duration_ns(), e.device_index(), e.device_resource_id()) for e in on_device(peer))
    ours = Counter(zip(*(device[c].tolist() for c in ("ts", "dur", "device", "stream")), strict=True))
    assert ours == theirs
    kernels = device[device["cat"] == "kernel"]
    assert kernels["stream"].nunique() == 2
    assert (device["cat"] == "gpu_memcpy").any()


def test_every_kernel_is_linked_to_the_call_that_launched_it(run):
    trace, _, _ = run
    events = trace.events
    kernels = events[events["cat"] == "kernel"]
    assert kernels["launch"].notna().all()
    calls = events.iloc[kernels["launch"].to_numpy(dtype=int)]
    assert calls["cat"].isin(["cuda_runtime", "cuda_driver"]).all()
    assert calls["name"].astype(str).str.contains("Launch").all()
    assert calls["correlation_id"].tolist() == kernels["correlation_id"].tolist()
    assert (calls["ts"].to_numpy() <= kernels["ts"].to_numpy()).all()


def test_launch_facts_arrive(run):
    trace, _, _ = run
    events = trace.events
    kernels = events[events["cat"] == "kernel"]
    for column in ("grid", "block_dim", "registers", "shared_memory_bytes"):
        assert kernels[column].notna().all(), column
    assert (events.loc[events["cat"] == "gpu_memcpy", "num_bytes"] == 512 * 512 * 4).any()


def test_averages_equal_torchs_on_both_sides(run):
    trace, peer, cudalens = run
    ours = cudalens.analysis.key_averages(trace)
    theirs: Counter = Counter()
    self_of_theirs: Counter = Counter()
    device: Counter = Counter()
    for row in peer.key_averages():
        if row.key in ("[memory]", "[OutOfMemory]"):
            continue
        if str(row.device_type).endswith(".CUDA"):
            device[row.key] += round(row.device_time_total * 1000)
        else:
            theirs[row.key] += round(row.cpu_time_total * 1000)
            self_of_theirs[row.key] += round(row.self_cpu_time_total * 1000)
    overhead = set(trace.events.loc[trace.events["cat"] == "overhead", "name"].astype(str))
    host = ours[~ours["is_device"]]
    assert {str(n): t for n, t in zip(host["name"], host["total_ns"], strict=True)} == dict(theirs)
    if not overhead:  # torch lets CUPTI's own overhead rows take part in its tree
        assert {str(n): t for n, t in zip(host["name"], host["self_ns"], strict=True)} == dict(self_of_theirs)
    side = ours[ours["is_device"]]
    assert {str(n): t for n, t in zip(side["name"], side["total_ns"], strict=True)} == dict(device)


def test_gpu_time_beneath_a_range_is_that_of_all_its_kernels(run):
    trace, _, cudalens = run
    events = trace.events
    averages = cudalens.analysis.key_averages(trace)
    work = averages[(averages["name"] == "work") & ~averages["is_device"]]["device_total_ns"].item()
    range_ = events[(events["name"] == "work") & (events["cat"] == "user_annotation")].iloc[0]
    activities = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    calls = events.iloc[activities["launch"].to_numpy(dtype=int)]
    inside = (calls["ts"] >= range_["ts"]).to_numpy() & (calls["ts"] < range_["ts"] + range_["dur"]).to_numpy()
    assert work == activities.loc[inside, "dur"].sum() > 0


def test_memory_of_the_device_is_the_allocators(run):
    trace, _, _ = run
    memory = trace.memory
    device = memory[memory["device_type"] == "cuda"]
    assert (device["device"] == 0).all()
    assert device["num_bytes"].max() >= 512 * 512 * 4


def test_a_session_states_cuda_and_counts_the_tail_of_the_gpu():
    import cudalens

    with cudalens.profile() as p:
        x = torch.randn(2048, 2048, device="cuda")
        for _ in range(20):
            x = x @ x
    info, events = p.trace.info, p.trace.events
    kernels = events[events["cat"] == "kernel"]
    assert info.source == "cuda"
    assert info.devices[0].name == torch.cuda.get_device_name(0)
    assert (kernels["ts"] + kernels["dur"]).max() <= info.ended_ns + 1_000_000
    assert cudalens.analysis.summarize(p.trace).device_busy_ns > 0


def test_cpu_only_leaves_the_gpu_alone():
    import cudalens

    with cudalens.profile(cpu_only=True) as p:
        torch.ones(8, device="cuda").add_(1)
    assert p.trace.info.source == "cpu"
    assert p.trace.events["device"].isna().all()
