"""Traces to look at: a small training run on one GPU, the same on the CPU alone, and one whose texts are hostile."""

import numpy as np
import pandas as pd

from cudalens.frames import DeviceInfo, Problem, RunInfo, Trace, build_events, build_memory, categorical

T0 = 1_700_000_000_000_000_000
HOSTILE = '</script><img src=x onerror="window.pwned=1">'
HOSTILE_STYLE = "\"'><style>*{display:none}</style><svg onload=window.pwned=1>&amp;\x00\x07"
LONG_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
)


class Rows:
    """Collects events in the words of a run: what a thread did, and what a stream did because of it."""

    def __init__(self):
        self.rows = []
        self.num_launched = 0

    def host(self, name, cat, start, dur, tid=1, correlation=None):
        self.rows.append((name, cat, start, dur, None, None, 100, tid, correlation))

    def device(self, name, cat, start, dur, stream=7, correlation=None):
        self.rows.append((name, cat, start, dur, 0, stream, None, None, correlation))

    def launch(self, name, at, start, dur, cat="kernel", stream=7):
        self.num_launched += 1
        self.host("cudaLaunchKernel", "cuda_runtime", at, 2_000, correlation=self.num_launched)
        self.device(name, cat, start, dur, stream, self.num_launched)

    def to_events(self):
        names, cats, ts, dur, device, stream, pid, tid, correlation = zip(*self.rows, strict=True)
        return build_events(
            {
                "name": _texts(names),
                "cat": _texts(cats),
                "ts": np.array(ts, np.int64) + T0,
                "dur": np.array(dur, np.int64),
                "device": pd.array(device, dtype="Int32"),
                "stream": pd.array(stream, dtype="Int64"),
                "pid": pd.array(pid, dtype="Int64"),
                "tid": pd.array(tid, dtype="Int64"),
                "correlation_id": pd.array(correlation, dtype="Int64"),
            }
        )


def _texts(values):
    codes, categories = pd.factorize(np.array(values, object))
    return categorical(codes, list(categories))


def gpu_trace(steps=3, *, mm="aten::mm", kernel="ampere_sgemm_128x64_tn", memory=True, **info):
    """Steps of two operators; `mm` calls itself once (averaging folds that) and launches `kernel`, then a copy runs."""
    rows = Rows()
    for step in range(steps):
        at = step * 1_000_000
        rows.host(f"ProfilerStep#{step}", "user_annotation", at, 900_000)
        rows.host(mm, "cpu_op", at + 10_000, 100_000 + 7_000 * step)
        rows.host(mm, "cpu_op", at + 20_000, 60_000)
        rows.launch(kernel, at + 30_000, at + 50_000, 400_000 + 1_000 * step)
        rows.host("aten::copy_", "cpu_op", at + 200_000, 50_000)
        rows.launch("Memcpy DtoH (Device -> Pageable)", at + 210_000, at + 460_000, 30_000, "gpu_memcpy", 13)
        rows.launch(LONG_KERNEL, at + 260_000, at + 500_000, 20_000)
    events = rows.to_events()
    return Trace(_info(**info), events=events, **({"memory": _memory(events, steps)} if memory else {}))


def gpu_bound_trace(kernel="ampere_sgemm_128x64_tn"):
    """Thirty kernels of 100 µs, which the host launches 2 µs apart."""
    rows = Rows()
    for number in range(30):
        rows.launch(kernel, number * 2_000, 5_000 + number * 100_000, 100_000)
    return Trace(_info(), events=rows.to_events())


def _info(**changes):
    return RunInfo(
        name="cell-3",
        source="cuda",
        started_ns=T0,
        ended_ns=T0 + 3_000_000,
        build_s=0.012,
        start_s=0.02,
        stop_s=0.03,
        versions={"torch": "2.13.0"},
        options={"memory": True},
        devices=(DeviceInfo(0, "NVIDIA H100", "9.0", 80 << 30, 132),),
    ).replace(**changes)


