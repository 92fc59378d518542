"""Try all fixes for one loop of scripts and notebooks of public projects; print a table for docs/fixes.md.

    python tools/public_scripts.py FOLDER [NAME ...]

FOLDER has a clone of each project, as ``OWNER+NAME/repo`` (a folder or a bare repository). The text up to the loop runs
on a virtual H100, with fewer steps and made-up data; then the loop is profiled, and all its findings are tried with
consent to its effects. At last a new process runs the fixed cell after the same text: its results have to be those of
the cell without it, equal or with as much rounding as the try states. It needs .venv-programs.
Exit status 1: a diff is wrong, or something raised.
"""

from __future__ import annotations

import ast
import io
import linecache
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import traceback
import types
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torchvision  # compares its CUDA version with that of the device when it is imported
from tried_programs import _forked

sys.path[:0] = [str(Path(__file__).parents[1])]

import cudalens  # noqa: E402
from cudalens.fixes.values import compare_values, values_in  # noqa: E402

_LIMIT_S: Final = 240
_TUTORIAL: Final = "yunjey/pytorch-tutorial"
_GANS: Final = "eriklindernoren/PyTorch-GAN"
_NLP: Final = "graykode/nlp-tutorial"
_EXAMPLES: Final = "pytorch/examples"


@dataclass(frozen=True)
class Script:
    """A script or notebook of a public project.

    Attributes:
        project: The project.
        file: The file.
        loop: How the first line of the cell begins; the text before it runs once.
        changes: Texts that are replaced, as numbers of epochs.
        before: Statements that run before the cell.
        cell: The cell, where it is not the loop itself.
    """

    project: str
    file: str
    loop: str = "for epoch in range"
    changes: dict[str, str] = field(default_factory=dict)
    before: str = ""
    cell: str = ""


_ONE: Final = {f"num_epochs = {number}": "num_epochs = 1" for number in (200, 15, 5)} | {
    "num_epochs = 2\n": "num_epochs = 1\n"
}
_FEW: Final = {"range(5000)": "range(4)", "range(1000)": "range(4)"}
_EPOCH: Final = {"range(opt.n_epochs)": "range(1)"}
_TRAIN: Final = """
args = types.SimpleNamespace(log_interval=10, dry_run=False)
device = torch.device("cuda")
model = Net().to(device)
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
images = datasets.MNIST("../data", train=True, transform=transforms.ToTensor())
data = torch.utils.data.DataLoader(images, batch_size=64, shuffle=True)
"""
SCRIPTS: Final = (
    Script(_TUTORIAL, "tutorials/01-basics/feedforward_neural_network/main.py", changes=_ONE),
    Script(_TUTORIAL, "tutorials/01-basics/logistic_regression/main.py", changes=_ONE),
    Script(_TUTORIAL, "tutorials/01-basics/linear_regression/main.py", changes={"num_epochs = 60": "num_epochs = 4"}),
    Script(_TUTORIAL, "tutorials/02-intermediate/convolutional_neural_network/main.py", changes=_ONE),
    Script(_TUTORIAL, "tutorials/02-intermediate/recurrent_neural_network/main.py", changes=_ONE),
    Script(_TUTORIAL, "tutorials/02-intermediate/bidirectional_recurrent_neural_network/main.py", changes=_ONE),
    Script(_TUTORIAL, "tutorials/03-advanced/variational_autoencoder/main.py", changes=_ONE),
    Script(
        _TUTORIAL,
        "tutorials/03-advanced/generative_adversarial_network/main.py",
        changes=_ONE | {"batch_size = 100": "batch_size = 64", "(0.5, 0.5, 0.5)": "(0.5,)"},
    ),
    Script(_EXAMPLES, "mnist/main.py", before=_TRAIN, cell="train(args, model, device, data, optimizer, 1)"),
    Script(_EXAMPLES, "mnist_rnn/main.py", before=_TRAIN, cell="train(args, model, device, data, optimizer, 1)"),
    Script(_EXAMPLES, "vae/main.py", cell="train(1)"),
    Script(_EXAMPLES, "mnist/main.py", before=_TRAIN, cell="test(model, device, data)"),
    Script(_GANS, "implementations/gan/gan.py", changes=_EPOCH),
    Script(_GANS, "implementations/wgan/wgan.py", changes=_EPOCH),
    Script(_GANS, "implementations/lsgan/lsgan.py", changes=_EPOCH),
    Script(_GANS, "implementations/dcgan/dcgan.py", changes=_EPOCH),
    Script(_NLP, "1-1.NNLM/NNLM.ipynb", changes=_FEW),
    Script(_NLP, "4-1.Seq2Seq/Seq2Seq.ipynb", changes=_FEW),
    Script(_NLP, "3-2.TextLSTM/TextLSTM.ipynb", changes=_FEW),
    Script(_NLP, "2-1.TextCNN/TextCNN.ipynb", changes=_FEW),
    Script(
        "karpathy/minGPT",
        "demo.ipynb",
        changes={"max_iters = 2000": "max_iters = 6", "range(100)": "range(2)"},
        loop="trainer.run()",
    ),
    Script(
        "karpathy/nanoGPT",
        "bench.py",
        loop="for stage, num_steps in",
        changes={
            "real_data = True": "real_data = False", "compile = True": "compile = False", "[10, 20]": "[2]",
            "batch_size = 12": "batch_size = 2", "block_size = 1024": "block_size = 64", "n_layer = 12": "n_layer = 2",
            "n_embd = 768": "n_embd = 96",
        },
    ),
)  # fmt: skip


