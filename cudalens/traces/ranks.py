"""Find the files of one distributed job, and the rank of each.

The rank of a file is taken from its content (Kineto's ``distributedInfo``), else from its name (``rank-3.json.gz``,
``worker3_step_12.pt.trace.json``), else from the only number in which the names of all files differ (``run.3.sqlite``).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames import RunInfo
from cudalens.frames.files import filesystem_of
from cudalens.frames.info import MAX_RANK
from cudalens.frames.limits import Problems

#: Suffixes of files that may be traces; other files in the folder are skipped. The content decides what a file is.
SUFFIXES: Final = (".json", ".gz", ".trace", ".cudalens", ".sqlite", ".sqlite3", ".db", ".nvvp", ".prof")

_RANK: Final = re.compile(r"(?:rank|worker)[\W_]{0,3}(\d{1,9})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+)")
#: Largest difference that is expected between the clocks of hosts in one job.
_SLACK_NS: Final = 60 * 10**9
EXPECTED: Final = "a folder that holds a trace of each rank of one job"


@dataclass(eq=False)
class RankFile:
    """One file of a job that was read.

    Attributes:
        path: The file, a path or URL.
        info: Its run info.
        rank: Its rank, or None if neither its content nor its name has one.
        is_snapshot: Whether it is a memory snapshot.
        number: Its number among the files.
    """

    path: str
    info: RunInfo
    rank: int | None
    is_snapshot: bool = False
    number: int = 0

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return name_of(self.path)


def name_of(path: str) -> str:
    """Return the last part of a path or URL."""
    return re.split(r"[/\\]", path.rstrip("/"))[-1]


def find_files(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files of `source` that may be traces, by name.

    Args:
        source: A folder (directly, else in its subfolders), a pattern with ``*``, each a path or an fsspec URL; or a
            list of files.

    Raises:
        TraceFormatError: There is none.
    """
    if not isinstance(source, str | os.PathLike):
        return _listed([os.fspath(path) for path in source])
    text = os.fspath(source)
    filesystem, path = filesystem_of(text)
    try:
        if any(sign in path for sign in "*?[") and not filesystem.exists(path):
            found = _usable(filesystem, filesystem.glob(path))
        else:
            found = _in_folder(filesystem, path, text)
    except OSError as error:
        raise TraceFormatError(text, found=error.strerror or str(error), expected=EXPECTED) from error
    if not found:
        ends = ", ".join(SUFFIXES)
        raise TraceFormatError(text, found=f"no file whose name ends in one of {ends}", expected=EXPECTED)
    return [filesystem.unstrip_protocol(one) if "://" in text else one for one in found]


def _listed(paths: list[str]) -> list[str]:
    if not paths:
        raise TraceFormatError("[]", found="an empty list", expected=EXPECTED)
    return sorted(dict.fromkeys(paths))


def _in_folder(filesystem: Any, path: str, text: str) -> list[str]:
    if not filesystem.isdir(path):
        exists = filesystem.exists(path)
        hint = "cudalens.load reads one file." if exists else None
        raise TraceFormatError(text, found="a file" if exists else "nothing", expected=EXPECTED, hint=hint)
    if _is_store(filesystem, path):
        hint = "cudalens.frames.Ranks.open opens it."
        raise TraceFormatError(text, found="a store that load_ranks wrote", expected=EXPECTED, hint=hint)
    names = sorted(filesystem.ls(path, detail=False))
    folders = [name for name in names if filesystem.isdir(name) and not _is_store(filesystem, name)]
    return _usable(filesystem, names) or [
        file for folder in folders for file in _usable(filesystem, filesystem.ls(folder, detail=False))
    ]


def _is_store(filesystem: Any, path: str) -> bool:
    return bool(filesystem.exists(f"{path.rstrip('/')}/job.json") and filesystem.isdir(f"{path.rstrip('/')}/events"))


def _usable(filesystem: Any, names: Iterable[str]) -> list[str]:
    return sorted(
        name
        for name in names
        if name.lower().endswith(SUFFIXES) and not name_of(name).startswith(".") and filesystem.isfile(name)
    )


def ranks_in_names(paths: Sequence[str]) -> dict[str, int | None]:
    """Return the rank that the name of each file has: ``rank-3``, ``worker3``, else the only number that differs."""
    same = next((i for i, signs in enumerate(zip(*paths, strict=False)) if len(set(signs)) > 1), 0)
    common = paths[0][:same] if len(paths) > 1 else paths[0]
    common = common[: max(common.rfind("/"), common.rfind("\\")) + 1]
    found = {path: _named(path[len(common) :]) for path in paths}
    if all(rank is None for rank in found.values()):
        found.update(zip(paths, _differing([name_of(path) for path in paths]), strict=False))
    return found


def _named(name: str) -> int | None:
    match = _RANK.search(name)
    return int(match[1]) if match and int(match[1]) <= MAX_RANK else None


