"""Columns that grow batch by batch: of events, dense or sparse, and the collections that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.frames import StackTable, categorical, nullable
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import compact_json, compact_json_of, text_of, texts_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome import values as args_
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.scanned import FIELDS, Scanned
from cudalens.traces.chrome.values import CURRENT_CATEGORY, MISSING, UNKNOWN, Kind, Layouts, integers, kind_of, numbers

_INT32_LIMIT: Final = 1 << 31


class Codes(dict[Any, int]):
    """Assigns the next number to each new key."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code

    def of(self, keys: Iterable[Any]) -> list[int]:
        """Return the codes of `keys`, -1 for None; faster than one by one where most are new."""
        return [-1 if key is None else self.setdefault(key, len(self)) for key in keys]


class CachedCodes(dict[Any, int]):
    """Codes by a key that is cheap to look up; `make` computes the code of a new key."""

    def __init__(self, make: Callable[[Any], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> int:
        code = self[key] = self._make(key)
        return code


class SparseColumn:
    """A column that only some rows have: row numbers and values."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._values: list[NDArray[Any]] = []

    def add(self, rows: Ints, values: NDArray[Any]) -> None:
        """Keep `values` for `rows`."""
        if len(rows):
            self._rows.append(rows.astype(np.int32))
            # `values` in four bytes each if they fit: most ids do, and a long file has many.
            fits = values.dtype == np.int64 and values.min() >= -_INT32_LIMIT and values.max() < _INT32_LIMIT
            self._values.append(values.astype(np.int32) if fits else values)

    def to_arrays(self, n: int, dtype: Any, fill: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """Return the column over `n` rows and the mask of its missing rows; None if no row has a value."""
        if not self._rows:
            return None
        values = np.full(n, fill, dtype) if fill else np.zeros(n, dtype)  # takes no memory where nothing is written
        missing = np.ones(n, bool)
        while self._rows:  # frees each part after use
            rows = self._rows.pop()
            values[rows] = self._values.pop()
            missing[rows] = False
        return values, missing


class GrowingArray:
    """An array that grows at its end, in time linear in its length."""

    def __init__(self, dtype: Any) -> None:
        self._values = np.empty(64, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> NDArray[Any]:
        """The array, of which the caller may replace values; shape (len(self),)."""
        return self._values[: self._size]

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append `values`."""
        size = self._size + len(values)
        if size > len(self._values):
            grown = np.empty(max(size, 2 * len(self._values)), self._values.dtype)
            grown[: self._size] = self.values
            self._values = grown
        self._values[self._size : size] = values
        self._size = size


_NAME: Final = attrgetter("name")
_TRACK: Final = attrgetter("cat", "pid", "tid")
_OLDER: Final = {
    "external_id": "old_external_id",
    "shapes": "old_shapes",
    "flops": "old_flops",
    "occupancy_pct": "old_occupancy_pct",
}
_INTEGERS: Final = (
    "device",
    "stream",
    "original_stream",
    "correlation",
    "external_id",
    "sequence_nr",
    "fwd_tid",
    "graph_id",
    "graph_node_id",
    "wait_stream",
    "wait_record_id",
    "num_bytes",
    "flops",
    "registers",
    "shared_memory_bytes",
    "in_elements",
    "out_elements",
    "group_size",
    "collective_seq",
    "src_rank",
    "dst_rank",
)
#: Arguments that say what a copy or a memset is, where its name does not.
COPY_KINDS: Final = ("copy_kind", "source_kind", "target_kind", "memory_kind")
_NUMBERS: Final = ("blocks_per_sm", "warps_per_sm", "occupancy_pct")
_JSON: Final = (
    "shapes",
    "dtypes",
    "grid",
    "block_dim",
    "group_ranks",
    "in_split_sizes",
    "out_split_sizes",
    "concrete_inputs",
)
_TEXTS: Final = (
    "module",
    "collective",
    "process_group",
    "process_group_description",
    "message_dtype",
    "kernel_backend",
    "kernel_hash",
    *COPY_KINDS,
)
_INT32: Final = frozenset({"registers"})
_CURRENT: Final = {older: field for field, older in _OLDER.items()}
_KINDS: Final = tuple(Kind)
#: For each field of a scanned slice, whether the events of each kind have it.
_HAS_FIELD: Final = {
    field: np.array([field in getattr(args_.SPECS.get(kind), "__struct_fields__", ()) for kind in _KINDS])
    for field in FIELDS
}
#: Columns in which Kineto writes -1 for an unknown value.
_NEVER_NEGATIVE: Final = frozenset({"wait_stream", "wait_record_id", "collective_seq", "src_rank", "dst_rank"})


class EventColumns:
    """The raw columns of the events for `build_events`, with lanes that are not resolved yet."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._layouts = problems, Layouts(problems)
        self.num_rows = 0
        self.stacks = StackTable()
        self.lanes = Codes()
        self._names, self._cats = Codes(), Codes()
        self._tracks = CachedCodes(self._new_track)
        self._cat_of_track, self._lane_of_track, self._kind_of_cat = (
            GrowingArray(np.int32),
            GrowingArray(np.int32),
            GrowingArray(np.int8),
        )
        self._dense: dict[str, list[NDArray[Any]]] = {k: [] for k in ("ts", "dur", "instant", "name", "cat", "lane")}
        self._sparse: dict[str, SparseColumn] = {
            k: SparseColumn() for k in (*_INTEGERS, *_NUMBERS, *_JSON, *_TEXTS, "stack")
        }
        self._texts = {column: Codes() for column in (*_JSON, *_TEXTS)}
        self._json_code = {column: CachedCodes(self._json_maker(column)) for column in _JSON}
        self._text_code = {column: CachedCodes(self._text_maker(column)) for column in _TEXTS}
        #: By number of the scanner: codes of names, tracks and texts, -1 for none.
        self._name_of_number, self._track_of_number = GrowingArray(np.int32), GrowingArray(np.int64)
        self._of_number = {field: GrowingArray(np.int32) for field in FIELDS}
        self._stack_code = CachedCodes(lambda text: self.stacks.add(text_of(text).split(";")) if text else MISSING)

    def add(self, records: Sequence[Record], ts: Ints, dur: Ints, where: str, *, is_instant: bool = False) -> None:
        """Append a row per record."""
        n = len(records)
        # There are few combinations of category, process and thread: one lookup per event instead of three.
        tracks = np.fromiter(map(self._tracks.__getitem__, map(_TRACK, records)), np.int64, n)
        names = np.fromiter(map(self._names.__getitem__, map(_NAME, records)), np.int32, n)
        cats = self._add_dense(ts, dur, names, tracks, is_instant=is_instant)
        self._add_args([record.args for record in records], cats, where)
        self.num_rows += n

    def add_scanned(self, scanned: Scanned, dur: Ints) -> None:
        """Append the rows of `scanned`, with durations of their own."""
        self._name_of_number.extend(self._names.of(scanned.names))
        names = self._name_of_number.values.take(scanned.name)
        cats = self._add_dense(scanned.ts, dur, names, self._tracks_of(scanned), is_instant=False)
        kinds = self._kinds().take(cats)
        for field in FIELDS:
            if (column := scanned.fields.get(field)) is not None:
                # Append an argument of the rows whose kind has it.
                rows, values, current = column.rows, column.values, _CURRENT.get(field, field)
                is_text = current not in _INTEGERS and current not in _NUMBERS
                if is_text:
                    # Texts that no slice before had get a code.
                    if current not in _JSON:
                        codes = self._stack_code if current == "stack" else self._text_code[current]
                        self._of_number[field].extend([max(codes[text], -1) for text in column.texts])
                    elif column.raw:
                        self._of_number[field].extend(self._texts[current].of(compact_json_of(column.raw)))
                has_field = _HAS_FIELD[field].take(kinds.take(rows))
                if not has_field.all():
                    rows, values = rows[has_field], values[has_field]
                if is_text:
                    values = self._of_number[field].values.take(values)
                    known = values >= 0
                else:
                    known = _known(current, values) if current in _INTEGERS else np.isfinite(values)
                self._sparse[current].add(*_where(known, rows + np.int32(self.num_rows), values))
        self.num_rows += len(scanned.ts)

    def has_category(self, name: str) -> bool:
        """Return whether any row has the category."""
        return name in self._cats

    def _tracks_of(self, scanned: Scanned) -> Ints:
        """Return the tracks of the rows; tracks of allocations alone get no code."""
        known = self._track_of_number
        known.extend(np.full(len(scanned.tracks) - len(known), -1))
        tracks: Ints = known.values.take(scanned.track)
        if len(new := scanned.track[tracks < 0]):
            for number in dict.fromkeys(new.tolist()):
                known.values[number] = self._tracks[scanned.tracks[number]]
            tracks = known.values[scanned.track]
        return tracks

    def _kinds(self) -> NDArray[np.int8]:
        """Number of the kind of each category."""
        new = list(self._cats)[len(self._kind_of_cat) :]
        self._kind_of_cat.extend([_KINDS.index(kind_of(name)) for name in new])
        return self._kind_of_cat.values

    def _add_dense(self, ts: Ints, dur: Ints, names: Any, tracks: Ints, *, is_instant: bool) -> NDArray[np.int32]:
        cats: NDArray[np.int32] = self._cat_of_track.values.take(tracks)
        added = {"ts": ts, "dur": dur, "instant": np.full(len(ts), is_instant), "name": names, "cat": cats}
        for column, values in (added | {"lane": self._lane_of_track.values.take(tracks)}).items():
            self._dense[column].append(values)
        return cats

    def _new_track(self, track: tuple[Any, Any, Any]) -> int:
        cat, *lane = track
        self._cat_of_track.extend([self._cats[CURRENT_CATEGORY.get(cat, cat) if cat else UNKNOWN]])
        self._lane_of_track.extend([self.lanes[tuple(lane)]])
        return len(self._cat_of_track) - 1

    def _add_args(self, raw: list[Any], cats: NDArray[np.int32], where: str) -> None:
        names = list(self._cats)
        kinds: dict[Kind, list[int]] = {}
        for code in np.unique(cats).tolist():
            kinds.setdefault(kind_of(names[code]), []).append(code)
        for kind, codes in kinds.items():
            if kind in args_.SPECS:
                is_kind = np.zeros(len(names), bool)
                is_kind[codes] = True
                at = np.flatnonzero(is_kind[cats])
                chosen = [raw[i] for i in at.tolist()]
                decoded, present = self._layouts.decode(chosen, args_.SPECS[kind], where)
                rows = at + self.num_rows
                for field in present | {field for field, older in _OLDER.items() if older in present}:
                    if field in _INTEGERS:
                        self._add_integers(decoded, field, present, rows, where)
                    elif field in _NUMBERS:
                        self._add_numbers(decoded, field, present, rows)
                    elif field in _JSON:
                        self._add_codes(decoded, field, present, rows, self._json_code[field], bytes)
                    elif field in _TEXTS:
                        self._add_codes(decoded, field, present, rows, self._text_code[field], None)
                    elif field == "stack":
                        self._add_codes(decoded, field, present, rows, self._stack_code, None)

    def _add_integers(self, decoded: list[Any], field: str, fields: Any, rows: Ints, where: str) -> None:
        values, too_large = integers(decoded, field if field in fields else _OLDER[field])
        if (older := _OLDER.get(field)) in fields and field in fields:
            old, more = integers(decoded, str(older))
            values, too_large = np.where(values == MISSING, old, values), too_large + more
        if too_large:
            self._problems.add(f"'{field}' beyond 64 bits", where, too_large)
        self._sparse[field].add(*_where(_known(field, values), rows, values))

    def _add_numbers(self, decoded: list[Any], field: str, fields: Any, rows: Ints) -> None:
        values = numbers(decoded, field)
        if (older := _OLDER.get(field)) in fields:
            values = np.where(np.isnan(values), numbers(decoded, str(older)), values)
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        self._sparse[field].add(*_where(np.isfinite(narrow), rows, narrow))

    def _add_codes(self, decoded: list[Any], field: str, fields: Any, rows: Ints, codes: CachedCodes, key: Any) -> None:
        for name in (_OLDER.get(field), field):
            if name in fields:
                found = map(attrgetter(str(name)), decoded)
                keys = map(key, found) if key else found
                values = np.fromiter(map(codes.__getitem__, keys), np.int64, len(decoded))
                self._sparse[field].add(*_where(values != MISSING, rows, values))

    def _json_maker(self, column: str) -> Callable[[bytes], int]:
        def make(raw: bytes) -> int:
            text = compact_json(raw)
            return MISSING if text is None else self._texts[column][text]

        return make

    def _text_maker(self, column: str) -> Callable[[str | None], int]:
        return lambda text: self._texts[column][text] if text else MISSING

    def to_columns(self) -> dict[str, Any]:
        """Return the columns by their names in the catalog; what was added is no longer here afterwards.

        In addition: ``lane`` (int32 codes into `lanes`), ``device`` and ``stream`` from the args (int64, `MISSING`
        where the args have none), and those of `COPY_KINDS` that occur.
        """
        n = self.num_rows
        dense = {key: _joined(parts) for key, parts in self._dense.items()}
        columns: dict[str, Any] = {"ts": dense["ts"], "dur": dense["dur"]}
        columns["is_instant"] = dense["instant"].astype(bool, copy=False)
        columns["lane"] = dense["lane"]
        for column, texts in (("name", self._names), ("cat", self._cats)):
            columns[column] = categorical(dense[column].astype(np.int32, copy=False), texts_of(list(texts)))
        for known in (self._names, self._tracks, self._text_code, self._json_code):
            known.clear()
        for field in ("device", "stream"):
            arrays = self._sparse[field].to_arrays(n, np.int64, MISSING)
            columns[field] = np.full(n, MISSING) if arrays is None else arrays[0]
        if (arrays := self._sparse["original_stream"].to_arrays(n, np.int64, MISSING)) is not None:
            columns["stream"] = np.where(arrays[1], columns["stream"], arrays[0])
        for field in (*_INTEGERS[3:], *_NUMBERS, "stack"):
            dtype: type[np.number[Any]] = np.int32 if field in _INT32 else np.int64
            if field in _NUMBERS:
                dtype = np.float32
            if (arrays := self._sparse[field].to_arrays(n, dtype, 0)) is not None:
                columns["correlation_id" if field == "correlation" else field] = nullable(*arrays)
        for field, codes in self._texts.items():
            if (arrays := self._sparse[field].to_arrays(n, np.int32, -1)) is not None:
                columns[field] = categorical(arrays[0], list(codes))
        return columns


def _known(field: str, values: Ints) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = values != MISSING
    if field in _INT32:
        known &= np.abs(values) < 1 << 31
    if field in _NEVER_NEGATIVE:
        known &= values >= 0
    return known


def _where(known: NDArray[np.bool_], rows: Ints, values: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    if known.all():
        return rows, values
    return rows[known], values[known]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    joined: NDArray[Any] = np.concatenate(parts) if parts else np.empty(0, np.int64)
    parts.clear()
    return joined
