"""Ids in an export of nsys that are one process's own, made those of the whole file.

One recording may hold many processes. Each counts its correlation ids, contexts and (with CUDA_VISIBLE_DEVICES) devices
from its own start; a Trace knows a device, a stream and a correlation id by their numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.traces.chrome.records import MISSING, Ints
from cudalens.traces.sqlite.file import Database

_THREAD_BITS: Final = 24
_THREAD_MASK: Final = (1 << _THREAD_BITS) - 1
_CORRELATION_BITS: Final = 32  # CUPTI's correlation ids have as many


def process_of(global_id: Ints) -> Ints:
    """The bits of a global id that name host, virtual machine and process; `MISSING` stays."""
    process: Ints = np.where(global_id == MISSING, MISSING, global_id >> _THREAD_BITS)
    return process


def split_thread(global_id: Ints) -> dict[str, Ints]:
    """``pid`` and ``tid`` of global ids of threads."""
    unknown = global_id == MISSING
    pid = np.where(unknown, MISSING, (global_id >> _THREAD_BITS) & _THREAD_MASK)
    return {"pid": pid, "tid": np.where(unknown, MISSING, global_id & _THREAD_MASK)}


class Identities:
    """Tells apart what different processes call by the same number.

    Attributes:
        is_by_gpu: Device numbers are those of the machine, since the processes' own mean different GPUs.
        renamed_streams: New number of each stream whose own was taken, in words.
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
        """The devices' numbers in the file's own sense."""
        if not self.is_by_gpu:
            return device
        return _mapped(
            (process, device), lambda p, d: d if d == MISSING else self._gpu_of.get((p & _THREAD_MASK, d), d)
        )

    def correlations(self, process: Ints, ids: Ints) -> Ints:
        """Correlation ids that no two processes share."""
        if not self._offset:
            return ids
        shift = _mapped((process,), lambda p: self._offset.get(p, 0))
        shifted: Ints = np.where((ids == MISSING) | (ids == 0), ids, ids + shift)
        return shifted

    def streams(self, process: Ints, context: Ints, device: Ints, stream: Ints) -> Ints:
        """Streams by numbers that no two processes or contexts share on one device."""
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
    """`change` of each distinct row of `columns`, in the order in which they come."""
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
    """Number of the GPU that a process (by its pid) calls device so-and-so."""
    rows = database.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"])
    found = zip(rows["pid"].tolist(), rows["cudaId"].tolist(), rows["gpuId"].tolist(), strict=True)
    return {(pid, cuda): gpu for pid, cuda, gpu in found if MISSING not in (pid, cuda, gpu) and 0 <= gpu < 1 << 31}


def _pairs(database: Database, tables: Sequence[str]) -> set[tuple[int, int]]:
    """Which processes used which devices."""
    used: set[tuple[int, int]] = set()
    for table in tables:
        rows = database.read(table, ["globalPid", "deviceId"], is_distinct=True)
        used.update(zip(process_of(rows["globalPid"]).tolist(), rows["deviceId"].tolist(), strict=True))
    return used


def _offsets(database: Database, tables: Sequence[str]) -> dict[int, int]:
    """What to add to the correlation ids of each process, so that all differ; empty for one process.

    Calls of several processes may have different ids and still share them with each other's work: a launch that was
    not recorded leaves its id to nobody.
    """
    threads = [database.read(table, ["globalTid"], is_distinct=True)["globalTid"] for table in tables]
    processes = np.unique(process_of(np.concatenate(threads))) if threads else np.empty(0, np.int64)
    if len(processes) < 2:
        return {}
    return {p: i << _CORRELATION_BITS for i, p in enumerate(processes.tolist())}
