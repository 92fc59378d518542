"""Functions whose tensors and Python values are replaced before the fifth call, in many kinds of places."""

from __future__ import annotations

import textwrap

from graph_scenarios.hand_made import Case


def case(before: str, read: str, change: str, *, grad: bool = False) -> Case:
    """A function that multiplies its argument by what it reads."""
    return Case(before, f"return x * {read}", change, grad=grad)


#: Two views of one memory, of which the function reads one.
VIEW = "t = torch.arange(36.0, device='cuda').view(6, 6)[0]"

CUSTOM = """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad): return grad * k
"""

#: Objects that are keys of dicts and elements of sets.
_KEY = "class Key:\n    def __init__(self, k): self.k = k\n"
_EQUAL = _KEY + "    def __eq__(self, other): return True\n    def __hash__(self): return 1\n"

#: A function whose variable another one changes.
_CLOSURE = """
def make(k):
    def scale(ctx, grad): return grad * k
    def change(new):
        nonlocal k
        k = new
    return scale, change
scale, change = make(2.0)
"""


#: An operator whose backward is that function.
_OPERATOR = """
name = f'cudalens_test::op{id(change)}'
@torch.library.custom_op(name, mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor: return x * 2
op.register_autograd(scale)
"""

#: The same function, if each call of it changes its variable.
_CHANGING = _CLOSURE.replace(
    "def scale(ctx, grad): return grad * k",
    """def scale(ctx, grad):
        nonlocal k
        k = k + 1
        return grad * k""",
)


def _stored(statement: str, seen: str = "None") -> Case:
    """A forward that stores a tensor for its backward, where no operator of the forward takes it."""
    before = CUSTOM.replace("return x * 2", f"{statement}; return x * 2").replace("grad * k", "grad * ctx.k")
    return Case("k = vector()" + before, "return Doubled.apply(x)", "k = vector(1)", seen=seen, grad=True)


