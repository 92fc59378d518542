"""Fixes of cells that the rewrites were not written for: each fix computes what the cell computes, on other data too.

A cell runs with its variables as they were when the fix was written, and with others: an empty list, other lengths,
an error in the middle. Variables, output and errors of the fixed cell must be those of the cell.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import cudalens
from cudalens.fixes.rewrites import REWRITES, fixes_for
from cudalens.fixes.rewrites.fix import program_of
from cudalens.fixes.trying.running import _Version
from cudalens.fixes.values import compare_values, values_in

HEAD = """
import asyncio, gc, math, time
import numpy as np
import torch, torch as th
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import softmax as soft
from torch.utils.checkpoint import checkpoint as ckpt
torch.manual_seed(0)
x = torch.randn(8, 8, device="cuda")
w = torch.randn(8, 8, device="cuda")
hosts = [torch.ones(4) * n for n in range(4)]
losses, total = [], 0.0
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True)).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
"""


@dataclass(frozen=True)
class Cell:
    """A cell, what runs before it, and what else may run before it."""

    code: str
    before: str = ""
    others: tuple[str, ...] = ()


CELLS = {
    # values that are read while the loop runs
    "return": Cell("result = epoch(9)", """
def epoch(n):
    for step in range(n):
        losses.append((x * step).mean().item())
        if step == 3:
            return step
"""),
    "try": Cell("""
try:
    for host in hosts:
        y = x[:, :4] * host.cuda()
        losses.append(y.mean().item())
        if host.sum() > limit:
            raise ValueError
except ValueError:
    print(len(losses))
""", "limit = 99", ("limit = 4",)),
    "try_in_loop": Cell("""
for one in items:
    try:
        losses.append(one.mean().item())
    except AttributeError:
        losses.append(-1.0)
""", "items = [x, w]", ("items = [x, None, w]",)),
    "function_reads_list": Cell("""
for step in range(4):
    losses.append((x * step).mean().item())
    report()
""", "seen = []\ndef report():\n    seen.append(len(losses))"),
    "lambda_reads_total": Cell("""
seen = []
now = lambda: total
for step in range(4):
    total += (x * step).mean().item()
    seen.append(now())
"""),
    "method_reads_attribute": Cell("meter.run()\nresult = meter.means", """
class Meter:
    def __init__(self):
        self.losses, self.means = [], []
    def mean(self):
        return sum(self.losses) / len(self.losses)
    def run(self):
        for step in range(4):
            self.losses.append((x * step).mean().item())
            self.means.append(self.mean())
meter = Meter()
"""),
    "alias_of_list": Cell("""
log = losses
for step in range(4):
    losses.append((x * step).mean().item())
    print(len(log))
"""),
    "generator": Cell("result = list(epoch())", """
def epoch():
    for step in range(4):
        losses.append((x * step).mean().item())
        yield len(losses)
"""),
    "async": Cell("asyncio.run(both())", """
seen = []
async def both():
    await asyncio.gather(train(), watch())
async def train():
    for step in range(3):
        losses.append((x * step).mean().item())
        await asyncio.sleep(0)
async def watch():
    for _ in range(3):
        seen.append(len(losses))
        await asyncio.sleep(0)
"""),
    "condition_on_one_line": Cell("""
total = 0.0
for step in range(6):
    if step % every == 0: total += (x * step).mean().item() * len(x)
""", "every = 1", ("every = 2",)),
    "semicolons": Cell("total = 0.0\nfor step in range(6): y = x * step; total += y.mean().item()"),
    "element_of_one_item": Cell("""
for step in range(4):
    y = x.sum(0)[:1] * step
    losses.append(y.item())
"""),
    "buffer_of_values": Cell("""
out = torch.zeros((), device="cuda")
for step in range(4):
    loss = out
    out += x.mean()
    losses.append(loss.item())
"""),
    "out_argument": Cell("""
