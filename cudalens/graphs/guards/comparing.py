"""Compare many objects with those of before by identity: compiled, or in Python code with the same result.

`native/comparing.c` is optional.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from operator import getitem, is_
from typing import Any, Final

try:
    from cudalens.graphs.guards import _comparing
except ImportError:  # built without a compiler
    _comparing = None  # type: ignore[assignment]

#: Set to 0 before cudalens is imported to compare with Python code alone.
SWITCH: Final = "CUDALENS_COMPARING"

_END: Final = object()
_attribute_of: Final[Callable[[Any, str], Any]] = object.__getattribute__


def is_comparing_built() -> bool:
    """Whether the compiled class is there."""
    return _comparing is not None


def is_comparing_in_use() -> bool:
    """Whether the compiled class compares."""
    return is_comparing_built() and os.environ.get(SWITCH) != "0"


class PythonCompared:
    """What the compiled class does, in Python.

    Args:
        attribute_items: The class of containers that look up attributes of their ``_owner``.
        containers: Where values are looked up; errors of a look-up are passed on.
        keys: The key of each value in its container.
        values: What was there.
        sized: Containers whose length is compared.
        sizes: Their lengths.
        ordered: Tables whose keys are compared, in their order.
        order: The keys of all of them, one table behind another.
        owners: Objects whose class is compared.
        kinds: Their classes.
        objects: Objects whose ``__dict__`` is compared.
        tables: The ``__dict__`` of each.
    """

    def __init__(
        self, attribute_items: type, containers: Iterable[Any], keys: Iterable[Any], values: Iterable[Any],
        sized: Iterable[Any], sizes: Iterable[int], ordered: Iterable[Any], order: Iterable[Any],
        owners: Iterable[Any], kinds: Iterable[type], objects: Iterable[Any], tables: Iterable[dict[str, Any]], /,
    ) -> None:  # fmt: skip
        self._containers, self._keys, self._values = list(containers), list(keys), list(values)
        self._sized, self._sizes = list(sized), list(sizes)
        self._ordered, self._order = list(ordered), list(order)
        self._owners, self._kinds = list(owners), list(kinds)
        self._objects, self._tables = list(objects), list(tables)

    def is_same(self) -> bool:
        """Whether nothing changed."""
        return self.has_items() and self.has_tables() and self.has_kinds() and self.has_sizes() and self.has_order()

    def has_items(self) -> bool:
        """Whether each container has its value at its key."""
        return all(map(is_, map(getitem, self._containers, self._keys), self._values))

    def has_sizes(self) -> bool:
        """Whether each container has its length."""
        return list(map(len, self._sized)) == self._sizes

    def has_order(self) -> bool:
        """Whether the keys of all tables, one after another, are these."""
        found = chain(chain.from_iterable(self._ordered), repeat(_END, 1))
        return all(map(is_, self._order, found)) and next(found, None) is _END

    def has_kinds(self) -> bool:
        """Whether each object has its class."""
        return all(map(is_, map(type, self._owners), self._kinds))

    def has_tables(self) -> bool:
        """Whether each object has its ``__dict__``."""
        return all(map(is_, map(_attribute_of, self._objects, repeat("__dict__")), self._tables))


#: The class that compares.
Compared: Final[type[PythonCompared]] = _comparing.Compared if is_comparing_in_use() else PythonCompared  # type: ignore[assignment]
