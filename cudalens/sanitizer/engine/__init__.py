"""The judge of stream races: typed records in, races out. Stdlib and numpy only, no torch.

`records` says what can happen, `regions` which bytes an access touches, `clocks` what happens before what, `accesses`
what is noted of an access, `cells`, `blocks` and `shadow` which accesses are still of interest, `races` what is found;
`detector` puts them together.
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
