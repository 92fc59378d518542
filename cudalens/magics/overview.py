"""``%cudalens``: the magics with one line each, and the last runs of the session."""

from __future__ import annotations

import sys
from typing import Any, Final

from cudalens.magics.base import Magic, loaded

_MAX_RUNS: Final = 5


class Cudalens(Magic):
    """``%cudalens``."""

    name = "cudalens"
    about = """List the magics of cudalens and the last runs."""

    def run_line(self, line: str) -> Any:
        """Print the magics and the runs."""
        listed = [type(magic) for magic in loaded(self.shell) if magic is not self]
        names = [f"%%{magic.name}" if magic.cell_form else f"%{magic.name}" for magic in listed]
        width = max(map(len, names))
        rows = [f"{name:<{width}}  {_first_line(magic)}" for name, magic in zip(names, listed, strict=True)]
        print("\n".join([*rows, "", *_runs(), "Options of one: %cudaprofile --help"]))  # noqa: T201


def _first_line(magic: type[Magic]) -> str:
    return magic.about.partition("\n")[0]


def _runs() -> list[str]:
    """Return the last runs, newest first."""
    module = sys.modules.get("cudalens.api.runs")  # before a first run, nothing imports pandas
    kept = [] if module is None else list(reversed(module.runs.items()))
    if not kept:
        return ["No run yet: put %%cudaprofile on top of a cell."]
    rows = [f"  {name}: {len(trace):,} events" for name, trace in kept[:_MAX_RUNS]]
    more = [f"  and {len(kept) - _MAX_RUNS} more in cudalens.runs"] if len(kept) > _MAX_RUNS else []
    return ["Last runs (%cudaprofile show NAME):", *rows, *more]
