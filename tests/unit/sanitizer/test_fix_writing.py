"""Fixes as diffs: applied to the program that raced, which then runs clean on the virtual device."""

import ast
import linecache
import re
from textwrap import dedent

import pytest

import cudalens
import cudalens.virtual
from cudalens.sanitizer.engine import EventRecorded
from cudalens.sanitizer.engine.races import describe, stream_name
from cudalens.sanitizer.fixes.candidates import FixKind
from cudalens.sanitizer.fixes.search import findings_of
from cudalens.sanitizer.fixes.source import Edit, Located, Source, Sources, Spot
from cudalens.sanitizer.fixes.source_edits import (
    after,
    before,
    binder,
    is_bound_before,
    tensor_expression,
    without_keyword,
)


def findings_in(text, path, *, spec="h100"):
    """Run a program from a file; its races with their fixes."""
    path.write_text(text)
    linecache.checkcache(str(path))
    with cudalens.virtual.device(spec), cudalens.sanitize() as san:
        exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
    return san.findings()


def applied(text, diff):
    """The text with a unified diff applied, by the diff's own line numbers."""
    lines, out, at = text.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk:
            start = int(hunk[1]) - 1
            out += lines[at:start]
            at = start
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert lines[at] == line[1:], "the diff's context is not the source"
            out += [line[1:]] if line[0] == " " else []
            at += 1
    return "".join(out + lines[at:])


def races_of(findings):
    """Races by kind and lines of source."""
    return {(f.race.kind, f.race.first.place.source, f.race.second.place.source) for f in findings}


def repaired(text, path, *, limit=6, spec="h100"):
    """The program with one diff after the other applied until no race is left."""
    for _ in range(limit):
        findings = findings_in(text, path, spec=spec)
        before = races_of(findings)
        if not findings:
            return text
        assert findings[0].fix is not None
        assert findings[0].fix.diff, findings[0].fix.words
        text = applied(text, findings[0].fix.diff)
        assert races_of(findings_in(text, path, spec=spec)) < before, (
            "the diff leaves the race that it is for, or makes another"
        )
    raise AssertionError(f"still racing after {limit} diffs:\n{text}")


WAIT_STREAM = """
import torch

side = torch.cuda.Stream()
a = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    a.mul_(2)
b = a.sum()
"""

RECORD_STREAM = """
import torch

side = torch.cuda.Stream()

def step():
    x = torch.ones(1024, device="cuda")
    host = torch.empty(1024, pin_memory=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host.copy_(x, non_blocking=True)
    del x
    y = torch.full((1024,), -1.0, device="cuda")
    return host, y

out = step()
"""

READ_TOO_EARLY = """
import torch

d = torch.ones(1024, device="cuda")
h = torch.empty(1024, pin_memory=True)
h.copy_(d, non_blocking=True)
total = h.sum()
"""

BUCKET = """
import torch

reduce_stream = torch.cuda.Stream()
bucket = torch.zeros(2048, device="cuda")
grads = [torch.ones(1024, device="cuda") for _ in range(2)]
for step in range(3):
    bucket[:1024].copy_(grads[0])
    bucket[1024:].copy_(grads[1])
    reduce_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(reduce_stream):
        bucket.mul_(0.5)
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            WAIT_STREAM,
            ["side.wait_stream(torch.cuda.current_stream())", "torch.cuda.current_stream().wait_stream(side)"],
        ),
        (RECORD_STREAM, ["        x.record_stream(torch.cuda.current_stream())"]),
        (READ_TOO_EARLY, ["torch.cuda.current_stream().synchronize()"]),
        (BUCKET, ["    torch.cuda.current_stream().wait_stream(reduce_stream)"]),
    ],
    ids=["missing wait_stream", "missing record_stream", "read too early", "bucket refilled"],
)
def test_the_classic_bugs_are_fixed_by_the_lines_that_one_would_write(text, lines, tmp_path):
    fixed = repaired(text, tmp_path / "program.py")
    assert [line for line in fixed.splitlines() if line not in text.splitlines()] == lines


METHODS = """
import torch

class Loader:
    def __init__(self):
        self.copies = torch.cuda.Stream()
        self.slot = torch.empty(256, device="cuda")

    def step(self, host):
        self.copies.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(self.copies):
            self.slot.copy_(host, non_blocking=True)
        return self.slot * 2

loader = Loader()
hosts = [torch.ones(256).pin_memory() for _ in range(2)]
for host in hosts:
    out = loader.step(host)
"""

PARAMETER = """
import torch as th

