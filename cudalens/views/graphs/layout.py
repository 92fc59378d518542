"""Lay out the tree of recordings: vertical chains, with branches beside them.

A recording with one successor is drawn above it in the same lane, so that a long chain needs no width. Of several
successors, one continues the lane: the one on the current path, else the one with most replays in its subtree. The
others are branches. A branch has at most half of the replays, so the depth of nesting is at most their logarithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cudalens.analysis import units
from cudalens.views.graphs.model import GraphsView, Recording

#: Maximum number of recordings in a row, without a branch, that are shown; of more, the inner ones fold into one line.
MAX_CHAIN: Final = 9

#: Maximum number of branches of a recording, and of trees, that are shown; the others fold into one line.
MAX_BRANCHES: Final = 6

_HEAD, _TAIL = 4, 3
_MAX_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class Stop:
    """A recording in its chain, and the branches after it (most replays first)."""

    recording: Recording
    branches: tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive recordings, from the top down."""

    stops: tuple[Stop, ...]

    @property
    def is_on_path(self) -> bool:
        """Whether its first recording is on the current path."""
        return self.stops[0].recording.is_on_path

    def recordings(self) -> Iterator[Recording]:
        """Yield all recordings, including those of the branches, in drawing order."""
        for stop in self.stops:
            yield stop.recording
            for branch in stop.branches:
                yield from branch.recordings()


@dataclass(frozen=True, slots=True)
class Fold:
    """Recordings that are folded into one line.

    Attributes:
        stops: Stops of a chain; empty if chains are folded.
        chains: Branches or trees; empty if stops are folded.
    """

    stops: tuple[Stop, ...] = ()
    chains: tuple[Chain, ...] = ()

    def label(self, noun: str = "branch") -> str:
        """Its content in one line; `noun` is the word for its chains."""
        within = [recording for chain in (*self.chains, Chain(self.stops)) for recording in chain.recordings()]
        names = ran_names(recording.function for recording in within)
        replays = units.count(sum(recording.num_replays for recording in within))
        if self.stops:
            return f"{units.count(len(within))} more in a row: {names}, {replays} replays"
        number, _, kind = units.plural(len(self.chains), noun).partition(" ")
        return f"{number} more {kind}: {names}, {replays} replays"


ChainItem: TypeAlias = Stop | Fold


def chains(view: GraphsView) -> tuple[Chain, ...]:
    """Return the trees of a manager, the current one first, then by replays."""
    below: dict[int, list[int]] = {}
    for child, parent in view.parents.items():
        below.setdefault(parent, []).append(child)
    order = _downwards(view, below)
    weights = _weights(view, order)
    rank = _Ranks(view.recordings, weights)
    made: dict[int, Chain] = {}
    for node in reversed(order):  # successors before their predecessors
        made[node] = _chain(view.recordings[node], rank.sorted(below.get(node, ())), made)
    return tuple(made[root] for root in rank.sorted(node for node in order if node not in view.parents))


def _chain(recording: Recording, successors: Sequence[int], made: dict[int, Chain]) -> Chain:
    """`recording` followed by the chain of its main successor, which is removed from `made`."""
    branches = tuple(made.pop(node) for node in successors[1:])
    rest = made.pop(successors[0]).stops if successors else ()
    return Chain((Stop(recording, branches), *rest))


def _downwards(view: GraphsView, below: Mapping[int, list[int]]) -> list[int]:
    """Return all recordings' numbers, each after its parent."""
    order = [node for node in view.recordings if node not in view.parents]
    for node in order:  # grows during the loop
        order.extend(below.get(node, ()))
    return order


def _weights(view: GraphsView, order: Sequence[int]) -> dict[int, int]:
    """Replays in the subtree of each recording, plus one per recording, so that no weight is zero."""
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
        """Return the one on the current path first, then by weight."""
        return sorted(nodes, key=lambda node: (not self.recordings[node].is_on_path, -self.weights[node], node))


def chain_items(chain: Chain) -> list[ChainItem]:
    """Return the stops of a chain, with long runs of plain stops folded."""
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
    """Return whether it has no branch and no failed check, and is not the current recording."""
    return not stop.branches and not stop.recording.is_current and stop.recording.is_equal is not False


def _folded(stops: list[Stop]) -> list[ChainItem]:
    if len(stops) <= MAX_CHAIN:
        return list(stops)
    return [*stops[:_HEAD], Fold(stops=tuple(stops[_HEAD:-_TAIL])), *stops[-_TAIL:]]


def split_branches(branches: Sequence[Chain]) -> tuple[Sequence[Chain], Fold | None]:
    """Branches (or trees) to show, and the rest as a fold; the current path and failed checks are always shown."""
    if len(branches) <= MAX_BRANCHES:
        return branches, None
    shown = [
        branch
        for position, branch in enumerate(branches)
        if position < MAX_BRANCHES - 1 or branch.is_on_path or any(r.is_equal is False for r in branch.recordings())
    ]
    # Chains compare by value, which is slow for long ones: compare them by identity.
    kept = {id(branch) for branch in shown}
    rest = tuple(branch for branch in branches if id(branch) not in kept)
    return shown, Fold(chains=rest) if rest else None


def ran_names(names: Iterable[str]) -> str:
    """Names with how often each occurs, the most frequent first: ``layer x12, norm x12 and 3 others``."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    ordered = [(units.shorten(name, 40), count) for name, count in sorted(counts.items(), key=lambda item: -item[1])]
    shown = [f"{name} x{units.count(count)}" if count > 1 else name for name, count in ordered[:_MAX_NAMES]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f" and {units.plural(more, 'other')}" if more > 0 else "")


def path_names(names: Sequence[str]) -> list[str]:
    """Names along a path; repeats of a name, and of two or three names in turn, are counted: ``attend → mlp x12``."""
    found: list[str] = []
    at = 0
    while at < len(names):
        period, times = _repeat(names, at)
        group = " → ".join(names[at : at + period])
        if times > 1:
            group = f"({group}) x{times}" if period > 1 else f"{group} x{times}"
        found.append(group)
        at += period * times
    return found


def _repeat(names: Sequence[str], at: int) -> tuple[int, int]:
    """Return the longest repetition that begins at `at`: (names in its unit, times); (1, 1) for none."""
    best = (1, 1)
    for period in (1, 2, 3):
        unit = names[at : at + period]
        times = 1
        while names[at + times * period : at + (times + 1) * period] == unit and len(unit) == period:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best
