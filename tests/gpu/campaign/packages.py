"""Makes cudalens importable where only torch, pandas and pytest are installed."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
FALLBACK: Final = Path(__file__).with_name("fallback")
_PATHS: Final = (ROOT, ROOT / "tests" / "gpu", ROOT / "tests" / "support", ROOT / "benchmarks")


def prepare() -> str:
    """Put the project, and a fallback for msgspec if it is missing, on the path of this and of child processes.

    Returns:
        "msgspec", or "fallback" where it is not installed.
    """
    try:
        is_missing = Path(importlib.import_module("msgspec").__file__ or "").parent == FALLBACK
    except ImportError:
        is_missing = True
    paths = [str(path) for path in (*_PATHS, *((FALLBACK,) if is_missing else ()))]
    sys.path[:0] = [path for path in paths if path not in sys.path]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, *filter(None, inherited)]))
    return "fallback" if is_missing else "msgspec"
