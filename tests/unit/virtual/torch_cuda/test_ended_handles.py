"""Streams, events, graphs and pools that outlive their virtual device refuse with that reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device

ENDED = "belongs to a virtual CUDA device that has ended"


@pytest.fixture(scope="module")
def left() -> dict[str, Any]:
    """Objects of a device that has ended."""
    with device("h100"):
        objects: dict[str, Any] = {
            "stream": torch.cuda.Stream(),
            "current stream": torch.cuda.current_stream(),
            "torch.Stream": torch.Stream("cuda"),
            "event": torch.cuda.Event(),
            "torch.Event": torch.Event("cuda"),
            "graph": torch.cuda.CUDAGraph(),
            "pool": torch.cuda.MemPool(),
        }
        x = torch.ones(4, device="cuda")
        objects["event"].record()
        with torch.cuda.graph(objects["graph"]):
            x.mul(2)
    return objects


USES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "synchronize": ("stream", lambda stream: stream.synchronize()),
    "query": ("current stream", lambda stream: stream.query()),
    "wait_stream": ("stream", lambda stream: stream.wait_stream(stream)),
    "record_event": ("stream", lambda stream: stream.record_event()),
    "wait_event": ("torch.Stream", lambda stream: stream.wait_event(stream)),
    "torch.Stream": ("torch.Stream", lambda stream: stream.synchronize()),
    "event": ("event", lambda event: event.synchronize()),
    "elapsed": ("event", lambda event: event.elapsed_time(event)),
    "torch.Event": ("torch.Event", lambda event: event.synchronize()),
    "replay": ("graph", lambda graph: graph.replay()),
    "capture": ("graph", lambda graph: graph.capture_begin()),
    "reset": ("graph", lambda graph: graph.reset()),
    "pool": ("pool", lambda pool: pool.id),
    "use_count": ("pool", lambda pool: pool.use_count()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("now", [nullcontext, lambda: device("h100")], ids=["no device", "another device"])
def test_use_after_the_end_is_refused(
    left: dict[str, Any], use: str, now: Callable[[], AbstractContextManager[Any]]
) -> None:
    name, call = USES[use]
    if use == "wait_event":  # takes an event
        call = lambda stream: stream.wait_event(left["torch.Event"])  # noqa: E731
    with now(), pytest.raises(VirtualDeviceError, match=ENDED):
        call(left[name])


def test_an_ended_stream_is_not_taken_for_a_stream_of_the_next_device(left: dict[str, Any]) -> None:
    with device("h100"):
        for use in (torch.cuda.set_stream, torch.cuda.current_stream().wait_stream, torch.ones(1).cuda().record_stream):
            with pytest.raises(VirtualDeviceError, match=ENDED):
                use(left["stream"])
        with pytest.raises(VirtualDeviceError, match=ENDED), torch.cuda.stream(left["stream"]):
            pass


def test_ended_objects_keep_their_classes_and_texts(left: dict[str, Any]) -> None:
    assert isinstance(left["stream"], torch.cuda.Stream)
    assert isinstance(left["graph"], torch.cuda.CUDAGraph)
    assert "torch.cuda.Stream device=cuda:0" in repr(left["stream"])
    assert "torch.cuda.Event" in repr(left["event"])
    assert {left["stream"]: 1}[left["stream"]] == 1
