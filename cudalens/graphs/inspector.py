"""Read torch.compile's own CUDA-graph trees without changing them, as the same frame as that of our managers.

torch keeps a tree manager per device and thread (torch/_inductor/cudagraph_trees.py). It counts little and keeps no
times; why a compiled function has no graph is stored with the compiled code (``disabled_cudagraphs_reason``), which is
found among the objects that are alive. All of that is private to torch, so each piece is read only where it is there.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import pandas as pd
import torch

from cudalens.frames import RunInfo, Trace
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.graphs.variants import device_index

_TREES: Final = "torch._inductor.cudagraph_trees"
_LIMIT_WORDS: Final = "was recorded too often: {} times behind the same recording (torch's limit is {})"


def inspect(device: int | str | torch.device | None = None) -> Trace:
    """What torch.compile's CUDA-graph trees hold on a device, for the calling thread: as a Trace that shows it.

    Args:
        device: Index, text or torch.device; by default the current CUDA device.

    Returns:
        A Trace whose `graphs` has a row per compiled function, recording and skip; none where nothing was compiled
        with CUDA graphs.

    Raises:
        GraphError: There is no such device.
    """
    return Trace(RunInfo(name="torch.compile", source="cuda"), graphs=inspect_frame(device_index(device)))


def inspect_frame(device: int) -> pd.DataFrame:
    """The `graphs` frame of torch's tree manager on the device of that index."""
    manager = _manager(device)
    has_trees = manager is not None and getattr(manager, "roots", None) is not None
    rows = list(_rows(manager, device)) if has_trees else []
    others = 1 + max((row["function_id"] for row in rows), default=-1)  # functions that torch's manager does not know
    rows += _skip_rows(others)
    counted = _counter("cudagraph_skips") - sum(row["count"] for row in rows if row["kind"] == "skip")
    if counted > 0:
        rows.append(
            _skip(others, f"skipped CUDA graphs {counted} times, for reasons that torch does not keep", counted)
        )
    return frame_of_rows("graphs", rows)


def _manager(device: int) -> Any:
    """The tree manager of torch, where torch.compile has made one; nothing is imported for it."""
    trees = sys.modules.get(_TREES)
    if trees is None:
        return None
    containers = getattr(getattr(trees, "local", None), "tree_manager_containers", None)
    if containers is None and torch._C._is_key_in_tls("tree_manager_containers"):  # a thread of autograd's
        containers = torch._C._get_obj_in_tls("tree_manager_containers")
    return getattr((containers or {}).get(device), "tree_manager", None)


def _rows(manager: Any, device: int) -> Iterator[dict[str, Any]]:
    common = {"device": device, "pool": json.dumps(getattr(manager, "cuda_graphs_thread_pool", None))}
    nodes = list(_nodes(manager))
    for number, wrapped in sorted((_number(key), wrapped) for key, wrapped in manager.ids_to_funcs.items()):
        yield common | _function_row(manager, number, wrapped, nodes)
    on_path, current = [], manager.current_node
    while current is not None:
        on_path.append(_number(current.id))
        current = current.parent
    for node, parent, depth in nodes:
        yield common | _node_row(manager, node, parent, depth, on_path)
    yield from (common | row for row in _rerecord_rows(manager))


def _nodes(manager: Any) -> Iterator[tuple[Any, int | None, int]]:
    waiting: list[tuple[Any, int | None, int]] = [(node, None, 0) for roots in manager.roots.values() for node in roots]
    while waiting:
        node, parent, depth = waiting.pop(0)
        yield node, parent, depth
        waiting += [(child, _number(node.id), depth + 1) for children in node.children.values() for child in children]


def _number(numbered: Any) -> int:
    """The ids are objects with one number in them."""
    return int(getattr(numbered, "id", numbered))


def _name(wrapped: Any) -> str:
    return str(getattr(wrapped.model, "__qualname__", None) or getattr(wrapped.model, "__name__", "compiled function"))


