"""C++ types as text with a place for the declarator."""

from __future__ import annotations

from typing import Final

#: Longest text of a type, characters.
MAX_TEXT: Final = 1 << 15


class UnknownNameError(Exception):
    """The name is not mangled, or has a form that is not supported."""


class CppType:
    """A C++ type in two parts, with the declarator between them: ``void (`` and ``)(int)``."""

    __slots__ = ("is_function", "left", "pack", "param", "right")

    def __init__(
        self, left: str, right: str = "", *, is_function: bool = False, pack: list[CppType] | None = None
    ) -> None:
        if len(left) + len(right) > MAX_TEXT:
            raise UnknownNameError
        self.left, self.right, self.is_function, self.pack = left, right, is_function, pack
        self.param: int | None = None  # the template parameter that it came from

    def __str__(self) -> str:
        return self.left + self.right
