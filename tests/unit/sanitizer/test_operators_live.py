"""What operators are taken to touch: PyTorch programs on two streams of the virtual device, with their verdicts."""

import pytest
import torch

import cudalens
from cudalens.sanitizer import RaceKind

RAW, WAR, WAW = RaceKind.READ_AFTER_WRITE, RaceKind.WRITE_AFTER_READ, RaceKind.WRITE_AFTER_WRITE


def kinds(san):
    assert san.error is None
    return [race.kind for race in san.races]


def watched(before, after, side, *, join=False):
    """The races of `after` on a side stream with `before` on the default stream; both are given the same tensors."""
    made = {
        "a": torch.ones(4, 8, device="cuda"),
        "b": torch.ones(4, 8, device="cuda"),
        "i": torch.tensor([0, 1], device="cuda"),
    }
    torch.cuda.synchronize()
    with cudalens.sanitize() as san:
        kept = [before(**made)]
        if join:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            kept.append(after(**made))
        torch.cuda.synchronize()
    return kinds(san)


def fill(a, **others):
    return a.fill_(2)


def read(a, **others):
    return a.sum()


READS = {
    "plain": lambda a, **_: a + 1,
    "view": lambda a, **_: a.t()[1:].sum(),
    "mm": lambda a, b, **_: a @ b.t(),
    "list": lambda a, b, **_: torch.cat([b, a]),
    "foreach": lambda a, b, **_: torch._foreach_add([b, a], 1),
    "index": lambda a, i, **_: a[i],
    "where": lambda a, b, **_: torch.where(a > 0, a, b),
    "source of copy_": lambda a, b, **_: b.copy_(a),
    "keyword": lambda a, b, **_: torch.add(input=b, other=a),
    "conversion": lambda a, **_: a.to(torch.float64),
    "to the host": lambda a, **_: a.cpu(),
    "item": lambda a, **_: a[0, 0].item(),
    "nonzero": lambda a, **_: a.nonzero(),
    "mask": lambda a, b, **_: b[a > 0],
    "equal": lambda a, b, **_: torch.equal(a, b),
    "linear": lambda a, **_: torch.nn.functional.linear(a, a),
    "optional": lambda a, b, **_: torch.nn.functional.layer_norm(b, (8,), a[0]),
}

WRITES = {
    "in place": lambda a, **_: a.add_(1),
    "in place on a view": lambda a, **_: a[1:3].mul_(2),
    "in place on a transposed view": lambda a, **_: a.t()[2].zero_(),
    "out=": lambda a, b, **_: torch.add(b, 1, out=a),
    "foreach": lambda a, b, **_: torch._foreach_mul_([b, a], 2),
    "copy_": lambda a, b, **_: a.copy_(b),
    "from the host": lambda a, **_: a.copy_(torch.zeros(4, 8)),
    "assignment": lambda a, **_: a.__setitem__(0, 3),
    "index_put_": lambda a, b, i, **_: a.index_put_((i,), b[:2]),
    "scatter_": lambda a, i, **_: a.scatter_(1, i[None], 1.0),
    "random": lambda a, **_: a.normal_(),
    "running statistics": lambda a, b, **_: torch.nn.functional.batch_norm(
        b, a[0], torch.ones(8, device="cuda"), training=True
    ),
}

NEITHER = {
    "views": lambda a, **_: a.reshape(-1)[2:].view(-1, 2).t().unsqueeze(0).detach().split(2),
    "metadata in place": lambda a, **_: a.view(4, 8).t_().squeeze_().unsqueeze_(0),
    "likes": lambda a, **_: (torch.empty_like(a), torch.zeros_like(a), torch.rand_like(a), a.new_ones(3)),
    "shape": lambda a, **_: (a.shape, a.stride(), a.numel(), a.is_contiguous(), len(a)),
    "empty part": lambda a, **_: a[:0].add_(1),
    "other rows": lambda a, b, **_: b.fill_(1),
    "set_": lambda a, **_: torch.empty(0, device="cuda").set_(a),
}


@pytest.mark.parametrize("act", READS.values(), ids=READS)
def test_reading_what_another_stream_writes(side, act):
    assert RAW in watched(fill, act, side)
    assert watched(fill, act, side, join=True) == []


@pytest.mark.parametrize("act", READS.values(), ids=READS)
def test_reads_do_not_race(side, act):
    assert watched(read, act, side) == []


@pytest.mark.parametrize("act", WRITES.values(), ids=WRITES)
def test_writing_what_another_stream_reads_or_writes(side, act):
    assert WAR in watched(read, act, side)
    assert WAW in watched(fill, act, side)
    assert watched(fill, act, side, join=True) == []


@pytest.mark.parametrize("act", NEITHER.values(), ids=NEITHER)
def test_touching_no_element(side, act):
    assert watched(fill, act, side) == []


def test_batch_norm_writes_no_statistics_outside_of_training(side):
    def norm(a, b, **_):
        return torch.nn.functional.batch_norm(b, a[0], torch.ones(8, device="cuda"), training=False)

    assert watched(read, norm, side) == []


