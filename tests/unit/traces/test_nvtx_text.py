"""Texts of NVTX ranges as current and earlier versions of torch's emit_nvtx write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.traces.nsys import OpText, parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("aten::view, op_id = 314290", OpText("aten::view", "cpu_op", None, 314290)),
        (
            "aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]], input_op_ids = [(38,0), (39,0)]",
            OpText("aten::mm", "cpu_op", 12, 40, "[[2,3],[3,4]]"),
        ),
        ("aten::ones, op_id = 4, sizes = [[], [], []]", OpText("aten::ones", "cpu_op", None, 4, "[[],[],[]]")),
        ("mm, seq = 12, sizes = [[2, 3]]", OpText("mm", "cpu_op", 12, None, "[[2,3]]")),
        ("MmBackward, stashed seq=12, seq=13", OpText("MmBackward", "cpu_op", 12)),
        (
            "autograd::engine::evaluate_function: AddBackward0, op_id = 8",
            OpText("autograd::engine::evaluate_function: AddBackward0", "cpu_op", None, 8),
        ),
        ("aten::add.out, op_id = 1", OpText("aten::add.out", "cpu_op", None, 1)),
        ("my forward, op_id = 3", OpText("my forward", op_id=3)),
        ("ProfilerStep#3, op_id = 3", OpText("ProfilerStep#3", op_id=3)),
        ("Optimizer.step#SGD.step, op_id = 3", OpText("Optimizer.step#SGD.step", op_id=3)),
        ("FSDP::post_forward (a.0), op_id = 5", OpText("FSDP::post_forward (a.0)", op_id=5)),
        ("a, b, seq = x", OpText("a, b, seq = x")),
        ("aten::mm", OpText("aten::mm")),
        ("step 1, of 3", OpText("step 1, of 3")),
        ("", OpText("")),
        ("aten::mm, seq = 99999999999999999999", OpText("aten::mm, seq = 99999999999999999999")),
    ],
)
def test_what_a_text_contains(text, found):
    assert parse(text) == found


@given(
    st.from_regex(r"[a-z]{1,9}::[a-z_]{1,9}", fullmatch=True),
    st.none() | st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.none() | st.lists(st.lists(st.integers(0, 10**6), max_size=4), min_size=1, max_size=4),
)
def test_a_text_made_of_parts_comes_apart(name, seq, op_id, sizes):
    text = name + (f", seq = {seq}" if seq is not None else "") + f", op_id = {op_id}"
    text += f", sizes = {json.dumps(sizes)}" if sizes else ""
    found = parse(text)
    assert (found.name, found.cat, found.sequence_nr, found.op_id) == (name, "cpu_op", seq, op_id)
    assert (None if found.shapes is None else json.loads(found.shapes)) == sizes


@given(st.text(max_size=40).filter(lambda text: ", " not in text))
def test_any_other_text_is_a_name(text):
    assert parse(text) == OpText(text)


def test_hostile_texts_take_no_time():
    for text in ("x, sizes = " + "[[" * 30_000, ", sizes = [[1]" * 4_000, "a, seq = " * 7_000):
        assert parse(text[:65_000]).cat in ("cpu_op", "user_annotation")
