"""Flatten a call's arguments into leaves, and compute the key that calls of the same kind share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from numbers import Number, Real
from operator import is_
from typing import Any, Final, cast

import torch
from torch.utils import _pytree as pytree

from cudalens.device.tensors import PLAIN_TYPES
from cudalens.errors import GraphError
from cudalens.graphs.guards.ambient import changed_setting, settings
from cudalens.graphs.guards.tensor_forms import TensorForms
from cudalens.graphs.structure import Structure, flatten_tree, is_size, keys_in, labels_in, unflatten_tree

_PLAIN: Final = (torch.Tensor, int, float, bool, str, type(None))

#: Modules whose classes compare by value and without code of the program.
_OF_VALUES: Final = ("builtins", "torch", "datetime", "decimal", "fractions", "pathlib", "uuid")

#: Modules whose numbers hold nothing besides their value.
_OF_NUMBERS: Final = (*_OF_VALUES, "numpy")


class Identity:
    """An object in a key. Only the same object is equal: its class may compare a part of it, or return a tensor."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value


class Leaves(list[Any]):
    """The leaves of a call, with the arguments that they are part of: a call without a graph gets these themselves.

    Attributes:
        given: Positional and keyword arguments; None where the leaves alone are known.
    """

    def __init__(self, leaves: Iterable[Any], given: tuple[tuple[Any, ...], dict[str, Any]] | None) -> None:
        super().__init__(leaves)
        self.given = given
        self._original = tuple(self)

    def copy(self) -> Leaves:
        """The same leaves of the same arguments."""
        made = Leaves(self, self.given)
        made._original = self._original
        return made

    def clear(self) -> None:
        """Forget the leaves and the arguments."""
        super().clear()
        self.given, self._original = None, ()

    def are_given(self) -> bool:
        """Whether no leaf was replaced by another tensor."""
        return self.given is not None and len(self) == len(self._original) and all(map(is_, self, self._original))

    def changed(self, spec: Any) -> int | None:
        """Position of the first leaf that a call put into, or took out of, a list or dict; None if there is none."""
        if self.given is None or spec is None:
            return None
        now, spec_now = flatten_tree(self.given)
        differ = (n for n, (a, b) in enumerate(zip(now, self._original, strict=False)) if a is not b)
        found = next(differ, None)
        return len(self) - 1 if found is None and (spec_now != spec or len(now) != len(self._original)) else found


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call's arguments.

    Attributes:
        leaves: Tensors and everything else, flat.
        spec: Their structure; None for positional leaves alone.
        key: Equal for calls whose arguments one recording can serve.
    """

    leaves: Leaves
    spec: Any
    key: tuple[Any, ...]


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Take a call's arguments apart.

    Raises:
        TypeError: An argument that is no tensor cannot be hashed.
    """
    if not kwargs and all(isinstance(arg, _PLAIN) for arg in args):
        leaves, spec = list(args), None
    else:
        leaves, spec = flatten_tree((args, kwargs))
    keys = () if spec is None else tuple(map(_typed, keys_in(spec)))
    key = ((spec, keys, _repeated(leaves)), *modes(), *map(key_of, leaves))
    hash(key)
    return Arguments(Leaves(leaves, None if spec is None else (args, kwargs)), spec, key)


class PlainArguments:
    """Arguments that are positional tensors: compared without computing the key of a call.

    Args:
        given: The arguments.
    """

    def __init__(self, given: Arguments) -> None:
        self._forms = TensorForms(given.leaves)
        self._devices = [leaf.device for leaf in given.leaves]
        self._modes = given.key[1 : len(given.key) - len(given.leaves)]

    @classmethod
    def of(cls, given: Arguments) -> PlainArguments | None:
        """The same, or None for other arguments: also for tensors with attributes or hooks."""
        is_known = given.spec is None and given.leaves
        is_plain = all(isinstance(leaf, torch.Tensor) and not _is_marked(leaf) for leaf in given.leaves)
        return cls(given) if is_known and is_plain else None

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the key of a call is the same; False also where that is not known without computing it."""
        return (
            not kwargs
            and len(args) == len(self._devices)
            and self._forms.are_as_before(args)
            and [leaf.device for leaf in args] == self._devices
            and not any(map(_is_marked, args))
            and modes() == self._modes
        )


def _is_marked(tensor: Any) -> bool:
    """Whether a tensor has attributes, hooks that a backward calls, or a class of its own, which may count reads."""
    if type(tensor) not in PLAIN_TYPES:
        return True
    return bool(tensor.__dict__ or tensor._backward_hooks or tensor._post_accumulate_grad_hooks)


def has_hooks(tensor: torch.Tensor) -> bool:
    """Whether a backward calls hooks of a tensor."""
    return bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def modes() -> tuple[Any, ...]:
    """The modes and settings of torch that a recording depends on, as they are now."""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *_autocast(), settings()


def unflatten(leaves: list[Any], spec: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments of some leaves; the call's own lists and dicts where they are known."""
    if spec is None:
        return tuple(leaves), {}
    if isinstance(leaves, Leaves) and leaves.given is not None and leaves.are_given():
        return leaves.given
    args, kwargs = unflatten_tree(leaves, spec)
    return args, kwargs


