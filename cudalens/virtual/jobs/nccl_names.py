"""NCCL's names in torch.distributed, which builds of torch without CUDA do not have: options of groups."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from cudalens.errors import VirtualDeviceError

if TYPE_CHECKING:
    from cudalens.virtual.patching import Patches

_MADE: Final = (
    "ProcessGroupNCCL() makes a communicator of NCCL by itself; a job on virtual GPUs models the groups of "
    "init_process_group('nccl') and new_group(). Its Options work."
)
#: NCCL's NCCL_CONFIG_UNDEF_INT: NCCL chooses.
_UNDEFINED: Final = -(2**31)
_TIMEOUT: Final = timedelta(minutes=10)


class NCCLConfig:
    """What a program may set of NCCL's communicators. A job does not model it."""

    def __init__(self) -> None:
        self.blocking = self.cga_cluster_size = self.min_ctas = self.max_ctas = _UNDEFINED
        self.split_share = self.traffic_class = self.collnet_enable = self.cta_policy = _UNDEFINED
        self.shrink_share = self.nvls_ctas = self.n_channels_per_net_peer = self.nvlink_centric_sched = _UNDEFINED
        self.net_name: str | None = None
        self.comm_name: str | None = None


class Options(Backend.Options):
    """The options of a group of NCCL: ``ProcessGroupNCCL.Options``."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        super().__init__("nccl", _TIMEOUT)
        self.is_high_priority_stream = is_high_priority_stream
        self.config = NCCLConfig()
        self.split_from: Any = None
        self.split_color = 0


class ProcessGroupNCCL:
    """NCCL's backend as programs name it: its options."""

    NCCLConfig = NCCLConfig
    Options = Options

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise VirtualDeviceError(_MADE)


def install_nccl_names(patches: Patches) -> None:
    """Give torch.distributed the names that it has in a build with NCCL."""
    if dist.is_nccl_available():
        return
    patches.set(dist, "is_nccl_available", lambda: True)
    for owner in (dist, dist.distributed_c10d):
        patches.set(owner, "ProcessGroupNCCL", ProcessGroupNCCL)
