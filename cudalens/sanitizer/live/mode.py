"""The dispatch mode that receives torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device import accumulation
from cudalens.device.modes import has_own_dispatch, is_faking
from cudalens.sanitizer.live.schema import Plan, make_plan
from cudalens.sanitizer.live.watch import Watch

#: Function modes (a default device is one) must not receive the sanitizer's own calls on tensors; a call through them
#: also costs microseconds.
_Quiet: Final[Any] = torch._C.DisableTorchFunction

#: Plan, operator and `_plain` callable by the operator's ``id``: an operator's hash is a call into Python.
_plans: Final[dict[int, tuple[Plan, Any, Callable[..., Any]]]] = {}

_NUMBERS: Final = (bool, int, float, complex)

_num_function_modes: Final[Any] = torch._C._len_torch_function_stack


class Mode(TorchDispatchMode):
    """Runs every operator and passes it to the watch. One object per thread, above modes that execute operators.

    Args:
        watch: Receives the operators.
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

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is accumulation.ADD and accumulation.adds_in_place(args, kwargs):
            func = accumulation.ADD_IN_PLACE
        watch = self.watch
        entry = _plans.get(id(func))
        plan, _, plain = _entry_of(func) if entry is None else entry
        if types and has_own_dispatch(types) and not is_faking():
            return NotImplemented  # operators that the subclass calls arrive here again
        if _num_function_modes():
            func = plain
        if plan.is_silent or not watch.is_on or is_faking():
            return func(*args, **kwargs) if kwargs else func(*args)
        thread = watch.threads.state
        thread.is_inside = True
        try:
            if not plan.is_special:
                out = func(*args, **kwargs) if kwargs else func(*args)
            else:
                old = watch.allocation_of(args[0])
                out = func(*args, **(kwargs or {}))
        except BaseException:
            thread.is_inside = False
            watch.take_received(thread)
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


def _entry_of(func: Any) -> tuple[Plan, Any, Callable[..., Any]]:
    # A higher-order operator has no schema; the operators that it calls are not observed.
    plan = make_plan(func) if hasattr(func, "_schema") else Plan(str(func), is_silent=True)
    entry = _plans[id(func)] = plan, func, _plain(func) if hasattr(func, "_handle") else func
    return entry


def _plain(func: Any) -> Callable[..., Any]:
    """Calls an operator in C++ directly, without torch's function modes.

    Autograd's own operators reach a dispatch mode with function modes on the stack. A call of the operator from Python
    would go through those modes, which it does not without the sanitizer.
    """
    call_boxed = getattr(torch._C, "_dispatch_call_boxed", None)
    handle = func._handle
    tensors_at = [n for n, argument in enumerate(func._schema.arguments) if str(argument.type) == "Tensor"]

    def plain(*args: Any, **kwargs: Any) -> Any:
        if call_boxed is not None and not any(isinstance(args[at], _NUMBERS) for at in tensors_at if at < len(args)):
            return call_boxed(handle, *args, **kwargs)
        with _Quiet():  # takes a Python number for a tensor, as ``aten::mul.out`` may be given
            return func(*args, **kwargs)

    return plain
