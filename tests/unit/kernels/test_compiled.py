"""Kernels compile for a GPU on a machine without one, since Triton's interpreter accepts more than its compiler."""

import json
import os
from pathlib import Path

import programs
import pytest

PROGRAM = Path(__file__).with_name("compile_kernels.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    backends = pytest.importorskip("triton.backends", reason="Triton is not installed (pip install triton)").backends
    if "nvidia" not in backends:
        pytest.skip("this Triton compiles for no NVIDIA GPU")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    done = programs.run(PROGRAM, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_kernels_compile_for_all_dtypes(found):
    assert found["failed"] == {}
    names = {key.split()[0] for key in found["compiled"]}
    assert names == {"_compare", "_fingerprint", "_fill", "_search", "_read", "_hold"}
    assert all(any(found["compiled"][key] for key in found["compiled"] if key.startswith(name)) for name in names)


@pytest.mark.parametrize("kind", ["*fp16", "*fp32", "*fp64", "*i8", "*i16", "*i64", "*u8", "*u16", "*u32", "*u64"])
def test_compare_reads_every_kind_of_number(found, kind):
    assert any(key.startswith("_compare") and f"'a': '{kind}'" in key for key in found["compiled"])
    assert any(key.startswith("_compare") and "'end': 'i64'" in key for key in found["compiled"])