def work(x, stream):
    if x.numel():
        with th.cuda.stream(stream):
            y = x * 2
    return y

x = th.ones(64, device="cuda")
for _ in range(2):
    y = work(x, th.cuda.Stream())
"""

GONE_ON = """
import torch

side = torch.cuda.Stream()
a, b = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    a.add_(1)
    for _ in range(5):
        b.add_(1)
independent = torch.ones(64, device="cuda")
c = a + 1
"""

DEFAULT_FROM_A_FUNCTION = """
import torch

def double(x, stream):
    with torch.cuda.stream(stream):
        return x.mul_(2)

def main():
    side = torch.cuda.Stream()
    x = torch.ones(64, device="cuda")
    double(x, side)
    torch.cuda.current_stream().wait_stream(side)
    return x.sum()

main()
"""

TWO_STREAMS = """
import torch

one, two = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(one):
    x.add_(1)
with torch.cuda.stream(two):
    # comments stay where they are
    x.mul_(3)
"""

NESTED = """
import torch

one, two = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(one):
    x.add_(1)
    with torch.cuda.stream(two):
        x.mul_(3)
torch.cuda.synchronize()
"""

BACK_EDGE = """
import torch

copies = torch.cuda.Stream()
slots = torch.zeros(2, 256, device="cuda")
host = torch.ones(256).pin_memory()
out = torch.zeros(256, device="cuda")
torch.cuda.synchronize()
for i in range(4):
    with torch.cuda.stream(copies):
        slots[i % 2].copy_(host, non_blocking=True)
    torch.cuda.current_stream().wait_stream(copies)
    out += slots[i % 2]
"""

REFILLED_WHILE_SENT = """
import torch

def send(host, device):
    device.copy_(host, non_blocking=True)

host = torch.zeros(256).pin_memory()
device = torch.zeros(256, device="cuda")
for i in range(3):
    host.fill_(i)
    send(host, device)
"""

ELSEWHERE = """
import torch

def fetch(d):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        d.record_stream(side)
        return d.to("cpu", non_blocking=True)

total = fetch(torch.ones(64, device="cuda")).sum()
"""

OPERATOR_OF_A_FREED_TENSOR = """
import torch

side = torch.cuda.Stream()
def step():
    x = torch.ones(1024, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1.0
    x = None
    return y, torch.zeros(1024, device="cuda")
kept = step()
"""


STREAMS_OF_A_LIST = """
import torch

streams = [torch.cuda.Stream() for _ in range(2)]
a = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(streams[1]):
    a.mul_(2)
with torch.cuda.stream(streams[0]):
    b = a.sum()
"""

STREAMS_WITHOUT_NAMES = re.sub(r"streams.[01].", "torch.cuda.Stream()", STREAMS_OF_A_LIST)

LIST_BUT_DEFAULT_AFTERWARDS = """
import torch

streams = [torch.cuda.Stream() for _ in range(2)]
a = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(streams[1]):
    a.mul_(2)
def later():
    return a.sum()
later()
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (STREAMS_OF_A_LIST, "    torch.cuda.current_stream().wait_event(done)"),
        (STREAMS_WITHOUT_NAMES, "    torch.cuda.current_stream().wait_event(done)"),
        (LIST_BUT_DEFAULT_AFTERWARDS, "    torch.cuda.default_stream().wait_stream(torch.cuda.current_stream())"),
        (METHODS, "        torch.cuda.current_stream().wait_stream(self.copies)"),
        (PARAMETER, "            th.cuda.current_stream().wait_stream(th.cuda.default_stream())"),
        (GONE_ON, "torch.cuda.current_stream().wait_event(done)"),
        (DEFAULT_FROM_A_FUNCTION, "        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())"),
        (TWO_STREAMS, "    torch.cuda.current_stream().wait_stream(one)"),
        (NESTED, "    two.wait_stream(torch.cuda.current_stream())"),
        (BACK_EDGE, "    copies.wait_stream(torch.cuda.current_stream())"),
        (REFILLED_WHILE_SENT, "    torch.cuda.default_stream().synchronize()"),
        (ELSEWHERE, '        return d.to("cpu")'),
        (OPERATOR_OF_A_FREED_TENSOR, "        x.record_stream(torch.cuda.current_stream())"),
    ],
    ids=lambda value: None,
)
def test_other_shapes_of_source(text, line, tmp_path):
    assert line in repaired(text, tmp_path / "program.py").splitlines()


# What cannot be written for certain stays in words


REBOUND = """
import torch

a = torch.ones(64, device="cuda")
torch.cuda.synchronize()
for n in range(2):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        if n:
            b = a.sum()
        else:
            a.mul_(2)
"""

