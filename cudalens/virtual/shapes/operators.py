"""`Shapes`: runs operators without values, by torch's shape functions (the meta device)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from cudalens.virtual.shapes import counts, storage
from cudalens.virtual.shapes.reading import Defaults, contents_error
from cudalens.virtual.shapes.recipes import Argument, Recipe, Recorder, choose_format, on_meta
from cudalens.virtual.shapes.storage import CAPTURED_KEY, forget, lacks_values, tensors_among, without_values

_aten: Final = torch.ops.aten
_META: Final = torch.device("meta")

#: Tensors of at most this many elements keep their values while they depend on known values only.
KNOWN_ELEMENTS: Final = 16_384

#: The same for integers and truth values, which are positions, lengths and masks: programs read these.
KNOWN_INTEGERS: Final = 1 << 20

#: Without a shape function, an operator runs on zeros of at most this many bytes.
_MAX_ZERO_BYTES: Final = 1 << 28

#: Operators whose shape function gives other sizes or strides than the operator that computes values.
_ON_ZEROS: Final = frozenset(
    {
        "mkldnn_rnn_layer",
        "mkldnn_rnn_layer_backward",
        "_embedding_bag",
        "_embedding_bag_forward_only",
    }
)

#: The shape functions of so many calls are kept.
_MAX_RECIPES: Final = 20_000

#: Factories whose result has no defined values.
_BLANK: Final = frozenset({"empty", "empty_strided", "empty_permuted", "empty_like", "new_empty", "new_empty_strided"})

#: Operators between processes. Whether a value is known differs from process to process, and one that waits for data
#: that another does not send waits forever. So no process sends or receives, and the results are unknown.
_COMMUNICATING: Final = frozenset({"c10d", "_c10d_functional"})

#: Operators that change a tensor's size or strides, and no memory.
_IN_PLACE_VIEW: Final = torch.Tag.inplace_view


class Shapes:
    """Runs operators without values.

    Args:
        defaults: What a program reads where the value is unknown.

    Attributes:
        defaults: The same.
        recipes: What is known of the results of calls. Devices that run the same program one after the other share it.
    """

    def __init__(self, defaults: Defaults) -> None:
        self.defaults = defaults
        defaults.num_reads.clear()
        self.recipes: dict[Any, Recipe] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_captured: bool = False) -> Any:
        """Run an operator: for real if it is small and its arguments have values; otherwise its shapes only.

        Args:
            func: The operator.
            args: Its arguments.
            kwargs: Its keyword arguments.
            is_captured: Whether a CUDA graph captures it: what it writes depends on the replay, and remains unknown.

        Raises:
            VirtualDeviceError: The result depends on a value that is unknown.
        """
        tensors = list(tensors_among((*args, *kwargs.values())))
        if any(tensor.layout is not torch.strided for tensor in tensors):
            raise contents_error(f"{_short(func)} of a sparse tensor (only dense tensors)")
        if _IN_PLACE_VIEW in func.tags:
            return func(*args, **kwargs)
        is_known = not is_captured and not any(map(lacks_values, tensors))
        handler = counts.HANDLERS.get(_short(func))
        if handler is not None:
            counted = func(*args, **kwargs) if is_known else handler(self, args, kwargs)
            if isinstance(kwargs.get("out"), torch.Tensor) and isinstance(counted, torch.Tensor):
                out = kwargs["out"]
                if out is not counted:
                    out.resize_(counted.shape)
                    forget(out)
                counted = out
            if counted is not NotImplemented:
                return counted
        recipe = self._recipe(func, args, kwargs, tensors)
        is_computable = not is_captured and not _is_random(func) and _namespace(func) not in _COMMUNICATING
        is_small = all(tensor.numel() <= _known_elements(tensor.dtype) for tensor in tensors)
        if is_known and is_computable and is_small and _is_small_result(recipe, tensors):
            return func(*args, **kwargs)
        value = storage.result_of(func, _short(func), args, kwargs, tensors) if is_computable else None
        if value is None and is_computable and self.defaults.value is not None:
            value = storage.result_if_finite(_short(func), args)
        out = recipe.make(tensors)
        for tensor in written(func, args, kwargs):  # after it, because it resizes an empty ``out=``
            forget(tensor)
        storage.keep(out, value)
        if is_captured:
            for tensor in (*written(func, args, kwargs), *tensors_among([out])):
                tensor.untyped_storage().__dict__[CAPTURED_KEY] = True
        return out

    def capture(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that a CUDA graph captures."""
        return self.run(func, args, kwargs, is_captured=True)

    def make(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_captured: bool = False) -> Any:
        """Run a factory: its result has values if it is small, neither random, uninitialised nor captured."""
        like = func(
            *(on_meta(arg) if isinstance(arg, torch.Tensor) else arg for arg in args),
            **{**_for_meta(kwargs), "device": _META},
        )
        if not isinstance(like, torch.Tensor) or like.layout is not torch.strided:
            raise contents_error(f"{_short(func)} with layout {like.layout} (only dense tensors)")
        if not like.untyped_storage().nbytes():
            return func(*args, **kwargs)
        name = _short(func)
        if is_captured:
            made = without_values(like)
            made.untyped_storage().__dict__[CAPTURED_KEY] = True
            return made
        if not _is_random(func) and name not in _BLANK and like.numel() <= _known_elements(like.dtype):
            return func(*args, **kwargs)
        made = without_values(like)
        storage.keep(made, storage.made_by(name, args, kwargs, like))
        return made

    def infer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of an operator without values, whatever its arguments have."""
        tensors = list(tensors_among((*args, *kwargs.values())))
        return self._recipe(func, args, kwargs, tensors).make(tensors)

    def _recipe(self, func: Any, args: Any, kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Recipe:
        # Return what determines a result's shape: sizes, strides and dtypes of tensors, and all other arguments.
        seen: dict[int, int] = {}
        named = tuple((name, _key(value, seen)) for name, value in kwargs.items() if name != "generator")
        key = func, tuple([_key(arg, seen) for arg in args]), named, torch.get_default_dtype(), torch.is_grad_enabled()
        try:
            recipe = self.recipes.get(key)
        except TypeError:  # an argument cannot be hashed, such as a process group
            return _inferred(func, args, kwargs, tensors)
        if recipe is None:
            if len(self.recipes) >= _MAX_RECIPES:
                self.recipes.clear()
            recipe = self.recipes[key] = _inferred(func, args, kwargs, tensors)
        return recipe


def _inferred(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Recipe:
    """Run the shape function; without one, or to get torch's own error, run the operator on zeros."""
    overload = getattr(func, "overload", func)
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if _short(func) in _ON_ZEROS and num_bytes <= _MAX_ZERO_BYTES:
        return _on_zeros(func, args, kwargs, tensors)
    format_result = choose_format(overload, args)

    def on_shapes(*given: Any, **named: Any) -> Any:
        shape_function = overload if overload is func else func.shape_of
        out = _out_arguments(overload, named, shape_function(*given, **named))
        if overload is not func:  # a replacement
            out = func.lay_out(out)
        return out if format_result is None else format_result(out, args)

    try:
        return _run_on([on_meta(tensor) for tensor in tensors], on_shapes, args, _for_meta(kwargs), tensors)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if isinstance(error, NotImplementedError) and _returns_arguments(overload):
            return Recipe(Argument(0) if overload._schema.returns else None, [], {})
        if num_bytes > _MAX_ZERO_BYTES:
            raise
    return _on_zeros(func, args, kwargs, tensors)


