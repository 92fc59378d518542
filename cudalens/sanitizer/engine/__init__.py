"""The judge of stream races: typed records in, races out. Stdlib and numpy only, no torch.

`records` says what can happen, `regions` which bytes an access touches, `clocks` what happens before what, `shadow`
which accesses are still of interest, `detector` puts them together.
"""

from cudalens.sanitizer.engine.detector import Detector
from cudalens.sanitizer.engine.races import Race, RaceKind
from cudalens.sanitizer.engine.records import (
    HOST,
    Access,
    Alloc,
    DeviceSync,
    EventDelete,
    EventQuery,
    EventRecord,
    EventSync,
    EventWait,
    Free,
    HostAccess,
    Launch,
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
    "Race",
    "RaceKind",
    "Record",
    "RecordStream",
    "Region",
    "StreamCreate",
    "StreamId",
    "StreamQuery",
    "StreamSync",
]
