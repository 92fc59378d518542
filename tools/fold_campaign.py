"""Make test data, benchmark results and documentation from a GPU campaign: ``python tools/fold_campaign.py FOLDER``.

FOLDER is what ``make gpu-campaign OUT=FOLDER`` wrote on a machine with a GPU. Results of a virtual device are refused:
data in the project is what a real device did. Each file notes what, where and when. The operators run on the virtual
device of the same kind, without values, for the table of measured against predicted times in ``docs/virtual.md``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import re
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests" / "gpu")]

BEGIN: Final = "<!-- campaign: written by tools/fold_campaign.py -->"
END: Final = "<!-- end of campaign -->"
#: What comes before the project's or a package's own part of a path.
_FOLDERS: Final = re.compile(r"^.*/(?=tests/)|^.*/site-packages/|^.*/(?=[^/]+$)")
#: No file of a campaign is larger than this when it is read.
MAX_BYTES: Final = 64 << 20


class Fold:
    """The results of one campaign, and the project that they go into.

    Args:
        folder: The results.
        root: The root of the project.
        allows_virtual: Accept results of a virtual device, for tests.
    """

    def __init__(self, folder: Path, root: Path, *, allows_virtual: bool = False) -> None:
        self.folder, self.root, self.allows_virtual = folder, root, allows_virtual
        self.written: list[Path] = []
        self.missing: list[str] = []

    def read(self, name: str) -> dict[str, Any] | None:
        """A part's file, or None if the part left none.

        Raises:
            SystemExit: It is too large, not JSON, or of a virtual device.
        """
        path = self.folder / name
        if not path.exists():
            self.missing.append(name)
            return None
        if path.stat().st_size > MAX_BYTES:
            raise SystemExit(f"{path}: larger than {MAX_BYTES} bytes; expected a file of make gpu-campaign.")
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            facts = found["facts"]
            is_virtual = bool(facts.get("is_virtual", True)) if facts else False
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"{path}: {error!r}; expected a file of make gpu-campaign.") from error
        if is_virtual and not self.allows_virtual:
            raise SystemExit(f"{path}: from a virtual device; only results of a real one go into the project.")
        return found

    def write(self, place: str, text: str | bytes) -> None:
        """Write a file of the project."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.written.append(path)

    def all(self) -> None:
        """Every part that left results."""
        self.fidelity()
        self.allocator()
        self.snapshots()
        self.benchmarks()
        self.tests()
        self.timings()

    def fidelity(self) -> None:
        """Observations of programs, as ``CUDALENS_RECORD=1 make test-gpu`` writes them."""
        from fidelity.observation import Observation
        from fidelity.recordings import slug

        found = self.read("fidelity.json")
        for values in found["results"]["observations"] if found else ():
            seen = Observation.from_json(json.dumps(values))
            self.write(f"tests/data/fidelity/{slug(seen.device.name)}/{_safe(seen.program)}.json", seen.to_json())

    def allocator(self) -> None:
        """Actions of the caching allocator, one compressed file for each program."""
        found = self.read("allocator.json")
        for name, program in found["results"]["programs"].items() if found else ():
            text = json.dumps({"facts": found["facts"], "program": name, **program})  # type: ignore[index]
            data = gzip.compress(text.encode(), mtime=0)
            self.write(f"tests/data/allocator/{_device(found)}/{_safe(name)}.json.gz", data)

    def snapshots(self) -> None:
        """Torch's memory snapshots, which stay pickles: the reader of snapshots is tested with them."""
        path, timings = self.folder / "snapshots.zip", self.read("allocator.json")
        if not path.exists() or timings is None:
            self.missing.append(path.name)
            return
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.filename.endswith(".pickle") and entry.file_size <= MAX_BYTES:
                    data = gzip.compress(_without_folders(archive.read(entry)), mtime=0)
                    name = _safe(entry.filename.removesuffix(".pickle"))
                    self.write(f"tests/data/snapshots/{_device(timings)}/{name}.pickle.gz", data)

    def benchmarks(self) -> None:
        """Results of the benchmarks on a GPU, beside those of a virtual device."""
        found = self.read("benchmarks.json")
        places = {"kernels": "kernels.json", "graphs": "graphs_gpu.json"}
        for name, result in found["results"].items() if found else ():
            result = {**result, "measured": found["facts"]}  # type: ignore[index]
            self.write(f"benchmarks/results/{places[name]}", json.dumps(result, indent=1) + "\n")

    def tests(self) -> None:
        """How many of tests/gpu passed, and which did not."""
        found = self.read("tests.json")
        if found:
            rows = found["results"]
            outcomes = {name: sum(row["outcome"] == name for row in rows) for name in ("passed", "failed", "skipped")}
            others = [row for row in rows if row["outcome"] != "passed"]
            text = json.dumps({"facts": found["facts"], **outcomes, "others": others}, indent=1) + "\n"
            self.write(f"tests/data/gpu_tests/{_device(found)}.json", text)

    def timings(self) -> None:
        """Measured and predicted times of operators, and the table in the documentation."""
        found = self.read("timings.json")
        if found is None:
            return
        facts = found["facts"]
        predicted = {row["operator"]: row for row in predictions(facts, [row["operator"] for row in found["results"]])}
        rows = [_with_prediction(row, predicted.get(row["operator"], {})) for row in found["results"]]
        text = json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n"
        self.write(f"tests/data/kernel_times/{_device(found)}.json", text)
        self.write("docs/virtual.md", with_section((self.root / "docs/virtual.md").read_text(), section(self.root)))


