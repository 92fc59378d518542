"""The browser that the benchmarks of pages run in."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")


def chromium_path() -> str | None:
    """The Chromium that CUDALENS_CHROMIUM names, else the first known one on the path."""
    named = os.environ.get("CUDALENS_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)
