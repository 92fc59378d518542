"""The dispatch mode: where torch's operators come in."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.sanitizer.live.arguments import has_own_dispatch
from cudalens.sanitizer.live.schema import Plan, make_plan
from cudalens.sanitizer.live.watch import Watch

_Quiet: Final[Any] = torch._C.DisableTorchFunction
"""What is asked of tensors here is no call of the user's: with a function mode on (a default device is one), each look
at a shape would go through it, which costs microseconds."""

_plans: Final[dict[int, tuple[Plan, Any]]] = {}
"""By ``id`` of the operator, which is kept with it: an operator's hash is a call of Python."""

_num_function_modes: Final[Any] = torch._C._len_torch_function_stack


class Mode(TorchDispatchMode):
    """Runs every operator, and has it judged. One object per thread; it stays above modes that carry operators out.

    Args:
        watch: Who judges.
    """

    cudalens_observes = True
    supports_higher_order_operators = True

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper around the handler: importing torch._dynamo takes longer than most programs here run."""
        return False

    def __torch_dispatch__(  # noqa: C901 - see Watch.judge
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        watch = self.watch
        entry = _plans.get(id(func))
        plan = _plan_of(func) if entry is None else entry[0]
        if types and has_own_dispatch(types):
            return NotImplemented  # what the subclass calls comes back here
        if plan.is_silent or not watch.is_on:
            return func(*args, **kwargs) if kwargs else func(*args)
        thread = watch.threads.state
        thread.is_inside = True
        try:
            if not plan.is_special:
                out = func(*args, **kwargs) if kwargs else func(*args)
            else:
                old = watch.life_of(args[0])
                out = func(*args, **(kwargs or {}))
        except BaseException:
            thread.is_inside = False
            watch.take_told(thread)
            raise
        thread.is_inside = False
        try:
            if plan.is_special:
                with _Quiet():
                    races = watch.note_special(thread, plan, args, kwargs or {}, old)
            elif _num_function_modes():
                with _Quiet():
                    races = watch.note(thread, plan, args, kwargs, out)
            else:
                races = watch.note(thread, plan, args, kwargs, out)
        except Exception as error:
            watch.fail(error)
            return out
        if races:
            watch.on_races(races, True)
        return out


def _plan_of(func: Any) -> Plan:
    # A higher-order operator has no schema; what it calls is its own business.
    plan = make_plan(func) if hasattr(func, "_schema") else Plan(str(func), is_silent=True)
    _plans[id(func)] = plan, func
    return plan
