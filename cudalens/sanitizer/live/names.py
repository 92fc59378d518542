"""Find the names of streams in the user's variables."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import torch

from cudalens.sanitizer.engine import StreamId


def names_of_streams(namespace: Mapping[str, object] | None = None) -> dict[StreamId, str]:
    """The name of the first variable that holds each stream.

    Args:
        namespace: The variables; by default the globals of ``__main__``, which are those of a notebook.
    """
    if namespace is None:
        namespace = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    found: dict[StreamId, str] = {}
    for name, value in list(namespace.items()):
        if isinstance(value, torch.cuda.Stream) and not name.startswith("_"):
            stream = _stream_of(value)
            if stream is not None and stream.stream:  # the default stream has a name of its own
                found.setdefault(stream, name)
    return found


def _stream_of(stream: torch.cuda.Stream) -> StreamId | None:
    try:
        return StreamId(int(stream.device_index), int(stream.cuda_stream))
    except RuntimeError:  # of a virtual device that has ended
        return None
