"""Makes Chrome traces of other programs than `chrome_traces`, and large traces from a recorded one.

Three made-up programs: ``python`` (deep Python stacks, many arguments, flows and waits), ``kernels`` (many small
kernels on several streams with launch facts of their own) and ``operators`` (nested operators with shapes, the
allocator's instants and counters). ``recorded`` repeats a recorded trace, shifted in time and with fresh ids.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
PID, BASE_US = 4021, 5_310_220_115_000
HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85, "numSms": 108}],
    "with_stack": 1,
    "record_shapes": 1,
}
FILES = [f"site-packages/transformers/models/part{i % 7}/modeling_{i}.py" for i in range(60)]
CALLS = ["forward", "_call_impl", "__getattr__", "_wrapped_call_impl", "to", "decorate_context", "<lambda>", "step"]
FUNCTIONS = [f"{file}({hash_ * 31 % 900}): {call}" for hash_, file in enumerate(FILES) for call in CALLS]
OPS = ["linear", "matmul", "addmm", "_to_copy", "copy_", "native_layer_norm", "gelu", "empty", "view", "transpose"]
TYPES = ["float", "c10::BFloat16", "c10::Half", "long int"]


def _event(ph: str, cat: str, name: str, tid: int | str, ns: int, **more: Any) -> Event:
    return {"ph": ph, "cat": cat, "name": name, "pid": more.pop("pid", PID), "tid": tid, "ts": ns / 1000} | more


def _range(cat: str, name: str, tid: int | str, ns: int, dur: int, args: Event, **more: Any) -> Event:
    return _event("X", cat, name, tid, ns, dur=dur / 1000, args=args, **more)


def _op(rng: random.Random, ns: int, dur: int, number: int, tid: int = PID) -> Event:
    shape = [rng.choice((1, 8, 16)), rng.randrange(1, 4096), rng.choice((512, 768, 1024))]
    args = {
        "External id": number,
        "Record function id": 0,
        "Sequence number": number // 3,
        "Fwd thread id": 0,
        "Concrete Inputs": ["", "", str(shape[0]), "False", "None"],
        "Input type": [rng.choice(TYPES), rng.choice(TYPES), "Scalar", "", ""],
        "Input Strides": [[shape[1] * shape[2], shape[2], 1], [1, shape[2]], [], [], []],
        "Input Dims": [shape, [shape[2], shape[2]], [], [], []],
        "Ev Idx": number,
    }
    return _range("cpu_op", f"aten::{rng.choice(OPS)}", tid, ns, dur, args)


def _launch(rng: random.Random, ns: int, number: int, stream: int, name: str) -> Iterator[Event]:
    dur = rng.randrange(900, 9_000)
    start = ns + rng.randrange(4_000, 90_000)
    yield _range("cuda_runtime", "cudaLaunchKernel", PID, ns, 3_100, {"cbid": 211, "correlation": number})
    yield _event("s", "ac2g", "ac2g", PID, ns, id=number)
    grid = [rng.randrange(1, 4096), rng.choice((1, 2, 8)), 1]
    args = {
        "External id": number,
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": stream,
        "correlation": number,
        "registers per thread": rng.randrange(16, 255),
        "shared memory": rng.choice((0, 1024, 49152)),
        "blocks per SM": grid[0] * grid[1] / 108,
        "warps per SM": grid[0] * grid[1] * 4 / 108,
        "grid": grid,
        "block": [128, 1, 1],
        "est. achieved occupancy %": min(100, grid[0] // 8),
    }
    yield _range("kernel", name, stream, start, dur, args, pid=0)
    yield _event("f", "ac2g", "ac2g", stream, start, id=number, pid=0, bp="e")


def _kernel_names(rng: random.Random, count: int) -> list[str]:
    shapes = "void cutlass::Kernel2<cutlass_80_tensorop_{t}_s16816gemm_{t}_{m}x{n}_32x{k}_tn_align8>(Params)"
    sizes = (32, 64, 128, 256)
    return [
        shapes.format(t=rng.choice(("f16", "bf16")), m=rng.choice(sizes), n=rng.choice(sizes), k=i)
        for i in range(count)
    ]


def python_program(rng: random.Random) -> Iterator[Event]:
    """Sixteen nested Python calls around three operators, a launch, and a wait for every eighth."""
    names, now, number = _kernel_names(rng, 40), BASE_US * 1000, 0
    while True:
        number += 1
        for depth in range(16):
            name = rng.choice(FUNCTIONS)
            if depth == 15:  # Kineto writes the addresses of objects
                name = f"<built-in method {rng.choice(OPS)} of Tensor object at 0x7f{rng.getrandbits(36):09x}0>"
            ids = {"Python id": number * 16 + depth, "Python parent id": number * 16 + depth - 1}
            args = ids | ({"Python module id": depth} if depth % 3 == 0 else {}) | {"Ev Idx": number * 20 + depth}
            yield _range("python_function", name, PID, now + depth * 700, 400_000 - depth * 3_000, args)
        for k in range(3):
            yield _op(rng, now + 20_000 + k * 2_000, 200_000 - 40_000 * k, number * 3 + k)
        yield from _launch(rng, now + 40_000, number, 7, rng.choice(names))
        if number % 8 == 0:
            args = {"cbid": 131, "correlation": number + (1 << 30)}
            yield _range("cuda_runtime", "cudaStreamSynchronize", PID, now + 60_000, 70_000, args)
        now += 410_000


def kernels_program(rng: random.Random) -> Iterator[Event]:
    """An operator and four launches at a time, on three streams."""
    names, now, number = _kernel_names(rng, 900), BASE_US * 1000, 0
    while True:
        yield _op(rng, now, 60_000, number)
        for k in range(4):
            number += 1
            yield from _launch(rng, now + 2_000 + k * 9_000, number, rng.choice((7, 13, 20)), rng.choice(names))
        now += 70_000


def operators_program(rng: random.Random) -> Iterator[Event]:
    """Five nested operators on two threads, an instant of the allocator and a counter."""
    now, number, total = BASE_US * 1000, 0, 1 << 30
    while True:
        tid = PID + (number // 1000 % 2)
        for depth in range(5):
            number += 1
            yield _op(rng, now + depth * 1_100, 90_000 - depth * 9_000, number, tid)
        size = rng.choice((512, 2048, 1 << 20)) * rng.choice((1, -1))
        total += size
        args = {"Device Type": 1, "Device Id": 0, "Addr": 140_000_000_000 + number * 512, "Bytes": size}
        args |= {"Total Allocated": total, "Total Reserved": total * 2}
        yield _event("i", "cpu_instant_event", "[memory]", tid, now + 6_000, s="t", args=args)
        yield _event("C", "counter", "GPU 0 Utilization", 0, now + 6_500, args={"busy": rng.randrange(100)})
        now += 95_000


PROGRAMS: dict[str, Callable[[random.Random], Iterator[Event]]] = {
    "python": python_program,
    "kernels": kernels_program,
    "operators": operators_program,
}


def _write(path: Path, head: Event, events: Iterator[Event], enough: Callable[[int, int], bool]) -> int:
    """Write `events` until `enough(number, bytes)`; returns their number."""
    number = size = 0
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for event in events:
            text = json.dumps(event)
            file.write(text if not number else ",\n" + text)
            number, size = number + 1, size + len(text) + 2
            if enough(number, size):
                break
        file.write("\n]}\n")
    return number


def write_program(path: Path, program: str, num_events: int, seed: int = 0) -> int:
    """Write `num_events` entries of `program` to `path`."""
    return _write(path, HEAD, PROGRAMS[program](random.Random(seed)), lambda number, _: number >= num_events)


def write_recorded(path: Path, recorded: Path, num_bytes: int) -> int:
    """Repeat the trace `recorded`, shifted, until `path` has `num_bytes`; returns the number of entries."""
    opener = gzip.open if recorded.suffix == ".gz" else open
    with opener(recorded, "rb") as file:
        trace = json.loads(file.read())
    events = trace.pop("traceEvents")
    return _write(path, trace, _repeated(events), lambda _, size: size >= num_bytes)


def _repeated(events: list[Event]) -> Iterator[Event]:
    times = [float(event["ts"]) for event in events if event.get("ph") == "X"]
    span, round_ = max(times) - min(times) + 1e6, 0
    while True:
        for event in events:
            yield _shifted(event, round_ * span, round_ * 100_000_000) if round_ else event
        round_ += 1


def _shifted(event: Event, us: float, number: int) -> Event:
    if event.get("ph") == "M":
        return event
    ids = {k: v + number for k, v in event.get("args", {}).items() if k in _IDS and isinstance(v, int)}
    moved = event | {"ts": round(float(event["ts"]) + us, 3)} | ({"args": event["args"] | ids} if ids else {})
    return moved | ({"id": event["id"] + number} if isinstance(event.get("id"), int) else {})


_IDS = frozenset({"correlation", "External id", "external id", "Python id", "Python parent id", "Ev Idx"})


if __name__ == "__main__":
    write_program(Path(sys.argv[2]), sys.argv[1], int(sys.argv[3]))
