"""Attach a watch to torch: gpu_trace callbacks, the dispatch mode, and methods of threads and tensors.

A file of its own: profiles leave out the functions of the other files here, but this one calls the program's threads.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from cudalens.device import accumulation, gpu_trace, launches, modes, own_work
from cudalens.device.interpose import Interposed, interposed
from cudalens.device.modes import conjugation, has_own_dispatch, is_faking, uses_conjugates
from cudalens.sanitizer.live.schema import Plan, make_plan, storage_of
from cudalens.sanitizer.live.watch import Watch

#: Methods of torch.Tensor that read host memory without an operator.
_HOST_READERS: Final = ("numpy", "tolist", "__array__", "__dlpack__")


class Attachment:
    """Everything of one watch that is registered with torch; `detach` removes all of it.

    Args:
        watch: Receives operators, callbacks, new threads and reads of host memory.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._mode: Mode | None = None
        self._subscription: gpu_trace.Subscription | None = None
        self._interposed: list[tuple[Interposed, Callable[..., None]]] = []
        self._is_counted = False

    def subscribe(self) -> None:
        """Receive torch's gpu_trace callbacks, and queries and Triton launches, for which torch fires none."""
        watch = self._watch
        self._subscription = gpu_trace.subscribe(
            watch.on_record,
            quick={gpu_trace.MemoryAllocated: watch.on_allocated, gpu_trace.MemoryFreed: watch.on_freed},
        )
        launches.watch_queries()
        launches.watch_launches()
        self._is_counted = True

    def enter_mode(self) -> None:
        """Receive operators of this thread and of threads that start from now on, and reads of host memory."""
        starts: Callable[..., None] = functools.partial(_enter_thread, self._watch)
        self._interposed = [(interposed(threading.Thread, "start"), starts)]
        for name in _HOST_READERS:
            reads = functools.partial(_host_reads, self._watch, name != "tolist")
            self._interposed.append((interposed(torch.Tensor, name), reads))
        # torch formats a tensor without dispatch modes: the operators that read it do not arrive at the mode.
        self._interposed.append((interposed(torch.Tensor, "__repr__"), functools.partial(_text_reads, self._watch)))
        pickled = functools.partial(_pickle_reads, self._watch)
        self._interposed.append((interposed(torch.Tensor, "__reduce_ex__"), pickled))
        for method, listener in self._interposed:
            method.add(before=listener)
        self._mode = Mode(self._watch)
        modes.enter(self._mode)
        own_work.begin(self._mode)

    def unsubscribe(self) -> None:
        """Stop the callbacks only."""
        if self._subscription is not None:
            self._subscription.close()

    def detach(self) -> None:
        """Remove the mode, the subscription and the replaced methods. Can be called twice."""
        if self._is_counted:
            self._is_counted = False
            launches.unwatch_queries()
            launches.unwatch_launches()
        while self._interposed:
            method, listener = self._interposed.pop()
            method.remove(before=listener)
        if self._mode is not None:
            modes.leave(self._mode)
            own_work.end(self._mode)
            self._mode = None
        self.unsubscribe()
        self._subscription = None


def _enter_thread(watch: Watch, thread: threading.Thread, *args: Any, **kwargs: Any) -> None:
    """Give a thread that is about to start its own mode: torch keeps modes per thread."""
    before = vars(thread).get("run")
    inner = thread.run

    def run() -> None:
        if before is None:
            vars(thread).pop("run", None)
        mode = Mode(watch)
        if watch.is_on:
            modes.enter(mode)
        try:
            inner()
        finally:
            modes.leave(mode)

    vars(thread)["run"] = run


def _host_reads(watch: Watch, is_export: bool, tensor: Any, *args: Any, **kwargs: Any) -> None:
    if isinstance(tensor, torch.Tensor):
        watch.host_reads(tensor, is_export=is_export)


def _text_reads(watch: Watch, tensor: Any, *args: Any, **kwargs: Any) -> None:
    if not isinstance(tensor, torch.Tensor) or not watch.is_on or is_faking():
        return
    for part in _printed(tensor):
        if part.is_cpu:
            watch.host_reads(part, is_export=False)
        else:
            watch.annotate("repr", [part], ())


def _pickle_reads(watch: Watch, tensor: Any, *args: Any, **kwargs: Any) -> None:
    """Bytes for pickle are read without an operator; `torch.save` copies those of a device with one."""
    if not isinstance(tensor, torch.Tensor) or not watch.is_on or is_faking():
        return
    caller = sys._getframe(2).f_code.co_filename
    if caller == copy.__file__:  # copy.copy() makes another tensor on the same memory
        return
    if tensor.is_cpu:
        watch.host_reads(tensor, is_export=False)
    elif caller != torch.serialization.__file__ and storage_of(tensor) is not None:
        watch.annotate("pickle", [tensor], ())


def _printed(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return what the text of a tensor contains: all of it, or the first and the last rows of a large one."""
    options = torch._tensor_str.PRINT_OPTS
    edge = options.edgeitems
    if storage_of(tensor) is None or tensor.numel() <= options.threshold or tensor.size(0) <= 2 * edge:
        return [tensor]
    with torch.no_grad(), _disable_current_modes(), _Quiet():
        return [tensor[:edge], tensor[-edge:]]


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
        if func is accumulation.ADD:
            func = accumulation.addition(args, kwargs)
        watch = self.watch
        entry = _plans.get(id(func))
        plan, direct, plain = _entry_of(func) if entry is None else entry
        if types and has_own_dispatch(types) and not is_faking():
            return NotImplemented  # operators that the subclass calls arrive here again
        func = plain if _num_function_modes() else direct
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
    plain = _plain(func) if hasattr(func, "_handle") else func
    if uses_conjugates(func):
        entry = plan, _conjugating(func, func), _conjugating(func, plain)
    else:
        entry = plan, func, plain
    _plans[id(func)] = entry
    return entry


def _conjugating(func: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    def call_conjugating(*args: Any, **kwargs: Any) -> Any:
        with conjugation(func):
            return call(*args, **kwargs)

    return call_conjugating


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
