"""A brief as text, made from its dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from cudalens.analysis import units

_SURENESS: Final = {"high": "measured", "medium": "likely", "low": "possible"}
_WRITERS: Final[dict[str, Callable[[float], str]]] = {"ns": units.duration, "bytes": units.size}
_LEGEND: Final = (
    "[...]: Python that gives the number, after `from cudalens.analysis import *`; rows: of trace.events. "
    "Names in quotes are data of the trace."
)


def to_text(data: dict[str, Any]) -> str:
    """Return the lines of a brief."""
    return "\n".join(_lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    run = dict(data["run"])
    facts = ", ".join(f"{key} {value}" for key, value in run.items() if key != "name")
    yield f"Brief of '{run.get('name', '')}' ({facts})"
    yield f"Verdict: {data['verdict']}"
    if data["findings"]:
        yield "Findings (gain: an upper bound of what the advice saves):"
    for number, found in enumerate(data["findings"], 1):
        yield from _finding(number, found)
    if "findings" not in data["left_out"] and not data["findings"]:
        yield "Findings: none"
    if data["costs"]:
        yield "Largest costs (self time, share of all on its side):"
    yield from (_cost(number, cost) for number, cost in enumerate(data["costs"], 1))
    yield from _numbers("Numbers", data["numbers"])
    yield from _numbers("Memory", data["memory"])
    yield f"Trust: {data['trust']['verdict']}"
    yield from (f"- {one['severity']}, {one['rule']}: {one['what']}{_rows(one)}" for one in data["trust"]["findings"])
    if data["not_recorded"]:
        yield f"Not recorded: {'; '.join(data['not_recorded'])}"
    if data["left_out"]:
        yield f"Left out: {', '.join(f'{what} {number}' for what, number in data['left_out'].items())}"
    yield _LEGEND


def _finding(number: int, found: dict[str, Any]) -> Iterator[str]:
    gain = "no gain in time"
    if found["gain_ns"] is not None:
        share = f" ({found['share_pct']} %)" if "share_pct" in found else ""
        gain = f"gain up to {units.duration(found['gain_ns'])}{share}"
    place = f", at {found['place']}" if "place" in found else ""
    yield f"{number}. {found['title']}: {gain}, {_SURENESS[found['confidence']]}{place} [{found['expr']}]"
    if "what" in found:
        yield f"   {found['what'].removesuffix('.')}{_rows(found)}"
        yield f"   Try: {found['try']}"


def _cost(number: int, cost: dict[str, Any]) -> str:
    times = f"{units.duration(cost['self_ns'])} ({cost['share_pct']} %), {units.plural(cost['count'], 'call')}"
    return f"{number}. '{cost['name']}' ({cost['cat']}): {times}{_rows(cost)} [{cost['expr']}]"


def _rows(facts: dict[str, Any]) -> str:
    rows = facts.get("rows", [])
    return f"; rows {', '.join(map(str, rows))}" if rows else ""


def _numbers(title: str, facts: list[dict[str, Any]]) -> Iterator[str]:
    for number, one in enumerate(facts):
        value = _WRITERS.get(one.get("unit", ""), units.count)(one["value"])
        yield f"{'' if number else f'{title}: '}{one['what']} {value} [{one['expr']}]"
