"""Temporarily replaced attributes are restored exactly."""

from __future__ import annotations

import types

import pytest

from cudalens.virtual.patching import Patches


class Base:
    inherited = "base"


class Owner(Base):
    own = "own"


def test_own_inherited_and_new_attributes_are_put_back():
    before = dict(vars(Owner))
    patches = Patches()
    for name in ("own", "inherited", "new"):
        patches.set(Owner, name, "patched")
    patches.set(Owner, "own", "patched twice")
    assert (Owner.own, Owner.inherited, Owner.new) == ("patched twice", "patched", "patched")
    patches.restore()
    assert dict(vars(Owner)) == before
    assert Owner.inherited == "base"


def test_items_and_modules_are_put_back():
    module, table = types.ModuleType("m"), {"a": 1}
    module.f = len
    patches = Patches()
    patches.set(module, "f", max)
    patches.set(module, "g", min)
    patches.set_item(table, "a", 2)
    patches.set_item(table, "b", 3)
    patches.restore()
    assert table == {"a": 1}
    assert module.f is len
    assert not hasattr(module, "g")


def test_an_error_on_the_way_back_leaves_nothing_else_patched():
    patches = Patches()
    patches.set(Owner, "own", "patched")
    patches.set(Owner, "new", "patched")
    del Owner.new  # removed by other code
    with pytest.raises(AttributeError):
        patches.restore()
    assert Owner.own == "own"
