"""Compare the values that a function reads with those of its recording: identity first, then type and value."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain, starmap
from operator import attrgetter, getitem, is_
from typing import Any, Final

import torch

from cudalens.graphs.arguments import exact
from cudalens.graphs.guards.comparing import Compared, PythonCompared
from cudalens.graphs.guards.found import Read, Reads
from cudalens.graphs.guards.lookups import MAKERS, AttributeItems, attributes_in, items_in
from cudalens.graphs.guards.named_tensors import NamedTensors
from cudalens.graphs.host_values import HostContents

#: Compared by value; everything else is compared by identity.
_PLAIN: Final = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, Enum, tuple, frozenset
)  # fmt: skip

_code_of: Final = attrgetter("__code__")


class GuardSet:
    """The values that a function reads, as they were at one time.

    Args:
        reads: What the function can read.
        more: Values besides.
        tensors: Tensors whose sizes, dtype and so on belong to what is read, but whose elements do not.

    Attributes:
        unguarded: The first value that cannot be compared, in words; None if there is none.
    """

    def __init__(self, reads: Reads, more: Iterable[Read] = (), tensors: Iterable[Read] = ()) -> None:
        incomplete = [] if reads.is_complete else ["more values than can be compared"]
        self.unguarded: str | None = next(iter([*reads.unguarded, *incomplete]), None)
        every = [*reads.values, *more]
        self._made = [read for read in every if isinstance(read.container, (*MAKERS, HostContents))]
        values = [read for read in every if not isinstance(read.container, (*MAKERS, HostContents))]
        self._holders = [read.container for read in values]
        self._keys = [read.key for read in values]
        self._labels = [read.label for read in values]
        self._values = [read.value for read in values]
        self._containers = [container for container, _ in reads.sizes]
        self._size_labels = [label for _, label in reads.sizes]
        self._sizes = list(map(len, self._containers))
        orders = [(held, label) for held, label in reads.orders if len(held)]
        self._ordered = [held for held, _ in orders]
        self._order_labels = [label for _, label in orders]
        self._orders = [list(held) for held in self._ordered]
        self._all_keys = list(chain.from_iterable(self._orders))
        self._functions = [function for function, _ in reads.functions]
        self._code_labels = [label for _, label in reads.functions]
        self._codes = list(map(_code_of, self._functions))
        self._absent = [(namespace.keys(), names) for namespace, names in reads.absent]
        self._owners = [owner for owner, _ in reads.owners]
        self._kind_labels = [label for _, label in reads.owners]
        self._kinds = list(map(type, self._owners))
        # Objects whose ``__dict__`` is the one that their class keeps for them.
        attributes = [at for at in reads.attributes if type(at[0]).__dictoffset__ and attributes_in(at[0]) is at[1]]
        self._objects = [owner for owner, _, _ in attributes]
        self._tables = [held for _, held, _ in attributes]
        self._table_labels = [label for _, _, label in attributes]
        self._compared = self._compare()
        places = [(at.container, at.key, at.label, False) for at in tensors]
        self._tensors = NamedTensors(places) if places else None

    def __len__(self) -> int:
        return len(self._values) + len(self._made) + len(self._containers)

    def _compare(self) -> PythonCompared:
        return Compared(
            AttributeItems, self._holders, self._keys, self._values, self._containers, self._sizes,
            self._ordered, self._all_keys, self._owners, self._kinds, self._objects, self._tables,
        )  # fmt: skip

    def hold(self) -> bool:
        """Whether every value is as it was."""
        try:
            if self._tensors is not None and self._tensors.as_before() is None:
                return False
            if not self._compared.is_same() and not self._is_equal():
                return False
            if not all(_is_equal(read.container[read.key], read.value) for read in self._made):
                return False
        except (LookupError, AttributeError, ValueError, TypeError):
            return False
        return all(map(is_, map(_code_of, self._functions), self._codes)) and all(
            keys.isdisjoint(names) for keys, names in self._absent
        )

    def _is_equal(self) -> bool:
        """The same, where equal objects may have replaced values and keys; the next comparison is by identity."""
        compared = self._compared
        if not (compared.has_tables() and compared.has_kinds() and compared.has_sizes()):
            return False
        if not all(starmap(are_equal_keys, zip(self._ordered, self._orders, strict=True))):
            return False
        found = list(map(getitem, self._holders, self._keys))
        if not all(map(_is_equal, found, self._values)):
            return False
        self._values, self._all_keys = found, list(chain.from_iterable(self._ordered))
        self._compared = self._compare()
        return True

    def difference(self) -> str | None:
        """The first value that is not as it was, in words; None if there is none."""
        reads = zip(self._holders, self._keys, self._labels, self._values, strict=True)
        if (found := first_change(chain(starmap(Read, reads), self._made))) is not None:
            return found
        if self._tensors is not None and (tensor := self._tensors.other()) is not None:
            return f"{tensor}: another tensor"
        if (replaced := self._replaced() or self._reordered()) is not None:
            return replaced
        sizes = zip(self._containers, self._size_labels, self._sizes, strict=True)
        return next((f"{label}: {size} → {len(held)}" for held, label, size in sizes if len(held) != size), None)

    def _replaced(self) -> str | None:
        """A function that has other code, or an object that has another class or other attributes."""
        codes = zip(map(_code_of, self._functions), self._codes, self._code_labels, strict=True)
        kinds = zip(map(type, self._owners), self._kinds, self._kind_labels, strict=True)
        tables = zip(map(attributes_in, self._objects), self._tables, self._table_labels, strict=True)
        found = next((label for now, before, label in (*codes, *kinds, *tables) if now is not before), None)
        return found or next((f"{min(keys & names)} exists now" for keys, names in self._absent if keys & names), None)

    def _reordered(self) -> str | None:
        """A dict whose keys come in another order."""
        orders = zip(self._ordered, self._orders, self._order_labels, strict=True)
        return next((label for held, before, label in orders if not are_equal_keys(held, before)), None)


_MISSING: Final = object()


def _lookup(read: Read) -> Any:
    """The value now; `_MISSING` where there is none."""
    try:
        return read.container[read.key]
    except (LookupError, AttributeError, ValueError, TypeError):
        return _MISSING


def first_change(reads: Iterable[Read]) -> str | None:
    """The first value that is not as it was, in words; None if there is none."""
    for read in reads:
        now = _lookup(read)
        if now is _MISSING:
            return f"{read.label} does not exist any more"
        if now is not read.value and not _is_equal(now, read.value):
            return f"{read.label}: {_short(read.value)} → {_short(now)}"
    return None


def _is_equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or not issubclass(type(a), _PLAIN):
        return False
    if isinstance(a, tuple | frozenset):  # elements are compared by identity, in their order
        one, other = items_in(a), items_in(b)
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(exact(a) == exact(b))


def are_equal_keys(held: Any, before: list[Any]) -> bool:
    """Whether the keys of a dict come in the same order; equal objects may have replaced them."""
    now = list(held)
    return len(now) == len(before) and all(map(_is_equal, now, before))


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, _PLAIN) else f"another {type(value).__name__}"
    return text if len(text) < 40 else f"{text[:37]}…"
