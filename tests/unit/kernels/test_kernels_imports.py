"""Kernels are imported on use: cudalens can be imported and used without Triton."""

import programs

PACKAGES = "analysis, frames, graphs, memory, profile, profiler, report, sanitizer, traces, views, virtual"


def run(program):
    done = programs.run("-c", program, imported=programs.LIBRARIES)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_other_package_imports_them():
    program = f"import sys, cudalens\nfrom cudalens import {PACKAGES}\n"
    report = "print([name for name in sys.modules if name == 'triton' or name.startswith('cudalens.kernels')])"
    assert run(program + report) == "[]"


def test_they_work_without_triton():
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'triton' else find(name, *rest)\n"
        "import torch, cudalens\n"
        "from cudalens import kernels\n"
        "with cudalens.virtual.device('h100'):\n"
        "    a = torch.zeros(4, device='cuda')\n"
        "    kernels.hold(torch.cuda.Stream(), 1000).release()\n"
        "    print(kernels.compare(a, a + 1).num_different, kernels.fingerprint(a) == kernels.fingerprint(a.cpu()))\n"
        "try:\n    kernels.compare(torch.ones(1), torch.ones(1), backend='triton')\n"
        "except cudalens.CudalensError as error:\n    print(error)"
    )
    assert run(program).splitlines() == [
        "4 True",
        "Triton is not installed; `pip install triton`, or take backend='reference'.",
    ]
