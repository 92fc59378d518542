"""Standing between a class and its callers for a while, in whatever order others do the same and stop.

Whoever replaces an attribute and puts the old one back takes later replacements away with it, or brings back one that
should be gone, unless all end in reverse order. In a notebook they do not. So an `Interposed` method is put in place
once, passes everything on while nobody wants it, and goes when it is the outermost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

#: Stands for an attribute that a class does not have itself.
ABSENT: Final = object()


#: Where a wrapper of ours keeps what the class had before it.
_BENEATH: Final = "cudalens_beneath"


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
        self._own: Any = ABSENT
        self._method: Any = None
        self._wrapper: Any = None
        self.before: tuple[Callable[..., None], ...] = ()
        self.after: tuple[Callable[..., None], ...] = ()

    @property
    def is_in_place(self) -> bool:
        """Whether calls go through it."""
        return self._wrapper is not None

    @property
    def is_outermost(self) -> bool:
        """Whether it is what the class has now."""
        return self._wrapper is not None and vars(self._owner).get(self._name) is self._wrapper

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

    def rest_on(self, own: Any) -> None:
        """Stand before `own` from now on: who stood there has gone, and leaves this in the class.

        Args:
            own: What the class itself has beneath, or `ABSENT`.
        """
        while hasattr(own, _BENEATH):  # one of ours that nobody is told by any more
            own = getattr(own, _BENEATH)
        self._own = own
        self._method = _inherited(self._owner, self._name) if own is ABSENT else own

    def tidy(self) -> None:
        """Leave the class, where nobody is told any more and somebody who stood before it has gone."""
        if not self.before and not self.after:
            self._take_away()

    def _put(self) -> None:
        self._own = vars(self._owner).get(self._name, ABSENT)
        self._method = getattr(self._owner, self._name)
        beneath = self._method

        @functools.wraps(beneath)
        def told(*args: Any, **kwargs: Any) -> Any:
            if self._wrapper is not told:  # put in place anew above this one, which only passes on
                return beneath(*args, **kwargs)
            for listener in self.before:
                listener(*args, **kwargs)
            result = self._method(*args, **kwargs)
            for listener in self.after:
                listener(result, *args, **kwargs)
            return result

        setattr(told, _BENEATH, self._own)
        self._wrapper = told
        setattr(self._owner, self._name, told)

    def _take_away(self) -> None:
        if not self.is_outermost:
            return  # somebody stands before us, and passes on to us: we pass on too
        if self._own is ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)
        self._wrapper, self._method, self._own = None, None, ABSENT


def _inherited(owner: type, name: str) -> Any:
    return next(vars(base)[name] for base in owner.__mro__[1:] if name in vars(base))


_all: dict[tuple[type, str], Interposed] = {}


def interposed(owner: type, name: str) -> Interposed:
    """The one that stands before this method."""
    return _all.setdefault((owner, name), Interposed(owner, name))


def put_back(owner: Any, name: str, value: Any) -> None:
    """Give a class back what it had, and leave in place whoever came to stand before it since.

    Args:
        owner: A class, or anything else with attributes.
        name: The attribute.
        value: What it was, or `ABSENT`.
    """
    standing = _all.get((owner, name)) if isinstance(owner, type) else None
    if standing is not None and standing.is_outermost and (standing.before or standing.after):
        standing.rest_on(value)
        return
    if value is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    if standing is not None:
        standing.tidy()
