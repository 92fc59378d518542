"""What the host waited in, derived from the operators, calls and expressions around a wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.frames.sync_kinds import (
    Evidence,
    PythonContext,
    SyncKind,
    called_name,
    kind_of,
    plain_call,
    python_context,
)

COPY_AND_WAIT = ("cudaMemcpyAsync", "cudaStreamSynchronize")
READ = ("aten::_local_scalar_dense", "aten::item")
MOVE = ("aten::copy_", "aten::_to_copy", "aten::to")

CASES = [
    (Evidence(COPY_AND_WAIT, READ, way="DtoH", is_pageable=False), SyncKind.ITEM),
    (Evidence(COPY_AND_WAIT, MOVE, "to", "HtoD", True, moves_module=True), SyncKind.MODULE_TO_DEVICE),
    (Evidence(COPY_AND_WAIT, MOVE, "cpu", "DtoH", True, moves_module=True), SyncKind.CPU),
    (Evidence(("hipMemcpyWithStream",), READ, way="DtoH"), SyncKind.ITEM),
    (Evidence(COPY_AND_WAIT, (*READ, "aten::is_nonzero")), SyncKind.TRUTH),
    (Evidence(COPY_AND_WAIT, READ, "if"), SyncKind.TRUTH),
    (Evidence(COPY_AND_WAIT, READ, "float"), SyncKind.ITEM),
    (Evidence(COPY_AND_WAIT, READ, "item", prints=True), SyncKind.PRINT),
    (Evidence(COPY_AND_WAIT, (), "print", way="DtoH"), SyncKind.PRINT),
    (Evidence(COPY_AND_WAIT, ("aten::nonzero",)), SyncKind.NONZERO),
    (Evidence(COPY_AND_WAIT, ("aten::nonzero", "aten::nonzero_numpy", "aten::where")), SyncKind.NONZERO),
    (Evidence(COPY_AND_WAIT, ("aten::nonzero", "aten::index"), "[]"), SyncKind.BOOLEAN_INDEX),
    (Evidence(COPY_AND_WAIT, ("aten::nonzero", "aten::_index_put_impl_", "aten::index_put_")), SyncKind.BOOLEAN_INDEX),
    (Evidence(COPY_AND_WAIT, ("aten::masked_select",)), SyncKind.BOOLEAN_INDEX),
    (Evidence(COPY_AND_WAIT, (*MOVE, "aten::index"), way="HtoD", is_pageable=True), SyncKind.PAGEABLE_TO_DEVICE),
    (Evidence(COPY_AND_WAIT, (*READ, "aten::equal")), SyncKind.EQUAL),
    (Evidence(COPY_AND_WAIT, ("aten::_unique2",)), SyncKind.UNIQUE),
    (Evidence(COPY_AND_WAIT, (*READ, "aten::repeat_interleave")), SyncKind.DATA_SIZE),
    (Evidence(COPY_AND_WAIT, (*READ, "aten::_linalg_check_errors", "aten::linalg_inv")), SyncKind.CHECK),
    (Evidence(COPY_AND_WAIT, MOVE, "cpu", "DtoH", True), SyncKind.CPU),
    (Evidence(COPY_AND_WAIT, (), "tolist", "DtoH", True), SyncKind.TOLIST),
    (Evidence(COPY_AND_WAIT, MOVE, "numpy", "DtoH", True), SyncKind.NUMPY),
    (Evidence(COPY_AND_WAIT, MOVE, "to", "DtoH", True), SyncKind.PAGEABLE_TO_HOST),
    (Evidence(COPY_AND_WAIT, MOVE, "cuda", "HtoD", True), SyncKind.PAGEABLE_TO_DEVICE),
    (Evidence(COPY_AND_WAIT, MOVE, "copy_", "DtoH", False), SyncKind.BLOCKING_TO_HOST),
    (Evidence(COPY_AND_WAIT, MOVE, "cuda", "HtoD", False), SyncKind.BLOCKING_TO_DEVICE),
    (Evidence(("hipMemcpyWithStream",), MOVE, "", "HtoD", None), SyncKind.BLOCKING_TO_DEVICE),
    (Evidence(("cudaStreamSynchronize",), MOVE), SyncKind.COPY),
    (Evidence(("cudaMalloc", "cudaFree", "cudaMalloc"), ("aten::empty",)), SyncKind.ALLOCATOR_RETRY),
    (Evidence(("cudaFree",), ()), SyncKind.EMPTY_CACHE),
    (Evidence(("cudaDeviceSynchronize",), (), "empty_cache"), SyncKind.EMPTY_CACHE),
    (Evidence(("cudaFree",), ("aten::conv2d",)), SyncKind.FREE),
    (Evidence(("cudaDeviceSynchronize_v3020",), ()), SyncKind.DEVICE_SYNC),
    (Evidence(("cuCtxSynchronize",), ()), SyncKind.DEVICE_SYNC),
    (Evidence(("cudaStreamSynchronize",), (), "synchronize"), SyncKind.STREAM_SYNC),
    (Evidence(("hipEventSynchronize",), ()), SyncKind.EVENT_SYNC),
    (Evidence(("cudaStreamSynchronize",), ("mylib::topk",)), SyncKind.OPERATOR),
    (Evidence(("cudaDeviceSynchronize",), (), "item"), SyncKind.DEVICE_SYNC),
]


@pytest.mark.parametrize(("evidence", "kind"), CASES, ids=[f"{n}-{kind.name}" for n, (_, kind) in enumerate(CASES)])
def test_the_kind_of_a_wait(evidence, kind):
    assert kind_of(evidence) is kind


def test_every_kind_can_be_detected():
    assert {kind for _, kind in CASES} == set(SyncKind)


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("loss.item()", "item"),
        ("float(loss)", "float"),
        ("x[mask > 0]", "[]"),
        ("await step()", "step"),
        ("if mask.any()", "if"),
        ("while x > 0", "while"),
        ("assert ok", "assert"),
        ("not done", "not"),
        ("iffy.cpu()", "cpu"),
        ("a + b", ""),
        ("", ""),
        ("loss.item(", ""),
    ],
)
def test_what_an_expression_asks_for(expression, asked):
    assert called_name(expression) == asked


@given(st.text())
def test_no_expression_is_too_odd(expression):
    assert isinstance(called_name(expression), str)


def test_python_calls_show_the_method_and_the_making_of_text():
    assert python_context(["<built-in method item of Tensor object at 0x7f00>", "train.py(3): step"]) == PythonContext(
        "item"
    )
    assert python_context(["<built-in method item of dict object at 0x7f00>"]) == PythonContext()
    text = ["torch/_tensor_str.py(120): __init__", "torch/_tensor.py(5): __repr__"]
    assert python_context(text) == PythonContext(prints=True)
    assert python_context([]) == PythonContext()


@pytest.mark.parametrize("folder", ["", "/usr/lib/python3/dist-packages/", "C:\\Python312\\Lib\\site-packages\\"])
def test_python_calls_show_that_a_module_is_moved(folder):
    path = f"{folder}torch/nn/modules/module.py"
    path = path.replace("/", "\\") if "\\" in folder else path
    for function in ("_apply", "Module._apply"):
        assert python_context([f"{path}(964): {function}", "train.py(3): main"]) == PythonContext(moves_module=True)
    assert python_context([f"{path}(1775): _call_impl", "train.py(3): main"]) == PythonContext()
    assert python_context(["my_module.py(3): _apply"]) == PythonContext()


@pytest.mark.parametrize(
    ("name", "plain"),
    [("cudaStreamSynchronize_v3020", "cudaStreamSynchronize"), ("cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH"), ("x", "x")],
)
def test_versions_of_a_call_are_one_call(name, plain):
    assert plain_call(name) == plain
