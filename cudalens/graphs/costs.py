"""Weigh the host time of a replayed call against the launches that it saves.

A replay launches one graph in place of many kernels, but the manager compares arguments, addresses and Python values
before it, and copies arguments. For a function of few kernels this costs the host more than the launches do.

On a GPU both sides are measured: the fastest of some replayed calls and the fastest of some calls without a graph. Only
functions of few kernels are timed without a graph. On a virtual device both sides are modelled, so that each run of a
program makes the same decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cudalens.graphs.reasons import Finding, Reason

if TYPE_CHECKING:
    from cudalens.device.graph_backend import LaunchTimes
    from cudalens.graphs.node import GraphNode

#: Replays of a recording that are timed on the device, by two events each.
NUM_TIMED: Final = 20

#: Replays of a variant before it is decided whether its graph pays. On a GPU, those with events are left out.
NUM_REPLAYS: Final = 10

#: Calls without a graph that are timed then, on a GPU.
NUM_EAGER: Final = 3

#: Modelled host time of the manager for a call, and for each tensor among its arguments and parameters. Fitted to the
#: host times of replayed calls in benchmarks/results/graphs.json: 20 us for 1 tensor, 70 us for 210.
CALL_NS: Final = 20_000
TENSOR_NS: Final = 240

#: Host time of the fastest launch through torch. A call with more launches than this times the cost of its replay pays,
#: and is not timed without a graph, for which a large function may lack the memory.
FASTEST_LAUNCH_NS: Final = 2_000


@dataclass(slots=True)
class HostCost:
    """What the calls of a variant cost the host, with and without a graph.

    Attributes:
        replay_ns: Host time of a replayed call; None before it is known.
        eager_ns: Host time of the launches without a graph, or of a call without one; None before it is known.
        is_modelled: Whether both are modelled.
        is_decided: Whether nothing is timed any more.
        needs_eager_call: Whether the next call is timed without a graph.
    """

    replay_ns: int | None = None
    eager_ns: int | None = None
    is_modelled: bool = False
    is_decided: bool = False
    needs_eager_call: bool = False
    _num_replays: int = 0
    _num_eager: int = 0

    def note_replay(self, node: GraphNode, host_ns: int, times: LaunchTimes | None) -> None:
        """Note a replayed call.

        Args:
            node: What was replayed.
            host_ns: What the call took on the host.
            times: The modelled times of the device; None where times are measured.
        """
        if times is None and node.num_replays <= NUM_TIMED:
            return
        self._num_replays += 1
        if times is not None:
            self.replay_ns, self.eager_ns = modelled_replay_ns(node, times), modelled_eager_ns(node, times)
            self.is_modelled = True
            self.is_decided = self._num_replays >= NUM_REPLAYS
            return
        self.replay_ns = host_ns if self.replay_ns is None else min(self.replay_ns, host_ns)
        if self._num_replays >= NUM_REPLAYS:
            self.needs_eager_call = num_launches(node) * FASTEST_LAUNCH_NS < self.replay_ns
            self.is_decided = not self.needs_eager_call

    def note_eager(self, host_ns: int) -> None:
        """Note a call without a graph, timed on the host."""
        self._num_eager += 1
        self.eager_ns = host_ns if self.eager_ns is None else min(self.eager_ns, host_ns)
        self.is_decided = self._num_eager >= NUM_EAGER
        self.needs_eager_call = not self.is_decided

    def why_eager(self, node: GraphNode) -> Finding | None:
        """Why the variant runs without a graph from now on; None if its graph pays, or that is not known."""
        if not self.is_decided or self.replay_ns is None or self.eager_ns is None or self.replay_ns <= self.eager_ns:
            return None
        launches = num_launches(node)
        of_what = f"{launches} launches" if launches != 1 else "1 launch"
        how = "modelled" if self.is_modelled else "measured"
        what = f"{_us(self.replay_ns)} of host time per replay, {_us(self.eager_ns)} for {of_what} without one ({how})"
        return Finding(Reason.COSTS_MORE, what, node.variant.function.place)


def num_launches(node: GraphNode) -> int:
    """Return the operators that launch work in a call without a graph; of a forward, with its backward."""
    backwards = (variant.num_kernels for variant in node.backwards.values() if variant.is_warm)
    return node.variant.num_kernels + max(backwards, default=0)


def modelled_eager_ns(node: GraphNode, times: LaunchTimes) -> int:
    """Return the modelled host time of the launches of a call without a graph."""
    return num_launches(node) * times.launch_ns


def modelled_replay_ns(node: GraphNode, times: LaunchTimes) -> int:
    """Return the modelled host time of a replayed call; of a forward, with its backward.

    The reads of a split recording are left out: they take the host as long without a graph.
    """
    own_ns = CALL_NS + TENSOR_NS * (len(node.copied) + len(node.fixed) + len(node.guards))
    copies_ns = times.launch_ns if node.copied else 0
    forward_ns = own_ns + copies_ns + (len(node.waits) + 1) * times.graph_launch_ns
    has_backward = any(variant.is_warm for variant in node.backwards.values())
    return forward_ns + (CALL_NS + times.graph_launch_ns if has_backward else 0)


def _us(ns: int) -> str:
    return f"{ns / 1000:.1f} µs"
