"""Fixes of planted programs: written, run, faster, with results as claimed; the state is as before."""

from __future__ import annotations

import os
import random
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[2] / "planted"))

from fix_programs import CELLS
from fix_scores import run

import cudalens
from cudalens.analysis import Finding
from cudalens.device import call_tracing
from cudalens.fixes.rewrites import fixes_for
from cudalens.fixes.rewrites.fix import program_of
from cudalens.fixes.trying.attempt import Attempt
from cudalens.fixes.trying.choosing import Trying, why_not
from cudalens.fixes.trying.running import Trial
from cudalens.fixes.trying.state import State
from cudalens.fixes.values import compare_values

FAST = ["masked_sum", "constant_in_loop", "zeros_for_gradients", "no_prefetch"]


@pytest.mark.parametrize("name", FAST)
def test_the_fix_gives_the_true_gain(name):
    score = run(CELLS[name])
    assert score.is_right, score.attempt


def finding(rule, place=None):
    return Finding(rule, rule, "", None, 50.0, (), place, "", "high", alone_pct=50.0)


def tried(code, rule, names, **options):
    return Trying("cell", code, names, **options).attempt(finding(rule))


@pytest.fixture
def gpu():
    with cudalens.virtual.device("h100"):
        yield


LOOP = """
total = 0.0
for step in range(6):
    torch.cuda._sleep(100_000)
    total += (x * step).mean().item()
"""


def test_the_state_is_restored(gpu):
    net = torch.nn.Linear(8, 8).cuda()
    opt = torch.optim.Adam(net.parameters(), 0.1)
    kept, counts, generator = [], {"steps": 0}, random.Random(3)
    x = torch.randn(4, 8, device="cuda")

    class Counter:
        count = 0

    counter = Counter()
    names = {"torch": torch, "net": net, "opt": opt, "kept": kept, "counts": counts, "generator": generator, "x": x,
             "counter": counter, "random": random}  # fmt: skip
    code = """
for step in range(12):
    opt.zero_grad(set_to_none=False)
    loss = net(x + torch.rand(1, device="cuda") + random.random()).square().mean()
    loss.backward()
    opt.step()
    kept.append(loss.item())
    counts["steps"] += 1
    counter.count += 1
    generator.random()
    x.mul_(0.5)
"""
    before = [one.clone() for one in net.parameters()], x.clone(), generator.getstate(), random.getstate()
    seeds = torch.get_rng_state(), torch.cuda.get_rng_state()
    found = tried(code, "host_sync", names)
    assert found.difference.is_exact
    assert found.is_faster
    assert all(torch.equal(a, b) for a, b in zip(before[0], net.parameters(), strict=True))
    assert all(one.grad is None for one in net.parameters())
    assert (torch.equal(x, before[1]), kept, counts, counter.count) == (True, [], {"steps": 0}, 0)
    assert not opt.state
    assert "loss" not in names
    assert (generator.getstate(), random.getstate()) == before[2:]
    assert torch.equal(seeds[0], torch.get_rng_state())
    assert torch.equal(seeds[1], torch.cuda.get_rng_state())


def test_the_answer_is_one_line(gpu):
    found = tried(LOOP, "host_sync", {"torch": torch, "x": torch.ones(64, device="cuda")})
    assert "-> " in found.headline()
    assert " a run (modelled) (" in found.headline()
    assert "% less, 3 runs each), results equal bit for bit, peak memory +" in found.headline()
    assert "+    _total_values.append(" in found.diff
    assert "Predicted: up to 50 % less." in found.notes()
    assert "<b>" in found._repr_html_()


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: iter([1.0]), "source"),
        (lambda: open(__file__), "source"),  # noqa: SIM115
        (lambda: [{"a": (n for n in range(3))}], "source[0]['a']"),
    ],
)
def test_what_cannot_be_copied_is_refused_by_name(gpu, make, where):
    names = {"torch": torch, "x": torch.ones(4, device="cuda"), "source": make()}
    found = tried(LOOP + "len(str(source))\n", "host_sync", names)
    assert f": {where} is " in found.refusal
    assert found.headline().startswith("not tried: ")
    assert found.diff  # it can be read