out = torch.zeros((), device="cuda")
for step in range(4):
    loss = torch.add(x.mean(), step, out=out)
    losses.append(loss.item())
"""),
    "view_that_changes": Cell("""
state = torch.zeros(4, device="cuda")
for step in range(4):
    value = state[0]
    state += step
    losses.append(value.item())
"""),
    "function_of_static_output": Cell("""
for step in range(4):
    loss = static(step)
    losses.append(loss.item())
""", "out = torch.zeros((), device='cuda')\ndef static(n):\n    return out.copy_(x.mean() * n)"),
    "tensor_factor": Cell("""
scale = torch.ones((), device="cuda")
total = 0.0
for step in range(4):
    total += (x * step).mean().item() * scale
    scale.mul_(2)
"""),
    "name_taken": Cell("""
_losses_values = "mine"
for step in range(4):
    losses.append((x * step).mean().item())
print(_losses_values)
"""),
    "walrus": Cell("""
while (count := len(losses)) < 4:
    losses.append((loss := (x * count).mean()).item())
"""),
    "walrus_value": Cell("""
for step in range(4):
    losses.append((loss := x.mean() * step).item())
print(loss)
"""),
    "loop_else": Cell("""
for step in range(4):
    total += (x * step).mean().item()
else:
    print(f"{total:.6f}")
"""),
    "del_after_item": Cell("""
for step in range(4):
    loss = (x * step).mean()
    losses.append(loss.item())
    del loss
"""),
    "nested_loops": Cell("""
for epoch in range(2):
    total = 0.0
    for host in hosts:
        total += (x * epoch).mean().item() / len(hosts)  # mean
    losses.append(total)
""", "", ("hosts = []",)),
    "f_string": Cell("""
for step in range(3):
    loss = (x * step).mean()
    losses.append(loss.item())
    print(f"{step}: {losses[-1]:.4f} {loss.item():.4f}")
"""),
    "nonlocal": Cell("result = outer()", """
def outer():
    total, seen = 0.0, []
    def add(step):
        nonlocal total
        total += (x * step).mean().item()
        seen.append(total)
    for step in range(4):
        add(step)
    return seen
"""),
    "global_total": Cell("run()", """
def run():
    global total
    for step in range(4):
        total += (x * step).mean().item()
        show()
def show():
    print(f"{total:.5f}")
"""),
    "class_body": Cell("""
class Run:
    values = []
    for step in range(3):
        values.append((x * step).mean().item())
result = Run.values
"""),
    "deque": Cell("""
import collections
recent = collections.deque(maxlen=2)
for step in range(4):
    recent.append((x * step).mean().item())
"""),
    "own_append": Cell("""
for step in range(3):
    meter.append((x * step).mean().item())
""", """
class Meter(list):
    count = 0
    def append(self, value):
        self.count += 1
        super().append(value)
meter = Meter()
"""),
    "copies_with_gradients": Cell("""
kept = []
y = x.clone().requires_grad_()
for step in range(3):
    z = y * step
    kept.append(z.cpu())
torch.stack(kept).sum().backward()
result = y.grad
"""),
    "copies_without_gradients": Cell("""
kept = []
y = x.clone().requires_grad_()
for step in range(3):
    with torch.no_grad():
        z = y * step
        kept.append(z.cpu())
"""),
    "copy_of_a_buffer": Cell("""
kept = []
y = torch.zeros(4, device="cuda")
for step in range(3):
    z = y.view(2, 2)
    y.add_(1)
    kept.append(z.cpu())
"""),
    # waits
    "wait_for_time": Cell("""
times = []
start = time.perf_counter()
for step in range(3):
    y = x @ w
    torch.cuda.synchronize()
times.append(time.perf_counter() - start > 0)
"""),
    "item_of_object": Cell("""
for one in bag:
    one.item()
""", """
class Thing:
    def __init__(self): self.count = 0
    def item(self): self.count += 1
bag = [Thing()]
"""),
    "two_waits": Cell("""
