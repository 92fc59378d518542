"""The lines that make the host wait, found on a virtual device: by callbacks, warnings and runtime calls together."""

import threading
import warnings

import pytest
import torch

import cudalens
from cudalens.analysis import syncs
from cudalens.device.syncs import SyncCollector


@pytest.fixture(autouse=True)
def on_device():
    cudalens.virtual.device("h100").enable()
    yield
    cudalens.virtual.active().disable()
    assert not hasattr(warnings.filters, "let_go")


def found(program, **options):
    """The waits of a function, once it has run for the first time unprofiled."""
    with cudalens.profile(syncs=True, keep=False, **options) as run:
        program()
    return run.trace.syncs


def each_kind():
    x = torch.arange(6.0, device="cuda") - 2
    mask = x > 0
    x.sum().item()
    float(x[0])
    if mask.any():
        pass
    assert mask.any()
    x[mask]
    x[mask] = 0
    torch.masked_select(x, mask)
    x.nonzero()
    torch.unique(x)
    torch.equal(x, x)
    x.cpu()
    x.tolist()
    torch.ones(3).cuda()
    torch.ones(3).to("cuda", non_blocking=True)
    repr(x)
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    torch.cuda.current_stream().synchronize()
    torch.cuda.current_stream().record_event().synchronize()


EXPECTED = [
    ("item", "x.sum().item()"),
    ("item", "float(x[0])"),
    ("truth test", "if mask.any()"),
    ("truth test", "assert mask.any()"),
    ("boolean index", "x[mask]"),
    ("boolean index", "torch.masked_select(x, mask)"),
    ("nonzero", "x.nonzero()"),
    ("unique", "torch.unique(x)"),
    ("equality test", "torch.equal(x, x)"),
    (".cpu()", "x.cpu()"),
    (".tolist()", "x.tolist()"),
    ("pageable copy to device", "torch.ones(3).cuda()"),
    ("pageable copy to device", None),  # only the runtime call shows this one
    ("print", "repr(x)"),
    ("device synchronize", "torch.cuda.synchronize()"),
    ("stream synchronize", "torch.cuda.current_stream().synchronize()"),
    ("event synchronize", "torch.cuda.current_stream().record_event().synchronize()"),
]


def test_each_kind_with_its_expression():
    waits = found(each_kind)
    texts = waits["expression"].astype(object).where(waits["expression"].notna(), None)
    pairs = list(zip(waits["kind"], texts, strict=True))
    assert [pair for pair in dict.fromkeys(pairs) if pair[0] != "empty_cache()"] == list(dict.fromkeys(EXPECTED))
    # `x[mask] = 0` does not wait: torch runs it as `masked_fill_` (canDispatchToMaskedFill).
    assert pairs.count(("boolean index", "x[mask]")) == 1
    assert waits["dur"].notna().all()


@pytest.mark.parametrize("stacks", [False, True])
def test_a_module_that_is_moved_is_not_a_tensor_to_pin(stacks):
    model = torch.nn.Sequential(torch.nn.Linear(1000, 1000), torch.nn.BatchNorm1d(1000))

    def program():
        model.to("cuda")
        torch.ones(100_000).to("cuda")

    with cudalens.profile(syncs=True, stacks=stacks, keep=False) as run:
        program()
    assert run.trace.syncs["kind"].tolist() == ["module to device"] * 7 + ["pageable copy to device"]
    copies = next(one for one in cudalens.analysis.findings(run.trace, most=None) if one.rule == "pageable_copies")
    assert 'with torch.device("cuda"): model = ' in copies.advice


def test_every_wait_points_to_its_line():
    first = each_kind.__code__.co_firstlineno
    waits = found(each_kind)
    places = waits["place"].dropna()
    assert places.str.startswith(f"{__file__}:").all()
    assert int(places.iloc[0].rpartition(":")[2]) == first + 3
    assert waits["source"].iloc[0] == "x.sum().item()"


def test_what_was_seen_and_the_runtime_calls_are_one_row():
    waits = found(lambda: torch.ones(3, device="cuda").sum().item())
    assert waits["seen_by"].tolist() == ["callback, warning, runtime"]
    (row,) = waits.to_dict("records")
    assert row["call"] == "cudaMemcpyAsync + cudaStreamSynchronize"


