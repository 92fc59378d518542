"""`%cudagraph` and `%%cudagraph` in a real shell, on a virtual device: what a cell owes its user, and what is shown."""

from __future__ import annotations

import gc
import re

import pytest
import torch

import cudalens.virtual as virtual

SETUP = """
%cudadevice virtual h100
import asyncio, time
x = torch.arange(64.0, device="cuda").reshape(8, 8)
w = torch.full((8, 8), 2.0, device="cuda")
k = 3
torch.cuda.synchronize()
"""


@pytest.fixture
def cuda(notebook):
    notebook.run(SETUP)
    notebook.capsys.readouterr()
    yield notebook
    notebook.run("%cudagraph reset")
    if (on := virtual.active()) is not None:
        on.disable()
    gc.collect()


def kinds(trace):
    return trace.graphs["kind"].value_counts().to_dict()


def counts(trace):
    """Warmups, recordings, replays and eager calls of the one function in it."""
    (row,) = trace.graphs[trace.graphs["kind"] == "function"].to_dict("records")
    return [int(row[f"num_{name}"]) for name in ("warmups", "recordings", "replays", "eager")]


def shown(book):
    """What was displayed last, as text."""
    return book.shown[-1][1]["text/plain"]


def equal(book, name, expected):
    return bool(book.run(f"torch.equal({name}, {expected})").result)


def test_a_pure_cell_warms_up_records_and_replays_at_once(cuda):
    assert cuda.run("%%cudagraph -v t\ny = (x @ w) * k\ny.sum()").success
    assert cuda.text("out") == "tensor(96768., device='cuda:0')"
    assert counts(cuda["t"]) == [1, 1, 1, 0]
    assert "1 graph, replayed 1 of 3 calls" in shown(cuda)
    assert "The cell ran 3 times: to warm up, record and replay." in cuda.capsys.readouterr().out
    assert equal(cuda, "y", "(x @ w) * k")
    cuda.run("%%cudagraph -v t\ny = (x @ w) * k\ny.sum()")
    assert counts(cuda["t"]) == [0, 0, 1, 0]
    assert cuda.capsys.readouterr().out == ""


def test_new_values_of_what_the_cell_reads_are_seen(cuda):
    cell = "%%cudagraph loop -v t\ny = x * k"
    cuda.run(cell)
    cuda.run("x = x + 1")
    cuda.run(cell)
    assert counts(cuda["t"]) == [0, 0, 1, 0]
    assert equal(cuda, "y", "x * 3")
    cuda.run("k = 5")
    cuda.run(cell)
    assert "new value: k: 3 → 5" in shown(cuda)
    assert equal(cuda, "y", "x * 5")
    cuda.run("x = torch.ones(3, device='cuda')")
    cuda.run(cell)
    assert equal(cuda, "y", "x * 5")


def test_other_functions_and_globals_behind_them_are_seen(cuda):
    cuda.run("scale = 2.0\ndef f(v):\n    return v * scale")
    cell = "%%cudagraph -v t\ny = f(x)"
    cuda.run(cell)
    cuda.run("scale = 7.0")
    cuda.run(cell)
    assert equal(cuda, "y", "x * 7")
    cuda.run("def f(v):\n    return v - 1")
    cuda.run(cell)
    assert equal(cuda, "y", "x - 1")


def test_results_are_the_notebooks_own(cuda):
    cell = "%%cudagraph -q\ny = x * 2\nrow = y[1]\nview = x[0]"
    cuda.run(cell)
    cuda.run("kept, first = y, row")
    cuda.run("assert row.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()")
    cuda.run("assert view.data_ptr() == x.data_ptr()")
    cuda.run("before = x.clone(); x = x + 1")
    assert cuda.run(cell).success
    assert equal(cuda, "kept", "before * 2")
    assert equal(cuda, "first", "before[1] * 2")
    assert equal(cuda, "y", "x * 2")


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("x = x + 1", "it changes 'x', which it reads"),
        ("w[0] = 1\ny = w * 2", "it writes into 'w'"),
        ("y = torch.nn.functional.dropout(x)", "it draws random numbers"),
        ("y = fill(w)", "it writes into a tensor that it reads"),
    ],
)
def test_a_cell_that_would_change_something_runs_once(cuda, cell, why):
    cuda.run("def fill(t):\n    alias = t\n    alias.add_(1)\n    return alias * 2")
    cuda.run("expected = x + 1")
    cuda.run(f"%%cudagraph -v t\n{cell}")
    assert sum(counts(cuda["t"])) == 1
    assert why in cuda.capsys.readouterr().out
    if cell == "x = x + 1":
        assert equal(cuda, "x", "expected")


