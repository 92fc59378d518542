"""The lines that make the host wait, found on a real device."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import cudalens  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture
def x():
    x = torch.randn(2048, 2048, device="cuda")
    (x @ x).sum().item()  # libraries are set up
    (x[:2, :2] > 0).nonzero()
    torch.cuda.synchronize()
    return x


def profiled(program, **options):
    filters = list(warnings.filters)
    with cudalens.profile(syncs=True, keep=False, **options) as run:
        program()
    assert warnings.filters == filters
    assert torch.cuda.get_sync_debug_mode() == 0
    assert run.trace.info.problems == ()
    return run.trace


def test_a_read_of_a_number_waits_for_all_before_it(x):
    def program():
        y = x
        for _ in range(20):
            y = y @ x
        y.sum().item()

    trace = profiled(program)
    (row,) = trace.syncs.to_dict("records")
    assert (row["kind"], row["op"], row["expression"]) == ("item", "aten::item", "y.sum().item()")
    assert row["seen_by"] == "callback, warning, runtime"
    kernels = trace.events[trace.events["cat"] == "kernel"]
    assert row["gpu_dur"] > kernels["dur"].sum() / 2
    assert row["gpu_dur"] <= row["dur"]


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        ("item", lambda x: float(x[0, 0])),
        ("truth test", lambda x: bool((x > 0).any())),
        ("boolean index", lambda x: x[x > 0]),
        ("boolean index", lambda x: torch.masked_select(x, x > 0)),
        ("nonzero", lambda x: (x > 0).nonzero()),
        ("equality test", lambda x: torch.equal(x, x.clone())),
        ("unique", lambda x: torch.unique(x[0])),
        (".cpu()", lambda x: x.cpu()),
        (".tolist()", lambda x: x[0, :4].tolist()),
        ("pageable copy to device", lambda x: torch.ones(1000).cuda()),
        ("print", lambda x: repr(x[0, :2])),
        ("device synchronize", lambda x: torch.cuda.synchronize()),
        ("stream synchronize", lambda x: torch.cuda.current_stream().synchronize()),
        ("event synchronize", lambda x: torch.cuda.current_stream().record_event().synchronize()),
    ],
)
def test_each_kind_is_reported_with_its_line(x, kind, act):
    act(x)
    torch.cuda.synchronize()
    trace = profiled(lambda: act(x))
    of_kind = trace.syncs[trace.syncs["kind"] == kind]
    assert len(of_kind), trace.syncs[["kind", "op", "call", "expression"]].to_string()
    assert of_kind["place"].str.startswith(__file__).any()
    assert of_kind["seen_by"].str.contains("runtime").all()
    assert of_kind["dur"].notna().all()


def test_no_wait_is_two_rows_and_none_is_the_profilers(x):
    trace = profiled(lambda: [x.sum().item() for _ in range(50)])
    assert len(trace.syncs) == 50
    assert set(trace.syncs["seen_by"]) == {"callback, warning, runtime"}
    assert set(trace.syncs["kind"]) == {"item"}


def test_the_cache_that_is_emptied_is_reported_with_its_line():
    big = torch.empty(1 << 28, device="cuda")
    torch.cuda.synchronize()
    del big
    trace = profiled(lambda: torch.cuda.empty_cache())
    assert set(trace.syncs["kind"]) == {"empty_cache()"}
    assert set(trace.syncs["expression"]) == {"torch.cuda.empty_cache()"}


def test_waits_of_a_backward_pass_have_the_line_that_called_it(x):
    class Peek(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            gradient.sum().item()
            return gradient

    leaf = x.clone().requires_grad_()
    loss = Peek.apply(leaf).sum()
    trace = profiled(loss.backward)
    (row,) = trace.syncs.to_dict("records")
    assert row["expression"] == "gradient.sum().item()"


def test_a_page_locked_copy_that_does_not_block_is_no_wait(x):
    host = torch.ones(1000).pin_memory()
    assert profiled(lambda: host.to("cuda", non_blocking=True)).syncs.empty