for _ in range(3):
    torch.cuda.synchronize()
    torch.cuda.synchronize()
"""),
    # work that moves out of a loop
    "nested_function": Cell("""
results = []
for n in range(3):
    def make(size): return torch.zeros(size, 2, device="cuda")
    results.append(make(n + 1).sum())
""", "size = 5"),
    "lambda": Cell("""
results = []
for n in range(3):
    make = lambda size: torch.ones(size, device="cuda").sum()
    results.append(make(n + 1))
""", "size = 5"),
    "comprehension_variable": Cell("""
for step in range(3):
    parts = [torch.ones(n, device="cuda") * 2 for n in range(1, 3)]
""", "n = 7"),
    "parameter_of_a_net": Cell("""
seen = []
for step in range(3):
    half = net[0].weight.half()
    seen.append(half.sum() * 1)
    opt.zero_grad(); net(x).sum().backward(); opt.step()
"""),
    "buffer_of_a_net": Cell("""
seen = []
mean = norm.running_mean
for step in range(3):
    seen.append(mean.double() * 1)
    norm(x)
""", "norm = nn.BatchNorm1d(8).cuda()"),
    "alias_is_written": Cell("""
seen = []
z = x
for step in range(3):
    seen.append(x.half() * 1)
    z += 1
"""),
    "view_is_written": Cell("""
seen = []
row = x[0]
for step in range(3):
    seen.append(x.half() * 1)
    row.add_(1)
"""),
    "function_writes_global": Cell("""
seen = []
for step in range(3):
    seen.append(x.half() * 1)
    grow()
""", "def grow():\n    x.add_(1)"),
    "argument_is_written": Cell("""
seen = []
for step in range(3):
    seen.append(x.half() * 1)
    grow(x)
""", "def grow(z):\n    z.add_(1)"),
    "result_is_written_by_module": Cell("""
seen = []
for step in range(3):
    y = torch.ones(8, 8, device="cuda")
    seen.append(net[1](y - 2).sum() + nn.functional.relu(y.sub_(1), inplace=True).sum())
"""),
    "inplace_module": Cell("""
seen = []
for step in range(3):
    y = torch.full((8, 8), -1.0, device="cuda")
    layer(y)
    seen.append(y * 1)
""", "layer = nn.ReLU(inplace=True)"),
    "view_of_result_is_written": Cell("""
seen = []
for step in range(3):
    y = torch.zeros(4, device="cuda")
    z = y.view(2, 2)
    z[0] += step
    seen.append(y * 1)
"""),
    "row_of_result_is_written": Cell("""
seen = []
for step in range(3):
    y = torch.zeros(4, 4, device="cuda")
    row = y[0]
    row += step
    seen.append(y * 1)
"""),
    "result_is_returned": Cell("""
seen = []
for step in range(3):
    y = torch.zeros(4, device="cuda")
    seen.append((step, y))
seen[0][1].add_(1)
"""),
    "leaf_in_loop": Cell("""
seen = []
for step in range(3):
    weight = torch.ones(8, device="cuda", requires_grad=True)
    (x * weight).sum().backward()
    seen.append(weight.grad * 1)
"""),
    "error_in_loop": Cell("""
seen = []
for step in range(3):
    try:
        y = w.view(4, 16).half() + torch.ones(shape, device="cuda")
    except RuntimeError:
        y = None
    seen.append(y)
""", "shape = (4, 16)", ("shape = (3, 5)",)),
    "block_of_settings": Cell("""
seen = []
y = x.clone().requires_grad_()
for step in range(3):
    with torch.no_grad():
        seen.append(y.half() * 1)
"""),
    "tensor_of_a_list": Cell("""
seen, data = [], [1.0]
for step in range(3):
    seen.append(torch.tensor(data, device="cuda") * 1)
    data.append(2.0)
"""),
    "tensor_of_an_alias": Cell("""
