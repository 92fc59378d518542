"""What limits a comparison, in words."""

from __future__ import annotations

from collections.abc import Iterator

from cudalens.analysis.compare.measure import RECORDED, Side, numbered_steps, stride_of_steps
from cudalens.analysis.time.work import device_work
from cudalens.frames import is_category


def not_recorded(sides: tuple[Side, Side]) -> dict[str, str]:
    """Notes on what some Traces did not record, by kind of cost: that is not compared, since it is not removed."""
    notes, num_traces = {}, sum(len(side.traces) for side in sides)
    for kind, has in RECORDED.items():
        lacking = [trace.info.name or side.name for side in sides for trace in side.traces if not has(trace)]
        if 0 < len(lacking) < num_traces:
            verb = "are" if kind == "modules" else "is"
            notes[kind] = f"'{lacking[0]}' did not record {kind}, so {kind} {verb} not compared"
    return notes


def has_stacks(side: Side) -> bool:
    """Return whether any of `side` was recorded with Python stacks, which makes the host slower."""
    return any(bool(is_category(trace.events["cat"].array, ("python_function",)).any()) for trace in side.traces)


def notes_on(sides: tuple[Side, Side], *, by_step: bool) -> list[str]:
    """Return what limits the comparison of `sides`, a sentence each."""
    notes = [*_on_times(sides), *_on_steps(sides, by_step=by_step)]
    without, with_work = sorted(sides, key=_has_device_work)
    if _has_device_work(without) != _has_device_work(with_work):
        notes.append(f"'{without.name}' has no device work, '{with_work.name}' has")
    for what, facts in (("device", _devices), ("torch", _torch)):
        known = [facts(side) for side in sides]
        if all(known) and known[0] != known[1]:
            notes.append(f"{what}: {known[0]} before, {known[1]} after")
    notes += [f"'{s.name}' did not finish: {t.info.status}" for s in sides for t in s.traces if t.info.status != "ok"]
    return notes


def _on_times(sides: tuple[Side, Side]) -> Iterator[str]:
    if sides[0].is_simulated != sides[1].is_simulated:
        real, model = sorted(sides, key=lambda side: side.is_simulated)
        yield (
            f"'{model.name}' is simulated and '{real.name}' was measured: modelled times are not "
            "measurements of a real device"
        )
    without, recorded = sorted(sides, key=has_stacks)
    if has_stacks(without) != has_stacks(recorded):
        yield f"only '{recorded.name}' was recorded with Python stacks: host times are not comparable"


def _on_steps(sides: tuple[Side, Side], *, by_step: bool) -> Iterator[str]:
    if not by_step and any(side.has_steps for side in sides):
        yield "only one side has profiler steps, so whole runs are compared"
    for side in sides if by_step else ():
        count = max(len(numbered_steps(trace)) for trace in side.traces)
        if (stride := stride_of_steps(count)) > 1:
            yield f"'{side.name}' has {count:,} profiler steps: 1 of {stride} is compared"


def _has_device_work(side: Side) -> bool:
    return any(len(device_work(trace).rows) > 0 for trace in side.traces)


def _devices(side: Side) -> str:
    return ", ".join(dict.fromkeys(device.name for trace in side.traces for device in trace.info.devices))


def _torch(side: Side) -> str:
    return str(side.traces[0].info.versions.get("torch", ""))