def _repeated(leaves: list[Any]) -> tuple[int, ...] | None:
    """For each tensor, which of the tensors before it is the same object; None where all are different objects."""
    tensors = [id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return None if len(set(tensors)) == len(tensors) else tuple(map(tensors.index, tensors))


def _autocast() -> tuple[Any, ...]:
    if not torch.is_autocast_enabled("cuda"):
        return False, None
    return True, torch.get_autocast_dtype("cuda")


def key_of(leaf: Any) -> Any:
    """What has to be equal of a leaf for calls to be alike."""
    if isinstance(leaf, torch.Tensor):
        if type(leaf) not in PLAIN_TYPES:
            return type(leaf), None  # its attributes may run code of the program
        if leaf.layout is not torch.strided:
            return leaf.layout, leaf.dtype, leaf.device
        flags = leaf.requires_grad, leaf.is_conj(), leaf.is_neg()
        more = bool(leaf.__dict__), has_hooks(leaf), is_left_by_inference(leaf)
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.device, *flags, *more
    module = type(leaf).__module__
    is_number = isinstance(leaf, Number) and module in _OF_NUMBERS  # a class of the program may add attributes
    if is_number or isinstance(leaf, Enum) or module in _OF_VALUES or type(leaf).__hash__ is None:
        return _typed(leaf)
    return type(leaf), Identity(leaf)


def is_left_by_inference(tensor: torch.Tensor) -> bool:
    """Whether a tensor was made in inference mode, which is off now: autograd refuses to save it."""
    return tensor.is_inference() and not torch.is_inference_mode_enabled()


def exact(value: Any) -> Any:
    """Something that is equal only for values without a difference, unlike 0.0 and -0.0, or one time in two zones."""
    if isinstance(value, int | str):
        return value
    if isinstance(value, frozenset | tuple):
        return tuple(map(_typed, value))
    if isinstance(value, Number):
        return value if isinstance(value, Real) and value == value and value != 0 else repr(value)
    return repr(value) if isinstance(value, range | date | time) else value


def _typed(value: Any) -> tuple[type, Any]:
    """The same with its type: 1 == True."""
    return type(value), exact(value)


def differences(old: tuple[Any, ...], new: tuple[Any, ...], labels: Sequence[str]) -> tuple[str, str]:
    """How two keys of one function differ.

    Returns:
        ``mode``, ``value`` or ``shape``, and that in words.
    """
    head = len(new) - len(labels)
    if len(old) != len(new) or old[0] != new[0]:
        return "value", "other arguments than before"
    if old[1:head] != new[1:head]:
        if changed := changed_setting(old[head - 1], new[head - 1]):
            return "mode", changed
        mode = new[1:head]
        words = ["gradients on" if mode[0] else "gradients off"]
        words += ["inference mode"] if mode[1] else []
        words += [f"autocast to {str(mode[3]).removeprefix('torch.')}"] if mode[2] else []
        return "mode", ", ".join(words)
    for label, before, after in zip(labels, old[head:], new[head:], strict=True):
        if before != after:
            is_tensor = isinstance(before[0], torch.Size) and isinstance(after[0], torch.Size)
            return ("shape" if is_tensor else "value"), f"{label}: {describe(before)} → {describe(after)}"
    return "value", "another state of its modules"


def describe(key: tuple[Any, ...]) -> str:
    """A leaf's key in words: ``float32[8, 16]`` for a tensor."""
    if isinstance(key[0], torch.Size):
        size = ", ".join(map(str, key[0]))
        grad = " with grad" if key[4] else ""
        return f"{str(key[2]).removeprefix('torch.')}[{size}]{grad}"
    if isinstance(key[0], type):
        is_object = issubclass(key[0], torch.Tensor) or isinstance(key[1], Identity)
        text = key[0].__name__ if is_object else repr(key[1])
        return text if len(text) < 40 else f"{text[:37]}…"
    return str(key[0])


def labels_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The name of each leaf of a call: ``x``, ``cache[0]``, ``batch['ids']``."""
    names = _parameter_names(function, len(args))
    found, _ = pytree.tree_flatten_with_path((args, kwargs), is_leaf=is_size)
    is_expanded = isinstance(flatten_tree((args, kwargs))[1], Structure)
    labels: list[str] = []
    for path, part in found:
        side, first = cast("Any", path[0]), cast("Any", path[1])
        head = names[first.idx] if side.idx == 0 else str(first.key)
        label = head + pytree.keystr(path[2:])
        labels += labels_in(part, label) if is_expanded else [label]
    return labels


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(_signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    return (names + [f"{rest}[{n}]" for n in range(count)])[:count]


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)


def static_leaves(
    function: Callable[..., Any], static: Sequence[str | int], args: tuple[Any, ...], labels: Sequence[str]
) -> set[int]:
    """Positions of the leaves that the user declared static.

    Raises:
        GraphError: A name is none of the function's arguments.
    """
    names = _parameter_names(function, len(args))
    found: set[int] = set()
    for given in static:
        name = names[given] if isinstance(given, int) and given < len(names) else str(given)
        hits = {n for n, label in enumerate(labels) if label == name or label.startswith((f"{name}[", f"{name}."))}
        if not hits:
            raise GraphError(
                f"static={given!r}: {getattr(function, '__name__', type(function).__name__)} was called without such "
                f"an argument; its arguments are {', '.join(dict.fromkeys(labels)) or 'none'}."
            )
        found |= hits
    return found


def gradient_leaves(leaves: Sequence[Any]) -> list[int]:
    """Positions of the arguments that receive gradients."""
    return [
        n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_leaf
    ]
