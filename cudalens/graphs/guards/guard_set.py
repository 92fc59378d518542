"""Compare the values that a function reads with those of its recording: identity first, then type and value."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain, starmap
from operator import attrgetter, eq, getitem, is_
from typing import Any, Final

import torch
from torch.utils.hooks import RemovableHandle

from cudalens.graphs.arguments import exact
from cudalens.graphs.guards.named_tensors import NamedTensors
from cudalens.graphs.guards.reads import Read, Reads

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
        values = [*reads.values, *more]
        self._holders = [read.container for read in values]
        self._keys = [read.key for read in values]
        self._labels = [read.label for read in values]
        self._values = [read.value for read in values]
        self._children = [children for children, _ in reads.children]
        self._children_before = [dict(children) for children, _ in reads.children]
        self._child_labels = [label for _, label in reads.children]
        self._containers = [container for container, _ in reads.sizes]
        self._size_labels = [label for _, label in reads.sizes]
        self._sizes = list(map(len, self._containers))
        self._ordered = [held for held, _ in reads.orders]
        self._order_labels = [label for _, label in reads.orders]
        self._orders = [list(held) for held in self._ordered]
        self._all_keys = list(chain.from_iterable(self._orders))
        self._functions = [function for function, _ in reads.functions]
        self._code_labels = [label for _, label in reads.functions]
        self._codes = list(map(_code_of, self._functions))
        self._absent = [(namespace.keys(), names) for namespace, names in reads.absent]
        self._owners = [owner for owner, _ in reads.owners]
        self._kind_labels = [label for _, label in reads.owners]
        self._kinds = list(map(type, self._owners))
        self._has_odd_kinds = any(type(kind).__eq__ is not type.__eq__ for kind in self._kinds)
        self._hooks = [hooks for hooks, _ in reads.hooks]
        self._hook_labels = [label for _, label in reads.hooks]
        self._num_hooks = list(map(len, self._hooks))
        self._removable = [(hooks, len(hooks)) for hooks in self._hooks if hooks]
        self._last_hook = RemovableHandle.next_id
        places = [(at.container, at.key, at.label, False) for at in tensors]
        self._tensors = NamedTensors(places) if places else None

    def __len__(self) -> int:
        return len(self._values) + len(self._containers) + sum(map(len, self._children))

    def hold(self) -> bool:
        """Whether every value is as it was."""
        try:
            is_same = all(map(is_, map(getitem, self._holders, self._keys), self._values))
            found = [] if is_same else list(map(getitem, self._holders, self._keys))
            if self._tensors is not None and self._tensors.as_before() is None:
                return False
        except (LookupError, AttributeError, ValueError, TypeError):
            return False
        if list(map(len, self._containers)) != self._sizes or not self._has_same_hooks():
            return False
        if not self._has_same_code():
            return False
        if not all(map(eq, self._children, self._children_before)):  # modules are equal to themselves alone
            return False
        if is_same:
            return True
        if all(map(_is_equal, found, self._values)):
            self._values = found  # equal objects: the next comparison finds them by identity
            return True
        return False

    def _has_same_code(self) -> bool:
        """Whether functions, classes and the order of keys are as they were, and no built-in name is a global now."""
        if not all(map(is_, chain.from_iterable(self._ordered), self._all_keys)) and not self._has_equal_orders():
            return False
        if not all(map(is_, map(_code_of, self._functions), self._codes)):
            return False
        kinds = list(map(type, self._owners))
        if kinds != self._kinds or (self._has_odd_kinds and not all(map(is_, kinds, self._kinds))):
            return False
        return all(keys.isdisjoint(names) for keys, names in self._absent)

    def _has_equal_orders(self) -> bool:
        """Whether the keys of all dicts come in the same order: equal objects may have replaced them."""
        return all(starmap(_are_equal_keys, zip(self._ordered, self._orders, strict=True)))

    def _has_same_hooks(self) -> bool:
        """Whether no module has another hook: torch numbers all hooks of the process."""
        if any(len(hooks) != number for hooks, number in self._removable):
            return False
        if self._last_hook != RemovableHandle.next_id:
            if list(map(len, self._hooks)) != self._num_hooks:
                return False
            self._last_hook = RemovableHandle.next_id
        return True

    def difference(self) -> str | None:
        """The first value that is not as it was, in words; None if there is none."""
        reads = zip(self._holders, self._keys, self._labels, self._values, strict=True)
        if (found := first_change(starmap(Read, reads))) is not None:
            return found
        children = zip(self._children, self._children_before, self._child_labels, strict=True)
        if (other := next((label for now, before, label in children if now != before), None)) is not None:
            return other
        if self._tensors is not None and (tensor := self._tensors.other()) is not None:
            return f"{tensor}: another tensor"
        if (replaced := self._replaced() or self._reordered()) is not None:
            return replaced
        sizes = zip(
            [*self._containers, *self._hooks],
            [*self._size_labels, *self._hook_labels],
            [*self._sizes, *self._num_hooks],
            strict=True,
        )
        return next((f"{label}: {size} → {len(held)}" for held, label, size in sizes if len(held) != size), None)

    def _replaced(self) -> str | None:
        """A function that has other code, or an object that has another class."""
        codes = zip(map(_code_of, self._functions), self._codes, self._code_labels, strict=True)
        kinds = zip(map(type, self._owners), self._kinds, self._kind_labels, strict=True)
        found = next((label for now, before, label in (*codes, *kinds) if now is not before), None)
        return found or next((f"{min(keys & names)} exists now" for keys, names in self._absent if keys & names), None)

    def _reordered(self) -> str | None:
        """A dict whose keys come in another order."""
        orders = zip(self._ordered, self._orders, self._order_labels, strict=True)
        return next((label for held, before, label in orders if not _are_equal_keys(held, before)), None)


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
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return bool(exact(a) == exact(b))


def _are_equal_keys(held: Any, before: list[Any]) -> bool:
    now = list(held)
    return len(now) == len(before) and all(map(_is_equal, now, before))


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, _PLAIN) else f"another {type(value).__name__}"
    return text if len(text) < 40 else f"{text[:37]}…"
