"""`load_ranks`: read the traces of one distributed job from a folder with a file for each rank.

The rank of a file is taken from its content (Kineto's ``distributedInfo``), else from its name (``rank-3.json.gz``,
``worker3_step_12.pt.trace.json``), else from the only number in which the names of all files differ (``run.3.sqlite``).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames import Ranks, Trace
from cudalens.frames.problems import Problems
from cudalens.traces.loading import load

#: Suffixes of files that may be traces; other files in the folder are skipped. The content decides what a file is.
SUFFIXES: Final = (".json", ".gz", ".trace", ".cudalens", ".sqlite", ".sqlite3", ".db", ".nvvp", ".prof")

_RANK: Final = re.compile(r"(?:rank|worker)[\W_]{0,3}(\d{1,9})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d+)")
#: Largest difference that is expected between the clocks of hosts in one job.
_SLACK_NS: Final = 60 * 10**9
_EXPECTED: Final = "a folder that holds a trace of each rank of one job"


@dataclass(eq=False)
class _Found:
    path: Path
    trace: Trace
    rank: int | None


def load_ranks(
    folder: str | os.PathLike[str], *, load: Callable[[Path], Trace] = load, name: str | None = None
) -> Ranks:
    """Read the traces of all ranks of one job from `folder`.

    ``problems`` of the result lists what is wrong with the set: a missing rank, two files of one rank, a file that
    cannot be read, that has no rank, or that belongs to another job (another number of ranks, other process groups, a
    time window far from that of the others). Such files are left out.

    Args:
        folder: The folder with the files, directly or in subfolders.
        load: Reads one file.
        name: Name of the job; None for the folder's name.

    Raises:
        TraceFormatError: There is no such folder, or nothing in it can be used. The message says what was found.
    """
    folder = Path(folder)
    problems = Problems()
    paths = _candidates(folder)
    found = [one for path in paths if (one := _read(path, load, problems)) is not None]
    _name_ranks(found, folder)
    known = sorted((one for one in found if _has_rank(one, problems)), key=lambda one: (one.rank or 0, one.path))
    kept = _distinct(_of_one_job(known, problems), problems)
    if not kept:
        first = problems.first()
        raise TraceFormatError(
            folder,
            found=f"no usable trace of a rank among {len(paths)} files" + (f"; first: {first}" if first else ""),
            expected=_EXPECTED,
        )
    _count_missing(kept, problems)
    traces = {rank: _with_rank(one.trace, rank) for rank, one in kept.items()}
    return Ranks(traces, name=name or folder.resolve().name, problems=problems.to_tuple())


def _candidates(folder: Path) -> list[Path]:
    """The files that may be traces, by name; those in subfolders if the folder itself has none."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        hint = "cudalens.load reads one file." if folder.exists() else None
        raise TraceFormatError(folder, found=found, expected=_EXPECTED, hint=hint)
    try:
        paths = _files(folder) or [path for sub in sorted(folder.iterdir()) if sub.is_dir() for path in _files(sub)]
    except OSError as error:
        raise TraceFormatError(folder, found=error.strerror or str(error), expected=_EXPECTED) from error
    if not paths:
        raise TraceFormatError(
            folder, found=f"no file whose name ends in one of {', '.join(SUFFIXES)}", expected=_EXPECTED
        )
    return paths


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".") and path.is_file()
    )


def _read(path: Path, load: Callable[[Path], Trace], problems: Problems) -> _Found | None:
    try:
        trace = load(path)
    except TraceFormatError as error:
        problems.add("file that cannot be read", f"'{path.name}': {error.found}"[:300])
        return None
    if not len(trace) and len(trace.blocks):
        problems.add("file that is not a trace of a rank", f"'{path.name}': a memory snapshot")
        return None
    return _Found(path, trace, trace.info.rank)


def _name_ranks(found: Sequence[_Found], folder: Path) -> None:
    """Set the rank of files without one in their content from their names."""
    unnamed = [one for one in found if one.rank is None]
    for one in unnamed:
        if match := _RANK.search(str(one.path.relative_to(folder))):
            one.rank = int(match[1])
    if unnamed and all(one.rank is None for one in found):
        for one, rank in zip(unnamed, _differing([one.path.name for one in unnamed]), strict=False):
            one.rank = rank


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


def _has_rank(one: _Found, problems: Problems) -> bool:
    if one.rank is None:
        problems.add("file that names no rank", f"'{one.path.name}'")
    return one.rank is not None