IN_A_LAMBDA = """
import torch

streams = [torch.cuda.Stream()]
a = torch.ones(64, device="cuda")
torch.cuda.synchronize()
double = lambda: a.mul_(2)
with torch.cuda.stream(streams[0]):
    double()
later = lambda: a.sum()
later()
"""

SWITCHED_WITHOUT_A_BLOCK = """
import torch

one, two = torch.cuda.Stream(), torch.cuda.Stream()
a = torch.ones(64, device="cuda")
torch.cuda.synchronize()
def fill():
    a.fill_(2)
torch.cuda.set_stream(one)
fill()
torch.cuda.set_stream(two)
try:
    b = a.sum()
finally:
    torch.cuda.set_stream(torch.cuda.default_stream())
"""


@pytest.mark.parametrize("text", [REBOUND, IN_A_LAMBDA, SWITCHED_WITHOUT_A_BLOCK])
def test_without_a_name_that_is_certain_the_fix_is_in_words(text, tmp_path):
    findings = findings_in(text, tmp_path / "program.py")
    assert findings
    for finding in findings:
        assert finding.fix is not None
        assert finding.fix.kind is FixKind.WAIT_STREAM
        assert finding.fix.words.startswith("before aten::sum of float32[64] at ")
        assert finding.fix.diff == ""


def located(text, line):
    sources = Sources(lambda name: dedent(text).splitlines(keepends=True))
    return sources.locate(f"program.py:{line}")


def scope_of(text, name, line):
    found = located(text, line)
    return binder(found.source, name, found.statement)


@pytest.mark.parametrize(
    "text",
    [
        "for s in streams:\n    work(s)\nuse(s)\n",
        "s = 1\ns = 2\nuse(s)\n",
        "s = 1\ns += 2\nuse(s)\n",
        "s = 1\ndef f():\n    global s\n    s = 2\nuse(s)\n",
        "while True:\n    s = make()\nuse(s)\n",
        "with make() as s:\n    pass\nuse(s)\n",
        "s = 1\ndel s\nuse(s)\n",
        "if (s := make()):\n    pass\nuse(s)\n",
        "s = 1\nuse(s)\nclass s: pass\nuse(s)\n",
        "try:\n    pass\nexcept E as s:\n    pass\nuse(s)\n",
    ],
)
def test_a_name_with_more_than_one_value_is_not_used(text):
    assert scope_of(text, "s", len(text.splitlines())) is None


def test_an_attribute_that_is_set_again_is_not_used():
    text = "def f(self):\n    self.s = make()\n    use(self.s)\n"
    assert scope_of(text, "self.s", 3) is None
    assert scope_of(text, "self.t", 3) is not None


@pytest.mark.parametrize(
    ("text", "is_bound"),
    [
        ("s = make()\nuse(s)\n", True),
        ("use(0)\ns = make()\n", False),
        ("if x:\n    s = make()\nuse(s)\n", False),
        ("with torch.no_grad():\n    s = make()\nuse(s)\n", True),
        ("with suppress(E):\n    s = make()\nuse(s)\n", False),
        ("def f(s):\n    use(s)\n", True),
        ("s = make()\nif x:\n    for y in z:\n        use(s)\n", True),
        ("try:\n    s = make()\nfinally:\n    use(s)\n", False),
    ],
)
def test_a_name_is_used_only_where_it_is_bound(text, is_bound):
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "use(" in line)
    found = located(text, line)
    scope = binder(found.source, "s", found.statement)
    assert is_bound_before(found.source, "s", scope, found.statement) is is_bound


@pytest.mark.parametrize(
    "text",
    [
        "for x in a.sum():\n    pass\n",
        "while a.sum():\n    pass\n",
        "if x:\n    pass\nelif a.sum():\n    pass\n",
        "b = (a.sum() for _ in x)\n",
        "b = lambda: a.sum()\n",
        "match a.sum():\n    case 1: pass\n",
    ],
)
def test_where_no_line_can_go_in_front_there_is_no_edit(text):
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "a.sum()" in line)
    found = located(text, line)
    assert found is None or before(found.source, found.statement, "wait()") is None


def test_lines_keep_the_indentation_and_go_around_whole_statements():
    text = "if x:\n\tb = f(\n\t\ta,\n\t)  # both\n\n"
    found = located(text, 3)
    assert before(found.source, found.statement, "w()") == Edit(2, "\tw()\n")
    assert after(found.source, found.statement, "w()") == Edit(5, "\tw()\n")
    returning = located("def f():\n    return a.sum()\n", 2)
    assert after(returning.source, returning.statement, "w()") is None


