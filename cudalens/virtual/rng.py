"""Random numbers on a virtual device: each device has a generator of its own, as each GPU has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.machine import Device

_WITH_GENERATOR: Final[dict[Any, Any]] = {}
"""Factory overloads without a generator argument, and the overload of the same packet that has one."""


Caller: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Runs an operator with its arguments."""


def call_now(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Just run it."""
    return func(*args, **kwargs)


def run(
    gpus: Gpus, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Caller = call_now
) -> Any:
    """Call a random operator with the device's generator, unless the caller gave one."""
    if kwargs.get("generator") is not None:
        return call(func, args, kwargs)
    return call(func, args, {**kwargs, "generator": gpus.generators[device.index]})


def make(
    gpus: Gpus, device: Device, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Caller = call_now
) -> Any:
    """Call a factory; one that draws numbers draws them from the device's generator."""
    if kwargs.get("generator") is not None:
        return call(func, args, kwargs)
    drawing = _drawing(func)
    if drawing is None:
        return call(func, args, kwargs)
    return call(drawing, args, {**kwargs, "generator": gpus.generators[device.index]})


def _drawing(func: Any) -> Any:
    """The overload with a generator that a random factory is a shorthand of; None for a factory that is not random."""
    if func not in _WITH_GENERATOR:
        packet, name = func.overloadpacket, func._overloadname
        wanted = "generator" if name == "default" else f"{name}_generator"
        _WITH_GENERATOR[func] = getattr(packet, wanted, None) if wanted in packet.overloads() else None
    return _WITH_GENERATOR[func]
