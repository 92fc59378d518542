"""CUDA_VISIBLE_DEVICES as CUDA reads it: a table of cases, and torch's own reading of it."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.device.inventory.visible import MigInstance, parse_visible, variable

A, B, C, D = (
    "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1",
    "GPU-9e8d35e3-a134-0fdd-0e01-23811fdbd293",
    "GPU-e429a63e-c61c-4795-b757-5132caeb8e70",
    "GPU-eee1dfbc-0a0f-6ad8-5ff6-dc942a8b9d98",
)
FOUR = (A, B, C, D)
MIGS = (
    MigInstance("MIG-89c850dc-1111-5555-aaaa-000000000001", 1, 1, 0, "3g.40gb"),
    MigInstance("MIG-89c850dc-2222-5555-aaaa-000000000002", 1, 2, 0, "3g.40gb"),
    MigInstance("MIG-b5f7a0e2-3333-5555-aaaa-000000000003", 2, 7, 1, "1g.10gb"),
)


@pytest.mark.parametrize(
    ("text", "seen", "said"),
    [
        # unset and empty
        (None, (0, 1, 2, 3), "is not set: every GPU is visible"),
        ("", (), "is empty, which hides every GPU"),
        ("   ", (), "is empty, which hides every GPU"),
        # integers
        ("0", (0,), "makes 1 of 4 GPUs visible: cuda:0 is GPU 0"),
        ("3,1", (3, 1), "cuda:0 is GPU 3, cuda:1 is GPU 1"),
        ("0,1,2,3", (0, 1, 2, 3), "makes 4 of 4"),
        (" 3 ,\t1", (3, 1), "makes 2 of 4"),
        ("+2,-0", (2, 0), "makes 2 of 4"),
        ("007,3", (), "is beyond the last GPU, 3"),
        ("03", (3,), "cuda:0 is GPU 3"),
        # trailing junk, as strtoul leaves it
        ("1gpu2,2ampere", (1, 2), "cuda:1 is GPU 2"),
        ("0x1,2", (0, 2), "makes 2 of 4"),
        ("1.9,1e3", (), "names GPU 1 twice"),
        ("2 1", (2,), "makes 1 of 4"),
        ("0;1", (0,), "makes 1 of 4"),
        # what ends the list
        ("-1", (), "entry 1, '-1', is negative, which ends the list"),
        ("0,-1,1", (0,), "entry 2, '-1', is negative"),
        ("0,7,1", (0,), "entry 2, '7', is beyond the last GPU, 3"),
        ("0,99999999999999999999,1", (0,), "is beyond the last GPU"),
        ("none", (), "does not begin with a number"),
        ("4,3,two,one", (), "is beyond the last GPU"),
        ("3,two,1", (3,), "entry 2, 'two', does not begin with a number"),
        ("0,,1", (0,), "entry 2, '', is empty"),
        ("0,1,", (0, 1), "entry 3, '', is empty"),
        (",0", (), "entry 1, '', is empty"),
        ("+", (), "does not begin with a number"),
        ("0,²", (0,), "does not begin with a number"),
        # duplicates
        ("0,0", (), "names GPU 0 twice, which hides every GPU"),
        ("0,1,2,1", (), "names GPU 1 twice"),
        ("1,01,1x", (), "names GPU 1 twice"),
        ("0,9,0", (0,), "which ends the list"),  # entries after the end are not read
        ("-1,0,0", (), "entry 1, '-1', is negative"),
        # UUIDs and their beginnings
        (B, (1,), "cuda:0 is GPU 1"),
        ("GPU-9e8d35e3", (1,), "cuda:0 is GPU 1"),
        (f"GPU-e4,{A}", (2, 0), "cuda:0 is GPU 2, cuda:1 is GPU 0"),
        ("GPU-e", (), "is ambiguous: it is the beginning of 2 UUIDs"),
        ("GPU-9e,GPU-e,GPU-99", (1,), "entry 2, 'GPU-e', is ambiguous"),
        ("GPU-", (), "it is the beginning of 4 UUIDs"),
        ("GPU-123,GPU-9e", (), "is the beginning of no GPU's UUID"),
        ("GPU-9E8D35E3", (), "is the beginning of no GPU's UUID"),
        ("GPU-9e,GPU-e4,GPU-9e8d", (), "names GPU 1 twice"),
        ("GPU-9e,2", (1,), "does not begin with GPU-, as the first entry does"),
        ("GPU-9e, GPU-e4", (1,), "has a blank before GPU-"),
        (" GPU-9e", (), "does not begin with a number"),
        ("gpu-9e", (), "does not begin with a number"),
        ("2,GPU-9e", (2,), "does not begin with a number"),
        (f"{A}junk", (), "is the beginning of no GPU's UUID"),
        # MIG, where no GPU is cut
        ("MIG-89c850dc", (), "no MIG instance's UUID is known"),
    ],
)
def test_the_rules(text, seen, said):
    visible = parse_visible(text, FOUR)
    assert visible.gpus == seen
    assert visible.mig is None
    assert said in visible.note
    assert visible.note.startswith("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("text", "instance", "said"),
    [
        (None, 0, "cuda:0 is MIG instance 3g.40gb of GPU 1"),
        ("MIG-b5", 2, "cuda:0 is MIG instance 1g.10gb of GPU 2"),
        (MIGS[1].uuid, 1, "3g.40gb of GPU 1"),
        (f"{MIGS[2].uuid},{MIGS[0].uuid}", 2, "CUDA shows a process one instance and nothing else"),
        (f"MIG-{B}/2/0", 1, "3g.40gb of GPU 1"),
        ("MIG-89c850dc", None, "is ambiguous: it is the beginning of 2 UUIDs"),
        (f"MIG-{B}/9/0", None, "is the beginning of no MIG instance's UUID"),
        (f"MIG-{A}/1/0", None, "is the beginning of no MIG instance's UUID"),
        ("MIG-b5,GPU-99", 2, "does not begin with MIG-"),
        (f"{MIGS[0].uuid},{MIGS[0].uuid}", None, "names GPU 1 twice"),
        ("0,1", 0, "3g.40gb of GPU 1"),  # a whole GPU is not shown beside an instance
        ("2", 2, "1g.10gb of GPU 2"),
        (C, 2, "1g.10gb of GPU 2"),
    ],
)
def test_mig_instances(text, instance, said):
    visible = parse_visible(text, FOUR, MIGS)
    assert visible.mig == (None if instance is None else MIGS[instance])
    assert visible.gpus == (() if instance is None else (MIGS[instance].gpu,))
    assert said in visible.note


def test_two_instances_of_one_gpu_are_no_duplicates():
    assert parse_visible(f"{MIGS[1].uuid},{MIGS[0].uuid}", FOUR, MIGS).mig == MIGS[1]


def test_whole_gpus_beside_a_cut_one_that_is_not_named():
    assert parse_visible("3,0", FOUR, MIGS).gpus == (3, 0)


def test_a_count_is_enough_for_numbers_but_not_for_uuids():
    assert parse_visible("1,0", 2).gpus == (1, 0)
    assert "cannot be looked up: no GPU's UUID is known" in parse_visible("GPU-9e", 2).note
    assert parse_visible("0", 0).gpus == ()
    assert "names no existing GPU" in parse_visible("0", 0).note
    assert parse_visible(None, 0).note == "CUDA_VISIBLE_DEVICES is not set, and no GPU was found"


def test_which_variable_counts():
    assert variable({}) == ("CUDA_VISIBLE_DEVICES", None)
    assert variable({"CUDA_VISIBLE_DEVICES": ""}) == ("CUDA_VISIBLE_DEVICES", "")
    assert variable({"HIP_VISIBLE_DEVICES": "1"}) == ("CUDA_VISIBLE_DEVICES", None)
    both = {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert variable(both, is_hip=True) == ("HIP_VISIBLE_DEVICES", "1")
    assert variable({"CUDA_VISIBLE_DEVICES": "0"}, is_hip=True) == ("CUDA_VISIBLE_DEVICES", "0")


# -- torch reads the variable too, for torch.cuda.device_count before CUDA starts --------------------------------------


def torchs_reading(text, uuids):
    """What torch makes of the variable: ordinals, by its own functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.version, "hip", None)
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if text is not None:
            patch.setenv("CUDA_VISIBLE_DEVICES", text)
        patch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: len(uuids))
        patch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: list(uuids))
        named = torch.cuda._parse_visible_devices()
        if named and isinstance(named[0], str):
            named = torch.cuda._transform_uuid_to_ordinals(named, list(uuids))
        return named[: torch.cuda._device_count_nvml()]