seen, data = [], [1.0]
other = data
for step in range(3):
    seen.append(torch.tensor(data, device="cuda").sum() * 1)
    other.append(2.0)
"""),
    "names_in_except": Cell("""
for step in range(2):
    try:
        torch.ones(2, device="cuda")[step + 5]
    except IndexError as error:
        y = torch.ones(len(str(error)) % 7 + 1, device="cuda") * 2
"""),
    "multi_line_constant": Cell("""
for step in range(3):
    y = x[:, :3] / torch.tensor(
        [0.229, 0.224, 0.225],  # of ImageNet
        device="cuda",
    )
"""),
    "tril_in_loop": Cell("""
for step in range(3):
    y = x * torch.tril(torch.ones(8, 8, device="cuda")) + th.triu(th.ones(8, 8)).to("cuda")
"""),
    "strange_chain": Cell("""
for step in range(3):
    y = (
        (x + w)  # both
        .clone()
        .sum()
    )
    z = ((x + w).clone() * 2).sum()
"""),
    "contiguous_layout": Cell("""
for step in range(2):
    y = x.t().contiguous() * 2
z = y.view(-1)
"""),
    # loops that become one call
    "scope_of_function": Cell("many = x.expand(4, 8, 8)\nresult = [one.shape for one in products(many, many)]", """
a, b, n = torch.ones(2, 8, 8, device="cuda"), torch.ones(2, 8, 8, device="cuda"), 2
def products(a, b):
    out = []
    for k in range(2):
        out.append(torch.mm(a[k], b[k]))
    return out
"""),
    "range_of_a_variable": Cell("""
n = 2
out = []
for k in range(n):
    out.append(a[k] @ b[k])
n = 4
""", "a, b = torch.ones(4, 8, 8, device='cuda'), torch.ones(4, 8, 8, device='cuda')"),
    "rows_with_keywords": Cell("""
for row in x:
    row.add_(1, alpha=row.sum())
"""),
    "rows_with_own_element": Cell("""
first = x[0, 0]
for row in x:
    row.mul_(first)
"""),
    "casts_of_a_list": Cell("moved = [one.to(torch.float64) for one in hosts]\nkept = [one.cpu() for one in hosts]"),
    "moved_twice": Cell("moved = [one.to('cuda') for one in done]\nmoved[0].add_(1)\nresult = done[0]",
                        "done = [one.cuda() for one in hosts]"),
    "growing_tensor": Cell("""
out = torch.zeros(0, 8, device="cuda")
for step in range(steps):
    row = x[step]
    out = torch.cat([out, row[None]], dim=0)  # grows
    row.add_(1)
""", "steps = 4", ("steps = 0",)),
    "growing_tensor_is_read": Cell("""
out = x[:1]
for step in range(4):
    out = torch.cat([out, x[step:step + 1] * 2])
    print(out.shape)
"""),
    "growing_list_or_none": Cell("""
out = None
for step in range(4):
    y = x[step] * 2
    out = y if out is None else torch.cat([out, y])
"""),
    # attention, norms
    "query_changes": Cell("""
scores = q @ k.transpose(-2, -1) * 0.5
q = q * 2
out = torch.softmax(scores, dim=-1) @ k
""", "q, k = torch.randn(1, 2, 4, 8, device='cuda'), torch.randn(1, 2, 4, 8, device='cuda')"),
    "query_changes_in_place": Cell("""
scores = q @ k.transpose(-2, -1) * 0.5
q.mul_(2)
out = torch.softmax(scores, dim=-1) @ k
""", "q, k = torch.randn(1, 2, 4, 8, device='cuda'), torch.randn(1, 2, 4, 8, device='cuda')"),
    "bool_mask": Cell("out = torch.softmax(q @ q.mT * 0.5 + mask, -1) @ q",
                      "q = torch.randn(1, 2, 4, 8, device='cuda'); mask = torch.ones(4, 4, device='cuda').triu(1) > 0"),
    "weights_are_deleted": Cell("""
