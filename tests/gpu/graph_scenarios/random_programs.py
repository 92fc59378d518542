"""Random programs around one function: as a graph and without, with all that a program can observe of both.

A program is text: a function of some statements, and statements that run between its calls. It runs twice in namespaces
of its own, once with the function under a manager. `differences` compares results, their relations, gradients, the
state of the namespace and the numbers that the random generators draw after each call.

Usage: ``python -m graph_scenarios.random_programs FIRST LAST`` compares the programs of these seeds.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import random
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cudalens.graphs import GraphManager
from cudalens.graphs.relations import relations_of

NUM_CALLS = 7

#: Characters of a message that are compared: torch's messages go on with sizes and the names of its classes.
_MESSAGE = 90

#: What the namespace of a program holds.
SETUP = """
import collections, contextlib, contextvars, dataclasses, functools, os, random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(3)
random.seed(3)
np.random.seed(3)
os.environ["CUDALENS_TEST_SCALE"] = "2"
class Thing:
    total = 0
    def __init__(self):
        self.k, self.n, self.flag, self.state = 2.0, 0, False, torch.zeros(6, device="cuda")
        self.first, self.second = torch.ones(6, device="cuda"), torch.zeros(6, device="cuda")
    def __mul__(self, other):
        return other * self.k
w = nn.Parameter(torch.linspace(0.5, 1.5, 6, device="cuda"))
buf = torch.zeros(6, device="cuda")
host = torch.tensor(2.0)
table = np.ones(4)
cfg, log, cache, thing = {"scale": 1.5, "calls": 0}, [], {}, Thing()
net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.LayerNorm(6)).cuda()
FACTOR, COUNT = 1.25, 0
generator = torch.Generator(device="cuda")
generator.manual_seed(5)
def double(y): return y * 2
def triple(y): return y * 3
def traced(y):
    log.append(len(log))
    return y
helper = double
def vector(n): return torch.arange(6.0, device="cuda") / 5 + n
grid = torch.arange(36.0, device="cuda").view(6, 6) / 9
view, square = grid[0], grid.clone()
def shifted(y, by=vector(1)): return y + by
part = functools.partial(lambda y, by: y * by, by=vector(2))
double.shift, row = vector(3), collections.deque([vector(4)])
class Base:
    __slots__ = ("__inner",)
    shared = vector(5)
    def __init__(self): self.__inner = vector(6)
    def inner(self): return self.__inner
    def replace(self, n): self.__inner = vector(n)
class Derived(Base): pass
@dataclasses.dataclass
class Options:
    factor: object
