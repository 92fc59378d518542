"""The virtual device compared with recorded runs on real devices (CUDALENS_RECORD=1 make test-gpu)."""

import pytest
import torch
from fidelity import DATA, PROGRAMS, compare, load_all, run_virtual

RECORDED = load_all()


@pytest.mark.skipif(not RECORDED, reason=f"nothing is recorded under {DATA.relative_to(DATA.parents[2])}")
@pytest.mark.parametrize("name", list(RECORDED) or ["none"])
def test_the_virtual_twin_does_what_the_device_did(name):
    real = RECORDED[name]
    if real.note["torch"].split(".")[:2] != torch.__version__.split(".")[:2]:
        print(f"recorded with torch {real.note['torch']}, run with {torch.__version__}")
    differences = [str(d) for d in compare(real, run_virtual(PROGRAMS[real.program], real.device))]
    assert not differences, "\n".join(differences)
