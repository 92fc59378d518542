"""The training flags of the modules that a function reaches."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cudalens.graphs.guards.comparing import Compared, PythonCompared
from cudalens.graphs.guards.lookups import AttributeItems


class TrainingFlags:
    """The flags of some modules, which are read one by one only if one has changed.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._modules = modules
        self._holders = list(map(AttributeItems, modules))
        self._read()

    def _read(self) -> None:
        self._flags = tuple([module.training for module in self._modules])
        self._compared: PythonCompared = Compared(
            AttributeItems, self._holders, ["training"] * len(self._flags), self._flags,
            (), (), (), (), (), (), (), (),
        )  # fmt: skip

    def now(self) -> tuple[bool, ...]:
        """The flag of each module; the same object as before if none has changed."""
        if not self._compared.has_items():
            self._read()
        return self._flags
