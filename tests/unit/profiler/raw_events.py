"""Raw profiler results as torch hands them over, any value of which can be damaged."""

from __future__ import annotations

import time
from types import SimpleNamespace

START_NS = time.time_ns() - 10**9

#: The values of an operator that ran on the host.
OPERATOR = {
    "name": "aten::mm",
    "activity_type": "cpu_op",
    "start_ns": START_NS,
    "duration_ns": 100,
    "device_type": "DeviceType.CPU",
    "device_index": 0,
    "device_resource_id": 4711,
    "start_thread_id": 1,
    "end_thread_id": 1,
    "fwd_thread_id": 0,
    "sequence_nr": -1,
    "correlation_id": 1,
    "linked_correlation_id": 0,
    "is_async": False,
    "is_hidden_event": False,
    "is_user_annotation": False,
    "is_python_function": False,
    "structured_input_shapes": [[2, 3], [3, 4]],
    "dtypes": ["float", "float"],
    "flops": 48,
    "nbytes": 0,
}
KERNEL = {"name": "gemm", "activity_type": "kernel", "device_type": "DeviceType.CUDA", "device_resource_id": 7}
ALLOCATION = {"name": "[memory]", "activity_type": "cpu_instant_event", "device_index": -1, "nbytes": 1024}
FUNCTION = {"activity_type": "python_function", "is_python_function": True, "correlation_id": 0}


class RawEvent:
    """One event; a getter whose value is an exception raises it."""

    def __init__(self, **values):
        self.values = OPERATOR | values

    def __repr__(self):
        return f"RawEvent({self.values})"


def _getter(name):
    def get(event):
        value = event.values[name]
        if isinstance(value, BaseException):
            raise value
        return value

    return get


for _name in OPERATOR:
    setattr(RawEvent, _name, _getter(_name))


def function(name, **values):
    """A row of a Python function; bytes that are not UTF-8 raise when they are read, as pybind11's do."""
    if isinstance(name, bytes):
        try:
            name = name.decode()
        except UnicodeDecodeError as error:
            name = error
    return RawEvent(**FUNCTION | {"name": name} | values)


def activity(kind, metadata, **values):
    """A row of Kineto's own list; `metadata` is the inside of a JSON object."""
    known = {"type": kind, "name": "", "correlation_id": 1, "timestamp": START_NS, "resource_id": 4711} | values
    return SimpleNamespace(
        **{name: (lambda value=value: value) for name, value in known.items()}, metadata_json=lambda: metadata
    )


class RawResult:
    """What the profiler hands over when it stops."""

    def __init__(self, events, activities=()):
        self._events, self._activities = list(events), list(activities)

    def events(self):
        return self._events

    def trace_activities(self):
        return self._activities
