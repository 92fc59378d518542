"""Use an installed cudalens outside of its checkout: a profile, a report, the widget's files and the magics.

    cd /tmp && python CHECKOUT/tools/wheel_check.py

It fails if a file is missing from the wheel or a dependency from its metadata.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the checks; an assertion or an exception is a failure."""
    import cudalens

    package = Path(cudalens.__file__).resolve()
    assert not package.is_relative_to(CHECKOUT) or "site-packages" in package.parts, f"{package} is the checkout's"
    profile_and_report()
    load_magics()
    sys.stdout.write(f"cudalens {cudalens.__version__} works: {package.parent}\n")


def profile_and_report() -> None:
    """A profile of the CPU and of a virtual device, shown, written and loaded."""
    import torch

    import cudalens

    with cudalens.virtual.device("h100"), cudalens.profile("wheel", memory=True) as run:
        torch.ones(64, 64, device="cuda").matmul(torch.ones(64, 64, device="cuda")).sum().item()
    assert len(run.trace.events), "the profile has no events"
    assert "text/html" in run.trace._repr_mimebundle_()
    with tempfile.TemporaryDirectory() as folder:
        run.trace.to_html(Path(folder) / "report.html")
        run.trace.save(Path(folder) / "run.cudalens")
        assert len(cudalens.load(Path(folder) / "run.cudalens").events) == len(run.trace.events)


def load_magics() -> None:
    """`%load_ext cudalens` in a fresh shell adds the cell magics."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "cudalens")
    for name in ("cudaprofile", "cudasan", "cudagraph", "cudamem"):
        assert shell.find_cell_magic(name) is not None, f"%%{name} is missing"


if __name__ == "__main__":
    main()