TRAINING = """
model = torch.nn.Linear(8, 1, device="cuda")
class Trainer:
    def __init__(self):
        self.opt, self.num_steps = torch.optim.SGD(model.parameters(), lr=0.1), 0
    def fit(self):
        for _ in range(20):
            model(x).sum().backward()
            self.opt.step()
            self.num_steps += 1
        return self.num_steps
trainer = Trainer()
"""


@pytest.mark.parametrize("cell", ["y = trainer.fit()", "y = [trainer][0].fit()", "y = run()"])
def test_an_optimizer_that_is_out_of_sight_steps_once(cuda, cell):
    cuda.run(TRAINING + "def run():\n    return trainer.fit()")
    assert cuda.run(f"%%cudagraph\n{cell}").success
    assert cuda["trainer"].num_steps == 20
    first_line = cuda.capsys.readouterr().out.splitlines()[0]
    assert first_line.startswith("The cell ran once, because it uses ")
    assert "an object of Trainer, which may keep state" in first_line


def test_a_bound_method_is_assigned_without_a_graph(cuda):
    cuda.run(TRAINING)
    assert cuda.run("%%cudagraph -v t\nfit = trainer.fit").success
    assert cuda["fit"]() == 20
    assert "an object of type method" in cuda["t"].summary().verdict


def test_repeat_runs_the_cell_so_often(cuda):
    cuda.run("start = x")
    cuda.run("%%cudagraph -v t --repeat 5\nx = x + 1")
    assert counts(cuda["t"]) == [1, 1, 3, 0]
    assert equal(cuda, "x", "start + 5")


def test_checks_are_in_the_verdict(cuda):
    cuda.run("%%cudagraph --check\ny = x @ w")
    assert "replay equals eager (1 graph checked)" in shown(cuda)
    assert "faster than eager" in shown(cuda) or "slower than eager" in shown(cuda) or "as fast as" in shown(cuda)


@pytest.mark.parametrize(
    ("cell", "reason", "line"),
    [
        ("y = x + 1\nprint('hi')", "prints or shows something", 3),
        ("await asyncio.sleep(0)\ny = x + 1", "awaits", 2),
        ("%%time\ny = x + 1", "has another magic", 2),
        ("%matplotlib --list\ny = x + 1", "has another magic", 2),
        ("y = x + 1\nt = time.time()", "reads the clock", 3),
        ("z = 1\ny = x + 1\ndel z", "changes the notebook's names", 4),
        ("class A:\n    pass\ny = x + 1", "defines a class", 2),
        ("if True:\n    class A:\n        pass\ny = x + 1", "defines a class", 3),
        ("y = x + 1\nf = lambda t: t * y", "keeps a function", 3),
    ],
)
def test_cells_that_are_more_than_a_computation_run_and_state_why(cuda, cell, reason, line):
    assert cuda.run(f"%%cudagraph -v t\n{cell}").success
    assert equal(cuda, "y", "x + 1")
    (skip,) = cuda["t"].graphs.query("kind == 'skip'").to_dict("records")
    assert reason in skip["detail"]
    assert skip["place"].endswith(f":{line}")
    assert skip["source"] == cell.split("\n")[line - 2].strip()
    assert f"1 function runs eager: {skip['function']} {skip['detail']}" in cuda["t"].summary().verdict


@pytest.mark.parametrize(
    ("cell", "call", "expected"),
    [
        ("scaled = lambda t: t * scale", "scaled(x)", "x * 7"),
        ("scaled = functools.partial(lambda t, u: t * u * scale, x)", "scaled(x)", "x * x * 7"),
        ("table = dict(scaled=lambda t: t * scale)", "table['scaled'](x)", "x * 7"),
        ("if True:\n    def scaled(t):\n        return t * scale", "scaled(x)", "x * 7"),
        ("rows = (row * scale for row in x)", "next(rows)", "x[0] * 7"),
        ("rows = map(lambda row: row * scale, x)", "next(rows)", "x[0] * 7"),
        ("def times(t, n=2):\n    return times(t, n - 1) if n else t * scale", "times(x)", "x * 7"),
    ],
)
def test_a_function_that_a_cell_keeps_reads_the_variables_of_the_notebook(cuda, cell, call, expected):
    cuda.run("import functools\nscale = 3.0")
    assert cuda.run(f"%%cudagraph\ny = x + scale\n{cell}").success
    cuda.run(f"scale = 7.0\nfound = {call}")
    assert equal(cuda, "found", expected)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("rows = [(last := row * 2) for row in x]", ["last"]),
        ("rows = [x for x in x]\nx = x + 1", ["x"]),
        ("match {'a': x, 'b': x + 1}:\n    case {'a': first, **others}:\n        y = first + 1", ["others['b']"]),
        ("total = sum(row * 2 for row in x)\nbest = max(x, key=lambda row: float(row.sum() * total.sum()))", ["best"]),
    ],
)
def test_names_of_a_cell_are_those_that_python_binds(cuda, cell, names):
    before = cuda["x"].clone()
    assert cuda.run(f"%%cudagraph\n{cell}").success
    found = [cuda.shell.ev(name).clone() for name in names]
    cuda.shell.user_ns["x"] = before
    assert cuda.run(cell).success
    assert all(torch.equal(one, cuda.shell.ev(name)) for one, name in zip(found, names, strict=True))


