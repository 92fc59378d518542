"""Makes Chrome traces of any size in Kineto's own layout, for the benchmarks: no profiler and no GPU needed.

One "operator" of the made-up program is eight events: two Python functions, an operator with a nested one (both with
shapes, types and strides), a launch, the two ends of its flow, and a kernel with its launch facts. Every fiftieth
operator is a copy and every thousandth begins a profiler step. Names, shapes and times vary as in a real run.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

PID, BASE_NS = 25286, 1711964646000000000
OPS = (
    "linear",
    "addmm",
    "layer_norm",
    "gelu",
    "softmax",
    "bmm",
    "add_",
    "mul",
    "copy_",
    "embedding",
    "dropout",
    "view",
)
HEAD = """
{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072,
      "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "numSms": 132
    }
  ],
  "cuda_runtime_version": 12080,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
  "traceEvents": [
  {
    "name": "process_name", "ph": "M", "ts": 4458676426133.574, "pid": 25286, "tid": 0,
    "args": {
      "name": "python"
    }
  },
  {
    "name": "thread_name", "ph": "M", "ts": 4458676426133.574, "pid": 25286, "tid": 25286,
    "args": {
      "name": "thread 25286 (python)"
    }
  }"""
TAIL = """
  ],
  "traceName": "made_by_benchmarks.json",
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": %d
}
"""
PYTHON = """,
  {{
    "ph": "X", "cat": "python_function", "name": "{name}", "pid": {pid}, "tid": {pid},
    "ts": {ts}, "dur": {dur},
    "args": {{
      "Python parent id": {parent}, "Python id": {id}, "Ev Idx": {id}
    }}
  }}"""
STEP = """,
  {{
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": {pid}, "tid": {pid},
    "ts": {ts}, "dur": {dur},
    "args": {{
      "External id": {id},"Record function id": 0, "Ev Idx": {id}
    }}
  }}"""
OP = """,
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::{name}", "pid": {pid}, "tid": {pid},
    "ts": {ts}, "dur": {dur},
    "args": {{
      "External id": {id},"Record function id": 0, "Sequence number": {id}, "Fwd thread id": 0, "Input type": ["float", "float", "Scalar"], "Input Strides": [[{b}, 1], [{a}, 1], []], "Input Dims": [[{a}, {b}], [{b}, {a}], []], "Ev Idx": {id}
    }}
  }}"""  # noqa: E501
RUNTIME = """,
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": {pid}, "tid": {pid},
    "ts": {ts}, "dur": {dur},
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {corr}
    }}
  }},
  {{
    "ph": "s", "id": {corr}, "pid": {pid}, "tid": {pid}, "ts": {ts},
    "cat": "ac2g", "name": "ac2g"
  }}"""
KERNEL = """,
  {{
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<{v}, at::native::{op}Functor<float>, std::array<char*, {n}ul> >(int, at::native::{op}Functor<float>, std::array<char*, {n}ul>)", "pid": 0, "tid": 7,
    "ts": {ts}, "dur": {dur},
    "args": {{
      "External id": {id},
      "queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": {corr},
      "registers per thread": {regs},
      "shared memory": 0,
      "blocks per SM": {bps},
      "warps per SM": {wps},
      "grid": [{grid}, 1, 1],
      "block": [128, 1, 1],
      "est. achieved occupancy %": {occ}
    }}
  }}"""  # noqa: E501
COPY = """,
  {{
    "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7,
    "ts": {ts}, "dur": {dur},
    "args": {{
      "External id": {id},
      "device": 0, "context": 1,
      "stream": 7, "correlation": {corr},
      "bytes": {bytes}, "memory bandwidth (GB/s)": 11.2
    }}
  }}"""
FLOW_END = """,
  {{
    "ph": "f", "id": {corr}, "pid": 0, "tid": 7, "ts": {ts},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}"""


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _operator(i: int, at: int, rng: random.Random) -> str:
    a, b = rng.choice((64, 128, 768, 1024)), rng.choice((32, 512, 3072))
    host, device = rng.randrange(20_000, 60_000), rng.randrange(800, 30_000)
    name, launch, kernel = rng.choice(OPS), at + host // 4, at + host // 2 + rng.randrange(5_000)
    common = {"pid": PID, "id": i, "corr": 60_000 + i}
    line = rng.randrange(900)
    parts = [
        PYTHON.format(
            name=f"torch/nn/modules/{name}.py({line}): forward", ts=_us(at), dur=_us(host), parent=i - 1, **common
        ),
        PYTHON.format(
            name=f"<built-in method {name} of type object>", ts=_us(at + 300), dur=_us(host - 900), parent=i, **common
        ),
        OP.format(name=name, ts=_us(at + 700), dur=_us(host - 2_000), a=a, b=b, **common),
        OP.format(name=f"_{name}_impl", ts=_us(at + 1_100), dur=_us(host - 4_000), a=b, b=a, **common),
    ]
    is_copy = i % 50 == 0
    call = "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel"
    parts.append(RUNTIME.format(name=call, ts=_us(launch), dur=_us(host // 8), **common))
    if is_copy:
        parts.append(COPY.format(ts=_us(kernel), dur=_us(device), bytes=a * b * 4, **common))
    else:
        facts = {
            "v": rng.choice((2, 4)),
            "op": name.title(),
            "n": rng.randrange(1, 4),
            "regs": rng.choice((16, 32, 40)),
        }
        load = {"bps": a / 132, "wps": a / 33, "grid": a, "occ": rng.randrange(100)}
        parts.append(KERNEL.format(ts=_us(kernel), dur=_us(device), **facts, **load, **common))
    parts.append(FLOW_END.format(ts=_us(kernel), **common))
    return "".join(parts)


def _chunks(num_events: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    yield HEAD
    left, at, i = num_events - 2, 4458676426133574, 0
    while left >= 8:
        if i % 1000 == 0:
            yield STEP.format(number=i // 1000, pid=PID, ts=_us(at), dur=_us(1000 * 66_000), id=i)
            left -= 1
        i += 1
        yield _operator(i, at, rng)
        at, left = at + 66_000, left - 8
    for k in range(left):
        yield PYTHON.format(name="tail", pid=PID, ts=_us(at + k * 2000), dur="1.000", parent=i, id=i)
    yield TAIL % BASE_NS


def write_chrome_trace(path: str | Path, num_events: int, seed: int = 0) -> Path:
    """Write a trace of exactly `num_events` entries of traceEvents (about 300 bytes each) to `path`."""
    with open(path, "w", encoding="utf-8") as file:
        for chunk in _chunks(num_events, seed):
            file.write(chunk)
    return Path(path)


if __name__ == "__main__":
    write_chrome_trace(sys.argv[1], int(sys.argv[2]))
