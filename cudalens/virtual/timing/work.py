"""What a stream is given to do, and when it does it. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Direction = Literal["HtoD", "DtoH", "DtoD", "PtoP"]
"""Of a copy: H is the host, D the device, P a peer of it."""

Kind = Literal["kernel", "gpu_memcpy", "gpu_memset"]
"""Kineto's categories of device work."""


@dataclass(slots=True)
class Work:
    """Something for a stream to do.

    Attributes:
        kind: Kineto's category of it.
        name: As the timeline shows it.
        duration_ns: How long it keeps its engine.
        room: Part of the device that a kernel fills, above 0, at most 1.
        num_bytes: What it reads and writes, or copies.
        flops: Floating-point operations.
        direction: Of a copy.
        grid: Blocks of the modelled launch.
        block: Threads per block of it.
        op: Name of the aten operator that issued it.
    """

    kind: Kind
    name: str
    duration_ns: int
    room: float = 1.0
    num_bytes: int = 0
    flops: int = 0
    direction: Direction | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    op: str | None = None


class Placed(NamedTuple):
    """When a stream does a piece of work, virtual ns, and the number that ties it to its launch.

    Work of a CUDA graph says which graph and which of its nodes it is.
    """

    start_ns: int
    end_ns: int
    correlation_id: int
    graph_id: int | None = None
    graph_node_id: int | None = None