def _function_row(manager: Any, number: int, wrapped: Any, nodes: list[tuple[Any, int | None, int]]) -> dict[str, Any]:
    count = sum(_number(node.wrapped_function.id) == number for node, _, _ in nodes)
    key = wrapped.id
    state = "warm" if key in manager.warmed_up_functions else "eager"
    row = {
        "kind": "function",
        "function": _name(wrapped),
        "function_id": number,
        "mode": _mode(manager, key),
        "state": "recorded" if count else state,
        "count": 0,
        "num_recordings": count,
    }
    if key in getattr(manager, "warned_mutation", ()):
        row |= {
            "state": "recorded" if count else "eager",
            "reason": "MUTATED_INPUT",
            "detail": "writes an input that is neither a parameter nor the output of a graph",
            "advice": "copy the input before the call, or mark it static (torch._dynamo.mark_static_address).",
        }
    return row


def _mode(manager: Any, key: Any) -> str | None:
    mode = getattr(manager, "id_to_mode", {}).get(key)
    return str(mode.name).lower() if mode is not None else None


def _node_row(manager: Any, node: Any, parent: int | None, depth: int, on_path: list[int]) -> dict[str, Any]:
    number, wrapped = _number(node.id), node.wrapped_function
    state = "on the path" if number in on_path else "idle"
    if on_path[:1] == [number]:
        state = "current"
    copied = [
        tensor
        for position in node.non_static_input_idx
        if isinstance(tensor := node.reconstructed_inputs[position], torch.Tensor)
    ]
    num_live = sum(ref is not None and ref() is not None for ref in node.outputs_weakrefs)
    return {
        "kind": "recording",
        "function": _name(wrapped),
        "function_id": _number(wrapped.id),
        "variant": f"{len(node.reconstructed_inputs)} inputs",
        "node": number,
        "parent": parent,
        "depth": depth,
        "mode": _mode(manager, wrapped.id),
        "state": state,
        "count": 0,
        "num_static_inputs": len(node.static_input_idxs),
        "num_copied_inputs": len(copied),
        "copied_bytes": sum(tensor.numel() * tensor.element_size() for tensor in copied),
        "num_outputs": len(node.outputs_metadata),
        "num_live_outputs": None if state == "idle" else num_live,
    }


def _rerecord_rows(manager: Any) -> Iterator[dict[str, Any]]:
    limit = torch._inductor.config.triton.cudagraph_unexpected_rerecord_limit
    for functions in manager.num_rerecord.values():
        for key, count in functions.items():
            if count and key in manager.ids_to_funcs:
                name = _name(manager.ids_to_funcs[key])
                row = {"kind": "rerecord", "function": name, "function_id": _number(key), "count": count}
                if count > limit:
                    row |= {
                        "kind": "skip",
                        "reason": "TOO_MANY_RECORDINGS",
                        "detail": _LIMIT_WORDS.format(count, limit),
                    }
                else:
                    row |= {
                        "reason": "OTHER",
                        "detail": "found other addresses or other live outputs than when it was recorded",
                        "advice": "TORCH_LOGS=cudagraphs with debug level names the input.",
                    }
                yield row


def _skip_rows(function_id: int) -> Iterator[dict[str, Any]]:
    """Compiled functions that have no graph, with torch's reason."""
    module = sys.modules.get("torch._inductor.output_code")
    kind = getattr(module, "CompiledFxGraph", None)
    if kind is None:
        return
    found: dict[str, int] = {}
    for compiled in gc.get_objects():
        if type(compiled) is kind and (reason := getattr(compiled, "disabled_cudagraphs_reason", None)):
            found[str(reason)] = found.get(str(reason), 0) + 1
    for reason, count in found.items():
        yield _skip(function_id, reason, count)


def _skip(function_id: int, detail: str, count: int) -> dict[str, Any]:
    row = {"kind": "skip", "function": "torch.compile", "function_id": function_id, "count": count}
    return row | {"reason": "OTHER", "detail": detail}


def _counter(name: str) -> int:
    utils = sys.modules.get("torch._dynamo.utils")
    return int(utils.counters["inductor"][name]) if utils is not None else 0
