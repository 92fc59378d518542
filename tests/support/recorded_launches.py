"""Operator calls of recorded traces whose kernels name their launch only, and whether their kernels ran alone.

Such traces have no strides and no scalar arguments: tensors are taken as contiguous, scalars as in `_ASSUMED`. A
``copy_`` between tensors of one dtype is a kernel only if their strides differ, else a memcpy: its source is taken as
transposed.
"""

import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import torch
from recorded_calls import Call, rebuilt

#: Scalar arguments that have no default, by operator and position; from the recorded dimensions.
_ASSUMED = {
    "aten::sum": lambda dims: {1: "[0]"},
    "aten::clamp": lambda dims: {1: "0", 2: "1"},
    "aten::native_layer_norm": lambda dims: {1: str(dims[2]), 4: "1e-05"},
    "aten::native_layer_norm_backward": lambda dims: {2: str(dims[5]), 7: "[True, True, True]"},
}


class Launched(NamedTuple):
    """A call that launched kernels.

    Attributes:
        call: The call, with the time of its kernels.
        is_alone: Whether no kernel of another stream ran at the same time.
    """

    call: Call
    is_alone: bool


def recorded_launches(path):
    """The calls of a Chrome trace whose arguments can be rebuilt."""
    with gzip.open(path, "rt") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    launchers = _launchers(events)
    overlaps = _overlaps(kernels)
    launched = defaultdict(list)
    for kernel in kernels:
        operator = launchers(kernel["args"].get("correlation"))
        if operator is not None:
            launched[id(operator)].append((operator, kernel))
    for found in launched.values():
        call = rebuilt(_with_scalars(found[0][0]), sum(kernel["dur"] for _, kernel in found))
        if call is not None:
            yield Launched(call, all(overlaps(kernel) <= 0.02 * kernel["dur"] for _, kernel in found))


def _with_scalars(operator):
    """The event of an operator with the texts of its scalar arguments, and with strides of copies."""
    recorded = operator["args"]
    dims, types = recorded.get("Input Dims", []), recorded.get("Input type", [])
    assumed = _ASSUMED.get(operator["name"], lambda dims: {})(dims)
    strides = [None] * len(dims)
    if operator["name"] == "aten::copy_" and types[0] == types[1] and dims[0] == dims[1] and len(dims[0]) > 1:
        *outer, rows, columns = dims[1]
        strides[1] = list(torch.empty(*outer, columns, rows, device="meta").transpose(-1, -2).stride())
    values = [assumed.get(index, "") for index in range(len(dims))]
    return operator | {"args": recorded | {"Concrete Inputs": values, "Input Strides": strides}}


def _launchers(events):
    """A function from the correlation of a launch to the innermost operator around it."""
    operators = defaultdict(list)
    for event in events:
        if event.get("cat") == "cpu_op":
            operators[event["tid"]].append(event)
    for found in operators.values():
        found.sort(key=lambda event: (event["ts"], -event["dur"]))
    starts = {thread: [event["ts"] for event in found] for thread, found in operators.items()}
    launches = {event["args"].get("correlation"): event for event in events if event.get("cat") == "cuda_runtime"}

    def launcher(correlation):
        launch = launches.get(correlation)
        found = operators.get(launch["tid"], []) if launch else []
        last = bisect_right(starts[launch["tid"]], launch["ts"]) if found else 0
        near = reversed(found[max(last - 400, 0) : last])
        return next((event for event in near if event["ts"] + event["dur"] >= launch["ts"]), None)

    return launcher


def _overlaps(kernels):
    """A function from a kernel to the time in which kernels of other streams ran."""
    streams = defaultdict(list)
    for kernel in sorted(kernels, key=lambda event: event["ts"]):
        streams[kernel["args"]["stream"]].append((kernel["ts"], kernel["ts"] + kernel["dur"]))
    spans = {stream: np.array(found) for stream, found in streams.items()}

    def overlap(kernel):
        begin, end = kernel["ts"], kernel["ts"] + kernel["dur"]
        others = [found for stream, found in spans.items() if stream != kernel["args"]["stream"]]
        return sum((np.minimum(found[:, 1], end) - np.maximum(found[:, 0], begin)).clip(0).sum() for found in others)

    return overlap
