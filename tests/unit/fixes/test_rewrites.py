"""Rewriting keeps comments, magics and the layout of everything else."""

from __future__ import annotations

import ast
import linecache
import math

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.functional import softmax as soft

from cudalens.errors import FixError
from cudalens.fixes.names import names_of
from cudalens.fixes.rewrites import fixes_for
from cudalens.fixes.rewrites.fix import program_of
from cudalens.fixes.source import Source

NAMES = {
    "torch": torch,
    "F": F,
    "th": torch,
    "soft": soft,
    "math": math,
    "x": torch.ones(8, 8),
    "q": torch.ones(1, 2, 4, 8),
}


def fixed(rule, code, number=0):
    program = program_of("cell", code.strip("\n"), NAMES)
    found = fixes_for(program, rule)
    return program.with_fix(found[number]).cell_text() if found else None


def test_comments_magics_and_layout_stay():
    assert fixed("zero_grad", """
%matplotlib inline
files = !ls
# train
for _ in range( 3 ):   # three
    opt.zero_grad(  # not yet
        set_to_none = False,
    )
    loss   =  step( x )
%time step(x)
""") == """%matplotlib inline
files = !ls
# train
for _ in range( 3 ):   # three
    opt.zero_grad(  # not yet
        set_to_none = True,
    )
    loss   =  step( x )
%time step(x)"""  # fmt: skip


def test_comments_within_a_statement_of_several_lines_stay():
    code = """
for n in range(3):
    kept.append(  # the mean
        (x * n)
        .mean()  # of all
        .item()
    )
"""
    assert fixed("host_sync", code) == """_kept_values = []
for n in range(3):
    _kept_values.append(  # the mean
        (x * n)
        .mean()  # of all
        .detach()
    )
kept.extend(torch.stack(_kept_values).tolist() if _kept_values else [])"""  # fmt: skip


MASKS = {
    "tril[:T, :T] == 0": "tril[:T, :T] != 0",
    "~kept": "kept",
    "mask": "~mask",
    "mask | late": "~(mask | late)",
}


@pytest.mark.parametrize("mask", MASKS)
def test_scores_that_are_filled_with_infinity(mask):
    code = f"""
for _ in range(3):
    wei = q @ q.transpose(-2, -1) * q.shape[-1]**-0.5  # scores
    wei = wei.masked_fill({mask}, float('-inf'))
    wei = F.softmax(wei, dim=-1)
    out = wei @ q
"""
    assert (
        fixed("eager_attention", code)
        == f"""for _ in range(3):
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask={MASKS[mask]}, scale=q.shape[-1]**-0.5)"""
    )


@pytest.mark.parametrize("line", ["-1e9", "0.0", "float('-inf')).masked_fill(mask, float('-inf')"])
def test_scores_that_are_filled_otherwise_stay(line):
    code = f"for _ in range(3):\n    out = F.softmax((q @ q.mT).masked_fill(mask, {line}), dim=-1) @ q"
    assert fixed("eager_attention", code) is None


def test_functions_with_lines_of_white_space():
    source = "def step(x):\n    opt.zero_grad(set_to_none=False)\n    \n    return x\n"
    linecache.cache["<white>"] = (len(source), None, source.splitlines(keepends=True), "<white>")
    names = {"opt": None}
    exec(compile(source, "<white>", "exec"), names)
    program = program_of("cell", "step(1)", names)
    (fix,) = fixes_for(program, "zero_grad")
    assert "+    opt.zero_grad(set_to_none=True)" in program.with_fix(fix).diff(program)


