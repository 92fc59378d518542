"""Races whose values were tried: by the explorer, and by delayed runs; what differs is taken from real tensors."""

import torch
from sample_races import INFO, races_frame, read_after_write, use_after_free

from cudalens.frames import StackTable, Trace
from cudalens.frames.exploration import Exploration, RaceVerdict, Shown, Step, columns_of_race
from cudalens.kernels.differing import difference_of

NAMES = ("aten::zeros", "aten::mul_", "aten::add_", "aten::relu", "aten::sum", "aten::linear", "aten::copy_", "numpy")
STEPS = tuple(
    Step(
        n,
        "stream side" if n in (1, 2, 3) else "host" if n == 7 else "the default stream",
        name,
        f"In[7]:{n + 2}",
        f"line {n}",
    )
    for n, name in enumerate(NAMES)
)
ORDER = (0, 4, 5, 1, 2, 3, 6, 7)


def tensors(shape=(192, 256)):
    """A tensor as it should be, and one that a race has left half written, with a NaN."""
    rows, columns = (torch.linspace(-1, 1, size) for size in shape)
    expected = torch.sin(4 * rows)[:, None] * torch.cos(3 * columns)[None, :] * 2
    found = expected.clone()
    found[shape[0] // 3 :, : shape[1] // 2] *= 0.25
    found[-1, 3] = torch.nan
    return expected, found


def differences():
    expected, found = tensors()
    total = difference_of("total", expected.sum(), expected.sum() * 0.75)
    row = difference_of("losses[3]", torch.arange(48.0), torch.arange(48.0).where(torch.arange(48) % 7 > 1, 0))
    return tuple(filter(None, (difference_of("hidden", expected, found), total, row)))


def verdicts(seed):
    shown = Shown(seed, ORDER, differences(), ((4, 1),))
    pair = ((1, 4),)
    return (
        RaceVerdict(0, "aten::sum reads grads", "confirmed", 1, pair, shown),
        RaceVerdict(1, "aten::zeros writes other", "benign", 20, pair),
        RaceVerdict(2, "aten::copy_ writes host", "unknown", 0, (), why="its accesses were not seen on two streams"),
    )


def value_exploration(seed="rush:4<1"):
    """What came of trying orders; delayed runs where the seed says so."""
    is_delayed = seed.startswith("hold:")
    source = "cuda" if is_delayed else "virtual:h100"
    names = ("hidden", "total", "losses[3]", "logits")
    return Exploration(source, 21, False, verdicts(seed), (), names, STEPS, (), is_delayed)


def value_trace(seed="rush:4<1"):
    """Three races: confirmed by value, benign so far, and one of which nothing was tried."""
    stacks = StackTable()
    confirmed, benign, _ = (columns_of_race(one, STEPS) for one in verdicts(seed))
    rows = [
        read_after_write(stacks) | confirmed,
        use_after_free(stacks) | benign,
        read_after_write(stacks, kind="write after write", first_place="In[7]:9"),
    ]
    return Trace(INFO, races=races_frame(rows), stacks=stacks.to_frame())
