"""Random numbers: each virtual device has its own generator, and the host's is not used."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional

import cudalens.virtual
from cudalens.errors import VirtualDeviceError


@pytest.fixture(autouse=True)
def device() -> Iterator[cudalens.virtual.device]:
    state = torch.get_rng_state()
    torch.manual_seed(0)
    with cudalens.virtual.device("h100x2") as entered:
        yield entered
    torch.set_rng_state(state)


def _ones(*sizes: int) -> torch.Tensor:
    return torch.ones(*(sizes or (8, 8)), device="cuda")


DRAWS: dict[str, Callable[[], object]] = {
    "rand": lambda: torch.rand(3, device="cuda"),
    "randn": lambda: torch.randn(3, device="cuda"),
    "randint": lambda: torch.randint(5, (3,), device="cuda"),
    "randint low": lambda: torch.randint(1, 5, (3,), device="cuda"),
    "randperm": lambda: torch.randperm(9, device="cuda"),
    "rand_like": lambda: torch.rand_like(_ones()),
    "randn_like": lambda: torch.randn_like(_ones()),
    "randint_like": lambda: torch.randint_like(_ones(), 5),
    "randint_like low": lambda: torch.randint_like(_ones(), 1, 5),
    "native_dropout": lambda: torch.native_dropout(_ones(), 0.5, True),
    "dropout": lambda: functional.dropout(_ones(), 0.5),
    "alpha_dropout": lambda: functional.alpha_dropout(_ones(), 0.5, True),
    "dropout2d": lambda: functional.dropout2d(_ones(1, 2, 4, 4), 0.5),
    "rrelu": lambda: functional.rrelu(-_ones(), training=True),
    "gumbel_softmax": lambda: functional.gumbel_softmax(_ones()),
    "fractional_max_pool": lambda: functional.fractional_max_pool2d(_ones(1, 1, 8, 8), 2, output_size=4),
    "attention": lambda: functional.scaled_dot_product_attention(
        _ones(1, 1, 8, 8), _ones(1, 1, 8, 8), _ones(1, 1, 8, 8), dropout_p=0.5
    ),
    "bernoulli": lambda: torch.bernoulli(_ones() / 2),
    "bernoulli p": lambda: torch.bernoulli(_ones(), 0.3),
    "bernoulli_": lambda: _ones().bernoulli_(0.3),
    "bernoulli_ tensor": lambda: _ones().bernoulli_(_ones() / 2),
    "multinomial": lambda: torch.multinomial(_ones(8), 3),
    "normal tensor float": lambda: torch.normal(_ones(), 1.0),
    "normal float tensor": lambda: torch.normal(0.0, _ones()),
    "normal tensor tensor": lambda: torch.normal(_ones(), _ones()),
    "normal float float": lambda: torch.normal(0.0, 1.0, (3,), device="cuda"),
    "uniform_": lambda: _ones().uniform_(),
    "normal_": lambda: _ones().normal_(),
    "exponential_": lambda: _ones().exponential_(),
    "cauchy_": lambda: _ones().cauchy_(),
    "geometric_": lambda: _ones().geometric_(0.5),
    "log_normal_": lambda: _ones().log_normal_(),
    "random_": lambda: _ones().random_(),
    "random_ to": lambda: _ones().random_(5),
    "random_ from to": lambda: _ones().random_(1, 5),
    "poisson": lambda: torch.poisson(_ones() * 5),
    "binomial": lambda: torch.binomial(_ones() * 9, _ones() / 2),
    "gamma": lambda: torch._standard_gamma(_ones()),
    "dirichlet": lambda: torch._sample_dirichlet(_ones()),
    "categorical": lambda: torch.distributions.Categorical(logits=_ones()).sample(),
    "trunc_normal_": lambda: torch.nn.init.trunc_normal_(_ones()),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_ops_draw_from_the_device_and_leave_the_host_alone(draw: Callable[[], object]) -> None:
    _ones()
    host, before = torch.get_rng_state(), torch.cuda.get_rng_state()
    other = torch.cuda.get_rng_state(1)
    draw()
    assert torch.equal(torch.get_rng_state(), host)
    assert not torch.equal(torch.cuda.get_rng_state(), before)
    assert torch.equal(torch.cuda.get_rng_state(1), other)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_draws_repeat_with_their_seed(draw: Callable[[], object]) -> None:
    torch.cuda.manual_seed(3)
    draw()
    first = torch.cuda.get_rng_state()
    torch.cuda.manual_seed(3)
    draw()
    assert torch.equal(torch.cuda.get_rng_state(), first)


def test_the_seed_of_torch_reaches_every_device_and_gives_the_cpus_numbers() -> None:
    torch.manual_seed(4)
    on_device = [torch.randn(5, device=f"cuda:{index}").cpu() for index in (0, 1)]
    on_host = torch.randn(5)
    assert torch.equal(on_device[0], on_host)
    assert torch.equal(on_device[1], on_host)
    assert torch.cuda.initial_seed() == 4


def test_a_seed_from_before_the_device_holds() -> None:
    assert torch.equal(torch.randn(3, device="cuda").cpu(), torch.randn(3))


@pytest.mark.parametrize("spelling", ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda", 0)])
def test_generators_have_a_device(spelling: object) -> None:
    generator = torch.Generator(device=spelling)  # type: ignore[arg-type]
    assert generator.device == torch.device("cuda", 0)
    assert isinstance(generator, torch.Generator)
    assert generator.manual_seed(3) is generator
    assert generator.initial_seed() == 3


def test_a_host_generator_is_still_torchs_own() -> None:
    generator = torch.Generator()
    assert type(generator) is torch._C.Generator
    assert isinstance(generator, torch.Generator)
    assert generator.device == torch.device("cpu")


def test_a_generator_is_drawn_from_where_it_is_given() -> None:
    generator = torch.Generator(device="cuda").manual_seed(3)
    default = torch.cuda.get_rng_state()
    drawn = torch.randn(4, device="cuda", generator=generator)
    assert torch.equal(drawn.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(3)))
    assert torch.equal(torch.cuda.get_rng_state(), default)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.randn(3, device="cuda", generator=g),
        lambda g: torch.empty(3, device="cuda").normal_(generator=g),
        lambda g: torch.randperm(3, device="cuda", generator=g),
        lambda g: torch.multinomial(torch.ones(3, device="cuda"), 2, generator=g),
    ],
)
def test_a_host_generator_on_the_device_is_refused_in_torchs_words(draw: Callable[[torch.Generator], object]) -> None:
    with pytest.raises(RuntimeError, match=r"^Expected a 'cuda' device type for generator but found 'cpu'$"):
        draw(torch.Generator())


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.randn(3, generator=g),
        lambda g: torch.empty(3).normal_(generator=g),
        lambda g: torch.randperm(3, generator=g),
        lambda g: torch.multinomial(torch.ones(3), 2, generator=g),
    ],
)
def test_a_device_generator_on_the_host_is_refused_in_torchs_words(draw: Callable[[torch.Generator], object]) -> None:
    with pytest.raises(RuntimeError, match=r"^Expected a 'cpu' device type for generator but found 'cuda'$"):
        draw(torch.Generator(device="cuda"))


def test_states_are_taken_and_set() -> None:
    state = torch.cuda.get_rng_state()
    drawn = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="cuda"), drawn)
    states = torch.cuda.get_rng_state_all()
    drawn = torch.rand(3, device="cuda:1")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="cuda:1"), drawn)


def test_seeds_of_one_device_and_of_all() -> None:
    torch.cuda.init()
    torch.cuda.manual_seed_all(9)
    assert [generator.initial_seed() for generator in torch.cuda.default_generators] == [9, 9]
    torch.cuda.manual_seed(8)
    assert [generator.initial_seed() for generator in torch.cuda.default_generators] == [8, 9]
    torch.cuda.seed()
    assert torch.cuda.initial_seed() not in (8, 9)
    torch.cuda.seed_all()
    seeds = {generator.initial_seed() for generator in torch.cuda.default_generators}
    assert len(seeds) == 1


def test_fork_rng_puts_the_devices_back() -> None:
    torch.cuda.manual_seed(1)
    with torch.random.fork_rng(devices=[0, 1]):
        inside = torch.rand(3, device="cuda")
        torch.manual_seed(77)
    assert torch.equal(torch.rand(3, device="cuda"), inside)


def test_a_generators_state_is_cloned_copied_and_pickled() -> None:
    generator = torch.Generator(device="cuda:1").manual_seed(5)
    torch.rand(3, device="cuda:1", generator=generator)
    others = [generator.clone_state(), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = torch.rand(3, device="cuda:1", generator=generator)
    for other in others:
        assert other.device == torch.device("cuda", 1)
        assert torch.equal(torch.rand(3, device="cuda:1", generator=other), expected)


def test_a_real_gpus_state_is_refused() -> None:
    torch.cuda.init()
    with pytest.raises(VirtualDeviceError, match="16 bytes"):
        torch.cuda.set_rng_state(torch.zeros(16, dtype=torch.uint8))


def test_philox_is_refused() -> None:
    with pytest.raises(VirtualDeviceError, match="get_offset"):
        torch.Generator(device="cuda").get_offset()


def test_generators_share_a_state() -> None:
    generator = torch.Generator(device="cuda").manual_seed(3)
    shared, copied = generator.graphsafe_get_state(), generator.clone_state()
    drawn = torch.rand(4, device="cuda", generator=generator)
    assert not torch.equal(torch.rand(4, device="cuda", generator=shared), drawn)
    assert torch.equal(torch.rand(4, device="cuda", generator=copied), drawn)
    assert shared.initial_seed() == 3
    generator.graphsafe_set_state(copied)
    assert torch.equal(generator.get_state(), copied.get_state())
    assert not torch.equal(generator.get_state(), shared.get_state())
    torch.cuda.default_generators[0].graphsafe_set_state(generator)
    torch.manual_seed(5)
    assert generator.initial_seed() == 5


@pytest.mark.parametrize("high", [2**32 - 1, 2**32, 2**62])
def test_large_ranges_with_a_generator(high: int) -> None:
    def draw(**place):
        generator = torch.Generator(place.get("device", "cpu")).manual_seed(1)
        return torch.randint(high, (100,), generator=generator, **place)

    assert torch.equal(draw(device="cuda").cpu(), draw())


def test_the_old_class_is_back_afterwards(device: cudalens.virtual.device) -> None:
    generator = torch.Generator(device="cuda")
    device.disable()
    assert torch.Generator is torch._C.Generator
    assert isinstance(generator, torch.Generator)
