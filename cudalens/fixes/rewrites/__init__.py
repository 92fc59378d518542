"""Rewrites of source, one module for each subject; `fixes_for` lists those for a finding.

A rewrite takes a `Program` and the finding, and yields fixes, the one that changes least first. It yields none where
the source does not have its pattern.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from cudalens.analysis import Finding
from cudalens.errors import FixError
from cudalens.fixes.names import names_of
from cudalens.fixes.rewrites import copies, fusion, loops, precision, training, waits
from cudalens.fixes.rewrites.fix import Fix, Program, with_torch

Rewrite = Callable[[Program, Finding | None], Iterator[Fix]]

_LAUNCHES: Final = (
    *(loops.whole_rows, loops.batch_products, loops.join_once, loops.hoist, training.group_clipping),
    *(fusion.replay_graphs, fusion.compile_functions),
)

#: The rewrites for each rule of the findings.
REWRITES: Final[dict[str, tuple[Rewrite, ...]]] = {
    "host_sync": (
        waits.read_after_loop,
        waits.copy_after_loop,
        waits.remove_waits,
        waits.select_by_mask,
        training.count_steps_on_device,
        copies.pin_memory,
        copies.make_on_device,
        loops.hoist,
    ),
    "pageable_copies": (copies.make_on_device, copies.pin_memory, loops.hoist),
    "exposed_copies": (copies.make_on_device, copies.prefetch),
    "small_copies": (loops.hoist, copies.make_on_device, loops.stack_before_copy),
    "made_on_host": (copies.make_on_device, loops.hoist),
    "copies": (loops.drop_copies, loops.join_once, loops.hoist),
    "strided_operands": (loops.drop_copies, loops.hoist),
    "layout_conversions": (precision.channels_last,),
    "fp32_math": (precision.tensor_cores,),
    "float64_math": (precision.single_precision,),
    "eager_attention": (fusion.fused_attention,),
    "unfused_pointwise": (fusion.fused_gelu, fusion.fused_layer_norm, fusion.compile_functions),
    "needless_checkpointing": (training.keep_activations,),
    "dense_embedding": (training.sparse_embedding,),
    "optimizer_loop": (training.group_optimizer,),
    "exposed_communication": (training.skip_reductions,),
    "zero_grad": (training.release_gradients,),
    "driver_memory": (training.keep_cache,),
    "garbage_collection": (training.collect_later,),
    "data_loader": (copies.load_in_workers,),
    "graphable": _LAUNCHES,
    "launch_bound": (training.group_optimizer, *_LAUNCHES),
    "tiny_kernels": (training.group_optimizer, *_LAUNCHES),
    "small_grids": (loops.batch_products,),
}


def fixes_for(program: Program, rule: str, finding: Finding | None = None) -> list[Fix]:
    """Return the fixes that the source allows for a rule, the one that changes least first.

    Args:
        program: The source.
        rule: The rule of the finding.
        finding: The finding, whose place selects among several matches.
    """
    found = []
    for rewrite in REWRITES.get(rule, ()):
        for fix in rewrite(program, finding):
            try:
                fix = with_torch(program, fix)
                fixed = program.with_fix(fix)
                fixed.cell_text()
            except FixError:
                continue
            if _reads_lost_names(fixed, fix.dropped) or not fixed.diff(program):
                continue
            # Lines at the top of the cell must not need what the cell itself makes.
            setup = names_of(ast.parse("\n".join(fix.setup)).body)
            cell = names_of(program.cell.source.tree.body)
            if not setup.needed & (cell.assigned - cell.needed):
                found.append(fix)
    return found


def _reads_lost_names(fixed: Program, dropped: frozenset[str]) -> bool:
    """Return whether the fixed code reads a variable that it no longer assigns; an earlier run hides that."""
    for unit in fixed.units:
        names = names_of(unit.source.tree.body)
        if (dropped - names.assigned) & names.read:
            return True
    return False
