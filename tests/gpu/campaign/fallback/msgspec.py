"""The part of msgspec that cudalens uses on a live device, in plain Python, for machines without msgspec.

`campaign.packages` puts this folder on the path of its processes if msgspec is not installed. It is slow, and it does
not read trace files. ``tests/unit/test_campaign.py`` compares it with msgspec.
"""

from __future__ import annotations

import inspect
import json as _json
import math
import sys
import types
import typing
from typing import Any, ClassVar


class MsgspecError(Exception):
    """As in msgspec."""


class DecodeError(MsgspecError):
    """As in msgspec: the text is not JSON."""


class ValidationError(DecodeError):
    """As in msgspec: the value has another type."""


class Raw(bytes):
    """As in msgspec: JSON text that is not decoded."""


class Meta:
    """As in msgspec: limits of a number, here without effect."""

    def __init__(self, **limits: Any) -> None:
        self.limits = limits


class _Field:
    """A field of a struct: its name, its name in JSON, its type, and how its default is made."""

    def __init__(self, default: Any = None, default_factory: Any = None, name: str | None = None) -> None:
        self.default, self.default_factory, self.encode_name = default, default_factory, name
        self.name = ""
        self.type: Any = None
        self.has_default = True

    def make(self) -> Any:
        if self.default_factory is not None:
            return self.default_factory()
        return type(self.default)(self.default) if isinstance(self.default, list | dict | set) else self.default


def field(*, default: Any = None, default_factory: Any = None, name: str | None = None) -> Any:
    """As in msgspec."""
    return _Field(default, default_factory, name)


class Struct:
    """As in msgspec: a class whose annotations are its fields."""

    _own: tuple[_Field, ...] = ()
    _options: ClassVar[dict[str, Any]] = {}
    __struct_fields__: tuple[str, ...] = ()
    __struct_encode_fields__: tuple[str, ...] = ()

    def __init_subclass__(cls, rename: Any = None, **options: Any) -> None:
        super().__init_subclass__()
        found = []
        for name in inspect.get_annotations(cls):
            given = cls.__dict__.get(name, _MISSING)
            one = given if isinstance(given, _Field) else _Field(given)
            one.name, one.has_default = name, given is not _MISSING
            one.encode_name = one.encode_name or (rename or {}).get(name, name)
            if given is not _MISSING:
                delattr(cls, name)
            found.append(one)
        cls._own = tuple(found)
        cls._options = {**cls._options, **options}
        names = [*getattr(cls, "__struct_fields__", ()), *(one.name for one in found)]
        cls.__struct_fields__ = tuple(dict.fromkeys(names))
        cls.__struct_encode_fields__ = tuple(one.encode_name or "" for one in found)

    def __init__(self, *values: Any, **named: Any) -> None:
        known = _fields(type(self))
        given = dict(zip((one.name for one in known), values, strict=False)) | named
        if unknown := given.keys() - {one.name for one in known}:
            raise TypeError(f"unexpected arguments: {', '.join(unknown)}")
        for one in known:
            if one.name not in given and not one.has_default:
                raise TypeError(f"missing argument: {one.name}")
            object.__setattr__(self, one.name, given[one.name] if one.name in given else one.make())

    def __setattr__(self, name: str, value: Any) -> None:
        if self._options.get("frozen"):
            raise AttributeError(f"immutable type: {type(self).__name__!r}")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


_MISSING: Any = object()


def _fields(struct: type[Struct]) -> list[_Field]:
    found: dict[str, _Field] = {}
    for base in reversed(struct.__mro__):
        for one in getattr(base, "_own", ()) if "_own" in base.__dict__ else ():
            if one.type is None:
                one.type = _evaluated(base, inspect.get_annotations(base)[one.name])
            found[one.name] = one
    return list(found.values())


def _evaluated(base: type, written: Any) -> Any:
    """The type of an annotation, which is text in a module with postponed annotations."""
    return eval(written, vars(sys.modules[base.__module__])) if isinstance(written, str) else written


def defstruct(name: str, fields: Any, *, rename: Any = None, **options: Any) -> Any:
    """As in msgspec."""
    space: dict[str, Any] = {"__annotations__": {one[0]: one[1] for one in fields}, "__module__": __name__}
    space |= {one[0]: one[2] for one in fields if len(one) > 2}
    return types.new_class(name, (Struct,), {"rename": rename, **options}, lambda body: body.update(space))