@pytest.mark.parametrize(
    ("text", "expected_before", "expected_after"),
    [
        ("x = 1; b = a.sum()\n", "x = 1; w(); b = a.sum()\n", "x = 1; b = a.sum(); w()\n"),
        ("b = a.sum(); x = 1  # ü\n", "w()\nb = a.sum(); x = 1  # ü\n", "b = a.sum(); w(); x = 1  # ü\n"),
        ("ü = 1; b = a.sum(); c = 2;\n", "ü = 1; w(); b = a.sum(); c = 2;\n", "ü = 1; b = a.sum(); w(); c = 2;\n"),
        ("if x: b = a.sum()\n", "if x: w(); b = a.sum()\n", "if x: b = a.sum(); w()\n"),
        ("with s: b = a.sum(); c = 1\n", "with s: w(); b = a.sum(); c = 1\n", "with s: b = a.sum(); w(); c = 1\n"),
        (
            "b = f(\n    a.sum()\n); c = 1\n",
            "w()\nb = f(\n    a.sum()\n); c = 1\n",
            "b = f(\n    a.sum()\n); w(); c = 1\n",
        ),
    ],
)
def test_of_several_statements_on_a_line_the_one_of_the_access_is_edited(text, expected_before, expected_after):
    statement = next(
        node.parent
        for node in ast.walk(with_parents(ast.parse(text)))
        if isinstance(node, ast.Call) and ast.unparse(node) == "a.sum()"
    )
    source = Source(text.splitlines(keepends=True))
    for edit, expected in ((before, expected_before), (after, expected_after)):
        assert source.edited([edit(source, statement, "w()")]) == expected


