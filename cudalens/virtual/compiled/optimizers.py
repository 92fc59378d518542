"""Compile the step of an optimizer, whose state Dynamo makes with the program's tensors while it traces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cudalens.virtual.patching import Patches


def install(patches: Patches, running: Callable[[], AbstractContextManager[None]]) -> None:
    """Patch Dynamo's optimizers.

    Args:
        patches: Undone at the end.
        running: Makes a context in which operators run on the device, also while code is traced.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable

    kind: Any = OptimizerVariable
    call_method, set_capturable, move_step = kind.call_method, kind._set_capturable, kind.move_step_if_cpu

    @functools.wraps(call_method)
    def call_method_on_device(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name != "_init_group" or not hasattr(self.value, "_init_group"):
            return call_method(self, tx, name, args, kwargs)
        attributes, make_state = vars(self.value), self.value._init_group
        before = attributes.get(name)

        def make_state_on_device(*args: Any, **kwargs: Any) -> Any:
            _put_back(attributes, name, before)
            with running():
                return make_state(*args, **kwargs)

        attributes[name] = make_state_on_device
        try:
            return call_method(self, tx, name, args, kwargs)
        finally:
            _put_back(attributes, name, before)

    @functools.wraps(set_capturable)
    def set_capturable_on_device(self: Any, tx: Any) -> Any:
        with running():
            for group in self.value.param_groups:
                if "capturable" in group and _is_new_on_device(group["params"], self.value.state):
                    group["capturable"] = True
        return set_capturable(self, tx)

    @functools.wraps(move_step)
    def move_step_on_device(self: Any) -> Any:
        with running():
            return move_step(self)

    patches.set(kind, "call_method", call_method_on_device)
    patches.set(kind, "_set_capturable", set_capturable_on_device)
    patches.set(kind, "move_step_if_cpu", move_step_on_device)


def _is_new_on_device(parameters: Any, state: Any) -> bool:
    """Whether all parameters are on the device and have no state: Dynamo then keeps the step on the device, too."""
    return all(parameter.is_cuda and parameter not in state for parameter in parameters)


def _put_back(attributes: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        attributes.pop(name, None)
    else:
        attributes[name] = before