slotted, options, variable = Derived(), Options(vector(7)), contextvars.ContextVar("variable")
bound = slotted.inner
variable.set({"by": vector(8)})
region = contextlib.nullcontext
"""

#: Statements of the function: `y` has six elements, `outs` are results besides it.
STATEMENTS = (
    "y = y * w",
    "y = y + cfg['scale']",
    "y = y * thing.k",
    "y = thing * y",
    "y = y * FACTOR",
    "y = net(y.view(1, 6)).view(6)",
    "y = helper(y)",
    "y = traced(y)",
    "y = y * box['k']",
    "y = y + len(box['list'])",
    "y = y * float(os.environ.get('CUDALENS_TEST_SCALE', '1'))",
    "y = y * float(table[0])",
    "y = y * getattr(thing, 'k')",
    "y = y * sum(getattr(thing, name) for name in ('k', 'n'))",
    "y = y + host.item()",
    "y = y + random.random()",
    "y = y + float(np.random.rand())",
    "y = y + torch.rand(()).item()",
    "y = y + torch.rand_like(y)",
    "y = y + torch.rand(6, device='cuda', generator=generator)",
    "y = F.dropout(y, 0.5)",
    "if thing.flag: y = y * 3",
    "if cfg['scale'] > 2: y = y - 1",
    "y = y + buf",
    "y = y + thing.state",
    "y = y.clone().mul_(2)",
    "z = y.exp(); z.add_(1); y = y + z",
    "buf.add_(1)",
    "buf.mul_(cfg['scale'])",
    "buf[1:3] = y.detach()[:2]",
    "thing.state = thing.state + 1",
    "thing.state = y.detach() + 1",
    "thing.first, thing.second = thing.second, thing.first",
    "y = y + thing.first",
    "thing.n += 1",
    "thing.shape = y.shape",
    "thing.last = x",
    "Thing.total += 1",
    "cfg['calls'] += 1",
    "cfg['name'] = 'fixed'",
    "log.append(cfg['scale'])",
    "log.append(1) if thing.flag else None",
    "cache.setdefault('table', torch.ones(6, device='cuda'))",
    "y = y + cache.get('table', 0)",
    "globals()['COUNT'] = COUNT + 1",
    "setattr(thing, 'n', thing.n + 1)",
    "table[0] += 1",
    "box['seen'] = 1",
    "box['list'].append(2)",
    "print('x', file=out)",
    "outs.append(y.view(2, 3))",
    "outs.append(y.detach())",
    "outs.append(y[2:5])",
    "outs.append(x)",
    "outs.append(x.detach())",
    "outs.append(x[1:4])",
    "outs.append(buf)",
    "outs.append(buf[:3])",
    "outs.append(w)",
    "outs.append(w.detach())",
    "outs.append(box['k'])",
    "outs.append(y.sum())",
    "outs.append(y)",
    "outs.append({'n': thing.n, 'y': y.cos()})",
    "outs.append(torch.zeros(3, device='cuda').requires_grad_())",
    "with torch.no_grad(): outs.append(y * w)",
    "with torch.no_grad(): y = y + 1",
    "y.register_hook(lambda g: g * 2) if y.requires_grad else None",
    "y.register_hook(lambda g: log.append('hook')) if y.requires_grad else None",
    "y.register_hook(lambda g: g * thing.k) if y.requires_grad else None",
    "y.register_hook(lambda g: g + buf) if y.requires_grad else None",
    "y = shifted(y)",
    "y = part(y)",
    "y = y + double.shift",
    "y = y * row[0]",
    "y = y + slotted.shared",
    "y = y * slotted.inner()",
    "y = y * bound()",
    "y = y + options.factor",
    "y = y + variable.get()['by']",
    "y = y * view",
    "y = (y.view(1, 6) @ square).view(6)",
    "with torch.autocast('cuda', torch.bfloat16): y = net[0](y.view(1, 6)).view(6).float()",
    "with torch.autocast('cuda', torch.bfloat16, cache_enabled=False): y = y + (y @ square).float()",
    "with torch.autocast('cuda', torch.float16): outs.append((y.view(1, 6) @ square) @ square)",
    "with torch.autocast('cuda', enabled=False): y = (y.float() @ square)",
    "y = y.clone(); y[1:3] = 0",
    "y = y.clone(); y.view(2, 3)[0].add_(buf[:3])",
    "y = y.clone(); outs.append(y.view(3, 2)); y.mul_(2)",
    "buf.view(2, 3)[1].mul_(2)",
    "view.add_(1)",
    "with torch.no_grad(): w.mul_(1.5)",
    "with torch.no_grad(): z = y * 2; z.add_(buf); y = y + z",
    "with torch.no_grad(): outs.append(y.view(2, 3).t())",
    "with torch.enable_grad(): y = y * w",
    "y = y * 2 if torch.is_grad_enabled() else y - 1",
    "outs.append(y.unsqueeze(0).expand(2, 6))",
    "outs.append(view)",
    "outs.append(y.detach().requires_grad_())",
    "y = y * 2 if x.detach().sum() > 8 else y - 1",
    "y = y / 4 if (y.detach().abs() > 20).any() else y + 1",
    "while y.detach().abs().max() > 8: y = y / 2",
    "y = y + min(int(x.detach().max()), 3)",
    "y = y + round(torch.rand(3, device='cuda').sum().item())",
    "y = y + float((x.detach() > 2).sum().cpu())",
    "outs.append(int(y.detach().max()) % 2)",
    "outs.append(y[y.detach() > 2])",
    "y = y + y[x.detach() > 2].sum()",
    "z = x.detach() > 2; y = y + y[z].sum() * y.detach()[z].exp().mean()",
    "z = y.clone(); z[z.detach() > 2] = 0.5; y = y + z",
    "z = y.detach().clone(); z[z > 2] = z[z > 2].flip(0); y = y + z",
    "outs.append((y.detach() > 2).nonzero())",
    "outs.append(torch.unique(y.detach().round()))",
    "y = y + len([one for one in (y.detach() > 2).tolist() if one])",
    "y = y * 2 if torch.equal(y.detach().abs(), y.detach()) else y - 1",
    "buf[buf > 2] = buf[buf > 2] / 4",
    "thing.state[x.detach() > 2] = 1.5",
    "buf.add_(1); y = y * 2 if buf.sum() > 24 else y",
    "cfg['seen'] = None; (y.detach() * w.detach()).requires_grad_()[x.detach() > 2].sum().backward()",
    "if w.requires_grad: (w * x.detach())[x.detach() > 2].sum().backward()",
)

#: What happens between calls.
CHANGES = (
    "cfg['scale'] += 1",
    "thing.k += 0.5",
    "thing.flag = not thing.flag",
    "thing.n = 0",
    "thing.state = torch.ones(6, device='cuda')",
    "FACTOR += 1",
    "helper = triple",
    "w.requires_grad_(not w.requires_grad)",
    "w.data = w.data * 2",
    "w.grad = None",
    "w = nn.Parameter(w.detach() + 1)",
    "buf.zero_()",
    "buf = torch.ones(6, device='cuda')",
    "net.eval()",
    "net.train()",
    "net[1] = nn.Tanh()",
    "net[2].eps = 0.1",
    "handle = net[0].register_forward_hook(lambda module, args, out: out * 2)",
    "net[0].requires_grad_(False)",
    "os.environ['CUDALENS_TEST_SCALE'] = '3'",
    "table[0] += 1",
    "host.add_(1)",
    "log.clear()",
    "cache.clear()",
    "Thing.__mul__ = lambda self, other: other + self.k",
    "torch.manual_seed(7)",
    "generator.manual_seed(7)",
    "np.random.seed(7)",
    "shifted.__defaults__ = (vector(9),)",
    "part.keywords['by'] = vector(10)",
    "double.shift = vector(11)",
    "row.append(vector(12)); row.popleft()",
    "Derived.shared = vector(13)",
    "Base.shared = vector(14)",
    "slotted.replace(15)",
    "slotted = Derived()",
    "options.factor = vector(16)",
    "variable.get()['by'] = vector(17)",
    "variable.set({'by': vector(18)})",
    "view = grid[:, 0]",
    "view = grid[1]",
    "square.t_()",
    "square = square.t()",
    "double.__code__ = triple.__code__",
    "region = lambda: torch.autocast('cuda', torch.bfloat16)",
    "region = lambda: torch.autocast('cuda', torch.bfloat16, cache_enabled=False)",
    "region = torch.no_grad",
    "region = contextlib.nullcontext",
)


@dataclass(frozen=True)
class Program:
    """A function and what happens around its calls.

    Attributes:
        statements: Of the function.
        changes: By the number of the call before which they run.
        differentiated: Whether the argument requires a gradient, by call; with gradients off where it is None.
        is_backward: Whether a backward follows the calls that have one.
    """

    statements: tuple[str, ...]
    changes: dict[int, str]
    differentiated: tuple[bool | None, ...]
    is_backward: bool = True

    @property
    def text(self) -> str:
        """The function."""
        body = "\n".join(["y, outs = x * 1, []", *self.statements, "return y, outs"])
        return f"def step(x, box):\n{textwrap.indent(body, '    ')}\n"


def random_program(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(seed)
    statements = tuple(draw.choice(STATEMENTS) for _ in range(draw.randint(1, 6)))
    changes = {n: draw.choice(CHANGES) for n in range(2, NUM_CALLS) if draw.random() < 0.35}
    kind = draw.choice((True, False, None, "mixed"))
    flags = tuple(draw.choice((True, False, None)) if kind == "mixed" else kind for _ in range(NUM_CALLS))
    return Program(statements, changes, flags, draw.random() < 0.8)


def one_feature(statement: str, change: str = "", *, is_differentiated: bool = True) -> Program:
    """A program of one statement, and of one change before the sixth call."""
    return Program((statement,), {5: change} if change else {}, (is_differentiated,) * NUM_CALLS)


def observed(program: Program, wrap: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Run a program; all that it can observe, with a label."""
    space: dict[str, Any] = {"__name__": __name__, "out": io.StringIO()}
    exec(SETUP, space)
    file = f"<program {hash(program.text)}>"
    linecache.cache[file] = (len(program.text), None, program.text.splitlines(True), file)
    exec(compile(program.text, file, "exec"), space)
    step = wrap(space["step"])
    for n in range(NUM_CALLS):
        if n in program.changes:
            exec(program.changes[n], space)
        yield from ((f"call {n}: {label}", value) for label, value in _call(program, space, step, n))


