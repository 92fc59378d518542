"""`device`: enable and disable virtual CUDA devices (``with cudalens.virtual.device("h100"):``)."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Final, Protocol

import torch

from cudalens.device import clock, gpu_trace
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.device.inventory import readings
from cudalens.device.inventory.visible import CUDA_VARIABLE
from cudalens.errors import VirtualDeviceError
from cudalens.gpus.registry import DeviceSpec, parse_device
from cudalens.virtual.allocator import conf_from_environment, parse_conf
from cudalens.virtual.calibration.spec_file import calibrated
from cudalens.virtual.dispatch.modes import ThreadModes
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.profile.metrics import VirtualSource
from cudalens.virtual.shapes.operators import Shapes
from cudalens.virtual.shapes.reading import Defaults
from cudalens.virtual.specs.properties import spec_ceilings, visible_ordinals
from cudalens.virtual.torch_cuda.stacks import warn_user

_HIDDEN: Final = (
    "CUDA_VISIBLE_DEVICES={value!r} hides every GPU of the virtual {label}, so torch.cuda.is_available() is False. "
    "Delete the variable or set it to 0, then enable the device again."
)

_active: device | None = None


class Observer(Protocol):
    """Is notified when a virtual device is enabled or disabled."""

    def entered(self, device: device) -> None:
        """The virtual device was enabled."""

    def left(self) -> None:
        """The virtual device is about to be disabled."""


#: The registered observers.
observers: Final[list[Observer]] = []


class device:  # noqa: N801 - reads as torch.device and torch.cuda.device do
    """Virtual CUDA devices for a block of code (or between `enable` and `disable`).

    Inside, PyTorch code for ``device="cuda"`` runs with real values on CPU tensors while streams, events,
    synchronisation, the caching allocator, graph capture and time are modelled. With ``values=False`` nothing is
    computed and tensors have no host memory, so that large models run on small machines; all else is the same.

    Args:
        spec: A name from `cudalens.virtual.SPECS`, optionally with a number of devices (``"h100x4"``), or a
            `DeviceSpec`.
        alloc_conf: Text as in PYTORCH_CUDA_ALLOC_CONF; by default that of the environment.
        calibration: A file that `cudalens.virtual.calibrate` wrote: `spec` is then any name for that GPU.
        values: Whether values are computed. False: operators compute sizes, strides and dtypes only. Small tensors that
            depend on known values only (sizes, positions, constants) keep their values.
        default: With ``values=False``, the number that the program reads where a value is unknown (``.item()``,
            ``.cpu().numpy()``, a branch); ``torch.isfinite`` is then true. None raises an error that names the line.
        default_count: With ``values=False``, the number of results of operators whose size depends on values
            (``nonzero``, ``x[mask]``, ``unique``), at most the number of elements; None raises an error.
        measure_host: Whether the real time that the program takes between its calls of torch (Python code, waits for
            data, files) advances the virtual clock. The times then differ from run to run.

    Attributes:
        spec: The specification of the devices.
        num_devices: The number of devices.
        values: Whether values are computed.
        defaults: What the program reads for unknown values, and where it has done so.
        measure_host: Whether real time between calls advances the virtual clock.
        gpus: Their state; None outside of the block.
        is_from_notebook: Whether a magic enabled it for the following cells.

    Raises:
        VirtualDeviceError: The name is unknown; or, on entry, another virtual device is active.
        ValueError: `alloc_conf` is not valid for torch; or a default is given while values are computed; or
            `calibration` is given with a `DeviceSpec`.
    """

    def __init__(
        self,
        spec: str | DeviceSpec = "h100",
        *,
        alloc_conf: str | None = None,
        values: bool = True,
        default: float | None = None,
        default_count: int | None = None,
        measure_host: bool = False,
        calibration: str | os.PathLike[str] | None = None,
    ) -> None:
        if values and (default is not None or default_count is not None):
            raise ValueError("default and default_count are for a device without values: pass values=False too.")
        self.measure_host = measure_host
        self.values, self.defaults = values, Defaults(default, default_count)
        if calibration is None:
            self.spec, self.num_devices = parse_device(spec)
        elif isinstance(spec, str):
            self.spec, self.num_devices = calibrated(spec, calibration)
        else:
            raise ValueError("calibration is for a name, such as device('my-4090', calibration=file), not for a spec.")
        self._conf = conf_from_environment(os.environ) if alloc_conf is None else parse_conf(alloc_conf)
        self.gpus: Gpus | None = None
        self.is_from_notebook = False
        self._patches = Patches()
        self._modes: ThreadModes | None = None
        self._default: Any = None
        self._interrupts = DeferredInterrupts("device")

    @property
    def label(self) -> str:
        """The device text: ``h100``, ``h100x4``."""
        return self.spec.key if self.num_devices == 1 else f"{self.spec.key}x{self.num_devices}"

    def __enter__(self) -> device:
        self._interrupts.install()
        try:
            self._enable()
            return self._interrupts.deliver(self)
        except BaseException:
            self._disable()
            self._interrupts.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        try:
            self._disable()
        finally:
            self._interrupts.remove()
            self._interrupts.deliver()

    def enable(self) -> None:
        """Enable the virtual devices.

        Raises:
            VirtualDeviceError: A virtual device is active already.
        """
        self._interrupts.install()
        try:
            self._enable()
        finally:
            self._interrupts.remove()
            self._interrupts.deliver()

    def disable(self) -> None:
        """Disable the virtual devices and undo all patches, if active. Must run on the enabling thread."""
        self._interrupts.install()
        try:
            self._disable()
        finally:
            self._interrupts.remove()
            self._interrupts.deliver()

    def _enable(self) -> None:
        global _active
        if _active is not None:
            raise VirtualDeviceError(
                f"a virtual {_active.spec.key} is already active; virtual devices do not nest. Leave its block "
                "(in a notebook: %cudadevice off) first, or request several at once: cudalens.virtual.device('h100x2')."
            )
        ordinals = visible_ordinals(self.spec.key, self.num_devices)
        if not ordinals:
            warn_user(_HIDDEN.format(value=os.environ.get(CUDA_VARIABLE), label=self.label))
        shapes = None if self.values else Shapes(self.defaults)
        self.gpus = Gpus(
            self.spec, len(ordinals), self._conf, ordinals=ordinals, shapes=shapes, measures_host=self.measure_host
        )
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
                reset_default_device(self._default)
                self._modes.leave()
        finally:
            self.gpus.close()
            self.gpus, self._modes, self._default, _active = None, None, None, None
            self._patches.restore()
            gpu_trace.emit(gpu_trace.DevicesEnded())

    def _install(self, gpus: Gpus) -> None:
        from cudalens.virtual import parts

        for install in parts.INSTALL:
            install(self._patches, gpus)
        self._patches.set(clock, "now_ns", lambda: gpus.machine.now_ns)
        self._patches.set(clock, "done_ns", lambda: max(gpus.machine.now_ns, *(one.tail_ns for one in gpus.devices)))
        self._patches.set(readings, "virtual_label", lambda: self.label)
        self._patches.set(clock, "ceilings", lambda index: spec_ceilings(self.spec))
        self._patches.set(readings, "open_source", lambda: VirtualSource(gpus, self.num_devices, self.label))
        self._default = default_device_context()
        self._modes = ThreadModes(parts.MODES, gpus)
        self._modes.enter()


for _critical in (device.__enter__, device.__exit__, device.enable, device.disable):
    defers_interrupts("device")(_critical)


def active() -> device | None:
    """Return the active virtual device, or None."""
    return _active


# Restore the default device at the end of a virtual device, after ``torch.set_default_device("cuda")`` inside it.


def default_device_context() -> Any:
    """Return the object that torch.set_default_device has installed on this thread, or None if there is none."""
    holder = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    return getattr(holder, "device_context", None)


def reset_default_device(before: Any) -> None:
    """Restore the default device of `before` (from `default_device_context`) if the current one is a CUDA device."""
    now = default_device_context()
    if now is not None and now is not before and now.device.type == "cuda":
        torch.set_default_device(None if before is None else before.device)
