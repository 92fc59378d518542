"""A minimal host for the caching allocator, and helpers that create allocators on it."""

from __future__ import annotations

from cudalens.virtual.allocator import CachingAllocator, parse_conf

MIB = 1 << 20
GIB = 1 << 30


class FakeHost:
    """A host whose streams complete their events when the test says so; logs calls to the device."""

    def __init__(self):
        self.clock_us = 0
        self.capturing = False
        self.passed = {}  # stream -> number of completed events
        self.recorded = {}  # stream -> number of recorded events
        self.log = []

    def fence(self, stream):
        self.recorded[stream] = self.recorded.get(stream, 0) + 1
        return FakeFence(self, stream, self.recorded[stream])

    def finish(self, stream, num_events=None):
        self.passed[stream] = self.recorded.get(stream, 0) if num_events is None else num_events

    def now_us(self):
        self.clock_us += 1
        return self.clock_us

    def is_capturing(self):
        return self.capturing

    def on_segment(self, action, address, num_bytes):
        self.log.append((action, address, num_bytes))
        if action == "segment_free":
            for stream in self.recorded:
                self.finish(stream)

    def segments(self, action):
        return [entry[2] for entry in self.log if entry[0] == action]


class FakeFence:
    def __init__(self, host, stream, number):
        self.host, self.stream, self.number = host, stream, number

    def is_done(self):
        return self.host.passed.get(self.stream, 0) >= self.number

    def wait(self):
        self.host.log.append(("wait", self.stream))
        self.host.passed[self.stream] = max(self.number, self.host.passed.get(self.stream, 0))


class OutOfMemory(Exception):  # noqa: N818 - named as torch names it
    """In the place of torch.OutOfMemoryError."""


def make(total=GIB, conf="", host=None, **options):
    """(allocator, host) with a device of that many bytes."""
    host = host or FakeHost()
    allocator = CachingAllocator(0, total, host, conf=parse_conf(conf), out_of_memory=OutOfMemory, **options)
    return allocator, host


def current(allocator, name, kind="all"):
    return allocator.stats()[name][kind]["current"]


def actions(allocator, *kinds):
    """The history's actions as (action, address, size), of these kinds or of all."""
    trace = allocator.snapshot()["trace"]
    return [(e["action"], e.get("addr"), e["size"]) for e in trace if not kinds or e["action"] in kinds]
