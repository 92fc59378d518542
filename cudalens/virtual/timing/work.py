"""Work for a stream (kernel, copy, memset) and its scheduled times. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

#: Direction of a copy: H is the host, D the device, P a peer device.
Direction = Literal["HtoD", "DtoH", "DtoD", "PtoP"]

#: Kineto's categories of device work.
Kind = Literal["kernel", "gpu_memcpy", "gpu_memset"]


@dataclass(slots=True)
class Work:
    """A kernel, copy or memset.

    Attributes:
        kind: Kineto's category.
        name: The name in the timeline.
        duration_ns: How long it uses its engine.
        room: The part of the device that a kernel uses, above 0, at most 1.
        num_bytes: The bytes that it reads and writes, or copies.
        flops: Floating-point operations.
        direction: The direction of a copy.
        grid: Blocks of the modelled launch.
        block: Threads per block of the modelled launch.
        op: The aten operator that issued it.
        family: The kind of kernel whose formula gave the duration: a family of `cudalens.gpus.constants`, or a name
            without measurements ("strided", "other"); "" for copies and memsets.
        facts: Further columns of its row of the events frame, of a collective; None for other work.
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
    family: str = ""
    facts: Mapping[str, Any] | None = None


class Placed(NamedTuple):
    """The scheduled start and end of work, virtual ns, and the correlation id of its launch.

    For work of a CUDA graph also the ids of the graph and of the node.
    """

    start_ns: int
    end_ns: int
    correlation_id: int
    graph_id: int | None = None
    graph_node_id: int | None = None