class FakeImages(torch.utils.data.Dataset):
    """256 random images with labels, in place of a data set that is downloaded."""

    size = (1, 28, 28)

    def __init__(self, *args: Any, **options: Any) -> None:
        made = torch.Generator().manual_seed(0)
        self.images = torch.rand(256, *self.size, generator=made)
        self.labels = torch.randint(10, (256,), generator=made)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        return self.images[at], int(self.labels[at])


def text_of(folder: Path, script: Script) -> str:
    """Return the text of a script, or of the code cells of a notebook."""
    repository = folder / script.project.replace("/", "+") / "repo"
    shown = ["git", "-C", str(repository), "show", f"HEAD:{script.file}"]
    text = subprocess.run(shown, capture_output=True, check=True, text=True).stdout  # noqa: S603
    if script.file.endswith(".ipynb"):
        cells = [cell for cell in loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    for before, after in script.changes.items():
        text = text.replace(before, after)
    return text


def parts_of(script: Script, text: str) -> tuple[str, str]:
    """Return what runs before the cell, and the cell."""
    quote = '"' if '"__main__"' in text else "'"
    head, mark, tail = text.partition(f"if __name__ == {quote}__main__{quote}:")
    if mark and not script.cell:
        text = head + textwrap.dedent(tail)
    elif mark:
        text = head
    if script.cell:
        return f"{text}\n{script.before}", script.cell
    statements = ast.parse(text).body
    lines = text.split("\n")
    branches = [one for node in statements for one in (node, *(getattr(node, "orelse", None) or []))]
    found = next(one for one in branches if lines[one.lineno - 1].strip().startswith(script.loop))
    setup = [one for one in statements if one.end_lineno < found.lineno]
    before = "\n".join(lines[: max(one.end_lineno for one in setup)])
    cell = textwrap.dedent("\n".join(lines[found.lineno - 1 : found.end_lineno]))
    return f"{before}\n{script.before}", cell


def prepared(folder: Path, script: Script, setup: str) -> dict[str, Any]:
    """Run what comes before the cell; returns the variables."""
    FakeImages.size = (3, 32, 32) if "began" in script.file else (1, 32, 32) if "dcgan" in script.file else (1, 28, 28)
    torchvision.datasets.MNIST = FakeImages
    torchvision.datasets.CIFAR10 = FakeImages
    repository = folder / script.project.replace("/", "+") / "repo"
    here = Path(tempfile.mkdtemp(prefix="public-"))
    modules = ["git", "-C", str(repository), "archive", "HEAD", ":(glob)**/*.py"]
    archive = subprocess.run(modules, capture_output=True, check=True).stdout  # noqa: S603
    subprocess.run(["tar", "-x", "-C", str(here)], input=archive, check=True)  # noqa: S603, S607
    place = here / Path(script.file).parent
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    sys.path.insert(0, str(place))
    sys.argv = [script.file]
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    name = f"<{script.file}>"
    linecache.cache[name] = (len(setup), None, setup.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "public", "types": types}
    exec(compile(setup, name, "exec"), names)  # noqa: S102 - a script of the list
    return names


def tried(folder: Path, script: Script, setup: str, cell: str) -> Any:
    """Try all findings of the cell, without torch.compile."""
    with cudalens.virtual.device("h100"):
        names = prepared(folder, script, setup)
        with cudalens.profile("cell", keep=False) as profiled:
            exec(compile(cell, "<cell>", "exec"), names)  # noqa: S102 - its loop
        from support.every_rule import leave_out_compiling

        from cudalens.api.try_fix import trying_of

        leave_out_compiling()
        found = cudalens.analysis.findings(profiled.trace)
        trying = trying_of(profiled.trace, cell, names, consent=True)
        return trying.all(found)


def left(folder: Path, script: Script, setup: str, cells: list[str]) -> bytes:
    """What cells leave in the variables, saved, because tensors in shared memory would end with the process."""
    with cudalens.virtual.device("h100"):
        names = prepared(folder, script, setup)
        for cell in cells:
            exec(compile(cell, "<cell>", "exec"), names)  # noqa: S102 - its loop
        values = {
            where: one.detach().cpu().clone() if isinstance(one, torch.Tensor) else one
            for name, value in names.items()
            if not name.startswith("_") and not isinstance(value, types.ModuleType | type | types.FunctionType)
            for where, one in values_in(name, value)
            if isinstance(one, torch.Tensor | int | float | str)
        }
        saved = io.BytesIO()
        torch.save(values, saved)
        return saved.getvalue()


def row_of(folder: Path, script: Script) -> tuple[str, bool]:
    """Return the line of the table, and whether all is as claimed."""
    setup, cell = parts_of(script, text_of(folder, script))
    name = f"{script.project}, `{script.file}`" + (f" (`{script.cell.partition('(')[0]}`)" if script.cell else "")
    found = _forked(lambda: tried(folder, script, setup, cell), _LIMIT_S)
    if isinstance(found, str):
        return f"| {name} | !! {found.strip().splitlines()[-1]} | | |", False
    tries = found
    rows = tries.rows()
    kept = [f"`{row[0]}`: {row[1]} ({row[2]})" for row in rows if row[3] == "kept"]
    others = [f"`{row[0]}`: {row[3]}" for row in rows if row[3] not in ("kept", "")]
    answer, is_right = tries.headline(), True
    if tries.together is not None:
        both = []
        for one in (cell, tries.together.fixed_text):
            saved = _forked(lambda one=one: left(folder, script, setup, ["import torch", one]), _LIMIT_S)
            if isinstance(saved, str):
                return f"| {name} | !! {saved.strip().splitlines()[-1]} | | |", False
            both.append(torch.load(io.BytesIO(saved)))
        # Variables that a fix drops, and clock readings of the script, are left out.
        shared = {where: one for where, one in both[0].items() if where in both[1] and where not in ("t0", "t1", "dt")}
        difference = compare_values(shared, both[1])
        is_right = difference.is_exact or difference.is_within(None)
        answer += "" if is_right else f" !! {difference}"
    return f"| {name} | {answer} | {'; '.join(kept) or '-'} | {'; '.join(others) or '-'} |", is_right


def main(folder: str, *chosen: str) -> int:
    """Try the scripts and print the table."""
    sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]
    torch.set_num_threads(1)
    is_right = True
    print("| script | answer | kept | not kept |\n| --- | --- | --- | --- |")
    for script in SCRIPTS:
        if chosen and not any(word in script.file for word in chosen):
            continue
        try:
            line, is_well = row_of(Path(folder), script)
        except Exception:
            line, is_well = f"| {script.file} | !! {traceback.format_exc().strip().splitlines()[-1]} | | |", False
        is_right = is_right and is_well
        print(line, flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
