"""Tensors that kernels have to get right, and what has to hold of each: on the CPU interpreted, on a GPU compiled."""

import itertools

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (*FLOATS, *FLOAT8, *SIGNED, *UNSIGNED, torch.bool, *COMPLEX)

SHAPES = ((), (1,), (7,), (1024,), (1025,), (3, 5), (4, 1, 300), (2, 3, 4, 5, 6), (0,), (3, 0, 2))


def filled(shape, dtype, device, seed):
    """Random bits: every value that the dtype has, NaNs, infinities and subnormals among them."""
    count = max(1, torch.Size(shape).numel())
    maker = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=maker)
    values = (raw % 2).to(torch.bool) if dtype is torch.bool else raw.view(dtype)
    return values[: torch.Size(shape).numel()].reshape(shape).to(device)


def with_changes(tensor, places):
    """A copy in which the elements at `places` (numbers in row-major order) have one bit turned over."""
    copy = tensor.clone(memory_format=torch.contiguous_format)
    size = tensor.dtype.itemsize
    data = copy.reshape(-1).view(torch.bool if tensor.dtype is torch.bool else torch.uint8)
    for place in places:
        at = place % max(1, tensor.numel()) * size
        data[at] = ~data[at] if tensor.dtype is torch.bool else data[at] ^ 1
    return copy


def views(tensor):
    """The same elements and others, through every kind of layout: whole, turned, strided, broadcast, out of place."""
    yield "whole", tensor
    if tensor.dim() > 1:
        yield "turned", tensor.transpose(0, -1)
        yield "strided", tensor[::2, ..., ::2]
    if tensor.dim() and tensor.shape[0]:
        yield "broadcast", tensor[:1].expand(3, *tensor.shape[1:])
        yield "offset", tensor[1:]


def pairs(device, seed=0, dtypes=DTYPES):
    """Labelled pairs of equal shape and dtype, equal and not."""
    for dtype, shape in itertools.product(dtypes, SHAPES):
        a = filled(shape, dtype, device, seed)
        b = with_changes(a, (1, 5, 77)) if a.numel() else a.clone()
        other = filled(shape, dtype, device, seed + 1)
        for (name, one), (_, two), (_, three) in zip(views(a), views(b), views(other), strict=True):
            yield f"{dtype} {shape} {name}", one, two
            yield f"{dtype} {shape} {name} unrelated", one, three


def assert_same_findings(found, expected):
    """Equal but for the last bits of a relative difference, which GPUs divide in a quicker way."""
    exact = ("shape", "dtype", "num_different", "first_different", "num_nan_mismatches")
    assert [getattr(found, name) for name in exact] == [getattr(expected, name) for name in exact]
    assert repr(found.first_values) == repr(expected.first_values)
    assert abs(found.max_rel_diff - expected.max_rel_diff) <= 1e-6 * expected.max_rel_diff
    assert found.max_abs_diff == expected.max_abs_diff or abs(found.max_abs_diff / expected.max_abs_diff - 1) <= (
        1e-6 if found.dtype.is_complex else 0
    )
