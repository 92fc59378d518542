"""80 % bands contain about 80 % of measured times that they were not learned from."""

import zlib
from collections import defaultdict
from pathlib import Path

import pytest

from cudalens.gpus.constants import bands
from cudalens.gpus.predict import SHORT_NS, time_band
from cudalens.gpus.registry import SPECS

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "kernel_times"
#: The coverage that an 80 % band may have, and the measurements below which a share says nothing about it.
COVERAGE = pytest.approx(0.8, abs=0.1)
FEWEST = 20


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    """Modules of the folder tools can be imported."""
    monkeypatch.syspath_prepend(ROOT / "tools")


@pytest.fixture
def fit_bands(tools):
    """The module that learns the bands."""
    import fit_bands

    return fit_bands


def fold_of(operator):
    """A number from 0 to 19: an operator is in the same fold on both GPUs."""
    return zlib.crc32(operator.encode()) % 20


def campaign_coverage(fit_bands):
    """Families of the campaigns: number of measurements, and the share inside bands that other operators gave."""
    residuals = [one for gpu in fit_bands.CAMPAIGNS for one in fit_bands.campaign_residuals(gpu)]
    found = defaultdict(list)
    for fold in range(20):
        others = [one._replace(gpu="h100") for one in residuals if fold_of(one.operator) != fold]
        learned = fit_bands.learn(others)
        for one in residuals:
            if fold_of(one.operator) == fold and one.family in learned:
                low, high, _ = learned[one.family]["h100"]["short" if one.predicted_ns <= SHORT_NS else "long"]
                found[one.family].append(min(low, 1.0) <= one.ratio <= max(high, 1.0))
    return {family: (len(inside), sum(inside) / len(inside)) for family, inside in found.items()}


def test_bands_of_operators_contain_the_times_of_other_operators(fit_bands):
    found = campaign_coverage(fit_bands)
    large = {family: share for family, (count, share) in found.items() if count >= FEWEST}
    assert len(large) >= 8
    assert large == dict.fromkeys(large, COVERAGE), found


def test_bands_of_one_gpu_contain_the_times_of_another(fit_bands):
    h100, h200 = (list(fit_bands.campaign_residuals(gpu)) for gpu in ("h100", "h200"))
    tables = [
        fit_bands.inside(h200, fit_bands.learn(h100), "h100"),
        fit_bands.inside(h100, fit_bands.learn(h200), "h200"),
    ]
    inside = sum((table["size"] * table["mean"]).sum() for table in tables)
    assert inside / sum(table["size"].sum() for table in tables) == COVERAGE


@pytest.mark.skipif(not DATA.exists(), reason="../shared/kernel_times is not beside this checkout")
def test_bands_of_one_half_of_the_shapes_contain_the_other_half(fit_bands):
    residuals = list(fit_bands.table_residuals(DATA))
    learned = fit_bands.learn(residuals[::2])
    by_gpu = defaultdict(list)
    for one in residuals[1::2]:
        by_gpu[one.gpu].append(one)
    for gpu, others in by_gpu.items():
        table = fit_bands.inside(others, learned, gpu)
        for row in table[table["size"] >= 3 * FEWEST].itertuples():
            assert row.mean == COVERAGE, (row.family, gpu)


@pytest.mark.skipif(not DATA.exists(), reason="../shared/kernel_times is not beside this checkout")
def test_bands_of_whole_programs_contain_their_times():
    import labelled_programs

    inside = []
    for label, predicted_ms, kernels in labelled_programs.report_kernels(DATA):
        band = time_band(SPECS[label.gpu], kernels)
        inside.append(band.low <= label.measured_ms / predicted_ms <= band.high)
    assert sum(inside) / len(inside) == COVERAGE


def test_every_band_contains_its_prediction_and_has_measurements():
    for family, gpus in bands().items():
        for gpu, entry in gpus.items():
            for part in ("short", "long"):
                low, high, count = entry[part]
                assert 0.1 < low < high < 10, (family, gpu)
                assert count > 0
