"""Programs on a real GPU and on its virtual twin: callbacks, allocator statistics, order, answers and errors are equal.

``CUDALENS_RECORD=1`` (or a directory) also writes what the real device said, into tests/data/fidelity, for machines
without one. Predicted over measured times are printed (``-rP`` shows them), not judged.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from fidelity import DATA, PROGRAMS, Observation, compare, predicted_over_measured, run_real, run_virtual, save  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

RECORD = os.environ.get("CUDALENS_RECORD", "")


@pytest.fixture(scope="module")
def observed() -> dict[str, tuple[Observation, Observation]]:
    """Real and virtual observations by program, each made when first asked for."""
    return {}


@pytest.fixture(params=list(PROGRAMS))
def pair(request: pytest.FixtureRequest, observed: dict[str, tuple[Observation, Observation]]):
    name = request.param
    if name not in observed:
        real = run_real(PROGRAMS[name])
        if RECORD:
            save(DATA if RECORD == "1" else Path(RECORD), real)
        observed[name] = real, run_virtual(PROGRAMS[name], real.device)
    return observed[name]


@pytest.mark.parametrize("kind", ["callbacks", "memory", "segments", "order", "facts", "errors"])
def test_the_twin_does_what_the_device_did(pair: tuple[Observation, Observation], kind: str):
    differences = [str(d) for d in compare(*pair) if d.kind == kind]
    assert not differences, "\n".join(differences)


def test_times_are_reported(pair: tuple[Observation, Observation]):
    real, virtual = pair
    for part, ratio in predicted_over_measured(real, virtual).items():
        print(f"{real.program}: {part}: predicted {ratio:.2f} times what was measured on {real.device.name}")
    assert virtual.device.is_virtual
    assert not real.device.is_virtual
