"""Memory in words: what it peaked at and where, what is left of it, who holds it, what of it nobody can use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.memory.holders import memory_categories, memory_holders
from cudalens.analysis.memory.names import Holder, holders, names_in
from cudalens.analysis.memory.replay import memory_peak
from cudalens.analysis.memory.stacks import active_blocks
from cudalens.analysis.memory.totals import fragmentation, pool_totals
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import SNAPSHOT_KEYS

#: Of a line of a stack, ``file:line function``: the place. Functions of C++ may hold spaces, and have no place.
_MAX_ROWS: Final = 10
_MAX_NAME: Final = 48
_MAX_NAMED: Final = 2
_USUAL_POOL: Final = (0, 0)
_PLACES: Final = ("In[",)
_PLACE_LINE: Final = re.compile(r"(.+?:\d+) ")
_TRIED: Final = re.compile(r"OutOfMemoryError: .*Tried to allocate ([\d.]+ \w+)")
_OF_EXCEPTION: Final = {
    "<exception>": "variables of the functions that raised",
    "<last exception>": "the traceback of the last exception",
    "<call>": "variables of functions that are running",
}


def has_memory(trace: Trace) -> bool:
    """Whether the allocator was looked at, though it may hold nothing."""
    return not trace.blocks.empty or SNAPSHOT_KEYS in trace.info.options


def has_refused(trace: Trace) -> bool:
    """Whether an allocation failed."""
    if not has_memory(trace):
        return False
    return bool((trace.memory["action"] == "oom").any()) or bool(_TRIED.search(trace.info.error or ""))


def verdict(trace: Trace) -> str:
    """One line: an allocation that failed, the peak and its line, what is left and who holds it, fragmentation."""
    if not has_memory(trace):
        return ""
    return "; ".join(part for part in (_refused(trace), _peak(trace), _left(trace), _fragmented(trace)) if part)


def report_text(trace: Trace) -> str:
    """Tables: holders by variable, categories, pools, the stacks that hold most; "" without blocks."""
    if trace.blocks.empty:
        return ""
    parts = [holders_text(trace), categories_text(trace), stacks_text(trace), pools_text(trace), _gaps(trace)]
    return "\n\n".join(part for part in parts if part)


def _refused(trace: Trace) -> str:
    memory = trace.memory
    refused = memory[(memory["action"] == "oom").to_numpy()]
    if refused.empty:
        found = _TRIED.search(trace.info.error or "")
        return f"out of memory: {found[1]} asked for" if found else ""
    last = refused.iloc[-1]
    free = "" if pd.isna(last["device_free_bytes"]) else f", {units.size(last['device_free_bytes'])} free on the device"
    line = place_of(trace, last["stack"])
    return f"out of memory{f' at {line}' if line else ''}: {units.size(last['num_bytes'])} asked for{free}"


def _peak(trace: Trace) -> str:
    if trace.memory.empty:
        return f"{units.size(int(active_blocks(trace)['num_bytes'].sum()))} allocated"
    peak = memory_peak(trace)
    row = -1 if pd.isna(peak["row"]) else int(peak["row"])
    line = place_of(trace, trace.memory["stack"].iloc[row]) if row >= 0 else "the start"
    return f"peak {units.size(peak['num_bytes'])} (allocated){f' at {line}' if line else ''}"


def _left(trace: Trace) -> str:
    """What the recorded code left, or without a history all that is there, and who holds it."""
    blocks = active_blocks(trace)
    if not trace.memory.empty:
        blocks = blocks[blocks["alloc"].notna().to_numpy()]
        if blocks.empty:
            return "nothing of it left"
    waits = (blocks["state"] == "active_pending_free").to_numpy()
    held, pending = blocks[~waits], int(blocks["num_bytes"][waits].sum())
    amount = "" if trace.memory.empty else f"{units.size(int(held['num_bytes'].sum()))} left"
    words = _held(held) if held["num_tensors"].notna().any() else ""
    told = ": ".join(part for part in (amount, words) if part)
    return "; ".join([told] * bool(told) + [f"{units.size(pending)} freed that wait for a stream"] * bool(pending))


def _held(blocks: pd.DataFrame) -> str:
    """Who holds the rows `blocks`."""
    kinds = [None if pd.isna(kind) else str(kind) for kind in blocks["category"]]
    return held_words(holders(names_in(blocks["names"]), blocks["num_bytes"].tolist()), kinds)


def held_words(found: Sequence[Holder], kinds: Sequence[str | None]) -> str:
    """``24 tensors held by `history`, 2 by `model`, 1 workspace block``.

    Args:
        found: Who holds what, most bytes first.
        kinds: What each block is there for, None where it is not known.
    """
    named = [one for one in found if one.name is not None]
    unnamed = Counter(kinds[row] for one in found if one.name is None for row in one.rows)
    words = [
        f"{units.plural(one.num_blocks, 'tensor') if i == 0 else units.count(one.num_blocks)}"
        f"{' held' if i == 0 else ''} by {holder_words(one.name)}"
        for i, one in enumerate(named[:_MAX_NAMED])
    ]
    if rest := sum(one.num_blocks for one in named[_MAX_NAMED:]):
        words.append(f"{units.count(rest)} by {units.plural(len(named) - _MAX_NAMED, 'other variable')}")
    words += [units.plural(number, f"{kind} block") for kind, number in unnamed.items() if kind is not None]
    if number := unnamed[None]:
        words.append(f"{units.plural(number, 'block')} that no variable holds")
    return ", ".join(words)


def holder_words(name: Any) -> str:
    """A variable as it stands in a sentence."""
    if not isinstance(name, str):
        return "no variable"
    for begin, words in _OF_EXCEPTION.items():
        if name.startswith(begin):
            rest = name.removeprefix(begin).lstrip(".")
            return f"{words}{f' (`{units.shorten(rest, _MAX_NAME)}`)' if rest else ''}"
    return f"`{units.shorten(name, _MAX_NAME)}`"


def _fragmented(trace: Trace) -> str:
    found = fragmentation(trace)
    share = found["fragmentation_pct"].max()
    return "" if pd.isna(share) else f"fragmentation {units.percent(float(share))}"


def place_of(trace: Trace, stack: Any) -> str:
    """The innermost line of the program's own in a call stack, as ``In[4]:12``; "" where there is none."""
    if pd.isna(stack):
        return ""
    entries = trace.stacks[(trace.stacks["stack"] == stack).to_numpy()]
    places = [
        (str(file), int(line))
        for file, line in zip(entries["file"].astype(object), entries["line"], strict=True)
        if isinstance(file, str) and not pd.isna(line)
    ]
    own = [(file, line) for file, line in places if file.startswith(_PLACES)]
    own = own or [(file, line) for file, line in places if not is_library(file)] or places[:1]
    return f"{_base(own[0][0])}:{own[0][1]}" if own else ""