def _distinct(found: Sequence[_Found], problems: Problems) -> dict[int, _Found]:
    """One file of each rank: the first by name."""
    kept: dict[int, _Found] = {}
    for one in found:
        assert one.rank is not None
        if (first := kept.setdefault(one.rank, one)) is not one:
            problems.add(
                "second file of one rank", f"'{one.path.name}' is of rank {one.rank}, as '{first.path.name}' is"
            )
    return kept


def _of_one_job(found: list[_Found], problems: Problems) -> list[_Found]:
    """The files that belong to the most frequent job; in a tie, to the job of the lowest rank."""
    found = _of_most(found, _world, "{} ranks", problems)
    found = _of_most(found, _backend, "backend {}", problems)
    found = _of_most(found, _default_group, "a default process group of ranks {}", problems)
    return _in_one_window(found, problems)


def _of_most(found: list[_Found], what: Callable[[_Found], Any], words: str, problems: Problems) -> list[_Found]:
    facts = [what(one) for one in found]
    counts = Counter(fact for fact in facts if fact is not None)
    if not counts:
        return found
    ((usual, _),) = counts.most_common(1)
    for one, fact in zip(found, facts, strict=True):
        if fact is not None and fact != usual:
            where = f"'{one.path.name}' has {words.format(fact)}, the others have {words.format(usual)}"
            problems.add("file of another job", where)
    return [one for one, fact in zip(found, facts, strict=True) if fact is None or fact == usual]


def _world(one: _Found) -> int | None:
    return one.trace.info.world_size


def _job(one: _Found) -> dict[str, Any]:
    try:
        job = msgspec.json.decode(one.trace.info.extra.get("distributedInfo", "{}"))
    except msgspec.DecodeError:
        return {}
    return job if isinstance(job, dict) else {}


def _backend(one: _Found) -> str | None:
    backend = _job(one).get("backend")
    return backend if isinstance(backend, str) else None


def _default_group(one: _Found) -> str | None:
    """The ranks of the default process group, as text."""
    groups = _job(one).get("pg_config")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict) and (group.get("pg_desc") == "default_pg" or str(group.get("pg_name")) == "0"):
            ranks = group.get("ranks")
            return str(sorted(map(str, ranks)))[:200] if isinstance(ranks, list) and ranks else None
    return None


def _in_one_window(found: list[_Found], problems: Problems) -> list[_Found]:
    """The largest group of files that were recorded at about the same time; in a tie, the earliest group."""
    timed = [one for one in found if _window(one) is not None]
    if len(timed) < 2:
        return found
    usual = max(_together(timed), key=len)
    begins = min(_start(one) for one in usual)
    apart = [one for one in timed if one not in usual]
    for one in apart:
        where = f"'{one.path.name}' starts {(_start(one) - begins) / 1e9:+.0f} s from the others"
        problems.add("file of another job", where)
    return [one for one in found if one not in apart]


def _window(one: _Found) -> tuple[int, int] | None:
    start, end = one.trace.info.started_ns, one.trace.info.ended_ns
    return None if start is None or end is None else (start, end)


def _start(one: _Found) -> int:
    return one.trace.info.started_ns or 0


def _together(timed: Sequence[_Found]) -> list[list[_Found]]:
    """Groups of files whose windows overlap, or are apart by at most the slack plus the longest window."""
    order = sorted(timed, key=_start)
    groups: list[list[_Found]] = []
    reached, longest = -(1 << 63), 0
    for one in order:
        start, end = _window(one) or (0, 0)
        if not groups or start - reached > _SLACK_NS + longest:
            groups.append([])
            reached, longest = end, 0
        groups[-1].append(one)
        reached, longest = max(reached, end), max(longest, end - start)
    return groups


def _count_missing(kept: dict[int, _Found], problems: Problems) -> None:
    worlds = [size for one in kept.values() if (size := one.trace.info.world_size) is not None]
    size = max(worlds[0] if worlds else 0, max(kept) + 1)
    missing = size - len(kept)
    if missing:
        shown = [rank for rank in range(min(size, len(kept) + 8)) if rank not in kept][:8]
        more = ", …" if missing > len(shown) else ""
        problems.add("rank without a file", f"rank {', '.join(map(str, shown))}{more} of {size}", missing)


def _with_rank(trace: Trace, rank: int) -> Trace:
    return trace if trace.info.rank == rank else trace.replace(info=trace.info.replace(rank=rank))