def with_parents(tree):
    """Gives each node of a statement that statement as its parent."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign):
            for node in ast.walk(statement):
                node.parent = statement
    return tree


def test_edits_at_one_place_keep_their_order():
    source = Source(["a()\n", "b(); c(); d()\n"])
    edits = [Edit(2, "first()\n"), Edit(2, "second()\n"), Edit(2, "; third()", 8), Edit(2, "fourth(); ", 10)]
    assert source.edited(edits) == "a()\nfirst()\nsecond()\nb(); c(); third(); fourth(); d()\n"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("h.copy_(d, non_blocking=True)", "h.copy_(d)"),
        ("d.to('cpu', non_blocking=True, copy=True)", "d.to('cpu', copy=True)"),
        ("d.to(non_blocking=True)", "d.to()"),
        ("d.to(non_blocking=True, device='cpu')", "d.to(device='cpu')"),
        ("d.to('ü', non_blocking=True)  # ü", "d.to('ü')  # ü"),
    ],
)
def test_a_keyword_is_taken_out_of_its_call(call, expected):
    source = Source([call + "\n"])
    edit = without_keyword(source, source.tree.body[0].value, "non_blocking")
    assert source.edited([edit]) == expected + "\n"


@pytest.mark.parametrize(
    ("code", "op", "argument", "expected"),
    [
        ("h.copy_(x)", "aten::copy_", "src", "x"),
        ("h.copy_(x)", "aten::copy_", "self", "h"),
        ("x.to('cpu')", "aten::_to_copy", "self", "x"),
        ("x.cpu()", "aten::_to_copy", "self", "x"),
        ("torch.add(x, self.y)", "aten::add", "other", "self.y"),
        ("x @ w", "aten::mm", "mat2", "w"),
        ("x * w", "aten::mul", "self", "x"),
        ("s * x", "aten::mul", "self", None),  # one tensor, and no telling which
        ("2 * x", "aten::mul", "self", "x"),
        ("x * 2", "aten::mul", "self", "x"),
        ("torch.where(c, x, y)", "aten::where", "self", "x"),
        ("x.where(c, y)", "aten::where", "other", "y"),
        ("torch.addmm(b, x, y)", "aten::addmm", "mat2", "y"),
        ("torch.add(x, other=y)", "aten::add", "other", "y"),
        ("batch[0].sum()", "aten::sum", "self", "batch[0]"),
        ("batches[i].sum()", "aten::sum", "self", "batches[i]"),
        ("next(it).sum()", "aten::sum", "self", None),
        ("x[f()].sum()", "aten::sum", "self", None),
        ("model(x)", "aten::addmm", "mat1", None),
        ("x.mean()", "aten::sum", "self", None),
        ("torch.cat(parts)", "aten::cat", "tensors", None),
        ("[t.sum() for t in parts]", "aten::sum", "self", None),
        ("f(*x)", "aten::f", "self", None),
    ],
)
def test_the_tensor_is_named_only_where_the_call_is_the_operator(code, op, argument, expected):
    source = Source([code + "\n"])
    statement = source.tree.body[0]
    calls = [n for n in ast.walk(statement) if isinstance(n, (ast.Call, ast.BinOp))]
    expression = calls[-1] if "for t" in code else calls[0]
    found = Located(source, Spot("p", "p", 1), statement, expression, source.tree)
    arguments = {argument, "self", "other"} if "*" not in code or "w" in code else {argument}
    assert tensor_expression(found, op, argument, arguments) == expected


def test_what_is_no_python_has_no_diff():
    source = Source(["x = (1,\n", "2)\n"])
    assert source.diff([Edit(2, "wait()\n")], "In[1]") == ""
    assert Sources(lambda name: ["x = (\n"]).locate("In[1]:1") is None
    assert Sources(lambda name: []).locate("In[1]:1") is None


def test_a_diff_names_the_cell():
    source = Source(["await x", "b = 1"])
    assert source.diff([Edit(2, "wait()\n")], "In[7]").splitlines() == [
        "--- In[7]",
        "+++ In[7]",
        "@@ -1,2 +1,3 @@",
        " await x",
        "+wait()",
        " b = 1",
    ]


@pytest.mark.parametrize("is_rebound", [False, True])
def test_accesses_in_two_cells_of_a_notebook(is_rebound):
    # A name that no cell of another test binds: linecache is the process's.
    cells = [
        "import torch\nlone = torch.cuda.Stream()\na = torch.ones(64, device='cuda')\ntorch.cuda.synchronize()\n",
        "with torch.cuda.stream(lone):\n    a.mul_(2)\n",
        "lone = torch.cuda.Stream()\n" if is_rebound else "print(lone)\n",
        "b = a.sum()\n",
    ]
    names = [f"<ipython-input-{n}-test>" for n in range(len(cells))]
    for name, cell in zip(names, cells, strict=True):
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    space = {}
    try:
        with cudalens.virtual.device("h100"), cudalens.sanitize() as san:
            for name, cell in zip(names, cells, strict=True):
                exec(compile(cell, name, "exec"), space)
            (finding,) = findings_of(san.log.records(), san.races)
    finally:
        for name in names:
            del linecache.cache[name]
    assert ("+torch.cuda.current_stream().wait_stream(lone)\n b = a.sum()" in finding.fix.diff) is not is_rebound


def test_a_diff_shows_magics_as_they_were_typed():
    typed = ["%%cudasan --var t\n", "%time b = 1\n", "use(b)\n"]
    run = ["u'%%cudasan --var t'\n", "get_ipython().run_line_magic('time', 'b = 1')\n", "use(b)\n"]
    source = Sources(lambda name: run, lambda name: typed).source("In[7]")
    assert source.diff([Edit(3, "wait()\n")], "In[7]").splitlines()[2:] == [
        "@@ -1,3 +1,4 @@",
        " %%cudasan --var t",
        " %time b = 1",
        "+wait()",
        " use(b)",
    ]
    assert source.diff([Edit(2, "other()", 0, 5)], "In[7]") == ""
    for other in (["use(c)\n"], [*typed[:2], "use(c)\n"]):  # another cell of this name
        assert "use(c)" not in Source(run, other).diff([Edit(3, "wait()\n")], "In[7]")


# CUDA graphs: a fix is written where the graph is replayed, never into code that was captured

REPLAYED_ON_A_SIDE_STREAM = """
import torch

