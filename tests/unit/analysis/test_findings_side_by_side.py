"""Rules about work that runs one after another and could overlap: streams, threads that launch, CPUs."""

import pytest
from findings_worlds import MS, US, World
from hypothesis import given
from hypothesis import strategies as st

import cudalens
from cudalens.analysis import findings, units
from cudalens.analysis.facts import wait_summary, wall_ns
from cudalens.analysis.findings import TraceArrays
from cudalens.analysis.findings.memory_rules import _memory_advice
from cudalens.frames.info import THREADS_KEY, Threads, threads_of
from cudalens.profiler import kineto


def by_rule(world, **info):
    return {one.rule: one for one in findings(world.trace(**info))}


def in_turns(blocks_per_sm, *, waits=True, number=20):
    """Two streams, each waited for before the other gets its kernel."""
    world = World()
    for _ in range(number):
        for stream, dur in ((20, 100 * US), (24, 60 * US)):
            if waits:
                world.now = max(world.now, *world.free.values(), 0)
            world.device(f"kernel_{stream}", dur, stream=stream, blocks_per_sm=blocks_per_sm)
    return world


def test_what_an_advice_gains_alone_does_not_depend_on_larger_findings():
    world = World()
    for _ in range(40):
        for name in ("aten::bmm", "aten::softmax", "aten::bmm"):
            world.within(name, lambda w: w.sleep(20 * US).device(f"kernel of {w.number % 3}", 4 * US), "cpu_op")
    found = by_rule(world)
    attention, launches = found["eager_attention"], found["graphable"]
    assert launches.alone_pct == launches.share_pct  # the first to claim
    assert attention.share_pct < 20
    assert attention.alone_pct > 60


def test_streams_that_wait_for_each_other_take_turns():
    found = by_rule(in_turns(0.2))["streams_in_turns"]
    assert found.gain_ns == 20 * 60 * US
    assert found.confidence == "medium"
    assert "stream 20 (2.00 ms) and on stream 24 (1.20 ms) never overlapped" in found.what


def test_streams_side_by_side_and_kernels_without_room_beside_them_are_no_finding():
    assert "streams_in_turns" not in by_rule(in_turns(0.2, waits=False))
    assert "streams_in_turns" not in by_rule(in_turns(3.0))
    assert "streams_in_turns" not in by_rule(World().kernels(100, 100 * US, blocks_per_sm=0.2))


def test_without_grids_it_is_a_guess():
    assert by_rule(in_turns(None))["streams_in_turns"].confidence == "low"


def test_communication_and_copies_have_rules_of_their_own():
    world = World()
    for _ in range(20):
        world.device("gemm", 100 * US, stream=20)
        world.now = max(world.free.values())
        world.device("ncclKernel_AllReduce_RING", 60 * US, stream=24)
        world.now = max(world.free.values())
        world.device("Memcpy HtoD (Pinned -> Device)", 60 * US, stream=28, cat="gpu_memcpy")
        world.now = max(world.free.values())
    assert "streams_in_turns" not in by_rule(world)


