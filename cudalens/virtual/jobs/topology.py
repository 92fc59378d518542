"""Times of collectives between GPUs of one node and of several nodes. No torch.

Within a node they are those of `cudalens.gpus.predict.collective_time`, whose constants are fitted to measured times.
Between nodes they follow NCCL's own model (``src/graph/tuning.cc`` of NCCL 2.19 to 2.27): a latency by the number of
steps of a ring or a tree and by the protocol, and a bandwidth that the links of the group's GPUs on a node share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil, log2
from typing import Final

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.predict import COLLECTIVES, collective_time
from cudalens.gpus.registry import DeviceSpec

#: Largest number of GPUs of one node.
GPUS_PER_NODE: Final = 8

#: A message for which a collective reaches its full rate.
_LARGE_BYTES: Final = 1 << 32

#: Fixed cost, ns, by algorithm and protocol (baseLat of NCCL's tuning.cc; LL, LL128, Simple).
_BASE_NS: Final = {"tree": (6_800, 14_000, 8_400), "ring": (6_600, 14_000, 8_400)}
#: Cost of a step over NVLink, ns (hwLat of tuning.cc).
_NVLINK_NS: Final = {"tree": (600, 1_250, 4_000), "ring": (600, 1_900, 3_400)}
#: Cost of a step over the network, ns (hwLat of tuning.cc).
_NETWORK_NS: Final = {"tree": (5_000, 8_500, 14_000), "ring": (2_700, 4_000, 14_000)}
#: Share of the bandwidth that a protocol reaches: half of what LL sends are flags, and its reads wait for the network
#: (tuning.cc: half, at most a quarter between nodes); 120 of 128 bytes of LL128 are data.
_PROTOCOL_SHARE: Final = (0.25, 120 / 128, 1.0)
#: Share of the bandwidth that a tree reaches between nodes (tuning.cc: 0.92 of a double binary tree).
_TREE_SHARE: Final = 0.92

#: Copies over a link of the same node and between nodes start after this time, ns (tuning.cc: Simple, one step).
_SEND_NS: Final = {True: 8_400 + 3_400, False: 8_400 + 14_000}

#: Share of NVLink's rate in one direction that one pair of GPUs reaches with send and receive.
_PAIR_SHARE: Final = 0.8


@dataclass(frozen=True)
class Network:
    """The links between nodes.

    Attributes:
        name: A name for texts.
        gbits: Bits per second and GPU, in 10**9.
        efficiency: The share of them that large messages reach.
    """

    name: str
    gbits: float
    efficiency: float = 0.92

    @property
    def bytes_per_ns(self) -> float:
        """Bytes per ns that one GPU sends to other nodes."""
        return self.gbits / 8 * self.efficiency


#: Networks by name. InfiniBand: one card per GPU, as in NVIDIA's DGX B200 and H100 (ConnectX-7, 400 Gb/s), A100
#: (ConnectX-6, 200 Gb/s) and DGX-1 (four cards of 100 Gb/s for eight GPUs); data sheets of these systems. Ethernet: one
#: card of 100 Gb/s for a node of eight GPUs. NCCL reaches 0.92 of a 400 Gb/s card (nccl-tests' all_gather of 8 GiB over
#: 16 and 32 DGX H100: 360 to 370 GB/s of 400).
NETWORKS: Final[Mapping[str, Network]] = {
    "ndr400": Network("InfiniBand 400 Gb/s per GPU", 400),
    "hdr200": Network("InfiniBand 200 Gb/s per GPU", 200),
    "edr50": Network("InfiniBand 50 Gb/s per GPU", 50),
    "ethernet": Network("Ethernet 100 Gb/s per node", 100 / GPUS_PER_NODE, 0.85),
}

#: The network of a GPU's usual systems, by the beginning of its key or a part of its name; others have Ethernet.
_USUAL: Final = {
    "h100": "ndr400",
    "h200": "ndr400",
    "b200": "ndr400",
    "b300": "ndr400",
    "gb200": "ndr400",
    "mi300x": "ndr400",
    "a100": "hdr200",
    "v100": "edr50",
}


def network_of(spec: DeviceSpec, given: str | Network | None) -> Network:
    """Return the network between nodes of that GPU.

    Args:
        spec: The GPU.
        given: A name in `NETWORKS`, a `Network`, or None for that of the GPU's usual systems.

    Raises:
        VirtualDeviceError: The name is unknown.
    """
    if isinstance(given, Network):
        return given
    usual = next((name for key, name in _USUAL.items() if _is_kind(spec, key)), "ethernet")
    name = usual if given is None else given
    if name not in NETWORKS:
        raise VirtualDeviceError(f"There is no network {name!r}; expected one of {', '.join(NETWORKS)}, or a Network.")
    return NETWORKS[name]


def _is_kind(spec: DeviceSpec, key: str) -> bool:
    """Whether a GPU is of a kind, by its key or, for one that a program registered, by its name."""
    return spec.key.startswith(key) or key.upper() in spec.name.upper()


@dataclass(frozen=True)
class Cluster:
    """The GPUs of a job: rank r is GPU ``r % gpus_per_node`` of node ``r // gpus_per_node``.

    Attributes:
        spec: The GPU.
        num_gpus: The number of GPUs of all nodes.
        num_nodes: The number of nodes.
        network: The links between nodes.
        slow_links: By node, the factor by which its links to other nodes are slower.
    """

    spec: DeviceSpec
    num_gpus: int
    num_nodes: int
    network: Network
    slow_links: Mapping[int, float] = field(default_factory=dict)

    @property
    def gpus_per_node(self) -> int:
        """The number of GPUs of each node."""
        return self.num_gpus // self.num_nodes

    def node_of(self, rank: int) -> int:
        """Return the node of a rank."""
        return rank // self.gpus_per_node

    def gpu_of(self, rank: int) -> int:
        """Return the number of the GPU of a rank on its node."""
        return rank % self.gpus_per_node

    def spread(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return how many of `ranks` each node has, sorted."""
        return tuple(sorted(Counter(map(self.node_of, ranks)).values()))

    def collective_ns(self, kind: str, ranks: Sequence[int], num_bytes: int) -> int:
        """Return the time of a collective after its last rank has arrived, in ns.

        Args:
            kind: A name in torch.distributed: "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                "reduce", "gather", "scatter", "send" (of two ranks).
            ranks: The ranks of the group.
            num_bytes: The message as nccl-tests defines it.
        """
        counts = Counter(map(self.node_of, ranks))
        slowest = max((self.slow_links.get(node, 1.0) for node in counts), default=1.0) if len(counts) > 1 else 1.0
        return self._time(kind, len(ranks), len(counts), min(counts.values()), num_bytes, slowest)

    def _time(self, kind: str, size: int, nodes: int, per_node: int, num_bytes: int, slowdown: float) -> int:
        if size < 2:
            return self.spec.kernel_fixed_ns
        network_rate = self.network.bytes_per_ns / slowdown
        if kind == "send":
            rate = self.spec.peer_gbps * _PAIR_SHARE if nodes == 1 else network_rate
            return int(_SEND_NS[nodes == 1] + num_bytes / rate)
        if nodes == 1:
            return _in_node_ns(self.spec, kind, size, num_bytes)
        if kind in ("all_to_all", "gather", "scatter"):
            return self._scattered_ns(kind, size, nodes, per_node, num_bytes, network_rate)
        rate = min(self._node_rate(kind, per_node), network_rate * per_node)
        return min(
            _ring_ns(kind, size, nodes, num_bytes, rate),
            _tree_ns(kind, size, nodes, num_bytes, rate * _TREE_SHARE),
        )

    def _scattered_ns(self, kind: str, size: int, nodes: int, per_node: int, num_bytes: int, rate: float) -> int:
        """Time of messages from each rank to each, or of one rank: most of them cross the network."""
        across = num_bytes * (size - per_node) / size
        within = num_bytes * (per_node - 1) / size / self.spec.peer_gbps
        return int(_BASE_NS["ring"][2] + _NETWORK_NS["ring"][2] * log2(nodes) + max(across / rate, within))

    def _node_rate(self, kind: str, per_node: int) -> float:
        """Bus bandwidth within a node, bytes per ns; a group with one GPU on each node does not use it."""
        return self._rates[kind, per_node] if per_node > 1 else float("inf")

    @cached_property
    def _rates(self) -> _NodeRates:
        return _NodeRates(self.spec)


