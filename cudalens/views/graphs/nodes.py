"""The nodes of a CUDA graph as a picture of its streams and a table: kernel, operator, module, line, time, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.graphs import GraphNodes
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import element
from cudalens.views.sections.model import Block, Column, Note, Picture, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown

_MAX_ROWS: Final = 200
_MAX_DRAWN: Final = 2_000
_WIDTH: Final = 720
_LANE: Final = 22
_COLUMNS: Final = (
    Column("node", align="right"),
    Column("path", text_width=4),
    Column("kernel", text_width=40, html_width=80),
    Column("operator", text_width=24),
    Column("module", text_width=24),
    Column("time", align="right"),
    Column("bytes", align="right"),
    Column("after", text_width=16),
    Column("at", "at", is_below=True),
)


class ShownNodes(Shown):
    """The nodes of a graph; prints as text, shows as a picture and a table.

    Attributes:
        nodes: What it shows.
    """

    def __init__(self, nodes: GraphNodes, badge: str = "") -> None:
        super().__init__(nodes_section(nodes, badge))
        self.nodes = nodes

    @property
    def frame(self) -> pd.DataFrame:
        """A row per node (`cudalens.analysis.graphs.GraphNodes`)."""
        return self.nodes.frame

    @property
    def longest_ns(self) -> int:
        """Sum of the times on the longest path."""
        return self.nodes.longest_ns


def nodes_section(nodes: GraphNodes, badge: str = "") -> Section:
    """Return the nodes of a graph as a section; `badge` says whose times these are."""
    rows = [{str(name): value for name, value in row.items()} for row in nodes.frame.to_dict("records")]
    listed = [_row(row) for row in rows[:_MAX_ROWS]]
    table = Table(_COLUMNS, listed, len(rows), 40, more=("node", ".frame"), key="nodes")
    blocks: list[Block] = [*_picture(rows), table]
    if nodes.is_by_time:
        blocks.append(
            Note("The path is estimated from the times: a Trace has no dependencies, operators and lines of nodes.")
        )
    inner = Section("graph-nodes", "cg", blocks=tuple(blocks))
    return Section("graphs", "cg", verdict=_verdict(nodes), badge=badge, blocks=(inner,))


def _verdict(nodes: GraphNodes) -> str:
    frame = nodes.frame
    total = units.duration(int(frame["dur_ns"].fillna(0).sum()))
    num_longest = int(frame["is_longest"].fillna(False).sum())
    longest = f"the longest path has {units.plural(num_longest, 'node')} and {units.duration(nodes.longest_ns)}"
    return f"{clean(nodes.name)}: {units.plural(len(frame), 'node')}, {total} of work; {longest}"


def _row(row: dict[str, Any]) -> Row:
    after = row["after"]
    place, source = _text(row["place"]), _text(row["source"])
    return Row(
        (
            str(row["node"]),
            "●" if row["is_longest"] else "",
            _text(row["kernel"]),
            _text(row["operator"]),
            _text(row["module"]),
            units.duration(row["dur_ns"]),
            "" if pd.isna(row["num_bytes"]) else units.size(row["num_bytes"]),
            ", ".join(map(str, after)) if isinstance(after, tuple) else "",
            (Text(place, "place"), Text(f" {source}", "code")) if place else "",
        )
    )


def _text(value: Any) -> str:
    """A text of the frame, cleaned; "" where it is missing."""
    return clean(value) if isinstance(value, str) else ""


def _picture(rows: list[dict[str, Any]]) -> Iterator[Picture]:
    """Yield the nodes as bars over time, a lane per stream; those on the longest path are filled."""
    drawn = [row for row in rows[:_MAX_DRAWN] if isinstance(row["kind"], str)]
    length = max((int(row["start_ns"] + row["dur_ns"]) for row in drawn), default=0)
    if not length:
        return
    lanes = {stream: n for n, stream in enumerate(dict.fromkeys(row["stream"] for row in drawn))}
    bars = []
    for row in drawn:
        kind = "is-longest" if row["is_longest"] else "is-other"
        bars.append(
            element(
                "rect",
                element("title", f"{clean(row['kernel'])}: {units.duration(row['dur_ns'])}"),
                class_=kind,
                x=f"{_WIDTH * int(row['start_ns']) / length:.1f}",
                y=lanes[row["stream"]] * _LANE + 3,
                width=f"{max(_WIDTH * int(row['dur_ns']) / length, 1):.1f}",
                height=_LANE - 6,
            )
        )
    title = element("title", f"{units.plural(len(drawn), 'node')} on {units.plural(len(lanes), 'stream')} over time")
    height = _LANE * len(lanes)
    size = {"viewBox": f"0 0 {_WIDTH} {height}", "width": "100%", "height": height, "preserveAspectRatio": "none"}
    yield Picture(element("svg", title, *bars, class_="cg-nodes", role="img", **size))