def to_builtins(value: Any) -> Any:
    """As in msgspec: structs become dictionaries."""
    if isinstance(value, Struct):
        omits = value._options.get("omit_defaults")
        pairs = [(one, getattr(value, one.name)) for one in _fields(type(value))]
        return {
            one.encode_name: to_builtins(found)
            for one, found in pairs
            if not (omits and one.has_default and found == one.make())
        }
    if isinstance(value, dict):
        return {str(key) if isinstance(key, int) else key: to_builtins(one) for key, one in value.items()}
    if isinstance(value, Raw):
        return _json.loads(value or "null")
    if isinstance(value, list | tuple | set | frozenset):
        return (tuple if isinstance(value, tuple) else list)(to_builtins(one) for one in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return vars(value) if hasattr(value, "__dataclass_fields__") else value


def convert(value: Any, kind: Any) -> Any:
    """As in msgspec: a value of JSON as the type, or a `ValidationError`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if kind is Raw:
        return Raw(json.encode(value))
    if origin in (typing.Union, types.UnionType):
        return _first(value, args)
    if origin is typing.Annotated:
        return convert(value, args[0])
    if origin is typing.Literal:
        return value if value in args else _invalid(value, kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct(value, kind)
    if origin in (list, tuple) or kind in (list, tuple):
        return _sequence(value, origin or kind, args)
    if origin is dict or kind is dict:
        return _dictionary(value, args or (Any, Any))
    return _plain(value, kind)


def _first(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        try:
            return convert(value, kind)
        except ValidationError:
            continue
    return _invalid(value, kinds)


def _struct(value: Any, kind: type[Struct]) -> Any:
    if not isinstance(value, dict):
        return _invalid(value, kind)
    known = {one.encode_name: one for one in _fields(kind)}
    if kind._options.get("forbid_unknown_fields") and value.keys() - known.keys():
        return _invalid(value, kind)
    if any(not one.has_default and name not in value for name, one in known.items()):
        return _invalid(value, kind)
    return kind(**{known[name].name: convert(one, known[name].type) for name, one in value.items() if name in known})


def _sequence(value: Any, kind: type, args: tuple[Any, ...]) -> Any:
    if not isinstance(value, list):
        return _invalid(value, kind)
    if kind is tuple and args and args[-1] is not ...:
        if len(args) != len(value):
            return _invalid(value, kind)
        return tuple(convert(one, each) for one, each in zip(value, args, strict=True))
    return kind(convert(one, args[0] if args else Any) for one in value)


def _dictionary(value: Any, args: tuple[Any, ...]) -> Any:
    if not isinstance(value, dict):
        return _invalid(value, dict)
    keys = (lambda key: int(key)) if args[0] is int else (lambda key: key)
    return {keys(key): convert(one, args[1]) for key, one in value.items()}


def _plain(value: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = type(None) if kind is None else kind
    is_bool = isinstance(value, bool) and wanted is not bool
    return value if isinstance(value, wanted) and not is_bool else _invalid(value, kind)


def _invalid(value: Any, kind: Any) -> Any:
    raise ValidationError(f"Expected {kind}, got {type(value).__name__}")


def _decode(text: Any, kind: Any = Any, float_hook: Any = None) -> Any:
    try:
        value = _json.loads(text, parse_float=float_hook)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from error
    return convert(value, kind)


class _Decoder:
    def __init__(self, type: Any = Any, *, float_hook: Any = None) -> None:
        self.type, self.float_hook = type, float_hook

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def decode(self, text: Any) -> Any:
        return _decode(text, self.type, self.float_hook)


class _Encoder:
    def encode(self, value: Any) -> bytes:
        return _json.dumps(to_builtins(value), separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _format(text: Any, *, indent: int = 2) -> bytes:
    style: Any = {"separators": (",", ":")} if indent < 0 else {"indent": indent}
    return _json.dumps(_decode(text), ensure_ascii=False, **style).encode()


json = types.SimpleNamespace(
    decode=lambda text, *, type=Any: _decode(text, type),
    encode=_Encoder().encode,
    format=_format,
    Decoder=_Decoder,
    Encoder=_Encoder,
)

structs = types.ModuleType("msgspec.structs")
structs.fields = _fields  # type: ignore[attr-defined]
structs.replace = lambda value, **changes: type(value)(**{**vars(value), **changes})  # type: ignore[attr-defined]
if __name__ == "msgspec":
    sys.modules["msgspec.structs"] = structs
