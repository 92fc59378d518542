"""Hand-made cases with code that torch's dispatcher calls: operators of libraries, classes of tensors, scripts."""

from __future__ import annotations

from graph_scenarios.hand_made import Case

_LIBRARY = """
ops = torch.library.Library('cudalens_cases', 'FRAGMENT')
def operator(function, key='CUDA'):
    name = f'case_{next(numbers)}'
    ops.define(f'{name}(Tensor x) -> Tensor')
    ops.impl(name, function, key)
    return getattr(torch.ops.cudalens_cases, name)
"""

_KEYS = ("CUDA", "CompositeImplicitAutograd")

OPERATORS = {
    **{
        f"a number in the Python code of an operator, {key}": Case(
            f"thing.k = 2.0\nf = operator(lambda x: x * thing.k, {key!r})", "return f(x)", "thing.k = 3.0"
        )
        for key in _KEYS
    },
    **{
        f"a tensor in the Python code of an operator, {key}": Case(
            f"held = [vector()]\nf = operator(lambda x: x * held[0], {key!r})", "return f(x)", "held[0] = vector(2)"
        )
        for key in _KEYS
    },
    "an operator counts its calls": Case(
        "def count(x):\n    log.append(1)\n    return x * len(log)\nf = operator(count)", "return f(x)", seen="len(log)"
    ),
    "an operator draws on the CPU": Case("f = operator(lambda x: x * torch.rand(1).item())", "return f(x)"),
    "a closure of an operator": Case(
        "def make(k):\n    return operator(lambda x: x * k.to(x.device))\nf = make(torch.ones(6))", "return f(x)"
    ),
    "an operator of its arguments alone": Case("f = operator(lambda x: (x * 2).sin())", "return f(x) + w"),
    "a class of tensors with its own dispatch inside": Case("", "return (Held(x) + 1).held * 2", "scale[0] = 3.0"),
    "a class of tensors with its own dispatch outside": Case(
        "k = Held(vector())", "return (k + x).held * 2", "scale[0] = 3.0"
    ),
    "a class of tensors with its own dispatch is saved": Case(
        "k = Held(vector().requires_grad_())", "return (k * k * x).held.sum()", "scale[0] = 3.0"
    ),
    "a tensor with two names": Case(
        "class Slots: __slots__ = ('t',)\na = Slots()\na.t = vector()\nb = [a.t]",
        "return x * a.t + b[0]",
        "a.t = vector(3)",
    ),
    "a number of a script": Case("net = torch.jit.script(scripts.Scaled().cuda())", "return net(x)", "net.k = 4"),
    "a list of a script": Case("net = torch.jit.script(scripts.Scaled().cuda())", "return net(x)", "net.ks = [4.0]"),
    "a tensor of a script": Case(
        "net = torch.jit.script(scripts.Scaled().cuda())", "return net(x)", "net.t = vector(4)"
    ),
    "a weight of a script": Case(
        "net = torch.jit.script(scripts.Scaled().cuda())", "return net(x)", "net.w = nn.Parameter(vector(4))"
    ),
    "a script that counts": Case("net = torch.jit.script(scripts.Counting())", "return net(x)", seen="net.n"),
    "a script of a file": Case(
        "import io\nfile = io.BytesIO()\ntorch.jit.save(torch.jit.script(scripts.Scaled()), file)\nfile.seek(0)\n"
        "net = torch.jit.load(file).cuda()",
        "return net(x)",
        "net.k = 4",
    ),
}

_HELD = """
from graph_scenarios import scripts
from graph_scenarios.scripts import numbers
scale = [2.0]
def plain(value): return value.held if isinstance(value, Held) else value
class Held(torch.Tensor):
    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=held.device, requires_grad=held.requires_grad
        )
        made.held = held
        return made
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map(plain, args)
        return torch.utils._pytree.tree_map(lambda one: Held(one * scale[0]), func(*args, **(kwargs or {})))
"""
OPERATORS = {
    name: Case(f"{_LIBRARY}{_HELD}\n{case.before}", case.body, case.change, case.seen, case.grad)
    for name, case in OPERATORS.items()
}
