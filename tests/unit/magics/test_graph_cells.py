"""Which names a cell reads, assigns and writes into, against Python itself; and how cells become functions."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.fixes.names import names_of
from cudalens.magics.graph_rewrite import Bound, bound_values, decorated_in, rewritten, state_reached

RUN = "__cudalens_run_1__"


def names(source):
    return names_of(ast.parse(source).body)


@pytest.mark.parametrize(
    ("source", "needed", "assigned", "written"),
    [
        ("y = x + 1", "x", "y", ""),
        ("x = 1\ny = x", "", "x y", ""),
        ("x += y", "x y", "x", "x"),
        ("x[0] = y", "x y", "", "x"),
        ("x.grad.data = y", "x y", "", "x"),
        ("x.add_(y)", "x y", "", "x"),
        ("x.weight.copy_(y)", "x y", "", "x"),
        ("torch.add(x, y, out=z)", "torch x y z", "", "z"),
        ("x = torch.zeros(3)\nx[0] = 1\nx.add_(1)", "torch", "x", ""),
        ("if c:\n    y = 1\nz = y", "c y", "y z", ""),
        ("if c:\n    y = 1\nelse:\n    y = 2\nz = y", "c", "y z", ""),
        ("for i in xs:\n    y = i\nz = y", "xs y", "i y z", ""),
        ("for i in xs:\n    s = s + i", "xs s", "i s", ""),
        ("try:\n    y = f()\nexcept ValueError as e:\n    pass\nz = y", "f ValueError y", "y z e", ""),
        ("with c as d:\n    y = d\nz = y", "c", "d y z", ""),
        ("(y := x) + y", "x", "y", ""),
        ("import a.b as c\nfrom d import e\nc.f(e)", "", "c e", ""),
        ("import a.b\na.c", "", "a", ""),
        ("zs = [a * y for a in x if a]", "x y", "zs", ""),
        ("f = lambda a, *b: a + b + x", "x", "f", ""),
        ("match x:\n    case [a, *b]:\n        y = a\n    case _:\n        pass", "x", "a b y", ""),
        ("y: int = x\nz: int", "x", "y", ""),
        ("y = 1 if c else x\nw.__class__", "c x w", "y", ""),
    ],
)
def test_names(source, needed, assigned, written):
    found = names(source)
    assert found.needed == frozenset(needed.split())
    assert found.assigned == frozenset(assigned.split())
    assert found.written == frozenset(written.split())
    assert found.needed <= found.read


statements = st.recursive(
    st.sampled_from(["a = b", "b = c + a", "c += a", "a = [b for b in (c, c)]", "d = (lambda a: a + b)(c)", "pass"]),
    lambda inner: st.builds(
        lambda head, body: "\n".join([head, *(f"    {line}" for part in body for line in part.split("\n"))]),
        st.sampled_from(["if True:", "if False:", "for d in (1, 2):", "for d in ():"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(150))
@given(st.lists(statements, min_size=1, max_size=5), st.sets(st.sampled_from("abcd")))
def test_a_cell_that_runs_without_a_name_did_not_need_it_or_was_not_sure(parts, missing):
    """Whatever is needed but missing may fail; whatever is not needed never does."""
    source = "\n".join(parts)
    namespace = {name: [1] for name in "abcd" if name not in missing}
    before = set(namespace)
    found = names(source)
    missed = None
    try:
        exec(source, namespace)
    except NameError as error:
        missed = error.name
    assert missed is None or missed in found.needed
    assert set(namespace) - before - {"__builtins__"} <= found.assigned


def run_cell(source, namespace, name=None, **shell):
    """The rewritten cell, run with a run that calls the function as it is; returns what it was asked for."""
    asked = SimpleNamespace(value=None, called=[], refused=[], wrapped=[])

    def call(name, *, given, static, why_once, read):
        function = namespace.pop(name)
        asked.called.append(SimpleNamespace(given=given, static=static, why_once=why_once, read=read))
        value, assigned = function(**{name: namespace[name] for name in given})
        namespace.update(assigned)
        return value

    run = SimpleNamespace(
        call=call,
        refuse=lambda key, line: asked.refused.append((key, line)),
        wrap=lambda function: asked.wrapped.append(function.__name__) or function,
        value=None,
    )
    kernel = SimpleNamespace(user_ns=namespace, **({"ast_node_interactivity": "last_expr"} | shell))
    tree = ast.parse(source)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        value = tree.body[-1].value
        keep = ast.parse(f"{RUN}.value = None").body[0]
        for node in ast.walk(keep):
            ast.copy_location(node, tree.body[-1])
        keep.value = value
        tree.body[-1] = keep
    tree.body = rewritten(tree.body, RUN, kernel, name)
    namespace[RUN] = run
    exec(compile(tree, "<cell>", "exec"), namespace)
    del namespace[RUN]
    asked.value = run.value
    return asked


def test_a_cell_takes_what_it_reads_and_leaves_what_it_assigns():
    namespace = {"x": 2, "k": 3, "f": lambda v: v + 1}
    asked = run_cell("y = f(x) * k\nz = y\nz + 1", namespace)
    (call,) = asked.called
    assert (call.given, call.static, call.why_once) == (["k", "x"], [], "")
    assert asked.value == 10
    assert (namespace["y"], namespace["z"]) == (9, 9)
    assert "__cudalens_run_1__cell" not in namespace


def test_what_a_cell_reads_and_assigns_goes_in_and_out():
    namespace = {"x": 2}
    (call,) = run_cell("x = x + 1", namespace).called
    assert call.given == ["x"]
    assert call.why_once == "it changes 'x', which it reads"
    assert namespace["x"] == 3


def test_what_a_cell_writes_into_stays_the_notebooks_own():
    namespace = {"x": [1, 2], "y": [3]}
    (call,) = run_cell("x[0] = 5\ny += [4]", namespace).called
    assert (call.given, call.static) == (["y"], ["y"])
    assert call.why_once
    assert namespace["x"] == [5, 2]
    assert namespace["y"] == [3, 4]


def test_a_variable_that_is_not_bound_on_the_way_taken_is_not_assigned():
    namespace = {"c": False}
    run_cell("if c:\n    y = 1\nz = 2", namespace)
    assert "y" not in namespace
    assert namespace["z"] == 2


def test_names_that_do_not_exist_fail_by_their_own_name():
    with pytest.raises(NameError, match="nowhere"):
        run_cell("y = nowhere + 1", {})


@pytest.mark.parametrize(
    ("source", "key", "line"),
    [
        ("x = 1\nprint(x)", "shows", 2),
        ("y = [print(x) for x in (1,)]", "shows", 1),
        ("x = 1\nx\ndel x", "scope", 3),
        ("y = eval('1')", "scope", 1),
        ("get_ipython = None\nget_ipython", "magic", 1),
        ("t = time.time()", "clock", 1),
        ("t = clock()", "clock", 1),
        ("class A:\n    pass", "class", 1),
    ],
)
def test_cells_that_a_replay_would_not_repeat_stay_as_they_are(source, key, line):
    import time

    namespace = {"time": time, "clock": time.perf_counter}
    asked = run_cell(source, namespace)
    assert asked.refused == [(key, line)]
    assert asked.called == []


def test_functions_are_wrapped_but_for_those_that_others_call():
    source = "def step(x):\n    return helper(x)\ndef helper(x):\n    return x + 1\ny = step(1)\nprint(end='')"
    namespace = {}
    asked = run_cell(source, namespace)
    assert (asked.wrapped, asked.called, asked.refused) == (["step"], [], [])
    assert namespace["y"] == 2
    assert run_cell(source, {}, "helper").wrapped == ["helper"]
    assert run_cell("def g():\n    yield 1", {}).wrapped == []


@pytest.mark.parametrize("mode", ["all", "none"])
def test_a_shell_that_shows_every_expression_keeps_the_cell(mode):
    assert run_cell("y = 1", {}, ast_node_interactivity=mode).refused == [("mode", 1)]


def test_what_is_not_valid_outside_of_a_function_is_not_made_valid():
    body = ast.parse("return 3").body
    shell = SimpleNamespace(user_ns={}, ast_node_interactivity="last_expr")
    assert rewritten(body, RUN, shell) is body


def test_line_numbers_stay():
    namespace = {"x": 0}
    with pytest.raises(ZeroDivisionError) as caught:
        run_cell("y = 1\n\nz = y / x", namespace)
    assert caught.traceback[-1].lineno == 2


def test_what_recordings_depend_on_is_found_through_functions():
    namespace = {}
    exec("scale = 3\nother = 4\ndef inner(v):\n    return v * scale\ndef outer(v):\n    return inner(v)", namespace)
    namespace["__name__"] = "__main__"
    for name in ("inner", "outer"):
        namespace[name].__module__ = "__main__"
    found = bound_values(namespace, ["outer", "x"], ["x"])
    assert set(found) == {"outer", "inner", "scale"}
    assert found["scale"] == 3
    assert found["inner"] == Bound(namespace["inner"])
    before, again = found["inner"], bound_values(namespace, ["outer"], [])
    assert again["inner"] == before
    assert hash(again["inner"]) == hash(before)
    exec("def inner(v):\n    return v", namespace)
    namespace["inner"].__module__ = "__main__"
    assert bound_values(namespace, ["outer"], [])["inner"] != before
    assert repr(before) == "<inner>"


def test_library_functions_are_no_part_of_what_recordings_depend_on():
    import json

    assert bound_values({"dumps": json.dumps, "json": json, "len": len}, ["dumps", "json", "len"], []) == {}
    assert decorated_in({"dumps": json.dumps}, ["dumps"]) == []


# -- may a cell run again? ---------------------------------------------------------------------------------------------

STATE = """
import functools, os, torch
import torch.nn.functional as F
x, k, sizes, settings = torch.ones(3), 2, [1, 2], {"scale": 3.0}
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
opt = torch.optim.SGD(model.parameters())
log, counter = [], iter(range(9))
half = functools.partial(torch.mul, other=0.5)

