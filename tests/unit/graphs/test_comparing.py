"""The compiled comparison and the Python code give the same answer, and the one that a full comparison gives."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.graphs.guards import comparing
from cudalens.graphs.guards.lookups import AttributeItems

pytestmark = pytest.mark.skipif(not comparing.is_comparing_built(), reason="the comparison was not compiled")

QUICK = settings(max_examples=examples(100), deadline=None)
OBJECTS = [object() for _ in range(3)]
TABLES = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(OBJECTS)), min_size=3, max_size=3)
KINDS = st.sampled_from([dict, OrderedDict, lambda items: MappingProxyType(dict(items))])
FIELDS = (
    "containers", "keys", "values", "sized", "sizes", "ordered", "order", "owners", "kinds", "objects", "tables"
)  # fmt: skip
METHODS = ("is_same", "has_items", "has_tables", "has_kinds", "has_sizes", "has_order")


class Owner:
    """An object with a ``__dict__``."""

    def __len__(self) -> int:
        raise ValueError("no length")


def compared(kind: Any, **fields: Any) -> Any:
    """An object that compares some fields."""
    return kind(AttributeItems, *(fields.get(name, []) for name in FIELDS))


def answer(method: Callable[[], bool]) -> Any:
    """What a comparison gives: a bool, or the class of its error."""
    try:
        return method()
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        return type(error)


class Both:
    """The compiled comparison and that in Python; their answers must be the same."""

    def __init__(self, **fields: Any) -> None:
        self._both = [compared(kind, **fields) for kind in (comparing._comparing.Compared, comparing.PythonCompared)]

    def is_same(self) -> Any:
        """The common answer of both."""
        answers = [[answer(getattr(one, name)) for name in METHODS] for one in self._both]
        assert answers[0] == answers[1]
        return answers[0][0]


def changed(table: dict[str, Any], other: dict[str, Any]) -> None:
    """Put other items into a table."""
    table.clear()
    table.update(other)


@QUICK
@given(before=TABLES, after=TABLES, kind=st.sampled_from([dict, OrderedDict]))
def test_changes_of_tables_are_found(before: Any, after: Any, kind: Any) -> None:
    tables = list(map(kind, before))
    both = Both(sized=tables, sizes=list(map(len, tables)), ordered=tables, order=[key for t in tables for key in t])
    assert both.is_same() is True
    for table, other in zip(tables, after, strict=True):
        changed(table, other)
    assert both.is_same() == (list(map(list, before)) == list(map(list, after)))
    for table, other in zip(tables, before, strict=True):
        changed(table, other)
    assert both.is_same() is True


@QUICK
@given(before=TABLES, after=TABLES, views=st.lists(st.booleans(), min_size=3, max_size=3))
def test_changes_of_items_are_found(before: Any, after: Any, views: Any) -> None:
    tables = list(map(dict, before))
    held = [MappingProxyType(table) if is_view else table for table, is_view in zip(tables, views, strict=True)]
    items = [(n, key, value) for n, table in enumerate(tables) for key, value in table.items()]
    both = Both(containers=[held[n] for n, *_ in items], keys=[k for _, k, _ in items], values=[v for *_, v in items])
    assert both.is_same() is True
    for table, other in zip(tables, after, strict=True):
        changed(table, other)
    assert (both.is_same() is True) == all(after[n].get(key) is value for n, key, value in items)
    for table, other in zip(tables, before, strict=True):
        changed(table, dict(reversed(other.items())))  # found in other places
    assert both.is_same() is True
    assert both.is_same() is True


def test_equal_objects_are_others() -> None:
    table, value = {"a": 1.0, "b": 2.0}, float("1.5")
    table["c"] = value
    both = Both(containers=[table, [value]], keys=["c", 0], values=[value, value])
    assert both.is_same() is True
    table["c"] = float("1.5")
    assert both.is_same() is False


def test_attributes_are_looked_up_in_their_owner() -> None:
    def function(value: int = 300) -> int:
        return value

    both = Both(containers=[AttributeItems(function)], keys=["__defaults__"], values=[function.__defaults__])
    assert both.is_same() is True
    function.__defaults__ = (4,)
    assert both.is_same() is False


def test_errors_of_look_ups_are_the_same() -> None:
    assert Both(containers=[{}], keys=["a"], values=[1]).is_same() is KeyError
    assert Both(containers=[[]], keys=[0], values=[1]).is_same() is IndexError
    assert Both(containers=[{}], keys=[[]], values=[1]).is_same() is TypeError
    assert Both(containers=[AttributeItems(1)], keys=["a"], values=[1]).is_same() is AttributeError
    assert Both(sized=[Owner()], sizes=[1]).is_same() is ValueError
    assert Both(objects=[1], tables=[{}]).is_same() is AttributeError


def test_a_key_with_another_hash_is_not_found() -> None:
    class Key:
        number = 1

        def __hash__(self) -> int:
            return self.number

    key = Key()
    both = Both(containers=[{key: 1}], keys=[key], values=[1])
    assert both.is_same() is True
    key.number = 2
    assert both.is_same() is KeyError


def test_classes_and_attributes_of_objects() -> None:
    owner, other = Owner(), Owner()
    both = Both(owners=[owner, 1], kinds=[Owner, int], objects=[owner], tables=[owner.__dict__])
    assert both.is_same() is True
    before, owner.__dict__ = owner.__dict__, other.__dict__
    assert both.is_same() is False
    owner.__dict__ = before
    assert both.is_same() is True
    assert Both(owners=[True], kinds=[int]).is_same() is False


def test_what_is_compared_is_freed_with_it() -> None:
    owner = Owner()
    owner.comparison = compared(comparing._comparing.Compared, owners=[owner], kinds=[Owner])
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


def test_wrong_arguments_are_refused() -> None:
    kind = comparing._comparing.Compared
    with pytest.raises(ValueError, match="the lengths differ"):
        compared(kind, sized=[[]])
    with pytest.raises(TypeError, match="not iterable"):
        compared(kind, sized=3)
    with pytest.raises(TypeError):
        compared(kind, sized=[[]], sizes=["a"])
    with pytest.raises(TypeError, match="expected 12 arguments"):
        kind()
