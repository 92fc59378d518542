"""A job whose ranks enter collectives in the order that a test states, as FlightRecorder dumps."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECOND_NS = 10**9
START_NS = 1_795_000_000 * SECOND_NS


@dataclass
class SimulatedJob:
    """Ranks that enter collectives; a rank leaves one when all members of the group have entered it.

    Attributes:
        num_ranks: Number of ranks.
        groups: Members of each further group, by name.
    """

    num_ranks: int
    groups: dict[str, Sequence[int]] = field(default_factory=dict)
    _now_ns: int = START_NS
    _entries: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    _counts: Counter[tuple[int, str]] = field(default_factory=Counter)

    def enter(
        self,
        ranks: int | Iterable[int],
        op: str = "all_reduce",
        *,
        group: str = "0",
        size: Sequence[int] = (10,),
        dtype: str = "Float",
        line: int = 1,
        after_s: float = 0.001,
    ) -> None:
        """`ranks` enter a collective of `group`, one after the other."""
        for rank in [ranks] if isinstance(ranks, int) else ranks:
            self._now_ns += round(after_s * SECOND_NS)
            self._counts[rank, group] += 1
            self._entries[rank].append(
                {
                    "profiling_name": f"gloo:{op}",
                    "collective_seq_id": self._counts[rank, group],
                    "process_group": [group, "default_pg" if group == "0" else f"group {group}"],
                    "time_created_ns": self._now_ns,
                    "input_sizes": [list(size)],
                    "output_sizes": [list(size)],
                    "input_dtypes": [dtype],
                    "is_p2p": False,
                    "frames": [{"filename": "/home/user/train.py", "line": line, "name": "step"}],
                }
            )

    def steps(self, num_steps: int) -> None:
        """Every rank enters three collectives of the default group in each step."""
        for _ in range(num_steps):
            for line, op in enumerate(("all_reduce", "all_gather", "broadcast"), 1):
                self.enter(range(self.num_ranks), op, line=line)

    def write(self, folder: Path, *, number: int = 1, without: Iterable[int] = (), **ending: str) -> Path:
        """Write a dump of each rank but `without`, and its state; ``rank_3="exit"`` states how rank 3 ended."""
        folder.mkdir(exist_ok=True)
        members = {"0": list(range(self.num_ranks)), **{name: list(ranks) for name, ranks in self.groups.items()}}
        left = self._left(members)
        for rank in sorted(set(range(self.num_ranks)) - set(without)):
            stem = f"rank_{rank}.dump_{number}"
            entries = [
                entry | {"retired": (entry["process_group"][0], entry["collective_seq_id"]) in left}
                for entry in self._entries[rank]
            ]
            (folder / f"{stem}.json").write_text(json.dumps({"version": "2.10", "entries": entries, "pg_config": {}}))
            state = {
                "rank": rank,
                "world_size": self.num_ranks,
                "written_ns": self._now_ns + 30 * number * SECOND_NS,
                "groups": {name: ranks for name, ranks in members.items() if rank in ranks},
                "threads": [
                    {"name": "MainThread", "frames": [{"filename": "/home/user/data.py", "line": 70, "name": "read"}]}
                ],
                "ending": ending.get(f"rank_{rank}", ""),
            }
            (folder / f"{stem}.state.json").write_text(json.dumps(state))
        return folder

    def _left(self, members: dict[str, list[int]]) -> set[tuple[str, int]]:
        """The collectives that all members entered alike, by group and number."""
        of_all: dict[tuple[str, int], list[tuple[str, ...]]] = defaultdict(list)
        for entries in self._entries.values():
            for entry in entries:
                kind = (entry["profiling_name"], str(entry["input_sizes"]), *entry["input_dtypes"])
                of_all[entry["process_group"][0], entry["collective_seq_id"]].append(kind)
        return {key for key, found in of_all.items() if len(found) == len(members[key[0]]) and len(set(found)) == 1}