CASES = {
    "a global": case("t = vector()", "t", "t = vector(1)"),
    "a tuple": case("t = ((vector(),), 1)", "t[0][0]", "t = ((vector(1),), 1)"),
    "the order of keys": case(
        "t = collections.OrderedDict(a=vector(), b=vector(1))", "next(iter(t.values()))", "t.move_to_end('a')"
    ),
    "an attribute": case("thing.t = vector()", "thing.t", "thing.t = vector(1)"),
    "an attribute of a base class": case("class A: t = vector()\nclass B(A): pass\nb = B()", "b.t", "B.t = vector(1)"),
    "an attribute of a metaclass": case(
        "class M(type): t = vector()\nclass A(metaclass=M): pass", "A.t", "M.t = vector(1)"
    ),
    "a private slot": case(
        "class A:\n    __slots__ = ('__t',)\n    def get(self): return self.__t\n    def set(self, t): self.__t = t\n"
        "a = A(); a.set(vector())",
        "a.get()",
        "a.set(vector(1))",
    ),
    "a dataclass": case(
        "@dataclasses.dataclass(slots=True)\nclass A:\n    t: object\na = A(vector())", "a.t", "a.t = vector(1)"
    ),
    "an attribute of a number": case("class A(float): pass\na = A(1); a.t = vector()", "a.t", "a.t = vector(1)"),
    "the arguments of a partial": case(
        "t = functools.partial(torch.add, vector(), vector())",
        "t()",
        "t.__setstate__((torch.add, (vector(1), vector()), {}, None))",
    ),
    "a default argument": case("def f(x, t=vector()): return x * t", "f(x)", "f.__defaults__ = (vector(1),)"),
    "an attribute of a function": case("def f(): return f.t\nf.t = vector()", "f()", "f.t = vector(1)"),
    "the code of a function": case(
        "s, t = vector(), vector(1)\ndef f(): return s\ndef g(): return t", "f()", "f.__code__ = g.__code__"
    ),
    "the class of an object": case(
        "class A:\n    def get(self): return vector\nclass B:\n    def get(self): return thing.get\n"
        "s = t = vector()\nthing.get = lambda n: vector(n + 1)\na = A()",
        "a.get()(0)",
        "a.__class__ = B",
    ),
    "a bound method": case(
        "class A:\n    def f(self): return self.t\na = A(); a.t = vector(); f = a.f", "f()", "a.t = vector(1)"
    ),
    "a local of a thread": case("import threading\nt = threading.local(); t.v = vector()", "t.v", "t.v = vector(1)"),
    "an item of a ContextVar": case(
        "t = contextvars.ContextVar('t'); t.set({'a': vector()})", "t.get()['a']", "t.get()['a'] = vector(1)"
    ),
    "a cached result": case(
        "@functools.lru_cache\ndef get(): return t.clone()\nt = vector(); get()",
        "get()",
        "t = vector(1); get.cache_clear(); get()",
    ),
    "an argument of an exception": case("e = ValueError(vector())", "e.args[0]", "e.args = (vector(1),)"),
    "a built-in name": case(
        "import builtins\nbuiltins.cudalens_test = vector()", "cudalens_test", "cudalens_test = vector(1)"
    ),
    "an imported module": Case(
        "import sys, types\nm = sys.modules['cudalens_test_m'] = types.ModuleType('cudalens_test_m'); m.t = vector()",
        "import cudalens_test_m\nreturn x * cudalens_test_m.t",
        "m.t = vector(1)",
    ),
    "a module of the interpreter": case("import json\njson.t = vector()", "json.t", "json.t = vector(1)"),
    "a data set": case(
        "from torch.utils.data import TensorDataset\nd = TensorDataset(torch.stack([vector(), vector()]))",
        "d[0][0]",
        "d.tensors = (torch.stack([vector(1), vector()]),)",
    ),
    "another view": case(VIEW, "t", "t = torch.as_strided(t, (6,), (6,))"),
    "another dtype": case(VIEW, "t", "t = t.view(torch.int32)"),
    "a conjugate": case("t = torch.complex(vector(), vector(1))", "t", "t = t.conj()"),
    "transposed in place": Case("m = nn.Linear(6, 6).cuda()", "return m(x)", "m.weight.data = m.weight.data.t()"),
    "a number in a backward": Case("k = 2.0" + CUSTOM, "return Doubled.apply(x)", "k = 3.0", grad=True),
    "a tensor in a backward": Case("k = vector()" + CUSTOM, "return Doubled.apply(x)", "k = vector(1)", grad=True),
    "a number in a closure that a backward of torch.library reads": Case(
        _CLOSURE + _OPERATOR,
        "return op(x)",
        "change(3.0)",
        grad=True,
    ),
    "a closure of two, of which torch holds the other": Case(
        _CLOSURE + "known, (scale, change) = scale, make(5.0)\n" + _OPERATOR + "\ndel scale",
        "known; return op(x)",
        "change(3.0)",
        grad=True,
    ),
    "a closure of two with equal values, of which torch holds the other": Case(
        _CLOSURE
        + "known, (scale, change) = scale, make(scale.__closure__[0].cell_contents)\n"
        + _OPERATOR
        + "\ndel scale",
        "known; return op(x)",
        "change(3.0)",
        grad=True,
    ),
    "a closure that changes its variable, of two of which torch holds one": Case(
        _CHANGING
        + "known, (scale, change) = scale, make(scale.__closure__[0].cell_contents)\n"
        + _OPERATOR
        + "\ndel scale",
        "known; return op(x)",
        grad=True,
    ),
    "a closure of two with equal values, of which the other is not called": Case(
        _CLOSURE + "unused, scale = scale, make(scale.__closure__[0].cell_contents)[0]",
        "return scale(None, x)",
        "scale.__closure__[0].cell_contents = 3.0",
        grad=True,
    ),
    "a tensor from outside that is overwritten after it was saved": Case(
        "k = vector()", "y = x * k\nk.add_(1)\nreturn y", grad=True, seen="k.tolist()"
    ),
    "a view from outside that is overwritten after it was saved": Case(
        "grid = torch.stack([vector(), vector(1)])\nview = grid[0]",
        "y = x * view\ngrid.add_(1)\nreturn y",
        grad=True,
        seen="view.tolist()",
    ),
    "a tensor from outside that is overwritten before it is saved": Case(
        "k = vector()", "k.add_(1)\nreturn x * k", grad=True, seen="k.tolist()"
    ),
    "a tensor from outside that is overwritten between forward and backward": Case(
        "k = vector()", "return x * k", grad=True, seen="k.add_(1).tolist()"
    ),
    "a tensor that the forward stores for the backward": _stored("ctx.k = k"),
    "a view that the forward stores for the backward": _stored("ctx.k = k[:6].detach()"),
    "a tensor that is stored, and replaced before the backward": _stored(
        "ctx.k = k", seen="globals().update(k=vector(n))"
    ),
    "a tensor in a class that each call makes": Case(
        "k = vector()\ndef make(k):" + textwrap.indent(CUSTOM, "    ") + "    return Doubled",
        "return make(k).apply(x)",
        "k = vector(1)",
        grad=True,
    ),
    "a tensor in a hook's default": Case(
        "k = vector()",
        "y = x * 2\nif y.requires_grad: y.register_hook(lambda grad, k=k: grad * k)\nreturn y",
        "k = vector(1)",
        grad=True,
    ),
    "a closure of a function that is graphed itself": Case(
        "import cudalens\ndef make(k):\n    def change(new):\n        nonlocal k\n        k = new\n"
        "    return cudalens.cudagraph(lambda x: x * k), change\ninner, change = make(2.0)",
        "return inner(x) + 1",
        "change(3.0)",
    ),
    "the attributes of a function": case("def g(): pass\ng.k = 2.0", "g.k", "g.__dict__ = {'k': 3.0}"),
    "a new attribute of a function": case("def g(): pass", "getattr(g, 'k', 2.0)", "g.k = 3.0"),
    "a new attribute of a tensor": case("t = vector()", "t * getattr(t, 'k', 2.0)", "t.k = 3.0"),
    "the attributes of a tensor": case("t = vector()\nt.k = 2.0", "t * t.k", "t.__dict__ = {'k': 3.0}"),
    "an attribute of a key": case(_KEY + "table = {Key(2.0): 1}", "next(iter(table)).k", "next(iter(table)).k = 3.0"),
    "an attribute of a key of a Counter": case(
        _KEY + "table = collections.Counter([Key(2.0)])", "next(iter(table)).k", "next(iter(table)).k = 3.0"
    ),
    "an attribute of a key in a view": case(
        _KEY + "table = {Key(2.0): 1}\nview = table.keys()", "next(iter(view)).k", "next(iter(view)).k = 3.0"
    ),
    "the values of a dict": case("table = {1: 2.0}\nview = table.values()", "next(iter(view))", "table[1] = 3.0"),
    "the items of an ordered dict": case(
        "table = collections.OrderedDict(a=2.0, b=3.0)\nview = table.items()",
        "next(iter(view))[1]",
        "table.move_to_end('a')",
    ),
    "an attribute of an element": case(_KEY + "some = {Key(2.0)}", "next(iter(some)).k", "next(iter(some)).k = 3.0"),
    "an attribute of an element of a frozenset": case(
        _KEY + "some = frozenset([Key(2.0)])", "next(iter(some)).k", "next(iter(some)).k = 3.0"
    ),
    "an equal element": case(_EQUAL + "some = {Key(2.0)}", "next(iter(some)).k", "some.clear()\nsome.add(Key(3.0))"),
    "an equal frozenset": case(
        _EQUAL + "some = frozenset([Key(2.0)])", "next(iter(some)).k", "some = frozenset([Key(3.0)])"
    ),
    "an equal key": case(_EQUAL + "table = {Key(2.0): 1}", "next(iter(table)).k", "table.clear()\ntable[Key(3.0)] = 1"),
    "a size": case("t = vector()", "t.shape[0]", "t = torch.zeros(9, device='cuda')"),
    "a size of a sparse tensor": case(
        "t = torch.eye(6).to_sparse().cuda()", "t.shape[0]", "t = torch.eye(9).to_sparse().cuda()"
    ),
    "a stride": case("t = torch.zeros(4, 5, device='cuda')", "t.is_contiguous()", "t = t.t()"),
    "a device": case("t = vector()", "t.is_cuda", "t = t.cpu()"),
    "whether a gradient is needed": case("t = vector()", "t.requires_grad", "t.requires_grad_()"),
    "a dtype of a parameter": case("t = nn.Parameter(vector())", "t.element_size()", "t.data = t.data.double()"),
    "a class of a tensor": case("t = vector()", "(type(t) is torch.Tensor)", "t = nn.Parameter(t)"),
    "an identity": case("s = t = vector()", "(s is t)", "t = vector()"),
    "an identity in a set": case("t = vector()\nknown = {t}", "(t in known)", "t = vector()"),
    "an identity by the operator module": case(
        "import operator\ns = t = vector()", "operator.is_(s, t)", "t = vector()"
    ),
    "an address": case("s = t = vector()", "(t.data_ptr() == s.data_ptr())", "t = vector()"),
    "an offset in a storage": case(
        "t = torch.ones(4, device='cuda')", "t.storage_offset()", "t = torch.ones(8, device='cuda')[4:]"
    ),
    "an attribute of a tensor": case("t = vector()\nt.scale = 2", "t.scale", "t = vector()\nt.scale = 3"),
    "an attribute of a view that is used": Case(
        "t = vector()\nt.scale = 2", "return x * t * t.scale", "t = t.view(-1)\nt.scale = 3"
    ),
    "a counter of changes": case("t = vector()", "t._version", "t.add_(1)"),
    "a tensor that is missing": case("t = vector()", "(t is None)", "t = None"),
    "a number in a hook": Case(
        "k = 2.0\ndef hook(grad): return grad * k",
        "y = x * 2\nif y.requires_grad: y.register_hook(hook)\nreturn y",
        "k = 3.0",
        grad=True,
    ),
}
