"""Small functions of many kinds, called as a graph and without, with all that a program can observe of both.

Each case is text: statements before the first call, the body of ``step(x)``, what happens before the fifth call, and an
expression that shows what a call left behind. `difference` runs it twice, in namespaces of its own.
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from cudalens.graphs import GraphManager
from cudalens.graphs.relations import relations_of

NUM_CALLS = 7
CHANGED_AT = 4

IMPORTS = """
import collections, contextlib, contextvars, dataclasses, enum, functools, itertools, weakref
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint
def vector(n=0): return torch.arange(1.0, 7.0, device="cuda") / 7 + n
class Thing: pass
class Sub(torch.Tensor): pass
thing, log, w = Thing(), [], vector().requires_grad_()
net = nn.Linear(6, 6).cuda()
"""


@dataclass(frozen=True)
class Case:
    """One function and what surrounds its calls.

    Attributes:
        before: Statements before the first call.
        body: Of ``step(x)``.
        change: Statements before the fifth call.
        seen: An expression of what else a program can observe after a call.
        grad: Whether the argument requires a gradient.
        around: An expression of a context manager around each call, in which ``n`` is its number.
        argument: An expression of the argument, in which ``n`` is the number of the call.
    """

    before: str
    body: str
    change: str = ""
    seen: str = "None"
    grad: bool = False
    around: str = "contextlib.nullcontext()"
    argument: str = "vector(n)"


def difference(case: Case) -> str | None:
    """The first observation that differs with graphs, in words; None if there is none."""
    manager = GraphManager()
    plain = list(_observed(case, lambda function: function))
    graphed = list(_observed(case, manager.wrap))
    manager.shutdown()
    pairs = enumerate(zip(graphed, plain, strict=True))
    return next((f"call {n}: {a} with graphs, {b} without" for n, (a, b) in pairs if repr(a) != repr(b)), None)


def _observed(case: Case, wrap: Callable[[Any], Any]) -> Iterator[Any]:
    torch.manual_seed(3)
    space: dict[str, Any] = {"__name__": __name__}
    text = f"def step(x):\n{textwrap.indent(case.body, '    ')}\n"
    file = f"<case {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(IMPORTS, space)
    exec(case.before, space)
    exec(compile(text, file, "exec"), space)
    step = wrap(space["step"])
    for n in range(NUM_CALLS):
        space["n"] = n
        if n == CHANGED_AT:
            exec(case.change, space)
        yield _call(case, space, step)


def _call(case: Case, space: dict[str, Any], step: Any) -> Any:
    x = eval(case.argument, space)
    x = x.requires_grad_() if case.grad else x
    space["x"] = x
    try:
        with eval(case.around, space) or nullcontext():
            found = step(x)
        space["found"] = found
        tensors = [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]
        made = [_plain(found), repr(relations_of(tensors, [x, space["w"]]))]
        losses = [one.sum() for one in tensors if one.requires_grad and one.grad_fn is not None]
        if losses:
            sum(losses[1:], losses[0]).backward()
        del found, tensors, losses
    except Exception as error:
        made = [f"{type(error).__name__}: {str(error)[:60]}"]
    owners = [space["w"], *space["net"].parameters()]
    made += [_seen(case.seen, space), [_plain(getattr(one, "grad", None)) for one in (*owners, x)]]
    made += [torch.rand(2, device="cuda").tolist(), torch.rand(2).tolist()]
    space.pop("found", None)
    for owner in owners:
        owner.grad = None
    return made


def _seen(expression: str, space: dict[str, Any]) -> Any:
    try:
        return _plain(eval(expression, space))
    except RuntimeError as error:
        return str(error)[:60]


def _plain(value: Any) -> Any:
    """A value that does not change later."""
    if isinstance(value, torch.Tensor):
        dense = value.detach().to_dense() if value.is_sparse else value.detach()
        flags = (
            value.dtype,
            value.requires_grad,
            value.is_leaf,
            value.is_sparse,
            value.is_inference(),
            type(value).__name__,
        )
        return dense.cpu().resolve_conj().resolve_neg().tolist(), *flags
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return repr(value) if isinstance(value, int | float | str | type(None) | np.generic) else type(value).__name__