def refresh(root: Path) -> list[Path]:
    """Predict the recorded operators of all GPUs again, after a change of the clock. Returns the files written."""
    written = sorted((root / "tests/data/kernel_times").glob("*.json"))
    for path in written:
        found = json.loads(path.read_text(encoding="utf-8"))
        predicted = {
            row["operator"]: row for row in predictions(found["facts"], [r["operator"] for r in found["rows"]])
        }
        found["rows"] = [_with_prediction(row, predicted.get(row["operator"], {})) for row in found["rows"]]
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    page = root / "docs/virtual.md"
    page.write_text(with_section(page.read_text(encoding="utf-8"), section(root)), encoding="utf-8")
    return [*written, page]


def _device(found: dict[str, Any] | None) -> str:
    from fidelity.recordings import slug

    return slug(str(found["facts"]["device"]) if found else "")


def _safe(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"[^a-z0-9_]+", "-", str(name).lower())[:80]


def predictions(facts: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """The rows of the same operators on a virtual device of the same kind, without values."""
    from campaign.operators import operators
    from campaign.timings import row_of
    from fidelity.observation import DeviceFacts
    from fidelity.runs import twin_of

    import cudalens.virtual

    capability = tuple(facts["capability"])
    device = DeviceFacts(facts["device"], capability, facts["total_memory_bytes"], facts["num_sms"], is_virtual=False)
    spec: Any = twin_of(device)
    with cudalens.virtual.device(spec, values=False) as on:
        return [row_of(one) | _kernels_of(on, one) for one in operators() if one.name in set(names)]


def _kernels_of(on: Any, operator: Any) -> dict[str, Any]:
    """The time of an operator's kernels, and the family that takes most of it; none for copies."""
    import torch

    from cudalens.virtual.fit.runs import Kernels

    call = operator.prepare()
    call()
    torch.cuda.synchronize()
    on.gpus.machine.recorder = recorded = Kernels()
    call()
    torch.cuda.synchronize()
    on.gpus.machine.recorder = None
    times: dict[str, int] = defaultdict(int)
    for family, duration_ns in recorded.works:
        times[family] += duration_ns
    return {"family": max(times, key=times.__getitem__), "kernels_ns": sum(times.values())} if times else {}


def _with_prediction(row: dict[str, Any], predicted: dict[str, Any]) -> dict[str, Any]:
    found = {f"predicted_{kind}_ns": predicted.get(f"{kind}_ns") for kind in ("graph", "plain", "kernels")}
    found["predicted_family"] = predicted.get("family")
    return {**row, **{name: value for name, value in found.items() if value}}


def section(root: Path) -> str:
    """The tables of all measured devices, as Markdown."""
    from campaign.operators import operators

    order = list(dict.fromkeys(one.family for one in operators()))
    texts = [
        _device_section(json.loads(path.read_text()), order)
        for path in sorted((root / "tests/data/kernel_times").glob("*.json"))
    ]
    return "\n\n".join(texts)


def _device_section(found: dict[str, Any], order: list[str]) -> str:
    by_family = defaultdict(list)
    for row in found["rows"]:
        if row.get("graph_ns") and row.get("predicted_graph_ns"):
            by_family[row["family"]].append(row["predicted_graph_ns"] / row["graph_ns"])
    facts = found["facts"]
    lines = [
        f"Operators measured on {_cell(facts['device'])}, {_cell(facts['when'])}, torch {_cell(facts['torch'])}, "
        f"driver {_cell(facts['driver'])}: replays of CUDA graphs, against predictions.",
        "",
        "| operators | number | mean error | within 2x | median predicted / measured |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_line(family, by_family[family]) for family in order if by_family[family]]
    return "\n".join(lines)


def _line(family: str, ratios: list[float]) -> str:
    error = sum(abs(ratio - 1) for ratio in ratios) / len(ratios)
    within = sum(0.5 < ratio < 2 for ratio in ratios) / len(ratios)
    median = sorted(ratios)[len(ratios) // 2]
    return f"| {family} | {len(ratios)} | {error:.1%} | {within:.0%} | {median:.2f} |"


def _cell(text: Any) -> str:
    """Text of a file as Markdown that cannot leave its line."""
    return re.sub(r"[^\w .,:+()-]", "", str(text))[:80]


def with_section(page: str, text: str) -> str:
    """The page with the section between its marks."""
    if BEGIN not in page or END not in page:
        raise SystemExit(f"docs/virtual.md: no marks {BEGIN} and {END}.")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


def _without_folders(data: bytes) -> bytes:
    """A snapshot whose stack frames name files as they are called in the project or in an installed package."""
    from cudalens.traces.safe_pickle import load_snapshot

    snapshot, _ = load_snapshot(Path("snapshots.zip"), data)
    entries = [entry for trace in snapshot["device_traces"] for entry in trace]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    for holder in (*entries, *blocks, *snapshot["segments"]):
        holder["frames"] = [
            {**frame, "filename": _FOLDERS.sub("", frame["filename"])} for frame in holder.get("frames", ())
        ]
    return pickle.dumps(snapshot)


def main() -> int:
    """Fold the results of a folder into the project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="what make gpu-campaign wrote")
    parser.add_argument("--refresh", action="store_true", help="predict the operators of all recorded GPUs again")
    options = parser.parse_args()
    if options.refresh == (options.folder is not None):
        parser.error("expected the folder of a campaign, or --refresh")
    if options.refresh:
        for path in refresh(PROJECT):
            print(path.relative_to(PROJECT))
        return 0
    fold = Fold(options.folder, PROJECT)
    fold.all()
    for path in fold.written:
        print(path.relative_to(PROJECT))
    for name in fold.missing:
        print(f"{name}: the campaign left none")
    return int(not fold.written)


if __name__ == "__main__":
    sys.exit(main())
