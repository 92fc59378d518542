"""Sorts, scans, selections, gathers and scatters, normalisation of images and losses, as torch's CUDA kernels run them.

Their rates are elements per clock of an SM, measured on an H100 (``make gpu-campaign``). On an H200, which has the same
SMs and 1.43 times the bandwidth, the times of the same kernels differ by 3 to 12 %: bytes do not limit them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.virtual.timing.kernel_parts import Rule, at_least, counted, part

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.timing.interfaces import Work

#: Elements of a row up to which a thread block sorts it (``radixSortKVInPlace``), and the rate of that kernel.
SMALL_SORT: Final = 4096
SMALL_SORT_PER_CLOCK: Final = 0.137
#: Bits of a key that one pass of a radix sort or selection orders.
RADIX_BITS: Final = 8
#: Rates of ``topk``: a pass that counts digits, and the last kernel, which writes the selected elements.
COUNT_DIGITS_PER_CLOCK: Final = 1.88
SELECT_PER_CLOCK: Final = 1.0
#: Time of the small kernels of a pass of ``topk``: 20 us for 2,048 rows.
SELECT_PASS_NS: Final = 20_000
#: Elements per clock of a scan over the last dimension.
SCAN_PER_CLOCK: Final = 0.61
#: Elements per clock of ``argmax`` over another dimension than the last.
COLUMN_ARGMAX_PER_CLOCK: Final = 1.35
#: Elements of windows per clock of ``max_pool2d``.
POOL_PER_CLOCK: Final = 2.15
#: Elements per clock of one thread block that reads the statistics of a channel, and of one that reads a group's.
CHANNEL_PER_CLOCK: Final = 0.59
GROUP_PER_CLOCK: Final = 1.0
#: Thread blocks of such a kernel that run on an SM at the same time: 512 threads each.
RESIDENT_BLOCKS: Final = 4
#: Up to this number of indices, the gradient of an embedding is one kernel that goes over them in order, 50 ns each;
#: above, the indices are sorted (ATen/native/cuda/Embedding.cu).
SORTED_INDICES: Final = 3072
ORDERED_INDEX_NS: Final = 50
#: Shortest time of a pass of the sort of indices, which is several kernels: four passes of 8,192 indices took 56 us
#: for an embedding; those of ``index_put`` 18 us.
SORT_PASS_NS: Final = 14_000
INDEX_PUT_SORT_NS: Final = 18_000
#: Elements per clock of each of the two kernels that add rows of sorted indices, and of atomic additions.
ADD_ROWS_PER_CLOCK: Final = 0.48
ATOMIC_PER_CLOCK: Final = 0.53
#: Losses of rows are added by one thread block (ATen/native/cuda/Loss.cu): a thread for 16 rows, 32 to 1,024 threads;
#: the time of a thread for a row, forward and backward.
ROWS_OF_THREAD: Final = 16
LOSS_THREADS: Final = (32, 1024)
LOSS_ROW_NS: Final = 1_100
LOSS_GRADIENT_ROW_NS: Final = 600


def _passes(dtype: torch.dtype) -> int:
    """Return the number of passes over the digits of a key."""
    return max(1, -(-dtype.itemsize * 8 // RADIX_BITS))


def _sort(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Values are copied, positions written, and both sorted: short rows by a thread block each, long ones in passes."""
    value, count = args[0], args[0].numel()
    # The overload with ``stable`` has the dimension behind it.
    dim = next((each for each in args[1:] if isinstance(each, int) and not isinstance(each, bool)), -1)
    length = int(value.shape[dim]) if value.dim() else 1
    pair_bytes = value.element_size() + 8
    yield part(spec, whole, "copy", 2 * value.nbytes, count, "dense")
    yield part(spec, whole, "positions", 8 * count, count, "dense")
    if length <= SMALL_SORT:
        yield counted(spec, whole, "", 2 * pair_bytes * count, count, SMALL_SORT_PER_CLOCK, count // max(length, 1))
        return
    for _ in range(_passes(value.dtype)):
        yield at_least(part(spec, whole, "pass", 2 * pair_bytes * count, count, "other"), SORT_PASS_NS)


def _topk(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """A pass over all elements for each digit, one that writes the selected elements, and their sort."""
    value, count = args[0], args[0].numel()
    for _ in range(_passes(value.dtype)):
        yield counted(spec, whole, "count_digits", value.nbytes, count, COUNT_DIGITS_PER_CLOCK)
        yield at_least(part(spec, whole, "sum_digits", 0, 1, "other"), SELECT_PASS_NS)
    yield counted(spec, whole, "", value.nbytes, count, SELECT_PER_CLOCK)
    if len(args) < 5 or args[4]:  # sorted
        yield part(spec, whole, "sort", 2 * (out[0].nbytes + out[1].nbytes), out[0].numel(), "other")


def _scan(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """A scan over the last dimension takes a row a warp; over another one, a column a thread."""
    value, dim = args[0], args[1] if len(args) > 1 else -1
    if not isinstance(dim, int) or isinstance(dim, bool):
        dim = -1  # a flag in its place
    if value.dim() and dim % value.dim() == value.dim() - 1:
        yield counted(spec, whole, "", whole.num_bytes, value.numel(), SCAN_PER_CLOCK)
    else:
        yield whole


def _argmax(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    value = args[0]
    dim = args[1] if len(args) > 1 else None
    if isinstance(dim, int) and value.dim() > 1 and dim % value.dim() != value.dim() - 1:
        yield counted(spec, whole, "", whole.num_bytes, value.numel(), COLUMN_ARGMAX_PER_CLOCK)
    else:
        yield whole


def _max_pool(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    window = args[1] if len(args[1]) == 2 else [args[1][0]] * 2
    yield counted(spec, whole, "", whole.num_bytes, out[0].numel() * window[0] * window[1], POOL_PER_CLOCK)


def _batch_norm(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Without a weight, cuDNN does not run it: torch's kernel reads each channel of an image by one thread block."""
    value, weight, is_training = args[0], args[1], args[5]
    if weight is not None or not is_training or value.dim() < 3 or not value.is_contiguous():
        yield whole
        return
    channels = int(value.shape[1])
    per_clock = CHANNEL_PER_CLOCK * min(RESIDENT_BLOCKS, max(1.0, channels / spec.num_sms))
    yield counted(spec, whole, "statistics", value.nbytes, value.numel(), per_clock, channels)
    yield part(spec, whole, "transform", 2 * value.nbytes, value.numel(), "dense")


def _group_norm(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """A thread block reads each group of an image; a pointwise kernel that is not vectorised writes the result."""
    value, num_groups = args[0], int(args[3]) * int(args[6])
    per_clock = GROUP_PER_CLOCK * min(RESIDENT_BLOCKS, max(1.0, num_groups / spec.num_sms))
    yield counted(spec, whole, "moments", value.nbytes, value.numel(), per_clock, num_groups)
    yield part(spec, whole, "transform", 2 * value.nbytes, value.numel(), "strided")


def _embedding_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """The gradient is filled with zeros; many indices are sorted and counted; then the rows are added."""
    grad, indices = args[:2]
    yield part(spec, whole, "fill", out.nbytes, out.numel(), "dense")
    rows = part(spec, whole, "rows", 2 * grad.nbytes + indices.nbytes, grad.numel(), "other")
    if indices.numel() <= SORTED_INDICES:
        yield at_least(rows, indices.numel() * ORDERED_INDEX_NS)
        return
    for _ in range(4):  # radix sort of the indices with their positions, 8 bits a pass
        yield at_least(part(spec, whole, "sort", 4 * indices.nbytes, indices.numel(), "other"), SORT_PASS_NS)
    for name in ("segments", "scan", "offsets"):
        yield part(spec, whole, name, 2 * indices.nbytes, indices.numel(), "other")
    for name in ("segment_rows", "rows"):
        yield counted(spec, whole, name, 2 * grad.nbytes + indices.nbytes, grad.numel(), ADD_ROWS_PER_CLOCK)


def _index_put(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """With ``accumulate``, the indices are checked and sorted before."""
    indices = [index for index in args[1] if isinstance(index, Tensor)]
    if indices and len(args) > 3 and args[3]:
        most = max(indices, key=torch.Tensor.numel)
        for name in ("smallest", "largest", "positions"):
            yield part(spec, whole, name, most.nbytes, most.numel(), "other")
        yield at_least(part(spec, whole, "sort", 4 * 8 * most.numel(), most.numel(), "other"), INDEX_PUT_SORT_NS)
    yield whole


def _index_add(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Atomic additions, element by element."""
    sources = [value for value in args[2:] if isinstance(value, Tensor)]
    if not sources:
        yield whole
        return
    count = max(value.numel() for value in sources)
    yield counted(spec, whole, "", whole.num_bytes, count, ATOMIC_PER_CLOCK)


def _rows_of_a_thread(num_rows: int) -> int:
    fewest, most = LOSS_THREADS
    threads = fewest
    while threads < most and threads * ROWS_OF_THREAD * 2 <= num_rows:
        threads *= 2
    return -(-num_rows // threads)


def _nll_loss(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """One thread block adds the losses of all rows, unless each row's loss is wanted."""
    is_reduced = args[3] != 0
    yield at_least(whole, LOSS_ROW_NS * _rows_of_a_thread(args[1].numel()) if is_reduced else 0)


def _nll_loss_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """The gradient is filled with zeros; then one thread block writes the element of each row."""
    targets = args[2]
    yield part(spec, whole, "fill", out.nbytes, out.numel(), "dense")
    rows = part(spec, whole, "rows", 2 * targets.nbytes, targets.numel(), "other")
    yield at_least(rows, LOSS_GRADIENT_ROW_NS * _rows_of_a_thread(targets.numel()) if args[4] != 0 else 0)


SELECTION_RULES: Final[dict[str, Rule]] = {
    "sort": _sort,
    "argsort": _sort,
    "topk": _topk,
    "cumsum": _scan,
    "cumprod": _scan,
    "argmax": _argmax,
    "argmin": _argmax,
    "max_pool2d_with_indices": _max_pool,
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
    "embedding_dense_backward": _embedding_backward,
    "index_put": _index_put,
    "_index_put_impl": _index_put,
    "index_add": _index_add,
    "scatter_add": _index_add,
    "nll_loss_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
}
