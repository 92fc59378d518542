"""Run the tests of user_kernel_cases.py in a process in which Triton compiles kernels; here it interprets them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cudalens

CASES = Path(__file__).with_name("user_kernel_cases.py")


def test_the_cases_pass_where_triton_compiles():
    pytest.importorskip("triton", reason="needs Triton")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env=os.environ | {"TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout


def test_a_device_with_triton_does_not_initialise_cuda():
    """A rank of a job would get a context on the first GPU, and forked processes would be refused."""
    pytest.importorskip("triton.runtime.driver")
    with cudalens.virtual.device("h100x2"):
        assert not torch.cuda.is_initialized()
