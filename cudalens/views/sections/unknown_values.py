"""Notes on what a program without values did: lines that read a number in place of a value, files not written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cudalens.analysis import units

#: What programs read for unknown values in `cudalens.fit`, `cudalens.plan` and `cudalens.virtual.job`.
DEFAULT: Final = 0.0

_MOST_LINES: Final = 3

#: Place (``train.py:12``) and text of a line.
Line = tuple[str, str]


@dataclass(frozen=True)
class UnknownValues:
    """What a program did with values that were not computed.

    Attributes:
        default: The number that it read.
        read_at: The lines that read it.
        unwritten: By path, the line that would have written a file.
    """

    default: float = DEFAULT
    read_at: list[Line] = field(default_factory=list)
    unwritten: Mapping[str, Line] = field(default_factory=dict)

    def merge(self, other: UnknownValues) -> UnknownValues:
        """Return both: what a program did in several runs with the same default."""
        lines = dict.fromkeys((*self.read_at, *other.read_at))
        return UnknownValues(self.default, list(lines), {**self.unwritten, **other.unwritten})

    def notes(self) -> list[str]:
        """Return a note on the lines that read values, and one on the files; empty for none."""
        found = []
        if self.read_at:
            found.append(
                f"No values are computed: {_list_lines(self.read_at)} got {self.default:g}. If the program takes "
                "another branch on a real GPU, give the value before that line: cudalens.virtual.assume(tensor, value)."
            )
        if self.unwritten:
            number = len(self.unwritten)
            what = "1 file is" if number == 1 else f"{units.count(number)} files are"
            found.append(
                f"{what} not written, because values in it are not computed: {_list_lines(self.unwritten.values())}."
            )
        return found


def _list_lines(lines: Iterable[Line]) -> str:
    texts = [
        f"{units.short_place(place)} ({text})" if text else units.short_place(place)
        for place, text in dict.fromkeys(lines)
    ]
    shown = ", ".join(texts[:_MOST_LINES])
    more = len(texts) - _MOST_LINES
    return f"{shown} and {units.plural(more, 'other line')}" if more > 0 else shown
