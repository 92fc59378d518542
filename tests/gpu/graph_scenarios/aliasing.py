"""What outputs may be: fresh, arguments, views of each other or of what came before, constants."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import torch

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, reason_row, recordings, same, scenario, values

Pair = namedtuple("Pair", "first second")


@scenario
def an_argument_comes_back_as_the_same_object(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x, x * 2))
    for n in range(4):
        x = values() + n
        same_one, twice = step(x)
        assert same_one is x
        same(twice, x * 2)


@scenario
def a_view_of_an_argument_is_a_view_of_this_call_s_argument(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x.view(2, 3), x[1:4], x[::2], x.view(torch.int32), x * 2))
    for n in range(4):
        x = values() + n
        shaped, part, strided, bits, _ = step(x)
        same((shaped, part, strided, bits), (x.view(2, 3), x[1:4], x[::2], x.view(torch.int32)))
        x.zero_()
        assert not any(view.any() for view in (shaped, part, strided, bits))


@scenario
def a_view_of_a_part_of_a_tensor_as_argument(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x[1:], x + 1))
    for n in range(4):
        whole = values() + n
        part, more = step(whole[2:])
        same((part, more), (whole[3:], whole[2:] + 1))
        whole.zero_()
        assert part.tolist() == [0.0] * 3


@scenario
def views_of_one_output_share_its_memory(m: GraphManager) -> None:
    def function(x):
        y = x + 1
        return y[2:], y, y.view(2, 3), y.view(torch.int32)

    step = m.wrap(function)
    for n in range(5):
        found = step(values() + n)
        same(found, function(values() + n))
        assert len({view.untyped_storage().data_ptr() for view in found}) == 1
        found[1].zero_()
        assert not found[0].any()
        assert not found[2].any()
        del found


@scenario
def the_same_output_twice(m: GraphManager) -> None:
    def function(x):
        y = x + 1
        return y, y, [y]

    step = m.wrap(function)
    for n in range(4):
        a, b, (c,) = step(values() + n)
        same((a, b, c), (*function(values() + n)[:2], values() + n + 1))
        a.zero_()
        assert not b.any()
        assert not c.any()


@scenario
def only_a_view_of_something_inner_is_returned(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x + 1)[3:].view(1, 3).t())
    for n in range(4):
        same(step(values() + n), (values() + n + 1)[3:].view(1, 3).t())


@scenario
def an_earlier_output_through_an_argument(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda p: (p, p[2:], p * 2))
    for n in range(5):
        p = a(values() + n)
        q, part, twice = b(p)
        assert q is p
        same((part, twice), ((values() + n + 1)[2:], (values() + n + 1) * 2))
        p.zero_()
        assert not part.any()
        del p, q, part, twice
    assert recordings(m)["num_copied_inputs"].tolist() == [1, 0]


@scenario
def an_earlier_output_through_a_global(m: GraphManager) -> None:
    held = {}
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda: (held["p"][2:], held["p"] * 2))
    for n in range(5):
        held["p"] = a(values() + n)
        part, twice = b()
        same((part, twice), ((values() + n + 1)[2:], (values() + n + 1) * 2))
        held["p"].zero_()
        assert not part.any()
        held.clear()
        del part, twice
    assert counts(b) == (1, 1, 3, 0)


@scenario
def a_view_of_an_earlier_output_keeps_it_alive(m: GraphManager) -> None:
    a, b, c = m.wrap(lambda x: x + 1), m.wrap(lambda p: p[2:]), m.wrap(lambda x: (x * 7, x * 8, x * 9))
    for n in range(6):
        p = a(values() + n)
        part = b(p)
        del p
        more = c(values())
        same(part, (values() + n + 1)[2:])
        same(more, (values() * 7, values() * 8, values() * 9))
        del part, more


@scenario
def an_expanded_and_a_transposed_output(m: GraphManager) -> None:
    step = m.wrap(lambda x: ((x + 1).expand(4, 6), (x + 2).view(2, 3).t(), (x + 3)[::2]))
    for n in range(4):
        found = step(values() + n)
        x = values() + n
        same(found, ((x + 1).expand(4, 6), (x + 2).view(2, 3).t(), (x + 3)[::2]))
        assert [out.stride() for out in found] == [(0, 1), (1, 3), (2,)]
        del found


@scenario
def constants_and_structures_come_back(m: GraphManager) -> None:
    def function(x):
        made = OrderedDict(b=x + 1, a=[None, 3, 2.5, "text", True, 1j, torch.float16, x.shape])
        return Pair(made, {"empty": (), "none": None, "deep": [(x * 2,)]})

    step = m.wrap(function)
    for n in range(4):
        found = step(values() + n)
        assert isinstance(found, Pair)
        assert isinstance(found.first, OrderedDict)
        same(found, function(values() + n))
        assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(function(values()))


@scenario
def only_constants_is_nothing_to_replay(m: GraphManager) -> None:
    step = m.wrap(lambda x: (None, 3))
    for _ in range(4):
        assert step(values()) == (None, 3)
    assert counts(step)[1:3] == (0, 0)


@dataclass
class Batch:
    """Arguments and results of a kind that a program registers."""

    ids: torch.Tensor
    scale: float


torch.utils._pytree.register_dataclass(Batch)


@scenario
def registered_dataclasses_are_trees(m: GraphManager) -> None:
    step = m.wrap(lambda batch: Batch(batch.ids * batch.scale, batch.scale + 1))
    for n in range(4):
        found = step(Batch(values() + n, 2.0))
        assert isinstance(found, Batch)
        same((found.ids, found.scale), ((values() + n) * 2, 3.0))
    assert counts(step) == (1, 1, 2, 0)


@scenario
def an_object_that_is_no_tree_runs_without_a_graph(m: GraphManager) -> None:
    class Result:
        def __init__(self, x):
            self.x = x

    step = m.wrap(lambda x: Result(x + 1), name="opaque")
    for n in range(3):
        same(step(values() + n).x, values() + n + 1)
    row = reason_row(m, "OPAQUE_RESULT")
    assert row["function"] == "opaque"
    assert "Result" in row["detail"]
    assert "return the tensors" in row["advice"]
    assert counts(step)[1:3] == (0, 0)
    other = m.wrap(lambda x: x + 1)
    for _ in range(3):
        same(other(values()), values() + 1)


@scenario
def a_dropped_output_is_handed_out_again_as_the_same_object(m: GraphManager) -> None:
    """A tensor is reused while it has no other user, which saves a training loop that work in every step."""
    step = m.wrap(lambda x: x + 1)
    for _ in range(2):
        step(values())
    first = id(step(values()))
    assert {id(step(values() + n)) for n in range(4)} == {first}


@scenario
def a_cached_output_forgets_what_was_done_to_it(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for n in range(8):
        out = step(values() + n)
        assert not out.requires_grad
        assert out.is_leaf
        same(out, values() + n + 1)
        if n % 2:
            out.requires_grad_()
        else:
            out.note = "mine"
        del out


@scenario
def a_cached_output_has_its_shape_again(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for n in range(8):
        out = step(values() + n)
        same(out, values() + n + 1)
        (out.t_ if n % 2 else out.unsqueeze_)(*(() if n % 2 else (0,)))
        if n % 3 == 0:
            out.resize_(2)
        del out


@scenario
def in_place_on_an_output(m: GraphManager) -> None:
    a, b = m.wrap(lambda x: x + 1), m.wrap(lambda p: p * 2)
    for n in range(5):
        p = a(values() + n)
        p.mul_(10)
        same(b(p), (values() + n + 1) * 20)
        del p


@scenario
def weak_references_to_outputs_die_with_them(m: GraphManager) -> None:
    step = m.wrap(lambda x: (x + 1, (x + 2).sum()))
    for _ in range(4):
        a, b = step(values())
        storage = torch.multiprocessing.reductions.StorageWeakRef(a.view(2, 3).untyped_storage())
        assert not storage.expired()
        del a, b
    m.reset()
    gc.collect()
    assert storage.expired()


@scenario
def what_is_held_outlives_the_manager_as_an_error(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1, name="fast")
    for _ in range(3):
        held = step(values())
    m.shutdown()
    fails(lambda: held.sum(), RuntimeError, "fast", "lone it")


@scenario
def external_tensors_as_outputs(m: GraphManager) -> None:
    table = values()
    step = m.wrap(lambda x: (table, table[2:], x + 1))
    for n in range(4):
        whole, part, more = step(values() + n)
        same((whole, part, more), (table, table[2:], values() + n + 1))
        assert whole.data_ptr() == table.data_ptr()
        table.add_(1)
        same(part, table[2:])


@scenario
def an_external_tensor_comes_back_as_itself(m: GraphManager) -> None:
    table = values().requires_grad_()
    step = m.wrap(lambda x: (table, x + 1))
    for _ in range(4):
        assert step(values())[0].requires_grad
        with torch.no_grad():
            out = step(values())[0]
            assert out.data_ptr() == table.data_ptr()


@scenario
def zero_sized_tensors(m: GraphManager) -> None:
    step = m.wrap(lambda x, e: (e, e * 2, x[:0], torch.cat([x, e]), x.new_empty(0, 3)))
    for n in range(4):
        x, e = values() + n, torch.empty(0, device="cuda")
        same(step(x, e), (e, e * 2, x[:0], torch.cat([x, e]), x.new_empty(0, 3)))
    assert counts(step) == (1, 1, 2, 0)


@scenario
def complex_and_half_and_bool(m: GraphManager) -> None:
    def function(x):
        z = torch.complex(x, x + 1)
        return z.conj(), torch.view_as_real(z), z.imag, x.half(), x.bfloat16(), x > 2, x.long(), z.conj().imag

    step = m.wrap(function)
    for n in range(4):
        found, expected = step(values() + n), function(values() + n)
        same([t.resolve_conj().resolve_neg() for t in found], [t.resolve_conj().resolve_neg() for t in expected])
        assert [t.is_conj() for t in found] == [t.is_conj() for t in expected]
        assert [t.is_neg() for t in found] == [t.is_neg() for t in expected]
        del found


@scenario
def conjugated_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda z: (z * 2, z.imag + 1))
    for n in range(6):
        z = torch.complex(values(), values() + n)
        z = z.conj() if n % 2 else z
        same(step(z), ((z * 2).resolve_conj(), z.imag + 1))


@scenario
def a_parameter_s_view_comes_back(m: GraphManager) -> None:
    layer = torch.nn.Linear(3, 3, device="cuda")
    step = m.wrap(lambda x: (layer.weight[0], layer(x)))
    with torch.no_grad():
        for n in range(4):
            x = values(1, 2, 3) + n
            row, out = step(x)
            same((row, out), (layer.weight[0], layer(x)))
            layer.weight.add_(1)
            same(row, layer.weight[0])


@scenario
def attributes_that_users_hang_on_outputs_do_not_return(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for _ in range(5):
        out = step(values())
        assert not hasattr(out, "label")
        out.label = object()
        token = weakref.ref(out)
        del out
    assert token is not None


@scenario
def what_shares_only_the_storage_keeps_an_output_alive(m: GraphManager) -> None:
    """`.data` has no reference to the tensor that was returned."""
    a, b = m.wrap(lambda x: (x + 1, x * 2)), m.wrap(lambda x: (x * 7, x * 8, x * 9))
    for n in range(8):
        first, second = a(values() + n)
        alias = first.data if n > 3 else None
        del first, second
        more = b(values())
        if alias is not None:
            same(alias, values() + n + 1)
        same(more, (values() * 7, values() * 8, values() * 9))
        del alias, more


@scenario
def an_output_that_torch_fills_part_by_part(m: GraphManager) -> None:
    """Only torch's C++ holds the padded output while its parts are written."""
    rnn = torch.nn.utils.rnn

    def pad_again(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return rnn.pad_packed_sequence(packed, batch_first=True)[0]

    step = m.wrap(pad_again)
    lengths = torch.tensor([4, 2, 3])
    for n in range(5):
        x = torch.arange(24.0, device="cuda").view(3, 4, 2) + n
        mask = torch.arange(4, device="cuda") < lengths.cuda()[:, None]
        out = step(x, lengths)
        assert out.is_cuda
        same(out, x * mask[..., None])
