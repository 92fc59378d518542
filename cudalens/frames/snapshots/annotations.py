"""The annotations of a snapshot: record_function scopes and the steps of optimizers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cudalens.frames.column_arrays import categorical
from cudalens.frames.snapshots.values import Validator, text

_LANE: Final = "annotations"


def annotation_columns(annotations: Any, end_ns: int | None, check: Validator) -> dict[str, Any]:
    """Raw columns for `build_events`, a row per range.

    torch records a START and an END of each; the innermost open range of a name and device ends first. A range without
    an END was open when the snapshot was taken and lasts until `end_ns`.

    Args:
        annotations: The snapshot's ``external_annotations``.
        end_ns: End of the history, or None.
        check: Of the snapshot.
    """
    if annotations is not None and not isinstance(annotations, list):
        check.problems.add("annotations that are not a list", "external_annotations")
        annotations = None
    spans, opened = _spans(annotations or [], check)
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


def _spans(annotations: list[Any], check: Validator) -> tuple[list[tuple[int, int, str]], dict[Any, list[int]]]:
    spans: list[tuple[int, int, str]] = []
    opened: dict[Any, list[int]] = {}
    for i, entry in enumerate(annotations):
        fields = entry if isinstance(entry, dict) else {}
        stage, name, time_us, device = (fields.get(key) for key in ("stage", "name", "time_us", "device"))
        time_ns = time_us * 1000 if type(time_us) is int and 0 <= time_us < 1 << 53 else -1
        if type(name) is not str or time_ns < 0 or stage not in ("START", "END"):
            check.problems.add("annotation of another form", f"external_annotations[{i}]")
            continue
        begins = opened.setdefault((text(name), device if type(device) is int else None), [])
        if stage == "START":
            begins.append(time_ns)
        elif begins:
            begin = begins.pop()
            spans.append((begin, max(time_ns, begin), text(name)))
        else:
            check.problems.add("annotation that ends without a start", f"external_annotations[{i}]")
    return spans, opened