def _memory(events, num_steps):
    at = np.arange(2 * num_steps) * 500_000
    up = np.arange(2 * num_steps) % 2 == 0
    return build_memory(
        {
            "ts": at + T0,
            "action": _texts(np.where(up, "alloc", "free_completed")),
            "device_type": _texts(["cuda"] * len(at)),
            "device": pd.array([0] * len(at), dtype="Int32"),
            "num_bytes": np.full(len(at), 3 << 20),
            "allocated_bytes": pd.array(np.where(up, 4 << 20, 1 << 20), dtype="Int64"),
            "pid": pd.array([100] * len(at), dtype="Int64"),
            "tid": pd.array([1] * len(at), dtype="Int64"),
        },
        events,
    )


def cpu_trace(**info):
    """Operators of one thread, no device, no memory."""
    rows = Rows()
    rows.host("aten::linear", "cpu_op", 0, 1_000_000)
    rows.host("aten::addmm", "cpu_op", 100_000, 800_000)
    rows.host("aten::relu", "cpu_op", 1_200_000, 300_000)
    return Trace(
        RunInfo(name="cell-1", source="cpu", started_ns=T0, ended_ns=T0 + 2_000_000).replace(**info),
        events=rows.to_events(),
    )


def hostile_trace():
    """Every foreign text tries to become markup."""
    return gpu_trace(
        mm=HOSTILE,
        kernel=HOSTILE_STYLE,
        name=HOSTILE,
        status="raised",
        error=HOSTILE_STYLE,
        host=HOSTILE,
        code=f"print('{HOSTILE}')",
        devices=(DeviceInfo(0, HOSTILE_STYLE),),
        problems=(Problem(HOSTILE, 3, HOSTILE_STYLE),),
        versions={HOSTILE: HOSTILE_STYLE},
        options={HOSTILE: HOSTILE_STYLE},
    )


def wide_trace(num_events, seed=0):
    """`num_events` events on two threads and two streams, launched in pairs; names and times at random."""
    rng = np.random.default_rng(seed)
    pairs = num_events // 4
    cpu_dur = rng.integers(3_000, 60_000, pairs)
    start = np.cumsum(cpu_dur + rng.integers(500, 4_000, pairs)) - cpu_dur
    gpu_dur = np.minimum(rng.integers(2_000, 50_000, pairs), cpu_dur)
    size = [pairs] * 4
    names = (
        [f"aten::op_{k}" for k in range(200)] + [f"kernel_{k}<float, {k}>" for k in range(200)] + ["cudaLaunchKernel"]
    )
    code = rng.integers(0, 200, pairs)
    none = np.zeros(pairs, bool)
    cols = {
        "ts": np.concatenate([start, start + 500, start + 1_000, start + 3_000]) + T0,
        "dur": np.concatenate([cpu_dur, cpu_dur - 900, np.full(pairs, 1_500), gpu_dur]),
        "name": categorical(np.concatenate([code, (code + 1) % 200, np.full(pairs, 400), 200 + code]), names),
        "cat": categorical(np.repeat([0, 0, 1, 2], size), ["cpu_op", "cuda_runtime", "kernel"]),
        "device": _nullable(np.zeros(4 * pairs, np.int32), np.concatenate([~none, ~none, ~none, none])),
        "stream": _nullable(np.full(4 * pairs, 7), np.concatenate([~none, ~none, ~none, none])),
        "pid": _nullable(np.full(4 * pairs, 100), np.concatenate([none, none, none, ~none])),
        "tid": _nullable(np.full(4 * pairs, 1), np.concatenate([none, none, none, ~none])),
        "correlation_id": _nullable(np.tile(np.arange(pairs), 4), np.concatenate([~none, ~none, none, none])),
    }
    return Trace(_info(), events=build_events(cols))


def _nullable(values, mask):
    return pd.arrays.IntegerArray(values, mask)
