"""Parse the text that torch's ``emit_nvtx`` gives an NVTX range: operator, sequence number, shapes.

The current format is ``aten::mm, seq = 12, op_id = 40, sizes = [[2, 3], [3, 4]], input_op_ids = [(38,0), (39,0)]``
(``getNvtxStr`` in torch/csrc/profiler/util.cpp), where each part may be absent. Earlier versions write
``mm, seq = 12, sizes = [[2, 3]]`` and ``MmBackward, stashed seq=12, seq=13``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TAIL: Final = re.compile(
    r"^(?P<name>.+?)"
    r"(?:, stashed seq ?= ?(?P<stashed>\d{1,18}))?"
    r"(?:, seq ?= ?(?P<seq>\d{1,18}))?"
    r"(?:, op_id ?= ?(?P<op_id>\d{1,18}))?"
    r"(?:, sizes ?= ?(?P<sizes>\[(?:\[[\d, -]*+\](?:, ?)?)*+\]))?"
    r"(?:, input_op_ids ?= ?\[[()\d, ]*+\])?\Z",
    re.DOTALL,
)
_MAX_LENGTH: Final = 1 << 16
_OPERATOR: Final = re.compile(r"[A-Za-z_]\w*(?:::\w+)+(?:\.\w+)?(?:: [\w:]+)?\Z")
#: Prefixes of ranges that torch opens with `record_function`, which are not operators.
_RANGES: Final = ("FSDP::", "FSDP2::", "nccl:", "c10d::", "gloo:", "ProfilerStep#", "Optimizer.", "DataParallel")


class OpText(NamedTuple):
    """The parsed text of a range.

    Attributes:
        name: The operator, or the range's own name.
        cat: ``cpu_op`` or ``user_annotation``.
        sequence_nr: Autograd's sequence number; that of the forward for a backward operator; None if unknown.
        op_id: torch's number of the call, or None.
        shapes: Input shapes as JSON text, or None.
    """

    name: str
    cat: str = "user_annotation"
    sequence_nr: int | None = None
    op_id: int | None = None
    shapes: str | None = None


def parse(text: str) -> OpText:
    """Parse an NVTX range's text; a text that ``emit_nvtx`` did not write is a user annotation."""
    if ", " not in text or len(text) > _MAX_LENGTH or (found := _TAIL.match(text)) is None:
        return OpText(text)
    name, stashed, seq, op_id, sizes = found.groups()
    seq = stashed or seq
    if seq is op_id is sizes is None:
        return OpText(text)
    return OpText(
        name,
        "cpu_op" if _is_operator(name, seq is not None or sizes is not None) else "user_annotation",
        None if seq is None else int(seq),
        None if op_id is None else int(op_id),
        sizes.replace(" ", "") if sizes else None,
    )


def _is_operator(name: str, is_differentiated: bool) -> bool:
    """Return whether a recorded function is an operator; ranges of `record_function` have similar texts."""
    if name.startswith(_RANGES):
        return False
    return is_differentiated or _OPERATOR.match(name) is not None
