"""The programs of `fidelity` on the device, each in a process of its own: what the virtual device is compared with."""

from __future__ import annotations

import dataclasses
from typing import Any

from campaign.run import Run


def run(this: Run) -> str:
    """Observe each program, and write the observations as they come."""
    from fidelity import PROGRAMS
    from fidelity.observation import FORMAT

    found: list[dict[str, Any]] = []
    problems = []
    for program in this.some(list(PROGRAMS.values()), 1):
        if this.is_over:
            problems.append(f"{program.name}: no time left")
            continue
        try:
            seen = _observation(program, this.virtual)
        except Exception as error:
            problems.append(f"{program.name}: {error}"[:2000])
            continue
        this.facts = {"device": seen.device.name, "is_virtual": seen.device.is_virtual, **seen.note}
        found.append({"format": FORMAT, **dataclasses.asdict(seen)})
        this.write({"observations": found, "problems": problems})
    this.write({"observations": found, "problems": problems})
    return f"{len(found)} programs, {len(problems)} problems"


def _observation(program: Any, virtual: str) -> Any:
    from fidelity.runs import observe_virtual, run_real

    if not virtual:
        return run_real(program)
    from cudalens.virtual import SPECS

    return observe_virtual(program, SPECS[virtual])
