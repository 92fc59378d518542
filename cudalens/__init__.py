"""cudalens: see in a notebook what your GPU did.

In a notebook, ``%load_ext cudalens`` and then ``%%cudaprofile`` on top of a cell. In a script::

    import cudalens

    with cudalens.profile(memory=True) as p:
        train_step()
    print(p.trace.summary())
    p.trace.to_html("report.html")

The public names are listed once, in ``__init__.pyi``, which type checkers read as well. Each is imported on first use,
so that ``import cudalens`` loads neither torch nor pandas.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any


def _public_names() -> dict[str, tuple[str, str | None]]:
    """The module of each name in ``__init__.pyi`` and its attribute there; None if the name is the module itself."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names: dict[str, tuple[str, str | None]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(__name__):
            is_package = node.module in (__name__, f"{__name__}.api")
            for name in (alias.name for alias in node.names):
                names[name] = (f"{node.module}.{name}", None) if is_package else (node.module, name)
    return names


_PUBLIC = _public_names()
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    value = import_module(module)
    globals()[name] = value = value if attribute is None else getattr(value, attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext cudalens``: adds the magics, prints nothing."""
    import_module("cudalens.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext cudalens``: removes the magics."""
    import_module("cudalens.magics").unload(shell)
