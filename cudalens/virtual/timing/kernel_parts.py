"""The parts of an operator that a GPU runs as several kernels: their traffic, their time, their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cudalens.virtual.timing.fallback_durations import (
    FALLBACK_FAMILIES,
    OTHER_MEMORY_SHARE,
    Family,
    elements_ns,
    grid_of,
    kernel_ns,
    room,
)
from cudalens.virtual.timing.families import learned_family
from cudalens.virtual.timing.interfaces import Work

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

#: Computes the kernels of a call from the GPU, the arguments, the result, and the call as one kernel.
Rule = Callable[["DeviceSpec", Sequence[Any], Any, Work], Iterator[Work]]


def part(spec: DeviceSpec, whole: Work, name: str, num_bytes: int, num_elements: int, family: Family) -> Work:
    """Return a further kernel of an operator, with the given traffic."""
    grid = grid_of(num_elements)
    duration_ns = kernel_ns(spec, num_elements, num_bytes, "float32", family)
    fallback = FALLBACK_FAMILIES[family]
    if fallback == "other":
        fallback = learned_family(operator_of(whole)) or fallback
    return replace(
        named(whole, name),
        duration_ns=duration_ns,
        room=room(spec, grid[0]),
        num_bytes=num_bytes,
        flops=num_elements,
        grid=grid,
        block=(128, 1, 1),
        family=fallback,
    )


def counted(
    spec: DeviceSpec,
    whole: Work,
    name: str,
    num_bytes: int,
    num_elements: int,
    per_clock: float,
    num_blocks: int | None = None,
) -> Work:
    """Return a kernel that is limited by the elements that an SM takes in a clock, or by its bytes.

    Args:
        spec: The GPU.
        whole: The operator as one kernel.
        name: The name of the kernel; empty for that of the operator.
        num_bytes: Bytes read and written.
        num_elements: Elements that the kernel goes over.
        per_clock: Elements per clock of an SM, as measured on an H100.
        num_blocks: Thread blocks, if they are few.
    """
    memory_ns = num_bytes / (spec.memory_bandwidth_gbps * OTHER_MEMORY_SHARE)
    duration_ns = max(memory_ns, elements_ns(spec, num_elements, per_clock, num_blocks))
    grid = grid_of(num_elements) if num_blocks is None else (max(1, num_blocks), 1, 1)
    return replace(
        named(whole, name) if name else whole,
        duration_ns=int(duration_ns) + spec.kernel_fixed_ns,
        room=room(spec, grid[0]),
        num_bytes=num_bytes,
        flops=num_elements,
        grid=grid,
        block=(128, 1, 1),
    )


def at_least(work: Work, duration_ns: float) -> Work:
    """Return a kernel that lasts at least a time, because its parts follow each other."""
    return replace(work, duration_ns=max(work.duration_ns, int(duration_ns)))


def named(whole: Work, name: str) -> Work:
    """Return a kernel of an operator with a name of its own."""
    operator, bracket, types = whole.name.partition("<")
    return replace(whole, name=f"{operator}::{name}{bracket}{types}")


def operator_of(work: Work) -> str:
    """Return the name of a kernel's operator without namespace and trailing underscores."""
    return (work.op or "").partition("::")[2].rstrip("_")


def divided(whole: Work, num_parts: int) -> Iterator[Work]:
    """Yield a kernel as several of equal length and name."""
    if num_parts <= 1:
        yield whole
        return
    shares = {name: getattr(whole, name) // num_parts for name in ("duration_ns", "num_bytes", "flops")}
    for _ in range(num_parts):
        yield replace(whole, **shares)
