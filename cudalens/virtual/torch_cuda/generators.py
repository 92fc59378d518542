"""``torch.Generator(device="cuda")``: the random generator of a virtual device.

It is a CPU generator whose device is a CUDA device, so the same seed gives the same numbers as on the CPU; they differ
from those of a GPU, which has a Philox engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.patching import refusal

_CGenerator: Final[Any] = torch._C.Generator
#: torch's stubs declare ``device`` as a writable attribute; it is a property here, as in C.
_Base: Any = torch._C.Generator

#: Generators by the pointer to torch's C++ object: an operator gets another Python wrapper of it.
_known: Final[WeakValueDictionary[int, CudaGenerator]] = WeakValueDictionary()


_NO_PHILOX: Final = (
    "Generator.{name}() needs a GPU's Philox engine; a virtual device uses the CPU's Mersenne Twister. Use get_state() "
    "and set_state()."
)


def capture_on(torch_device: torch.device) -> Any:
    """Return the graph capture that the device's current stream belongs to, or None without one.

    `rng.install` replaces it while a virtual device is in place.
    """
    return None


class CudaGenerator(_Base):  # type: ignore[misc]
    """A generator on a virtual device."""

    _device: torch.device
    #: The generator whose state this one uses; several may share a state.
    source: CudaGenerator

    @classmethod
    def on(cls, device: torch.device, source: CudaGenerator | None = None) -> CudaGenerator:
        """Return a new generator on `device`, with the state of `source` or a new state with torch's default seed."""
        made: CudaGenerator = _CGenerator.__new__(cls)
        made._device, made.source = device, source or made
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
        """Seed the generator.

        Raises:
            RuntimeError: The seed changes during a graph capture; torch's message.
        """
        if capture_on(self._device) is None:
            _CGenerator.manual_seed(self.source, seed)
        elif seed != self.initial_seed():
            raise RuntimeError(
                "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same "
                "as the original seed."
            )
        return self

    def seed(self) -> int:
        """Seed the generator with a number that the system draws; returns it."""
        return int(_CGenerator.seed(self.source))

    def initial_seed(self) -> int:
        """Return the seed."""
        return int(_CGenerator.initial_seed(self.source))

    def get_state(self) -> torch.Tensor:
        """Return the state of the generator."""
        capture = capture_on(self._device)
        state: torch.Tensor | None = None if capture is None else capture.tape.get_state(self.source)
        return _CGenerator.get_state(self.source) if state is None else state

    def set_state(self, new_state: torch.Tensor) -> CudaGenerator:
        """Set a state from `get_state`.

        Raises:
            VirtualDeviceError: The state comes from a real GPU's generator.
        """
        if isinstance(new_state, torch.Tensor) and new_state.numel() != self.get_state().numel():
            raise VirtualDeviceError(
                f"expected a generator state of {self.get_state().numel()} bytes, got {new_state.numel()}. The state "
                "of a real GPU's generator (16 bytes) is not supported on a virtual device: seed with "
                "torch.cuda.manual_seed(seed) instead."
            )
        capture = capture_on(self._device)
        if capture is None or not capture.tape.set_state(self.source, new_state):
            _CGenerator.set_state(self.source, new_state)
        return self

    def graphsafe_get_state(self) -> CudaGenerator:
        """Return a generator that shares the state of this one."""
        return CudaGenerator.on(self._device, self.source)

    def graphsafe_set_state(self, state: CudaGenerator) -> CudaGenerator:
        """Use the state of another generator from now on."""
        self.source = state.source
        return self

    get_offset = refusal(_NO_PHILOX.format(name="get_offset"))
    set_offset = refusal(_NO_PHILOX.format(name="set_offset"))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, torch.Tensor]]:
        return _rebuild, (str(self._device), self.get_state())


def _rebuild(device: str, state: torch.Tensor) -> Any:
    made = torch.Generator(device)
    made.set_state(state)
    return made


def known(generator: Any) -> CudaGenerator | None:
    """The virtual device's generator with the state for an operator's argument; None for a generator of the host."""
    found = generator if isinstance(generator, CudaGenerator) else _known.get(generator._cdata)
    return None if found is None else found.source


def default_generators(torch_devices: list[torch.device]) -> list[CudaGenerator]:
    """Return the default generator of each device, with torch's current seed."""
    made = [CudaGenerator.on(device) for device in torch_devices]
    for generator in made:
        generator.manual_seed(torch.initial_seed())
    return made