def test_effects_need_consent(gpu, tmp_path):
    names = {"torch": torch, "x": torch.ones(4, device="cuda"), "path": tmp_path / "log"}
    code = LOOP + "path.write_text(str(total))\nprint(total)\n"
    found = tried(code, "host_sync", names)
    assert "each run writes files: path.write_text (line 6 of cell)" in found.refusal
    assert not (tmp_path / "log").exists()
    assert tried(code, "host_sync", names, consent=True).helps
    assert (tmp_path / "log").exists()


def test_prints_are_discarded(gpu, capsys):
    found = tried(LOOP + "print(total)", "host_sync", {"torch": torch, "x": torch.ones(4, device="cuda")})
    assert found.helps
    assert capsys.readouterr() == ("", "")


def test_a_wrong_fix_is_refused(gpu, monkeypatch):
    from cudalens.fixes import rewrites
    from cudalens.fixes.rewrites.fix import Fix

    def wrong(program, finding):
        call = next(iter(program.cell.source.nodes(torch_constant)))
        yield Fix("host_sync", "wrong", ((program.cell, (program.cell.source.replace(call, "7"),)),))

    import ast

    torch_constant = ast.Constant
    monkeypatch.setitem(rewrites.REWRITES, "host_sync", (wrong,))
    found = tried("y = x + 1", "host_sync", {"torch": torch, "x": torch.ones(4, device="cuda")})
    assert found.headline().startswith("refused: results differ by at most")
    assert "claims that they are equal" in found.refusal
    assert not found.helps


def test_a_cell_that_cannot_run_twice_says_so(gpu):
    names = {"torch": torch, "x": torch.ones(4, device="cuda", requires_grad=True)}
    names["graph"] = (names["x"] * 2).exp().sum()
    names["graph"].backward(retain_graph=False)
    found = tried(LOOP + "graph.backward()", "host_sync", names)
    assert "the cell raised RuntimeError when it ran again" in found.refusal


def test_lines_that_run_once_are_not_timed_with_the_cell(gpu):
    names = {"torch": torch, "hosts": [torch.ones(1 << 16) for _ in range(4)]}
    found = tried("for host in hosts:\n    x = host.to('cuda')", "pageable_copies", names)
    assert found.setup_ns > 0
    assert found.notes()[0].startswith("The first lines run once, in ")
    assert "they pay off after " in found.notes()[0]
    assert not names["hosts"][0].is_pinned()


def test_pinned_memory_of_an_earlier_try_costs_as_much_again(gpu):
    names = {"torch": torch, "hosts": [torch.ones(1 << 16) for _ in range(4)]}
    trying = Trying("cell", "for host in hosts:\n    x = host.to('cuda')", names)
    first, second = trying.attempt(finding("pageable_copies")), trying.attempt(finding("host_sync"))
    assert first.title == second.title
    assert second.setup_ns == first.setup_ns
    assert trying.all([finding("pageable_copies"), finding("host_sync")]).kept == (False, False)


def test_both_fixes_of_a_finding_are_kept(gpu):
    import linecache
    import math

    source = """def block(x):
    x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()"""
    names = {"torch": torch, "math": math, "x": torch.randn(64, 256, device="cuda")}
    linecache.cache["<block>"] = (len(source), None, source.splitlines(keepends=True), "<block>")
    exec(compile(source, "<block>", "exec"), names)
    tries = Trying("cell", "for _ in range(4):\n    y = block(x)", names).all([finding("unfused_pointwise")])
    assert tries.kept == (True, True)
    assert {one.title for one in tries.attempts} == {"use the fused gelu", "use the fused layer norm"}
    assert "gelu(x" in tries.together.diff
    assert "layer_norm(x" in tries.together.diff


@pytest.mark.parametrize("first", [0, 1])
def test_attention_with_masked_scores(gpu, first):
    causal = torch.ones(128, 128, device="cuda").tril(-first)  # with 1, the first query has no key: NaN
    names = {"torch": torch, "q": torch.randn(2, 4, 128, 64, device="cuda"), "causal": causal}
    code = """
for _ in range(3):
    scores = q @ q.transpose(-2, -1) / 8.0
    scores = scores.masked_fill(causal[:128, :128] == 0, float("-inf"))
    out = scores.softmax(-1) @ q
"""
    found = tried(code, "eager_attention", names)
    assert found.helps == (first == 0)
    assert bool(found.refusal) == (first == 1)


