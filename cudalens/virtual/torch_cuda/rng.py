"""Random numbers on a virtual device: each device has its own generator, as on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.torch_cuda import generators
from cudalens.virtual.torch_cuda.generators import CudaGenerator, known

_Generator: Final[Any] = torch._C.Generator
#: The random overload with a generator argument for each factory; None for a factory that is not random.
_drawers: Final[dict[Any, Any]] = {}

#: Runs an operator with its arguments.
Caller: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def install(patches: Patches, gpus: Gpus) -> None:
    """Make ``torch.Generator`` create generators of the virtual devices.

    torch's class cannot be changed: a name imported earlier still refers to the class that supports only the host.
    """

    class Kind(type(_Generator)):  # type: ignore[misc]
        """Metaclass: a call creates a generator for the device; ``isinstance`` accepts all generators."""

        def __call__(cls, device: Any = "cpu") -> Any:
            index = gpus.device_index(device)
            return _Generator(device) if index is None else CudaGenerator.on(gpus.torch_devices[index])

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _Generator)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _Generator)

    def capture_on(torch_device: torch.device) -> Any:
        machine = gpus.machine
        return machine.current_stream(gpus.devices[torch_device.index]).capture if machine.captures else None

    patches.set(generators, "capture_on", capture_on)
    facade = Kind("Generator", (_Generator,), {"__doc__": _Generator.__doc__, "__module__": "torch"})
    patches.set(torch, "Generator", facade)


def call_now(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator without recording it."""
    return func(*args, **kwargs)


def run(
    gpus: Gpus, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Caller = call_now
) -> Any:
    """Run a random operator with the caller's generator, else the device's.

    Raises:
        RuntimeError: The caller's generator is on the host; torch's message.
    """
    generator = generator_of(gpus, device, kwargs)
    is_ready = "generator" in kwargs or isinstance(func, SwappedState) or takes_generator(func)
    drawer = func if is_ready else SwappedState.of(func)
    return call(drawer, args, {**kwargs, "generator": generator})


def make(
    gpus: Gpus, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Caller = call_now
) -> Any:
    """Run a factory; a random factory uses the caller's generator, else the device's.

    Raises:
        RuntimeError: The caller's generator is on the host; torch's message.
    """
    if func not in _drawers:
        _drawers[func] = _find_drawer(func)
    drawer = _drawers[func]
    if drawer is None:
        return call(func, args, kwargs)
    return call(drawer, args, {**kwargs, "generator": generator_of(gpus, device, kwargs)})


def check_host(kwargs: dict[str, Any]) -> None:
    """Check that the generator of an operator on the host is on the host.

    Raises:
        RuntimeError: It is on a virtual device; torch's message.
    """
    generator = kwargs.get("generator")
    if generator is not None and known(generator) is not None:
        raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")


def takes_generator(func: Any) -> bool:
    """Return whether an overload has a generator argument."""
    return any(argument.name == "generator" for argument in func._schema.arguments)


def is_seeded(func: Any) -> bool:
    """Return whether an overload draws from the default generator and has no generator argument."""
    return torch.Tag.nondeterministic_seeded in func.tags and not takes_generator(func)


def generator_of(gpus: Gpus, device: Device, kwargs: dict[str, Any]) -> CudaGenerator:
    """Return the generator of a random operator: the caller's, else the device's.

    Raises:
        RuntimeError: The caller's generator is on the host; torch's message.
    """
    if gpus.on_first_use is not None:
        gpus.on_first_use()  # applies an earlier seed of the program
    given = kwargs.get("generator")
    if given is None:
        return gpus.generators[device.index].source
    found = known(given)
    if found is None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    return found


def _find_drawer(func: Any) -> Any:
    if takes_generator(func):
        return func
    packet, name = func.overloadpacket, func._overloadname
    wanted = "generator" if name == "default" else f"{name}_generator"
    if wanted in packet.overloads():
        return getattr(packet, wanted)
    return SwappedState.of(func) if is_seeded(func) else None


class Replacement:
    """Base class for replacements of an operator's implementation, with the same schema.

    Attributes:
        overload: The operator.
        reads_requires_grad: Its values depend on which of its arguments require a gradient, also in a replay.
    """

    reads_requires_grad = False

    def __init__(self, func: Any) -> None:
        self._func = self.overload = func
        self._schema, self.tags, self.overloadpacket = func._schema, func.tags, func.overloadpacket
        self._overloadname = func._overloadname

    def __repr__(self) -> str:
        return repr(self._func)

    def shape_of(self, *args: Any, **kwargs: Any) -> Any:
        """Return results on the meta device for arguments there: those of the operator's own shape function."""
        return self.overload(*args, **kwargs)

    def lay_out(self, out: Any) -> Any:
        """Return a result of the operator, or of its shape function, in the layout of CUDA."""
        return out


class SwappedState(Replacement):
    """An operator without a generator argument, made to draw from a given generator.

    The state of the host's default generator is swapped during the call and restored afterwards.
    """

    _made: Final[dict[Any, SwappedState]] = {}

    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.reads_requires_grad = getattr(func, "reads_requires_grad", False)

    @classmethod
    def of(cls, func: Any) -> SwappedState:
        """Return the instance for `func`."""
        if func not in cls._made:
            cls._made[func] = cls(func)
        return cls._made[func]

    def __call__(self, *args: Any, generator: torch.Generator, **kwargs: Any) -> Any:
        """Call the operator."""
        host = torch.default_generator
        before = host.get_state()
        host.set_state(generator.get_state())
        try:
            out = self._func(*args, **kwargs)
            generator.set_state(host.get_state())
            return out
        finally:
            host.set_state(before)
