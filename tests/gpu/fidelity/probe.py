"""Watches a program while it runs, on whatever device ``cuda`` is, and makes the observation."""

from __future__ import annotations

import gc
import re
from dataclasses import fields
from typing import Any, Final

import torch

from cudalens.device import gpu_trace
from fidelity.observation import DeviceFacts, Observation
from fidelity.programs import Program

_KEPT: Final = re.compile(
    r"(allocated_bytes|reserved_bytes|active_bytes|requested_bytes|inactive_split_bytes|allocation|segment|active|"
    r"inactive_split)\.(all|small_pool|large_pool)\.(current|peak|allocated|freed)"
    r"|num_alloc_retries|num_ooms"
)
"""Statistics that are compared; torch has more, of things that a program here does not use."""

_OTHERS: Final = (
    (re.compile(r"of which [\d.]+ [KMG]iB is free"), "of which N is free"),
    (re.compile(r"total capacity of [\d.]+ [KMG]iB"), "total capacity of N"),
    (re.compile(r"(Process \d+|this process) has [\d.]+ [KMG]iB memory in use"), r"process has N memory in use"),
)
"""Parts of torch's message that describe the card and other processes on it."""


class Names:
    """Names for pointers, by first appearance, so that two runs can be compared."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}
        self._count: dict[str, int] = {}

    def of(self, kind: str, pointer: int) -> str:
        """The pointer's name: "stream 3". The default stream keeps its own."""
        if kind == "stream" and pointer == 0:
            return "default stream"
        if (kind, pointer) not in self._known:
            number = self._count[kind] = self._count.get(kind, -1) + 1
            self._known[kind, pointer] = f"{kind} {number}"
        return self._known[kind, pointer]


class Probe:
    """Records facts, times and errors of a program while it runs."""

    def __init__(self) -> None:
        self._marks: dict[str, torch.cuda.Event] = {}
        self._records: list[gpu_trace.Record] = []
        self.names = Names()
        self.memory_at: dict[str, dict[str, int]] = {}
        self.facts: dict[str, bool | int | float | str] = {}
        self.errors: dict[str, str] = {}

    def mark(self, name: str, stream: torch.cuda.Stream | None = None) -> None:
        """A moment on the device's clock."""
        self._marks[name] = torch.cuda.Event(enable_timing=True)
        self._marks[name].record(stream if stream is not None else torch.cuda.current_stream())

    def memory(self, name: str) -> None:
        """The allocator's statistics here."""
        stats = torch.cuda.memory_stats()
        self.memory_at[name] = {key: int(value) for key, value in stats.items() if _KEPT.fullmatch(key)}

    def fact(self, name: str, answer: bool | int | float | str) -> None:
        """An answer that must be the same on every device."""
        self.facts[name] = answer

    def error(self, name: str, error: BaseException) -> None:
        """An error that must be the same on every device."""
        text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        for pattern, instead in _OTHERS:
            text = pattern.sub(instead, text)
        self.errors[name] = text

    def add_record(self, record: gpu_trace.Record) -> None:
        """A listener of `cudalens.device.gpu_trace`."""
        self._records.append(record)

    def callbacks(self) -> list[str]:
        """torch's callbacks as text. Records of cudalens's own kinds have no counterpart on a real device."""
        return [self._in_words(r) for r in self._records if type(r) in gpu_trace.REGISTRIES.values()]

    def _in_words(self, record: gpu_trace.Record) -> str:
        kinds = {"cuda_event": "event", "stream": "stream", "address": "block"}
        names = [self.names.of(kinds[f.name], getattr(record, f.name)) for f in fields(record)]
        return " ".join([type(record).__name__, *names])

    def marks_ms(self) -> dict[str, float]:
        """Times of the marks since the first of them."""
        if not self._marks:
            return {}
        first = next(iter(self._marks.values()))
        return {name: first.elapsed_time(event) if event is not first else 0.0 for name, event in self._marks.items()}


def observe(program: Program, *, is_virtual: bool, note: dict[str, str]) -> Observation:
    """Run a program on whatever ``cuda`` is now, in a process (or on a virtual device) that has done nothing else."""
    probe = Probe()
    _warm_up()
    gc.collect()
    gc.disable()
    try:
        torch.manual_seed(0)
        with gpu_trace.subscribe(probe.add_record):
            program.run(probe)
            torch.cuda.synchronize()
        probe.memory("end")
        callbacks = probe.callbacks()
        return Observation(
            program=program.name,
            device=device_facts(is_virtual=is_virtual),
            note=note,
            callbacks=callbacks,
            memory=probe.memory_at,
            segments=_segments(probe.names),
            marks_ms=probe.marks_ms(),
            facts=probe.facts,
            errors=probe.errors,
        )
    finally:
        gc.enable()


def _warm_up() -> None:
    """What torch imports at a process's first training step leaves cycles that would keep a program's model alive."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([parameter], foreach=False)
    parameter.sum().backward()
    optimizer.step()


def device_facts(*, is_virtual: bool) -> DeviceFacts:
    """The device that ``cuda`` is now."""
    properties: Any = torch.cuda.get_device_properties(0)
    return DeviceFacts(
        name=properties.name,
        capability=(properties.major, properties.minor),
        total_memory_bytes=properties.total_memory,
        num_sms=properties.multi_processor_count,
        is_virtual=is_virtual,
    )


def _segments(names: Names) -> list[dict[str, Any]]:
    found = [
        {
            "num_bytes": segment["total_size"],
            "type": segment["segment_type"],
            "stream": names.of("stream", segment["stream"]),
            "is_private": tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0),
            "is_expandable": bool(segment.get("is_expandable", False)),
            "blocks": [f"{block['state']} {block['size']}" for block in segment["blocks"]],
        }
        for segment in torch.cuda.memory_snapshot()
    ]
    return sorted(found, key=lambda segment: str(sorted(segment.items())))
