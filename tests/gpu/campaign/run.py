"""What a part of the campaign gets: its file, its time limit, and the device that it runs on."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """One run of a part.

    Attributes:
        path: The file of its results.
        seconds: Its time limit; a part starts no more work after it.
        virtual: The virtual device to run on; "" for the real one.
        is_short: Do a small share of the work, for tests.
        began: When it started, `time.monotonic`.
        facts: What, where and when, by name; written with the results.
    """

    path: Path
    seconds: float
    virtual: str = ""
    is_short: bool = False
    began: float = field(default_factory=time.monotonic)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds_left <= 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit."""
        return self.began + self.seconds - time.monotonic()

    @contextlib.contextmanager
    def device(self, *, values: bool = True) -> Iterator[None]:
        """The device of the run as ``cuda``: the real one, or a virtual one."""
        with contextlib.ExitStack() as stack:
            if self.virtual:
                import cudalens.virtual

                stack.enter_context(cudalens.virtual.device(self.virtual, values=values))
            self.facts = facts(is_virtual=bool(self.virtual))
            yield

    def some(self, every: list[Any], num_short: int) -> list[Any]:
        """All of a list; of a short run, some that are spread evenly."""
        return every[:: max(1, len(every) // num_short)] if self.is_short else every

    def write(self, results: Any) -> None:
        """Write the results so far; a part that is stopped leaves what it wrote last."""
        text = json.dumps({"facts": self.facts, "results": results})
        draft = self.path.with_suffix(".draft")
        draft.write_text(text + "\n", encoding="utf-8")
        os.replace(draft, self.path)


def facts(*, is_virtual: bool) -> dict[str, Any]:
    """The current device, when, and with which versions."""
    import torch

    from cudalens.device import driver

    found: Any = torch.cuda.get_device_properties(0)
    return {
        "device": found.name,
        "capability": [found.major, found.minor],
        "total_memory_bytes": found.total_memory,
        "num_sms": found.multi_processor_count,
        "is_virtual": is_virtual,
        "when": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "where": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "driver": str(driver()),
    }