def is_library(file: str) -> bool:
    """Whether a file is installed, and not the program's own."""
    return any(part in file for part in ("site-packages", "dist-packages", "/lib/python", "<frozen"))


def _base(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2]


# Tables.


def holders_text(trace: Trace) -> str:
    """What the variables hold."""
    found = memory_holders(trace)
    if trace.blocks["names"].isna().all():
        return ""
    rows = [(holder_words(r["holder"]), r["num_bytes"], r["num_blocks"]) for r in found.to_dict("records")]
    return _table("held by", rows)


def categories_text(trace: Trace) -> str:
    """What it is there for."""
    found = memory_categories(trace)
    if found["category"].isna().all():
        return ""
    rows = [
        ("unknown" if pd.isna(r["category"]) else r["category"], r["num_bytes"], r["num_blocks"])
        for r in found.to_dict("records")
    ]
    return _table("there for", rows)


def stacks_text(trace: Trace) -> str:
    """The lines that allocated it."""
    blocks = active_blocks(trace)
    known = blocks[blocks["stack"].notna().to_numpy()]
    if known.empty:
        return ""
    places = {number: place_of(trace, number) or "native code" for number in known["stack"].unique()}
    grouped = known.groupby(known["stack"].map(places).to_numpy(), sort=False)["num_bytes"].agg(["sum", "size"])
    grouped = grouped.sort_values("sum", ascending=False, kind="stable")
    rows = [(str(name), total, size) for name, total, size in grouped.itertuples()]
    return _table("allocated at", rows)


def pools_text(trace: Trace) -> str:
    """What each pool holds, where there is more than the usual one."""
    found = pool_totals(trace)
    keys = ["pool_id_first", "pool_id_second", "stream"]
    if len(found[keys].drop_duplicates()) < 2 and found["device"].nunique() < 2:
        return ""
    rows = [
        (
            _pool_words(row),
            units.size(row["reserved_bytes"]),
            units.size(row["allocated_bytes"]),
            units.size(row["largest_free_bytes"]),
        )
        for row in found.head(_MAX_ROWS).to_dict("records")
    ]
    return _aligned(("pool", "reserved", "allocated", "largest free"), rows, len(found) - len(rows))


def _pool_words(row: dict[Any, Any]) -> str:
    pool = (row["pool_id_first"], row["pool_id_second"])
    private = "" if pd.isna(pool[0]) or pool == _USUAL_POOL else f"private pool ({pool[0]}, {pool[1]}), "
    stream = "" if pd.isna(row["stream"]) else f", stream {int(row['stream']):#x}" if row["stream"] else ""
    kind = "" if pd.isna(row["segment_type"]) else f"{row['segment_type']} blocks"
    return f"device {row['device']}: {private}{kind}{stream}"


