"""What programs do, done again: it gives the same bits, whatever torch did; and orders that matter show."""

import pytest
import torch

import cudalens
from cudalens.errors import ExploreError
from cudalens.virtual import device


@pytest.fixture(autouse=True)
def gpu():
    with device("h100x2"):
        torch.manual_seed(0)
        yield


def watched(program, **names):
    """Watches a function, whose dict of results is compared."""
    san = cudalens.sanitize(explore=True)
    san.start()
    found = program()
    san.end_block(found)
    san.stop()
    assert san.error is None
    return san


def assert_faithful(program, budget=12):
    """In its own order it gives what the run gave, and no other order changes a bit."""
    san = watched(program)
    found = san.explore(budget)
    assert found.outputs
    assert not found.notes
    assert not san.races
    assert not found.differs
    return found


def side():
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return stream


def test_training_with_dropout_on_two_streams():
    def program():
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(16, 4),
        ).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        other = side()
        for _ in range(3):
            optimizer.zero_grad()
            batch, target = torch.randn(32, 8, device="cuda"), torch.randint(4, (32,), device="cuda")
            other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                loss = torch.nn.functional.cross_entropy(model(batch), target)
                loss.backward()
            torch.cuda.current_stream().wait_stream(other)
            optimizer.step()
            losses.append(loss.item())
        return {"model": model, "loss": loss}

    found = assert_faithful(program)
    assert {"model.0.weight", "model.0.weight.grad", "model.1.running_mean", "loss", "loss.item()"} <= set(
        found.outputs
    )


def test_what_the_host_computes_from_copies():
    def program():
        x = torch.randn(4, 4, device="cuda")
        pinned = torch.empty(4, 4, pin_memory=True)
        pinned.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        doubled = pinned * 2
        pinned.add_(1)
        back = pinned.cuda(non_blocking=True) + doubled.cuda()
        noisy = pinned.normal_().cuda(non_blocking=True)
        return {"doubled": doubled, "back": back, "noisy": noisy, "total": back.sum().cpu()}

    assert_faithful(program)


def test_sizes_that_the_host_learns_and_tensors_that_grow():
    def program():
        x = torch.randn(50, device="cuda")
        chosen = x[x > 0]
        places = (x < 0).nonzero()
        grown = torch.zeros(4, device="cuda")
        grown.resize_(1000).fill_(2)
        out = torch.empty(0, device="cuda")
        torch.mul(x, 3, out=out)
        taken = x.index_select(0, places[:, 0]).index_put_((torch.tensor([0, 1]),), torch.tensor(5.0, device="cuda"))
        return {"chosen": chosen, "places": places, "grown": grown, "out": out, "taken": taken}

    assert_faithful(program)


def test_views_and_numbers_of_every_kind():
    def program():
        z = torch.randn(4, 4, dtype=torch.complex64, device="cuda")
        product = z.conj().T @ z
        imaginary = product.imag.clone()
        half = torch.randn(8, device="cuda").bfloat16()
        small = torch.randn(8, device="cuda").to(torch.float8_e4m3fn)
        truth = imaginary > 0
        negated = torch._neg_view(imaginary) * 1
        return locals()

    assert_faithful(program)


def test_what_was_there_before_is_kept():
    x, hidden = torch.randn(16, device="cuda"), torch.randn(16, device="cuda")

    def program():
        y = x * 2 + hidden
        x.zero_()
        return {"x": x, "y": y}

    found = assert_faithful(program)
    assert found.outputs == ("x", "y")


def test_two_devices_copy_to_each_other():
    def program():
        x = torch.randn(64, device="cuda:0")
        y = x.to("cuda:1") * 2
        return {"z": y.to("cuda:0") + x}

    assert_faithful(program)


def test_a_graph_that_is_replayed_and_waited_for():
    static = torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = (static + torch.rand_like(static)).relu()
        total = out.sum()

    def program():
        stream = side()
        kept = []
        for value in range(3):
            static.fill_(value)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                graph.replay()
            torch.cuda.current_stream().wait_stream(stream)
            kept.append(total * 2)
        return {"kept": kept, "out": out}

    assert_faithful(program)


@pytest.mark.parametrize("is_seen", [True, False], ids=["captured while watched", "captured before"])
def test_a_graph_whose_output_is_not_waited_for(is_seen):
    static, stream = torch.zeros(8, device="cuda"), torch.cuda.Stream()

    def captured():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = static + 1
        return graph, out

    before = None if is_seen else captured()

    def program():
        graph, out = before or captured()
        static.fill_(3)
        with torch.cuda.stream(stream):
            graph.replay()
        return {"y": out * 2}

    found = watched(program).explore()
    shown = [race.shown for race in found.confirmed] or found.others
    assert bool(found.confirmed) == is_seen  # the sanitizer has no record of a graph that was captured before it was on
    assert any(difference.name == "y" for one in shown for difference in one.differences)


