"""Every reason why a call does not simply replay: counted, with the line that caused it, sentence and advice."""

from __future__ import annotations

import warnings

import torch

from cudalens.graphs import GraphManager, Reason
from cudalens.graphs.undo import MOST_SAVED_BYTES
from graph_scenarios.stage import counts, is_captured, reason_row, reasons, same, scenario, values


def assert_reason(m: GraphManager, reason: str, source: str, *words: str) -> None:
    """That a reason came, with these words, and from the line that holds `source`."""
    row = reason_row(m, reason)
    assert source in (row["source"] or ""), f"{row['place']}: {row['source']}"
    assert "places.py:" in row["place"]
    assert row["advice"] == Reason[reason].advice
    assert row["kind"] == Reason[reason].kind
    missing = [word for word in words if word not in row["detail"]]
    assert not missing, row["detail"]


def runs_eager(m: GraphManager, function, *make, calls: int = 4) -> None:
    """That calls give what the function gives, without a recording."""
    step = m.wrap(function)
    for _ in range(calls):
        same(step(*(f() for f in make)), function(*(f() for f in make)))
    assert counts(step)[1:3] == (0, 0)


def large_memory() -> torch.Tensor:
    """Memory outside that a recording does not save: it is not split behind a write to it."""
    return torch.zeros(MOST_SAVED_BYTES // 4 + 1, device="cuda")


@scenario
def a_host_tensor_that_the_host_computes_with(m: GraphManager) -> None:
    runs_eager(m, lambda x, y: x + (y * 2).cuda(), values, lambda: torch.ones(6))
    assert_reason(m, "CPU_INPUT", "lambda x, y: x + (y * 2).cuda()", "'y'")


@scenario
def a_host_scalar(m: GraphManager) -> None:
    runs_eager(m, lambda x, y: x * y, values, lambda: torch.tensor(2.0))
    assert_reason(m, "CPU_SCALAR", "lambda x, y: x * y", "'y'")


@scenario
def a_large_host_tensor_from_outside(m: GraphManager) -> None:
    table = torch.ones(2000)
    step = m.wrap(lambda x: x * table[3])
    for n in range(4):
        table.fill_(n)
        same(step(values()), values() * n)
    assert_reason(m, "CPU_SCALAR", "x * table[3]", "select")


@scenario
def a_number_that_is_read(m: GraphManager) -> None:
    latest = large_memory()

    def function(x):
        y = x * 2
        latest[:6] = y  # before the read: otherwise it is split there
        if y.sum().item() > 5:
            y = y + 1
        return y

    runs_eager(m, function, values)
    assert_reason(m, "SYNCHRONISES", "if y.sum().item() > 5:")


@scenario
def a_truth_test_and_a_mask(m: GraphManager) -> None:
    latest = large_memory()

    def masked(x):
        latest[:6] = x
        return x[x > 2]

    def tested(x):
        latest[:6] = x
        return x + 1 if (x > 0).all() else x

    def sized(x):
        latest[:6] = x
        return torch.nonzero(x > 1)

    runs_eager(m, masked, values)
    runs_eager(m, tested, values)
    runs_eager(m, sized, values)
    assert reasons(m)["SYNCHRONISES"] >= 3
    rows = m.frame()
    sources = " ".join(rows[rows["reason"] == "SYNCHRONISES"]["source"].dropna())
    assert "x[x > 2]" in sources
    assert "if (x > 0).all()" in sources
    assert "torch.nonzero(x > 1)" in sources


@scenario
def a_copy_to_the_host(m: GraphManager) -> None:
    def function(x):
        host = (x * 2).expand(2000, 6).cpu()
        return x + host[7].cuda()

    runs_eager(m, function, values)
    assert_reason(m, "SYNCHRONISES", "host = (x * 2).expand(2000, 6).cpu()", "device to host")


@scenario
def a_copy_from_pageable_memory(m: GraphManager) -> None:
    table = torch.ones(2000, 6)

    def function(x):
        return x + table.to("cuda", non_blocking=True)

    runs_eager(m, function, values)
    assert_reason(m, "PAGEABLE_COPY", "table.to", "host to device")


@scenario
def a_result_on_the_host(m: GraphManager) -> None:
    pinned = torch.empty(6, pin_memory=True)

    def function(x):
        pinned.copy_(x * 2, non_blocking=True)
        return x + 1, pinned

    step = m.wrap(function)
    for _ in range(4):
        out, host = step(values())
        torch.cuda.synchronize()
        same((out, host), (values() + 1, values() * 2))
    assert counts(step)[1:3] == (0, 0)
    assert reasons(m)["CPU_OUTPUT"] >= 1


@scenario
def a_stream_that_is_not_joined(m: GraphManager) -> None:
    side = torch.cuda.Stream()

    def function(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        return y, x + 1

    step = m.wrap(function)
    for _ in range(4):
        found = step(values())
        torch.cuda.synchronize()
        same(found, (values() * 2, values() + 1))
        del found
    assert counts(step)[1:3] == (0, 0)
    row = reason_row(m, "UNJOINED_STREAM")
    assert "wait_stream" in row["advice"]


@scenario
def another_function_is_recorded_after_a_stream_that_is_not_joined(m: GraphManager) -> None:
    side = torch.cuda.Stream()

    def unjoined(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return x * 2

    fails, works = m.wrap(unjoined), m.wrap(lambda x: x * 3)
    for n in range(6):
        fails(values())
        torch.cuda.synchronize()
        same(works(values() + n), (values() + n) * 3)
    assert counts(fails)[1:3] == (0, 0)
    assert counts(works)[2] > 0


@scenario
def a_synchronisation_by_hand(m: GraphManager) -> None:
    def function(x):
        y = x * 2
        torch.cuda.synchronize()
        return y

    runs_eager_after_a_try(m, function)
    assert set(reasons(m)) <= {"SYNCHRONISES", "CAPTURE_FAILED"}


def runs_eager_after_a_try(m: GraphManager, function) -> None:
    step = m.wrap(function)
    for _ in range(4):
        same(step(values()), function(values()))
    assert counts(step)[1:3] == (0, 0)
    assert counts(step)[3] >= 2
    assert reasons(m)


@scenario
def tensors_whose_elements_share_memory(m: GraphManager) -> None:
    runs_eager(m, lambda x: x * 2, lambda: values().as_strided((3, 3), (1, 1)))
    assert_reason(m, "ODD_TENSOR", "lambda x: x * 2", "elements share memory")


@scenario
def subclasses_of_tensors(m: GraphManager) -> None:
    class Tagged(torch.Tensor):
        pass

    step = m.wrap(lambda x: x * 2)
    for _ in range(3):
        out = step(values().as_subclass(Tagged))
        assert isinstance(out, Tagged)
    assert_reason(m, "ODD_TENSOR", "lambda x: x * 2", "Tagged")


@scenario
def nothing_on_a_device(m: GraphManager) -> None:
    step = m.wrap(lambda: 3)
    for _ in range(3):
        assert step() == 3
    assert_reason(m, "NO_DEVICE_WORK", "lambda: 3")


@scenario
def a_kept_tensor(m: GraphManager) -> None:
    class Model:
        def __call__(self, x):
            self.last = self.latest = x * 3
            return self.last + 1

    model = Model()
    step = m.wrap(model)
    for n in range(5):
        same(step(values() + n), (values() + n) * 3 + 1)
        same(model.last, (values() + n) * 3)
    row = reason_row(m, "ESCAPED_TENSOR")
    assert "self.last = self.latest = x * 3" in row["source"]


@scenario
def a_capture_that_fails_for_the_user_s_reasons(m: GraphManager) -> None:
    def function(x):
        y = x + 1
        if is_captured():
            raise ValueError("not in a capture, please")
        return y

    step = m.wrap(function)
    for _ in range(4):
        same(step(values()), values() + 1)
    assert_reason(m, "CAPTURE_FAILED", "", "ValueError: not in a capture, please")


@scenario
def a_capture_that_fails_while_another_exception_is_handled(m: GraphManager) -> None:
    def function(x):
        if is_captured():
            raise ValueError("not in a capture, please")
        return x + 1

    step = m.wrap(function)
    for _ in range(4):
        try:
            raise KeyError("of the caller")
        except KeyError as error:
            result, traceback = step(values()), error.__traceback__
        same(result, values() + 1)
        assert traceback is not None
    assert_reason(m, "CAPTURE_FAILED", "", "ValueError: not in a capture, please")


@scenario
def moved_and_managed(m: GraphManager) -> None:
    a, b, c = m.wrap(lambda x: x + 1), m.wrap(lambda x: (x * 2, x * 3)), m.wrap(lambda p: p.sum() + 1)
    for n in range(8):
        p, (q, _) = a(values() + n), b(values() + n)
        given = q if n in (5, 6, 7) else p
        same(c(given), given.sum() + 1)
        del p, q, given, _
    assert reasons(m) == {"MANAGED_MOVED": 1}
    assert_reason(m, "MANAGED_MOVED", "lambda p: p.sum() + 1", "'p'")


@scenario
def the_reason_names_the_caller_s_line_in_nested_functions(m: GraphManager) -> None:
    latest = large_memory()

    def helper(y):
        return float(y.sum())  # the wait

    runs_eager(m, lambda x: x * helper(latest[:6].copy_(x)), values)
    assert_reason(m, "SYNCHRONISES", "return float(y.sum())  # the wait")


@scenario
def the_first_row_of_a_skipped_function_gives_the_reason(m: GraphManager) -> None:
    latest = large_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs_eager(m, lambda x: x[latest[:6].copy_(x) > 1], values)
    frame = m.frame()
    (row,) = frame[frame["kind"] == "function"].to_dict("records")
    assert row["state"] == "eager"
    assert row["reason"] == "SYNCHRONISES"
    assert row["count"] == 4


@scenario
def every_reason_has_words(m: GraphManager) -> None:
    for reason in Reason:
        assert reason.kind in ("skip", "rerecord", "warning")
        assert reason.advice
        assert "{" not in reason.sentence()
        assert "{" not in reason.sentence("this")
