"""The virtual device compared with recorded runs on real devices (CUDALENS_RECORD=1 make test-gpu)."""

import pytest
import torch
from fidelity import DATA, PROGRAMS, compare, load_all, run_virtual

RECORDED = load_all()

ADDRESSES = "of free blocks of one size another is taken, since the driver's addresses of segments do not ascend"
LT_WORKSPACE = "the device keeps a workspace of 1 MiB for cuBLASLt, which the virtual device does not have"

#: Where the virtual device differs from the device, and in what.
KNOWN = {
    "nvidia-h200/cuda_events": "a stream of high priority has another number in its pool",
    "nvidia-h200/fragmentation": ADDRESSES,
    "nvidia-h200/fragmentation_split": ADDRESSES,
    "nvidia-h200/out_of_memory": ADDRESSES,
    "nvidia-h200/mlp_training": LT_WORKSPACE,
    "nvidia-h200/transformer_training": LT_WORKSPACE,
    "nvidia-h200/graph_capture": "the device keeps the cuBLAS workspace that a capture took from the graph's pool",
    "nvidia-h200/two_stream_prefetch": "copies ended later than on the virtual device, after earlier batches",
}


def cases():
    for name in RECORDED:
        reason = KNOWN.get(name)
        yield pytest.param(name, marks=[pytest.mark.xfail(reason=reason, strict=True)] if reason else [])


@pytest.mark.skipif(not RECORDED, reason=f"nothing is recorded under {DATA.relative_to(DATA.parents[2])}")
@pytest.mark.parametrize("name", list(cases()) or ["none"])
def test_the_virtual_twin_does_what_the_device_did(name):
    real = RECORDED[name]
    if real.note["torch"].split(".")[:2] != torch.__version__.split(".")[:2]:
        print(f"recorded with torch {real.note['torch']}, run with {torch.__version__}")
    differences = [str(d) for d in compare(real, run_virtual(PROGRAMS[real.program], real.device))]
    assert not differences, "\n".join(differences)
