"""Standing between a class and its callers for a while, in whatever order others do the same and stop.

Whoever replaces an attribute and puts the old one back takes later replacements away with it, or brings back one that
should be gone, unless all end in reverse order. In a notebook they do not. So an `Interposed` method is put in place
once, passes everything on while nobody wants it, and goes when it is the outermost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

_ABSENT: Final = object()


class Interposed:
    """A method of a class that tells listeners of each call.

    Args:
        owner: The class.
        name: The method.

    Attributes:
        before: Called with the arguments before the method runs, in order.
        after: Called with the result and the arguments when it has returned.
    """

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._own: Any = _ABSENT
        self._wrapper: Any = None
        self.before: tuple[Callable[..., None], ...] = ()
        self.after: tuple[Callable[..., None], ...] = ()

    @property
    def is_in_place(self) -> bool:
        """Whether calls go through it."""
        return self._wrapper is not None

    def add(self, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None) -> None:
        """Tell these of each call from now on."""
        self.before += () if before is None else (before,)
        self.after += () if after is None else (after,)
        if self._wrapper is None:
            self._put()

    def remove(self, *, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None) -> None:
        """Tell them no more; without anybody to tell, the class is as it was, if nobody else has changed it since."""
        self.before = tuple(f for f in self.before if f != before)
        self.after = tuple(f for f in self.after if f != after)
        if not self.before and not self.after:
            self._take_away()

    def _put(self) -> None:
        self._own = vars(self._owner).get(self._name, _ABSENT)
        method = getattr(self._owner, self._name)

        @functools.wraps(method)
        def told(*args: Any, **kwargs: Any) -> Any:
            for listener in self.before:
                listener(*args, **kwargs)
            result = method(*args, **kwargs)
            for listener in self.after:
                listener(result, *args, **kwargs)
            return result

        self._wrapper = told
        setattr(self._owner, self._name, told)

    def _take_away(self) -> None:
        if self._wrapper is None or vars(self._owner).get(self._name) is not self._wrapper:
            return  # somebody stands before us, and passes on to us: we pass on too
        if self._own is _ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)
        self._wrapper, self._own = None, _ABSENT


_all: dict[tuple[type, str], Interposed] = {}


def interposed(owner: type, name: str) -> Interposed:
    """The one that stands before this method."""
    return _all.setdefault((owner, name), Interposed(owner, name))