side = torch.cuda.Stream()
a = torch.ones(64, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    a.mul_(2)
    a.add_(1)
torch.cuda.synchronize()
a.fill_(1)
with torch.cuda.stream(side):
    graph.replay()
"""

INPUT_REFILLED_DURING_A_REPLAY = """
import torch

side = torch.cuda.Stream()
static = torch.ones(64, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    out = static * 2
torch.cuda.synchronize()
with torch.cuda.stream(side):
    graph.replay()
static.fill_(3)
"""

WARMED_UP_ON_A_SIDE_STREAM = """
import torch

side = torch.cuda.Stream()
a = torch.ones(64, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
def step():
    a.mul_(2)
a.fill_(1)
with torch.cuda.stream(side):
    step()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    step()
graph.replay()
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (REPLAYED_ON_A_SIDE_STREAM, "side.wait_stream(torch.cuda.current_stream())"),
        (INPUT_REFILLED_DURING_A_REPLAY, "torch.cuda.current_stream().wait_stream(side)"),
    ],
)
def test_races_with_graphs_are_fixed_outside_of_the_captured_code(text, line, tmp_path):
    fixed = repaired(text, tmp_path / "program.py")
    assert [each for each in fixed.splitlines() if each not in text.splitlines()] == [line]


def test_the_words_of_a_race_with_a_graph_name_the_replay(tmp_path):
    text = REPLAYED_ON_A_SIDE_STREAM.replace("side = torch.cuda.Stream()", "streams = [torch.cuda.Stream()]")
    text = text.replace("stream(side)", "stream(streams[0])").replace(
        "    graph.replay()", "    (lambda: graph.replay())()"
    )
    path = tmp_path / "program.py"
    line = text.splitlines().index("    (lambda: graph.replay())()") + 1
    findings = findings_in(text, path)
    assert {finding.fix.diff for finding in findings} == {""}
    assert findings[0].fix.words.startswith(f"before the replay at {path}:{line} of aten::")


def test_no_fix_is_written_into_code_that_was_also_captured(tmp_path):
    (finding,) = findings_in(WARMED_UP_ON_A_SIDE_STREAM, tmp_path / "program.py")
    assert finding.fix.diff == ""
    assert finding.fix.kind is FixKind.WAIT_STREAM


# Several devices: the current stream is that of the current device, which need not be the tensor's

ON_A_DEVICE_THAT_IS_NOT_CURRENT = """
import torch

side, elsewhere = torch.cuda.Stream(0), torch.cuda.Stream(1)
a, other = torch.ones(64, device="cuda:0"), torch.ones(64, device="cuda:1")
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
a.add_(1)
with torch.cuda.stream(side):
    with torch.cuda.stream(elsewhere):
        a.mul_(2)
"""


@pytest.mark.parametrize("device", [0, 1])
def test_with_several_devices_a_fix_names_the_device(device, tmp_path):
    text = ON_A_DEVICE_THAT_IS_NOT_CURRENT.replace("a.add_(1)", f"a.add_(1)\ntorch.cuda.set_device({device})")
    fixed = repaired(text, tmp_path / "program.py", spec="h100x2")
    line = "        torch.cuda.current_stream(0).wait_stream(torch.cuda.default_stream(0))"
    assert [each for each in fixed.splitlines() if each not in text.splitlines()] == [line]


RUNS_ON_TWO_DEVICES = """
import torch

def double(x):
    x.mul_(2)

streams = [torch.cuda.Stream(0)]
a, other = torch.ones(64, device="cuda:0"), torch.ones(64, device="cuda:1")
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
double(other)
a.add_(1)
with torch.cuda.stream(streams[0]):
    double(a)
"""


def test_no_fix_is_written_at_a_statement_that_runs_on_several_devices(tmp_path):
    (finding,) = findings_in(RUNS_ON_TWO_DEVICES, tmp_path / "program.py", spec="h100x2")
    assert finding.fix.kind is FixKind.WAIT_STREAM
    assert finding.fix.diff == ""


IN_THE_BLOCK_OF_ANOTHER_DEVICE = """
import torch

streams, two, elsewhere = [torch.cuda.Stream(0)], torch.cuda.Stream(0), torch.cuda.Stream(1)
a, other = torch.ones(64, device="cuda:0"), torch.ones(64, device="cuda:1")
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
with torch.cuda.stream(streams[0]):
    a.add_(1)
with torch.cuda.stream(two):
    with torch.cuda.stream(elsewhere):
        a.mul_(2)
"""


def test_a_block_that_switches_the_stream_of_another_device_names_no_stream_of_this_one(tmp_path):
    fixed = repaired(IN_THE_BLOCK_OF_ANOTHER_DEVICE, tmp_path / "program.py", spec="h100x2")
    assert "elsewhere.wait_stream" not in fixed


# What is called checked: the diff runs, and no race of the same cause is left

MODULE_THAT_MOVES = """
import torch

side = torch.cuda.Stream()

def step():
    lin = torch.nn.Linear(8, 8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        lin.to("cpu", non_blocking=True)
    del lin
    return torch.zeros(8, 8, device="cuda")

out = step()
"""

EMBEDDING_OF_A_FREED_INDEX = """
import torch
import torch.nn.functional as F

side = torch.cuda.Stream()

def step():
    index = torch.zeros(64, dtype=torch.int64, device="cuda")
    weight = torch.ones(64, 8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = F.embedding(index, weight)
    del index, weight
    return torch.zeros(64, 8, device="cuda"), torch.zeros(64, dtype=torch.int64, device="cuda"), out

out = step()
"""


@pytest.mark.parametrize("text", [MODULE_THAT_MOVES, EMBEDDING_OF_A_FREED_INDEX], ids=["Module.to", "F.embedding"])
def test_a_tensor_is_named_only_if_the_line_calls_the_operator_itself(text, tmp_path):
    findings = findings_in(text, tmp_path / "program.py")
    assert findings
    for finding in findings:
        assert finding.fix.kind is FixKind.RECORD_STREAM
        assert finding.fix.diff == ""


FED_BY_TWO_STREAMS = """
import torch

one, two = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(one):
    a = x * 2
with torch.cuda.stream(two):
    b = x * 3
out = torch.cat([a, b])
"""

FED_BY_A_LOOP_OVER_STREAMS = """
import torch

streams = [torch.cuda.Stream() for _ in range(3)]
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
parts = []
for stream in streams:
    with torch.cuda.stream(stream):
        parts.append(x * 2)
out = torch.cat(parts)
"""

SPREAD_OVER_STREAMS_IN_A_LOOP = """
import torch

def main():
    streams = [torch.cuda.Stream() for _ in range(3)]
    x = torch.ones(64, device="cuda")
    torch.cuda.synchronize()
    x.add_(1)
    for stream in streams:
        with torch.cuda.stream(stream):
            y = x * 2

main()
"""

EVENTS_OF_TWO_STREAMS = """
import torch

streams = [torch.cuda.Stream() for _ in range(3)]
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(streams[0]):
    a = x * 2
with torch.cuda.stream(streams[1]):
    b = x * 3
with torch.cuda.stream(streams[2]):
    out = torch.cat([a, b])
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            FED_BY_TWO_STREAMS,
            ["torch.cuda.current_stream().wait_stream(one)", "torch.cuda.current_stream().wait_stream(two)"],
        ),
        (FED_BY_A_LOOP_OVER_STREAMS, ["    torch.cuda.current_stream().wait_stream(stream)"]),
        (SPREAD_OVER_STREAMS_IN_A_LOOP, ["        stream.wait_stream(torch.cuda.current_stream())"]),
        (
            EVENTS_OF_TWO_STREAMS,
            [
                "    done = torch.cuda.current_stream().record_event()",
                "    done_2 = torch.cuda.current_stream().record_event()",
                "    torch.cuda.current_stream().wait_event(done)",
                "    torch.cuda.current_stream().wait_event(done_2)",
            ],
        ),
    ],
    ids=["two blocks", "loop before", "loop after", "events"],
)
def test_one_fix_covers_all_streams_that_feed_an_operator(text, lines, tmp_path):
    path = tmp_path / "program.py"
    for finding in findings_in(text, path):
        fixed = applied(text, finding.fix.diff)
        assert [line for line in fixed.splitlines() if line not in text.splitlines()] == lines
        assert not findings_in(fixed, path)


def test_words_name_every_stream_that_must_be_waited_for(tmp_path):
    text = FED_BY_A_LOOP_OVER_STREAMS.replace("parts.append(x * 2)", "(lambda: parts.append(x * 2))()")
    text = text.replace("stream(stream)", "stream(streams[len(parts)])")
    (finding,) = findings_in(text, tmp_path / "program.py")
    assert finding.fix.diff == ""
    streams = {i.record.stream for i in finding.fix.insertions if isinstance(i.record, EventRecorded)}
    assert len(streams) == 3
    assert all(stream_name(stream) in finding.fix.words for stream in streams)


ON_A_STREAM_OF_ITS_OWN_CONTEXT_MANAGER = """
import contextlib
import torch

side = torch.cuda.Stream()
d = torch.ones(64, device="cuda")
h = torch.empty(64, pin_memory=True)
torch.cuda.synchronize()

@contextlib.contextmanager
def on_side():
    with torch.cuda.stream(side):
        yield

with on_side():
    h.copy_(d, non_blocking=True)
total = h.sum()
"""

ON_A_STREAM_OF_AN_EXIT_STACK = """
import contextlib
import torch

side = torch.cuda.Stream()
d = torch.ones(64, device="cuda")
h = torch.empty(64, pin_memory=True)
torch.cuda.synchronize()
with contextlib.ExitStack() as stack:
    stack.enter_context(torch.cuda.stream(side))
    h.copy_(d, non_blocking=True)
total = h.sum()
"""

STREAM_BY_NAME = """
import contextlib
import torch

streams = {"side": torch.cuda.Stream()}
x = torch.ones(64, device="cuda")
torch.cuda.synchronize()

class Pool:
    def stream(self, name):
        return torch.cuda.stream(streams[name])

pool, name = Pool(), "side"
x.add_(1)
with pool.stream(name):
    x.mul_(2)
"""


@pytest.mark.parametrize(
    "text",
    [ON_A_STREAM_OF_ITS_OWN_CONTEXT_MANAGER, ON_A_STREAM_OF_AN_EXIT_STACK, STREAM_BY_NAME],
    ids=["context manager", "exit stack", "stream by name"],
)
def test_code_on_a_stream_that_the_source_does_not_show_is_repaired(text, tmp_path):
    repaired(text, tmp_path / "program.py")


TORCH_IS_IMPORTED_ELSEWHERE = """
def make():
    import torch as t
    return t.cuda.Stream(), t.ones(64, device="cuda"), t.cuda.stream

side, x, on = make()
x.add_(1)
with on(side):
    x.mul_(2)
"""


def test_a_name_that_only_another_function_has_is_not_used(tmp_path):
    (finding, *_) = findings_in(TORCH_IS_IMPORTED_ELSEWHERE, tmp_path / "program.py")
    assert finding.fix is not None
    assert finding.fix.diff == ""


def test_what_does_not_compile_has_no_diff():
    source = Source(["x = 1\n"])
    assert source.diff([Edit(2, "return x\n")], "In[1]") == ""  # parses


# Races of a replay, and within a capture

BRANCHES_OF_ONE_CAPTURE = """
import torch

side = torch.cuda.Stream()
x = torch.ones(64, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2)
    y = x + 1
    torch.cuda.current_stream().wait_stream(side)
graph.replay()
"""

WARMED_UP_AND_CAPTURED = """
import torch

side = torch.cuda.Stream()
x = torch.ones(64, device="cuda")
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()

def step():
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2)
    y = x + 1
    torch.cuda.current_stream().wait_stream(side)

