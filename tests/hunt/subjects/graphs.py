"""Functions under CUDA graphs against eager execution: what people write, mostly such that calls replay.

A program is a function of drawn statements, called many times. Between some calls the program changes its state: a
hook, a seed, a mode, a shape. It runs twice in namespaces of its own, once with the function under a manager. After
each call everything that it can observe is compared: results, gradients, parameters, buffers, optimizers, Python
values, generators, version counters, warnings and exceptions.
"""

from __future__ import annotations

import contextlib
import linecache
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hunting import Fault, Subject
from hypothesis import strategies as st

from cudalens import virtual
from cudalens.graphs import GraphManager, Pad, costs
from cudalens.graphs.functions import Function
from cudalens.graphs.padding import call_padded
from cudalens.virtual.capture.graph_backend import VirtualGraphBackend

NUM_CALLS = 10

#: Characters of a message that are compared: torch's messages go on with sizes and classes.
NUM_MESSAGE = 70

SETUP = """
import contextlib, dataclasses, functools, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(3)

class Counting(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, {"lr": 0.05})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["step"] = state.get("step", 0) + 1
            p.add_(p.grad, alpha=-0.05 / state["step"])

class Momentum(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, {"lr": 0.05})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if "average" not in state: state["average"] = torch.zeros_like(p)
            state["average"].lerp_(p.grad, 0.1)
            p.add_(state["average"], alpha=-self.param_groups[0]["lr"])

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        ctx.by = by
        return x.sin() * by
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.by, None

@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 1.0
    extra: dict = dataclasses.field(default_factory=dict)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.drop = nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.25)
        self.register_buffer("seen", torch.zeros(4))
        self.gain, self.num_calls = 1.0, 0
    def forward(self, y):
        return y + self.gain * self.drop(self.inner(self.norm(y)).tanh())

class Thing: pass

class Boxed(torch.Tensor):
    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype, device=inside.device)
    def __init__(self, inside): self.inside = inside
    def __repr__(self): return "Boxed"
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unbox = lambda one: one.inside * cfg["scale"] if isinstance(one, Boxed) else one
        args, kwargs = torch.utils._pytree.tree_map(unbox, (args, kwargs or {}))
        return func(*args, **kwargs)

net = nn.Sequential(Block(), nn.BatchNorm1d(4), nn.Linear(4, 4)).cuda()
w = nn.Parameter(torch.linspace(0.5, 1.5, 4, device="cuda"))
params = [w, *net.parameters()]
buf, total, state = torch.zeros(4, device="cuda"), torch.zeros((), device="cuda"), torch.zeros(1, 4, device="cuda")
keys = torch.zeros(8, 4, device="cuda")
position = torch.zeros(1, dtype=torch.long, device="cuda")
average = [p.detach().clone() for p in params]
generator = torch.Generator("cuda")
generator.manual_seed(5)
cfg, thing, log, scales = {"scale": 1.25, "mode": "tanh"}, Thing(), [], (1.0, 2.0)
thing.k, thing.flag, thing.table = 2.0, False, torch.arange(4.0, device="cuda")
thing.latest, w.latest, held = torch.zeros(4, device="cuda"), torch.zeros(1, 4, device="cuda"), []
boxed = Boxed(torch.linspace(1, 2, 4, device="cuda"))
for p in params: p.grad = torch.zeros_like(p)
"""

OPTIMIZERS = (
    "torch.optim.SGD(params, 0.05)",
    "torch.optim.SGD(params, 0.05, momentum=0.9, nesterov=True)",
    "torch.optim.AdamW(params, 0.01, capturable=True)",
    "torch.optim.Adam(params, 0.01, capturable=True, foreach=False)",
    "torch.optim.RMSprop(params, 0.01, capturable=True)",
    "torch.optim.NAdam(params, 0.01, capturable=True)",
    "torch.optim.Adamax(params, 0.01, capturable=True)",
    "torch.optim.Rprop(params, 0.01, capturable=True)",
    "Momentum(params)",
    "Counting(params)",
)

