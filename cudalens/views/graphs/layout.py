"""Where recordings stand in the drawing of their tree: chains that go straight down, with branches at their side.

A recording that has one successor stands above it in the same lane, so that a long chain needs no width. Of several
successors one goes on in the lane: the one on the current path, else the one under which most was replayed. The others
branch off. Leaving the main lane halves what is replayed below, so that nesting stays within the logarithm of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cudalens.analysis import units
from cudalens.views.graphs.model import GraphsView, Recording

#: Recordings in a row, without a branch, that are shown one by one; of more, the inner ones fold into one line.
MAX_CHAIN: Final = 9

#: Branches at one recording, and trees, that are shown; of more, the less travelled fold into one line.
MAX_BRANCHES: Final = 6

_HEAD, _TAIL = 4, 3
_MAX_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class Stop:
    """A recording in its chain, and the branches that leave the chain after it (the most travelled first)."""

    recording: Recording
    branches: tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Recordings that follow one another, from the top down."""

    stops: tuple[Stop, ...]

    @property
    def is_on_path(self) -> bool:
        """Whether the current path begins it."""
        return self.stops[0].recording.is_on_path

    def recordings(self) -> Iterator[Recording]:
        """All of them, those of the branches too, in the order of the drawing."""
        for stop in self.stops:
            yield stop.recording
            for branch in stop.branches:
                yield from branch.recordings()


@dataclass(frozen=True, slots=True)
class Fold:
    """Recordings that one line stands for until it is opened.

    Attributes:
        stops: Of a chain; empty where chains are folded.
        chains: Branches or trees; empty where stops are folded.
    """

    stops: tuple[Stop, ...] = ()
    chains: tuple[Chain, ...] = ()

    def label(self, noun: str = "branch") -> str:
        """What it holds, in one line; `noun` is what its chains are."""
        within = [recording for chain in (*self.chains, Chain(self.stops)) for recording in chain.recordings()]
        names = ran_names(recording.function for recording in within)
        replays = units.count(sum(recording.num_replays for recording in within))
        if self.stops:
            return f"{units.count(len(within))} more in a row: {names}, {replays} replays"
        number, _, kind = units.plural(len(self.chains), noun).partition(" ")
        return f"{number} more {kind}: {names}, {replays} replays"


ChainItem: TypeAlias = Stop | Fold


def chains(view: GraphsView) -> tuple[Chain, ...]:
    """The trees of a manager, the current one first, then the most travelled."""
    below: dict[int, list[int]] = {}
    for child, parent in view.parents.items():
        below.setdefault(parent, []).append(child)
    order = _downwards(view, below)
    weights = _weights(view, order)
    rank = _Ranks(view.recordings, weights)
    made: dict[int, Chain] = {}
    for node in reversed(order):  # successors come before what they follow
        made[node] = _chain(view.recordings[node], rank.sorted(below.get(node, ())), made)
    return tuple(made[root] for root in rank.sorted(node for node in order if node not in view.parents))


def _chain(recording: Recording, successors: Sequence[int], made: dict[int, Chain]) -> Chain:
    """`recording` on top of the chain of its main successor; that chain is used up."""
    branches = tuple(made.pop(node) for node in successors[1:])
    rest = made.pop(successors[0]).stops if successors else ()
    return Chain((Stop(recording, branches), *rest))


def _downwards(view: GraphsView, below: Mapping[int, list[int]]) -> list[int]:
    """All numbers, each after the one that it follows."""
    order = [node for node in view.recordings if node not in view.parents]
    for node in order:  # grows while it is walked
        order.extend(below.get(node, ()))
    return order


def _weights(view: GraphsView, order: Sequence[int]) -> dict[int, int]:
    """How much was replayed from each recording on, each counted once more, so that none weighs nothing."""
    weights = {node: view.recordings[node].num_replays + 1 for node in order}
    for node in reversed(order):
        if (parent := view.parents.get(node)) is not None:
            weights[parent] += weights[node]
    return weights


@dataclass(frozen=True)
class _Ranks:
    recordings: Mapping[int, Recording]
    weights: Mapping[int, int]

    def sorted(self, nodes: Iterable[int]) -> list[int]:
        """The one on the current path first, then the heaviest."""
        return sorted(nodes, key=lambda node: (not self.recordings[node].is_on_path, -self.weights[node], node))


def chain_items(chain: Chain) -> list[ChainItem]:
    """The stops of a chain, long plain stretches of them folded."""
    items: list[ChainItem] = []
    plain: list[Stop] = []
    for stop in chain.stops:
        if _is_plain(stop):
            plain.append(stop)
            continue
        items += _folded(plain)
        items.append(stop)
        plain = []
    return items + _folded(plain)


def _is_plain(stop: Stop) -> bool:
    """Whether nothing about it asks for a look: no branch, not where the program stands, no failed check."""
    return not stop.branches and not stop.recording.is_current and stop.recording.is_equal is not False


def _folded(stops: list[Stop]) -> list[ChainItem]:
    if len(stops) <= MAX_CHAIN:
        return list(stops)
    return [*stops[:_HEAD], Fold(stops=tuple(stops[_HEAD:-_TAIL])), *stops[-_TAIL:]]


def split_branches(branches: Sequence[Chain]) -> tuple[Sequence[Chain], Fold | None]:
    """Branches (or trees) that are shown, and the rest as a fold; the one on the path and failed checks are shown."""
    if len(branches) <= MAX_BRANCHES:
        return branches, None
    shown = [
        branch
        for place, branch in enumerate(branches)
        if place < MAX_BRANCHES - 1 or branch.is_on_path or any(r.is_equal is False for r in branch.recordings())
    ]
    # Chains compare by value, which is slow for long ones: they are told apart by identity.
    kept = {id(branch) for branch in shown}
    rest = tuple(branch for branch in branches if id(branch) not in kept)
    return shown, Fold(chains=rest) if rest else None


def ran_names(names: Iterable[str]) -> str:
    """Names with how often each occurs, the most frequent first: ``layer x12, norm x12 and 3 others``."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    ordered = [(units.shorten(name, 40), count) for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    told = [f"{name} x{units.count(count)}" if count > 1 else name for name, count in ordered[:_MAX_NAMES]]
    more = len(ordered) - len(told)
    return ", ".join(told) + (f" and {units.plural(more, 'other')}" if more > 0 else "")


def path_names(names: Sequence[str]) -> list[str]:
    """Names along a path; repeats of a name, and of two or three names in turn, are counted: ``attend → mlp x12``."""
    told: list[str] = []
    at = 0
    while at < len(names):
        period, times = _repeat(names, at)
        group = " → ".join(names[at : at + period])
        told.append(group if times == 1 else f"({group}) x{times}" if period > 1 else f"{group} x{times}")
        at += period * times
    return told


def _repeat(names: Sequence[str], at: int) -> tuple[int, int]:
    """The repetition that begins at `at` and covers most: (names in it, how often); (1, 1) for none."""
    best = (1, 1)
    for period in (1, 2, 3):
        unit = names[at : at + period]
        times = 1
        while names[at + times * period : at + (times + 1) * period] == unit and len(unit) == period:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best