step()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    step()
graph.replay()
"""


@pytest.mark.parametrize("text", [BRANCHES_OF_ONE_CAPTURE, WARMED_UP_AND_CAPTURED], ids=["captured", "also run"])
def test_a_race_between_the_streams_of_a_capture_is_fixed_in_the_captured_code(text, tmp_path):
    (finding,) = findings_in(text, tmp_path / "program.py")
    assert finding.between is not None
    fixed = repaired(text, tmp_path / "program.py")
    (line,) = [line for line in fixed.splitlines() if line not in text.splitlines() or line.endswith("(side)")][:1]
    assert "wait_stream" in line


JOINED_LATER = """
import torch

side, x = torch.cuda.Stream(), torch.ones(64, device="cuda")
graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
torch.cuda.synchronize()

def read():
    return x + 1

with torch.cuda.graph(graphs[0]):
    read()  # without the other stream: waiting for it is an error
with torch.cuda.graph(graphs[1]):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2)
    read()
    torch.cuda.current_stream().wait_stream(side)
"""


def test_no_wait_for_a_stream_that_is_not_captured_is_written_into_captured_code(tmp_path):
    (finding,) = findings_in(JOINED_LATER, tmp_path / "program.py")
    assert finding.fix is not None
    if finding.fix.diff:
        fixed = applied(JOINED_LATER, finding.fix.diff)
        assert not findings_in(fixed, tmp_path / "program.py")


def test_a_race_with_a_replay_is_at_the_replay(tmp_path):
    path = tmp_path / "program.py"
    (race,) = {
        f.race.first.captured or f.race.second.captured: f.race
        for f in findings_in(INPUT_REFILLED_DURING_A_REPLAY, path)
    }.values()
    assert race.first.place.source == "graph.replay()"
    assert race.first.captured.source == "out = static * 2"
    assert race.second.captured is None
    assert f"at {race.first.place} (captured at {race.first.captured})" in describe(race)


OVERLAPPING_WRITES_OF_A_GRAPH = """
import torch

side = torch.cuda.Stream()
a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    a.add_(1)
    a[:32].copy_(b[:32])
torch.cuda.synchronize()
graph.replay()
with torch.cuda.stream(side):
    a.mul_(2)
"""


def test_the_fix_of_a_race_with_a_replay_is_found_if_its_operations_overlap(tmp_path):
    findings = findings_in(OVERLAPPING_WRITES_OF_A_GRAPH, tmp_path / "program.py")
    assert {finding.race.first.captured.source for finding in findings} == {"a.add_(1)", "a[:32].copy_(b[:32])"}
    assert all(finding.fix.diff for finding in findings)
    repaired(OVERLAPPING_WRITES_OF_A_GRAPH, tmp_path / "program.py")
