"""Make per-process ids in an nsys export unique in the file.

A recording may hold several processes. Each numbers its correlation ids, contexts and (with CUDA_VISIBLE_DEVICES)
devices independently. A Trace identifies a device, a stream and a correlation id by number only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.sqlite.file import Database

_THREAD_BITS: Final = 24
_THREAD_MASK: Final = (1 << _THREAD_BITS) - 1
_CORRELATION_BITS: Final = 32  # size of CUPTI's correlation ids


def process_of(global_id: Ints) -> Ints:
    """The bits of a global id for host, virtual machine and process; `MISSING` is kept."""
    process: Ints = np.where(global_id == MISSING, MISSING, global_id >> _THREAD_BITS)
    return process


def split_thread(global_id: Ints) -> dict[str, Ints]:
    """``pid`` and ``tid`` of global ids of threads."""
    unknown = global_id == MISSING
    pid = np.where(unknown, MISSING, (global_id >> _THREAD_BITS) & _THREAD_MASK)
    return {"pid": pid, "tid": np.where(unknown, MISSING, global_id & _THREAD_MASK)}


class Identities:
    """Assigns different numbers to things that several processes number the same.

    Attributes:
        is_by_gpu: Whether device numbers are those of the machine, since equal numbers of processes are different GPUs.
        renamed_streams: New number of each stream whose number was already in use, by a description of the stream.
    """

    def __init__(self, database: Database, work: Sequence[str], calls: Sequence[str]) -> None:
        self._gpu_of = _gpus(database)
        used = _pairs(database, work)
        meanings: dict[int, set[int]] = {}
        for process, device in used:
            meanings.setdefault(device, set()).add(self._gpu_of.get((process & _THREAD_MASK, device), device))
        self.is_by_gpu = any(len(gpus) > 1 for gpus in meanings.values())
        self._offset = _offsets(database, calls)
        self._owners: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        self.renamed_streams: dict[str, int] = {}

    def devices(self, process: Ints, device: Ints) -> Ints:
        """Device numbers that are unique in the file."""
        if not self.is_by_gpu:
            return device
        return _mapped(
            (process, device), lambda p, d: d if d == MISSING else self._gpu_of.get((p & _THREAD_MASK, d), d)
        )

    def correlations(self, process: Ints, ids: Ints) -> Ints:
        """Correlation ids that are unique among processes."""
        if not self._offset:
            return ids
        shift = _mapped((process,), lambda p: self._offset.get(p, 0))
        shifted: Ints = np.where((ids == MISSING) | (ids == 0), ids, ids + shift)
        return shifted

    def streams(self, process: Ints, context: Ints, device: Ints, stream: Ints) -> Ints:
        """Stream numbers that are unique among processes and contexts on a device."""
        return _mapped((device, stream, process, context), self._stream)

    def _stream(self, device: int, stream: int, process: int, context: int) -> int:
        if stream in (MISSING, -1, 0xFFFFFFFF):
            return MISSING
        owners = self._owners.setdefault((device, stream), {})
        if (process, context) not in owners:
            owners[process, context] = stream if not owners else self._free_stream(device, stream, process, context)
        return owners[process, context]

    def _free_stream(self, device: int, stream: int, process: int, context: int) -> int:
        number = (len(self.renamed_streams) + 1) << _CORRELATION_BITS | max(stream, 0) & 0xFFFFFFFF
        self.renamed_streams[
            f"device {device}, process {process & _THREAD_MASK}, context {context}, stream {stream}"
        ] = number
        return number


def _mapped(columns: tuple[Ints, ...], change: Any) -> Ints:
    """`change` applied to each distinct row of `columns`, in order of first occurrence."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes, uniques = pd.factorize(column)
        key = pd.factorize(key * max(len(uniques), 1) + codes)[0].astype(np.int64)
    if not len(key):
        return key
    first = np.unique(key, return_index=True)[1]
    values = np.array([change(*row) for row in zip(*(c[first].tolist() for c in columns), strict=True)], np.int64)
    return values[key]


def _gpus(database: Database) -> dict[tuple[int, int], int]:
    """Number of the GPU of each process (by pid) and device number."""
    rows = database.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"])
    found = zip(rows["pid"].tolist(), rows["cudaId"].tolist(), rows["gpuId"].tolist(), strict=True)
    return {(pid, cuda): gpu for pid, cuda, gpu in found if MISSING not in (pid, cuda, gpu) and 0 <= gpu < 1 << 31}


def _pairs(database: Database, tables: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs of a process and a device that it used."""
    used: set[tuple[int, int]] = set()
    for table in tables:
        rows = database.read(table, ["globalPid", "deviceId"], is_distinct=True)
        used.update(zip(process_of(rows["globalPid"]).tolist(), rows["deviceId"].tolist(), strict=True))
    return used


def _offsets(database: Database, tables: Sequence[str]) -> dict[int, int]:
    """The offset that makes the correlation ids of each process unique; empty for one process.

    Different ids for the calls of two processes are not enough: a launch that was not recorded may have the id of
    another process's call, which would then be linked to the wrong work.
    """
    threads = [database.read(table, ["globalTid"], is_distinct=True)["globalTid"] for table in tables]
    processes = np.unique(process_of(np.concatenate(threads))) if threads else np.empty(0, np.int64)
    if len(processes) < 2:
        return {}
    return {p: i << _CORRELATION_BITS for i, p in enumerate(processes.tolist())}