@pytest.mark.parametrize(
    "cell",
    ["first, *others = (x * n for n in range(3))", "a = b = 2\nfirst, others = x * a, [*(x * n for n in range(b))]"],
)
def test_a_generator_that_a_cell_uses_up_is_not_kept(cuda, cell):
    assert cuda.run(f"%%cudagraph -v t --repeat 4\n{cell}").success
    assert counts(cuda["t"])[2:] == [2, 0]
    found = cuda["first"].clone(), [other.clone() for other in cuda["others"]]
    assert cuda.run(cell).success
    assert torch.equal(found[0], cuda["first"])
    assert all(map(torch.equal, found[1], cuda["others"]))


def test_a_function_that_prints_is_found_out_and_prints_every_time(cuda):
    cuda.run("def loud(v):\n    print('noise')\n    return v * 2")
    for _ in range(3):
        cuda.run("%%cudagraph -v t\ny = loud(x)")
        assert cuda.capsys.readouterr().out.count("noise") == 1
        assert equal(cuda, "y", "x * 2")
    assert "printed something while it warmed up" in cuda["t"].summary().verdict


def test_a_cell_that_cannot_be_captured_runs_eager_with_the_reason(cuda):
    cuda.run("%%cudagraph -v t\na = len(x.repeat(32, 32).cpu())")
    assert cuda["a"] == 32 * len(cuda["x"])
    assert "makes the host wait for the device" in cuda["t"].summary().verdict
    assert "cannot be recorded" in cuda.capsys.readouterr().out


def test_overwritten_inputs_are_copied_back_when_asked(cuda):
    cuda.run("def bump(t):\n    t.add_(1)\n    return t * 2\nbefore = x.clone()")
    cuda.run("%%cudagraph -v t --repeat 4\ny = bump(x)")
    assert "writes its input 'x'" in cuda["t"].summary().verdict
    assert equal(cuda, "x", "before + 4")
    cuda.run("%%cudagraph -v t --repeat 4 --mutations copy\ny = bump(x)")
    assert counts(cuda["t"]) == [1, 1, 2, 0]
    assert equal(cuda, "x", "before + 8")
    assert equal(cuda, "y", "x * 2")


def test_exceptions_are_the_users(cuda):
    result = cuda.run("%%cudagraph\na = x + 1\nn = 4\nb = a.view(3)")
    assert isinstance(result.error_in_exec, RuntimeError)
    assert cuda.kinds() == ["display", "error"]
    assert "b = a.view(3)" in cuda.text("error")
    assert "graph_running" not in cuda.text("error").replace("[... skipping hidden", "")
    assert equal(cuda, "a", "x + 1")
    assert cuda["n"] == 4
    assert "b" not in cuda.shell.user_ns
    assert not [name for name in cuda.shell.user_ns if name.startswith("__cudalens")]
    assert cuda.run("%%cudagraph -v t\na = x + 1").success
    assert counts(cuda["t"])[2] == 1


