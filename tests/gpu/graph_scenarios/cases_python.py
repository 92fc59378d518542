"""Hand-made cases around Python: containers and objects with code of their own, state of the standard library."""

from __future__ import annotations

from graph_scenarios.hand_made import Case

CASES = {
    "slots of a dataclass": Case(
        "@dataclasses.dataclass(slots=True)\nclass Config:\n    k: float = 2.0\nc = Config()",
        "return x * c.k",
        "c.k = 5.0",
    ),
    "a weak reference": Case("thing.k = 2.0\nr = weakref.ref(thing)", "return x * r().k", "thing.k = 5.0"),
    "a WeakKeyDictionary": Case("d = weakref.WeakKeyDictionary({thing: 2.0})", "return x * d[thing]", "d[thing] = 5.0"),
    "a WeakValueDictionary": Case(
        "thing.k = 2.0\nd = weakref.WeakValueDictionary(a=thing)",
        "return x * d['a'].k",
        "d['a'] = b = Thing()\nb.k = 5.0",
    ),
    "a property that counts": Case(
        "class Counter:\n    n = 0\n    @property\n    def k(self):\n        self.n += 1\n"
        "        return 2.0\nc = Counter()",
        "return x * c.k",
        seen="c.n",
    ),
    "__getattr__ that counts": Case(
        "class Counter:\n    n = 0\n    def __getattr__(self, name):\n        Counter.n += 1\n"
        "        return 2.0\nc = Counter()",
        "return x * c.k",
        seen="Counter.n",
    ),
    "__getattribute__ that logs": Case(
        "class Logged:\n    k = 2.0\n    def __getattribute__(self, name):\n        log.append(name)\n"
        "        return 2.0\nc = Logged()",
        "return x * c.k",
        seen="len(log)",
    ),
    "__getitem__ that counts": Case(
        "class Counter(dict):\n    n = 0\n    def __getitem__(self, key):\n        self.n += 1\n"
        "        return super().__getitem__(key)\n"
        "c = Counter(k=2.0)",
        "return x * c['k']",
        seen="c.n",
    ),
    "__getitem__ that makes a module": Case(
        "class Registry(dict):\n    def __getitem__(self, key): return super().__getitem__(key)()\n"
        "r = Registry(relu=nn.ReLU, tanh=nn.Tanh)\nthing.name = 'relu'",
        "return r[thing.name](x - 1)",
        "thing.name = 'tanh'",
    ),
    "__iter__ of a list that counts": Case(
        "class Counted(list):\n    n = 0\n    def __iter__(self):\n        self.n += 1\n"
        "        return super().__iter__()\nc = Counted([2.0, 3.0])",
        "return x * sum(c)",
        seen="c.n",
    ),
    "a defaultdict": Case(
        "d = collections.defaultdict(float, k=2.0)", "return x * (d['k'] + d['new'])", "del d['new']", "dict(d)"
    ),
    "singledispatch": Case(
        "@functools.singledispatch\ndef f(c, y): return y * 2",
        "return f(thing, x)",
        "f.register(Thing, lambda c, y: y * 3)",
    ),
    "cached_property": Case(
        "class Cached:\n    k = 2.0\n    @functools.cached_property\n    def c(self): return self.k * 2\nc = Cached()",
        "return x * c.c",
        "c.k = 5.0\ndel c.c",
    ),
    "an enum": Case(
        "class Mode(enum.Enum):\n    A = 2.0\n    B = 3.0\nthing.mode = Mode.A",
        "return x * thing.mode.value",
        "thing.mode = Mode.B",
    ),
    "a ContextVar with a token": Case(
        "v = contextvars.ContextVar('v', default=2.0)", "return x * v.get()", "token = v.set(5.0)"
    ),
    "a context manager with state": Case(
        "@contextlib.contextmanager\ndef scope():\n    log.append(1)\n    yield len(log)\n    log.pop()",
        "with scope() as depth: return x * depth",
        "log.append(1)",
    ),
    "a generator from outside": Case("numbers = (float(k) for k in range(100))", "return x * next(numbers)"),
    "itertools.count": Case("numbers = itertools.count()", "return x * next(numbers)"),
    "a partial": Case(
        "f = functools.partial(lambda y, o: y * o['k'], o={'k': 2.0})", "return f(x)", "f.keywords['o']['k'] = 5.0"
    ),
}