class _NodeRates(dict[tuple[str, int], float]):
    """The bus bandwidth within a node, bytes per ns, by collective and number of GPUs; computed at first use."""

    def __init__(self, spec: DeviceSpec) -> None:
        super().__init__()
        self._spec = spec

    def __missing__(self, key: tuple[str, int]) -> float:
        kind, size = key
        name = kind if kind in COLLECTIVES else "all_gather"
        factor = (2 if name == "all_reduce" else 1) * (size - 1) / size
        self[key] = rate = factor * _LARGE_BYTES / _in_node_ns(self._spec, name, size, _LARGE_BYTES)
        return rate


@lru_cache(maxsize=65536)
def _in_node_ns(spec: DeviceSpec, kind: str, size: int, num_bytes: int) -> int:
    """Time of a collective within a node. One with a root moves its message once, as a gather of that size does."""
    return collective_time(spec, kind if kind in COLLECTIVES else "all_gather", size, num_bytes)


def _ring_ns(kind: str, size: int, nodes: int, num_bytes: int, rate: float) -> int:
    """Time in a ring through all GPUs, by the fastest protocol."""
    rounds = 2 if kind == "all_reduce" else 1
    moved = num_bytes * rounds * (size - 1) / size
    times = []
    for protocol, share in enumerate(_PROTOCOL_SHARE):
        across = rounds * (nodes - 1) * _NETWORK_NS["ring"][protocol]
        within = rounds * (size - nodes) * _NVLINK_NS["ring"][protocol]
        times.append(_BASE_NS["ring"][protocol] + across + within + moved / (rate * share))
    return int(min(times))


def _tree_ns(kind: str, size: int, nodes: int, num_bytes: int, rate: float) -> int:
    """Time of an all_reduce in a double tree of the nodes, with a chain in each node. For the others that of PAT.

    PAT is NCCL's logarithmic algorithm for all_gather and reduce_scatter (2.23), for groups with one GPU on each node.
    """
    if kind != "all_reduce" and size != nodes:
        return _ring_ns(kind, size, nodes, num_bytes, rate / _TREE_SHARE)
    rounds = 2 if kind == "all_reduce" else 1
    moved = num_bytes * rounds * (size - 1) / size
    times = []
    for protocol, share in enumerate(_PROTOCOL_SHARE):
        across = rounds * ceil(log2(nodes)) * _NETWORK_NS["tree"][protocol]
        within = rounds * (ceil(size / nodes) - 1) * _NVLINK_NS["tree"][protocol]
        times.append(_BASE_NS["tree"][protocol] + across + within + moved / (rate * share))
    return int(min(times))
