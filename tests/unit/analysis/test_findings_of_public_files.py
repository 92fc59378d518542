"""What public traces showed to be wrong in findings: each test is a small program of the same kind."""

import re
from pathlib import Path

import pytest
from findings_worlds import MS, US, World

from cudalens.analysis import findings
from cudalens.analysis.findings import RANK_RULES, RULES

MIGRATION = "Memcpy DtoH (Unified) (Unknown -> Unknown)"


def by_rule(world, **info):
    return {one.rule: one for one in findings(world.trace(**info), most=None)}


def migrated(world, number, every, dur=9 * US):
    """Pages of unified memory, which no call copies."""
    begin = max(world.free.values())
    for k in range(number):
        row = {"name": MIGRATION, "cat": "gpu_memcpy", "ts": begin + every * (k + 1), "dur": dur, "device": 0}
        world.rows.append(row | {"stream": 0, "num_bytes": 32 << 10})
    return world


def test_pages_that_the_host_reads_one_by_one_are_idle_time_of_unified_memory():
    found = by_rule(migrated(World().device("add", 100 * US), 200, 100 * US), source="file:nsys")
    assert found["unified_memory"].gain_ns == 200 * 100 * US - 200 * 9 * US + 9 * US
    assert "cudaMemPrefetchAsync" in found["unified_memory"].advice
    assert "idle" not in found


def test_a_kernel_that_waits_for_its_pages_gains_from_more_blocks():
    """The pages move within its time, and would move sooner."""
    world = World().device("add", 100 * MS, blocks_per_sm=0.01)
    world.free = {7: 0}
    found = by_rule(migrated(world, 900, 100 * US), source="file:nsys")
    assert found["small_grids"].gain_ns > 90 * MS
    assert "torch" not in found["small_grids"].advice


def test_copies_of_a_program_without_torch_get_advice_without_torch():
    world = World()
    for _ in range(10):
        world.device(
            "Memcpy HtoD (Pageable -> Device)", 8 * MS, cat="gpu_memcpy", num_bytes=32 << 20, call="cudaMemcpy",
            waits=True,
        ).device("solve", MS)  # fmt: skip
    assert "cudaMallocHost" in by_rule(world, source="file:nsys")["pageable_copies"].advice
    assert "pin_memory" in by_rule(world.op("aten::copy_", US), source="file:nsys")["pageable_copies"].advice


def test_results_that_are_read_later_still_take_the_time_of_their_copies():
    """The copies of 32 MiB are most of the time; what a later read saves is the idle time after each wait."""
    world = World()
    for _ in range(10):
        world.device("solve", MS)
        world.now = max(world.free.values())
        world.device(
            "Memcpy DtoH (Device -> Pageable)", 8 * MS, cat="gpu_memcpy", num_bytes=32 << 20, call="cudaMemcpy",
            waits=True,
        ).sleep(300 * US)  # fmt: skip
    assert by_rule(world)["host_sync"].gain_ns < 4 * MS


@pytest.mark.parametrize(("share", "gain"), [(0.3, 0.5), (0.9, 0.0)])
def test_kernels_of_a_graph_that_begin_before_the_previous_one_ends_wait_for_it(share, gain):
    """A little before: a programmatic launch, so that faster kernels shorten the run. Beside most of it: a branch."""
    world, dur = World(capability=("8.6", 28)), 100 * US
    for k in range(200):
        row = {"name": "ampere_sgemm_128x64_tn", "cat": "kernel", "ts": 5 * US + round(k * dur * (1 - share))}
        world.rows.append(row | {"dur": dur, "device": 0, "stream": 7, "correlation_id": 1})
    world.host("cudaGraphLaunch", "cuda_runtime", 0, 4 * US, correlation_id=1).op("aten::mm", US)
    found = by_rule(world)
    whole = 200 * dur * (1 - share)
    assert found["fp32_math"].gain_ns == pytest.approx(gain * 200 * dur, rel=0.01) if gain else "fp32_math" not in found
    assert found["fp32_math"].gain_ns < whole if gain else True


def test_operators_that_suddenly_take_ten_times_as_long_are_pauses_of_the_host():
    world, names = World(), ["aten::mm", "aten::add", "aten::mul", "aten::relu"]
    for k in range(200):
        slow = k in (50, 91, 132, 173)
        name = names[k % 4]
        world.op(name, 2 * MS if slow else 20 * US).sleep(2 * MS - 10 * US if slow else 10 * US).device("k", 12 * US)
        world.sleep(10 * US)
    found = by_rule(world)
    assert found["host_pauses"].gain_ns == pytest.approx(4 * 2 * MS, rel=0.03)
    assert "host_work" not in found


