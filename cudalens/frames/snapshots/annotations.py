"""The ranges that a snapshot tells of beside its history: record_function scopes and the steps of optimizers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cudalens.frames.build import categorical
from cudalens.frames.snapshots.values import Place, text

_LANE: Final = "annotations"


def annotation_columns(annotations: Any, end_ns: int | None, place: Place) -> dict[str, Any]:
    """Raw columns for `build_events`, a row per range.

    torch records a START and an END of each; the innermost open range of a name and device ends first. One without an
    END was open when the snapshot was taken and lasts until `end_ns`.

    Args:
        annotations: The snapshot's ``external_annotations``.
        end_ns: When the history ended, or None.
        place: Of the snapshot.
    """
    if annotations is not None and not isinstance(annotations, list):
        place.problems.add("annotations that are no list", "external_annotations")
        annotations = None
    spans, opened = _spans(annotations or [], place)
    for (name, _), begins in opened.items():
        spans += [(begin, max(end_ns or begin, begin), name) for begin in begins]
    names = {name: i for i, name in enumerate(dict.fromkeys(name for *_, name in spans))}
    begin, end = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    return {
        "ts": begin,
        "dur": end - begin,
        "name": categorical(np.array([names[name] for *_, name in spans], np.int64), list(names)),
        "cat": categorical(np.zeros(len(spans), np.int64), ["user_annotation"]),
        "thread": categorical(np.zeros(len(spans), np.int64), [_LANE]),
    }


def _spans(annotations: list[Any], place: Place) -> tuple[list[tuple[int, int, str]], dict[Any, list[int]]]:
    spans: list[tuple[int, int, str]] = []
    opened: dict[Any, list[int]] = {}
    for i, entry in enumerate(annotations):
        fields = entry if isinstance(entry, dict) else {}
        stage, name, time_us, device = (fields.get(key) for key in ("stage", "name", "time_us", "device"))
        if (
            type(name) is not str
            or type(time_us) is not int
            or not 0 <= time_us < 1 << 53
            or stage not in ("START", "END")
        ):
            place.problems.add("annotation of another form", f"external_annotations[{i}]")
            continue
        begins = opened.setdefault((text(name), device if type(device) is int else None), [])
        if stage == "START":
            begins.append(time_us * 1000)
        elif begins:
            begin = begins.pop()
            spans.append((begin, max(time_us * 1000, begin), text(name)))
        else:
            place.problems.add("annotation that ends without a start", f"external_annotations[{i}]")
    return spans, opened
