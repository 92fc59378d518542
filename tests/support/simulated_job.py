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
    dropped: int = 0  # entries that each rank's recorder has dropped
    is_nccl: bool = False  # whether dumps state the members of groups

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

    def transfer(
        self, rank: int, op: str, other: int, *, group: str = "0", size: Sequence[int] = (10,), batch: int | None = None
    ) -> None:
        """`rank` starts ``op="send"`` to or ``"recv"`` from `other`, ranks of the group, as NCCL records it."""
        self.is_nccl = True
        self._now_ns += SECOND_NS // 1000
        members = list(self.groups.get(group, range(self.num_ranks)))
        arrow = "->" if op == "send" else "<-"
        pair = (rank, members[other]) if op == "send" else (members[other], rank)
        self._counts[rank, f"{group} {pair}"] += 1
        self._counts[rank, f"{group} p2p"] += 1
        self._entries[rank].append(
            {
                "profiling_name": f"nccl:{op} {members.index(rank)}{arrow}{other}",
                "collective_seq_id": self._counts[rank, group],
                "p2p_seq_id": self._counts[rank, f"{group} p2p"] if batch is None else batch,
                "process_group": [group, "default_pg" if group == "0" else f"group {group}"],
                "time_created_ns": self._now_ns,
                "input_sizes": [list(size)],
                "output_sizes": [list(size)],
                "input_dtypes": ["Float"],
                "is_p2p": True,
                "frames": [{"filename": "/home/user/pipe.py", "line": 5, "name": op}],
                "pair": [group, *pair, self._counts[rank, f"{group} {pair}"]],
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
                entry | {"retired": _key(entry) in left, "record_id": at}
                for at, entry in enumerate(self._entries[rank])
            ][self.dropped :]
            config = {name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks in members.items()}
            dump = {"version": "2.10", "entries": entries, "pg_config": config if self.is_nccl else {}}
            (folder / f"{stem}.json").write_text(json.dumps(dump))
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

    def _left(self, members: dict[str, list[int]]) -> set[tuple[Any, ...]]:
        """The collectives that all members entered alike, by group and number; pairs of a send and a receive alike."""
        of_all: dict[tuple[Any, ...], list[tuple[str, ...]]] = defaultdict(list)
        for entries in self._entries.values():
            for entry in entries:
                name = "" if entry["is_p2p"] else entry["profiling_name"]
                of_all[_key(entry)].append((name, str(entry["input_sizes"]), *entry["input_dtypes"]))
        sizes = {key: 2 if len(key) > 2 else len(members[key[0]]) for key in of_all}
        return {key for key, found in of_all.items() if len(found) == sizes[key] and len(set(found)) == 1}


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Equal for the entries that end together."""
    return tuple(entry.get("pair") or (entry["process_group"][0], entry["collective_seq_id"]))