def test_other_random_numbers_are_not_rounding(gpu):
    names = {"torch": torch, "total": torch.zeros(64, device="cuda")}
    code = "for _ in range(4):\n    total = total + torch.randn(64).to('cuda')"
    tries = Trying("cell", code, names).all([finding("small_copies")])
    assert tries.kept == (False,)
    assert "results not compared (random numbers are others)" in tries.attempts[0].headline()
    assert tries.rows()[0][3] == "not taken: the GPU's random generator gives other numbers than the CPU's."


def test_tf32_is_not_said_to_differ_where_results_are_not_compared(gpu):
    names = {"torch": torch, "x": torch.randn(1024, 1024, device="cuda")}
    tries = Trying("cell", "for _ in range(4):\n    y = x @ x", names, tolerance=1e-2).all([finding("fp32_math")])
    assert tries.kept == (False,)
    assert tries.rows()[0][3] == "not taken: results not compared (a virtual device computes in full precision)"


def test_no_fix_is_written_for_other_code(gpu):
    found = tried("y = x + 1", "host_sync", {"torch": torch, "x": torch.ones(4, device="cuda")})
    assert found.headline() == "not tried: no fix for host_sync is written for the code of cell."


def test_try_all_keeps_what_helps(gpu):
    x = torch.randn(256, 256, device="cuda")
    names = {"torch": torch, "x": x}
    code = LOOP + "    y = torch.empty(1 << 24, device='cuda')  # product\n    del y\n    torch.cuda.empty_cache()"
    rules = ("host_sync", "driver_memory", "fp32_math", "zero_grad")
    tries = Trying("cell", code, names).all([finding(rule) for rule in rules])
    assert tries.kept == (True, True, False, False)
    assert "2 of 4 kept: " in tries.headline()
    assert "# product" in tries.together.diff
    assert "-    torch.cuda.empty_cache()" in tries.together.diff
    assert [row[0] for row in tries.rows()] == [*rules, "together"]
    assert tries.rows()[2][3] == "not faster"
    assert "no fix for zero_grad is written" in tries.rows()[3][3]
    assert "<table" in tries._repr_html_()


def test_what_a_run_does_to_lists_objects_and_closures_is_compared(gpu):
    class Meter:
        def __init__(self):
            self.count, self.values = 0, []

    names = {"torch": torch, "x": torch.ones(4, device="cuda"), "meter": Meter(), "seen": [], "table": {}}
    code = "for n in range(3):\n    {}\ny = x + 1; len(seen)"
    for line, wrong, what in (
        ("seen.append(n)", "pass", "the length of seen is missing"),
        ("pass", "seen.append(n)", "the length of seen changes"),
        ("table['n'] = n", "table['n'] = n + 1", "most in table['n']"),
        ("meter.count += 1", "pass", "meter.count is missing"),
        ("meter.values.append(n)", "meter.values.append(n * 2)", "most in meter.values["),
        ("torch.rand(1, device='cuda')", "pass", "the random generator of torch"),
    ):
        trial = Trial(program_of("cell", code.format(line), names), names)
        other = replace(trial._program, cell=program_of("cell", code.format(wrong), names).cell)
        found = trial.compare(trial._program, other, Attempt("rule", "other code"))
        assert what in found.refusal, found.refusal
        assert not seen_or_changed(names)


def seen_or_changed(names):
    return bool(names["seen"] or names["table"] or names["meter"].count or names["meter"].values)


def test_costs_that_come_once_are_weighed(gpu):
    names = {"torch": torch, "x": torch.randn(1 << 16, device="cuda")}
    sources = "def mix(x):\n    y = x * 2 + 1\n    return (y.sigmoid() * x).sqrt()"
    import linecache

    linecache.cache["<mix>"] = (len(sources), None, sources.splitlines(keepends=True), "<mix>")
    exec(compile(sources, "<mix>", "exec"), names)
    code = "for _ in range(4):\n    y = mix(x)"
    once = Trying("cell", code, names).all([finding("unfused_pointwise")])
    assert once.kept == (False,)
    assert "not taken: the first lines run once, in " in once.rows()[0][3]
    assert "they pay off after " in once.rows()[0][3]
    often = Trying("cell", code, names, repeats=10**9).all([finding("unfused_pointwise")])
    assert often.kept == (True,)
    assert "The first lines run once, in " in str(often).split("\n")[1]