weights = soft(q @ q.mT * 0.5, dim=-1)
out = weights @ q
del weights
""", "q = torch.randn(1, 2, 4, 8, device='cuda')"),
    "closure_reads_weights": Cell("""
weights = soft(q @ q.mT * 0.5, dim=-1)
show = lambda: weights.sum()
out = weights @ q
result = show()
""", "q = torch.randn(1, 2, 4, 8, device='cuda')"),
    "centred_changes": Cell("""
y = x - x.mean(-1, keepdim=True)
x = x * 2
z = y / (y * y).mean(-1, keepdim=True).add(1e-5).sqrt()
"""),
    "centred_in_branch": Cell("""
y = x - x.mean(-1, keepdim=True)
if big:
    y = y * 3
z = y / (y * y).mean(-1, keepdim=True).add(1e-5).sqrt()
""", "big = False", ("big = True",)),
    # training
    "own_grad": Cell("track.clear()\nresult = track.grad", """
class Track:
    def __init__(self): self.grad = torch.ones(4, device="cuda")
    def clear(self):
        for _ in range(2):
            self.grad.zero_()
track = Track()
"""),
    "checkpoint_forms": Cell("""
options = {"use_reentrant": False}
y = x.clone().requires_grad_()
z = ckpt(lambda a, scale=1: a * scale, y, use_reentrant=False, scale=3)
z = z + ckpt(
    net,  # the layers
    *(y,),
    use_reentrant=False,
)
z.sum().backward()
"""),
    "empty_cache_after_error": Cell("""
for size in sizes:
    try:
        y = torch.ones(size, device="cuda")
    except RuntimeError:
        print("again")
        torch.cuda.empty_cache()
        gc.collect()
""", "sizes = [3, 4]", ("sizes = [3, -1, 4]",)),
    "only_cleaning": Cell("""
for _ in range(3):
    torch.cuda.empty_cache()
    gc.collect()
    torch.cuda.empty_cache()
"""),
    "string_in_method": Cell("result = prompt.text()", '''
class Prompt:
    def text(self):
        """Doc."""
        for _ in range(2):
            torch.cuda.empty_cache()
        return """first
            second
        """
prompt = Prompt()
'''),
    "private_names": Cell("result = counter.run()", """
class Counter:
    def __init__(self): self.__count = 2
    def run(self):
        for _ in range(self.__count):
            torch.cuda.empty_cache()
        return self.__count
counter = Counter()
"""),
    "decorated": Cell("result = step(3)", """
def twice(function):
    import functools
    @functools.wraps(function)
    def run(*args):
        return function(*args), function(*args)
    return run
@twice
@torch.no_grad()
def step(n):
    total = 0.0
    for k in range(n):
        total += (x * k).mean().item()
    return total
"""),
    "default_arguments": Cell("result = [step(), step(1)]", """
def step(n=3, seen=[]):
    for k in range(n):
        seen.append((x * k).mean().item())
    return len(seen)
"""),
    "super_method": Cell("result = child.run()", """
class Base:
    def run(self):
        return [1.0]
class Child(Base):
    def run(self):
        out = super().run()
        for k in range(3):
            out.append((x * k).mean().item())
        return out
child = Child()
"""),
    # copies
    "refilled_buffer": Cell("""
seen = []
for step in range(3):
    fill(buffer, step)
    y = buffer.to("cuda")
    seen.append(y * 1)
""", "buffer = torch.zeros(4)\ndef fill(one, value):\n    one.fill_(value)"),
    "refilled_through_numpy": Cell("""
seen = []
for step in range(3):
    view[:] = step
    y = buffer.to("cuda")
    seen.append(y * 1)
""", "buffer = torch.zeros(4); view = buffer.numpy()"),
    "batch_is_used": Cell("""
for host in hosts:
    y = host.to("cuda", non_blocking=True)
    print(host.numpy().sum(), host.device)
