"""Confirm races on a real GPU: run the program again with delays that force the other order, and compare values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from cudalens.api.explore import Exploring, tensors_among
from cudalens.errors import ExploreError
from cudalens.frames.exploration import columns_of_race
from cudalens.sanitizer import running
from cudalens.sanitizer.engine import HOST, StreamId
from cudalens.sanitizer.engine.races import describe, naming, stream_name
from cudalens.sanitizer.live.streams import names_of_streams
from cudalens.sanitizer.rerun import DEFAULT_LIMIT_S, DEFAULT_RUNS, Confirmer, Program, Spot, Suspect
from cudalens.virtual import active

if TYPE_CHECKING:
    from cudalens.frames.exploration import Exploration
    from cudalens.sanitizer import Access, Race
    from cudalens.sanitizer.live.streams import RaceValues

_VIRTUAL: Final = (
    "a virtual device computes values in the program's order, so equal values do not exclude a race; explore tries "
    "other orders"
)

MAX_RUNS: Final = 10_000
MAX_HOLD_NS: Final = 10_000_000_000

#: For each race, by its key, its columns about values in the frame ``races``.
Columns = dict[tuple[object, ...], dict[str, Any]]


def confirm(
    sanitizer: RaceValues,
    program: Callable[[], Any] | Program,
    *,
    runs: int | None = None,
    hold_ns: int | None = None,
    limit_s: float | None = None,
    races: Sequence[Race] | None = None,
    on_virtual: bool = False,
) -> tuple[Exploration, Columns]:
    """Run a program repeatedly, with delays that force the orders that a sanitizer's races allow.

    Args:
        sanitizer: The sanitizer that found races in the program.
        program: What to run: a function without arguments, or a `Program`.
        runs: Delayed runs for each race; by default `DEFAULT_RUNS`.
        hold_ns: Longest delay of a stream, ns; None for a multiple of the host time between the accesses.
        limit_s: Time after which no further run begins, s; by default `DEFAULT_LIMIT_S`.
        races: The races of the sanitizer to try; by default all.
        on_virtual: Allow a virtual device, on which the order is observed, but has no effect on values.

    Raises:
        ExploreError: There is no GPU or no race, or the program cannot run again.
    """
    source = checked_device(on_virtual=on_virtual)
    runs = _checked("runs", DEFAULT_RUNS if runs is None else runs, MAX_RUNS)
    if hold_ns is not None:
        _checked("hold_ns", hold_ns, MAX_HOLD_NS)
    value = DEFAULT_LIMIT_S if limit_s is None else limit_s
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ExploreError(f"limit_s={value!r}: expected a number of seconds above 0.")
    limit_s = float(value)
    races = sanitizer.races if races is None else list(races)
    if not races:
        raise ExploreError(
            "no race to confirm: the sanitizer has not found any. Run the program under the sanitizer first."
        )
    again = program if isinstance(program, Program) else of_function(program, Exploring.callers_names())
    with _sanitizers_stopped(), naming(names_of_streams(again.names)):
        suspects = [Suspect(describe(race), _spot(race.first), _spot(race.second)) for race in races]
        wishes: dict[str, Any] = {"runs": runs, "hold_ns": hold_ns, "limit_s": limit_s}
        found = Confirmer(again, suspects, **wishes, lane=_lane, source=source).confirm()
    verdicts = list(zip(races, found.races, strict=True))
    if on_virtual:
        found = replace(found, notes=(*found.notes, _VIRTUAL))
        verdicts = [(race, verdict) for race, verdict in verdicts if verdict.verdict == "confirmed"]
    return found, {race.key: columns_of_race(verdict, found.steps) for race, verdict in verdicts}


def of_function(function: Callable[[], Any], names: Mapping[str, Any]) -> Program:
    """Return a program that calls `function`. Its result and the tensors in variables are compared between runs.

    Args:
        function: A function without arguments.
        names: Variables by name.

    Raises:
        ExploreError: `function` is not callable.
    """
    if not callable(function):
        raise ExploreError(
            f"confirm takes the function that is to run again; got {type(function).__name__}. A block that has run "
            "cannot run again by itself: put it into a function."
        )
    around = list(tensors_among(names))

    def outputs(result: Any) -> dict[str, Any]:
        return dict(around) | dict(tensors_among({"result": result})) | dict(numbers_in("result", result))

    return Program(function, outputs, tensors=[tensor for _, tensor in around], holders=holders_among(names))


def holders_among(names: Mapping[str, Any]) -> list[Any]:
    """Values of variables that a program may change and that can be restored: containers, random generators."""
    return [value for name, value in list(names.items()) if not name.startswith("_") and _is_holder(value)]


def _is_holder(value: Any) -> bool:
    is_generator = isinstance(value, torch.Generator) or (type(value).__module__ or "").startswith("numpy.random")
    return is_generator or type(value) in (list, dict, set, bytearray)


def numbers_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a number, or the numbers in a list, a tuple or a dictionary, each with the expression for it."""
    if (number := _number(value)) is not None:
        yield name, number
    elif type(value) in (list, tuple, dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if (number := _number(item)) is not None:
                yield f"{name}[{key!r}]", number


def _number(value: Any) -> Any:
    """Return a Python number, or a numpy number converted to one; None for anything else."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    return value if isinstance(value, bool | int | float | complex) else None


def _checked(name: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ExploreError(f"{name}={value!r}: expected a whole number from 1 to {most:,}.")
    return value


def checked_device(*, on_virtual: bool = False) -> str:
    """Return the device on which races can be confirmed, as the source of a Trace.

    Raises:
        ExploreError: There is no GPU, or only a virtual one without `on_virtual`; or other ranks would also have to run
            again.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise ExploreError(
            f"this is one of {distributed.get_world_size()} ranks, and the program would run again in it alone: its "
            "collectives would wait for the others forever. Confirm it in one process, without collectives."
        )
    device = active()
    if device is not None:
        if not on_virtual:
            raise ExploreError(
                "a virtual device computes values in the program's order, however late a stream is: no value would "
                "differ. There, san.explore() (in a notebook: %cudasan explore) tries other orders, and runs nothing "
                "of the program again."
            )
        return f"virtual:{device.spec.key}"
    if not torch.cuda.is_available():
        raise ExploreError(
            "confirming a race needs a GPU, and torch sees none. On a virtual one, "
            "cudalens.virtual.device('h100') (in a notebook: %cudadevice virtual h100), san.explore() (%cudasan "
            "explore) tries other orders."
        )
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        raise ExploreError(
            "with CUDA_LAUNCH_BLOCKING set the host waits for every kernel, so kernels cannot run in another order and "
            "no race has an effect. Start Python without it."
        )
    return "cuda"


@contextmanager
def _sanitizers_stopped() -> Iterator[None]:
    """Temporarily stop all sanitizers."""
    with ExitStack() as stack:
        for sanitizer in reversed(running()):
            sanitizer.stop()
            stack.callback(sanitizer.start)
        yield


def _spot(touch: Access) -> Spot:
    place: Any = touch.place
    where = getattr(place, "place", place)
    stream = None
    if touch.stream != HOST:
        number = touch.stream.stream
        stream = number if isinstance(number, int) else -1
    return Spot(
        touch.op,
        getattr(where, "filename", ""),
        getattr(where, "function", ""),
        getattr(where, "line", 0),
        getattr(where, "instruction", 0),
        stream,
    )


def _lane(device: int, stream: int) -> str:
    return stream_name(StreamId(device, stream))
