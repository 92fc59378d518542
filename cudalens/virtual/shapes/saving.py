"""`torch.save` on a device without values: a file that would have unknown values is not written.

A program finds a file that is there as it was: one of zeros could be taken for the model.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
from pathlib import Path
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.reading import Defaults, contents_error, users_line
from cudalens.virtual.shapes.storage import NO_VALUES_KEY

_LOAD: Final = (
    "torch.load at {place} reads {path!r}, which torch.save at {saved} did not write, because this virtual device "
    "computes no values (values=False). Leave both lines out, or compute values (values=True) with a smaller program. "
    "The ranks of a job run one after the other, and a rank may find what one before it has left: run_ranks=[0] runs "
    "only the first."
)


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace `torch.save` and `torch.load`, if the device has no values."""
    if gpus.shapes is None:
        return
    save, load = _saving(torch.save, gpus.shapes.defaults), _loading(torch.load, gpus.shapes.defaults)
    for module in (torch, torch.serialization):
        patches.set(module, "save", save)
        patches.set(module, "load", load)


def _saving(original: Any, defaults: Defaults) -> Any:
    @functools.wraps(original)
    def save(obj: object, f: Any, pickle_module: Any = pickle, *args: Any, **kwargs: Any) -> None:
        path = _path_of(f)
        if not _has_unknown_values(obj, pickle_module):
            if path is not None:
                defaults.unwritten.pop(path, None)
            original(obj, f, pickle_module, *args, **kwargs)
            return
        if not defaults.skips_files:
            raise contents_error("what torch.save writes")
        if path is None:
            raise contents_error("what torch.save writes to an open file (given its path, it would write nothing)")
        defaults.unwritten[path] = users_line()

    return save


def _loading(original: Any, defaults: Defaults) -> Any:
    @functools.wraps(original)
    def load(f: Any, *args: Any, **kwargs: Any) -> Any:
        path = _path_of(f)
        if path in defaults.unwritten:
            saved, _ = defaults.unwritten[path]
            raise VirtualDeviceError(_LOAD.format(place=users_line()[0], path=os.fspath(f), saved=saved))
        return original(f, *args, **kwargs)

    return load


def _path_of(file: Any) -> str | None:
    """Return the absolute path of what `torch.save` gets; None of an open file."""
    return str(Path(os.fsdecode(file)).resolve()) if isinstance(file, str | os.PathLike) else None


def _has_unknown_values(obj: object, pickle_module: Any) -> bool:
    """Return whether an object holds a storage without values; False if it cannot be pickled."""

    class Search(pickle_module.Pickler):  # type: ignore[misc]
        has_found = False

        def persistent_id(self, part: Any) -> str | None:
            """Return what stands for a storage, whose contents are then not pickled."""
            storage = getattr(part, "_untyped_storage", part)
            if not isinstance(storage, torch.UntypedStorage):
                return None
            self.has_found |= NO_VALUES_KEY in storage.__dict__
            return "storage"

    search = Search(io.BytesIO(), protocol=2)
    with contextlib.suppress(Exception):  # torch.save raises its own error
        search.dump(obj)
    return bool(search.has_found)
