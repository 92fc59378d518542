"""The names of kernels that communicate between devices; `register` adds patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from cudalens.analysis.cached import forget_all
from cudalens.frames.column_arrays import map_texts

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.frames.column_arrays import Bools

__all__ = ["PATTERNS", "is_communication", "register"]

#: Regular expressions that are searched for in the names of kernels, by library.
PATTERNS: Final = {
    "NCCL, RCCL": r"^(?:nccl|rccl).*Kernel",
    "MSCCL, MSCCL++": r"^(?:void )?(?:mscclpp::|msccl\w*Kernel)",
    "NVSHMEM": r"^(?:void )?\w*nvshmem",
    "DeepEP": r"\b(?:deep_ep|dpsk::ep)::(?!layout::)",
    "symmetric memory of torch": (
        r"\b(?:multimem_(?:one_shot_)?(?:all_reduce|all_gather|reduce_scatter)\w*|(?:one|two)_shot_all_reduce\w*"
        r"|stream_write_value32|barrier_kernel|(?:put|wait)_signal_kernel)\b"
    ),
    "custom all-reduce of vLLM, SGLang, aiter": r"\bcross_device_reduce_\dstage|\bquickreduce::|\bmulti_gpu_barrier",
    "TensorRT-LLM, FlashInfer": (
        r"(?i)\b(?:one|two)shot_?all_?reduce\w*kernel|\ballreduce_fusion_kernel|\bmoe(?:allto?all|_?comm)\w*kernel"
    ),
    "Transformer Engine": r"\bk?userbuffers_\w+",
    "oneCCL": r"\b(?:oneccl|ccl_sched|ccl::)\w*|^(?:void )?oneapi_ccl",
    "HCCL": r"^(?:hccl|hcom)(?:_|[A-Z])",
}

_registered: list[str] = []


def register(pattern: str) -> None:
    """Count kernels in whose name a regular expression is found as communication, in all analyses of this process.

    Args:
        pattern: As `re.search` takes it. A pattern that is registered already is ignored.

    Raises:
        ValueError: It is not a regular expression, or it is found in every name.

    Examples:
        >>> from cudalens.analysis import communication
        >>> communication.register(r"^my_ring_exchange")
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"invalid pattern {pattern!r}: {error}; expected a regular expression") from error
    if compiled.search(""):
        raise ValueError(f"invalid pattern {pattern!r}: it is found in every name; expected a part of some names")
    if pattern not in _registered:
        _registered.append(pattern)
        forget_all()


def is_communication(names: pd.Categorical) -> Bools:
    """True for each name of a kernel that communicates, shape (n,)."""
    searches = [re.compile(pattern).search for pattern in (*PATTERNS.values(), *_registered)]
    return map_texts(names, lambda name: any(search(name) is not None for search in searches), False)