def choose(found: Sequence[RankFile], problems: Problems, wanted: frozenset[int] | None = None) -> dict[int, RankFile]:
    """One file of each rank of the job that most files belong to, in order of rank; counts the others as problems.

    Args:
        found: The files that could be read.
        problems: Where what is wrong is counted.
        wanted: The ranks that were asked for, of which none may be missing; None for all.
    """
    usable = []
    for one in found:
        if one.is_snapshot:
            problems.add("file that is not a trace of a rank", f"'{one.name}': a memory snapshot")
        elif one.rank is None:
            problems.add("file that names no rank", f"'{one.name}'")
        else:
            usable.append(one)
    known = sorted(usable, key=lambda one: (one.rank or 0, one.path))
    kept = _distinct(_of_one_job(known, problems), problems)
    if kept:
        worlds = [size for one in kept.values() if (size := one.info.world_size) is not None]
        size = max(worlds[0] if worlds else 0, max(kept) + 1)
        expected = range(size) if wanted is None else sorted(wanted)
        missing = len(expected) - len(kept)
        if missing:
            shown = [rank for rank in expected[: len(kept) + 8] if rank not in kept][:8]
            more = ", …" if missing > len(shown) else ""
            problems.add("rank without a file", f"rank {', '.join(map(str, shown))}{more} of {size}", missing)
    return kept


def _differing(names: Sequence[str]) -> list[int]:
    """For each name, the only number in which `names` differ, if these numbers count from 0; else empty."""
    split = [_NUMBER.split(name) for name in names]
    if len(split) < 2 or len({len(parts) for parts in split}) > 1:
        return []
    differing = [column for column in zip(*split, strict=True) if len(set(column)) > 1]
    if len(differing) != 1 or not all(part.isdigit() for part in differing[0]):
        return []
    ranks = [int(part) for part in differing[0]]
    return ranks if sorted(ranks) == list(range(len(ranks))) else []


def _distinct(found: Sequence[RankFile], problems: Problems) -> dict[int, RankFile]:
    """One file of each rank: the first by name."""
    kept: dict[int, RankFile] = {}
    for one in found:
        assert one.rank is not None
        if (first := kept.setdefault(one.rank, one)) is not one:
            problems.add("second file of one rank", f"'{one.name}' is of rank {one.rank}, as '{first.name}' is")
    return kept


def _of_one_job(found: list[RankFile], problems: Problems) -> list[RankFile]:
    """Return the files that belong to the most frequent job; in a tie, to the job of the lowest rank."""
    found = _of_most(found, _world, "{} rank{}", problems)
    found = _of_most(found, _backend, "backend {}", problems)
    found = _of_most(found, _default_group, "a default process group of ranks {}", problems)
    # The largest group of files that were recorded at about the same time; in a tie, the earliest group.
    timed = [one for one in found if _window(one) is not None]
    if len(timed) < 2:
        return found
    usual = max(_together(timed), key=len)
    begins = min(_start(one) for one in usual)
    apart = [one for one in timed if one not in usual]
    for one in apart:
        where = f"'{one.name}' starts {(_start(one) - begins) / 1e9:+.0f} s from the others"
        problems.add("file of another job", where)
    return [one for one in found if one not in apart]


def _of_most(found: list[RankFile], what: Callable[[RankFile], Any], words: str, problems: Problems) -> list[RankFile]:
    facts = [what(one) for one in found]
    counts = Counter(fact for fact in facts if fact is not None)
    if not counts:
        return found
    ((usual, _),) = counts.most_common(1)
    for one, fact in zip(found, facts, strict=True):
        if fact is not None and fact != usual:
            mine, theirs = (words.format(value, "" if value == 1 else "s") for value in (fact, usual))
            where = f"'{one.name}' has {mine}, the others have {theirs}"
            problems.add("file of another job", where)
    return [one for one, fact in zip(found, facts, strict=True) if fact is None or fact == usual]


def _world(one: RankFile) -> int | None:
    return one.info.world_size


def _job(one: RankFile) -> dict[str, Any]:
    try:
        job = msgspec.json.decode(one.info.extra.get("distributedInfo", "{}"))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return job if isinstance(job, dict) else {}


def _backend(one: RankFile) -> str | None:
    backend = _job(one).get("backend")
    return backend if isinstance(backend, str) else None


def _default_group(one: RankFile) -> str | None:
    """Return the ranks of the default process group, as text."""
    groups = _job(one).get("pg_config")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and (group.get("pg_desc") == "default_pg" or str(group.get("pg_name")) == "0"):
            ranks = group.get("ranks")
            return str(sorted(map(str, ranks)))[:200] if isinstance(ranks, list) and ranks else None
    return None


def _window(one: RankFile) -> tuple[int, int] | None:
    start, end = one.info.started_ns, one.info.ended_ns
    return None if start is None or end is None else (start, end)


def _start(one: RankFile) -> int:
    return one.info.started_ns or 0


def _together(timed: Sequence[RankFile]) -> list[list[RankFile]]:
    """Groups of files whose windows overlap, or are apart by at most the slack plus the longest window."""
    order = sorted(timed, key=_start)
    groups: list[list[RankFile]] = []
    reached, longest = -(1 << 63), 0
    for one in order:
        start, end = _window(one) or (0, 0)
        if not groups or start - reached > _SLACK_NS + longest:
            groups.append([])
            reached, longest = end, 0
        groups[-1].append(one)
        reached, longest = max(reached, end), max(longest, end - start)
    return groups