numbers = st.integers(-2, 6).map(str)
junk = st.sampled_from(["", "x", "gpu", " ", "-", ".5", "e1"])
number_entries = st.builds(
    lambda before, number, after: before + number + after, st.sampled_from(["", " ", "\t"]), numbers, junk
)
uuid_entries = st.builds(lambda uuid, length: uuid[:length], st.sampled_from(FOUR), st.integers(4, 40))
lists = st.lists(st.one_of(number_entries, st.sampled_from(["", "one", "MIG-1"])), max_size=6)


@given(lists.map(",".join), st.integers(1, 4))
def test_numbers_agree_with_torchs_reading(text, num_gpus):
    ours = parse_visible(text, FOUR[:num_gpus]).gpus
    theirs = tuple(torchs_reading(text, FOUR[:num_gpus]))
    # torch looks for repetitions before it counts the GPUs, so also after the entry that ends the list.
    assert ours == theirs or (theirs == () and _repeats(text))


def _repeats(text):
    entries = [parse_visible(part, 100).gpus for part in text.split(",")]
    named = list(itertools.takewhile(bool, entries))
    return len(set(named)) < len(named)


@given(st.lists(st.one_of(uuid_entries, numbers, st.just(" GPU-9")), min_size=1, max_size=5).map(",".join))
def test_uuids_agree_with_torchs_reading(text):
    ours = parse_visible(text, FOUR).gpus
    theirs = tuple(torchs_reading(text, FOUR))
    # The same, where a text is repeated behind an entry that ends the list.
    parts = text.split(",")
    assert ours == theirs or (theirs == () and len(set(parts)) < len(parts))


def test_what_torch_cannot_read():
    """A lone sign and a digit that is not ASCII raise there; CUDA's strtoul reads no number."""
    for text in ("+", "0,-", "²"):
        with pytest.raises(ValueError, match="invalid literal"):
            torchs_reading(text, FOUR)
        assert parse_visible(text, FOUR).gpus in ((), (0,))


@given(st.text(alphabet="0123456789,-+ GPUMIGabc/é\n", max_size=40))
def test_any_text_is_read(text):
    visible = parse_visible(text, FOUR, MIGS)
    assert len(set(visible.gpus)) == len(visible.gpus)
    assert set(visible.gpus) <= {0, 1, 2, 3}
    assert all(entry.gpu is not None for entry in visible.entries[:-1])
