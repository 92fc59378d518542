"""What was seen of one run of one program."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = 1


@dataclass(frozen=True)
class DeviceFacts:
    """The device that a program ran on.

    Attributes:
        name: As ``torch.cuda.get_device_name`` says it.
        capability: Compute capability.
        total_memory_bytes: As torch reports it.
        num_sms: Streaming multiprocessors.
        is_virtual: Whether cudalens simulated it.
    """

    name: str
    capability: tuple[int, int]
    total_memory_bytes: int
    num_sms: int
    is_virtual: bool


@dataclass
class Observation:
    """What a program's run left.

    Attributes:
        program: Its name.
        device: Where it ran.
        note: What was recorded, where, when and with which versions and options, by name.
        callbacks: What torch.cuda._gpu_trace reported, in order; objects are named by their first appearance.
        memory: Allocator statistics by place in the program: torch.cuda.memory_stats()' keys.
        segments: The allocator's segments at the end, in an order that does not depend on addresses.
        marks_ms: When the device came by each mark, ms since the first.
        facts: Answers that the program got: queries, comparisons of addresses, counts.
        errors: Errors that it met: type and text, with the numbers of other processes taken out.
    """

    program: str
    device: DeviceFacts
    note: dict[str, str]
    callbacks: list[str] = field(default_factory=list)
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    segments: list[dict[str, Any]] = field(default_factory=list)
    marks_ms: dict[str, float] = field(default_factory=dict)
    facts: dict[str, bool | int | float | str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """As text: a line per callback and number, so that versions can be compared by eye."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Observation:
        """The reverse.

        Raises:
            ValueError: It was written by another version of the suite.
        """
        values = json.loads(text)
        found = values.pop("format", None)
        if found != FORMAT:
            raise ValueError(
                f"an observation of format {found}; expected {FORMAT}. Record it anew (CUDALENS_RECORD=1)."
            )
        device = values.pop("device")
        facts = DeviceFacts(**{**device, "capability": tuple(device["capability"])})
        return cls(device=facts, **values)
