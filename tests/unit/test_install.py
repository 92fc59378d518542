"""`tools/install.py`: PyTorch's CPU build comes from its own index or not at all, the other packages never do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import importlib.util, sys
sys.path.insert(0, sys.argv[1])
import install
install.CPU_INDEX = sys.argv[2]
importlib.util.find_spec = lambda name: None  # an environment without torch
sys.argv[1:] = sys.argv[3:]
sys.exit(install.main())
"""


def test_the_index_that_cannot_be_reached_costs_one_line(tmp_path):
    write_wheel(tmp_path / "files", "torch", "2.13.0")
    done = install(tmp_path, "http://127.0.0.1:9", "--find-links", str(tmp_path / "files"), "torch")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "http://127.0.0.1:9: cannot be reached; PyTorch is installed from the default index"
    ]
    assert installed(tmp_path) == ["torch-2.13.0"]


def test_torch_alone_comes_from_its_index_in_the_version_of_the_lock(tmp_path, index):
    for version in ("2.13.0+cpu", "2.14.0+cpu"):
        write_wheel(index.folder, "torch", version)
    write_wheel(tmp_path / "files", "pandas", "3.0")
    lock = tmp_path / "requirements.lock"
    lock.write_text("torch==2.13.0\n")
    done = install(tmp_path, index.url, "-c", str(lock), "--find-links", str(tmp_path / "files"), "pandas")
    assert (done.returncode, done.stderr) == (0, "")
    assert installed(tmp_path) == ["pandas-3.0", "torch-2.13.0+cpu"]
    assert {path.split("/")[1] for path in index.requests} == {"torch"}


def test_a_torch_on_this_machine_is_used_first(tmp_path, index):
    write_wheel(index.folder, "torch", "2.14.0+cpu")
    write_wheel(tmp_path / "files", "torch", "2.13.0")
    write_wheel(tmp_path / "files", "pandas", "3.0")
    environment = {"PIP_FIND_LINKS": str(tmp_path / "files")}
    done = install(tmp_path, index.url, "pandas", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert installed(tmp_path) == ["pandas-3.0", "torch-2.13.0"]
    assert index.requests == []


def test_an_index_without_this_version_is_named_with_pip_s_reason(tmp_path, index):
    write_wheel(index.folder, "torch", "2.13.0+cpu")
    write_wheel(tmp_path / "files", "torch", "2.14.0")
    arguments = ("--find-links", str(tmp_path / "files"), "torch==2.14.0")
    done = install(tmp_path, index.url, *arguments, requirement="torch==2.14.0")
    [line] = done.stderr.splitlines()
    assert "No matching distribution found for torch==2.14.0; PyTorch is installed from the default index" in line
    assert installed(tmp_path) == ["torch-2.14.0"]


def test_missing_folders_of_pip_s_configuration_are_not_reported(tmp_path):
    extra = (tmp_path / "empty").as_uri()
    done = install(tmp_path, "http://127.0.0.1:9", "--index-url", extra, "no-such-package")
    assert done.returncode
    assert "No matching distribution found for no-such-package" in done.stderr
    assert "is ignored" not in done.stderr


def install(folder: Path, index: str, *arguments: str, requirement="torch", environment=()):
    """Run the tool for an empty environment in a folder, without the configuration of this machine's pip."""
    names = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    names |= {"PIP_CONFIG_FILE": os.devnull, "PIP_TARGET": str(folder / "site"), "PIP_NO_CACHE_DIR": "1"}
    names |= dict(environment)
    if "--index-url" not in arguments and index.endswith(":9"):
        arguments = ("--no-index", *arguments)
    elif "--index-url" not in arguments:
        arguments = ("--index-url", (folder / "no-index").as_uri(), *arguments)
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "tools"), index, "--cpu-torch", requirement, *arguments]
    return subprocess.run(command, env=names, cwd=folder, capture_output=True, text=True, check=False)


def installed(folder: Path) -> list[str]:
    """The packages in an environment, with their versions."""
    return sorted(path.name.removesuffix(".dist-info") for path in (folder / "site").glob("*.dist-info"))


def write_wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel with metadata alone."""
    folder.mkdir(exist_ok=True)
    metadata = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{metadata}/RECORD", "")


class Index:
    """A package index on this machine that serves the wheels in `folder` and records the paths of `requests`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.requests: list[str] = []
        folder.mkdir()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                index.requests.append(self.path)
                body = index.answer(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/zip")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str) -> bytes | None:
        """The page of a package, or the content of a file."""
        name = path.strip("/").split("/")[-1].replace("%2B", "+")
        if path.endswith("/"):
            files = [file.name.replace("+", "%2B") for file in self.folder.glob(f"{name}-*")]
            return "".join(f'<a href="/torch/{file}">{file}</a>' for file in files).encode()
        file = self.folder / name
        return file.read_bytes() if file.exists() else None


@pytest.fixture
def index(tmp_path):
    """PyTorch's index, on this machine."""
    served = Index(tmp_path / "index")
    thread = threading.Thread(target=served.server.serve_forever)
    thread.start()
    yield served
    served.server.shutdown()
    thread.join()
    served.server.server_close()


def test_workflows_pin_every_action_by_its_commit():
    uses = [line for path in ROOT.glob(".github/workflows/*.yml") for line in path.read_text().splitlines()]
    uses = [line.split("uses:")[1].split("#")[0].strip() for line in uses if "uses:" in line]
    assert uses
    assert [action for action in uses if not re.fullmatch(r"(\./.+)|[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)] == []


def test_every_package_of_the_lock_has_a_hash_but_torch_and_its_cuda_libraries():
    text = "\n" + (ROOT / "requirements.hashes").read_text()
    packages = re.split(r"\n(?=[\w.-]+==)", text)[1:]
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    without = set(locked) - {package.partition("==")[0] for package in packages}
    assert {name for name in without if not re.match(r"torch$|cuda-|nvidia-", name)} == set()
    assert [package.partition("==")[0] for package in packages if "--hash=sha256:" not in package] == []
