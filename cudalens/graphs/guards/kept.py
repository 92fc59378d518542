"""Find tensors that a function creates and keeps: state that a replay would not write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudalens.graphs.guards.captured import Name, find_names

if TYPE_CHECKING:
    from cudalens.device.stacks import Place
    from cudalens.graphs.functions import Variant
    from cudalens.graphs.observer import Made, Observer


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor that a function made and that is held after the call, other than by its result.

    Attributes:
        text: What it is.
        place: The line that made it.
        is_gradient: Whether it is the ``.grad`` of another tensor.
    """

    text: str
    place: Place
    is_gradient: bool = False


def kept_tensors(variant: Variant, observer: Observer, left: Sequence[Made]) -> list[Kept]:
    """What a warmup left somewhere.

    Args:
        variant: What ran.
        observer: What was seen of it.
        left: What it made that is alive and no result.
    """
    alive = {key: made for key, made in observer.made.items() if made.is_on_device and made.ref.is_alive()}
    roots = [("", variant.function.call), *variant.objects]
    names = find_names(roots, set(alive)) if alive and variant.mode != "backward" else {}
    found = [_kept(alive[key], known[0]) for key, known in names.items()]
    named = {alive[key].ref.address for key in names}
    return found + [_kept(made, None) for made in left if made.ref.address not in named]


def _kept(made: Made, name: Name | None) -> Kept:
    of = f"of {made.operator}, {made.ref.num_bytes} bytes"
    if name is None:
        return Kept(of, made.place)
    return Kept(f"'{name.label}', {of}", made.place, name.key == "grad" and name.label.endswith(".grad"))