def test_a_rank_does_not_run_again_alone(gpu, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    found = tried(LOOP, "host_sync", {"torch": torch, "x": torch.ones(4, device="cuda")})
    assert "the program is one of several ranks" in found.refusal


def test_try_fix_of_a_profiled_function(gpu):
    x = torch.ones(64, device="cuda")

    def step():
        total = 0.0
        for number in range(6):
            torch.cuda._sleep(100_000)
            total += (x * number).mean().item()
        return total

    with cudalens.profile(keep=False) as run:
        step()
    found = cudalens.try_fix(run.trace, "host_sync", code=step)
    assert found.helps
    assert cudalens.history.attempts()["rule"].iloc[-1] == "host_sync"
    with pytest.raises(cudalens.FixError, match="has no finding 99; there are: 1"):
        cudalens.try_fix(run.trace, 99, code=step)
    with pytest.raises(cudalens.FixError, match="has no code that can run again"):
        cudalens.try_fix(run.trace, "host_sync")
    with pytest.raises(cudalens.FixError, match="runs=1: expected"):
        cudalens.try_fix(run.trace, "host_sync", code=step, runs=1)


def test_results_that_cannot_be_read_refuse_the_fix(gpu):
    """A graph's output is overwritten by the next replay: a cell that keeps all of them cannot be replayed."""
    net = torch.nn.Linear(8, 8).cuda()

    def step(x):
        with torch.no_grad():
            return net(x).relu()

    calls = [torch.randn(4, 8, device="cuda") for _ in range(6)]
    names = {"step": step, "calls": calls}
    code = "kept = []\nfor x in calls:\n    kept.append(step(x))"
    exec(code, names)
    before = [one.detach().clone() for one in names["kept"]]
    program = program_of("cell", code, names)
    fix = next(one for one in fixes_for(program, "graphable") if "CUDA graph" in one.title)
    refusal = Trial(program, names).attempt(program, fix).refusal
    assert "a result of the fixed cell cannot be read" in refusal
    assert "a later step has overwritten it" in refusal
    assert all(map(torch.equal, names["kept"], before))


def test_what_a_kept_fix_compiles_is_not_wrapped_again(gpu):
    def step(x):
        return (x.sin() + 1).cos()

    program = program_of("cell", "for x in calls:\n    step(x)", {"step": step, "calls": []})
    fix = next(one for one in fixes_for(program, "unfused_pointwise") if one.title == "compile step")
    assert fixes_for(program.with_fix(fix), "launch_bound") == []


def test_tensors_without_values_are_equal_to_each_other_only(gpu):
    """Weights that were moved off the GPU are on the device meta between two calls."""
    x, weight = torch.ones(64, 64, device="cuda"), torch.nn.Parameter(torch.ones(4, 4, device="meta"))
    code = LOOP + "weight = torch.nn.Parameter(weight + 1)\n"
    found = tried(code, "host_sync", {"torch": torch, "x": x, "weight": weight})
    assert found.helps, found
    assert found.difference.is_exact
    values = {"w": torch.ones(2)}
    assert compare_values(values, {"w": torch.ones(2, device="meta")}).mismatch == (
        "w is on the device meta instead of cpu"
    )


def test_global_variables_of_cudalens_are_no_state_of_the_program(monkeypatch):
    state = State({"stop": call_tracing.stop}, ["stop"])
    recording = object()
    monkeypatch.setattr(call_tracing, "_last", recording)
    state.restore()
    assert call_tracing._last is recording


REFILLED = """
kept = []
for step in range(4):
    host.fill_(step)
    on_gpu.copy_(host, non_blocking=True)
    kept.append((on_gpu @ on_gpu).mean().item())
"""
REFILLED_BY_CALL = """
for step in range(4):
    refill(step)
    total = (on_gpu @ on_gpu).mean()
    total.item()
"""
REFILL = """
def refill(step):
    host.fill_(step)
    upload(on_gpu, host)
"""


@pytest.mark.parametrize("code", [REFILLED, REFILLED_BY_CALL])
def test_a_fix_that_makes_a_race_is_refused(gpu, code):
    host, on_gpu = torch.ones(64, 64).pin_memory(), torch.ones(64, 64, device="cuda")
    names = {"torch": torch, "host": host, "on_gpu": on_gpu, "upload": _upload, "total": on_gpu.mean()}
    exec(REFILL, names)
    attempt = tried(code, "host_sync", names)
    assert "race" in attempt.refusal, attempt
    assert "aten::fill_" in attempt.refusal
    assert "kept" not in names


OPTIONS = {"non_blocking": True}


def _upload(target, source):
    copy = target.copy_
    copy(source, **OPTIONS)


@pytest.mark.parametrize("write", ["view[1:] = step", "host.numpy()[:] = step"])
def test_a_fix_that_removes_a_wait_beside_numpy_is_refused(gpu, write):
    host, on_gpu = torch.ones(64, 64).pin_memory(), torch.ones(64, 64, device="cuda")
    names = {"torch": torch, "host": host, "view": host.numpy()[:], "on_gpu": on_gpu}
    code = REFILLED.replace("host.fill_(step)", write)
    assert write in code
    attempt = tried(code, "host_sync", names)
    assert "pinned memory is shared with NumPy" in attempt.refusal, attempt
    if "view" in write:
        names["view"] = np.from_dlpack(host)
    else:
        del names["view"]
    attempt = tried(code, "host_sync", names)
    assert "pinned memory is shared with NumPy" in attempt.refusal, attempt


def test_fixes_that_remove_no_wait_are_kept_beside_numpy(gpu):
    host, net = torch.ones(8, 8).pin_memory(), torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(8)]).cuda()
    opt = torch.optim.Adam(net.parameters(), foreach=False)
    names = {"torch": torch, "host": host, "view": host.numpy(), "net": net, "opt": opt}
    code = """
losses = []
for step in range(4):
    view[:] = step
    opt.zero_grad(set_to_none=False)
    loss = net(host.to("cuda", non_blocking=True)).square().mean()
    loss.backward()
    opt.step()
    losses.append(loss.item())
"""
    tries = Trying("cell", code, names).all([finding("host_sync"), finding("optimizer_loop"), finding("zero_grad")])
    assert tries.together is not None
    assert tries.together.helps
    assert "set_to_none=True" in tries.together.fixed_text
    assert "losses.append(loss.item())" in tries.together.fixed_text


