"""Formulas for the times of matrix products, convolutions, attention, row-wise kernels and collectives. No torch.

Each formula takes fitted constants (`cudalens.gpus.constants`), the rates of a GPU, and sizes. The
sizes and constants are numbers, or tensors of equal shape: ``tools/fit_timing.py`` fits the constants with the
functions of this module. All results are nanoseconds.

The models follow how such kernels work, in the order of their effects: tiles of the result that run in waves over the
SMs, the bandwidth of the memory and of the L2 cache, a product along ``k`` that is split for small results, and fixed
costs. The library's choice of a tile is modelled as the fastest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: A number, or a tensor while constants are fitted.
Num = Any
Constants = Mapping[str, Num]

#: Rows and columns of the result that one thread block of a matrix product computes.
TILES: Final = (
    (256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (16, 64), (16, 128)
)  # fmt: skip
#: Number of parts into which a library splits the inner dimension of a matrix product.
SPLITS: Final = (1, 2, 4, 8, 16)
#: Query rows of a thread block of fused attention, and keys of one iteration.
QUERY_TILES: Final = (16, 64, 128)
KEY_TILE: Final = 64
#: Kernels of fused attention exist for multiples of so many features, and compute all of them (HEADDIM_SWITCH in
#: Dao-AILab/flash-attention, csrc/flash_attn/src/static_switch.h: 32, 64, 96, 128, 192, 256).
HEAD_DIM_TILE: Final = 32
#: Keys that one thread block of a decoding kernel reads at least.
DECODE_KEYS: Final = 256
#: Thread blocks of layer norm on an SM at the same time, and elements of one iteration of a block: 128 threads that
#: read four elements each (ATen/native/cuda/layer_norm_kernel.cu).
ROW_BLOCKS: Final = 16
ROW_ELEMENTS: Final = 512
#: Elements up to which a row of a softmax is short, and threads of a warp.
SHORT_ROW: Final = 512
WARP: Final = 32
#: Partitions of the L2 cache from the A100 on, each for the multiprocessors that are connected to it (NVIDIA A100
#: Tensor Core GPU Architecture, "A100 L2 cache").
L2_PARTITIONS: Final = 2
#: Rows of the operands of a product, in bytes, around which their number of pages begins to matter.
LONG_ROW_BYTES: Final = 1 << 16
#: Numbers of GPUs of a collective with a rate of their own.
GPU_COUNTS: Final = (2, 4, 8)
#: Head dimensions with a constant of their own.
HEAD_DIMS: Final = (64, 128, 192, 256, 512)


class Rates(NamedTuple):
    """The rates of a GPU that the formulas use.

    Attributes:
        num_sms: Number of SMs.
        flops_per_ns: Peak operations per ns of the compute unit.
        bytes_per_ns: Peak memory bandwidth; equal to GB/s.
        l2_bytes: Size of the L2 cache.
    """

    num_sms: int
    flops_per_ns: float
    bytes_per_ns: float
    l2_bytes: int


def ceil_div(a: Num, b: Num) -> Num:
    """``a / b``, rounded up."""
    return -(-a // b)


def longer(a: Num, b: Num, sharpness: Num = 4) -> Num:
    """Return a smooth maximum of two times: two costs of similar size overlap only in part."""
    return (a**sharpness + b**sharpness) ** (1 / sharpness)


def smaller(a: Num, b: Num) -> Num:
    """Return the minimum of numbers or tensors."""
    return (a + b - abs(a - b)) / 2


def larger(a: Num, b: Num) -> Num:
    """Return the maximum of numbers or tensors."""
    return (a + b + abs(a - b)) / 2


def missed(num_bytes: Num, capacity_bytes: Num, steepness: Num) -> Num:
    """Return the part of the data that a cache does not hold: 0 far below its capacity, 1 far above."""
    return 1 / (1 + (num_bytes / capacity_bytes) ** -steepness)


def matrix_ns(c: Constants, gpu: Rates, batch: Num, m: Num, n: Num, k: Num, element_bytes: Num) -> Num:
    """Return the time of ``batch`` products of an (m x k) and a (k x n) matrix."""
    memory_ns = _matrix_memory_ns(c, gpu, batch, m, n, k, element_bytes)
    # Where rows of the operands are long, each is on its own page: old GPUs wait for addresses (P100: 2.7 times).
    long_rows = c.get("long_rows", 0) * missed(k * element_bytes, LONG_ROW_BYTES, 3)
    return _tiled_ns(c, gpu, batch, m, n, k, element_bytes, memory_ns, 1 / (1 + long_rows))


def convolution_ns(
    c: Constants,
    gpu: Rates,
    groups: Num,
    m: Num,
    n: Num,
    k: Num,
    num_bytes: Num,
    element_bytes: Num,
    saving: Num = 1,
) -> Num:
    """Return the time of a convolution as implicit matrix products, one for each group.

    The windows are not stored: the memory traffic is that of the tensors, each once.

    Args:
        c: The constants of convolutions.
        gpu: The rates of the GPU.
        groups: Number of products.
        m: Rows of a product's result: positions, or channels times window for the gradient of the weight.
        n: Columns of a product's result: channels.
        k: Inner dimension of a product.
        num_bytes: Bytes of the input, the weight and the output.
        element_bytes: Size of an element.
        saving: Multiplications of the products over those that are computed (Winograd's algorithm).
    """
    memory_ns = num_bytes / (gpu.bytes_per_ns * c["memory_share"])
    return _tiled_ns(c, gpu, groups, m, n, k, element_bytes, memory_ns, saving)


def _tiled_ns(
    c: Constants, gpu: Rates, batch: Num, m: Num, n: Num, k: Num, element_bytes: Num, memory_ns: Num, speed: Num
) -> Num:
    """Return the time of ``batch`` products by the fastest tile and split, with the given time of the memory traffic.

    `speed` is a factor of the rate of the compute unit.
    """
    rate = gpu.flops_per_ns * c["peak_share"] / gpu.num_sms * speed
    load_rate = gpu.bytes_per_ns * c["load_share"] / gpu.num_sms
    best = None
    for rows, columns in TILES:
        tiles = batch * ceil_div(m, rows) * ceil_div(n, columns)
        flops = 2 * rows * columns * (1 + c["small_tile"] * 16384 / (rows * columns))
        for split in SPLITS:
            depth = ceil_div(k, split)
            compute_ns = longer(flops * depth / rate, (rows + columns) * depth * element_bytes / load_rate)
            block_ns = c["block_ns"] + longer(compute_ns, depth / 64 * c["iteration_ns"])
            waves = tiles * split / gpu.num_sms
            waves = (c["partial_wave"] * larger(waves, 1) + ceil_div(waves, 1)) / (1 + c["partial_wave"])
            time_ns = longer(waves * block_ns, memory_ns)
            if split > 1:
                partial_bytes = 4 * batch * m * n * split
                time_ns = time_ns + c["split_ns"] + partial_bytes / (gpu.bytes_per_ns * c["split_share"])
            best = time_ns if best is None else smaller(best, time_ns)
    return c["fixed_ns"] + best * (1 + c["throttle"] * missed(best, 1e6, 1))


def depthwise_ns(c: Constants, gpu: Rates, num_bytes: Num, flops: Num) -> Num:
    """Return the time of a convolution with one input channel in each group, without tensor cores.

    Args:
        c: The constants of depthwise convolutions.
        gpu: The rates of the GPU, with that of the loads of all SMs (`cudalens.gpus.predict.DEPTHWISE_FLOPS`).
        num_bytes: Bytes of the input, the weight and the output.
        flops: Operations, a multiply-add counted as two.
    """
    memory_ns = num_bytes / (gpu.bytes_per_ns * c["memory_share"])
    return c["fixed_ns"] + longer(memory_ns, flops / (gpu.flops_per_ns * c["peak_share"]))


def _matrix_memory_ns(c: Constants, gpu: Rates, batch: Num, m: Num, n: Num, k: Num, element_bytes: Num) -> Num:
    """Return the time of the memory traffic; the second operand is cold more often, as weights in a program are."""
    weight_bytes = element_bytes * batch * k * n
    other_bytes = element_bytes * batch * m * (k + n)
    total_bytes = weight_bytes + other_bytes
    others_missed = missed(total_bytes, c["cache"] * gpu.l2_bytes, c["cache_steepness"])
    weights_missed = missed(weight_bytes, c["weight_cache"] * gpu.l2_bytes, c["cache_steepness"])
    cold_bytes = weight_bytes * larger(weights_missed, others_missed) + other_bytes * others_missed
    return cold_bytes / (gpu.bytes_per_ns * c["memory_share"]) + total_bytes / (gpu.bytes_per_ns * c["l2_share"])


def head_share(c: Constants, head_dim: Num) -> Num:
    """Return the fitted rate of the nearest head dimension that is not smaller; of the largest for larger ones."""
    share: Num = 0
    below = 0
    for dim in HEAD_DIMS:
        above = dim if dim != HEAD_DIMS[-1] else 1 << 30
        share = share + c[f"head_{dim}"] * ((head_dim > below) * (head_dim <= above))
        below = dim
    return share


def attention_ns(
    c: Constants,
    gpu: Rates,
    batch: Num,
    queries: Num,
    keys: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    is_causal: bool,
    element_bytes: Num = 2,
) -> Num:
    """Return the time of fused attention over many queries; query heads may share heads of keys and values."""
    rate = gpu.flops_per_ns / gpu.num_sms * head_share(c, head_dim)
    whole_keys = ceil_div(keys, KEY_TILE) * KEY_TILE
    computed_dim = ceil_div(head_dim, HEAD_DIM_TILE) * HEAD_DIM_TILE
    steps_ns = c["iteration_ns"] * ceil_div(keys, KEY_TILE)
    best = None
    for rows in QUERY_TILES:
        tile_rate = rate * rows / (rows + c["half_rows"])
        # A block takes the rows of one query head, or of all query heads that share a head of keys.
        for group, group_cost in ((1, 1), (heads / kv_heads, c["grouped"])):
            num_rows = queries * group
            blocks = batch * (heads / group) * ceil_div(num_rows, rows)
            is_long = (num_rows > rows) * 1
            visible = is_long * (keys / 2 + KEY_TILE / 2) + (1 - is_long) * whole_keys if is_causal else whole_keys
            flops = 4 * computed_dim * rows
            shared_ns = blocks * flops * visible / (smaller(blocks, gpu.num_sms) * tile_rate)
            compute_ns = longer(shared_ns, flops * whole_keys / tile_rate * c["longest"])
            block_ns = c["block_ns"] * blocks / gpu.num_sms * group_cost * (c["small_tile"] if rows == 16 else 1)
            time_ns = longer(compute_ns, steps_ns) + block_ns
            best = time_ns if best is None else smaller(best, time_ns)
    num_bytes = element_bytes * batch * head_dim * 2 * (queries * heads + keys * kv_heads)
    return c["fixed_ns"] + longer(best, cached_ns(c, gpu, num_bytes), 1 + c["overlap"])


def cached_ns(c: Constants, gpu: Rates, num_bytes: Num) -> Num:
    """Time to move data that is partly in the L2 cache."""
    cold_bytes = num_bytes * missed(num_bytes, gpu.l2_bytes, 3)
    return num_bytes / (gpu.bytes_per_ns * c["l2_share"]) + cold_bytes / (gpu.bytes_per_ns * c["memory_share"])


def decode_ns(
    c: Constants,
    gpu: Rates,
    batch: Num,
    keys: Num,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    element_bytes: Num = 2,
) -> Num:
    """Time of attention of one query per sequence to cached keys and values: mostly the time to read these."""
    num_bytes = 2 * element_bytes * batch * head_dim * (keys * kv_heads + heads)
    share = head_share(c, head_dim)
    blocks = batch * kv_heads * ceil_div(keys, DECODE_KEYS)
    few_blocks_ns = num_bytes / (smaller(blocks, gpu.num_sms) * gpu.bytes_per_ns / gpu.num_sms * c["block_share"])
    group = heads / kv_heads
    flops = 4 * batch * kv_heads * larger(group, 16) * keys * head_dim
    compute_ns = flops / (gpu.flops_per_ns * c["peak_share"] * share)
    block_ns = c["block_ns"] * batch * kv_heads / gpu.num_sms * (1 + c["group"] * group)
    steps_ns = c["iteration_ns"] * smaller(ceil_div(keys, KEY_TILE), c["max_iterations"])
    memory_ns = longer(cached_ns(c, gpu, num_bytes) / share, few_blocks_ns)
    return c["fixed_ns"] + longer(memory_ns + block_ns, longer(compute_ns, steps_ns))


def layer_norm_ns(c: Constants, gpu: Rates, rows: Num, length: Num, num_bytes: Num, element_bytes: Num = 4) -> Num:
    """Time of a kernel that reads each row twice, for the statistics and for the result, one thread block per row.

    The second time, the rows of the blocks that run at the same time are in the L2 cache, if it holds all of these.
    Rows that do not start at 16 bytes are read element by element, by one kernel for the statistics and one for the
    result.
    """
    resident_bytes = smaller(rows, gpu.num_sms * ROW_BLOCKS) * length * element_bytes
    again = c["read_again"] * missed(resident_bytes, c["cache"] * gpu.l2_bytes, 4)
    is_unaligned = (length * element_bytes % 16 != 0) * 1
    memory_ns = moved_ns(c, gpu, num_bytes) * (1 + again + is_unaligned * c["unaligned"])
    row_ns = c["row_ns"] + ceil_div(length, ROW_ELEMENTS) * c["iteration_ns"]
    row_ns = row_ns * (1 + is_unaligned * c.get("unaligned_rows", 0))
    return c["fixed_ns"] + longer(memory_ns, rows * row_ns / gpu.num_sms)


def rows_ns(c: Constants, gpu: Rates, rows: Num, length: Num, num_bytes: Num, element_bytes: Num = 4) -> Num:
    """Return the time of a kernel that reduces each row and writes it (softmax).

    A thread block computes a row. Rows of more than 1,024 elements are read again unless the L2 cache holds them, and
    the threads of their block wait for each other (``long_row_ns``, where it was measured). Rows
    of at most 512 elements are computed by a warp with as many iterations as the row needs
    (ATen/native/cuda/PersistentSoftmax.cuh), so that the time of a row is a part of that of 1,024 elements.
    """
    is_long = (length > 1024) * 1
    is_short = (length <= SHORT_ROW) * 1
    is_unaligned = (length * element_bytes % 16 != 0) * 1
    again = is_long * c["read_again"] * missed(num_bytes / 2, gpu.l2_bytes, 2)
    unaligned = is_unaligned * (c["unaligned"] + is_long * c["unaligned_long"])
    memory_ns = moved_ns(c, gpu, num_bytes) * (1 + again + unaligned)
    row_ns = c["row_ns"] + ceil_div(length, 1024) * c["iteration_ns"] + is_long * c.get("long_row_ns", 0)
    row_ns = row_ns * (1 - is_short + is_short * larger(length, WARP) / 1024)
    return c["fixed_ns"] + longer(memory_ns, rows * row_ns / gpu.num_sms)


def pointwise_ns(c: Constants, gpu: Rates, num_bytes: Num) -> Num:
    """Return the time of a pointwise kernel on whole tensors."""
    return c["fixed_ns"] + moved_ns(c, gpu, num_bytes)


def moved_ns(c: Constants, gpu: Rates, num_bytes: Num) -> Num:
    """Return the time to read and write tensors that the kernels before have used: small ones are in the L2 cache.

    Constants without the rate of the cache (``l2_share``, a multiple of the bandwidth of the memory) are of GPUs for
    which it was not measured: every byte is moved at the rate of the memory. The cache has two partitions, and data
    that multiprocessors of both sides use is in both.
    """
    memory_ns = num_bytes / (gpu.bytes_per_ns * c["memory_share"])
    if "l2_share" not in c:
        return memory_ns
    cold = missed(num_bytes + 1, gpu.l2_bytes / L2_PARTITIONS, 3)  # a power of 0 is not a number
    return cold * memory_ns + (1 - cold) * num_bytes / (gpu.bytes_per_ns * c["l2_share"])


#: How often each GPU sends its part of the message (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
COLLECTIVE_PASSES: Final = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}


def bus_factor(collective: str, num_gpus: Num) -> Num:
    """Return the bytes that each GPU sends over the bytes of the message, of a collective of `COLLECTIVE_PASSES`."""
    return COLLECTIVE_PASSES[collective] * (num_gpus - 1) / num_gpus


def collective_ns(c: Constants, factor: Num, num_gpus: Num, num_bytes: Num) -> Num:
    """Return the time of a collective over the GPUs of one node.

    Args:
        c: The constants of the operation.
        factor: As of `bus_factor`.
        num_gpus: Number of GPUs, n.
        num_bytes: The message, as nccl-tests defines it.
    """
    latency_ns = c["fixed_ns"] + c["gpu_ns"] * num_gpus
    # Bytes per ns of a GPU's link. With the number of GPUs, it changes where PCI Express connects them.
    few = larger(smaller((4 - num_gpus) / 2, 1), 0)
    many = larger(smaller((num_gpus - 4) / 4, 1), 0)
    link_rate = c["rate_2"] * few + c["rate_4"] * (1 - few - many) + c["rate_8"] * many
    transfer_ns = num_bytes * factor / link_rate
    # Between short messages, which only wait, and long ones, which follow the bandwidth, NCCL changes its protocol.
    power = c["middle_power"] / (1 + c["middle_power"])  # between 0 and 1
    return latency_ns + transfer_ns + c["middle"] * latency_ns * (transfer_ns / latency_ns) ** power