def test_only_the_lines_of_the_fix_change_in_a_file(tmp_path, monkeypatch):
    source = (
        "class Trainer:\n    def step(self, x):\n        self.opt.zero_grad(set_to_none=False)\n  \n        \n"
        "            \n        # done  \n        return x\n  \n    def other(self):\n        pass\n"
    )
    (tmp_path / "trainer_of_test.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import trainer_of_test

    program = program_of("cell", "trainer.step(1)", {"trainer": trainer_of_test.Trainer()})
    fixed_program = program.with_fix(fixes_for(program, "zero_grad")[0])
    (change,) = fixed_program.file_changes(program)
    change.write()
    assert (tmp_path / "trainer_of_test.py").read_text() == source.replace("=False", "=True")


RANDOM = """def draw(x):
    return torch.distributions.Normal(x, 1.0).rsample()

def double(x):
    return x * 2

def run(function, x):
    return function(x)
"""


@pytest.mark.parametrize(
    ("call", "is_run"),
    [
        *[("draw(x)", False), ("double(x)", True), ("run(draw, x)", False), ("run(double, x)", True)],
        *[("run(norm, x)", False), ("run(linear, x)", True)],
    ],
)
def test_what_changes_state_is_not_run_to_warm_up(call, is_run):
    linecache.cache["<draw>"] = (len(RANDOM), None, RANDOM.splitlines(keepends=True), "<draw>")
    names = {"torch": torch, "x": torch.ones(4), "norm": torch.nn.BatchNorm1d(4), "linear": torch.nn.Linear(4, 4)}
    exec(compile(RANDOM, "<draw>", "exec"), names)
    program = program_of("cell", f"for _ in range(3):\n    y = {call}", names)
    assert (f"    {call}" in fixes_for(program, "graphable")[0].setup) == is_run


def test_lines_at_the_top_do_not_overwrite_variables():
    parameters = [torch.nn.Parameter(torch.ones(4))]
    names = {"opt": torch.optim.SGD(parameters, 0.1, foreach=False), "torch": torch, "group": 3, "prefetched": 4}
    names["batches"] = [torch.ones(4).clone() for _ in range(2)]
    loop = "for batch in batches:\n    y = batch.to('cuda')"
    before = dict(names)
    for rule, code in (("optimizer_loop", "opt.step()"), ("exposed_copies", loop)):
        program = program_of("cell", code, names)
        (*_, fix) = fixes_for(program, rule)
        assigned = names_of(ast.parse("\n".join(fix.setup)).body).assigned
        assert not {"group", "prefetched"} & assigned, fix.setup
    assert names == before


@pytest.mark.parametrize("hint", ["", ": torch.Tensor"])
def test_a_variable_with_a_type_is_as_fresh_as_one_without(hint):
    code = f"for n in range(3):\n    loss{hint} = (x * n).mean()\n    kept.append(loss.item())"
    assert "_kept_values.append(loss.detach())" in fixed("host_sync", code)


class Plain:
    def __init__(self):
        self.loss = 0.0


class Watched(Plain):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)


class Checked(Plain):
    loss = property(lambda self: self.__dict__["loss"], lambda self, value: self.__dict__.update(loss=value))


@pytest.mark.parametrize(("kind", "is_fixed"), [(Plain, True), (Watched, False), (Checked, False)])
def test_sums_in_attributes(kind, is_fixed):
    names = {"torch": torch, "x": torch.ones(8), "state": kind()}
    program = program_of("cell", "for n in range(3):\n    state.loss += (x * n).mean().item()", names)
    found = fixes_for(program, "host_sync")
    assert bool(found) == is_fixed
    if is_fixed:
        assert (
            program.with_fix(found[0]).cell_text()
            == """_state_loss_values = []
for n in range(3):
    _state_loss_values.append((x * n).mean().detach())
for _value in torch.stack(_state_loss_values).tolist() if _state_loss_values else []:
    state.loss += _value"""
        )


def test_what_is_set_already_is_not_a_fix():
    parameters = [torch.nn.Parameter(torch.ones(4))]
    names = {"opt": torch.optim.SGD(parameters, 0.1, foreach=True), "torch": torch, "parameters": parameters}
    titles = lambda code, rule: [one.title[-13:] for one in fixes_for(program_of("cell", code, names), rule)]  # noqa: E731
    assert titles("for _ in range(3):\n    opt.zero_grad(set_to_none=True)", "zero_grad") == []
    assert titles("opt.step()", "optimizer_loop") == ["t once (fused=True)"[-13:]]
    names["opt"] = torch.optim.Adam(parameters, fused=True)
    assert titles("opt.step()", "optimizer_loop") == []
    assert titles("made = torch.optim.Adam(parameters, fused=True)", "optimizer_loop") == []


def test_multi_line_statements_and_aliases():
    code = """
weights = soft(
    th.matmul(q, q.transpose(-2, -1))  # scores
    / math.sqrt(8),
    dim=-1,
)
out = weights @ q; done = True
"""
    assert fixed("eager_attention", code) == (
        "out = torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=1 / math.sqrt(8)); done = True"
    )


def test_what_is_read_again_stays():
    code = """
weights = F.softmax(q @ q.transpose(-2, -1), dim=-1)
out = weights @ q
print(f"{weights.sum():.3f}")
"""
    assert fixed("eager_attention", code) is None