def _on_zeros(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[torch.Tensor]) -> Recipe:
    """Run an operator on zeros in place of the tensors without values."""
    zeros = []
    for tensor in tensors:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        memory = made.as_strided((made.untyped_storage().nbytes() // made.element_size(),), (1,))
        known = None if lacks_values(tensor) else tensor.detach()
        memory.copy_(known.as_strided(memory.shape, (1,))) if known is not None else memory.zero_()
        zeros.append(made)
    return _run_on(zeros, func, args, {**kwargs, "generator": None} if "generator" in kwargs else kwargs, tensors)


def _run_on(
    stand_ins: Sequence[torch.Tensor], func: Any, args: Any, kwargs: dict[str, Any], tensors: list[torch.Tensor]
) -> Recipe:
    by_id = {id(tensor): stand_in for tensor, stand_in in zip(tensors, stand_ins, strict=True)}
    used = [by_id[id(tensor)] for tensor in tensors]
    out = func(*_replaced(args, by_id), **_replaced(kwargs, by_id))
    return Recorder(tensors, used).describe(out)


def _out_arguments(overload: Any, named: dict[str, Any], results: Any) -> Any:
    """Return the ``out=`` arguments of an operator with several results; some shape functions return new tensors."""
    schema = overload._schema
    writes = [value.alias_info for value in schema.returns]
    if not isinstance(results, tuple) or not all(alias is not None and alias.is_write for alias in writes):
        return results
    by_alias = {frozenset(each.alias_info.before_set): each.name for each in schema.arguments if each.alias_info}
    names = [by_alias.get(frozenset(alias.before_set), "") for alias in writes]
    return tuple(named.get(name, result) for name, result in zip(names, results, strict=True))


def _replaced(value: Any, by_id: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return by_id[id(value)]
    if isinstance(value, list | tuple):
        return (
            [_replaced(item, by_id) for item in value]
            if isinstance(value, list)
            else tuple(_replaced(item, by_id) for item in value)
        )
    if isinstance(value, dict):
        return {key: _replaced(item, by_id) for key, item in value.items()}
    return value


def _for_meta(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments for the meta device."""
    if not kwargs:
        return kwargs
    kept = {key: value for key, value in kwargs.items() if key not in ("pin_memory", "generator")}
    return {**kept, "device": _META} if kept.get("device") is not None else kept


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operator writes, by its schema."""
    if _namespace(func) == "c10d":  # their schemas name nothing that they write
        return list(tensors_among((*args, *kwargs.values()))) if _short(func).endswith("_") else []
    places = _writes.get(func)
    if places is None:
        found: list[int | str] = list(_UNDECLARED.get(func._schema.name, ()))
        for at, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found.append(argument.name if argument.kwarg_only else at)
        places = _writes[func] = tuple(found)
    if not places:
        return []
    return list(
        tensors_among(
            args[at] if isinstance(at, int) else kwargs.get(at)
            for at in places
            if isinstance(at, str) or at < len(args)
        )
    )


_writes: dict[Any, tuple[int | str, ...]] = {}

#: Arguments that are written without an annotation in the schema: the running statistics.
_UNDECLARED: Final = {"aten::native_batch_norm": (3, 4), "aten::cudnn_batch_norm": (3, 4)}


def _returns_arguments(func: Any) -> bool:
    """Return whether an operator returns nothing, or its first argument, which it writes."""
    returns = func._schema.returns
    infos = [value.alias_info for value in returns]
    return len(returns) <= 1 and all(info is not None and info.is_write for info in infos)


def _key(value: Any, seen: dict[int, int]) -> Any:
    if isinstance(value, torch.Tensor):
        number = seen.setdefault(id(value), len(seen))
        return number, value.dtype, value.shape, value.stride(), value.dtype.is_complex and value.is_conj()
    if isinstance(value, list | tuple):
        return tuple([_key(item, seen) for item in value])
    return type(value), value


def _short(func: Any) -> str:
    return str(func._schema.name.partition("::")[2])


def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags or _short(func) in _BLANK


def _namespace(func: Any) -> str:
    """Return the namespace of an operator; "" for a call that stands for one."""
    return str(getattr(func, "namespace", ""))


def _is_small_result(recipe: Recipe, tensors: Sequence[torch.Tensor]) -> bool:
    has_integers_only = all(_known_elements(tensor.dtype) == KNOWN_INTEGERS for tensor in tensors)
    most = KNOWN_INTEGERS if has_integers_only else KNOWN_ELEMENTS
    return all(num_bytes <= 8 * most for num_bytes in recipe.storages)


def _known_elements(dtype: torch.dtype) -> int:
    return KNOWN_ELEMENTS if dtype.is_floating_point or dtype.is_complex else KNOWN_INTEGERS
