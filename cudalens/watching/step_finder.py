"""Find the steps of a running program without a change of its code.

The sources, best first: steps of optimizers, batches of a DataLoader, calls of the outermost nn.Module. The program can
also mark steps itself. Of several optimizers the one with most steps counts, as in `cudalens.profiler.schedules`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader

from cudalens.device import clock

Source = Literal["none", "module", "dataloader", "optimizer", "program"]

#: The sources, worst first: a step of a later one makes the earlier ones unused.
SOURCES: Final[tuple[Source, ...]] = ("none", "module", "dataloader", "optimizer", "program")

#: Batches that are loaded without a step of an optimizer before each batch counts as a step.
NUM_BATCHES: Final = 8
#: Calls of the same outermost module before each of them counts as a step.
NUM_CALLS: Final = 8
#: Tensors of a batch whose elements are counted.
_NUM_TENSORS: Final = 64


class StepFinder:
    """Calls a function at the end of each step, on the thread that runs the loop.

    Args:
        on_step: Called with the source of the step.

    Attributes:
        source: What the steps are.
        data_ns: Time that the loop has waited for its DataLoader since the last call of `take_data`, ns.
        elements: Elements of the last batch; None without a DataLoader.
    """

    def __init__(self, on_step: Callable[[Source], None]) -> None:
        self._on_step = on_step
        self.source: Source = "none"
        self.data_ns = 0
        self.elements: int | None = None
        self._thread = 0
        self._counts: WeakKeyDictionary[Any, list[int]] = WeakKeyDictionary()
        self._num_steps = self._num_batches = self._num_calls = 0
        self._root: Any = None
        self._handles: list[Any] = []
        self._next: Any = None
        self._module_handle: Any = None

    @property
    def is_on(self) -> bool:
        """Whether hooks are installed."""
        return bool(self._handles)

    def start(self) -> None:
        """Install the hooks, which act on the calling thread alone."""
        self._thread = threading.get_ident()
        self._handles = [optimizers.register_optimizer_step_post_hook(self._optimizer_stepped)]
        self._wrap_loader()
        self._module_handle = modules.register_module_forward_pre_hook(self._module_called)

    def stop(self) -> None:
        """Remove the hooks. No effect if there are none."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._next is not None:
            kind, plain, ours = self._next
            if kind.__next__ is ours:  # another tool may have wrapped ours
                kind.__next__ = plain
        self._next = None
        self._ignore_modules()
        self._root = None

    def ignore(self) -> None:
        """Act no more, and leave the hooks in place: torch may be iterating over them. `stop` removes them."""
        self._thread = 0

    def mark(self) -> None:
        """The program itself ends a step here."""
        self._thread = threading.get_ident()
        self._step("program")

    def take_data(self) -> int:
        """Time that the loop has waited for its DataLoader since the last call, ns."""
        taken, self.data_ns = self.data_ns, 0
        return taken

    def _step(self, source: Source) -> None:
        if source != self.source:
            if SOURCES.index(source) < SOURCES.index(self.source):
                return
            self.source = source
            self._ignore_modules()
        self._on_step(source)

    def _optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread or torch.compiler.is_compiling():
            return
        known = self._counts.get(optimizer)
        if known is None:
            # The first step of a further optimizer belongs to the step that the others have made.
            known = self._counts[optimizer] = [max(self._num_steps, 1)]
        else:
            known[0] += 1
        if known[0] > self._num_steps:
            self._num_steps = known[0]
            self._step("optimizer")

    def _wrap_loader(self) -> None:
        """Time `next` of the iterators of DataLoaders, where torch has the class that they share."""
        kind: Any = getattr(dataloader, "_BaseDataLoaderIter", None)
        if kind is None or "__next__" not in vars(kind):
            return
        plain = kind.__next__

        def __next__(iterator: Any) -> Any:  # noqa: N807 - it replaces this method
            if threading.get_ident() != self._thread:
                return plain(iterator)
            began = clock.now_ns()
            batch = plain(iterator)
            self.data_ns += max(clock.now_ns() - began, 0)
            self.elements = num_elements(batch)
            self._num_batches += 1
            if self.source == "dataloader" or (self.source in ("none", "module") and self._num_batches >= NUM_BATCHES):
                self._step("dataloader")
            return batch

        self._next = kind, plain, __next__
        kind.__next__ = __next__

    def _module_called(self, module: Any, args: Any) -> None:
        """Find the outermost module; from then on its calls are steps, and no other module has a hook."""
        if threading.get_ident() != self._thread or torch.compiler.is_compiling():
            return
        if self.source not in ("none", "module") or self._num_batches:
            self._ignore_modules()
            return
        if self._root is None:
            self._root = module
        if module is not self._root:
            return
        self._num_calls += 1
        if self._num_calls >= NUM_CALLS:
            self._ignore_modules()
            self._handles.append(module.register_forward_pre_hook(self._root_called))
            self._step("module")

    def _root_called(self, module: Any, args: Any) -> None:
        if threading.get_ident() == self._thread and not torch.compiler.is_compiling():
            self._step("module")

    def _ignore_modules(self) -> None:
        if self._module_handle is not None:
            self._module_handle.remove()
            self._module_handle = None


def num_elements(batch: Any) -> int | None:
    """Elements of the tensors in `batch`, a tensor or lists, tuples and dicts of them; None without any."""
    total, found, pending = 0, 0, [batch]
    while pending and found < _NUM_TENSORS:
        one = pending.pop()
        if isinstance(one, torch.Tensor):
            total, found = total + one.numel(), found + 1
        elif isinstance(one, dict):
            pending += list(one.values())[:_NUM_TENSORS]
        elif isinstance(one, list | tuple):
            pending += one[:_NUM_TENSORS]
    return total if found else None
