"""Sends and receives in dumps of torch's FlightRecorder: between which ranks, in which order.

NCCL names them ``nccl:send 1->2`` and ``nccl:recv 2<-1``, with ranks of the group. Those that were started together
(``batch_isend_irecv``) have one ``p2p_seq_id``, counted by each rank alone, and only the entry ``nccl:coalesced`` after
them has a state. gloo records none; `cudalens.watch_hangs` writes the one in which the main thread is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_NAME: Final = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")
#: Name of the entry that has the state of what was started together.
COALESCED: Final = "coalesced"


class Transfer(msgspec.Struct):
    """The send or receive in which the main thread of a rank is, as state files hold it.

    Attributes:
        op: ``send`` or ``recv``.
        group: Name of the process group.
        src: The rank that sends.
        dst: The rank that receives.
    """

    op: str
    group: str
    src: int
    dst: int


def pair_of(op: str, members: tuple[int, ...] | None, *, is_default: bool) -> tuple[str, tuple[int, int]] | None:
    """``send`` or ``recv`` with the ranks of the job that send and receive; None where `op` does not state them.

    Args:
        op: ``send 1->2`` or ``recv 2<-1``, ranks of the group.
        members: The ranks of the group; None where they are unknown.
        is_default: Whether it is the group of all ranks.
    """
    match = _NAME.fullmatch(op)
    if match is None:
        return None
    here, there = int(match[2]), int(match[4])
    if members is not None and max(here, there) < len(members):
        here, there = members[here], members[there]
    elif not is_default:
        return None
    return match[1], ((here, there) if match[1] == "send" else (there, here))


def is_of_rank(transfer: Transfer, rank: int, groups: Mapping[str, object]) -> bool:
    """Return whether a rank can be in `transfer`."""
    mine = {"send": transfer.src, "recv": transfer.dst}.get(transfer.op)
    return mine == rank and transfer.group in groups
