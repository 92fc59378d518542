"""Install torch.compile's support with a virtual device."""

from __future__ import annotations

from types import ModuleType

from cudalens.virtual.compiled.session import Session
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.imports import when_imported
from cudalens.virtual.patching import Patches


def install(patches: Patches, gpus: Gpus) -> None:
    """Compile for the virtual device while it is active; torch's compiler is patched when it is first used."""
    session = Session(patches, gpus)

    def watch(module: ModuleType) -> None:
        session.watch(module)

    when_imported(patches, "torch._dynamo.eval_frame", watch)
