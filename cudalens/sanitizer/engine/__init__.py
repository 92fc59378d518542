"""Detect stream races in a sequence of records. Standard library and numpy only, no torch.

`records` are the input, `regions` the bytes of an access, `clocks` the happens-before relation, `accesses` the data of
an access, `cells`, `blocks` and `shadow` the recorded accesses, `races` the output; `detector` combines them.
"""

from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Memory, Race, RaceKind, Touch
from cudalens.sanitizer.engine.records import (
    HOST,
    Access,
    Alloc,
    Captured,
    DeviceSync,
    EventDelete,
    EventQuery,
    EventRecord,
    EventSync,
    EventWait,
    Free,
    HostAccess,
    Launch,
    Place,
    Record,
    RecordStream,
    StreamCreate,
    StreamId,
    StreamQuery,
    StreamSync,
)
from cudalens.sanitizer.engine.regions import Region

__all__ = [
    "HOST",
    "Access",
    "Alloc",
    "Captured",
    "Detector",
    "DeviceSync",
    "EventDelete",
    "EventQuery",
    "EventRecord",
    "EventSync",
    "EventWait",
    "Free",
    "HostAccess",
    "Launch",
    "Memory",
    "Place",
    "Race",
    "RaceKind",
    "Record",
    "RecordStream",
    "Region",
    "StreamCreate",
    "StreamId",
    "StreamQuery",
    "StreamSync",
    "Touch",
]
