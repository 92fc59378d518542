"""Programs with Triton kernels, each run by a Python of its own: how Triton runs is settled when it is imported.

``python triton_programs.py NAME`` prints what it found as JSON.
"""

import json
import sys
from types import SimpleNamespace

import torch

import cudalens
from cudalens.sanitizer import access

N = 64


def kernels():
    """Two kernels, and a function that one calls."""
    import triton
    import triton.language as tl

    @triton.jit
    def double(x):
        return x * 2

    @triton.jit
    def add(a, b, out, n, with_tail: tl.constexpr = False, block: tl.constexpr = 16):
        i = tl.program_id(0) * block + tl.arange(0, block)
        mask = i < n
        tl.store(out + i, double(tl.load(a + i, mask=mask)) + tl.load(b + i, mask=mask), mask=mask)
        if with_tail:
            tl.store(b, 0.0)

    @triton.jit
    def count(found, x, block: tl.constexpr):
        tl.atomic_add(found, tl.sum(tl.load(x + tl.arange(0, block))))

    globals().update(double=double, tl=tl)
    return SimpleNamespace(add=add, count=count)


def as_json(san):
    """The findings in a form for JSON."""
    found = [
        [race.kind.value, race.first.op, race.first.argument, race.second.op, race.second.argument]
        for race in san.races
    ]
    lines = [race.first.place.source for race in san.races]
    status = san.status()
    return {"races": found, "lines": lines, "guessed": status.guessed, "error": status.error}


def on_a_virtual_device():
    """An interpreted kernel's launch is one kernel on the current stream."""
    with cudalens.virtual.device("h100"):
        a, b, out = torch.arange(float(N), device="cuda"), torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with cudalens.sanitize() as san:
            launch = kernels().add[(N // 16,)]  # Triton comes after the sanitizer
            with torch.cuda.stream(side):
                launch(a, b, out, N)
            out.sum()  # written over there
            b.mul_(2)  # read over there
            a.sum()  # read by both
        return as_json(san) | {"out": out.tolist(), "later": san.status().num_launches}


def in_a_profile():
    """The timeline has the kernel, and nothing of what the interpreter does."""
    add = kernels().add
    with cudalens.virtual.device("h100"):
        a, out = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
        with cudalens.profile("p") as run:
            add[(4,)](a, a, out, N)
    events = run.trace.events
    work = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    return {"work": list(work["name"])}


def with_atomics_and_views():
    """Addresses decide which tensors are written: through an atomic, and at a view's offset."""
    with cudalens.virtual.device("h100"):
        x, found = torch.ones(N, dtype=torch.float64, device="cuda"), torch.zeros(4, dtype=torch.float64, device="cuda")
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with cudalens.sanitize() as san:
            with torch.cuda.stream(side):
                kernels().count[(1,)](found[2:3], x, block=N)
            found[:2].sum()
            found[2:].sum()
        return as_json(san) | {"found": found.tolist()}


def refused_where_it_cannot_be():
    """A capture cannot replay it."""
    add = kernels().add
    with cudalens.virtual.device("h100"):
        x = torch.ones(N, device="cuda")
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                add[(4,)](x, x, x, N)
        except cudalens.CudalensError as error:
            return {"error": str(error)}
    return {}


class _Driver:
    """A GPU's driver that launches nothing: Triton compiles for it and does all that it does before a launch."""

    class launcher_cls:  # noqa: N801 - Triton's name
        def __init__(self, *args):
            pass

        def __call__(self, *args):
            pass

    utils = SimpleNamespace(
        load_binary=lambda *args: (1, 2, 32, 0, 1024),
        get_device_properties=lambda device: {"max_shared_mem": 232_448, "multiprocessor_count": 132},
    )

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def _compiled():
    from triton.runtime import driver

    driver.set_active(_Driver())
    return kernels()


def compiled():
    """Compiled kernels, on pinned memory, which a GPU reads and writes where it is."""
    with cudalens.virtual.device("h100"):
        a, b, out = (torch.ones(N).pin_memory() for _ in range(3))
        side = torch.cuda.Stream()
        with cudalens.sanitize() as san:
            add = _compiled().add
            with torch.cuda.stream(side):
                add[(4,)](a, b, out, n=N)
            add[(4,)](a, b, out, N)  # writes the same
            add.warmup(a, b, out, N, grid=(4,))  # launches nothing
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                add[(4,)](a, b, out, N, with_tail=True)  # writes b as well
            b.sum()
            a.sum()
        return as_json(san) | {"later": san.status().num_launches}


def not_known():
    """Inline assembly may write anywhere: no race is reported for it."""
    import triton
    import triton.language as tl

    _compiled()

    @triton.jit
    def opaque(a, out, block: tl.constexpr):
        x = tl.load(a + tl.arange(0, block))
        y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.int32, is_pure=False, pack=1)
        tl.store(out + tl.arange(0, block), y)

    globals().update(tl=tl)
    with cudalens.virtual.device("h100"):
        a, out = (torch.ones(N, dtype=torch.int32).pin_memory() for _ in range(2))
        side = torch.cuda.Stream()
        with cudalens.sanitize() as san:
            opaque[(1,)](a, out, block=N)
            with torch.cuda.stream(side):
                opaque[(1,)](a, out, block=N)
                access(writes=[a], name="later access")
        return as_json(san) | {"status": str(san.status())}


def leaves_nothing():
    """Off, Triton's classes are as they were."""
    from triton.runtime.interpreter import GridExecutor
    from triton.runtime.jit import JITFunction

    def runs():
        return [vars(kind).get(name) for kind in (JITFunction, GridExecutor) for name in ("run", "__call__")]

    before, finders = runs(), list(sys.meta_path)
    with cudalens.sanitize():
        during = runs()
    with cudalens.virtual.device("h100"), cudalens.sanitize():
        pass
    return {"changed": during != before, "restored": runs() == before and sys.meta_path == finders}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
