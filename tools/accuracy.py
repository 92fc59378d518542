"""Write the accuracy of modelled kernel times into ``docs/virtual.md`` and a picture: ``python tools/accuracy.py``.

The table's figures are those that ``tools/fit_timing.py`` stored with the constants: errors on shapes that were not
used for the fit. With ``--data FOLDER`` (the tables of measured times) whole programs run again and the picture of
measured against predicted times is drawn again. ``--check`` only compares the table with the page.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import torch

from cudalens.gpus.constants import accuracy, rates_of
from cudalens.gpus.registry import SPECS

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "virtual.md"
PICTURE: Final = ROOT / "docs" / "images" / "accuracy.svg"
PROGRAMS_BEGIN: Final = "<!-- programs: written by tools/accuracy.py -->"
PROGRAMS_END: Final = "<!-- end of programs -->"
BEGIN: Final = "<!-- accuracy: written by tools/accuracy.py -->"
END: Final = "<!-- end of accuracy -->"

TITLES: Final = {
    "matrix_half": "matrix products, bfloat16",
    "matrix_single": "matrix products, float32 (linear, bmm)",
    "convolution_half": "convolutions, float16",
    "convolution_single": "convolutions, float32",
    "attention": "causal attention, bfloat16",
    "attention_cudnn": "attention, bfloat16 (cuDNN)",
    "decode": "decoding attention, bfloat16",
    "softmax": "softmax, float32",
    "layer_norm": "layer norm, float32",
    "pointwise": "pointwise, float32",
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "alltoall": "all_to_all",
    "reduce_scatter": "reduce_scatter",
}
#: Points in each panel of the picture, and the panel's size in pixels.
NUM_POINTS: Final = 40
SIZE: Final = 120


def table(families: dict[str, Any]) -> str:
    """The errors by family and GPU as a Markdown table, and those of whole models."""
    gpus = sorted({gpu for name in TITLES for gpu, found in families[name]["gpus"].items() if "num_shapes" in found})
    lines = ["| kernels | " + " | ".join(gpus) + " |", "| --- |" + " --- |" * len(gpus)]
    for name, title in TITLES.items():
        cells = [_cell(families[name]["gpus"].get(gpu)) for gpu in gpus]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    sources = sorted({source for family in families.values() for source in family["source"].split("; ")})
    models = [
        f"{gpu} {_cell(found)} of {found['num_models']} measurements"
        for gpu, found in families["convolution_half"]["gpus"].items()
        if "num_models" in found
    ]
    whole = (
        "Consumer GPUs were not measured kernel by kernel. Their constants of half precision (products, convolutions, "
        "depthwise convolutions, attention, pointwise) are fitted to the times of whole vision models (timm, inference "
        "with autocast). Mean error and share within a factor of two on model families that the fit did not use: "
    )
    return "\n".join([*lines, "", whole + "; ".join(models) + ".", "", "Measurements: " + "; ".join(sources) + "."])


def _cell(found: dict[str, Any] | None) -> str:
    return "" if found is None else f"{found['mean_error_pct']} % ({found['within_2x_pct']:g} %)"


def programs_table(folder: Path) -> str:
    """Measured and predicted times of whole programs as a Markdown table."""
    from labelled_programs import report

    found = report(folder)
    lines = ["| GPU | program | batch x tokens | measured ms | predicted ms | ratio |", "|---|---|---|---|---|---|"]
    for label, predicted in found:
        sizes = f"{label.batch} x {label.length}"
        times = f"{label.measured_ms:.0f} | {predicted:.0f} | {predicted / label.measured_ms:.2f}"
        lines.append(f"| {label.gpu} | {label.model} {label.kind} | {sizes} | {times} |")
    errors = [abs(predicted / label.measured_ms - 1) for label, predicted in found]
    return "\n".join([*lines, "", f"The mean error is {100 * sum(errors) / len(errors):.1f} %."])


def _with(page: str, begin: str, text: str, end: str) -> str:
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def picture(families: dict[str, Any], folder: Path) -> str:
    """Small panels of measured (x) against predicted (y) times, both logarithmic, one for each family and GPU."""
    from fit_timing import FAMILIES, Sizes

    rows, columns = [], 0
    for family in FAMILIES:
        panels = []
        for gpu, data in family.read(folder).groupby("spec"):
            drawn = data.sample(min(NUM_POINTS, len(data)), random_state=1)
            constants = families[family.name]["gpus"][gpu]["constants"]
            sizes = Sizes(drawn)
            predicted = family.predict(constants, rates_of(SPECS[str(gpu)], family.peak), sizes)
            panels.append((str(gpu), sizes.time_ns.log10().tolist(), predicted.log10().tolist()))
        rows.append((TITLES[family.name], panels))
        columns = max(columns, len(panels))
    return _svg(rows, columns)


def _svg(rows: list[tuple[str, list[tuple[str, list[float], list[float]]]]], columns: int) -> str:
    height, pitch = (SIZE + 44) * len(rows) + 8, SIZE + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {pitch * columns + 8} {height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for row, (title, panels) in enumerate(rows):
        top = row * (SIZE + 44) + 16
        parts.append(f'<text x="8" y="{top}" font-weight="bold">{title}</text>')
        for column, (gpu, measured, predicted) in enumerate(panels):
            parts.append(_panel(column * pitch + 8, top + 22, gpu, measured, predicted))
    return "\n".join([*parts, "</svg>\n"])


def _panel(left: int, top: int, gpu: str, measured: list[float], predicted: list[float]) -> str:
    low, high = 3.0, 8.0  # 1 us to 100 ms
    scale = SIZE / (high - low)
    points = [
        f'<circle cx="{left + (x - low) * scale:.1f}" cy="{top + SIZE - (y - low) * scale:.1f}" r="1.4"/>'
        for x, y in zip(measured, predicted, strict=True)
        if low <= min(x, y) and max(x, y) <= high
    ]
    return (
        f'<text x="{left}" y="{top - 5}">{gpu}</text>'
        f'<rect x="{left}" y="{top}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#999"/>'
        f'<line x1="{left}" y1="{top + SIZE}" x2="{left + SIZE}" y2="{top}" stroke="#ccc"/>'
        f'<g fill="#1565c0" fill-opacity="0.6">{"".join(points)}</g>'
    )


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare the table with the page")
    parser.add_argument("--data", type=Path, help="the folder of measured times, to draw the picture")
    options = parser.parse_args()
    families = accuracy()
    page = _with(PAGE.read_text(), BEGIN, table(families), END)
    if options.check:
        if page != PAGE.read_text():
            print(f"{PAGE.name}: the accuracy differs from the constants; run `make accuracy`.")
            return 1
        return 0
    if options.data is not None:
        page = _with(page, PROGRAMS_BEGIN, programs_table(options.data), PROGRAMS_END)
    PAGE.write_text(page)
    if options.data is not None:
        torch.set_default_dtype(torch.float64)
        PICTURE.write_text(picture(families, options.data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