def _call(program: Program, space: dict[str, Any], step: Any, n: int) -> Iterator[tuple[str, Any]]:
    wanted = program.differentiated[n]
    x = (torch.arange(6.0, device="cuda") / 7 + n).requires_grad_(bool(wanted))
    box = {"k": torch.full((6,), 1.5 + n, device="cuda"), "list": [1]}
    try:
        with torch.set_grad_enabled(wanted is not None):
            with space["region"]():
                found = step(x, box)
            results = [found[0], *torch.utils._pytree.tree_leaves(found[1])]
            tensors = [one for one in results if isinstance(one, torch.Tensor)]
            yield from ((f"result {k}", _plain(one)) for k, one in enumerate(results))
            yield "relations", relations_of(tensors, [x, space["w"], space["buf"], box["k"]])
            loss = [one.sum() for one in tensors if one.requires_grad and one.grad_fn is not None]
            if program.is_backward and loss:
                sum(loss[1:], loss[0]).backward()
        del found, results, tensors, loss
    except Exception as error:
        yield "error", f"{type(error).__name__}: {str(error)[:_MESSAGE]}"
    yield from _state(space, x, box)


def _state(space: dict[str, Any], x: torch.Tensor, box: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("w", "buf", "cfg", "log", "COUNT", "cache", "table", "view", "square"):
        yield name, _plain(space[name])
    thing = space["thing"]
    yield "thing", {name: _plain(value) for name, value in vars(thing).items() if name != "last"}
    yield "thing.last", getattr(thing, "last", x) is x
    yield "Thing.total", space["Thing"].total
    yield "out", space["out"].getvalue()
    yield "box", (sorted(box), box["list"])
    yield "gradients", [_plain(one.grad) for one in (x, space["w"], *space["net"].parameters())]
    yield "draws", [torch.rand(2, device="cuda").tolist(), torch.rand(2).tolist(), random.random(), np.random.rand()]


def _plain(value: Any) -> Any:
    """A value that does not change later."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist(), value.dtype, value.requires_grad, value.is_leaf
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return list(value) if isinstance(value, list) else value


def difference(program: Program) -> str | None:
    """The first observation that differs with graphs, in words; None if there is none."""
    manager = GraphManager(debug=True)
    with _environment(), contextlib.redirect_stderr(io.StringIO()):
        plain = list(observed(program, lambda function: function))
        graphed = list(observed(program, manager.wrap))
    manager.shutdown()
    for (label, one), (_, other) in zip(graphed, plain, strict=False):
        if repr(one) != repr(other) and not _is_refused(label, one):
            return f"{label}: {one!r} with graphs, {other!r} without"
        if _is_refused(label, one) and one != other:
            return None  # it stopped with an error that names the reason
    return None if len(graphed) == len(plain) else "another number of results"


def _is_refused(label: str, value: Any) -> bool:
    return label.endswith("error") and any(word in str(value) for word in ("CUDA graph", "GraphError"))


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    states = torch.get_rng_state(), torch.cuda.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        os.environ.pop("CUDALENS_TEST_SCALE", None)
        torch.set_rng_state(states[0])
        torch.cuda.set_rng_state(states[1])
        random.setstate(states[2])
        np.random.set_state(states[3])


def main() -> int:
    """Compare the programs of some seeds; the number that differ."""
    import warnings

    from cudalens import virtual

    warnings.simplefilter("ignore")
    first, last = int(sys.argv[1]), int(sys.argv[2])
    differ = 0
    with virtual.device("h100"):
        for seed in range(first, last):
            found = difference(random_program(seed))
            if seed % 100 == 99:
                print(f"{seed + 1 - first} programs, {differ} differ", flush=True)
            if found is not None:
                differ += 1
                print(f"{seed}: {found[:400]}\n{random_program(seed)}", flush=True)
    print(f"{last - first} programs, {differ} differ")
    return differ


if __name__ == "__main__":
    sys.exit(min(main(), 1))
