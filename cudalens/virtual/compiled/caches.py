"""Clear what torch remembers of the GPU: a virtual device must neither use it nor leave it behind."""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

#: Modules whose cached functions depend on the GPU or on functions that a virtual device replaces.
_MODULES: Final = (
    "torch.utils._triton",
    "torch._inductor.utils",
    "torch._inductor.codegen.cuda.cuda_env",
    "torch._inductor.runtime.runtime_utils",
    "torch._inductor.runtime.triton_compat",
    "torch._dynamo.trace_rules",
    "torch._dynamo.variables.torch",
)


def clear() -> None:
    """Clear them; they are filled again on use."""
    for name in _MODULES:
        module = sys.modules.get(name)
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    _clear_classes()


def _clear_classes() -> None:
    hints: Any = sys.modules.get("torch._inductor.runtime.hints")
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    compiler: Any = sys.modules.get("torch._inductor.async_compile")
    if hints is not None:
        hints.DeviceProperties.create.cache_clear()
    if codecache is not None:
        codecache.CacheBase.get_system.cache_clear()
    if compiler is not None:
        compiler.CompiledTritonKernels.cache_clear()
