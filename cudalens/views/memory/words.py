"""Memory in words: the peak and its line, what is left and which variables hold it, fragmentation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.facts import memory_at_end, memory_high
from cudalens.analysis.memory.holders import Holder, active_blocks, holders, kept_graphs, names_in
from cudalens.analysis.memory.replay import devices_of, replays
from cudalens.analysis.memory.totals import last_refusal
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import SNAPSHOT_KEYS

#: The allocator takes 20 MiB and more at once from the driver: less than a few of these is not fragmentation.
_WASTED_BYTES: Final = 64 << 20
_WASTED_PCT: Final = 10.0
_MAX_CELLS: Final = 20
_MAX_NAME: Final = 48
_MAX_NAMED: Final = 2
#: A call stack that holds a smaller part of the used memory is not named.
_LARGE_HOLDER: Final = 0.1

_TRIED: Final = re.compile(r"OutOfMemoryError: .*Tried to allocate ([\d.]+ \w+)")
_OF_EXCEPTION: Final = {
    "<exception>": "variables of the functions that raised",
    "<last exception>": "the traceback of the last exception",
    "<call>": "variables of functions that are running",
    "<garbage>": "reference cycles that nothing uses (gc.collect() frees them)",
}


def has_memory(trace: Trace) -> bool:
    """Return whether the allocator's state was recorded, even if it has no blocks."""
    return not trace.blocks.empty or SNAPSHOT_KEYS in trace.info.options


def has_refused(trace: Trace) -> bool:
    """Return whether an allocation failed."""
    if not has_memory(trace):
        return False
    return bool((trace.memory["action"] == "oom").any()) or bool(_TRIED.search(trace.info.error or ""))


@once_per_trace
def memory_verdict(trace: Trace) -> str:
    """One line: a failed allocation, the peak and its line, the memory that is left and its holders, fragmentation."""
    if not has_memory(trace):
        return ""
    return "; ".join(
        part for part in (_refused(trace), _peak(trace), _left(trace), _kept(trace), _fragmented(trace)) if part
    )


def _refused(trace: Trace) -> str:
    refused = last_refusal(trace)
    if refused is None:
        found = _TRIED.search(trace.info.error or "")
        return f"out of memory: {found[1]} asked for" if found else ""
    line = place_of(trace, trace.memory["stack"].iloc[refused.row])
    texts = [f"out of memory{f' at {line}' if line else ''}: {units.size(refused.asked_bytes)} asked for"]
    if refused.free_bytes is not None:
        texts.append(f"{units.size(refused.free_bytes)} free on the device")
    if refused.unused_bytes is not None and refused.reserved_bytes:
        pieces = refused.largest_unused_bytes
        largest = "" if pieces is None or not refused.unused_bytes else f" (the largest piece {units.size(pieces)})"
        texts.append(
            f"{units.size(refused.unused_bytes)} of the reserved {units.size(refused.reserved_bytes)} unused{largest}"
        )
    used_bytes = (refused.reserved_bytes or 0) - (refused.unused_bytes or 0)
    is_large = refused.main_bytes >= _LARGE_HOLDER * used_bytes
    holder = place_of(trace, refused.main_stack) if is_large and refused.main_stack is not None else None
    if holder:
        texts.append(f"{units.size(refused.main_bytes)} held by {holder}")
    enough = "; with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True the free memory is enough"
    return ", ".join(texts) + (enough if refused.is_fragmented else "")


def _peak(trace: Trace) -> str:
    if trace.memory.empty:
        return f"{units.size(int(active_blocks(trace)['num_bytes'].sum()))} allocated"
    peak = memory_high(trace)
    row = -1 if pd.isna(peak["row"]) else int(peak["row"])
    line = place_of(trace, trace.memory["stack"].iloc[row]) if row >= 0 else "the start"
    on = f" on cuda:{peak['device']}" if len(devices_of(trace)) > 1 else ""
    since = ""
    if _began_late(trace, peak["device"]):
        since = " of the history" if row < 0 else " since the history began"
    return f"peak {units.size(peak['num_bytes'])} (allocated{on}){f' at {line}' if line else ''}{since}"


def _left_of(trace: Trace) -> str:
    """Return the word for what is left, and of what, where the end also has memory from before the history."""
    return "left of what was allocated since" if _began_late(trace, memory_high(trace)["device"]) else "left"


def _began_late(trace: Trace, device: Any) -> bool:
    """Whether the history of a snapshot in a file lacks allocations from before it, and perhaps a larger peak."""
    starts = (one.start("allocated_bytes") for one in replays(trace) if one.device == device)
    return trace.info.source.startswith("file:") and any(start > 0 for start in starts)


def _left(trace: Trace) -> str:
    """Return the memory that the recorded code left (without a history: all allocated memory), and its holders."""
    blocks = active_blocks(trace)
    if not trace.memory.empty:
        blocks = blocks[blocks["alloc"].notna().to_numpy()]
        if blocks.empty:
            return "all recorded allocations are freed"
    waits = (blocks["state"] == "active_pending_free").to_numpy()
    held, pending = blocks[~waits], int(blocks["num_bytes"][waits].sum())
    amount = "" if trace.memory.empty else f"{units.size(int(held['num_bytes'].sum()))} {_left_of(trace)}"
    words = _held(held) if held["num_tensors"].notna().any() else ""
    left = ": ".join(part for part in (amount, words) if part)
    waiting = f"{units.size(pending)} freed that wait for a stream" if pending else ""
    return "; ".join(part for part in (left, waiting) if part)


def _kept(trace: Trace) -> str:
    """Return the container that keeps the autograd graphs of most memory, and what to do; "" for none."""
    found = next(iter(kept_graphs(trace)), None)
    if found is None:
        return ""
    return (
        f"autograd graphs of {units.count(found.num_graphs)} results ({units.size(found.num_bytes)}) kept by "
        f"{holder_words(found.container)}: store loss.detach() or loss.item() if no backward pass follows"
    )