def test_an_interrupt_reaches_the_user_and_leaves_the_next_cell_healthy(cuda):
    cuda.run("def stop(v):\n    raise KeyboardInterrupt")
    result = cuda.run("%%cudagraph\ny = x + 1\nstop(y)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert cuda.run("%%cudagraph -v t\ny = x + 1").success
    assert counts(cuda["t"]) == [1, 1, 1, 0]


def test_other_code_under_the_same_name_takes_its_place(cuda):
    cuda.run("%%cudagraph step\ny = x + 1")
    cuda.run("%%cudagraph step -v t\ny = x + 2")
    assert counts(cuda["t"]) == [1, 1, 1, 0]
    assert equal(cuda, "y", "x + 2")


def test_a_cell_that_defines_functions_wraps_them(cuda):
    cuda.run("%%cudagraph -v t\ndef step(v):\n    return half(v) + 1\ndef half(v):\n    return v / 2")
    assert cuda.shown == []
    assert cuda.capsys.readouterr().out == "step runs by CUDA graphs from now on; .fn is the function itself.\n"
    assert "cudagraph of step" in repr(cuda["step"])
    assert not hasattr(cuda["half"], "fn")
    assert cuda["step"].fn.__name__ == "step"
    cuda.run("%%cudagraph -v t\nfor _ in range(6):\n    y = step(x)\nprint('done')")
    assert counts(cuda["t"]) == [1, 1, 4, 0]
    assert "skip" not in kinds(cuda["t"])
    assert equal(cuda, "y", "x / 2 + 1")


def test_outputs_of_the_options(cuda, tmp_path):
    page = tmp_path / "graphs.html"
    cuda.run(f"%%cudagraph -o --html {page}\ny = x + 1;")
    assert cuda.run("type(_).__name__").result == "Trace"
    assert "CUDA graphs of" in page.read_text()
    assert cuda.run("%%cudagraph -q\ny = x + 1").success
    assert cuda.shown == []
    for bad in ("--repeat 0", "--mutations maybe", "--nope"):
        cuda.run(f"%%cudagraph {bad}\ny = x + 9")
        assert cuda.kinds() == ["usage"]
    assert equal(cuda, "y", "x + 1")


def test_the_line_magics(cuda):
    cuda.run("%cudagraph")
    assert "No function is under a graph manager" in cuda.capsys.readouterr().out
    cuda.run("%%cudagraph one -q\ny = x + 1")
    cuda.run("%%cudagraph two -q\nz = x.repeat(32, 32).cpu()")
    cuda.run("%cudagraph tree")
    assert "○ one" in shown(cuda) or "◉ one" in shown(cuda)
    cuda.capsys.readouterr()
    cuda.run("%cudagraph explain")
    explained = shown(cuda)
    assert re.search(r"two runs eager +1 +\d+ launch(es)?\n +why: makes the host wait", explained)
    cuda.run("%cudagraph list")
    first, second = shown(cuda).splitlines()[-2:]
    assert (first.split()[0], second.split()[0]) == ("two", "one")
    cuda.run("%cudagraph reset")
    assert "Freed 1 graph and" in cuda.capsys.readouterr().out
    cuda.run("%cudagraph list")
    assert "No function is under a graph manager" in cuda.capsys.readouterr().out
    cuda.run("%cudagraph fly")
    assert "what is 'fly'?" in cuda.text("usage")


def test_without_a_device_the_cell_runs_and_reports_it(notebook):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    notebook.run("x = torch.ones(3)")
    assert notebook.run("%%cudagraph -v t\ny = x + 1\ny.sum()").success
    assert notebook.text("out") == "tensor(6.)"
    assert "runs where there is no CUDA device" in notebook["t"].summary().verdict


def test_backward_through_a_cell(cuda):
    cuda.run("p = torch.ones(8, device='cuda', requires_grad=True)")
    for _ in range(4):
        cuda.run("%%cudagraph -q --repeat 1\nloss = (x * p).square().sum()")
        assert cuda.run("loss.backward()").success
        assert equal(cuda, "p.grad", "(2 * x.square()).sum(0)")
        cuda.run("p.grad = None")


def test_profiling_around_it(cuda):
    assert cuda.run("%%cudaprofile\n%%cudagraph -v t\ny = x + 1").success
    assert counts(cuda["t"]) == [1, 1, 1, 0]
    assert cuda.kinds() == ["display", "display"]


@pytest.mark.parametrize("is_off_before", [False, True], ids=["with the device", "after the device"])
def test_unloading_lets_go_of_recorded_cells(cuda, is_off_before):
    cuda.run("%%cudagraph\ny = x @ w")
    if is_off_before:
        cuda.run("%cudadevice off")
    cuda.shell.run_line_magic("unload_ext", "cudalens")
    assert virtual.active() is None
    assert "cudagraph" not in cuda.shell.magics_manager.magics["cell"]
    cuda.shell.run_line_magic("load_ext", "cudalens")
    cuda.run(SETUP)
    assert cuda.run("%%cudagraph -v t\ny = x @ w").success
    assert counts(cuda["t"]) == [1, 1, 1, 0]


def test_a_size_that_a_cell_assigns_stays_a_size(cuda):
    cell = "%%cudagraph\ny = x + 1\nsize = y.shape\nsizes = [y.shape, (2, 3)]"
    for _ in range(2):
        assert cuda.run(cell).success
        assert isinstance(cuda["size"], torch.Size)
        assert cuda["size"].numel() == 64
        assert [type(one) for one in cuda["sizes"]] == [torch.Size, tuple]
    cuda.run(f"{cell}\nstop(y)")
    assert isinstance(cuda["size"], torch.Size)
