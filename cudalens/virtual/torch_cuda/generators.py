"""``torch.Generator(device="cuda")``: the random generator of a virtual device.

It is a CPU generator that says it is on a CUDA device, so that the same seed gives the same numbers as on the CPU: not
those of a GPU, whose Philox engine is another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import torch

from cudalens.errors import VirtualDeviceError

_CGenerator: Final[Any] = torch._C.Generator
#: torch's stubs take ``device`` for an attribute that can be set; it is a property here, as in C.
_Base: Any = torch._C.Generator

#: By the pointer to torch's C++ object: an operator is given another Python wrapper of it.
_known: Final[WeakValueDictionary[int, CudaGenerator]] = WeakValueDictionary()


def capture_on(torch_device: torch.device) -> Any:
    """The graph capture that the device's current stream belongs to; None without one.

    `rng.install` replaces it while a virtual device is in place.
    """
    return None


class CudaGenerator(_Base):  # type: ignore[misc]
    """A generator on a virtual device."""

    _device: torch.device

    @classmethod
    def on(cls, device: torch.device) -> CudaGenerator:
        """A new generator on `device`, with torch's default seed."""
        made: CudaGenerator = _CGenerator.__new__(cls)
        made._device = device
        _known[made._cdata] = made
        return made

    @property
    def device(self) -> torch.device:
        """The virtual device."""
        return self._device

    def clone_state(self) -> CudaGenerator:
        """Another generator on the same device, with a copy of the state."""
        made = CudaGenerator.on(self._device)
        made.set_state(self.get_state())
        return made

    def manual_seed(self, seed: int) -> CudaGenerator:
        """Begin anew from a seed.

        Raises:
            RuntimeError: A graph capture is under way, and the seed is another; torch's own words.
        """
        if capture_on(self._device) is None:
            super().manual_seed(seed)
        elif seed != self.initial_seed():
            raise RuntimeError(
                "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same "
                "as the original seed."
            )
        return self

    def get_state(self) -> torch.Tensor:
        """The state, to go on from later."""
        capture = capture_on(self._device)
        state: torch.Tensor | None = None if capture is None else capture.tape.get_state(self)
        return super().get_state() if state is None else state

    def set_state(self, new_state: torch.Tensor) -> CudaGenerator:
        """Go on from a state that `get_state` gave.

        Raises:
            VirtualDeviceError: The state comes from a real GPU's generator.
        """
        if isinstance(new_state, torch.Tensor) and new_state.numel() != self.get_state().numel():
            raise VirtualDeviceError(
                f"a generator state of {new_state.numel()} bytes was given; a virtual device's has "
                f"{self.get_state().numel()}. The state of a real GPU's generator (16 bytes) cannot be continued here: "
                "seed with torch.cuda.manual_seed(seed) instead."
            )
        capture = capture_on(self._device)
        if capture is None or not capture.tape.set_state(self, new_state):
            super().set_state(new_state)
        return self

    def get_offset(self) -> int:
        """Refused: there is no Philox offset.

        Raises:
            VirtualDeviceError: Always.
        """
        raise _no_philox("get_offset()")

    def set_offset(self, offset: int) -> CudaGenerator:
        """Refused: there is no Philox offset.

        Raises:
            VirtualDeviceError: Always.
        """
        raise _no_philox("set_offset()")

    def graphsafe_get_state(self) -> CudaGenerator:
        """Refused: states cannot be shared between generators.

        Raises:
            VirtualDeviceError: Always.
        """
        raise _no_philox("graphsafe_get_state()")

    def graphsafe_set_state(self, state: Any) -> CudaGenerator:
        """Refused: states cannot be shared between generators.

        Raises:
            VirtualDeviceError: Always.
        """
        raise _no_philox("graphsafe_set_state()")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, torch.Tensor]]:
        return _rebuild, (str(self._device), self.get_state())


def _no_philox(what: str) -> VirtualDeviceError:
    return VirtualDeviceError(
        f"Generator.{what} speaks of a GPU's Philox engine; a virtual device draws from the CPU's Mersenne Twister. "
        "Use get_state() and set_state()."
    )


def _rebuild(device: str, state: torch.Tensor) -> Any:
    made = torch.Generator(device)
    made.set_state(state)
    return made


def known(generator: Any) -> CudaGenerator | None:
    """The virtual device's generator behind what an operator was given; None for a generator of the host."""
    return generator if isinstance(generator, CudaGenerator) else _known.get(generator._cdata)


def default_generators(torch_devices: list[torch.device]) -> list[CudaGenerator]:
    """Each device's own, seeded as torch was seeded last."""
    made = [CudaGenerator.on(device) for device in torch_devices]
    for generator in made:
        generator.manual_seed(torch.initial_seed())
    return made