def pure(v, scale=2.0):
    weights = [v * n for n in sizes]
    return F.relu(weights[0]) * scale

def outer(v):
    return pure(v) + 1

def train():
    loss = model(x[None]).sum()
    loss.backward()
    opt.step()

def logs(v):
    log.append(v)

def stores(v):
    settings["scale"] = v

def counts():
    global k
    k = k + 1

def writes(v):
    os.unlink(v)

def make():
    n = 0
    def step():
        nonlocal n
        n += 1
        return n
    return step

closure = make()

class Trainer:
    def fit(self):
        self.n = 1

trainer = Trainer()

class Block(torch.nn.Module):
    def forward(self, v):
        return v * 2

class Counting(torch.nn.Module):
    def forward(self, v):
        self.n = 1
        return v

class Broken:
    named_parameters = None
    def modules(self):
        raise RuntimeError

broken = Broken()
block, counting = Block(), Counting()
hooked = torch.nn.Linear(3, 3)
hooked.register_forward_hook(lambda *args: None)
"""


@pytest.fixture(scope="module")
def user_names():
    namespace = {"__name__": "__main__"}
    exec(STATE, namespace)
    return namespace


@pytest.mark.parametrize(
    "name", ["x", "k", "sizes", "settings", "model", "torch", "F", "half", "pure", "outer", "functools", "block"]
)
def test_what_keeps_no_state_may_be_used_again(user_names, name):
    assert state_reached(user_names, [name]) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("opt", "it uses 'opt', an object of SGD"),
        ("train", ".backward is called"),
        ("logs", "which reaches logs(), where .append is called"),
        ("stores", "an item is assigned"),
        ("counts", "'k' is assigned"),
        ("writes", "a module that may have effects"),
        ("closure", "'n' is assigned"),
        ("trainer", "an object of Trainer"),
        ("counter", "which may keep state"),
        ("counting", "'n' is assigned"),
        ("hooked", "a module with hooks"),
        ("broken", "which cannot be searched for state"),
        ("Trainer", "a class that may have effects"),
    ],
)
def test_what_may_keep_state_is_found(user_names, name, why):
    assert why in state_reached(user_names, ["x", name])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("y = x.sum()\nopt.step()", "it calls .step()"),
        ("y = next(counter)", "it calls next()"),
        ("setattr(trainer, 'n', 3)", "it calls setattr()"),
        ("hooked.register_forward_hook(f)", "it calls .register_forward_hook()"),
        ("import os\nos.remove", "it imports 'os'"),
        ("import torch.nn as nn\ny = nn.functional.relu(x)", ""),
    ],
)
def test_statements_that_change_something_are_a_reason_to_run_once(user_names, source, why):
    (call,) = run_cell(source, dict(user_names) | {"f": len}).called
    assert call.why_once == why
