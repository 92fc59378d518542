"""Model the device memory for a graph's random seed and offset, and the kernels that fill it before a replay.

Random kernels of a graph read their starting point from two one-element tensors (Note [CUDA Graph-safe RNG states] in
ATen/cuda/CUDAGeneratorImpl.h). Here the numbers come from the device's generator; only the memory that torch allocates
and the work of filling it are modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import torch

from cudalens.virtual.releases import torch_version
from cudalens.virtual.timing import cost
from cudalens.virtual.timing.streams import Stream

if TYPE_CHECKING:
    from cudalens.virtual.gpus import Gpus

#: From torch 2.13 every capture has its own tensors, on the default stream; before, all graphs shared a pair.
_PER_CAPTURE: Final = torch_version() >= (2, 13)

_NUM_TENSORS: Final = 2
_NUM_BYTES: Final = 8
_META: Final = torch.device("meta")

_shared: WeakValueDictionary[tuple[int, int], Seeds] = WeakValueDictionary()


class Seeds:
    """Two blocks of device memory, freed with the last graph that holds them."""

    def __init__(self, gpus: Gpus, stream: Stream) -> None:
        self._gpus, self._device = gpus, stream.device
        machine = gpus.machine
        current = machine.current_stream(stream.device)
        machine.set_stream(stream)
        try:
            self._blocks = [gpus.reserve(stream.device, _NUM_BYTES) for _ in range(_NUM_TENSORS)]
        finally:
            machine.set_stream(current)

    def __del__(self) -> None:
        if not self._gpus.is_closed:
            for block in getattr(self, "_blocks", ()):
                self._gpus.release(self._device, block)


def before_capture(gpus: Gpus, stream: Stream) -> Seeds | None:
    """Return the memory that torch allocates before a capture starts on `stream`, or None if it allocates it later."""
    if _PER_CAPTURE:
        return None
    key = id(gpus), stream.device.index
    seeds = _shared.get(key)
    if seeds is None:
        seeds = _shared[key] = Seeds(gpus, stream)
    return seeds


def after_begin(gpus: Gpus, stream: Stream) -> Seeds | None:
    """Return the memory that torch allocates after a capture has started, or None if it allocated it before."""
    return Seeds(gpus, stream.device.default_stream) if _PER_CAPTURE else None


def fill(stream: Stream, num_generators: int) -> None:
    """Fill the seed and offset of every generator that the graph draws from, before a replay."""
    if num_generators:
        number = torch.ops.aten.empty.memory_format([1], dtype=torch.int64, device=_META)
        work = cost.kernel_work(stream.device.spec, torch.ops.aten.fill_.Scalar, (number, 0), {}, number)
        for _ in range(_NUM_TENSORS * num_generators):
            stream.launch(work)