def test_the_stack_leads_from_the_wait_to_the_program():
    def inner(x):
        return x.item()

    with cudalens.profile(syncs=True, keep=False) as run:
        inner(torch.ones((), device="cuda"))
    trace = run.trace
    of_stack = trace.stacks[trace.stacks["stack"] == trace.syncs["stack"].iloc[0]]
    functions = of_stack["function"].str.rpartition(".")[2].tolist()
    assert functions[:2] == ["inner", "test_the_stack_leads_from_the_wait_to_the_program"]


def test_without_being_asked_the_runtime_calls_are_enough():
    with cudalens.profile(keep=False) as run:
        torch.ones(3, device="cuda").sum().item()
    (row,) = run.trace.syncs.to_dict("records")
    assert (row["kind"], row["op"], row["seen_by"]) == ("item", "aten::item", "runtime")
    assert torch.cuda.get_sync_debug_mode() == 0


def test_the_end_of_the_profile_is_no_wait_of_the_programs():
    with cudalens.profile(keep=False) as run:
        x = torch.ones(2000, 2000, device="cuda")
        x @ x
    assert "cudaDeviceSynchronize" in set(run.trace.events["name"])
    assert run.trace.syncs.empty


def test_without_runtime_calls_the_lines_remain():
    waits = found(lambda: torch.ones(3, device="cuda").sum().item(), cpu_only=True)
    assert waits["expression"].str.endswith(".item()").tolist() == [True]
    assert waits["seen_by"].tolist() == ["callback, warning"]


def test_waits_of_threads_are_distinguished():
    def work():
        torch.ones(3, device="cuda").sum().item()

    def program():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()

    waits = found(program)
    assert waits["tid"].nunique() == 3
    assert set(waits["seen_by"]) == {"callback, warning, runtime"}


def test_a_loop_is_one_line_in_the_end():
    def program():
        x = torch.ones(3, device="cuda")
        for _ in range(20):
            float(x.sum())

    with cudalens.profile(syncs=True, keep=False) as run:
        program()
    groups = syncs(run.trace)
    assert groups[["expression", "count"]].to_numpy().tolist() == [["float(x.sum())", 20]]


def test_a_program_that_raises_leaves_nothing_behind():
    filters = list(warnings.filters)
    run = cudalens.profile(syncs=True, keep=False)

    @run
    def program():
        torch.ones(3, device="cuda").sum().item()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        program()
    assert warnings.filters == filters
    assert torch.cuda.get_sync_debug_mode() == 0
    assert len(run.trace.syncs) == 1


def test_a_run_of_two_devices_one_after_the_other_is_on_one_clock():
    with cudalens.profile(syncs=True, keep=False) as run:
        torch.ones(3, device="cuda").sum().item()
        cudalens.virtual.active().disable()
        cudalens.virtual.device("t4").enable()
        torch.ones(3, device="cuda").sum().item()
    assert run.trace.syncs["seen_by"].str.contains("callback").tolist() == [True, True]
    assert run.trace.syncs["dur"].notna().tolist() == [True, True]


def test_a_collector_that_is_not_wanted_does_nothing():
    collector = SyncCollector(is_wanted=False)
    before = list(warnings.filters)
    collector.start()
    assert warnings.filters == before
    collector.stop()
    assert collector.frames() == {}


@pytest.mark.parametrize("is_wanted", [True, False])
def test_waits_of_a_graph_manager_are_not_the_programs(is_wanted):
    """Warm-up, recording and check wait for the device; the `.item()` of the program's own function remains."""
    manager = cudalens.graphs.GraphManager(0, check=True)
    graphed = manager.wrap(lambda x: (x @ x).relu())
    waiting = manager.wrap(lambda x: x * x.sum().item())
    with cudalens.profile(syncs=is_wanted, keep=False) as run:
        x = torch.ones(16, 16, device="cuda")
        for _ in range(4):
            graphed(x)
        waiting(x)
    manager.shutdown()
    assert graphed._function.counts.replays == 2
    assert run.trace.syncs["kind"].tolist() == ["item"]