@given(st.lists(st.tuples(st.sampled_from([20, 24, 28]), st.integers(6, 400), st.integers(0, 300)), min_size=2))
def test_the_cost_is_the_time_of_all_streams_but_the_busiest(acts):
    world = World()
    for stream, dur, pause in acts:
        world.device("k", dur * US, stream=stream, blocks_per_sm=0.1).sleep(pause * US)
    found = by_rule(world).get("streams_in_turns")
    busy = {}
    for row in world.rows:
        if row["cat"] == "kernel":
            busy.setdefault(row["stream"], set()).update(range(row["ts"] // US, (row["ts"] + row["dur"]) // US))
    most = max(busy, key=lambda stream: (len(busy[stream]), -stream))
    lesser = set().union(*(times for stream, times in busy.items() if stream != most))
    if found is not None:
        assert found.gain_ns == min(len(lesser), len(busy[most])) * US
        assert len(lesser & busy[most]) < 0.1 * len(lesser)
    elif lesser and not lesser & busy[most]:
        wall = max(r["ts"] + r["dur"] for r in world.rows) - min(r["ts"] for r in world.rows)
        gain = min(len(lesser), len(busy[most])) * US
        assert gain < 0.05 * wall or wall < 100 * US


@given(
    st.lists(
        st.tuples(st.sampled_from([20, 24]), st.integers(5, 90), st.integers(0, 20), st.integers(0, 5)), min_size=2
    )
)
def test_small_kernels_side_by_side_fill_the_gpu_together(acts):
    """Never more than the unused share of the time in which they ran: against the sum over each microsecond."""
    world = World()
    for stream, dur, pause, quarters in acts:
        world.device("k", dur * US, stream=stream, blocks_per_sm=quarters / 4).sleep(pause * US)
    found = by_rule(world).get("small_grids")
    kernels = [row for row in world.rows if row["cat"] == "kernel"]
    lost = 0
    for at in range(max(row["ts"] + row["dur"] for row in kernels) // US):
        now = [row["blocks_per_sm"] for row in kernels if row["ts"] <= at * US < row["ts"] + row["dur"]]
        lost += (1 - min(1, sum(min(1, fill) for fill in now))) * US if now else 0
    if found is not None:
        assert f"unused share that is {units.duration(lost)}," in found.what
        assert found.gain_ns <= lost
        assert found.share_pct <= 100


def two_threads(streams, block=1, number=60):
    """Two host threads at work at the same time, `block` launches of each at a time."""
    world = World()
    for k in range(number):
        tid = 1 + (k // block) % 2
        world.device("kernel", 30 * US if tid == 1 else 20 * US, stream=streams[tid - 1], blocks_per_sm=0.2)
        world.rows[-2]["tid"] = tid
    return world


def test_threads_that_launch_onto_one_stream_queue_up():
    found = by_rule(two_threads((7, 7)))["threads_on_one_stream"]
    assert found.gain_ns == 30 * 20 * US
    assert "2 threads launched in turns onto stream 7, which ran their 60 kernels one after another" in found.what


def test_threads_on_streams_of_their_own_and_a_backward_pass_are_no_finding():
    assert "threads_on_one_stream" not in by_rule(two_threads((20, 24)))
    assert "threads_on_one_stream" not in by_rule(two_threads((7, 7), block=20, number=400))


def called(number, op_ns, gap_ns):
    world = World()
    for _ in range(number):
        world.op("aten::add", op_ns).sleep(op_ns + gap_ns)
    return world


def test_python_between_operators():
    found = by_rule(called(601, 10 * US, 20 * US), source="cpu")
    assert set(found) == {"python_between"}
    assert found["python_between"].gain_ns == 600 * 20 * US
    assert "called 601 operators, and ran Python between them for 12.0 ms, 20.0 µs each time" in (
        found["python_between"].what
    )


def test_operators_that_keep_the_cpu_busy_and_long_pauses_are_not_between_operators():
    assert by_rule(called(601, 40 * US, US), source="cpu") == {}
    assert set(by_rule(called(601, 10 * US, MS), source="cpu")) == {"python_work"}
    assert by_rule(called(400, 10 * US, 20 * US), source="cpu") == {}


def test_waiting_for_data_is_not_python_between():
    world = World()
    for _ in range(601):
        world.op("aten::add", 10 * US).sleep(10 * US)
        world.within("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", lambda w: w.sleep(20 * US))
    assert set(by_rule(world, source="cpu")) == {"data_loader"}


def with_threads(torch, cpus):
    return {"source": "cpu", "extra": Threads(torch, cpus).to_extra()}


def test_one_thread_for_operators_that_could_use_all_cpus():
    world = called(50, MS, US)
    found = by_rule(world, **with_threads(1, 8))["one_cpu_thread"]
    assert found.gain_ns == 50 * MS * 7 // 8
    assert "orch uses 1 thread, and the process can use 8 CPUs: 50 operators" in found.what
    assert found.advice.startswith("torch.set_num_threads(8)")
    for torch, cpus in ((4, 8), (1, 1), (1, 2)):
        assert by_rule(world, **with_threads(torch, cpus)) == {}
    assert by_rule(world, source="cpu") == {}
    assert "one_cpu_thread" not in by_rule(called(50, 20 * US, US), **with_threads(1, 8))


def test_threads_of_the_program_that_compute_side_by_side_use_their_cpus():
    world = World()
    for _ in range(20):
        for tid in (1, 2, 3):
            world.host("aten::mm", "cpu_op", world.now, MS, tid=tid)
        world.sleep(MS)
    assert by_rule(world, **with_threads(1, 8)) == {}


def test_a_live_run_states_how_many_threads_and_cpus_there_are(monkeypatch, tmp_path):
    with cudalens.profile(cpu_only=True, keep=False) as p:
        pass
    found = threads_of(p.trace.info)
    assert found.torch >= 1
    assert found.cpus >= 1
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(kineto, "_QUOTA", quota)
    for text, cpus in (
        ("50000 100000", 1),
        ("max 100000", kineto.threads().cpus),
        ("broken", kineto.threads().cpus),
    ):
        quota.write_text(text)
        assert kineto.threads().cpus == cpus


@pytest.mark.parametrize("text", ["", "{", "[]", '{"torch": "x", "cpus": 2}', '{"torch": 1}'])
def test_a_file_may_state_anything_about_threads(text):
    assert threads_of(World().kernels(1, US).trace(extra={THREADS_KEY: text}).info) is None


def test_waits_of_two_threads_at_the_same_time_count_once():
    world = World()
    for _ in range(10):
        world.kernels(20, 50 * US, every=10 * US).wait(op="aten::item")
        world.rows += [row | {"tid": 2} for row in world.rows[-2:]]
        world.sleep(100 * US)
    trace = world.wait().trace()
    waited = int(trace.syncs["dur"].sum())
    summary = wait_summary(trace)
    assert summary.num_hidden == 20
    assert summary.hidden_ns == pytest.approx(waited / 2, rel=0.01)
    assert summary.hidden_ns + summary.explicit_ns <= wall_ns(trace)
    assert summary.worst["total_ns"] == summary.hidden_ns  # the part of one place is not more than all


def test_advice_against_full_memory_depends_on_training():
    """Checkpointing is for training; a server's pool is allocated in advance."""
    world = World().kernels(3, 50 * US)
    assert "gpu_memory_utilization" in _memory_advice(TraceArrays(world.trace()))
    world.within("Optimizer.step#SGD.step", lambda w: w.kernels(1, US))
    assert "checkpoint" in _memory_advice(TraceArrays(world.trace()))
