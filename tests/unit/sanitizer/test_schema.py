"""What an overload's plan says."""

import pytest
import torch

from cudalens.device.modes import has_own_dispatch
from cudalens.sanitizer.live.schema import make_plan, pairs, pieces, results

aten = torch.ops.aten
ADAM = ["self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"]


def roles(func):
    """Arguments that are read, arguments that are written, and whether results are."""
    plan = make_plan(func)
    read = [use.argument for use, is_write in (u for u in plan.inputs if u) if not is_write]
    written = [use.argument for use, is_write in (u for u in plan.inputs if u) if is_write]
    return read, written, bool(plan.outputs) and not plan.is_empty


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (aten.add.Tensor, (["self", "other"], [], True)),
        (aten.add_.Tensor, (["other"], ["self"], False)),
        (aten.add.out, (["self", "other"], ["out"], False)),
        (aten.cat.default, (["tensors"], [], True)),
        (aten._foreach_add_.List, (["other"], ["self"], False)),
        (aten.index_put_.default, (["indices", "values"], ["self"], False)),
        (aten.zeros_like.default, ([], [], True)),
        (aten.new_ones.default, ([], [], True)),
        (aten.empty_like.default, ([], [], False)),
        (aten.empty.memory_format, ([], [], False)),
        (aten.copy_.default, (["src"], ["self"], False)),
        (aten._local_scalar_dense.default, (["self"], [], False)),
        (aten._fused_adam_.default, (["state_steps", "grad_scale", "found_inf"], ADAM, False)),
        (aten.native_batch_norm.default, (["input", "weight", "bias", "running_mean", "running_var"], [], True)),
    ],
    ids=str,
)
def test_roles(func, expected):
    read, written, fills = roles(func)
    assert (read, written, fills) == expected


@pytest.mark.parametrize(
    "func",
    [
        aten.view.default,
        aten.t_.default,
        aten.detach.default,
        aten.split.Tensor,
        aten.set_.source_Tensor,
        aten._unsafe_view.default,
        aten.squeeze_.dim,
        aten.lift_fresh.default,
        aten.as_strided_.default,
        aten.is_same_size.default,
    ],
    ids=str,
)
def test_silent(func):
    assert make_plan(func).is_silent


def test_batch_norm_writes_its_statistics_while_training():
    plan = make_plan(aten.native_batch_norm.default)
    training = plan.training
    assert {use.argument for use, is_write in (u for u in training.inputs if u) if is_write} == {
        "running_mean",
        "running_var",
    }
    assert aten.native_batch_norm.default._schema.arguments[plan.training_at].name == "training"


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_collectives_write_what_their_schemas_do_not_declare():
    import torch.distributed

    plan = make_plan(torch.ops.c10d.allreduce_.default)
    assert plan.is_collective
    assert roles(torch.ops.c10d.allreduce_.default)[1] == ["tensors"]
    assert roles(torch.ops.c10d._allgather_base_.default)[:2] == (["input_tensor"], ["output_tensor"])


def test_pairs_take_lists_and_names_apart():
    a, b, c = (torch.ones(1) for _ in range(3))
    plan = make_plan(aten.index_put_.default)
    found = [(value is c, use.argument, w) for value, (use, w) in pairs(plan, (a, [None, b]), {"values": c})]
    assert found == [
        (False, "self", True),
        (False, "indices", False),
        (False, "indices", False),
        (True, "values", False),
    ]


def test_results_that_are_lists_and_tuples():
    a, b = torch.ones(1), torch.ones(1)
    assert [t for t, _ in results([a, b], make_plan(aten._foreach_add.Scalar).outputs)] == [a, b]
    assert [use.argument for _, use in results((a, b), make_plan(aten.max.dim).outputs)] == ["values", "indices"]
    assert list(results(3.0, make_plan(aten._local_scalar_dense.default).outputs or (None,))) == []


def test_a_sparse_tensor_is_its_pieces():
    dense = torch.eye(3)
    assert [piece.shape for piece in pieces(dense.to_sparse())] == [(2, 3), (3,)]
    assert [piece.shape for piece in pieces(dense.to_sparse_csr())] == [(4,), (3,), (3,)]
    assert list(pieces(dense)) == []


def test_parameters_have_no_dispatch_of_their_own():
    assert not has_own_dispatch((torch.nn.Parameter,))
    assert has_own_dispatch((torch.nn.Parameter, torch._subclasses.FakeTensor))
