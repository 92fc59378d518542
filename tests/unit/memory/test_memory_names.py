"""Which names tensors have, and that looking for them runs none of the program's code."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest
import torch

from cudalens.memory.names import MAX_NAMES, NameSearch, Roots, error_locals
from cudalens.memory.objects import can_look
from cudalens.memory.snapshot import storage_address

pytestmark = pytest.mark.usefixtures("one_device")
Pair = namedtuple("Pair", "left right")


def tensor(size=128):
    return torch.zeros(size, device="cuda")


def names_of(wanted, outputs=None, shortcuts=None, **variables):
    search = NameSearch()
    search.run(Roots(variables, outputs or {}, shortcuts or {}, has_calls=False))
    assert search.is_complete
    return search.names.get(storage_address(wanted), [])


@dataclass
class Box:
    inside: object


class Slotted:
    __slots__ = ("inside", "unset")

    def __init__(self, inside):
        self.inside = inside


def kept_in_closure(value):
    return lambda: value


def generator(value):
    yield value
    yield


def started(value):
    made = generator(value)
    next(made)
    return made


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda t: t, "v"),
        (lambda t: [0, t], "v[1]"),
        (lambda t: (0, "a", [t]), "v[2][0]"),
        (lambda t: {"a b": {3: t}}, "v['a b'][3]"),
        (lambda t: {(1, "x"): t}, "v[1, 'x']"),
        (lambda t: {"k" * 100: t}, f"v['{'k' * 40}…']"),
        (lambda t: OrderedDict(a=t), "v['a']"),
        (lambda t: defaultdict(list, a=[t]), "v['a'][0]"),
        (lambda t: deque([1, t]), "v[1]"),
        (lambda t: Pair(0, t), "v[1]"),
        (lambda t: {t}, "v.<item>"),
        (Box, "v.inside"),
        (Slotted, "v.inside"),
        (lambda t: Box(Slotted([t])), "v.inside.inside[0]"),
        (kept_in_closure, "v.<closure>.value"),
        (lambda t: functools.partial(print, t), "v.args[0]"),
        (lambda t: types.MethodType(print, Box(t)), "v.__self__.inside"),
        (started, "v.<local>"),
        (lambda t: iter([t]), "v.<held>[0]"),
        (lambda t: {"a": t}.values(), "v.<held>['a']"),
        (lambda t: ValueError(t), "v.args[0]"),
        (lambda t: t[3:7], "v"),
        (lambda t: [t.view(2, 64).t()], "v[0]"),
    ],
)
def test_names_are_what_one_would_write(make, name):
    held = tensor()
    assert names_of(held, v=make(held)) == [name]


def test_a_cached_result_is_found_in_its_function():
    @functools.lru_cache
    def cached():
        return tensor()

    (name,) = names_of(cached(), cached=cached)
    assert name.startswith("cached.<held>")


def test_attributes_of_tensors_and_their_gradients():
    weight = tensor().requires_grad_()
    weight.grad = tensor()
    weight.note = [tensor()]
    assert names_of(weight.grad, w=weight) == ["w.grad"]
    assert names_of(weight.note[0], w=weight) == ["w.note[0]"]


def test_models_and_optimizers():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).cuda()
    model.extra = torch.nn.ModuleDict({"head": torch.nn.Linear(8, 2)}).cuda()
    optimizer = torch.optim.Adam(model[0].parameters())
    model[0](torch.ones(2, 8, device="cuda")).sum().backward()
    optimizer.step()
    everything = {"model": model, "optimizer": optimizer}
    assert names_of(model[0].weight, **everything)[0] == "model[0].weight"
    assert names_of(model[1].running_mean, **everything) == ["model[1].running_mean"]
    assert names_of(model.extra["head"].bias, **everything) == ["model.extra.head.bias"]
    state = optimizer.state[model[0].weight]["exp_avg"]
    assert names_of(state, **everything) == ["optimizer.state[model[0].weight]['exp_avg']"]
    assert names_of(model[0].bias.grad, **everything)[0] == "model[0].bias.grad"


def test_all_who_hold_it_are_named_the_shortest_first():
    held = tensor()
    history = [held]
    box = Box(history)
    assert names_of(held, a=history, b=box, c=held) == ["c", "a[0]", "b.inside[0]"]


def test_names_are_bounded():
    held = tensor()
    assert len(names_of(held, v=[held[i:] for i in range(50)])) == MAX_NAMES


@pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")
def test_what_autograd_saved_is_named_by_the_tensor_whose_graph_it_is():
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)
    inner = (weight * 2).exp()
    address = storage_address(inner)
    history = [inner.sum()]
    del inner
    search = NameSearch()
    search.run(Roots({"history": history}, has_calls=False))
    assert search.names[address] == ["history[0].grad_fn"]


@pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")
def test_owners_come_before_graphs():
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)
    saved = weight.exp()
    assert names_of(saved, a=saved.sum(), deep=[[saved]]) == ["deep[0][0]", "a.grad_fn"]


def test_outputs_of_a_notebook_are_called_out():
    shown, kept = tensor(), tensor()
    outputs, shortcuts = {7: [shown], 8: "text"}, {"_": kept, "_7": [shown]}
    assert names_of(shown, outputs, shortcuts)[0] == "Out[7][0]"
    assert names_of(kept, outputs, shortcuts) == ["_"]
    assert names_of(shown, outputs, shortcuts, mine=shown)[:2] == ["mine", "Out[7][0]"]


class Trap:
    """Everything of it that Python could call raises."""

    inside: object

    def __init__(self, inside):
        object.__setattr__(self, "inside", inside)

    def __getattribute__(self, name):
        raise AssertionError(f"{name} was asked for")

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")

    @property
    def held(self):
        raise AssertionError("a property was evaluated")

    def __iter__(self):
        raise AssertionError("it was iterated over")

    __len__ = __bool__ = __hash__ = __repr__ = __iter__

    def __eq__(self, other):
        raise AssertionError("it was compared")


class TrapDict(dict):
    def __getitem__(self, key):
        raise AssertionError("an item was asked for")

    items = keys = values = __iter__ = __len__ = __contains__ = get = __getitem__


class TrapList(list):
    def __iter__(self):
        raise AssertionError("it was iterated over")

    __getitem__ = __len__ = __iter__


class Shadow:
    """Its ``__dict__`` is code."""

    @property
    def __dict__(self):
        raise AssertionError("__dict__ was evaluated")


class Meta(type):
    def __getattribute__(cls, name):
        if name in ("__mro__", "__dict__", "__subclasscheck__", "__instancecheck__"):
            raise AssertionError(f"{name} of a class was asked for")
        return type.__getattribute__(cls, name)


class Odd(metaclass=Meta):
    def __init__(self, inside):
        self.inside = inside


class Pretender:
    @property
    def __class__(self):
        raise AssertionError("__class__ was evaluated")


def test_no_code_of_the_program_runs():
    held = tensor()
    filled = TrapList()
    list.append(filled, held)
    everything = {
        "trap": Trap(held),
        "mapping": TrapDict(a=held),
        "sequence": filled,
        "shadow": Shadow(),
        "odd": Odd(held),
        "pretender": Pretender(),
    }
    assert names_of(held, **everything) == ["trap.inside", "mapping['a']", "sequence[0]", "odd.inside"]


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} was called on a subclass")


def test_no_code_of_a_tensor_subclass_runs():
    with torch._C.DisableTorchFunctionSubclass():
        held = tensor()
        odd = held.as_subclass(Subclass)
    assert names_of(held, odd=odd) == ["odd"]


@pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")
def test_hooks_of_saved_tensors_do_not_run():
    called = []
    weight = torch.ones(4, 4, device="cuda", requires_grad=True)

    def unpack(packed):
        called.append(packed)
        return packed

    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.clone(), unpack):
        loss = weight.exp().sum()
    search = NameSearch()
    search.run(Roots({"loss": loss}, has_calls=False))
    assert not called
    assert any(names == ["loss.grad_fn"] for names in search.names.values())


def test_it_ends_where_there_is_no_end():
    loop = []
    loop.append(loop)
    loop.append({"again": loop})
    held = tensor()
    assert names_of(held, loop=loop, v=held) == ["v"]


def test_it_is_bounded_and_reports_it():
    held = tensor()
    search = NameSearch(max_steps=1000)
    search.run(Roots({"first": held, "many": [object() for _ in range(5000)]}, has_calls=False))
    assert not search.is_complete
    assert search.names[storage_address(held)] == ["first"]


def test_deep_nesting_needs_no_deep_stack():
    held = tensor()
    deep = held
    for _ in range(5000):
        deep = [deep]
    assert names_of(held, deep=deep)[0].startswith("deep[0][0]")


def test_it_keeps_nothing_alive():
    held = tensor()
    box = Box(held)
    before = sys.getrefcount(held), sys.getrefcount(box)
    search = NameSearch()
    search.run(Roots({"box": box}, has_calls=False))
    assert (sys.getrefcount(held), sys.getrefcount(box)) == before


def failing():
    local = tensor()
    inner = [local]
    raise ValueError(inner[0].shape)


def test_the_variables_of_functions_that_raised_have_names():
    try:
        failing()
    except ValueError as error:
        error_variables = dict(error_locals(error, "<exception>"))
    assert storage_address(error_variables["<exception>.failing.local"]) is not None
    assert "<exception>.failing.inner" in error_variables


def holds_a_local(search):
    local = tensor()
    search.run(Roots({}))
    return storage_address(local)


def test_the_variables_of_functions_that_run_have_names_and_do_not_stay():
    gc.collect()
    before = torch.cuda.memory_allocated()
    search = NameSearch()
    address = holds_a_local(search)
    (name, *_) = search.names[address]
    assert name.startswith("<call>.holds_a_local.")
    assert torch.cuda.memory_allocated() == before


def test_a_variable_of_another_thread():
    ready, done, made = threading.Event(), threading.Event(), []

    def work():
        kept = tensor()
        made.append(storage_address(kept))
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    search = NameSearch()
    search.run(Roots({}))
    names = search.names.get(made[0])
    done.set()
    thread.join()
    assert names == ["<call>.work.kept"]


def test_a_variable_of_a_waiting_task():
    made = []

    async def waits():
        kept = tensor()
        made.append(storage_address(kept))
        await asyncio.sleep(60)

    async def main():
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        search = NameSearch()
        search.run(Roots({}))
        task.cancel()
        return search.names.get(made[0])

    assert asyncio.run(main()) == ["<call>.waits.<local>"]


def test_the_closure_of_a_hook_on_a_tensor():
    weight, kept = tensor().requires_grad_(), tensor()
    hook = weight.register_hook(kept_in_closure(kept))  # torch numbers the hooks of the whole process
    assert names_of(kept, weight=weight) == [f"weight._backward_hooks[{hook.id}].<closure>.value"]


def test_an_attribute_of_the_context_of_an_autograd_function():
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.extra = {"mask": tensor()}
            Keeps.made = storage_address(ctx.extra["mask"])
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    loss = Keeps.apply(tensor().requires_grad_()).sum()
    search = NameSearch()
    search.run(Roots({"loss": loss}, has_calls=False))
    assert search.names[Keeps.made] == ["loss.grad_fn.<ctx>.extra['mask']"]


def test_a_search_through_running_functions_leaves_no_garbage():
    """With Python 3.12, a frame that referred to itself kept the searched variables alive."""
    held = [tensor()]
    gc.collect()
    gc.disable()
    try:
        search = NameSearch()
        search.run(Roots({"held": held}, {}, {}))
        assert search.names[storage_address(held[0])]
        del search
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        frames = [one for one in gc.garbage if isinstance(one, types.FrameType)]
        assert [frame.f_code.co_name for frame in frames if "cudalens" in frame.f_code.co_filename] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
