"""A profile of memory prints nothing of torch's above the answer."""

import subprocess
import sys

CODE = """
import os, sys, torch, cudalens
earlier = [torch.ones(100) for _ in range(5)]
with cudalens.profile("run", memory=True, keep=False) as p:
    os.write(2, b"the user's line")
    earlier.clear()
    torch.ones(3)
assert (p.trace.memory["num_bytes"] > 0).any()
"""


def test_freeing_a_tensor_of_before_the_profile_prints_no_warning():
    """torch warns once per process, so it is a process of its own."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stderr == "the user's line"
    assert done.stdout == ""
