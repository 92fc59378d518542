"""Write the figures of README.md and docs/benchmarks.md from benchmarks/results; ``--check`` only compares.

Every figure comes from a result file. A result that is slower than the peer's is listed like the others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
MARKS = re.compile(r"(?<=<!-- benchmarks: begin -->\n).*?(?=<!-- benchmarks: end -->)", re.DOTALL)
HEAD = "| what | cudalens | peer | | time |\n| --- | --- | --- | --- | --- |\n"
#: Gestures of page.json that the table lists.
GESTURES = {
    "selection": "drag over a range of time",
    "event": "select events",
    "flame": "zoom the flame graph and change its width",
}
INTRO = """# How fast

Each script in `benchmarks/` runs cudalens and a peer on the same machine and writes a file in `benchmarks/results/`.
`tools/benchmark_docs.py` makes this page from these files.

- The machine has 2 shared cores and no GPU. Python and torch versions are in the result files.
- *Time* is wall time or CPU time, and the number of rounds. Figures are medians of the rounds, if not stated otherwise.
- "slower" rows are those where the peer is faster.

"""


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        what: What was measured.
        ours: The figure of cudalens, with its unit.
        peer: The figure of the peer, with its name; "" without a peer.
        faster: Time of the peer divided by that of cudalens; None without a peer.
        timed: Wall or CPU time, and the number of rounds.
        is_in_readme: Whether README.md shows it.
    """

    what: str
    ours: str
    peer: str
    faster: float | None
    timed: str
    is_in_readme: bool = True

    def __str__(self) -> str:
        return f"| {self.what} | {self.ours} | {self.peer} | {comparison(self.faster)} | {self.timed} |\n"


def comparison(faster: float | None) -> str:
    """The ratio in words."""
    if faster is None:
        return ""
    return f"{faster:.1f} x faster" if faster >= 1 else f"{1 / faster:.1f} x **slower**"


def seconds(value: float) -> str:
    """A time with its unit, in three digits."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def rounds(number: int) -> str:
    """A number of rounds."""
    return f"{number} round{'s' if number > 1 else ''}"


def load(name: str) -> dict[str, Any]:
    """The result file of that name."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def traces() -> Iterator[Row]:
    """Opening Chrome traces of several kinds. README shows that with the smallest ratio."""
    parse = load("parse")
    compared, sizes = parse["traces"], parse["sizes"]
    timed, hta = f"CPU, {rounds(compared['rounds'])}", "HolisticTraceAnalysis 0.5.0"
    worst = min(compared["of"], key=lambda name: compared["of"][name]["times_less_cpu"])
    for name, found in sorted(compared["of"].items(), key=lambda item: item[0] != worst):
        kind = "a recorded file, repeated" if name == "recorded" else f"generated, `{name}`"
        what = f"open a Chrome trace of {found['file_bytes'] / 1e6:.0f} MB ({kind}; memory above the imports)"
        for ours, note in (("cudalens", ""), ("cudalens without its extension", ", without the compiled scanner")):
            yield Row(
                what + note,
                f"{seconds(found[ours]['cpu_s'])}, {found[ours]['above_mib']:.0f} MiB",
                f"{hta}: {seconds(found[hta]['cpu_s'])}, {found[hta]['above_mib']:.0f} MiB",
                found[hta]["cpu_s"] / found[ours]["cpu_s"],
                timed,
                is_in_readme=name == worst and not note,
            )
    fit, largest = sizes["fit"], max(sizes["of"], key=int)
    yield Row(
        f"open a Chrome trace, {int(largest):,} entries (`{sizes['trace']}`; memory above the imports)",
        f"{sizes['of'][largest]['above_mib']:.0f} MiB; {fit['bytes_per_entry']:.0f} bytes an entry from "
        f"{int(min(sizes['of'], key=int)):,} on, within {100 * fit['largest_deviation']:.1f} %",
        "",
        None,
        "memory, 1 round",
        is_in_readme=False,
    )


def reading() -> Iterator[Row]:
    """Opening a Chrome trace, opening a memory snapshot, writing a trace."""
    yield from traces()
    snapshot = load("snapshot")
    ours, peer = snapshot["cudalens"], snapshot["pickle.load and torch.cuda._memory_viz"]
    yield Row(
        f"open a memory snapshot, {snapshot['actions']:,} actions, {snapshot['file_bytes'] / 1e6:.0f} MB",
        f"{seconds(ours['cpu_s'])}, {ours['peak_mib']:.0f} MiB",
        f"`pickle.load`, `torch.cuda._memory_viz`: {seconds(peer['cpu_s'])}, {peer['peak_mib']:.0f} MiB",
        peer["cpu_s"] / ours["cpu_s"],
        f"CPU, {rounds(snapshot['rounds'])}",
    )
    write = load("write")
    yield Row(
        f"write a `.json.gz`, {write['events']:,} events",
        seconds(write["cudalens_s"]),
        f"`export_chrome_trace`: {seconds(write['torch_s'])}",
        write["torch_s"] / write["cudalens_s"],
        f"wall, {rounds(min(len(runs) for runs in write['all_runs'].values()))}",
    )


def ranks() -> Iterator[Row]:
    """All ranks of a job, with the analyses that both have."""
    result = load("ranks")
    ours, peer = result["cudalens"], result[hta := "HolisticTraceAnalysis 0.5.0"]
    yield Row(
        f"`load_ranks` and stragglers, {result['ranks']} ranks of {result['entries']:,} events",
        f"{seconds(ours['cpu_s'])}, {ours['worker_mib']:.0f} MiB a process",
        f"{hta}: {seconds(peer['cpu_s'])}, {peer['peak_mib']:.0f} MiB",
        peer["cpu_s"] / ours["cpu_s"],
        f"CPU, {rounds(result['rounds'])}",
        is_in_readme=False,
    )