""", "hosts = [one.pin_memory() for one in hosts]"),
    "leaf_on_the_cpu": Cell("""
weight = torch.ones(4, requires_grad=True).to("cuda")
y = torch.zeros(4, pin_memory=True).to("cuda", non_blocking=True)
z = torch.zeros((4)).cuda() + torch.arange(  # a range
    4, dtype=torch.float32,
).to("cuda")
"""),
    "row_after_the_loop": Cell("""
for row in x:
    row.mul_(0.5)
last = row.sum()
"""),
    "row_in_a_function": Cell("""
for row in x:
    row.mul_(0.5)
y = last()
""", "def last():\n    return row.sum()"),
    "rows_of_a_function": Cell("y = halve(x)", """
def halve(given):
    for row in x:
        row.mul_(0.5)
    return row.sum()
"""),
    "index_after_the_loop": Cell("""
products = []
for k in range(len(a)):
    products.append(a[k] @ a[k])
n = k + 1
""", "a = torch.randn(4, 8, 8, device='cuda')"),
    "timed_function": Cell("""
begun = time.perf_counter() > 0
work()
""", """
def work():
    for _ in range(3):
        y = x @ w
        torch.cuda.synchronize()
"""),
    "same_function_name": Cell("y = x.mean()", "def mean():\n    for _ in range(3):\n        torch.cuda.empty_cache()"),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_fixes_compute_what_the_cell_computes(name):
    cell = CELLS[name]
    code = cell.code.strip("\n")
    with cudalens.virtual.device("h100"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = prepared(cell.before)
        run(lambda: exec(compile(code, "<cell>", "exec"), names))
        program = program_of("cell", code, names)
        fixes = {fix.title: fix for rule in REWRITES for fix in fixes_for(program, rule) if not fix.changes_behaviour}
        for fix in fixes.values():
            if any("torch.compile" in line for line in fix.setup):  # seconds each; it changes no line of the cell
                continue
            fixed = program.with_fix(fix)
            for before in (cell.before, *(f"{cell.before}\n{other}" for other in cell.others)):
                torch.manual_seed(0)
                expected = outcome(code, prepared(before))
                torch.manual_seed(0)
                found = outcome_of_fixed(fixed, program, prepared(before))
                assert_same(expected, found, fix, fixed.diff(program))


def prepared(text: str) -> dict[str, Any]:
    text = HEAD + text
    file = f"<before {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, file, "exec"), names)
    return names


def run(what) -> tuple[str, str]:
    """What it prints, and the error that it raises."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            what()
        except Exception as error:
            return out.getvalue(), f"{type(error).__name__}"
    return out.getvalue(), ""


def outcome(code: str, names: dict[str, Any]):
    objects = parts_of(names)
    printed = run(lambda: exec(compile(code, "<cell>", "exec"), names))
    return printed, leaves(names, objects)


def outcome_of_fixed(fixed, program, names: dict[str, Any]):
    """As `outcome`: the functions of `names` have the code of the fixed ones."""
    again = program_of("cell", program.cell.source.text, names)
    by_name = {unit.source.name: unit for unit in fixed.functions if unit.is_edited}
    texts = {
        unit.function: by_name[unit.source.name].source.text for unit in again.functions if unit.source.name in by_name
    }
    from dataclasses import replace

    from cudalens.fixes.source import Source

    functions = tuple(
        replace(unit, source=Source(unit.source.name, texts[unit.function], unit.source.first_line), is_edited=True)
        if unit.function in texts
        else unit
        for unit in again.functions
    )
    whole = replace(again, cell=replace(again.cell, source=fixed.cell.source), functions=functions, setup=fixed.setup)

    def go() -> None:
        with _Version(whole, again).installed():
            exec(compile(whole.cell_text(), "<fixed>", "exec"), names)

    objects = parts_of(names)
    return run(go), leaves(names, objects)