def test_random_numbers_come_by_the_order_of_the_calls():
    def program():
        one, two = side(), side()
        with torch.cuda.stream(one):
            x = torch.rand(8, device="cuda")
        with torch.cuda.stream(two):
            y = torch.nn.functional.dropout(torch.ones(8, device="cuda"))
        return {"x": x, "y": y}

    found = assert_faithful(program)
    assert found.is_exhaustive


def test_memory_used_after_it_was_handed_out_again():
    def program():
        other = side()
        x = torch.full((256,), 1.0, device="cuda")
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            y = x * 2
        address = x.data_ptr()
        del x
        z = torch.full((256,), -1.0, device="cuda")
        assert z.data_ptr() == address
        return {"y": y, "z": z}

    found = watched(program).explore()
    (race,) = found.races
    assert race.verdict == "confirmed"
    (difference,) = race.shown.differences
    assert (difference.name, difference.found, difference.expected) == ("y", -2.0, 2.0)
    assert str(difference) == "`y`: 256 of 256 elements differ, first at [0]: -2 instead of 2"


def test_a_write_past_torch_that_comes_too_early():
    def program():
        pinned = torch.zeros(4, pin_memory=True)
        array = pinned.numpy()
        array[:] = 1
        x = pinned.cuda(non_blocking=True)
        array[:] = 2
        y = pinned.cuda(non_blocking=True)
        return {"x": x, "y": y}

    found = watched(program).explore()
    assert not found.notes
    (shown, *_) = found.others
    assert {(d.name, d.expected, d.found) for d in shown.differences} == {("x", 1.0, 2.0)}


def test_a_race_that_does_not_show_is_benign_so_far():
    def program():
        x = torch.full((8,), 3.0, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            x.fill_(3.0)
        return {"x": x}

    found = watched(program).explore()
    assert found.is_exhaustive
    (race,) = found.races
    assert race.verdict == "benign"
    assert "benign so far: the same bits in 1 schedule" in str(found)


def test_an_operator_that_fails_in_another_order():
    def program():
        table, stream = torch.arange(10.0, device="cuda"), torch.cuda.Stream()
        index = torch.full((3,), 10_000, device="cuda")
        torch.cuda.synchronize()
        index.fill_(2)
        with torch.cuda.stream(stream):
            y = table[index]
        return {"y": y}

    (race,) = watched(program).explore().races
    assert race.verdict == "confirmed"
    assert "raises IndexError: index 10000 is out of bounds" in str(race)


def test_races_that_share_an_access_are_distinguished():
    def program():
        x, y, stream = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda"), torch.cuda.Stream()
        torch.cuda.synchronize()
        x.fill_(1)
        y.fill_(0)
        with torch.cuda.stream(stream):
            a = x * 2
            b = y * 2
        return {"a": a, "b": b}

    found = watched(program).explore()
    assert [race.verdict for race in found.races] == ["confirmed", "benign"]
    assert [d.name for d in found.races[0].shown.differences] == ["a"]


def test_a_schedule_comes_again_by_its_seed():
    def program():
        x = torch.ones(8, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            y = x * 2
        return {"y": y}

    san = watched(program)
    shown = san.explore().races[0].shown
    again = san.replay_schedule(shown.seed)
    assert (again.order, again.differences) == (shown.order, shown.differences)
    assert again.turned == ((1, 0),)
    assert not san.replay_schedule("program").differences
    with pytest.raises(ExploreError, match="not the seed of a schedule"):
        san.replay_schedule("first")


def test_what_cannot_be_explored_is_reported():
    with pytest.raises(ExploreError, match=r"explore=True"):
        cudalens.sanitize().explore()
    with cudalens.sanitize(explore=True) as san:
        pass
    with pytest.raises(ExploreError, match="nothing to explore"):
        san.explore()
    with cudalens.sanitize(explore=True) as san:
        torch.ones(4, device="cuda")
    with pytest.raises(ExploreError, match="budget=0"):
        san.explore(0)
    with pytest.raises(ExploreError, match=r"budget=2\.5: expected the number of orders"):
        san.explore(2.5)
    with pytest.raises(ExploreError, match="seed='a': expected the first seed"):
        san.explore(seed="a")
    with pytest.raises(ExploreError, match=r"3\.5 is not the seed of a schedule"):
        san.replay_schedule(3.5)
    with cudalens.sanitize(explore=True, explore_bytes=1000) as san:
        torch.ones(1000, device="cuda")
    with pytest.raises(ExploreError, match=r"explore_bytes"):
        san.explore()
    x = torch.ones(1000, device="cuda")
    with cudalens.sanitize(explore=True, explore_bytes=1000) as san:
        x.sum()
    with pytest.raises(ExploreError, match=r"limit of 0 MiB.*explore_bytes"):
        san.explore()
    with cudalens.sanitize(explore=True) as san:
        torch.ones(4, pin_memory=True).to_sparse()
    with pytest.raises(ExploreError, match=r"layout torch.sparse_coo"):
        san.explore()
