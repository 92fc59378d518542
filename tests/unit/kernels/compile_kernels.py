"""Compile every kernel for tensors of all dtypes, without a GPU: a program for test_compiled.py.

Prints the compiled kernels and the failures as JSON. Most kernels are compiled to Triton's IR, where all types are
known; some variants of each kernel are compiled to machine code with Triton's ptxas.
"""

import inspect
import json
import sys
from pathlib import Path

import torch
import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import type_canonicalisation_dict as kinds

sys.path.insert(0, str(Path(__file__).parents[2] / "gpu"))
from kernel_cases import cases

from cudalens.kernels import launch, triton_kernels
from cudalens.kernels.hold import _PATTERN, _bits
from cudalens.kernels.values import loaded

TARGET = GPUTarget("cuda", 90, 32)
TO_THE_END = {torch.bfloat16, torch.complex128}
compiled, failed = {}, {}
to_the_end = False


def kind(value):
    if isinstance(value, torch.Tensor):
        return "*" + kinds[str(value.dtype).removeprefix("torch.")]
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"


def source_of(function, args, constants):
    """Specialize arguments as Triton's launcher does: integers equal to 1 are constants, multiples of 16 are marked."""
    given = dict(zip(function.arg_names, args, strict=False)) | constants
    signature, fixed, attributes = {}, {}, {}
    for position, name in enumerate(function.arg_names):
        value = given[name]
        if function.params[position].is_constexpr or (isinstance(value, int) and value == 1):
            signature[name], fixed[name] = "constexpr", value
            continue
        signature[name] = kind(value)
        if isinstance(value, torch.Tensor) or value % 16 == 0:
            attributes[(position,)] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, fixed, attributes)


def compile_instead(self, grid, *args, **constants):
    function = triton.jit(self._function)
    options = {name: constants.pop(name) for name in list(constants) if name not in function.arg_names}
    source = source_of(function, args, constants)
    key = f"{function.__name__} {source.signature} {source.constants}"
    if key in failed or (key in compiled and compiled[key] >= to_the_end):
        return
    try:
        if to_the_end:
            assert triton.compile(source, target=TARGET, options=options).asm["cubin"]
        else:
            to_triton_code(source, options)
        compiled[key] = to_the_end
    except Exception as error:
        failed[key] = f"{type(error).__name__}: {error}"


def to_triton_code(source, options):
    backend, context = make_backend(TARGET), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options(options)
    known = {
        "target": TARGET,
        "options": options,
        "codegen_fns": backend.get_codegen_implementation(options),
        "module_map": backend.get_module_map(),
        "context": context,
    }
    taken = inspect.signature(source.make_ir).parameters
    source.make_ir(**{name: known[name] for name in taken})


def launch_all():
    global to_the_end
    for dtype in cases.DTYPES:
        to_the_end = dtype in TO_THE_END
        for shape in ((1,), (7,), (9000,)):
            tensor = cases.filled(shape, dtype, "cpu", 1)
            triton_kernels.begin(tensor, tensor)
        bits = _bits(tensor)
        triton_kernels.fill(bits, _PATTERN[bits.element_size()])
        triton_kernels.search(bits, loaded(tensor), tensor, _PATTERN[bits.element_size()])
        to_the_end = dtype is torch.complex128
        tensor = cases.filled((5, 9, 300), dtype, "cpu", 1)
        triton_kernels.begin(tensor.transpose(0, 2), tensor.transpose(0, 1).reshape(300, 9, 5))
    to_the_end = False
    long = torch.zeros(1, dtype=torch.int8).expand(2**31 + 5000)  # no memory is touched here
    triton_kernels.begin(long, long)
    to_the_end = True
    for num_bytes in (1, 3, 8, 9000, 9003):
        words, tail = torch.zeros(num_bytes // 8, dtype=torch.int64), torch.zeros(num_bytes % 8, dtype=torch.uint8)
        triton_kernels.run_fingerprint(words, tail)
    triton_kernels.run_read(torch.zeros(5000, dtype=torch.int64))
    flag = torch.zeros(1, dtype=torch.int32)
    for limit in (1, 1000, 60_000_000_000):
        launch.Kernel.launch(triton_kernels.HOLD, 1, flag, flag.long(), limit, HAS_TIMER=True, num_warps=1)
        launch.Kernel.launch(triton_kernels.HOLD, 1, flag, flag.long(), limit, HAS_TIMER=False, num_warps=1)


launch.Kernel.launch = compile_instead
launch_all()
print(json.dumps({"compiled": compiled, "failed": failed}))