def analyses() -> Iterator[Row]:
    """Each analysis that the peer has, then all together. README shows the largest and the smallest ratio."""
    result = load("analyses")
    ours, peer = result["wall_s"], result[hta := "HolisticTraceAnalysis 0.5.0"]["wall_s"]
    ratios = {name: peer[name] / ours[name] for name in peer}
    ends = {max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)}
    timed = f"wall, {rounds(result['rounds'])}"
    for name in sorted(ratios, key=ratios.__getitem__, reverse=True):
        what = f"`{name}`, {result['events']:,} events"
        yield Row(what, seconds(ours[name]), f"{hta}: {seconds(peer[name])}", ratios[name], timed, name in ends)
    together = f"all {len(ours)} analyses, {result['events']:,} events"
    yield Row(together, f"{seconds(result['together_s'])}, {result['peak_mib']:.0f} MiB", "", None, timed)


def running() -> Iterator[Row]:
    """What the virtual device, the sanitizer and graphs add to a program."""
    virtual = load("virtual")["default_threads"]
    steps = rounds(len(virtual["all_steps_ms"]["virtual"])).replace("round", "step")
    yield Row(
        "a small transformer's training step on the virtual device",
        seconds(virtual["virtual_ms"] / 1e3),
        f"the same step on the CPU: {seconds(virtual['cpu_ms'] / 1e3)}",
        virtual["cpu_ms"] / virtual["virtual_ms"],
        f"wall, {steps}",
    )
    sanitizer = load("sanitizer")
    added = sanitizer["depth_40_per_operator_of_a_training_step"]["us_of_the_mode"]
    yield Row(
        "the sanitizer's cost per operator of a training step, Python stack 40 deep",
        f"{added['ours']:.0f} µs",
        f"`torch.cuda._sanitizer`: {added['torch']:.0f} µs",
        added["torch"] / added["ours"],
        "CPU, minimum of many rounds",
    )
    graphs = load("graphs")["us_per_call"]
    yield Row(
        "a function of 200 kernels by `cudagraph`, on the virtual device",
        f"{graphs['managed']:.0f} µs",
        f"eager: {graphs['eager']:.0f} µs",
        graphs["eager"] / graphs["managed"],
        "modelled, not measured",
        is_in_readme=False,
    )
    for name, one in load("graphs")["replayed_call"].items():
        us = one["us"]
        peer = f"`make_graphed_callables`: {us['make_graphed_callables']:.0f} µs"
        yield Row(
            f"host time of a replayed call ({name}), CUDA's calls left out",
            f"{us['managed']:.0f} µs",
            f"{peer}; copies of the arguments: {us['bare']:.0f} µs",
            us["make_graphed_callables"] / us["managed"],
            "wall, 9 rounds",
            is_in_readme=False,
        )
    guards = load("guards")
    for name, one in guards["per_replay"].items():
        yield Row(
            f"guards of a graphed module of {guards['submodules']} sub-modules ({name.replace('_', ' ')}), per replay",
            f"{one['us']:.1f} µs for {one['values']} values",
            "",
            None,
            f"CPU, {rounds(guards['rounds'])}",
            is_in_readme=False,
        )


def views() -> Iterator[Row]:
    """Timeline and memory map in a browser."""
    timeline = load("timeline")
    frames = timeline["frames"]
    yield Row(
        f"pan and zoom the timeline of {timeline['num_events']:,} events, headless Chromium",
        f"{frames['frame_median_ms']:.1f} ms a frame, worst {frames['frame_worst_ms']:.1f} ms",
        "",
        None,
        f"wall, {frames['num_frames']} frames",
    )
    page = load("page")
    for gesture, what in GESTURES.items():
        found = page[gesture]
        yield Row(
            f"{what} in a report of {page['num_events']:,} events, headless Chromium, main thread",
            f"{found['cpu_median_ms']:.1f} ms a frame, worst {found['cpu_worst_ms']:.1f} ms",
            "",
            None,
            f"CPU, {found['num_frames']} frames",
            is_in_readme=False,
        )
    blocks = load("memory_map")["blocks"]
    yield Row(
        f"zoom the memory map of {blocks['blocks']:,} blocks, headless Chromium",
        f"{blocks['zoom']['median_frame_ms']:.1f} ms a frame, 95 % within {blocks['zoom']['p95_frame_ms']:.0f} ms",
        "",
        None,
        "wall, 1 round",
        is_in_readme=False,
    )


def texts() -> dict[Path, str]:
    """Each file, as it has to be."""
    rows = [*reading(), *ranks(), *analyses(), *running(), *views()]
    short = HEAD + "".join(str(row) for row in rows if row.is_in_readme)
    return {
        README: MARKS.sub(lambda _: short, README.read_text(encoding="utf-8")),
        PAGE: INTRO + HEAD + "".join(map(str, rows)),
    }


def main() -> int:
    """Write both files, or compare them with the results."""
    wanted = texts()
    if "--check" not in sys.argv:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path in wanted if not path.exists() or path.read_text(encoding="utf-8") != wanted[path]]
    if stale:
        sys.stderr.write(f"{' and '.join(stale)}: figures differ from benchmarks/results; run 'make fix'.\n")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
