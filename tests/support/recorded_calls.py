"""Operator calls of recorded traces as calls on meta tensors of the same shapes, with the times of their kernels."""

import ast
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch

DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::BFloat16": torch.bfloat16,
    "c10::Half": torch.float16,
    "long": torch.int64,
    "long int": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
    "unsigned char": torch.uint8,
}


@dataclass
class Call:
    """A call that launched kernels.

    Attributes:
        func: The operator overload.
        args: The positional arguments, tensors on the meta device.
        kwargs: The keyword arguments.
        out: The result on the meta device.
        kernel_us: Recorded time of its kernels.
    """

    func: Any
    args: list[Any]
    kwargs: dict[str, Any]
    out: Any
    kernel_us: float


def recorded_calls(path):
    """The calls of a Chrome trace whose arguments can be rebuilt, and the time of all kernels in us."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        content = json.load(file)
    events = [event for event in content["traceEvents"] if event.get("ph") == "X"]
    kernels = defaultdict(float)
    for event in events:
        if event.get("cat") == "kernel":
            kernels[event["args"].get("External id")] += event["dur"]
    launchers = [event for event in events if event.get("cat") == "cpu_op" and kernels.get(external_id(event))]
    calls = [call for event in launchers if (call := rebuilt(event, kernels[external_id(event)])) is not None]
    return calls, sum(kernels.values())


def external_id(event):
    return event["args"].get("External id")


def rebuilt(event, kernel_us):
    """The first overload that takes the recorded arguments; None if there is none."""
    namespace, _, name = event["name"].partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
        func = getattr(packet, overload)
        try:
            args, kwargs = arguments(func, event["args"])
            return Call(func, args, kwargs, func(*args, **kwargs), kernel_us)
        except (TypeError, ValueError, RuntimeError, NotImplementedError, IndexError):
            continue
    return None


def arguments(func, recorded):
    """The arguments of a call.

    Raises:
        ValueError: The overload has other parameters than the call.
    """
    dims, types = recorded.get("Input Dims", []), recorded.get("Input type", [])
    values, strides = recorded.get("Concrete Inputs", []), recorded.get("Input Strides", [None] * len(dims))
    parameters = func._schema.arguments
    if len(dims) > len(parameters):
        raise ValueError(f"{func}: {len(dims)} arguments")
    args, kwargs = [], {}
    for parameter, *fields in zip(parameters, dims, types, values, strides, strict=False):
        value = argument(parameter, *fields)
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


def argument(parameter, dims, kind, value, strides):
    kind_expected = str(parameter.type)
    if "List[Tensor]" in kind_expected:
        if kind != "TensorList" and not isinstance(kind, list):
            raise ValueError(kind)
        return [tensor(shape, dtype) for shape, dtype in zip(dims, kind, strict=True)]
    if "Tensor" in kind_expected:
        if kind in DTYPES:
            return tensor(dims, kind, strides)
        if "Optional" in kind_expected and kind in ("", "None"):
            return None
        raise ValueError(kind)
    if kind in DTYPES and dims:
        raise ValueError(kind)
    found = literal(value)
    if "List[int]" in kind_expected and isinstance(found, int):
        return [found]
    return parameter.default_value if found is None and parameter.has_default_value() else found


def tensor(dims, kind, strides=None):
    if kind not in DTYPES:
        raise ValueError(kind)
    if strides and len(strides) == len(dims):
        return torch.empty_strided(dims, strides, dtype=DTYPES[kind], device="meta")
    return torch.empty(dims, dtype=DTYPES[kind], device="meta")


def literal(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
