"""Real IPython shells and real kernels to run cells in."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

import cudalens


@dataclass
class Notebook:
    """A shell that remembers, in order, what its cells showed."""

    shell: InteractiveShell
    capsys: pytest.CaptureFixture[str]
    shown: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        hook, publisher = self.shell.displayhook, CapturingDisplayPublisher()
        self.shell.display_pub = publisher
        hook.write_output_prompt = lambda: None
        hook.write_format_data = lambda data, metadata=None: self.shown.append(("out", data["text/plain"]))
        publisher.publish = lambda data, metadata=None, **more: self.shown.append(("display", data))
        self.shell._showtraceback = lambda kind, error, lines: self.shown.append(("error", "\n".join(lines)))
        self.shell.show_usage_error = lambda error: self.shown.append(("usage", str(error)))

    def run(self, cell: str, **options: Any) -> ExecutionResult:
        """Run a cell as a user does; `shown` is then what it showed, standard streams left to capsys."""
        self.shown.clear()
        return self.shell.run_cell(cell, **{"store_history": True, **options})

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.shown]

    def text(self, kind: str) -> str:
        return "\n".join(str(data) for found, data in self.shown if found == kind)

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def plain_shell():
    """A shell without cudalens. It takes `__main__`'s place, as IPython does, and gives it back."""
    before = sys.modules["__main__"]
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}), colors="nocolor")
    yield shell
    sys.modules["__main__"] = before


@pytest.fixture
def notebook(plain_shell, capsys):
    """A shell with cudalens loaded, and no runs from other tests."""
    cudalens.runs.clear()
    plain_shell.run_line_magic("load_ext", "cudalens")
    book = Notebook(plain_shell, capsys)
    book.run("import torch")
    yield book
    cudalens.runs.clear()
