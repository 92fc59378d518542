"""The view of `cudalens.fit`: whether a program fits, by device; what its memory holds; what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.views.sections.model import Block, Column, Note, Row, Section, Table, Text

_CSS: Final = "cf"
_NAME: Final = "fit"
_MOST_LINES: Final = 3
_CATEGORIES: Final = ("parameters", "gradients", "optimizer", "activations", "temporary", "cache", "context")


def section(
    devices: pd.DataFrame, changes: pd.DataFrame, read_at: Sequence[tuple[str, str]], default: float
) -> Section:
    """Return the answer, a table of the devices, one of the memory at the peak, one of the changes.

    Args:
        devices: As `Fit.devices`.
        changes: As `Fit.changes`.
        read_at: Places and texts of the lines that read a value that is not known.
        default: What they read.
    """
    rows = devices.to_dict("records")
    blocks: list[Block] = [_answers(rows), _memory(rows)]
    if len(changes):
        blocks.append(_changes(changes.to_dict("records")))
    if read_at:
        # Which lines read values that were not computed, and what they got.
        lines = [
            f"{units.short_place(place)} ({text})" if text else units.short_place(place) for place, text in read_at
        ]
        shown = ", ".join(lines[:_MOST_LINES])
        more = f" and {units.plural(len(lines) - _MOST_LINES, 'other line')}" if len(lines) > _MOST_LINES else ""
        blocks.append(
            Note(
                f"No values are computed: {shown}{more} got {default:g}. If the program takes another branch on a "
                "real GPU, give the value before that line: cudalens.virtual.assume(tensor, value)."
            )
        )
    blocks += [Note(stop) for stop in dict.fromkeys(_stop(row) for row in rows if row["stopped_by"])]
    blocks.append(
        Note("Simulated: no GPU was used. Times are predicted; their error is that of the kernels' families.")
    )
    return Section(_NAME, _CSS, verdict=verdict(devices, changes), badge="simulated", blocks=tuple(blocks))


def verdict(devices: pd.DataFrame, changes: pd.DataFrame) -> str:
    """Return the answer in one line: where it fits, the largest batch, and what would make it fit elsewhere."""
    rows = devices.to_dict("records")
    takes_batch = not bool(devices["largest_batch"].isna().all())
    what = f"A batch of {units.count(int(rows[0]['batch']))}" if takes_batch else "The program"
    fitting = [row for row in rows if row["fits"]]
    if fitting:
        named = ", ".join(f"{row['device']}{_up_to(row)}" for row in fitting)
        answer = f"{what} fits on {len(fitting)} of {units.plural(len(rows), 'device')}: {named}."
    else:
        least = min(int(row["total_bytes"]) for row in rows)
        answer = f"{what} fits on none of these devices: it needs {units.size(least)}."
    helping = changes[changes["fits"].astype(bool)].drop_duplicates("device")
    return answer + "".join(f" On {row.device} it fits with: {row.change}." for row in helping.itertuples())


def _up_to(row: dict[Any, Any]) -> str:
    if pd.isna(row["largest_batch"]):
        return ""
    words = "at least up to" if row["stopped_by"] else "up to"
    return f" ({words} {units.count(int(row['largest_batch']))})"


def _stop(row: dict[Any, Any]) -> str:
    """Return why the search for the largest batch ended early."""
    reason = str(row["stopped_by"]).partition(", and this virtual device")[0]
    return (
        f"The search for the largest batch on {row['device']} ended early: with a larger batch, "
        f"{reason[:1].lower()}{reason[1:]}. cudalens.virtual.assume(tensor, value) before that line lets it go on."
    )


def _answers(rows: list[dict[Any, Any]]) -> Table:
    columns = (
        Column("device"),
        Column("fits"),
        Column("needs", key="number", align="right"),
        Column("has", key="number", align="right"),
        Column("largest batch", key="number", align="right"),
        Column("step", key="number", align="right"),
        Column("peak at", text_width=44, html_width=80),
    )
    return Table(columns, [Row(_answer(row)) for row in rows], more=("device", ".devices"), is_stacked=True)


def _answer(row: dict[Any, Any]) -> tuple[Any, ...]:
    largest = "-" if pd.isna(row["largest_batch"]) else units.count(int(row["largest_batch"]))
    largest += " or more" if row["stopped_by"] and largest != "-" else ""
    fits = Text("yes", "strong") if row["fits"] else "no"
    name = units.short_place(str(row["line"])) if row["line"] else "-"
    place = f"{name} {row['operator']}".strip()
    needs, has = units.size(row["total_bytes"]), units.size(row["capacity_bytes"])
    return (str(row["device"]), fits, needs, has, largest, step_text(row), Text(place, "code"))


def step_text(row: dict[Any, Any]) -> str:
    """Return the time of a step with its 80 % band: ``12.3 ms ± 9 %``, or ``8.1 to 19 ms`` for a wide band."""
    note = "" if row["is_calibrated"] else ", uncalibrated"
    low_ns, high_ns = row["step_low_ns"], row["step_high_ns"]
    if high_ns > 2 * low_ns:  # the middle of such a band says little
        return f"{units.duration(low_ns)} to {units.duration(high_ns)}{note}"
    error_pct = (high_ns / max(row["step_ns"], 1) - 1) * 100
    return f"{units.duration(row['step_ns'])} ± {error_pct:.0f} %{note}"


def _memory(rows: list[dict[Any, Any]]) -> Section:
    columns = (Column("device"), *(Column(name, key="number", align="right") for name in _CATEGORIES))
    cells = [(str(row["device"]), *(units.size(row[f"{name}_bytes"]) for name in _CATEGORIES)) for row in rows]
    table = Table(columns, [Row(cell) for cell in cells], more=("device", ".devices"), is_stacked=True)
    return Section("", _CSS, title="Memory at the peak", blocks=(table,))


def _changes(rows: list[dict[Any, Any]]) -> Section:
    columns = (
        Column("device"),
        Column("change", text_width=56, html_width=80),
        Column("saves", key="number", align="right"),
        Column("needs", key="number", align="right"),
        Column("fits"),
        Column("step", key="number", align="right"),
    )
    table = Table(columns, [Row(_change(row)) for row in rows], more=("change", ".changes"), max_text=24)
    return Section("", _CSS, title="What would make it fit", blocks=(table,))


def _change(row: dict[Any, Any]) -> tuple[Any, ...]:
    if row["error"]:
        error = units.shorten(str(row["error"]), 80)
        return (str(row["device"]), f"{row['change']}: {error}", "-", "-", "-", "-")
    saves = row["saves_bytes"]
    facts = (units.size(saves) if saves > 0 else "nothing", units.size(row["total_bytes"]))
    fits = Text("yes", "strong") if row["fits"] else "no"
    return (str(row["device"]), str(row["change"]), *facts, fits, units.duration(row["step_ns"]))
