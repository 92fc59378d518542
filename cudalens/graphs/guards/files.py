"""Which files have code that is searched for names: the user's and other libraries', not the interpreter's."""

from __future__ import annotations

import sysconfig
from typing import Final

import torch

_OWN: Final = __file__.rpartition("graphs")[0]
_OUTSIDE: Final = (*{sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}, "<frozen ")

#: Parts of torch whose code is read for names: it reads numbers from modules and optimizers.
_TORCH: Final = torch.__file__.rpartition("__init__")[0]
_OPTIMIZED: Final = ("optim", "nn/modules")

#: Functions of torch that call others which programs replace (``functional.scaled_dot_product_attention``).
_FUNCTIONAL: Final = f"{_TORCH}nn/functional.py"


def is_searched(file: str) -> bool:
    """Whether a file's code is searched for names: the user's, other libraries', torch's modules and optimizers."""
    if file.startswith(_TORCH):
        return file[len(_TORCH) :].startswith(_OPTIMIZED)
    if file.startswith(_OWN):
        return False
    return is_installed(file) or not file.startswith(_OUTSIDE)


def is_functional(file: str) -> bool:
    """Whether a file is ``torch.nn.functional``, whose functions are read for the functions that they call."""
    return file == _FUNCTIONAL


def is_installed(file: str) -> bool:
    """Whether a file is of an installed package other than torch and cudalens."""
    return ("site-packages" in file or "dist-packages" in file) and not file.startswith((_TORCH, _OWN))


def is_of_program(file: str) -> bool:
    """Whether a file is the user's: neither of an installed package nor of the standard library, torch or cudalens."""
    return is_searched(file) and not is_installed(file) and not is_of_torch(file)


def is_of_torch(file: str) -> bool:
    """Whether a file is one of torch's."""
    return file.startswith(_TORCH)