#: Statements of the function. `y` has rows of four numbers; `outs` are results besides it.
STATEMENTS = (
    "y = net(y)",
    "y = net[0](y)",
    "y = y * w",
    "y = F.gelu(y @ net[2].weight)",
    "y = y * cfg['scale']",
    "y = y * thing.k + getattr(thing, 'shift', 0.5)",
    "y = y.tanh() if cfg['mode'] == 'tanh' else y.relu()",
    "y = y - 1 if thing.flag else y + 1",
    "y = y * scales[0]",
    "y = F.dropout(y, 0.3)",
    "y = y + torch.rand_like(y)",
    "y = y + torch.rand(4, device='cuda', generator=generator)",
    "y = y.exp().clamp(max=9)",
    "y = torch.softmax(y, -1)",
    "y = (y * y + 1).sqrt()",
    "y = y.clone(); y[:, 1:3] *= 2",
    "y = y.clone().mul_(2)",
    "y = Scaled.apply(y, cfg['scale'])",
    "y = checkpoint(net[2], y, use_reentrant=False)",
    "s = torch.fft.rfft(y); y = y + (s * s.conj()).real.sum()",
    "z = torch.complex(y, y * 2); y = (z * z.conj()).real + z.conj().imag",
    "with torch.autocast('cuda', torch.bfloat16): h = y @ net[2].weight\ny = h.float()",
    "with torch.no_grad(): y = y + buf",
    "y = y + thing.table",
    "y = torch.where(y > 0, y, y * 0.1)",
    "y = y * 2 if y.detach().sum() > 0 else y - 1",
    "y = y / 4 if (y.detach().abs() > 20).any() else y + 1",
    "while y.detach().abs().max() > 8: y = y / 2",
    "y = y + min(int(y.detach().abs().max()), 3)",
    "y = y + round(torch.rand(3, device='cuda').sum().item())",
    "y = y + float((y.detach() > 0).sum().cpu())",
    "y = F.scaled_dot_product_attention(y[None], y[None], y[None])[0]",
    "outs.append(y.detach())",
    "outs.append(y[:, 1:])",
    "outs.append(y.sum())",
    "outs.append(x)",
    "outs.append(y.conj())",
    "outs.append({'rows': y.shape[0], 'mean': y.mean(0)})",
    "outs.append(y.shape)",
    "buf.mul_(0.5).add_(1)",
    "buf.copy_(y.detach().mean(0))",
    "total.add_(y.detach().sum())",
    "state.copy_(torch.tanh(state + y.detach().mean(0)))\nouts.append(state + 0)",
    "keys.index_copy_(0, position, y.detach()[:1]); position.add_(1).remainder_(8); outs.append(keys.sum(0))",
    "for a, p in zip(average, params): a.lerp_(p.detach(), 0.1)",
    "thing.table[0] += 1",
    "thing.last = 'fixed'",
    "thing.latest = y.detach().mean(0)",
    "thing.latest = (y.detach() * 2)[0]",
    "with torch.no_grad(): thing.latest = y.amax(0); outs.append(thing.latest + 1)",
    "with torch.no_grad(): w.latest = (y * w).mean(0, keepdim=True)",
    "thing.latest = y.detach().mean(0); y = y + thing.latest",
    "y = y + boxed",
    "y = (y * boxed).tanh()",
    "y = y + sum(p.detach().mean() for p in params)",
    "y.register_hook(lambda grad: grad * 2) if y.requires_grad else None",
)

#: Statements that a graph refuses, with a reason; few, because the rest of the program does not replay then.
REFUSED = (
    "torch.manual_seed(4)",
    "net.eval()",
    "net[0].num_calls += 1",
    "log.append(1)",
    "cfg['calls'] = cfg.get('calls', 0) + 1",
    "with torch.random.fork_rng(devices=[0]): y = y + torch.rand_like(y)",
    "thing.table.data, buf.data = buf.data, thing.table.data",
    "import warnings; warnings.warn('mind the step')",
    "y = y + y.mean().item()",
    "thing.latest = thing.latest * 0.5 + y.detach().mean(0)",
    "thing.latest = thing.other = y.detach().mean(0)",
    "thing.latest = y.mean(0)",
    "thing.latest = y.detach().mean(0); outs.append(thing.latest)",
    "scales = scales[::-1]; thing.scales = scales",
)

#: What ends a training step, before the optimizer's.
AFTER_BACKWARD = (
    "torch.nn.utils.clip_grad_norm_(params, 1.0)",
    "torch.nn.utils.clip_grad_value_(params, 0.1)",
    "torch._foreach_mul_([p.grad for p in params], 0.5)",
    "total.add_(w.grad.sum())",
)