def _held(blocks: pd.DataFrame) -> str:
    """Return the holders of the rows `blocks`."""
    kinds = [None if pd.isna(kind) else str(kind) for kind in blocks["category"]]
    return held_words(holders(names_in(blocks["names"]), blocks["num_bytes"].tolist()), kinds)


def held_words(found: Sequence[Holder], kinds: Sequence[str | None]) -> str:
    """``24 tensors held by `history`, 2 by `model`, 1 workspace block``.

    Args:
        found: The holders, most bytes first.
        kinds: Category of each block, None if unknown.
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
    """Return a variable as text for a sentence."""
    if not isinstance(name, str):
        return "no variable"
    for begin, words in _OF_EXCEPTION.items():
        if name.startswith(begin):
            rest = name.removeprefix(begin).lstrip(".")
            return f"{words}{f' (`{units.shorten(rest, _MAX_NAME)}`)' if rest else ''}"
    return f"`{units.shorten(name, _MAX_NAME)}`"


def _fragmented(trace: Trace) -> str:
    """The fragmentation where it matters: an allocation failed, or more is wasted than a few new segments have free."""
    if last_refusal(trace) is not None:
        return ""  # the line about it has the memory at that moment; the end is after the exception released much
    found = memory_at_end(trace)
    share = found["fragmentation_pct"].max()
    wasted = int((found["internal_bytes"] + found["external_bytes"]).max()) if len(found) else 0
    if pd.isna(share) or not (has_refused(trace) or (wasted >= _WASTED_BYTES and share >= _WASTED_PCT)):
        return ""
    return f"fragmentation {units.percent(float(share))}"


def leaks_text(trace: Trace) -> str:
    """Return the memory that each cell left, most bytes first; "" if no cell is known."""
    blocks = active_blocks(trace)
    blocks = blocks[blocks["cell"].notna().to_numpy()]
    totals = blocks.groupby("cell", observed=True, sort=False)["num_bytes"].sum()
    lines = [
        f"{cell} left {units.size(int(total))}: {_held(blocks[(blocks['cell'] == cell).to_numpy()])}"
        for cell, total in totals.sort_values(ascending=False, kind="stable").items()
    ]
    more = [f"and {units.plural(len(lines) - _MAX_CELLS, 'cell')} more"] if len(lines) > _MAX_CELLS else []
    return "\n".join([*lines[:_MAX_CELLS], *more])


def left_text(
    cell: str, sizes: Sequence[int], names: Sequence[Iterable[str]], kinds: Sequence[str | None], freed_bytes: int
) -> str:
    """Return the memory that one cell left, in one line.

    Args:
        cell: The cell, as In[7].
        sizes: Size of each block that it left, shape (k,).
        names: Names of each, shape (k,).
        kinds: Category of each, None if unknown; shape (k,).
        freed_bytes: Memory of earlier cells that it freed.
    """
    freed = f"; it freed {units.size(freed_bytes)} of earlier ones" if freed_bytes else ""
    if not sizes:
        return f"{cell} left nothing{freed}"
    return f"{cell} left {units.size(sum(sizes))}: {held_words(holders(list(names), list(sizes)), kinds)}{freed}"


NATIVE: Final = "native code"
_LIBRARIES: Final = ("site-packages", "dist-packages", "/lib/python", "/torch/", "<frozen")
_CELL: Final = "In["
#: A line as `cudalens.analysis.memory.holders.stack_texts` writes it. Names of C++ functions may contain spaces.
_LINE: Final = re.compile(r"(.+?):(\d+) (.*)")


class StackFrame(NamedTuple):
    """One stack frame; its function may be unknown."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """``train.py:12``."""
        return f"{self.file.replace(chr(92), '/').rpartition('/')[2]}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place} {self.function}".strip()


def own_frame(frames: Iterable[StackFrame]) -> StackFrame | None:
    """The innermost of `frames` (innermost first) in a notebook cell, else in the program, else in any Python file."""
    python = [one for one in frames if one.file.endswith(".py") or one.file.startswith((_CELL, "<"))]
    own = [one for one in python if not any(part in one.file.replace("\\", "/") for part in _LIBRARIES)]
    cells = [one for one in own if one.file.startswith(_CELL)]
    return next(iter(cells or own or python), None)


def label_of_text(stack: str) -> str:
    """``train.py:12 main`` for a stack as text, a line per stack frame; "native code" if no stack frame is Python."""
    found = own_frame(StackFrame(m[1], int(m[2]), m[3]) for line in stack.split("\n") if (m := _LINE.match(line)))
    return NATIVE if found is None else str(found)


def frames_of(trace: Trace, wanted: Sequence[int]) -> dict[int, StackFrame | None]:
    """Return the line of the program in each of the stacks `wanted`, by number; None if no stack frame is Python."""
    entries = trace.stacks[trace.stacks["stack"].isin(wanted).to_numpy()].dropna(subset=["file", "line"])
    frames: dict[int, list[StackFrame]] = {number: [] for number in wanted}
    columns = (entries[name].astype(object) for name in ("stack", "file", "line", "function"))
    for number, file, line, function in zip(*columns, strict=True):
        frames[int(number)].append(StackFrame(str(file), int(line), "" if pd.isna(function) else str(function)))
    return {number: own_frame(found) for number, found in frames.items()}


def place_of(trace: Trace, stack: Any) -> str:
    """Return the line of the program in a call stack, as ``In[4]:12``; "" if there is none."""
    found = None if pd.isna(stack) else frames_of(trace, [int(stack)])[int(stack)]
    return "" if found is None else found.place
