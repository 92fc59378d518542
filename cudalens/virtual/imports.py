"""Patch modules when they are imported."""

from __future__ import annotations

from cudalens.device import interpose
from cudalens.device.interpose import Change
from cudalens.virtual.patching import Patches


def when_imported(patches: Patches, name: str, change: Change) -> None:
    """Call `change` with a module: now if it is imported, otherwise after its import.

    Args:
        patches: Undone at the end; `change` uses the same.
        name: The module's full name.
        change: Applies the patches.
    """
    patches.on_restore(interpose.when_imported(name, change))
