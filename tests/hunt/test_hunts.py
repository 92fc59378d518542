"""Each subject of the hunt, for a few seconds and with the same seeds each time; and the search itself."""

from collections import Counter

import pytest
import torch
from budget import examples
from hunting import Fault, Subject, check_program, drawn_by, load_subjects, search
from hypothesis import strategies as st
from operator_calls import Call

SEEDS = (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("subject", load_subjects(), ids=lambda subject: subject.name)
def test_subject_finds_nothing(subject, seed):
    faulty = search(subject, seed, examples(4 * subject.num_quick))  # a fourth of it in `make test`
    assert faulty is None, faulty.text()


def test_search_shrinks_to_the_smallest_program_with_the_fault():
    subject = Subject("sums", st.lists(st.integers(0, 100)), lambda program: too_large(program, 150))
    faulty = search(subject, 1, 1_000)
    assert sorted(faulty.program) in [[50 + k, 100 - k + 1] for k in range(51)] or sum(faulty.program) == 151
    assert "make hunt SUBJECT=sums SEED=1" in faulty.text()


def test_search_passes_over_known_kinds():
    subject = Subject("sums", st.lists(st.integers(0, 100)), lambda program: too_large(program, 150))
    assert search(subject, 1, 200, known={"too large"}) is None


def test_a_random_generator_s_programs_shrink():
    programs = drawn_by(lambda random: [random.randrange(100) for _ in range(random.randrange(20))])
    faulty = search(Subject("sums", programs, lambda program: too_large(program, 99)), 1, 1_000)
    assert len(faulty.program) == 2


def test_the_same_seed_draws_the_same_programs():
    drawn = []
    for _ in range(2):
        programs = []
        search(Subject("sums", st.lists(st.integers()), programs.append), 7, 50)
        drawn.append(programs)
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) >= 40


def test_an_exception_of_a_check_is_a_fault_at_its_line():
    subject = Subject("divisions", st.integers(-5, 5), lambda number: 1 // number and None, counts=Counter())
    assert check_program(subject, 0).kind == "ZeroDivisionError in test_hunts.py:<lambda>"
    assert search(subject, 1, 100).program == 0


def test_gradients_of_integers_are_not_called():
    (operators,) = load_subjects(["operators"])
    assert check_program(operators, Call("H", 0, "backward", torch.int64, seed=0)) is None


def test_an_unknown_subject_names_the_known_ones():
    with pytest.raises(LookupError, match=r"unknown subject tea; expected one of .*intervals"):
        load_subjects(["tea"])


def too_large(numbers, limit):
    """The fault of numbers whose sum is above a limit."""
    return Fault("too large", str(sum(numbers))) if sum(numbers) > limit else None
