"""Steps that all ranks recorded: their numbers differ between ranks, and some ranks recorded more of them."""

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.stragglers import Coverage, step_number_offsets


def communications(*rows):
    """A frame of communications from (rank, step of that rank, match) in order of rank."""
    frame = pd.DataFrame(rows, columns=["rank", "step", "match"])
    frame["place"] = frame.groupby("rank").cumcount()
    return frame.astype({"step": "Int64"})


def work(*rows):
    """A frame of work from (rank, step of that rank, communications before it)."""
    return pd.DataFrame(rows, columns=["rank", "step", "place"])


#: Rank 1 counted its steps from an earlier moment: its step k + 1 is step k of rank 0.
AHEAD = communications((0, 0, 10), (0, 1, 11), (0, 2, 12), (1, 1, 10), (1, 2, 11), (1, 3, 12))


def test_step_numbers_are_compared_by_matched_communications():
    assert step_number_offsets(AHEAD, [0, 1]) == {0: 0, 1: 1}


def test_a_single_wrong_match_does_not_decide():
    wrong = communications(
        (0, 0, 10), (0, 1, 11), (0, 2, 12), (1, 0, 12), (1, 2, 11), (1, 1, 10), (1, 3, 13), (0, 3, 14)
    )
    assert step_number_offsets(wrong, [0, 1])[1] == 1


def test_a_step_that_one_rank_alone_recorded_without_communication_is_not_in_all():
    rows = work((0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 0), (1, 2, 1), (1, 3, 2))
    covered = Coverage(rows, AHEAD, np.array([0, 1]), np.array([0, 0]))
    assert covered.step.tolist() == [1, 2, 3, 0, 1, 2, 3]
    assert covered.in_all.tolist() == [True, True, True, False, True, True, True]
    assert covered.place_in_step.tolist() == [0] * 7
    assert covered.num_steps == 4


def test_a_step_that_was_cut_off_before_its_communication_is_not_in_all():
    """Also where a rank recorded a step before the others did, in which nothing was sent."""
    rows = work((0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 0), (1, 2, 1), (1, 3, 2))
    cut = AHEAD[:-1]
    covered = Coverage(rows, cut, np.array([0, 1]), np.array([0, 0]))
    assert covered.step.tolist() == [1, 2, 3, 0, 1, 2, 3]
    assert covered.in_all.tolist() == [True, True, False, False, True, True, False]
