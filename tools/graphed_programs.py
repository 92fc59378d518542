"""Run the step of a third-party program as CUDA graphs, as it is and after the changes that the reasons state.

Each round makes more calls than the program itself, because the first ones are warm-ups and recordings. Its results
have to equal those of the same program without graphs, bit for bit. If fewer than half of the calls after warm-ups and
recordings are replays, the change that the first reason with a change states is applied, and another round runs.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

#: Calls of each round.
NUM_CALLS: Final = 8
#: Changes of one program, at most.
_MOST_CHANGES: Final = 4

_CAPTURABLE: Final = re.compile(r"^\+ cudalens\.graphs\.capturable\((?:[^()]|\(\))*?(, fused=True)?\)")
_ARGUMENT: Final = re.compile(r"^\+ model\(\.\.\., (\w+)=(None|True|False)\)")
_SETTING: Final = re.compile(r"^\+ torch\.distributions\.Distribution\.set_default_validate_args\(False\)")
_NO_CHECKPOINTS: Final = re.compile(r"^\+ model\.gradient_checkpointing_disable\(\)")
_ATTRIBUTE: Final = re.compile(r"^\+ model\.([\w.]+) = (None|True|False|\d+)\b")
#: Changes of objects of the program.
_OF_OBJECTS: Final = (_CAPTURABLE, _ATTRIBUTE, _ARGUMENT, _SETTING, _NO_CHECKPOINTS)

#: The data type, the shape and the bytes of each tensor that a call returned, in order.
Values: TypeAlias = list[tuple[str, tuple[int, ...], bytes]]
#: Runs a program whose step is wrapped, after a preparation, with a number of calls; returns the values of each call.
RunCalls: TypeAlias = Callable[[Any, Callable[[Any], Any], Callable[[], None], int], list[Values]]


@dataclass
class Changes:
    """The changes of one program so far.

    Attributes:
        objects: Lines that are applied to the objects of the program once it is built.
        lines: New source lines, by file and line.
    """

    objects: list[str] = field(default_factory=list)
    lines: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.objects) + len(self.lines)

    def add(self, change: str, place: str) -> bool:
        """Add the change that a reason states.

        Args:
            change: Lines of a diff.
            place: File and line of the reason, as ``FILE:LINE``.

        Returns:
            Whether it is a change that can be applied, and that was not applied before.
        """
        if any(pattern.match(change) for pattern in _OF_OBJECTS):
            is_new = change not in self.objects
            self.objects += [change] if is_new else []
            return is_new
        file, _, line = place.rpartition(":")
        if not change.startswith("- ") or not line.isdigit() or (file, int(line)) in self.lines:
            return False
        self.lines[file, int(line)] = [new.removeprefix("+ ") for new in change.splitlines() if new.startswith("+ ")]
        return True

    def apply_to_objects(self) -> None:
        """Apply the changes of objects to all that are alive."""
        for change in self.objects:
            capturable, attribute = _CAPTURABLE.match(change), _ATTRIBUTE.match(change)
            if capturable is not None:
                _make_capturable(fused=capturable[1] is not None)
            elif attribute is not None:
                _set_attributes(attribute[1], attribute[2])
            elif _NO_CHECKPOINTS.match(change):
                _disable_checkpoints()
            elif _SETTING.match(change):
                torch.distributions.Distribution.set_default_validate_args(False)
            elif (argument := _ARGUMENT.match(change)) is not None:
                _set_argument(argument[1], argument[2])

    def program(self, program: Any) -> Any:
        """The program with the changed lines: read from a changed copy of the folder with the programs."""
        if not self.lines:
            return program
        module = sys.modules[program.build.__module__]
        assert module.__file__ is not None
        source = Path(module.__file__).parent
        folder = Path(tempfile.mkdtemp(prefix="programs-"))
        for path in source.glob("*.py"):
            shutil.copy(path, folder)
            sys.modules.pop(path.stem, None)
        for file in {file for file, _ in self.lines}:
            self._write_changed(Path(file), folder / Path(file).name)
        sys.path.insert(0, str(folder))
        programs = importlib.import_module(module.__name__).PROGRAMS
        return next(changed for changed in programs if changed.name == program.name)

    def _write_changed(self, path: Path, target: Path) -> None:
        lines = path.read_text().splitlines()
        for (_, number), new in sorted(self.lines.items(), reverse=True):
            old = lines[number - 1]
            indent = old[: len(old) - len(old.lstrip())]
            lines[number - 1 : number] = [f"{indent}{line}" for line in new]
        target.write_text("\n".join([*lines, ""]))


@dataclass
class Round:
    """How the calls of one round were handled.

    Attributes:
        num_replays: Calls that were replays.
        num_possible: Calls besides warm-ups and recordings.
        reasons: Why the other calls did not replay.
        changes: Changes that reasons state, each with its place.
        difference: The first result that differs from the one without graphs; "" if none does.
        values: What each call returned.
    """

    num_replays: int
    num_possible: int
    reasons: list[str]
    changes: list[tuple[str, str]]
    difference: str
    values: list[Values]

    @property
    def replays_enough(self) -> bool:
        """Whether at least half of the calls after warm-ups and recordings are replays."""
        return self.num_replays > 0 and 2 * self.num_replays >= self.num_possible

    def __str__(self) -> str:
        return f"{self.num_replays} of {self.num_possible}"


def run_graphed(
    program: Any, run_calls: RunCalls, difference: Callable[[Values, Values], str]
) -> tuple[str, str, Values]:
    """Run a program as it is, and with the changes that its reasons state until it replays.

    Args:
        program: The program.
        run_calls: Runs it.
        difference: Returns the first difference between two lists of values; "" if there is none.

    Returns:
        ``equal`` or ``different``; the numbers of replays without and with changes, and the reasons; the values of
        all calls.
    """
    changes = Changes()
    rounds = [_run_round(program, changes, run_calls, difference)]
    while not rounds[-1].replays_enough and not rounds[-1].difference and len(changes) < _MOST_CHANGES:
        num_new = sum(changes.add(change, place) for change, place in rounds[-1].changes)
        if num_new == 0:
            break
        rounds.append(_run_round(program, changes, run_calls, difference))
    found = next((f"round {number}: {one.difference}" for number, one in enumerate(rounds) if one.difference), "")
    values = [value for call in rounds[0].values for value in call]
    if found:
        return "different", found, values
    last = rounds[-1]
    applied = [change.partition("\n")[0] for change in changes.objects]
    applied += [f"+ {line}" for lines in changes.lines.values() for line in lines]
    after = f", {last} after {'; '.join(applied)}" if len(rounds) > 1 else ""
    reasons = "" if last.replays_enough else "; ".join(["", *last.reasons])
    return "equal", f"{rounds[0]} replayed{after}{reasons}", values


def _run_round(
    program: Any, changes: Changes, run_calls: RunCalls, difference: Callable[[Values, Values], str]
) -> Round:
    import cudalens

    program = changes.program(program)
    with cudalens.virtual.device(program.specs):
        expected = run_calls(program, lambda step: step, changes.apply_to_objects, NUM_CALLS)
    _end_process_group()
    with cudalens.virtual.device(program.specs):
        values = run_calls(program, cudalens.cudagraph, changes.apply_to_objects, NUM_CALLS)
        frame = cudalens.graphs.manager().frame()
        cudalens.graphs.reset()
    _end_process_group()
    functions = frame[frame["kind"] == "function"]
    counts = functions[["count", "num_warmups", "num_recordings", "num_replays"]].sum().astype(int)
    others = frame[frame["kind"].isin(["skip", "rerecord", "warning"])]
    found = (difference(*pair) for pair in zip(expected, values, strict=True))
    return Round(
        num_replays=int(counts["num_replays"]),
        num_possible=int(counts["count"] - counts["num_warmups"] - counts["num_recordings"]),
        reasons=[f"{row['reason']}: {row['detail']} ({row['place']})" for _, row in others.iterrows()],
        changes=[(row["change"], row["place"]) for _, row in others.dropna(subset=["change"]).iterrows()],
        difference=next(filter(None, found), ""),
        values=values,
    )


def _end_process_group() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _make_capturable(*, fused: bool) -> None:
    import cudalens

    for found in gc.get_objects():
        if isinstance(found, torch.optim.Optimizer) and _is_on_device(found):
            cudalens.graphs.capturable(found, fused=fused)


def _is_on_device(optimizer: torch.optim.Optimizer) -> bool:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return all(parameter.is_cuda for parameter in parameters)


def _disable_checkpoints() -> None:
    for found in gc.get_objects():
        if isinstance(found, torch.nn.Module) and getattr(found, "is_gradient_checkpointing", False):
            found.gradient_checkpointing_disable()


def _set_argument(name: str, text: str) -> None:
    """Pass a keyword argument to each module that takes it and that is not a part of another such module."""
    value = {"None": None, "True": True, "False": False}[text]
    takers = [
        found
        for found in gc.get_objects()
        if isinstance(found, torch.nn.Module) and name in inspect.signature(found.forward).parameters
    ]
    parts = {id(part) for taker in takers for part in taker.modules() if part is not taker}
    for taker in takers:
        if id(taker) not in parts:
            taker.register_forward_pre_hook(
                lambda module, args, kwargs: (args, {**kwargs, name: value}), with_kwargs=True
            )


def _set_attributes(path: str, text: str) -> None:
    """Set an attribute, such as ``config.pad_token_id``, of each module that has it."""
    value = {"None": None, "True": True, "False": False}[text] if text.isalpha() else int(text)
    *parts, name = path.split(".")
    for found in gc.get_objects():
        if not isinstance(found, torch.nn.Module):
            continue
        for part in parts:
            found = getattr(found, part, None)
        if hasattr(found, name):
            setattr(found, name, value)
