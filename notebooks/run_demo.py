"""Runs ``quickstart.ipynb`` for real: the executed notebook and its HTML report land in ``out/``, the verdict is printed.

``python notebooks/run_demo.py notebooks/stream-races.ipynb`` runs another one. ``--update`` also puts the outputs into the
notebook itself, as they are committed: without what only lives with a kernel (widgets) and without messages of this
machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tqdm import tqdm

QUICKSTART = Path(__file__).with_name("quickstart.ipynb")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def main() -> int:
    """Execute, write, report; returns the exit code."""
    parser = argparse.ArgumentParser(description="Execute a notebook for real.")
    parser.add_argument("notebook", type=Path, nargs="?", default=QUICKSTART, help="which; by default the quickstart")
    parser.add_argument("--out", type=Path, default=QUICKSTART.parents[1] / "out", help="folder to write to")
    parser.add_argument("--update", action="store_true", help="put the outputs into the notebook itself, cleaned")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    try:
        notebook = execute(arguments.notebook, arguments.out)
    except CellExecutionError as error:
        log = arguments.out / "kernel.log"
        print(f"{arguments.notebook.name} failed; messages of its kernel are in {log}.", file=sys.stderr)
        print(error, file=sys.stderr)
        return 1
    nbformat.write(notebook, arguments.out / arguments.notebook.name)
    if arguments.update:
        nbformat.write(cleaned(notebook), arguments.notebook)
    tell(arguments.notebook.name, arguments.out, time.perf_counter() - begin)
    return 0


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook at `path`, executed by a real kernel whose working folder is `folder`."""
    notebook = nbformat.read(path, as_version=4)
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    # tqdm draws on a terminal only, with disable=None.
    with tqdm(total=count, desc=path.name, unit="cell", leave=False, disable=None) as bar:
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            store_widget_state=False,
            record_timing=False,
            on_cell_executed=lambda **_: bar.update(),
        )
        # What libraries write past Python (torch's C++ warnings, say) is kept, but does not fill the terminal.
        with open(folder / "kernel.log", "w") as log:
            client.execute(stderr=log)
    return notebook


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook` as it is committed: no widgets, nothing from stderr, only what any machine would tell alike."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _lives_with_kernel(output)]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def _lives_with_kernel(output: nbformat.NotebookNode) -> bool:
    return WIDGET_VIEW in output.get("data", {}) or output.get("name") == "stderr"


def tell(name: str, folder: Path, seconds: float) -> None:
    """Print where everything lies; of the quickstart also the verdict on the run that it saved."""
    print(f"Executed {name} in {seconds:.0f} s.", end="")
    if name == QUICKSTART.name:
        import cudalens
        from cudalens.views.sections import verdict as text

        print(f" Its verdict on five training steps:\n\n  {text.verdict(cudalens.load(folder / 'steps.cudalens'))}\n")
        print(f"Report    {folder / 'report.html'}   (open it in a browser; it needs no network)", end="")
    print(f"\nNotebook  {folder / name}   (to play with it: make lab)")


if __name__ == "__main__":
    sys.exit(main())
