"""Detect stream races in a sequence of records. Standard library and numpy only, no torch.

`records` are the input, `regions` the bytes of an access, `clocks` the happens-before relation, `accesses` the data of
an access, `cells`, `blocks` and `shadow` the recorded accesses, `races` the output; `detector` combines them.
"""

from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Access, Memory, Race, RaceKind
from cudalens.sanitizer.engine.records import (
    HOST,
    BlockRecordedOnStream,
    DeviceSynchronized,
    EventDeleted,
    EventFoundDone,
    EventRecorded,
    EventSynchronized,
    EventWaited,
    HostAccessed,
    MemoryAllocated,
    MemoryFreed,
    OperatorCaptured,
    OperatorLaunched,
    Place,
    Record,
    Region,
    StreamCreated,
    StreamFoundDone,
    StreamId,
    StreamSynchronized,
    TensorBytes,
)

__all__ = [
    "HOST",
    "Access",
    "BlockRecordedOnStream",
    "Detector",
    "DeviceSynchronized",
    "EventDeleted",
    "EventFoundDone",
    "EventRecorded",
    "EventSynchronized",
    "EventWaited",
    "HostAccessed",
    "Memory",
    "MemoryAllocated",
    "MemoryFreed",
    "OperatorCaptured",
    "OperatorLaunched",
    "Place",
    "Race",
    "RaceKind",
    "Record",
    "Region",
    "StreamCreated",
    "StreamFoundDone",
    "StreamId",
    "StreamSynchronized",
    "TensorBytes",
]
