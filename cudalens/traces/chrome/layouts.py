"""Decode the ``args`` of many entries by the keys that occur in a file, so that absent fields cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from cudalens.frames.lenient_json import SYNTAX_ERRORS, decoder
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.args import decode_args

#: With more keys, or more groups of entries that bring a new key or a bad value, each group is searched for its fields.
_MAX_KEYS: Final = 64
_MAX_FAILURES: Final = 32


class Layouts:
    """The keys of the arguments of a file so far.

    Entries are decoded into structs of exactly these keys. A key that is none of them is an error, after which it is
    added. `decode_args` returns the same rows, but searches each text for every field that may occur.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._keys: dict[Any, frozenset[str]] = {}
        self._num_failures = 0

    def decode(self, raw: Sequence[msgspec.Raw], spec: Any, where: str) -> tuple[list[Any], frozenset[str]]:
        """Each of `raw` with the fields of `spec` that occur, and their names; bad values are counted and dropped."""
        keys = self._keys.get(spec, frozenset())
        if len(keys) > _MAX_KEYS or self._num_failures > _MAX_FAILURES:
            return decode_args(raw, spec, self._problems, where)
        joined = b"[" + b",".join(raw) + b"]"
        try:
            of_keys, names = _struct_of(spec, keys)
            return of_keys.decode(joined), names
        except (*SYNTAX_ERRORS, ValueError):  # a ValueError: a key that no struct can have
            self._num_failures += 1
        try:
            found = decoder(list[dict[str, msgspec.Raw]]).decode(joined)
        except SYNTAX_ERRORS:
            return decode_args(raw, spec, self._problems, where)
        self._keys[spec] = keys.union(*found)
        decoded, _ = decode_args(raw, spec, self._problems, where)
        return decoded, _names_of(spec, self._keys[spec])


def _names_of(spec: Any, keys: frozenset[str]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(spec) if field.encode_name in keys)


@lru_cache(64)
def _struct_of(spec: Any, keys: frozenset[str]) -> tuple[msgspec.json.Decoder[list[Any]], frozenset[str]]:
    """Return the decoder of lists of structs with exactly `keys`, and which fields of `spec` these are."""
    wanted = [field for field in msgspec.structs.fields(spec) if field.encode_name in keys]
    rest = keys.difference(field.encode_name for field in wanted)
    fields: list[Any] = [(field.name, field.type, field.default) for field in wanted]
    names = {field.name: field.encode_name for field in wanted}
    for number, key in enumerate(sorted(rest)):
        fields.append((f"_{number}", msgspec.Raw, msgspec.Raw(b"")))
        names[f"_{number}"] = key
    made = msgspec.defstruct("Args", fields, rename=names, gc=False, forbid_unknown_fields=True)
    return msgspec.json.Decoder(list[made]), _names_of(spec, keys)  # type: ignore[valid-type]
