"""Execute ``quickstart.ipynb``, write it and its HTML report to ``out/``, and print the verdict.

``python notebooks/run_demo.py notebooks/stream-races.ipynb`` runs another one. ``--update`` also writes the outputs into
the notebook itself, as they are committed: without widgets and without messages of this machine.
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
    parser = argparse.ArgumentParser(description="Execute a notebook.")
    parser.add_argument("notebook", type=Path, nargs="?", default=QUICKSTART, help="which; by default the quickstart")
    parser.add_argument("--out", type=Path, default=QUICKSTART.parents[1] / "out", help="folder to write to")
    parser.add_argument("--update", action="store_true", help="write the outputs into the notebook itself, cleaned")
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
    report(arguments.notebook.name, arguments.out, time.perf_counter() - begin)
    return 0


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook at `path`, executed by a new ipykernel whose working folder is `folder`."""
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
        # Output of libraries that bypasses Python (torch's C++ warnings) goes to a file, not to the terminal.
        with open(folder / "kernel.log", "w") as log:
            client.execute(stderr=log)
    return notebook


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """`notebook` as it is committed: no widgets, nothing from stderr."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _needs_kernel(output)]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def _needs_kernel(output: nbformat.NotebookNode) -> bool:
    return WIDGET_VIEW in output.get("data", {}) or output.get("name") == "stderr"


def report(name: str, folder: Path, seconds: float) -> None:
    """Print where the files are; for the quickstart also the verdict of the run that it saved."""
    print(f"Executed {name} in {seconds:.0f} s.", end="")
    if name == QUICKSTART.name:
        import cudalens
        from cudalens.views.sections import verdict as text

        print(f" Its verdict on five training steps:\n\n  {text.verdict(cudalens.load(folder / 'steps.cudalens'))}\n")
        print(f"Report    {folder / 'report.html'}   (open it in a browser; it needs no network)", end="")
    print(f"\nNotebook  {folder / name}   (to edit it: make lab)")


if __name__ == "__main__":
    sys.exit(main())