def test_a_fix_that_removes_a_wait_beside_an_array_of_its_own_memory_is_tried(gpu):
    names = {"torch": torch, "array": torch.ones(8).numpy(), "on_gpu": torch.ones(64, 64, device="cuda")}
    attempt = tried(LOOP.replace("x * step", "on_gpu * step + float(array[0])"), "host_sync", names)
    assert attempt.helps, attempt


def test_a_fix_of_a_cell_with_a_race_is_tried(gpu):
    host, on_gpu = torch.ones(64, 64).pin_memory(), torch.ones(64, 64, device="cuda")
    names = {"torch": torch, "host": host, "on_gpu": on_gpu}
    race = "on_gpu.copy_(host, non_blocking=True)\nhost.fill_(2)\n"
    attempt = tried(race + LOOP.replace("x * step", "on_gpu * step"), "host_sync", names)
    assert attempt.helps, attempt


def test_weak_mappings_the_environment_and_settings_of_attention_are_restored(gpu):
    key = torch.nn.Identity()
    uses = weakref.WeakKeyDictionary({key: 1})
    names = {"torch": torch, "x": torch.ones(64, device="cuda"), "uses": uses, "key": key, "os": os}
    code = """
uses[key] += 1
os.environ["CUDALENS_TRY"] = "set"
torch.backends.cuda.enable_flash_sdp(False)
torch.autograd.set_detect_anomaly(True)
"""
    assert tried(code + LOOP, "host_sync", names).helps
    assert dict(uses) == {key: 1}
    assert "CUDALENS_TRY" not in os.environ
    assert torch.backends.cuda.flash_sdp_enabled()
    assert not torch.is_anomaly_enabled()


def test_constants_of_torch_are_not_an_obstacle(gpu):
    kinds = [torch.per_tensor_affine, torch.strided, torch.channels_last, torch.float32, torch.device("cuda")]
    names = {"torch": torch, "x": torch.ones(64, device="cuda"), "kinds": kinds}
    found = tried(LOOP + "kinds[0]", "host_sync", names)
    assert not found.refusal


def test_a_gain_that_not_all_runs_show_is_not_called_slower():
    found = Attempt("graphable", "a graph", before_ns=(100, 100, 100), after_ns=(40, 160, 50))
    assert why_not(found) == "not faster in all runs"
    assert why_not(replace(found, after_ns=(99, 101, 100))) == "not faster"
