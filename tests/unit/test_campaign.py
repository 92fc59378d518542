"""The GPU campaign on a virtual device, with the packages of a machine that has only torch, pandas and pytest."""

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from campaign import processes
from campaign.__main__ import LIMIT_S, PARTS
from campaign.operators import operators
from campaign.packages import FALLBACK

ROOT = Path(__file__).parents[2]
#: What the campaign does without: all other dependencies of cudalens, and what notebooks and its tests use.
ABSENT = [
    *("IPython", "anywidget", "comm", "dask", "distributed", "fsspec", "hypothesis", "ipykernel", "ipywidgets"),
    *("itables", "jupyter_client", "msgspec", "nbclient", "nbformat", "playwright", "plotly", "pyarrow", "pynvml"),
    *("tqdm", "traitlets"),
]
BLOCKER = f"""
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        found = self.finder.find_spec(name, path, target)
        is_absent = name.partition(".")[0] in {ABSENT} and "fallback" not in str(found)
        return None if is_absent else found
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Without, sys.meta_path)
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Results of a short campaign on a virtual h200, in a process without the absent packages."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "block").mkdir()
    (folder / "block" / "sitecustomize.py").write_text(BLOCKER)
    order = [sys.executable, "tests/gpu/campaign", "--out", folder / "out", "--virtual", "h200", "--short"]
    parts = [word for name in PARTS if name != "benchmarks" for word in ("--part", name)]
    environment = {**os.environ, "PYTHONPATH": str(folder / "block"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*order, *parts], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    log = folder / "out" / "campaign.log"
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log.read_text() if log.exists() else ''}"
    return folder / "out"


def results(campaign, name):
    found = json.loads((campaign / name).read_text())
    assert (found["facts"]["device"], found["facts"]["is_virtual"]) == ("NVIDIA H200", True)
    return found["results"]


def test_every_part_leaves_a_file(campaign):
    report = json.loads((campaign / "campaign.json").read_text())
    assert report["msgspec"] == "fallback"
    assert all(part["is_complete"] for part in report["parts"])
    expected = {file for name, (file, *_) in PARTS.items() if name != "benchmarks"}
    assert {path.name for path in campaign.iterdir()} == expected | {"campaign.json", "campaign.log"}
    assert len(PARTS) + 2 <= 8


def test_operators_have_times_and_kernels(campaign):
    rows = results(campaign, "timings.json")
    assert not [row for row in rows if "error" in row]
    assert all(row["graph_ns"] > 0 and row["plain_ns"] > 0 for row in rows if row["family"] != "copies")
    (product,) = [row for row in rows if row["operator"] == "mm bfloat16 1 x 1024 x 1024"]
    assert product["num_kernels"] == 1
    assert product["kernels"][0][1] == pytest.approx(product["graph_ns"], rel=0.5)


def test_there_are_300_operators():
    assert len(operators()) == 300


def test_programs_actions_and_tests_are_recorded(campaign):
    assert [row["outcome"] for row in results(campaign, "tests.json")] == ["passed", "passed"]
    (seen,) = results(campaign, "fidelity.json")["observations"]
    assert seen["callbacks"]
    actions = results(campaign, "allocator.json")["programs"]["two_streams"]["actions"]
    assert {"alloc", "free_completed", "segment_alloc"} <= {action for action, *_ in actions}


def test_the_campaign_ends_within_eight_minutes():
    assert LIMIT_S < 480
    assert sum(limit for _, limit, _ in PARTS.values()) <= LIMIT_S


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        (lambda: None, ""),
        (lambda: 1 / 0, "failed"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended by SIGKILL"),
        (lambda: time.sleep(60), "ended by SIGTERM"),
    ],
    ids=["returns", "raises", "is killed", "hangs"],
)
def test_a_part_only_ends_its_own_process(tmp_path, call, outcome):
    log = tmp_path / "log"
    found = processes.forked(call, log, 0.5 if "TERM" in outcome else 60)
    assert found.startswith(outcome)
    assert bool(found) == bool(outcome)
    assert ("ZeroDivisionError" in log.read_text()) == (outcome == "failed")


def test_the_results_become_files_of_the_project(campaign, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from fold_campaign import BEGIN, END, Fold

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "virtual.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    fold = Fold(campaign, tmp_path, allows_virtual=True)
    fold.all()
    places = {str(path.relative_to(tmp_path)).partition("/nvidia-h200")[0] for path in fold.written}
    kept = {f"tests/data/{name}" for name in ("fidelity", "allocator", "snapshots", "gpu_tests", "kernel_times")}
    assert places == kept | {"docs/virtual.md"}
    assert fold.missing == ["benchmarks.json"]
    page = (tmp_path / "docs" / "virtual.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "| pointwise | 1 | 0.0% | 100% | 1.00 |" in page
    (actions,) = (tmp_path / "tests/data/allocator/nvidia-h200").iterdir()
    assert json.loads(gzip.decompress(actions.read_bytes()))["facts"]["device"] == "NVIDIA H200"


def test_results_of_a_virtual_device_do_not_become_data(campaign, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from fold_campaign import Fold

    with pytest.raises(SystemExit, match="from a virtual device"):
        Fold(campaign, tmp_path).all()


def test_a_broken_file_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from fold_campaign import Fold

    (tmp_path / "fidelity.json").write_text("[1]")
    with pytest.raises(SystemExit, match=r"fidelity\.json: .*expected a file of make gpu-campaign"):
        Fold(tmp_path, tmp_path).all()


def fallback():
    """The fallback for msgspec as a module of another name."""
    spec = importlib.util.spec_from_file_location("msgspec_fallback", FALLBACK / "msgspec.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcomes(library, text):
    """What a library makes of a text, for types as cudalens declares them."""

    class Part(library.Struct, frozen=True, forbid_unknown_fields=True):
        name: str
        share: float = 0.5
        rows: tuple[int, ...] = ()

    class Whole(library.Struct, rename={"count": "Number of"}):
        count: int | None = None
        raw: library.Raw = library.Raw()
        part: Part | None = library.field(default=None, name="piece")
        every: list[Part] = []  # noqa: RUF012
        texts: dict[str, Any] = {}  # noqa: RUF012
        kind: Literal["a", "b"] = "a"

    try:
        found = library.json.decode(text, type=Whole)
    except library.DecodeError:
        return "refused"
    changed = library.structs.replace(found, kind="b")
    fields = [(one.name, one.encode_name) for one in library.structs.fields(Whole)]
    changed = library.structs.replace(changed, raw=library.Raw(b"1"))
    return (
        library.json.encode(changed),
        fields,
        library.to_builtins(found.part),
        repr(found.part),
        json.loads(bytes(found.raw) or "null"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Number of": 3, "raw": [1, {"a": 2}], "piece": {"name": "x", "rows": [1, 2]}, "kind": "b", "unknown": 1}',
        '{"every": [{"name": "ä", "share": 1}, {"name": "b"}], "texts": {"k": [1.5, null, true]}, "raw": null}',
        '{"Number of": null, "piece": null, "raw": 5}',
        '{"Number of": "3"}',
        '{"Number of": true}',
        '{"piece": {"name": "x", "unknown": 1}}',
        '{"piece": {"share": 1}}',
        '{"piece": {"name": "x", "rows": [1, "2"]}}',
        '{"kind": "c"}',
        "[]",
        '{"Number of": 3',
        "",
    ],
)
def test_the_fallback_reads_and_writes_as_msgspec(text):
    text = text.replace('"raw": null', '"raw": 1') if "texts" in text else text
    assert outcomes(fallback(), text) == outcomes(msgspec, text)


def test_the_fallback_makes_structs_as_msgspec():
    for library in (fallback(), msgspec):
        kind = library.defstruct("Args", [("a", int), ("b", Any, None)], rename={"b": "B"}, omit_defaults=True)
        assert library.json.encode(kind(1)) == b'{"a":1}'
        assert library.json.encode(kind(1, b=[2.0])) == b'{"a":1,"B":[2.0]}'
        assert kind.__struct_fields__ == ("a", "b")
        assert kind(1) == kind(a=1)
        with pytest.raises(TypeError):
            kind()