def _gaps(trace: Trace) -> str:
    """What nobody can use, and what to do about it."""
    lines = []
    for row in fragmentation(trace).to_dict("records"):
        parts = [
            f"{units.size(row['internal_bytes'])} rounding",
            f"{units.size(row['external_bytes'])} gaps",
            f"{units.size(row['empty_bytes'])} empty segments",
            f"largest free block {units.size(row['largest_free_bytes'])}",
        ]
        lines.append(f"device {row['device']}: {units.size(row['reserved_bytes'])} reserved, of it {', '.join(parts)}")
    return "\n".join(lines)


def leaks_text(trace: Trace) -> str:
    """What each cell left alive, those that left most first; "" where no cell is known."""
    blocks = active_blocks(trace)
    blocks = blocks[blocks["cell"].notna().to_numpy()]
    totals = blocks.groupby("cell", observed=True, sort=False)["num_bytes"].sum()
    lines = [
        f"{cell} left {units.size(int(total))}: {_held(blocks[(blocks['cell'] == cell).to_numpy()])}"
        for cell, total in totals.sort_values(ascending=False, kind="stable").items()
    ]
    return "\n".join(_limited(lines))


def left_text(
    cell: str, sizes: Sequence[int], names: Sequence[Iterable[str]], kinds: Sequence[str | None], freed_bytes: int
) -> str:
    """What one cell left alive, in one line.

    Args:
        cell: The cell, as In[7].
        sizes: Size of each block that it left, shape (k,).
        names: Names of each, shape (k,).
        kinds: What each is there for, None where it is not known; shape (k,).
        freed_bytes: What it released of earlier cells.
    """
    freed = f"; it freed {units.size(freed_bytes)} of earlier ones" if freed_bytes else ""
    if not sizes:
        return f"{cell} left nothing{freed}"
    return f"{cell} left {units.size(sum(sizes))}: {held_words(holders(list(names), list(sizes)), kinds)}{freed}"


def diff_text(before: Trace, after: Trace, found: pd.DataFrame, by: str) -> str:
    """What the second of two snapshots holds that the first did not, and the other way round.

    Args:
        before: The first.
        after: The second.
        found: What `cudalens.analysis.memory_diff` made of them.
        by: What it tells apart.
    """
    totals = [int(active_blocks(trace)["num_bytes"].sum()) for trace in (before, after)]
    grown = totals[1] - totals[0]
    names = [trace.info.name for trace in (before, after)]
    line = f"{signed(grown)} from {names[0]} ({units.size(totals[0])}) to {names[1]} ({units.size(totals[1])})"
    found = found[(found["delta_bytes"] != 0).to_numpy() | (found["delta_blocks"] != 0).to_numpy()]
    rows = [
        (
            _key_words(r[by], by),
            signed(r["delta_bytes"]),
            f"{r['delta_blocks']:+,}",
            units.size(r["before_bytes"]),
            units.size(r["after_bytes"]),
        )
        for r in found.head(_MAX_ROWS).to_dict("records")
    ]
    if not rows:
        return f"{line}; nothing differs"
    table = _aligned((by, "change", "blocks", names[0], names[1]), rows, len(found) - len(rows))
    return f"{line}\n\n{table}"


def signed(num_bytes: int) -> str:
    """A change in bytes with its sign."""
    return f"{'+' if num_bytes >= 0 else '-'}{units.size(abs(num_bytes))}"


def _key_words(key: Any, by: str) -> str:
    """A key of a diff: of a call stack its innermost line of the program's own."""
    if by == "holder":
        return holder_words(key)
    if not isinstance(key, str):
        return "not recorded" if pd.isna(key) else str(key)
    if by != "stack":
        return units.shorten(key, _MAX_NAME)
    lines = key.split("\n")
    entries = [match[1] for line in lines if (match := _PLACE_LINE.match(line)) is not None]
    own = [entry for entry in entries if entry.startswith(_PLACES)]
    own = own or [entry for entry in entries if not is_library(entry)] or entries[:1] or ["native code"]
    return units.shorten(_base(own[0]), _MAX_NAME)


def _table(title: str, rows: Sequence[tuple[str, int, int]]) -> str:
    texts = [(name, units.size(size), units.count(number)) for name, size, number in rows[:_MAX_ROWS]]
    return _aligned((title, "bytes", "blocks"), texts, len(rows) - len(texts))


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left_out: int = 0) -> str:
    """A table: the first column to the left, numbers to the right."""
    all_rows = [head, *rows]
    widths = [max(len(row[k]) for row in all_rows) for k in range(len(head))]
    lines = [
        "  ".join(
            t.ljust(w) if k == 0 else t.rjust(w) for k, (t, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in all_rows
    ]
    more = [f"and {units.count(left_out)} more"] if left_out > 0 else []
    return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:], *more])


def _limited(lines: Iterable[str], limit: int = 2 * _MAX_ROWS) -> list[str]:
    lines = list(lines)
    left = len(lines) - limit
    return [*lines[:limit], *([f"and {units.plural(left, 'cell')} more"] if left > 0 else [])]
