"""Attributes that are replaced for a while, and put back."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

_ABSENT: Final = object()


class Patches:
    """Replaces attributes and items, and puts all of them back in reverse order.

    What an owner merely inherited, or did not have, is deleted again, so that its own ``__dict__`` is as it was.
    """

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, str, Any]] = []
        self._items: list[tuple[MutableMapping[Any, Any], Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner`'s own attribute `name`; returns what stood there before, None where nothing did."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._attributes.append((owner, name, before))
        return None if before is _ABSENT else before

    def set_item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Replace an item of a mapping."""
        self._items.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def restore(self) -> None:
        """Put everything back; the first error is raised after the rest has been put back."""
        errors: list[Exception] = []
        while self._attributes or self._items:
            try:
                self._restore_last()
            except Exception as error:  # everything else still has to go back
                errors.append(error)
        if errors:
            raise errors[0]

    def _restore_last(self) -> None:
        if self._items:
            mapping, key, value = self._items.pop()
            if value is _ABSENT:
                mapping.pop(key, None)
            else:
                mapping[key] = value
            return
        owner, name, before = self._attributes.pop()
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
