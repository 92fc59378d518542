"""A real JupyterLab for the tests: its own port, token and settings, and notebooks made on the fly.

Loaded by `tests/browser/test_lab.py`; the browser itself comes from the folder's conftest.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import nbformat

TIMEOUT_MS = 90_000  # of a machine that does much else


class Lab:
    """A running JupyterLab or Notebook server that serves the notebooks in `folder`."""

    def __init__(self, url: str, token: str, folder: Path, env: dict[str, str], place: str = "lab/tree") -> None:
        self.url = url
        self.env = env
        self.place = place
        self.token = token
        self.folder = folder

    def write_notebook(self, name: str, *cells: str) -> Path:
        """A notebook of code cells, saved as `name` in the served folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.folder / name
        nbformat.write(notebook, path)
        return path

    def load(self, page, name: str) -> None:
        """Load JupyterLab in `page` with the notebook `name`, and wait for its panel."""
        page.goto(f"{self.url}/{self.place}/{name}?reset&token={self.token}")
        self._wait_for_panel(page)

    def open(self, page, name: str) -> None:
        """Open the notebook `name` alone, with the kernel that runs if there is one, and wait for its panel.

        JupyterLab is loaded once for a page, which takes seconds.
        """
        self._use_running_kernel(name)
        if page.url.startswith(f"{self.url}/lab"):
            page.evaluate(_OPEN_ALONE, name)
            self._wait_for_panel(page)
        else:
            self.load(page, name)

    def _wait_for_panel(self, page) -> None:
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell", timeout=TIMEOUT_MS)
        page.wait_for_function(
            "() => window.jupyterapp?.commands?.hasCommand('notebook:run-all-cells')", timeout=TIMEOUT_MS
        )

    def opened(self, page) -> str | None:
        """The notebook that `page` shows, if any."""
        return page.evaluate("() => window.jupyterapp?.shell.currentWidget?.context?.path ?? null")

    def _use_running_kernel(self, name: str) -> None:
        """Let the next opening of `name` find the first kernel that runs: starting one and importing torch is slow."""
        if kernels := self.request("GET", "kernels"):
            kernel = {"id": kernels[0]["id"]}
            self.request("POST", "sessions", {"path": name, "name": name, "type": "notebook", "kernel": kernel})

    def end_kernels(self) -> None:
        """End all kernels, so that the next notebook has a new one."""
        for kernel in self.request("GET", "kernels"):
            self.request("DELETE", f"kernels/{kernel['id']}")

    def request(self, method: str, path: str, body: object = None):
        """The answer of the server's REST interface at /api/`path`; None where it is empty."""
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/api/{path}", data, headers, method=method)
        with urlopen(request, timeout=TIMEOUT_MS / 1000) as answer:
            return json.loads(answer.read() or b"null")

    def run_all(self, page) -> None:
        """Run all cells of the open notebook; wait until the kernel has answered each."""
        self.wait_for_kernel(page)
        page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.wait_for_cells(page)

    def wait_for_cells(self, page) -> None:
        """Wait until each cell has run."""
        page.wait_for_function(_ALL_RAN, timeout=TIMEOUT_MS)

    def wait_for_kernel(self, page) -> None:
        """Wait until the notebook's kernel is idle."""
        page.wait_for_function(_KERNEL_IS_IDLE, timeout=TIMEOUT_MS)

    def command(self, page, name: str) -> None:
        """Execute the JupyterLab command `name`."""
        page.evaluate("name => void window.jupyterapp.commands.execute(name)", name)


_DISABLED = {"@jupyterlab/apputils-extension:splash": True}

#: Unsaved changes would open a dialog, and a notebook that closes before its kernel has started is an exception on the
#: page.
_OPEN_ALONE = """async (path) => {
  const { shell, commands } = window.jupyterapp;
  for (const widget of [...shell.widgets('main')]) {
    if (widget.context?.model) widget.context.model.dirty = false;
    await Promise.race([widget.context?.sessionContext?.ready, new Promise((end) => setTimeout(end, 10000))]);
    widget.close();
  }
  const widget = await commands.execute('docmanager:open', { path });
  await widget.context.ready;
}"""

_KERNEL_IS_IDLE = """() => {
  const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""

_ALL_RAN = """() => {
  const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map((node) => node.textContent.trim());
  return prompts.length > 0 && prompts.every((text) => /^\\[\\d+\\]:$/.test(text));
}"""


@contextmanager
def running_lab(folder: Path, settings: Path, app: str = "jupyterlab"):
    """Start JupyterLab on `folder` with empty settings in `settings`; stop it at the end.

    `app` is the module that serves: ``jupyterlab`` or ``notebook`` (Notebook 7).

    Its splash screen is off: JupyterLab can remove it twice, which is an exception on the page.
    """
    (settings / "config" / "labconfig").mkdir(parents=True)
    (settings / "config" / "labconfig" / "page_config.json").write_text(json.dumps({"disabledExtensions": _DISABLED}))
    token, port = secrets.token_hex(16), _free_port()
    env = os.environ | {
        "JUPYTER_CONFIG_DIR": str(settings / "config"),
        "JUPYTER_DATA_DIR": str(settings / "data"),
        "JUPYTER_RUNTIME_DIR": str(settings / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings / "lab"),
        "JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces"),
        "IPYTHONDIR": str(settings / "ipython"),
    }
    command = [
        *(sys.executable, "-m", app, "--no-browser", "--expose-app-in-browser", "--allow-root"),
        *(f"--ServerApp.token={token}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(
            f"--ServerApp.root_dir={folder}",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ),
    ]
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log: deque[str] = deque(maxlen=200)
    try:
        _wait_until_serving(process, log)
        yield Lab(f"http://127.0.0.1:{port}", token, folder, env, "lab/tree" if app == "jupyterlab" else "notebooks")
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_serving(process: subprocess.Popen[str], log: deque[str]) -> None:
    for line in process.stderr:
        log.append(line)
        if "is running at" in line:
            # The rest must be read as well, or the server blocks on a full pipe.
            threading.Thread(target=lambda: log.extend(process.stderr), daemon=True).start()
            return
    raise RuntimeError("JupyterLab did not start:\n" + "".join(log))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
