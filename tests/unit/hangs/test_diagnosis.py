"""Which rank holds up a job, from simulated dumps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_job import SimulatedJob

import cudalens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


def found(folder: Path) -> tuple[str, list[int], list[str]]:
    hang = cudalens.load_flight_recorder(folder).hang
    return hang.status, [one.rank for one in hang.culprits], [one.reason for one in hang.culprits]


def test_ranks_that_enter_the_same_collectives_wait_for_no_one(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    assert found(job.write(folder)) == ("running", [], [])


def test_one_dump_of_a_rank_that_has_not_come_is_no_hang(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 2, 3])
    record = cudalens.load_flight_recorder(job.write(folder))
    assert found(folder) == ("waiting", [1], ["not entered"])
    assert record.hang.waiting == (0, 2, 3)
    assert "a second one" in str(record)
    assert record.verdict.startswith(
        "Waiting: rank 1 has not entered all_reduce #10 of default_pg (10 Float); it is at"
    )
    assert "user/data.py:70 in read" in record.verdict


def test_two_dumps_without_a_new_collective_are_no_progress(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 2, 3])
    job.write(folder)
    assert found(job.write(folder, number=2)) == ("no_progress", [1], ["not entered"])


def test_a_collective_between_two_dumps_is_progress(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 2, 3])
    job.write(folder)
    job.enter(1)
    job.enter([0, 2, 3])
    assert found(job.write(folder, number=2))[0] == "waiting"


def test_a_collective_of_another_operation_hangs_in_one_dump(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 2, 3], line=10)
    job.enter(1, "reduce", line=20)
    assert found(job.write(folder)) == ("hang", [1], ["other operation"])
    verdict = cudalens.load_flight_recorder(folder).verdict
    assert "rank 1 entered reduce #10 of default_pg (10 Float) at user/train.py:20 in step instead of" in verdict


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"size": (20,)}, "other size"), ({"dtype": "Double"}, "other dtype"), ({"size": (5, 4)}, "other size")],
)
def test_another_size_or_type_hangs(folder: Path, other: dict[str, object], reason: str) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 1, 2])
    job.enter(3, **other)  # type: ignore[arg-type]
    assert found(job.write(folder)) == ("hang", [3], [reason])


def test_another_shape_with_as_many_values_is_equal(folder: Path) -> None:
    job = SimulatedJob(2)
    job.enter(0, size=(4, 5))
    job.enter(1, size=(20,))
    assert found(job.write(folder))[0] == "running"


def test_uneven_splits_of_all_to_all_are_equal(folder: Path) -> None:
    job = SimulatedJob(3)
    for rank in range(2):
        job.enter(rank, "all_to_all", size=(rank + 1,))
    assert found(job.write(folder)) == ("waiting", [2], ["not entered"])


def test_two_collectives_in_another_order(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(4)
    job.enter([0, 1, 3], "all_reduce")
    job.enter(2, "all_gather")
    assert found(job.write(folder)) == ("hang", [2], ["other order"])


def test_of_two_ranks_the_one_that_left_its_habit_is_at_fault(folder: Path) -> None:
    job = SimulatedJob(2)
    job.steps(4)
    job.enter(0, "all_gather")
    job.enter(1, "all_reduce")
    assert found(job.write(folder)) == ("hang", [0], ["other order"])


def test_of_two_ranks_without_a_habit_both_are_named(folder: Path) -> None:
    job = SimulatedJob(2)
    job.enter(0, "all_gather")
    job.enter(1, "all_reduce")
    record = cudalens.load_flight_recorder(job.write(folder))
    assert [one.rank for one in record.hang.culprits] == [0, 1]
    assert record.hang.is_ambiguous
    assert "one of them is at fault" in record.verdict


def test_two_groups_in_opposite_order_are_a_deadlock(folder: Path) -> None:
    job = SimulatedJob(4, {"1": [0, 1], "2": [0, 1]})
    job.steps(2)
    job.enter(0, group="1")
    job.enter(1, group="2")
    job.enter([2, 3])
    record = cudalens.load_flight_recorder(job.write(folder))
    assert found(folder) == ("hang", [0, 1], ["deadlock"] * 2)
    assert (record.hang.waiting, record.hang.waiting_behind) == ((2, 3), ())
    assert "wait for each other" in record.verdict


def test_a_rank_alone_in_another_group_is_at_fault(folder: Path) -> None:
    job = SimulatedJob(4, {"1": [0, 1, 2, 3]})
    job.steps(2)
    job.enter([0, 1, 3])
    job.enter(2, group="1")
    assert found(job.write(folder)) == ("hang", [2], ["other group"])


@pytest.mark.parametrize(
    ("ending", "reason"), [("exit", "exited"), ("ValueError: bad batch", "raised"), ("KeyError: 'x'", "raised")]
)
def test_a_rank_that_ended_holds_up_the_others(folder: Path, ending: str, reason: str) -> None:
    job = SimulatedJob(4)
    job.steps(2)
    job.enter([0, 2, 3])
    assert found(job.write(folder, rank_1=ending)) == ("hang", [1], [reason])


def test_an_error_about_a_lost_connection_is_no_cause(folder: Path) -> None:
    job = SimulatedJob(3)
    job.steps(2)
    job.enter([0, 2])
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer"
    assert found(job.write(folder, without=[1], rank_0=lost, rank_2=lost)) == ("failed", [1], ["no dump"])


def test_waiters_behind_waiters_are_apart(folder: Path) -> None:
    job = SimulatedJob(6, {"1": [0, 1], "2": [1, 2], "3": [2, 3, 4, 5]})
    job.steps(2)
    job.enter(1, group="1")
    job.enter(2, group="2")
    job.enter([3, 4, 5], group="3")
    hang = cudalens.load_flight_recorder(job.write(folder)).hang
    assert [one.rank for one in hang.culprits] == [0]
    assert (hang.waiting, hang.waiting_behind) == ((1,), (2, 3, 4, 5))


def test_a_cascade_of_a_thousand_ranks_has_one_culprit(folder: Path) -> None:
    groups = {str(rank + 1): (rank, rank + 1) for rank in range(999)}
    job = SimulatedJob(1000, groups)
    job.steps(1)
    for rank in range(999, 0, -1):
        job.enter(rank, group=str(rank))
    hang = cudalens.load_flight_recorder(job.write(folder)).hang
    assert [(one.rank, one.reason) for one in hang.culprits] == [(0, "not entered")]
    assert len(hang.waiting_behind) == 998


@given(culprit=st.integers(0, 7), num_steps=st.integers(0, 3), late=st.sets(st.integers(0, 7)))
def test_the_one_rank_that_never_comes_is_named(
    tmp_path_factory: pytest.TempPathFactory, culprit: int, num_steps: int, late: set[int]
) -> None:
    job = SimulatedJob(8)
    job.steps(num_steps)
    arrived = [rank for rank in range(8) if rank != culprit]
    job.enter(arrived)
    status, ranks, _ = found(job.write(tmp_path_factory.mktemp("dumps"), without=late - {culprit, *arrived[:1]}))
    assert culprit in ranks
    assert status in ("hang", "waiting")


def test_the_frame_of_all_collectives(folder: Path) -> None:
    job = SimulatedJob(2)
    job.enter([0, 1], "all_gather", size=(2, 3), line=7)
    frame = cudalens.load_flight_recorder(job.write(folder)).entries
    assert frame[["rank", "dump", "seq", "op", "input_sizes", "is_finished"]].values.tolist() == [
        [0, 0, 1, "all_gather", ((2, 3),), True],
        [1, 0, 1, "all_gather", ((2, 3),), True],
    ]
    assert frame["place"].tolist() == ["/home/user/train.py:7"] * 2


def test_the_page_escapes_what_dumps_contain(folder: Path, tmp_path: Path) -> None:
    job = SimulatedJob(2)
    job.enter(0, "<script>alert(1)</script>")
    page = cudalens.load_flight_recorder(job.write(folder)).to_html(tmp_path / "hang.html").read_text("utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def without_states(folder: Path) -> Path:
    """The dumps as gloo writes them: without the ranks of groups."""
    for path in folder.glob("*.state.json"):
        path.unlink()
    return folder


def test_ranks_in_groups_without_stated_members_are_not_known_to_be_right(folder: Path) -> None:
    """Ranks 0 and 1 wait for rank 2 in one group, ranks 3 and 4 for rank 5 in another; neither has ever entered it."""
    job = SimulatedJob(6, {"1": (0, 1, 2), "2": (3, 4, 5)})
    job.steps(3)
    job.enter([0, 1], group="1")
    job.enter([3, 4], group="2")
    assert found(job.write(folder))[0] == "waiting"
    record = cudalens.load_flight_recorder(without_states(folder))
    assert (record.hang.status, record.hang.waiting, record.hang.culprits) == ("unknown", (0, 1, 3, 4), ())
    assert record.verdict.startswith("Not known whether a rank is missing: ranks 0, 1, 3 and 4 are in collectives of")
    assert "No rank waits" not in str(record)
    assert "The dumps do not state which ranks belong to these groups" in str(record)


def test_a_rank_that_is_missing_in_the_default_group_is_found_without_stated_members(folder: Path) -> None:
    job = SimulatedJob(4)
    job.steps(3)
    job.enter([0, 2, 3])
    assert found(without_states(job.write(folder))) == ("waiting", [1], ["not entered"])


def test_stacks_and_logs_beside_the_dumps_are_no_damage(folder: Path) -> None:
    job = SimulatedJob(2)
    job.steps(3)
    job.write(folder)
    (folder / "stacks").mkdir()
    for name in ("stacks/rank_0.txt", "rank_1.log", "rank_1.err"):
        (folder / name).write_text("Thread 0x7f (idle)")
    assert "no dump" not in str(cudalens.load_flight_recorder(folder))
