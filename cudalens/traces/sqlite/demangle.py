"""Demangle C++ names of kernels, by the Itanium C++ ABI's grammar.

https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling; in the notation of GNU's ``c++filt`` and torch. C libraries
for this have no limits: a crafted name makes them use all memory. Here depth, steps and length are limited, and a name
that cannot be parsed to its end is returned unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cudalens.traces.sqlite.cpp_types import CppType, UnknownNameError
from cudalens.traces.sqlite.demangle_tables import BUILTINS, EXTENDED, LITERALS, OPERATORS, QUALIFIERS, STANDARD

_MAX_MANGLED: Final = 1 << 14
_MAX_DEPTH: Final = 150
_MAX_STEPS: Final = 1 << 16


@lru_cache(maxsize=1 << 12)
def demangled(name: str) -> str:
    """The demangled form of `name`; `name` itself if it is not a mangled name."""
    if not name.startswith("_Z") or len(name) > _MAX_MANGLED:
        return name
    try:
        parser = _Parser(name)
        parser.at = 2
        text = parser.encoding(is_whole=True)
        return text if parser.at == len(name) else name
    except (UnknownNameError, IndexError, ValueError):
        return name


class _Parser:
    """Reads one name from left to right; `at` is the next character."""

    def __init__(self, name: str) -> None:
        self.name, self.at = name, 0
        self._seen: list[CppType] = []
        self._args: list[CppType] = []
        self._depth = self._steps = 0
        self._pack_at: int | None = None
        self._pack_size: int | None = None
        self._lambdas = 0

    def encoding(self, *, is_whole: bool = False) -> str:
        """A function with its parameters, or a variable; with its result type if it is the whole name."""
        self._enter()
        if self._peek() in "TG":
            raise UnknownNameError  # tables and thunks: no kernel has such a name
        name, suffix, has_args, is_plain = self._name()
        if self.at >= len(self.name) or self._peek() in "E.":
            text = name
        else:
            result = self._type() if has_args and is_plain else None
            text = f"{name}({self._parameters()}){suffix}"
            text = text if result is None or not is_whole else f"{_spaced(result.left)}{text}{result.right}"
        self._depth -= 1
        return str(CppType(text))

    def _enter(self) -> None:
        self._depth += 1
        self._steps += 1
        if self._depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise UnknownNameError

    def _peek(self) -> str:
        return self.name[self.at]

    def _take(self, text: str) -> bool:
        if self.name.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise UnknownNameError

    def _number(self) -> int:
        start = self.at
        while self.at < len(self.name) and self._peek() in "0123456789":
            self.at += 1
        return int(self.name[start : self.at])

    def _sequence(self, base: int) -> int:
        """A number that ends in ``_``: no digits are 0, and n is n + 1."""
        start = self.at
        while self._peek() != "_":
            self.at += 1
        text = self.name[start : self.at]
        self.at += 1
        if len(text) > 6:
            raise UnknownNameError
        return int(text, base) + 1 if text else 0

    def _name(self) -> tuple[str, str, bool, bool]:
        """A name, its function qualifiers, whether it ends in template arguments, whether it has a result type."""
        self._enter()
        if self._take("N"):
            found = self._nested()
        elif self._take("Z"):
            found = self._local()
        else:
            found = self._unscoped()
        self._depth -= 1
        return found

    def _unscoped(self) -> tuple[str, str, bool, bool]:
        if self._peek() == "S" and self.name[self.at + 1] != "t":
            text = str(self._substitution())
            is_plain = True
        else:
            prefix = "std::" if self._take("St") else ""
            part, is_plain = self._unqualified("")
            text = prefix + part
            if self.at < len(self.name) and self._peek() == "I":
                self._seen.append(CppType(text))
        has_args = self.at < len(self.name) and self._peek() == "I"
        if has_args:
            text += self._template_args()
        return text, "", has_args, is_plain

    def _local(self) -> tuple[str, str, bool, bool]:
        outer = self._args
        text = self.encoding()
        self._expect("E")
        if self._take("s"):
            entity: tuple[str, str, bool, bool] = ("string literal", "", False, True)
        else:
            if self._take("d"):
                self._sequence(10)
            entity = self._name()
        if self.at < len(self.name) and self._take("_"):
            self._take("_")
            self._number()
            self._take("_")
        self._args = self._args if entity[2] else outer or self._args
        return f"{text}::{entity[0]}", *entity[1:]

    def _nested(self) -> tuple[str, str, bool, bool]:
        suffix = self._function_qualifiers()
        text, last, has_args, is_plain = "", "", False, True
        while not self._take("E"):
            self._steps += 1
            if self._peek() == "S" and self.name[self.at + 1] != "t":
                text = str(self._substitution())
                last, has_args = text.rsplit("::", 1)[-1], False
                continue
            if self._peek() == "I":
                text += self._template_args()
                has_args = True
            elif self._take("St"):
                text, last = "std", "std"
                continue
            elif self._peek() == "T":
                text = last = str(self._template_param())
            elif self._take("M"):
                continue  # of a data member, before a lambda in its initialiser
            else:
                part, is_plain = self._unqualified(last)
                text = f"{text}::{part}" if text else part
                last, has_args = part, False
            if self._peek() != "E":
                self._seen.append(CppType(text))
        return text, suffix, has_args, is_plain

    def _function_qualifiers(self) -> str:
        suffix = ""
        for letter, word in (("r", " restrict"), ("V", " volatile"), ("K", " const"), ("R", " &"), ("O", " &&")):
            suffix += word if self._take(letter) else ""
        return suffix

    def _unqualified(self, enclosing: str) -> tuple[str, bool]:
        """One part of a name, and whether a function of that name has a result type written out."""
        letter = self._peek()
        self._take("L")  # internal linkage
        if self._peek().isdigit():
            return self._tagged(self._source_name()), True
        if letter in "CD" and self.name[self.at + 1] in "012345":
            self.at += 2
            base = enclosing.split("<", 1)[0]
            return self._tagged(f"~{base}" if letter == "D" else base), False
        if self._take("Ut"):
            return f"{{unnamed type#{self._sequence(10) + 1}}}", True
        if self._take("Ul"):
            self._lambdas += 1
            parameters = self._parameters(until="E")
            self._lambdas -= 1
            self._expect("E")
            return f"{{lambda({parameters})#{self._sequence(10) + 1}}}", True
        return self._operator()

    def _operator(self) -> tuple[str, bool]:
        if self._take("cv"):
            return f"operator {self._type()}", False
        if self._take("li"):
            return f'operator"" {self._source_name()}', True
        sign = OPERATORS.get(self.name[self.at : self.at + 2])
        if sign is None:
            raise UnknownNameError
        self.at += 2
        return self._tagged(f"operator{' ' if sign[0].isalpha() else ''}{sign}"), True

    def _source_name(self) -> str:
        length = self._number()
        text = self.name[self.at : self.at + length]
        if not 0 < length == len(text):
            raise UnknownNameError
        self.at += length
        return "(anonymous namespace)" if text.startswith(("_GLOBAL__N", "_GLOBAL_.N", "_GLOBAL_$N")) else text

    def _tagged(self, text: str) -> str:
        while self.at < len(self.name) and self._take("B"):
            text += f"[abi:{self._source_name()}]"
        return text

    def _substitution(self) -> CppType:
        self._expect("S")
        if (known := STANDARD.get(self._peek())) is not None:
            self.at += 1
            return CppType(self._tagged(known))
        found = self._seen[self._sequence(36)]
        # A substitution of a template parameter refers to the argument of the current template.
        return found if found.param is None else self._argument(found.param)

    def _template_param(self) -> CppType:
        self._expect("T")
        return self._argument(self._sequence(10))

    def _argument(self, index: int) -> CppType:
        """The argument of the innermost template, as a type."""
        if self._lambdas:
            return CppType(f"auto:{index + 1}")
        if index >= len(self._args):
            raise UnknownNameError
        picked = self._picked(self._args[index])
        found = CppType(picked.left, picked.right, is_function=picked.is_function, pack=picked.pack)
        found.param = index
        return found

    def _picked(self, found: CppType) -> CppType:
        """The element of a pack that is being expanded."""
        if found.pack is None or self._pack_at is None:
            return found
        self._pack_size = len(found.pack)
        return found.pack[self._pack_at] if self._pack_at < len(found.pack) else CppType("")

    def _template_args(self) -> str:
        self._enter()
        self._expect("I")
        args: list[CppType] = []
        while not self._take("E"):
            args.append(self._template_arg())
        self._depth -= 1
        self._args = args
        text = ", ".join(_flat(args))
        return str(CppType(f"<{text} >" if text.endswith(">") else f"<{text}>"))

    def _template_arg(self) -> CppType:
        outer = self._args
        if self._take("J"):
            pack: list[CppType] = []
            while not self._take("E"):
                pack.append(self._template_arg())
            found = CppType(", ".join(_flat(pack)), pack=pack)
        elif self._peek() == "L":
            found = CppType(self._literal())
        elif self.name.startswith("XadL_Z", self.at):
            self.at += 3
            text = self._literal()
            self._expect("E")
            found = CppType(f"&({text})" if "(" in text else f"&{text}")
        elif self._take("X"):
            raise UnknownNameError  # an expression
        else:
            found = self._type()
        self._args = outer
        return found

    def _literal(self) -> str:
        self._expect("L")
        if self._take("_Z"):
            text = self.encoding()
            self._expect("E")
            return text
        kind = str(self._type())
        sign = "-" if self._take("n") else ""
        end = self.name.index("E", self.at)
        value = self.name[self.at : end]
        self.at = end + 1
        if kind == "bool" and value in "01":
            return ("false", "true")[int(value)]
        if kind in LITERALS and value.isdigit():
            return f"{sign}{value}{LITERALS[kind]}"
        if kind in ("float", "double", "long double"):
            return f"({kind})[{value}]"
        return f"({kind}){sign}{value}"

    def _parameters(self, until: str = "") -> str:
        """Types up to the end of the name, or a letter; a single ``void`` means no parameters."""
        found: list[CppType] = []
        while self.at < len(self.name) and self._peek() not in ("E", ".", *until):
            if self._peek() in "RO" and self.name[self.at + 1 : self.at + 2] == "E":
                break
            found.append(self._type())
        texts = _flat(found)
        return "" if texts == ["void"] else str(CppType(", ".join(texts)))

    def _type(self) -> CppType:
        self._enter()
        found = self._any_type()
        self._depth -= 1
        return found

    def _any_type(self) -> CppType:
        letter = self._peek()
        if letter in BUILTINS:
            self.at += 1
            return CppType(BUILTINS[letter])
        if letter == "D" and (known := EXTENDED.get(self.name[self.at : self.at + 2])) is not None:
            self.at += 2
            return CppType(known)
        if self._take("Dp"):
            return self._expanded()
        if letter == "S" and self.name[self.at + 1] != "t":
            return self._with_args(self._substitution())
        if letter == "u":
            self.at += 1
            found = CppType(self._source_name())
        elif letter == "T":
            found = self._template_param()
            self._seen.append(found)
            return self._with_args(found)
        else:
            found = self._compound(letter)
        self._seen.append(found)
        return found

    def _with_args(self, found: CppType) -> CppType:
        """A template from a substitution or a parameter, with its arguments if they follow."""
        if self.at < len(self.name) and self._peek() == "I":
            outer = self._args
            found = CppType(str(found) + self._template_args())
            self._args = outer
            self._seen.append(found)
        return found

    def _compound(self, letter: str) -> CppType:
        if letter in "PRO":
            self.at += 1
            return _pointer(self._type(), {"P": "*", "R": "&", "O": "&&"}[letter])
        if letter in "rVK":
            return self._qualified()
        if letter == "F":
            return self._function()
        if letter == "A":
            return self._array()
        if letter == "M":
            self.at += 1
            owner, member = self._type(), self._type()
            return _pointer(member, f"{'' if member.is_function else ' '}{owner}::*")
        if letter == "D" or letter in "GUC":
            raise UnknownNameError  # decltype, vectors, noexcept functions, vendors' qualifiers
        outer = self._args
        found = CppType(self._name()[0])
        self._args = outer
        return found

    def _qualified(self) -> CppType:
        words = ""
        while self._peek() in "rVK":
            words = f" {QUALIFIERS[self._peek()]}" + words
            self.at += 1
        inner = self._type()
        if inner.is_function:
            return CppType(inner.left, inner.right + words, is_function=True)
        return CppType(inner.left if inner.left.endswith(words) else inner.left + words, inner.right)

    def _function(self) -> CppType:
        self._expect("F")
        self._take("Y")
        result = self._type()
        parameters = self._parameters()
        suffix = " &" if self._take("R") else " &&" if self._take("O") else ""
        self._expect("E")
        return CppType(_spaced(result.left), f"({parameters}){suffix}{result.right}", is_function=True)

    def _array(self) -> CppType:
        self._expect("A")
        size = str(self._number()) if self._peek().isdigit() else ""
        self._expect("_")
        inner = self._type()
        return CppType(inner.left, f" [{size}]{inner.right.removeprefix(' ')}")

    def _expanded(self) -> CppType:
        """A pattern that contains a pack, repeated for each element of the pack."""
        start, seen, before = self.at, len(self._seen), self._pack_at
        found: list[CppType] = []
        self._pack_at, self._pack_size = 0, None
        first = self._type()
        size = self._pack_size
        kept, end = self._seen[seen:], self.at
        for i in range(size or 0):
            self._pack_at, self.at = i, start
            del self._seen[seen:]
            found.append(self._type())
        self._seen[seen:] = kept
        self._pack_at, self.at = before, end
        pack = found if size is not None else [first]
        packed = CppType(", ".join(_flat(pack)), pack=pack)
        self._seen.append(packed)
        return packed


def _flat(args: list[CppType]) -> list[str]:
    """Texts of arguments, with packs expanded."""
    return [text for arg in args for text in ([str(arg)] if arg.pack is None else _flat(arg.pack))]


def _spaced(left: str) -> str:
    return left if left.endswith(("(", "(*", "(&")) else f"{left} "


def _pointer(inner: CppType, sign: str) -> CppType:
    if inner.is_function:
        return CppType(f"{inner.left}({sign}", f"){inner.right}")
    if inner.right.startswith(" ["):
        return CppType(f"{inner.left} ({sign}", f"){inner.right}")
    if sign in ("&", "&&") and inner.left.endswith("&"):  # references collapse
        return CppType(
            inner.left.rstrip("&") + ("&&" if sign == "&&" and inner.left.endswith("&&") else "&"), inner.right
        )
    return CppType(inner.left + sign, inner.right)
