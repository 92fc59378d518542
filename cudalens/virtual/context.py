"""``with cudalens.virtual.device("h100"):`` - what is put in place, and put back."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Final, Protocol

from cudalens.device import clock, modelled
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.device.inventory import sources
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import conf_from_environment, parse_conf
from cudalens.virtual.dispatch.modes import ThreadModes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.profile.metrics import VirtualSource
from cudalens.virtual.specs.ceilings import spec_ceilings
from cudalens.virtual.specs.registry import DeviceSpec, parse_device
from cudalens.virtual.specs.visible import visible_ordinals
from cudalens.virtual.tensors import default_device

_active: device | None = None


class Observer(Protocol):
    """Who wants to know when a virtual device is in place."""

    def entered(self, device: device) -> None:
        """It is."""

    def left(self) -> None:
        """It is about to go."""


#: Those who want to know now.
observers: Final[list[Observer]] = []


class device:  # noqa: N801 - reads as torch.device and torch.cuda.device do
    """Virtual CUDA devices for a block of code (or, with `enable` and `disable`, for a while).

    Inside, PyTorch code for ``device="cuda"`` runs with real values on CPU tensors while streams, events,
    synchronisation, the caching allocator, graph capture and time are modelled.

    Args:
        spec: A name from `cudalens.virtual.SPECS`, with a number of devices where wanted (``"h100x4"``), or a
            `DeviceSpec`.
        alloc_conf: Text as in PYTORCH_CUDA_ALLOC_CONF; by default what the environment says.

    Attributes:
        spec: What the devices are.
        num_devices: How many.
        gpus: Their state; None outside of the block.
        is_from_notebook: A magic put it in place, for the cells that follow.

    Raises:
        VirtualDeviceError: The name is unknown; or, on entry, another virtual device is active.
        ValueError: `alloc_conf` is not what torch understands.
    """

    def __init__(self, spec: str | DeviceSpec = "h100", *, alloc_conf: str | None = None) -> None:
        self.spec, self.num_devices = parse_device(spec)
        self._conf = conf_from_environment(os.environ) if alloc_conf is None else parse_conf(alloc_conf)
        self.gpus: Gpus | None = None
        self.is_from_notebook = False
        self._patches = Patches()
        self._modes: ThreadModes | None = None
        self._default: Any = None
        self._held = DeferredInterrupts()

    @property
    def label(self) -> str:
        """As the user asked for it: ``h100``, ``h100x4``."""
        return self.spec.key if self.num_devices == 1 else f"{self.spec.key}x{self.num_devices}"

    def __enter__(self) -> device:
        self._held.install()
        try:
            self._enable()
            self._held.deliver()
        except BaseException:
            self._disable()
            self._held.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        try:
            self._disable()
        finally:
            self._held.remove()
            self._held.deliver()

    def enable(self) -> None:
        """Put the virtual devices in place.

        Raises:
            VirtualDeviceError: A virtual device is active already.
        """
        self._held.install()
        try:
            self._enable()
        finally:
            self._held.remove()
            self._held.deliver()

    def disable(self) -> None:
        """Put everything back; nothing where it is not active. Call it on the thread that enabled."""
        self._held.install()
        try:
            self._disable()
        finally:
            self._held.remove()
            self._held.deliver()

    def _enable(self) -> None:
        global _active
        if _active is not None:
            raise VirtualDeviceError(
                f"a virtual {_active.spec.key} is active already; virtual devices do not nest. Leave its block "
                "(in a notebook: %cudadevice off) first, or ask for several at once: cudalens.virtual.device('h100x2')."
            )
        ordinals = visible_ordinals(self.spec.key, self.num_devices)
        self.gpus = Gpus(self.spec, len(ordinals), self._conf, ordinals=ordinals)
        _active = self
        try:
            self._install(self.gpus)
            for observer in tuple(observers):
                observer.entered(self)
        except BaseException:
            self._disable()
            raise

    def _disable(self) -> None:
        global _active
        if _active is not self or self.gpus is None:
            return
        try:
            for observer in tuple(observers):
                observer.left()
            if self._modes is not None:
                default_device.reset(self._default)
                self._modes.leave()
        finally:
            self.gpus.close()
            self.gpus, self._modes, self._default, _active = None, None, None, None
            self._patches.restore()

    def _install(self, gpus: Gpus) -> None:
        from cudalens.virtual import parts

        for install in parts.INSTALL:
            install(self._patches, gpus)
        self._patches.set(clock, "now_ns", lambda: gpus.machine.now_ns)
        self._patches.set(sources, "virtual_label", lambda: self.label)
        self._patches.set(modelled, "ceilings", lambda index: spec_ceilings(self.spec))
        self._patches.set(sources, "open_source", lambda: VirtualSource(gpus, self.num_devices, self.label))
        self._default = default_device.context()
        self._modes = ThreadModes(parts.MODES, gpus)
        self._modes.enter()


for _critical in (device.__enter__, device.__exit__, device.enable, device.disable):
    defers_interrupts(_critical)


def active() -> device | None:
    """The virtual device that is in place, or None."""
    return _active
