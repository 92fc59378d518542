"""Rules about the precision of kernels: matrix products in FP32, float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.replays import with_work
from cudalens.analysis.findings.trace_arrays import TraceArrays

_SHARE: Final = 0.05

#: Names that cuBLAS, cuDNN, CUTLASS, Tensile and the virtual device give to FP32 products.
FP32_PRODUCTS: Final = (
    r"^(?!.*(?:tf32|tensorop|bf16|f16|h884|s16816|s1688)).*"
    r"(?:(?:^|_)s(?:gemm|cudnn)_|convolve_sgemm|sgemm_largek|simt_s(?:gemm|fprop|dgrad|wgrad|conv)"
    r"|_f32f32_f32f32_f32_|wgrad_alg\d_engine<float|^Cijk_\w+?_SB_"
    r"|^simulated::(?:mm|addmm|bmm|baddbmm|(?:\w+_)?convolution\w*)<float>)"
)
#: Kernels on doubles: products, and template instances of pointwise kernels and reductions.
_PRODUCTS_64: Final = (
    r"(?:^|_)d(?:gemm|884gemm)|_f64f64_|^Cijk_\w+?_DB_|^simulated::(?:mm|addmm|bmm|baddbmm|\w*conv\w*)<double>"
)
_FLOAT64: Final = rf"{_PRODUCTS_64}|^simulated::\w+<double>|[<( ,]double[,>)]|Functor<double>"

_TENSOR_CORES: Final = 7.0
_TF32: Final = 8.0

#: Peak rate of float16 (7.x) or TF32 tensor cores by that of FP32, dense, from NVIDIA's data sheets: V100 125 and 15.7,
#: T4 65 and 8.1, A100 156 and 19.5, A10 and L4 62 and 31, H100 494 and 67, B200 1,100 and 80 TFLOP/s; AMD's MI300X
#: 1,307 (bfloat16) and 163.
_RATIOS: Final = {7.0: 8.0, 7.5: 8.0, 8.0: 8.0, 8.6: 2.0, 8.9: 2.0, 9.0: 7.4, 10.0: 14.0}
_USUAL_RATIO: Final = 8.0

#: Devices on which float64 has half of the rate of float32, or the same; on all others a 32nd or less.
_FAST_64: Final = (6.0, 7.0, 8.0, 9.0, 10.0)
_SLOW_64: Final = 32.0


def full_precision(arrays: TraceArrays) -> Iterator[Finding]:
    """``fp32_math``: matrix products and convolutions run in FP32 on units other than the tensor cores.

    Gain: what a replay saves in which these kernels take the time that corresponds to the peak rate of the tensor
    cores. It is an upper bound: memory can limit the faster kernels. Kernels are recognized by the names that cuBLAS,
    cuDNN, CUTLASS and Tensile give to FP32. Devices below compute capability 7.0 have no tensor cores, and get no
    finding. Threshold: a twentieth of the window.
    """
    rows = arrays.matching(FP32_PRODUCTS, "kernel")
    capability = arrays.capability
    if not len(rows) or (capability is not None and capability < _TENSOR_CORES):
        return
    ratio = _RATIOS.get(capability or 0.0, _USUAL_RATIO)
    gain = arrays.steady.gain(with_work(rows, 1 / ratio))
    if arrays.is_minor(gain, _SHARE):
        return
    taken = int(arrays.dur[rows].sum())
    what = (
        f"{units.plural(len(rows), 'kernel')} of matrix products and convolutions in FP32 took {units.duration(taken)}"
        f", most of it in {arrays.main_name(rows)}; tensor cores have {ratio:g} times the rate."
    )
    has_tf32 = capability is not None and capability >= _TF32 and not arrays.is_amd
    yield arrays.finding(
        "fp32_math", "FP32 matrix products", what, gain, _advice(arrays, capability),
        "high" if has_tf32 else "medium", rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


def _advice(arrays: TraceArrays, capability: float | None) -> str:
    if arrays.is_amd:
        return 'torch.autocast("cuda", torch.bfloat16) around the forward pass'
    if capability is not None and capability < _TF32:
        return 'torch.autocast("cuda", torch.float16) with torch.amp.GradScaler: this GPU has tensor cores for float16'
    if capability is None:
        return 'torch.autocast("cuda") around the forward pass; from the A100 on, also TF32 with FP32 inputs'
    return (
        'torch.set_float32_matmul_precision("high") allows TF32; or torch.autocast("cuda", torch.bfloat16) around the '
        "forward pass"
    )


def double_precision(arrays: TraceArrays) -> Iterator[Finding]:
    """``float64_math``: kernels compute in float64.

    Gain: what a replay saves in which products take the time that corresponds to the rate of float32 (a 32nd, or half
    on devices with fast float64), and other kernels half of their time, for half of the bytes. Threshold: a twentieth
    of the window.
    """
    rows = arrays.matching(_FLOAT64, "kernel")
    if not len(rows):
        return
    capability = arrays.capability
    is_slow = not arrays.is_amd and capability is not None and capability not in _FAST_64
    products = arrays.matching(_PRODUCTS_64, "kernel")
    others = rows[~arrays.is_named(_PRODUCTS_64)[rows]]
    gain = arrays.steady.gain(with_work(products, 1 / _SLOW_64 if is_slow else 0.5), with_work(others, 0.5))
    if arrays.is_minor(gain, _SHARE):
        return
    what = (
        f"{units.plural(len(rows), 'kernel')} in float64 took {units.duration(int(arrays.dur[rows].sum()))}, most of "
        f"it in {arrays.main_name(rows)}."
    )
    advice = "float32: check for numpy arrays, which are float64, and torch.set_default_dtype; x.float() at the source"
    yield arrays.finding("float64_math", "float64", what, gain, advice, "high", rows=rows, place=arrays.place_of(rows))