#: What happens between calls.
CHANGES = (
    "cfg['scale'] += 0.5",
    "cfg['mode'] = 'relu'",
    "thing.k = 3.0",
    "thing.shift = 0.25",
    "thing.flag = not thing.flag",
    "held.append(thing.latest)",
    "held.append(thing.latest[1:])",
    "held.append(w.latest)",
    "thing.latest = torch.ones(4, device='cuda')",
    "thing.latest = None",
    "thing.latest.mul_(2) if thing.latest is not None and not thing.latest.requires_grad else None",
    "w.latest.add_(1)",
    "boxed.inside.mul_(0.5)",
    "boxed = Boxed(torch.ones(4, device='cuda'))",
    "net.eval()",
    "net.train()",
    "net[0].gain = 0.5",
    "net[0].drop.p = 0.5",
    "net[1].momentum = 0.3",
    "net[2].weight.requires_grad_(False)",
    "w.requires_grad_(not w.requires_grad)",
    "w.data = w.data * 2",
    "w.data.mul_(0.5)",
    "torch.manual_seed(7)",
    "generator.manual_seed(7)",
    "torch.cuda.set_rng_state(torch.cuda.get_rng_state())",
    "buf.zero_()",
    "buf = torch.ones(4, device='cuda')",
    "thing.table = torch.ones(4, device='cuda')",
    "thing.table = thing.table[torch.tensor([3, 2, 1, 0], device='cuda')]",
    "handle = net[0].register_forward_hook(lambda module, args, out: out * 0.5)",
    "handle = net[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,))",
    "handle = w.register_hook(lambda grad: grad * 0.5)",
    "handle = net[2].weight.register_hook(lambda grad: grad + 1)",
    "handle = w.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(0.5), None)[1])",
    "handle = optimizer.register_step_pre_hook(lambda *_: log.append('pre'))",
    "handle = optimizer.register_step_post_hook(lambda *_: (w.data.mul_(0.9), None)[1])",
    "handle = net[2].register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,) if gi[0] is not None else None)",
    "handle.remove() if 'handle' in globals() else None",
    "optimizer.param_groups[0]['lr'] *= 0.5",
    "scheduler.step()",
    "optimizer.zero_grad(set_to_none=False)",
    "w.grad = None",
    "w.grad = torch.ones_like(w)",
    "net[2] = nn.Linear(4, 4).cuda()",
    "net[0].norm.eps = 0.1",
    "net.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in net.state_dict().items()})",
    "scales = (2.0, 1.0)",
    "old_tanh, torch.Tensor.tanh = torch.Tensor.tanh, lambda y: torch.tanh(y) * 2",
    "torch.Tensor.tanh = old_tanh if 'old_tanh' in globals() else torch.Tensor.tanh",
    "Scaled.backward = staticmethod(lambda ctx, grad: (grad, None))",
    "Block.forward = lambda self, y: y * 2",
)

#: What the caller does with the result of a call.
USES = (
    "pass",
    "found[0].mul_(2)",
    "found[0].detach().add_(1)",
    "kept = found[0].clone()",
    "found[0].register_hook(lambda grad: grad * 3) if found[0].requires_grad else None",
    "x.add_(1) if not x.requires_grad else None",
    "with torch.no_grad(): w.add_(0.1)",
)

KINDS = ("training", "forward", "inference")
GIVEN = ("x", "{'x': x, 'n': 1}", "Batch(x)", "Batch(x, 2.0, {'y': x + 1})", "[x, (x + 1,)]")


@dataclass(frozen=True)
class Program:
    """A function, its calls, and what happens around them.

    Attributes:
        kind: A whole training step, a forward with a backward outside, or inference.
        given: The argument of the function, by the tensor `x`.
        optimizer: The expression that makes the optimizer.
        statements: Of the function.
        after: Statements between the backward and the optimizer's step.
        changes: Pairs of a call and what happens before it.
        uses: Pairs of a call and what the caller does with its result.
        sizes: Rows of the argument: calls alternate between them.
        needs_grad: Whether the argument requires a gradient.
        failing: The call whose argument has another number of columns, so that it raises; or None.
        weighed: Whether the costs of a replay are weighed after two replays: "no", "modelled" or "measured".
        max_bytes: What the pool may reserve.
        multiple: To what the rows of the argument are padded.
    """

    kind: str
    given: str
    optimizer: str
    statements: tuple[str, ...]
    after: tuple[str, ...]
    changes: tuple[tuple[int, str], ...]
    uses: tuple[tuple[int, str], ...]
    sizes: tuple[int, ...]
    needs_grad: bool
    failing: int | None
    weighed: str = "no"
    max_bytes: int | None = None
    multiple: int | None = None

    @property
    def text(self) -> str:
        """The function."""
        unpack = {"x": "given", "[": "given[0]", "{": "given['x']", "B": "given.x"}[self.given[0]]
        body = [f"x = {unpack}", "y, outs = x * 1, []", *self.statements]
        if self.kind == "training":
            body[0:0] = ["optimizer.zero_grad(set_to_none=False)"]
            body += ["loss = y.float().pow(2).mean()", "loss.backward()", *self.after, "optimizer.step()"]
            body += ["y = loss.detach()"]
        body += ["return y, outs"]
        if "thing.scales = scales" in "\n".join(body):
            body[0:0] = ["global scales"]
        return "def step(given):\n" + textwrap.indent("\n".join(body), "    ") + "\n"

    def source(self) -> str:
        """The program as Python."""
        lines = [SETUP, f"optimizer = {self.optimizer}", self.text]
        lines += [f"# {self.kind}: step({self.given}), {NUM_CALLS} calls, rows {self.sizes}, failing {self.failing}"]
        lines += [f"# x requires a gradient: {self.needs_grad}"]
        lines += [f"# before call {n}: {change}" for n, change in self.changes]
        lines += [f"# after call {n}: {use}" for n, use in self.uses]
        return "\n".join(lines)


