"""What is slow on a straggler, in words."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.analysis.ranks.stragglers import Straggler
from cudalens.analysis.ranks.stretches import GAP

_NAME: Final = 60


def reason(one: Straggler) -> str:
    """``rank 17 is 30 % slower in aten::mm (train.py:88)``."""
    name = units.shorten(one.op, _NAME)
    if one.cause == "host" or one.op == GAP:
        where = "takes longer between operators" if one.is_on_host else "waits for its host between kernels"
        what = f"rank {one.rank} {where}"
    elif one.cause == "all operators":
        what = f"rank {one.rank} is slower in most operators, {_slower(one, brief=True)} in {name}"
    else:
        what = f"rank {one.rank} {_slower(one)} in {name}"
    more = {"data": " on larger inputs", "clock": " at a lower clock"}.get(one.cause, "")
    often = "" if one.is_persistent else f" in {one.num_slow_steps} of {units.plural(one.num_steps, 'step')}"
    return f"{what}{more}{often}"


def _slower(one: Straggler, *, brief: bool = False) -> str:
    """``is 30 % slower``, ``takes 2.5 times as long``; in brief ``30 %``, ``2.5 times as long``."""
    ratio = one.slower_pct / 100
    change = units.time_change(ratio)
    if units.is_factor(ratio):
        return change if brief else f"takes {change}"
    return units.percent(one.slower_pct) if brief else f"is {change}"