@pytest.mark.parametrize(
    "code",
    [
        "out = F.softmax(q @ q.transpose(-2, -1), dim=0) @ q",  # another dimension
        "out = F.softmax(q @ q, dim=-1) @ q",  # no transposed key
        "out = F.softmax(q @ q.mT * q, dim=-1) @ q",  # the scale is a tensor
    ],
)
def test_other_products_are_not_attention(code):
    assert fixed("eager_attention", code) is None


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(3):\n    total += loss.item()\n    if total > 3: break",  # read in the loop
        "for i in range(3): total += loss.item() if i else 0",
        "values = [loss.item() for loss in losses]",  # no loop statement
        "for i in range(3):\n    total -= loss.item()",
        "for i in range(3):\n    total += loss.item() ** i",
        "for i in range(3):\n    losses.append(loss.item())\n    print(losses[-1])",
    ],
)
def test_values_that_the_loop_needs_are_read_in_it(code):
    assert fixed("host_sync", code) is None


def test_a_tensor_that_is_written_later_is_kept_as_it_was():
    text = fixed("host_sync", "for i in range(3):\n    loss += 1\n    total += loss.item()")
    assert "_total_values.append(loss.detach().clone())" in text


def test_items_of_a_loop_in_a_function_with_a_decorator():
    text = fixed("host_sync", """
@torch.no_grad()
def evaluate(batches):
    '''Mean loss.'''
    total, seen = 0.0, []
    for batch in batches:
        loss = net(batch).mean()  # forward
        total += loss.item() * len(batch)
        seen.append(f"{len(batch)} {'rows'}")
    return total
""")  # fmt: skip
    values = "torch.stack(_total_values).tolist() if _total_values else []"
    expected = """@torch.no_grad()
def evaluate(batches):
    '''Mean loss.'''
    total, seen = 0.0, []
    _total_values, _total_factors = [], []
    for batch in batches:
        loss = net(batch).mean()  # forward
        _total_values.append(loss.detach()); _total_factors.append(len(batch))
        seen.append(f"{len(batch)} {'rows'}")
    for _value, _factor in zip(VALUES, _total_factors, strict=True):
        total += _value * _factor
    return total"""
    assert text == expected.replace("VALUES", values)


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(3):\n    y = x.clone()\n    y += 1",
        "for i in range(3):\n    y = torch.zeros(3)\n    y[i] = 1",
        "for i in range(3):\n    kept.append(torch.zeros(3))",
        "for i in range(3):\n    x = x.half()",
        "for i in range(3):\n    y = torch.full((2,), i)",
        "for i in range(3):\n    y = torch.zeros(3).uniform_()",
        "for i in range(3):\n    fill(torch.zeros(3))",
    ],
)
def test_tensors_that_each_iteration_needs_stay_in_the_loop(code):
    assert fixed("copies", code) is None


def test_keywords_are_added_and_removed():
    names = NAMES | {"params": [torch.ones(2, requires_grad=True)]}
    for code, expected in {
        "opt = torch.optim.SGD(params, lr=0.1, foreach=False)": "opt = torch.optim.SGD(params, lr=0.1, foreach=True)",
        "opt = torch.optim.SGD(params,\n    lr=0.1,\n)": "opt = torch.optim.SGD(params,\n    lr=0.1, foreach=True,\n)",
        "opt = th.optim.SGD([p for p in params])": "opt = th.optim.SGD([p for p in params], foreach=True)",
    }.items():
        program = program_of("cell", code, names)
        assert program.with_fix(fixes_for(program, "optimizer_loop")[0]).cell_text() == expected


def test_a_block_that_becomes_empty_has_pass():
    assert fixed("driver_memory", "for i in range(3):\n    torch.cuda.empty_cache()") == "for i in range(3):\n    pass"
    assert (
        fixed("driver_memory", "for i in range(3):\n    f(); torch.cuda.empty_cache()")
        == "for i in range(3):\n    f(); pass"
    )


def test_characters_of_several_bytes():
    assert (
        fixed("zero_grad", "'é'; opt.zero_grad(set_to_none=False)  # ö") == "'é'; opt.zero_grad(set_to_none=True)  # ö"
    )


def test_text_that_is_not_python():
    with pytest.raises(FixError, match=r"cell cannot be parsed: .* \(line 2\)"):
        Source("cell", "x = 1\ny = (")


def test_a_wait_around_a_clock_stays():
    code = """
for i in range(3):
    start = time.perf_counter()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - start)
"""
    assert fixed("host_sync", code) is None