def parts_of(names: dict[str, Any]) -> dict[str, Any]:
    """What objects from before a cell hold, which it may bind other names to."""
    objects = {name: value for name, value in names.items() if not name.startswith("_") and hasattr(value, "__dict__")}
    mine = {name: vars(value) for name, value in objects.items() if type(value).__module__ == "__main__"}
    nets = {name: value for name, value in objects.items() if hasattr(type(value), "named_modules")}
    return mine | {name: [*net.parameters(), *net.buffers()] for name, net in nets.items()}


def assert_same(expected, found, fix, diff) -> None:
    assert expected[0] == found[0], diff
    first, second = expected[1], found[1]
    wanted = {key: value for key, value in first.items() if key.partition("[")[0] not in fix.dropped}
    difference = compare_values(wanted, second)
    assert difference.is_exact or (fix.changes_numbers and difference.is_within(1e-3)), f"{difference}\n{diff}"


def leaves(names: dict[str, Any], objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    skipped = {"HEAD", "asyncio", "hosts"}
    plain = {name: value for name, value in names.items() if not name.startswith("_") and name not in skipped}
    for name, value in (plain | objects).items():
        found |= dict(values_in(name, value if not hasattr(value, "maxlen") else list(value)))
        found |= {f"length of {name}": len(value)} if isinstance(value, list | dict) else {}
    for name, value in list(found.items()):
        if isinstance(value, torch.Tensor):
            found |= {f"{name}.device": str(value.device), f"{name}.requires_grad": value.requires_grad}
            found |= {f"{name}.grad": value.grad} if value.is_leaf and value.grad is not None else {}
    return found


WRITTEN = {
    "condition_on_one_line": ("host_sync", "if step % every == 0: _total_values.append("),
    "semicolons": ("host_sync", "y = x * step; _total_values.append("),
    "element_of_one_item": ("host_sync", ".flatten().tolist()"),
    "nested_loops": ("host_sync", "zip(torch.stack(_total_values).tolist() if _total_values else [], _total_factors"),
    "walrus_value": ("host_sync", "_losses_values.append((loss := x.mean() * step)"),
    "decorated": ("host_sync", None),
    "multi_line_constant": ("small_copies", "# of ImageNet"),
    "tril_in_loop": ("copies", "_tril_once = torch.tril(torch.ones(8, 8, device=\"cuda\"))"),
    "strange_chain": ("copies", "z = ((x + w) * 2).sum()"),
    "only_cleaning": ("driver_memory", "for _ in range(3):\n    gc.collect()"),
    "leaf_on_the_cpu": ("small_copies", "torch.zeros((4), device=\"cuda\")"),
    "checkpoint_forms": ("needless_checkpointing", "(lambda a, scale=1: a * scale)(y, scale=3)"),
    "two_waits": ("host_sync", "    pass"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("row_after_the_loop", "graphable"),
        ("row_in_a_function", "graphable"),
        ("rows_of_a_function", "graphable"),
        ("index_after_the_loop", "small_grids"),
        ("timed_function", "host_sync"),
    ],
)
def test_no_fix_is_written(name, rule):
    code = CELLS[name].code.strip("\n")
    with cudalens.virtual.device("h100"):
        names = prepared(CELLS[name].before)
        exec(compile(code, "<cell>", "exec"), names)
        program = program_of("cell", code, names)
        fixes = [fix for fix in fixes_for(program, rule) if not any("=" in line for line in fix.setup)]
        assert not [program.with_fix(fix).diff(program) for fix in fixes]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_fix_is_written(name):
    rule, text = WRITTEN[name]
    code = CELLS[name].code.strip("\n")
    with cudalens.virtual.device("h100"):
        names = prepared(CELLS[name].before)
        exec(compile(code, "<cell>", "exec"), names)
        program = program_of("cell", code, names)
        fixes = fixes_for(program, rule)
        assert fixes
        assert text is None or any(text in program.with_fix(fix).cell_text() for fix in fixes)
