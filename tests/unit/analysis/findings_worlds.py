"""Runs to find something in: a host that launches on a stream, in the words of what goes wrong."""

import numpy as np
import pandas as pd

from cudalens.frames import DeviceInfo, RunInfo, Trace, build_events, categorical
from cudalens.frames.syncs import LiveProgram, build_syncs

US, MS = 1_000, 1_000_000
V100, A100 = ("7.0", 80), ("8.0", 108)


class World:
    """A thread that calls, and streams that work in order. Times in ns from 0."""

    def __init__(self, capability=A100):
        self.rows, self.now, self.free, self.number = [], 0, {}, 0
        self.capability = capability

    def host(self, name, cat, start, dur, tid=1, **more):
        self.rows.append(
            {"name": name, "cat": cat, "ts": start, "dur": dur, "pid": 100, "tid": tid} | more,
        )
        return self

    def sleep(self, ns):
        self.now += ns
        return self

    def op(self, name, ns, **more):
        self.host(name, "cpu_op", self.now, ns, **more)
        return self

    def device(
        self, name, dur, *, cat="kernel", stream=7, call="cudaLaunchKernel", call_ns=2 * US, waits=False, **more
    ):
        """A call of the host, and the work that starts 5 µs after it began, or when the stream is free."""
        self.number += 1
        start = max(self.now + 5 * US, self.free.get(stream, 0))
        self.free[stream] = start + dur
        end = max(self.now + call_ns, start + dur if waits else 0)
        self.host(call, "cuda_runtime", self.now, end - self.now, correlation_id=self.number)
        self.rows.append(
            {"name": name, "cat": cat, "ts": start, "dur": dur, "device": 0, "stream": stream}
            | {"correlation_id": self.number}
            | more
        )
        self.now = end
        return self

    def kernels(self, number, dur, every=0, name="kernel_{}", **more):
        for k in range(number):
            self.device(name.format(k), dur, **more).sleep(every)
        return self

    def wait(self, call="cudaStreamSynchronize", op=None):
        end = max(self.now + US, max(self.free.values(), default=0) + US)
        if op:
            self.host(op, "cpu_op", self.now, end - self.now + US)
        self.host(call, "cuda_runtime", self.now + 100, end - self.now - 100)
        self.now = end + 2 * US
        return self

    def within(self, name, act, cat="user_annotation", **more):
        begin = self.now
        act(self)
        return self.host(name, cat, begin, self.now - begin, **more)

    def trace(self, **info):
        frame = pd.DataFrame(self.rows)
        columns = {name: frame[name].to_numpy(np.int64) for name in ("ts", "dur")}
        for name in ("name", "cat", "shapes", "dtypes", "concrete_inputs", "grid"):
            if name in frame:
                values = frame[name].where(frame[name].notna(), None).to_numpy(object)
                codes, texts = pd.factorize(values)
                columns[name] = categorical(codes, [str(text) for text in texts])
        for name in ("pid", "tid", "stream", "correlation_id", "num_bytes"):
            columns[name] = pd.array(frame.get(name, [None] * len(frame)), dtype="Int64")
        columns["device"] = pd.array(frame.get("device", [None] * len(frame)), dtype="Int32")
        if "blocks_per_sm" in frame:
            columns["blocks_per_sm"] = pd.array(frame["blocks_per_sm"], dtype="Float32")
        if "is_instant" in frame:
            columns["is_instant"] = frame["is_instant"].eq(True).to_numpy()
        events = build_events(columns)
        device = DeviceInfo(0, "a GPU", self.capability[0], 40 << 30, self.capability[1])
        known = RunInfo(**({"name": "run", "source": "cuda", "devices": (device,)} | info))
        found = build_syncs({"events": events}, LiveProgram())
        return Trace(known, events=events, **found)