def _at(calls: st.SearchStrategy[int], what: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    pairs = st.lists(st.tuples(calls, st.sampled_from(what)), max_size=most)
    return pairs.map(lambda found: tuple(sorted(found, key=lambda pair: pair[0])))


STATEMENT = st.integers(0, 29).flatmap(lambda n: st.sampled_from(REFUSED if n == 29 else STATEMENTS))
PROGRAMS = st.builds(
    Program,
    kind=st.sampled_from(KINDS),
    given=st.sampled_from(GIVEN),
    optimizer=st.sampled_from(OPTIMIZERS),
    statements=st.lists(STATEMENT, min_size=1, max_size=5).map(tuple),
    after=st.lists(st.sampled_from(AFTER_BACKWARD), max_size=1).map(tuple),
    changes=_at(st.integers(4, NUM_CALLS - 3), CHANGES, 2),
    uses=_at(st.integers(0, NUM_CALLS - 1), USES, 2),
    sizes=st.sampled_from(((3,), (3,), (3, 2))),
    needs_grad=st.booleans(),
    failing=st.sampled_from((None, None, None, 7)),
    weighed=st.sampled_from(("no", "no", "modelled", "measured")),
    max_bytes=st.sampled_from((None, None, 2**21, 2**22)),
    multiple=st.sampled_from((None, None, None, 2)),
)

Observed = tuple[str, str]


def observe(program: Program, wrap: Callable[[Any], Any]) -> Iterator[Observed]:
    """Run a program; yield what it can observe after each call, with a label."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(SETUP, space)
    space["optimizer"] = eval(program.optimizer, space)
    space["scheduler"] = torch.optim.lr_scheduler.StepLR(space["optimizer"], 1, 0.5)
    file = f"<program {hash(program.text)}>"
    linecache.cache[file] = (len(program.text), None, program.text.splitlines(True), file)
    exec(compile(program.text, file, "exec"), space)
    step = wrap(space["step"])
    own = torch.Tensor.tanh
    try:
        for n in range(NUM_CALLS):
            for at, change in program.changes:
                if at == n:
                    try:
                        with warnings.catch_warnings(action="ignore"):
                            exec(change, space)
                    except RuntimeError as error:  # torch refuses it: a hook of a parameter without gradients
                        yield f"call {n}: change error", str(error)[:NUM_MESSAGE]
            yield from ((f"call {n}: {label}", value) for label, value in _call(program, space, step, n))
    finally:
        torch.Tensor.tanh = own  # type: ignore[method-assign]


def _call(program: Program, space: dict[str, Any], step: Any, n: int) -> Iterator[Observed]:
    num_rows = program.sizes[n % len(program.sizes)]
    num_columns = 5 if n == program.failing else 4
    x = (torch.arange(float(num_rows * num_columns), device="cuda").view(num_rows, num_columns) / 7 + n).sin()
    x.requires_grad_(program.needs_grad)
    space["x"] = x
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.set_grad_enabled(program.kind != "inference"):
                found = step(eval(program.given, space))
            yield from _results(found, x)
            space["found"] = found
            for at, use in program.uses:
                if at == n:
                    exec(use, space)
            if program.kind == "forward":
                space["optimizer"].zero_grad(set_to_none=False)
                losses = [one.float().pow(2).mean() for one in _tensors(found) if _has_gradient(one)]
                if losses:
                    sum(losses[1:], losses[0]).backward()
                    space["optimizer"].step()
                del losses
            del found
        except Exception as error:
            yield "error", f"{type(error).__name__}: {_message(error)}"
        space.pop("found", None)
    shown = [str(one.message)[:NUM_MESSAGE] for one in caught if "cudalens" not in str(one.message)]
    yield "warnings", repr(shown)
    yield from _state(space, x)


def _message(error: Exception) -> str:
    """The beginning of a message; torch words the same refusal of a backward in two ways."""
    text = str(error)
    return "no gradient" if "does not require grad" in text else text[:NUM_MESSAGE]


def _has_gradient(one: torch.Tensor) -> bool:
    return one.requires_grad and one.grad_fn is not None and not one.is_complex()


def _tensors(found: Any) -> list[torch.Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor)]


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)


def _results(found: Any, x: torch.Tensor) -> Iterator[Observed]:
    for k, one in enumerate(torch.utils._pytree.tree_leaves(found, is_leaf=_is_size)):
        is_given = one is x
        yield f"result {k}", f"{_plain(one)} {'x itself' if is_given else type(one).__name__}"


def _state(space: dict[str, Any], x: torch.Tensor) -> Iterator[Observed]:
    yield "x", f"{_plain(x)} {_plain(x.grad)}"
    for name in ("w", "buf", "total", "state", "keys", "position"):
        yield name, _plain(space[name])
    for name, one in [*space["net"].named_parameters(), *space["net"].named_buffers()]:
        yield name, _plain(one)
    for n, p in enumerate([space["w"], *space["net"].parameters()]):
        yield f"gradient {n}", _plain(p.grad)
    yield "average", repr([_plain(one) for one in space["average"]])
    for n, held in enumerate(space["optimizer"].state.values()):
        yield f"state {n} of the optimizer", repr({name: _plain(value) for name, value in held.items()})
    yield "groups", repr([{k: v for k, v in g.items() if k != "params"} for g in space["optimizer"].param_groups])
    yield "modes", repr([module.training for module in space["net"].modules()])
    yield "objects", repr([space["cfg"], space["log"], space["scales"], space["net"][0].num_calls])
    yield "thing", repr({name: _plain(value) for name, value in vars(space["thing"]).items()})
    states = [torch.cuda.get_rng_state(), torch.get_rng_state(), space["generator"].get_state()]
    yield "latest of w", _plain(space["w"].latest)
    yield "held", repr([_plain(one) for one in space["held"]])
    yield "generators", repr([hash(bytes(one.tolist())) for one in states])
    yield "gradient mode", repr(torch.is_grad_enabled())


def _plain(value: Any) -> str:
    """All of a value, as text."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flags = value.dtype, value.requires_grad, value.is_leaf, value.stride(), value.is_conj(), value._version
    return f"{value.detach().tolist()} {flags}"


def check(program: Program) -> Fault | None:
    """Compare a program with graphs to the same one without."""
    with virtual.device("h100"), _weighed_early(program.weighed):
        manager = GraphManager(0, debug=True, eager_if_slower=program.weighed != "no", max_bytes=program.max_bytes)
        pad = {} if program.multiple is None else {"given": Pad(program.multiple, dim=0, results={})}

        def padded(function: Callable[..., Any]) -> Callable[..., Any]:
            """The function without graphs, called with the same padding."""
            known = Function(0, function.__name__, function, None, pad=pad)
            return lambda *args: call_padded(known, args, {}, function)

        plain = observe(program, padded if pad else lambda function: function)
        graphed = observe(program, lambda function: manager.wrap(function, pad=pad))
        try:
            for (label, one), (other_label, other) in zip(list(plain), graphed, strict=False):
                if other_label.endswith("error") and ("CUDA graph" in other or "GraphError" in other):
                    return None  # it stopped with an error that names the reason
                if label != other_label:
                    return Fault(f"{_kind(other_label)} instead of {_kind(label)}", f"{other_label}: {other}")
                if one != other:
                    return Fault(f"another {_kind(label)}", f"{label}\nwith graphs: {other}\nwithout: {one}")
        finally:
            graphed.close()
            counts = [function.counts for function in manager.functions]
            for name in ("warmups", "recordings", "replays", "eager"):
                SUBJECT.counts[name] += sum(getattr(one, name) for one in counts)
            manager.shutdown()
    return None


@contextlib.contextmanager
def _weighed_early(how: str) -> Iterator[None]:
    """Decide after two replays whether a graph pays; if measured, by calls without a graph, as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "NUM_REPLAYS", 2)
        patch.setattr(costs, "NUM_TIMED", 0)
        patch.setattr(costs, "FASTEST_LAUNCH_NS", 0)
        if how == "measured":
            patch.setattr(VirtualGraphBackend, "launch_times", lambda backend, device: None)
        yield


def _kind(label: str) -> str:
    return "".join(letter for letter in label.partition(": ")[2] if not letter.isdigit()).strip()


SUBJECT = Subject("graphs", PROGRAMS, check, Program.source, num_quick=1, num_round=30)