def test_a_gap_of_many_short_operators_is_no_pause_of_one_of_them():
    world, names = World(), ["aten::mm", "aten::add", "aten::mul", "aten::relu"]
    for k in range(200):
        world.op(names[k % 4], 20 * US).device("k", 2 * US)
        if k in (50, 91, 132, 173):
            for _ in range(11):
                world.op(names[k % 4], 190 * US).sleep(200 * US)
    found = by_rule(world)
    assert "host_pauses" not in found
    assert found["host_work"].gain_ns == pytest.approx(4 * 11 * 200 * US, rel=0.1)


def test_an_operator_that_calls_many_others_is_to_be_made_of_fewer():
    world = World()
    for _ in range(4):
        world.kernels(50, 2 * US)
        for _ in range(3):
            world.op("aten::narrow", 2 * US).sleep(3 * US)

        def pieces(w):
            for _ in range(28):
                w.op("aten::narrow", 780 * US).sleep(790 * US)

        world.within("aten::split_with_sizes", pieces, "cpu_op").device("cat", 10 * US)
    found = by_rule(world)["host_work"]
    assert "longest in aten::split_with_sizes" in found.what
    assert "fewer and larger" in found.advice


def test_a_step_is_not_what_the_host_did():
    world = World()
    for k in range(6):
        world.within(f"ProfilerStep#{k}", lambda w: w.op("aten::mm", 9 * US).device("gemm", MS).sleep(3 * MS))
    what = by_rule(world)["host_work"].what
    assert "ProfilerStep" not in what
    assert "outside recorded operators and calls" in what


@pytest.mark.parametrize(("around", "word"), [("FSDP::pre_forward", "forward_prefetch"), (None, "tensor parallelism")])
def test_gathering_is_overlapped_as_its_program_gathers(around, word):
    world = World()
    for _ in range(10):
        world.device("ncclDevKernel_AllGather_RING_LL", 5 * MS).device("gemm", 2 * MS)
    if around:
        world.op(around, US)
    assert word in by_rule(world)["exposed_communication"].advice


def native_loop():
    """As OpenACC runs a loop: for each iteration a kernel of 3 µs, a wait, and work of the host for the next one."""
    world = World()
    for _ in range(400):
        world.device("fill", 3 * US).wait("cuStreamSynchronize").sleep(40 * US)
    return world


def test_a_host_that_is_slower_than_the_gpu_is_said_to_be():
    found = by_rule(native_loop(), source="file:nsys")
    assert found["idle"].title == "a host that is slower than the GPU"
    assert "fewer and larger kernels" in found["idle"].advice


def test_advice_for_programs_without_torch_names_nothing_of_torch():
    world = World()
    for _ in range(60):
        world.device("Memcpy HtoD (Pinned -> Device)", 2 * US, cat="gpu_memcpy", num_bytes=96, call="cudaMemcpyAsync",
                     call_ns=40 * US).device("cells", 50 * US).sleep(70 * US)  # fmt: skip
        world.host("cudaMalloc", "cuda_runtime", world.now, 90 * US).sleep(90 * US)
    found = by_rule(world, source="file:nsys")
    assert {"small_copies", "driver_memory"} <= set(found)
    texts = " ".join(one.advice for one in found.values())
    for word in ("torch", "%%", "wait_stream", "non_blocking"):
        assert word not in texts, word


def test_seconds_before_a_triton_kernel_without_any_event_are_its_compilation():
    """As with activities=[CUDA]: neither operators nor Python calls are recorded."""
    world = World().device("fill", 10 * US).sleep(800 * MS).device("triton_poi_fused_add_0", 10 * US).sleep(90 * MS)
    found = by_rule(world.device("fill", 10 * US), source="file:kineto")
    assert found["compiling"].gain_ns == pytest.approx(800 * MS, rel=0.01)
    assert found["host_work"].gain_ns == pytest.approx(90 * MS, rel=0.01)


def test_the_window_of_a_cpu_run_in_a_file_ends_with_its_last_event():
    """Kineto's mark of the end of the recording can be seconds later."""
    world = World().host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", 0, 120 * MS)
    world.op("aten::stack", 5 * MS).host("Record Window End", "unknown", 13_000 * MS, 0, is_instant=True)
    trace = world.trace(source="file:kineto")
    assert [one.rule for one in findings(trace)] == ["data_loader"]
    assert trace.summary().verdict.startswith("120 ms of 13.0 s recorded")


def test_a_first_launch_that_loads_code_is_a_driver_call_after_a_wait_too():
    """As in a program with one copy and one kernel: the gap begins in the copy's wait."""
    world = World().device("Memcpy HtoD (Pageable -> Device)", 3 * US, cat="gpu_memcpy", call="cudaMemcpy", waits=True)
    world.sleep(2 * US).number += 1
    world.host("cudaLaunchKernel", "cuda_runtime", world.now, 300 * US, correlation_id=world.number)
    row = {"name": "wave", "cat": "kernel", "ts": world.now + 301 * US, "dur": 9 * US, "device": 0, "stream": 7}
    world.rows.append(row | {"correlation_id": world.number})
    found = by_rule(world, source="file:nsys")
    assert found["driver_calls"].gain_ns == pytest.approx(300 * US, rel=0.03)
    assert "idle" not in found