def test_rows_of_one_tensor_are_apart_and_overlapping_ones_are_not(side):
    def rows(low, high):
        return lambda a, **_: a[low:high].fill_(1)

    assert watched(rows(0, 2), rows(2, 4), side) == []
    assert watched(rows(0, 3), rows(2, 4), side) == [WAW]


def test_interleaved_columns_are_apart(side):
    assert watched(lambda a, **_: a[:, ::2].fill_(1), lambda a, **_: a[:, 1::2].fill_(1), side) == []
    assert watched(lambda a, **_: a[:, ::2].fill_(1), lambda a, **_: a[:, ::3].fill_(1), side) == [WAW]


def test_what_an_operator_returns_belongs_to_its_stream(side):
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            made = torch.ones(8, device="cuda")
        made.sum()
    assert kinds(san) == [RAW]
    (race,) = san.races
    assert (race.first.op, race.first.argument, race.second.op, race.second.argument) == (
        "aten::ones",
        "output",
        "aten::sum",
        "self",
    )


def test_an_operator_that_returns_its_input_does_not_write_it(side):
    def identity(a, **_):
        return torch.ops.cudalens_test.identity(a)

    with torch.library._scoped_library("cudalens_test", "FRAGMENT") as library:
        library.define("identity(Tensor x) -> Tensor")
        library.impl("identity", lambda x: x, "CompositeExplicitAutograd")
        assert watched(read, identity, side) == []
        assert watched(fill, identity, side) == [RAW]


def test_a_custom_operator_writes_what_its_schema_states(side):
    with torch.library._scoped_library("cudalens_test", "FRAGMENT") as library:
        library.define("bump(Tensor(a!) x, Tensor y) -> ()")
        library.impl("bump", lambda x, y: (x.add_(y), None)[1], "CompositeExplicitAutograd")

        def bump(a, b, **_):
            return torch.ops.cudalens_test.bump(a, b)

        assert WAR in watched(read, bump, side)


def test_each_side_of_a_race_states_what_and_where(side):
    x = torch.ones(4, 8, device="cuda", dtype=torch.float16)
    with cudalens.sanitize() as san:
        x.add_(1)
        with torch.cuda.stream(side):
            x.t()[1:].sum()
    (race,) = san.races
    first, second = race.first, race.second
    assert (first.is_write, first.shape, first.stride, first.dtype, first.stream.stream) == (
        True,
        (4, 8),
        None,
        "float16",
        0,
    )
    assert (second.shape, second.stride, second.stream.stream) == ((7, 4), (1, 8), side.cuda_stream)
    assert second.region.start == x.data_ptr() + 2
    assert [place.filename for place in (first.place, second.place)] == [__file__] * 2
    assert second.place.line == first.place.line + 2
    assert second.place.source == "x.t()[1:].sum()"


def test_a_blocking_copy_and_item_order_what_follows(side):
    x, h = torch.ones(8, device="cuda"), torch.zeros(8)
    with cudalens.sanitize() as san:
        for wait in (lambda: x.sum().item(), lambda: h.copy_(x), lambda: x.cpu(), lambda: x.copy_(h)):
            x.fill_(1)
            wait()
            with torch.cuda.stream(side):
                x.fill_(2)
            side.synchronize()
    assert kinds(san) == []


def test_nonzero_goes_on_after_the_host_has_waited(side):
    mask = torch.ones(8, device="cuda")
    with cudalens.sanitize() as san:
        places = mask.nonzero()
        with torch.cuda.stream(side):
            places.add_(1)
    assert kinds(san) == [WAW]


def test_copies_between_devices_are_ordered_by_torch(gpu):
    x = torch.ones(8, device="cuda:0")
    with cudalens.sanitize() as san:
        y = x.to("cuda:1")
        y.add_(1)
        x.add_(1)
    assert kinds(san) == []


def test_default_streams_of_two_devices_are_two_streams(gpu):
    h = torch.zeros(8).pin_memory()
    with cudalens.sanitize() as san:
        torch.ones(8, device="cuda:0").copy_(h, non_blocking=True)
        h.copy_(torch.ones(8, device="cuda:1"), non_blocking=True)
    assert kinds(san) == [WAR]


def test_resizing_takes_the_old_memory_along(side):
    x = torch.ones(8, device="cuda")
    with cudalens.sanitize() as san:
        with torch.cuda.stream(side):
            x.fill_(2)
        x.resize_(1 << 20)
        x.fill_(1)
    assert RAW in kinds(san)


def test_backward_runs_on_the_streams_of_forward(side):
    x = torch.ones(8, device="cuda", requires_grad=True)
    with cudalens.sanitize() as san:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = (x * 2).sum()
        torch.cuda.current_stream().wait_stream(side)
        loss.backward()
        x.grad.add_(1)
        torch.cuda.synchronize()
    assert kinds(san) == []
