"""Read the counters of a Chrome trace (phase C) into the frame ``counters``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import pandas as pd

from cudalens.frames.counters import CounterValues
from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder, text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.categories import COUNTED
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.tracks import MARK
from cudalens.traces.chrome.values import MISSING, Ints

#: The name of the only value of a counter, as our writer and most others spell it.
_PLAIN: Final = "value"
_MAX_SERIES: Final = 1000
#: All of CUPTI's metrics have this in their names, and no other argument has.
_METRIC: Final = "__"


class Counters:
    """Collects the values of counters."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._values = CounterValues()
        self._text = lru_cache(1 << 12)(text_of)  # most counters repeat a few names

    def __len__(self) -> int:
        return len(self._values)

    def add(self, found: Sequence[tuple[Record, int]], where: str) -> None:
        """Keep the values of records of phase C, given with their times, ns."""
        kept = [(record, ts) for record, ts in found if record.cat != MARK]  # those repeat our other frames
        for (record, ts), args in zip(kept, self._decoded([record.args for record, _ in kept]), strict=True):
            if ts == MISSING:
                self._problems.add("counter without a usable ts", where)
            elif not isinstance(args, dict) or not args:
                self._problems.add("counter without a value", where)
            else:
                self._add_values(record, ts, args, where)

    def add_ranges(self, records: Sequence[Record], ts: Ints) -> None:
        """Keep CUPTI's counters among complete events, whose arguments they are; the series is a range or a kernel."""
        for record, at in zip(records, ts.tolist(), strict=True):
            args = _decoded(record.args) if record.cat == COUNTED else None
            for name, value in list(args.items())[:_MAX_SERIES] if isinstance(args, dict) else ():
                if _METRIC in name:
                    device = None if record.pid is None else text_of(record.pid)
                    self._values.add(at, text_of(name), value, series=text_of(record.name), process=device)

    def _decoded(self, raw: list[msgspec.Raw]) -> list[Any]:
        try:
            return decoder(list[Any]).decode(b"[" + b",".join(raw) + b"]")
        except SYNTAX_ERRORS:
            return [_decoded(one) for one in raw]

    def _add_values(self, record: Record, ts: int, args: dict[str, Any], where: str) -> None:
        name = self._text(record.name if record.id is None else f"{record.name} {text_of(record.id)}")
        process = None if record.pid is None else self._text(record.pid)
        if len(args) > _MAX_SERIES:
            self._problems.add(f"series of a counter beyond the first {_MAX_SERIES}", where, len(args) - _MAX_SERIES)
        for series, value in list(args.items())[:_MAX_SERIES]:
            label = None if series == _PLAIN and len(args) == 1 else self._text(series)
            if not self._values.add(ts, name, value, series=label, process=process):
                self._problems.add("counter with a value that is not a number", where)

    def to_frame(self, base: int) -> pd.DataFrame:
        """Return the frame; `base`, in ns, is added to the times."""
        return self._values.to_frame(base)


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return decoder(Any).decode(raw)
    except SYNTAX_ERRORS:
        return None