def test_small_copies_from_pageable_memory_are_pinned_or_arguments():
    world = World()
    for _ in range(200):
        world.device(
            "Memcpy HtoD (Pageable -> Device)", 2 * US, cat="gpu_memcpy", num_bytes=64, call="cudaMemcpy", waits=True,
        ).sleep(20 * US).device("level", 30 * US)  # fmt: skip
    assert "pinned memory" in by_rule(world, source="file:nsys")["host_sync"].advice


def test_pinned_memory_saves_no_more_than_the_copies_and_the_waits_take():
    """What the host does between them stays: here it allocates and frees."""
    world = World()
    for _ in range(30):
        world.device("distances", 5 * MS).device(
            "Memcpy DtoH (Device -> Pageable)", MS, cat="gpu_memcpy", num_bytes=4 << 20, call="cudaMemcpy", waits=True,
        )  # fmt: skip
        world.host("cudaMallocPitch", "cuda_runtime", world.now, 3 * MS).sleep(3 * MS)
    found = by_rule(world, source="file:nsys")
    assert found["pageable_copies"].gain_ns <= 30 * MS
    assert found["driver_memory"].gain_ns == pytest.approx(29 * 3 * MS, rel=0.05)


def test_a_wait_beside_an_idle_gpu_is_for_work_that_is_not_recorded():
    """The host has launched the next kernel milliseconds before it starts, and waits for it."""
    world = World()
    for _ in range(20):
        world.number += 1
        world.host("cuLaunchKernel", "cuda_driver", world.now, 7 * US, correlation_id=world.number)
        start = world.now + 4 * MS
        row = {"name": "solve", "cat": "kernel", "ts": start, "dur": 10 * MS, "device": 0, "stream": 7}
        world.rows.append(row | {"correlation_id": world.number})
        world.host("cuStreamSynchronize", "cuda_driver", world.now + 9 * US, 14 * MS)
        world.now = start + 10 * MS + 20 * US
    found = by_rule(world, source="file:nsys")
    assert found["driver_calls"].gain_ns == pytest.approx(19 * 4 * MS, rel=0.05)
    assert "work that is not recorded" in found["driver_calls"].advice


def test_reading_the_result_at_the_end_is_not_a_loop_of_waits():
    """What a replay saves without that wait is the time in which the host could end."""
    world = (
        World()
        .device("Memcpy HtoD (Pinned -> Device)", MS, cat="gpu_memcpy", num_bytes=8 << 20)
        .device("wave", 20 * US)
    )
    world.device(
        "Memcpy DtoH (Device -> Pageable)", MS, cat="gpu_memcpy", num_bytes=8 << 20, call="cudaMemcpy", waits=True,
    ).sleep(9 * US).device("free", 3 * US)  # fmt: skip
    assert "host_sync" not in by_rule(world, source="file:nsys")


def test_a_loop_of_one_kernel_is_said_to_be_one():
    found = by_rule(World().kernels(400, 3 * US, 30 * US, name="fill"), source="file:nsys")
    assert found["graphable"].what.startswith("The same kernel runs 400 times in a row")


def test_casts_of_autocast_in_a_steady_state_are_found_where_the_host_is_the_bottleneck():
    """Their operators go with them: the host's time of a cast is as long as its kernel."""
    world = World()

    def product(world):
        world.within("aten::_to_copy", lambda w: w.within("aten::copy_", cast, "cpu_op"), "cpu_op")
        world.within("aten::mm", lambda w: w.device("gemm", 40 * US).sleep(40 * US), "cpu_op")

    for _ in range(200):
        world.within("aten::linear", product, "cpu_op")
    found = by_rule(world)["copies"]
    assert found.gain_ns == pytest.approx(200 * 12 * US, rel=0.2)
    assert "autocast" in found.advice


def cast(world):
    return world.device("at::native::unrolled_elementwise_kernel<bfloat16_copy>", 12 * US).sleep(12 * US)


def test_each_rule_has_an_example_a_near_miss_and_a_false_friend_in_the_docs():
    page = (Path(__file__).parents[3] / "docs" / "findings.md").read_text()
    _, _, table = page.partition("### An example, a near miss and a false friend of each rule")
    table, _, _ = table.partition("\n## ")
    rows = {row.split("|")[1].strip(): row.split("|")[2:5] for row in table.splitlines() if row.startswith("| `")}
    named = {
        name for rule in (*RULES, *RANK_RULES) for name in re.findall(r"``(\w+)``", rule.__doc__.partition("\n")[0])
    }
    missing = {name for name in named if not any(f"`{name}`" in cell for cell in rows)}
    assert not missing
    assert all(cell.strip() for cells in rows.values() for cell in cells)
