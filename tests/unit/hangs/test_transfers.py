"""Sends and receives that do not end, from simulated dumps of NCCL and from what `watch_hangs` writes for gloo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulated_job import SimulatedJob

import cudalens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


def found(folder: Path) -> tuple[str, list[int], list[str]]:
    hang = cudalens.load_flight_recorder(folder).hang
    return hang.status, [one.rank for one in hang.culprits], [one.reason for one in hang.culprits]


def pipeline(num_steps: int = 3) -> SimulatedJob:
    """Stages 0 to 3, of which each sends to the next one, twice in a step."""
    job = SimulatedJob(4, {"pp": [0, 1, 2, 3]})
    for _ in range(2 * num_steps):
        for rank in range(3):
            job.transfer(rank, "send", rank + 1, group="pp")
            job.transfer(rank + 1, "recv", rank, group="pp")
    return job


def test_transfers_that_ended_hold_up_no_one(folder: Path) -> None:
    assert found(pipeline().write(folder)) == ("running", [], [])


@pytest.mark.parametrize("dropped", [0, 3])
def test_a_rank_that_does_not_send_holds_up_the_receivers_behind_it(folder: Path, dropped: int) -> None:
    job = pipeline()
    job.dropped = dropped
    for rank in (2, 3):
        job.transfer(rank, "recv", rank - 1, group="pp")
    record = cudalens.load_flight_recorder(job.write(folder))
    assert found(folder) == ("waiting", [1], ["not entered"])
    assert (record.hang.waiting, record.hang.waiting_behind) == ((2,), (3,))
    assert record.verdict.startswith("Waiting: rank 1 has not entered send of group pp to rank 2 (10 Float); it is at")


def test_numbers_of_groups_are_those_of_their_ranks(folder: Path) -> None:
    job = SimulatedJob(4, {"pp": [1, 3]})
    job.transfer(3, "recv", 0, group="pp")
    hang = cudalens.load_flight_recorder(job.write(folder)).hang
    assert [one.rank for one in hang.culprits] == [1]
    assert hang.waiting == (3,)


@pytest.mark.parametrize(
    ("num_steps", "expected"),
    [(0, ([0, 1], ["deadlock"] * 2)), (3, ([0], ["other operation"]))],
    ids=["first", "later"],
)
def test_two_ranks_that_both_receive_first_wait_for_each_other(
    folder: Path, num_steps: int, expected: tuple[list[int], list[str]]
) -> None:
    """In later steps the rank that never received before is at fault."""
    job = pipeline(num_steps)
    job.transfer(0, "recv", 1, group="pp")
    job.transfer(1, "recv", 0, group="pp")
    assert found(job.write(folder)) == ("hang", *expected)


def test_a_batch_of_transfers_in_both_directions_is_no_deadlock(folder: Path) -> None:
    job = pipeline()
    for rank in (0, 1):
        for op in ("send", "recv"):
            job.transfer(rank, op, 1 - rank, group="pp", batch=50)
    assert found(job.write(folder)) == ("running", [], [])


def test_only_the_missing_transfer_of_a_batch_holds_it_up(folder: Path) -> None:
    job = pipeline()
    for op, other in (("recv", 0), ("send", 2)):
        job.transfer(1, op, other, group="pp", batch=50)
    job.transfer(2, "recv", 1, group="pp")
    assert found(job.write(folder)) == ("waiting", [0], ["not entered"])


def test_a_send_behind_a_collective_that_waits_accuses_no_one(folder: Path) -> None:
    job = pipeline()
    job.enter([0, 1, 3])
    job.transfer(1, "send", 0, group="pp")
    hang = cudalens.load_flight_recorder(job.write(folder)).hang
    assert [one.rank for one in hang.culprits] == [2]


def test_a_receive_of_another_size_hangs(folder: Path) -> None:
    job = pipeline()
    job.transfer(0, "send", 1, group="pp", size=(20,))
    job.transfer(1, "recv", 0, group="pp")
    record = cudalens.load_flight_recorder(job.write(folder))
    assert found(folder)[0] == "hang"
    assert {one.rank for one in record.hang.culprits} <= {0, 1}
    assert "send of group pp to rank 1 (20 Float)" in record.verdict


def test_what_was_started_together_ends_together(folder: Path) -> None:
    """Only the entry ``coalesced`` of a batch has a state."""
    job = SimulatedJob(2, {"pp": [0, 1]})
    job.transfer(1, "recv", 0, group="pp", batch=7)
    path = job.write(folder) / "rank_1.dump_1.json"
    dump = json.loads(path.read_text())
    last = dump["entries"][-1] | {"profiling_name": "nccl:coalesced", "state": "completed"}
    dump["entries"].append(last)
    path.write_text(json.dumps(dump))
    assert found(folder) == ("running", [], [])


def test_entries_show_between_which_ranks(folder: Path) -> None:
    entries = cudalens.load_flight_recorder(pipeline(1).write(folder)).entries
    of_rank_1 = entries[entries["rank"] == 1]
    assert of_rank_1[["op", "src", "dst", "seq"]].values.tolist() == [
        ["recv", 0, 1, 1],
        ["send", 1, 2, 1],
        ["recv", 0, 1, 2],
        ["send", 1, 2, 2],
    ]


def test_names_without_ranks_are_counted(folder: Path) -> None:
    job = SimulatedJob(2)
    job.transfer(1, "recv", 0)
    path = job.write(folder) / "rank_1.dump_1.json"
    path.write_text(path.read_text().replace("nccl:recv 1<-0", "nccl:recv"))
    record = cudalens.load_flight_recorder(folder)
    assert record.hang.status == "running"
    assert "a send or receive without its ranks" in str(record)


def in_recv(folder: Path, rank: int, number: int, **changes: object) -> None:
    """What `watch_hangs` writes of a gloo rank whose main thread is in ``recv`` from rank 0."""
    path = folder / f"rank_{rank}.dump_{number}.state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"transfer": {"op": "recv", "group": "0", "src": 0, "dst": rank} | changes}))


def test_a_gloo_rank_that_receives_waits_for_the_sender(folder: Path) -> None:
    job = SimulatedJob(3)
    job.steps(2)
    for number in (1, 2):
        job.write(folder, number=number)
        in_recv(folder, 2, number)
    record = cudalens.load_flight_recorder(folder)
    assert found(folder) == ("no_progress", [0], ["not entered"])
    assert record.hang.waited_ns == 30 * 10**9
    assert "rank 0 has not entered send of default_pg to rank 2; it is at" in record.verdict


@pytest.mark.parametrize("changes", [{"dst": 1}, {"op": "exec"}, {"group": "no such"}])
def test_a_transfer_that_cannot_be_is_left_out(folder: Path, changes: dict[str, object]) -> None:
    job = SimulatedJob(3)
    job.steps(1)
    in_recv(job.write(folder), 2, 1, **changes)
    assert found(folder) == ("running", [], [])
