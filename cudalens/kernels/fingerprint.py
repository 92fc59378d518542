"""`fingerprint`: a 128-bit hash of the contents of tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import torch

from cudalens.errors import KernelError
from cudalens.kernels.launch import Backend, uses_triton
from cudalens.kernels.values import FIRST, PLACE, SECOND, SEED, THIRD

_MASK = (1 << 64) - 1
_WORD = 8


class Fingerprint(NamedTuple):
    """A 128-bit hash; equal for equal contents on every device and backend.

    Attributes:
        high: The upper 64 bits.
        low: The lower 64 bits.
    """

    high: int
    low: int

    def __str__(self) -> str:
        """32 hexadecimal digits."""
        return f"{self.high:016x}{self.low:016x}"


class PendingFingerprint:
    """A fingerprint that may still be computed: its kernels are queued on the stream that was current."""

    def __init__(self, headers: Sequence[bytes], lanes: Sequence[torch.Tensor]) -> None:
        self._headers, self._lanes = headers, lanes
        self._found: Fingerprint | None = None

    def result(self) -> Fingerprint:
        """Return the fingerprint; waits for the device."""
        if self._found is None:
            # The BLAKE2b hash (RFC 7693) of the lanes, dtypes and shapes of all tensors.
            lanes = _on_host(self._lanes)
            digest = hashlib.blake2b(digest_size=16)
            for header, (first, second) in zip(self._headers, lanes, strict=True):
                digest.update(header)
                digest.update((first & _MASK).to_bytes(8, "little") + (second & _MASK).to_bytes(8, "little"))
            raw = digest.digest()
            self._found = Fingerprint(int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big"))
            self._lanes = ()
        return self._found


def fingerprint(tensors: torch.Tensor | Iterable[torch.Tensor], *, backend: Backend = "auto") -> Fingerprint:
    """Hash the contents of `tensors`: bits, shapes and dtypes, in order.

    Equal for equal contents on CPUs and GPUs, in every run and for every launch shape; strides and addresses have no
    effect. Contents that differ in one 8-byte word never have the same fingerprint, others with a probability near
    2**-128. The hash is not cryptographic. NaNs are hashed by their bits, as are 0.0 and -0.0.

    Reads each tensor once and writes 16 bytes for it, so the shortest possible time is ``sum(t.nbytes)`` divided by the
    measured read bandwidth. Tensors that are not contiguous, or whose memory does not begin at a multiple of 8 bytes,
    are copied first. Waits for the device; `begin_fingerprint` does not.

    Args:
        tensors: One or more tensors.
        backend: Whether the Triton kernel or the reference runs; for tests.

    Raises:
        KernelError: One of them has no plain memory (sparse, nested, meta).
    """
    return begin_fingerprint(tensors, backend=backend).result()


def begin_fingerprint(
    tensors: torch.Tensor | Iterable[torch.Tensor], *, backend: Backend = "auto"
) -> PendingFingerprint:
    """As `fingerprint`, without waiting for the device; cheap enough to run after every operator.

    Raises:
        KernelError: One of them holds no plain memory (sparse, nested, meta).
    """
    every = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    for position, tensor in enumerate(every):
        _check(tensor, position)
    with torch.no_grad():
        lanes = [_lanes(tensor.detach(), backend) for tensor in every]
    return PendingFingerprint([_header(tensor) for tensor in every], lanes)


def _check(tensor: object, position: int) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise KernelError(f"fingerprint: number {position} is {type(tensor).__name__}, expected a tensor.")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
        raise KernelError(
            f"fingerprint: number {position} has no plain memory (sparse, nested or meta); hash its parts."
        )


def _header(tensor: torch.Tensor) -> bytes:
    return f"{tensor.dtype}{tuple(tensor.shape)};".encode()


def _lanes(tensor: torch.Tensor, backend: Backend) -> torch.Tensor:
    """Return the two 64-bit sums of a tensor's words, int64, shape (2,), on its device."""
    if not tensor.numel():
        return torch.zeros(2, dtype=torch.int64, device=tensor.device)
    words, tail = split_words(plain_bytes(tensor))
    if uses_triton(backend, tensor):
        from cudalens.kernels.triton_kernels import run_fingerprint as run

        return run(words, tail)

    return run_reference(words, tail)


def plain_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of `tensor` in row-major order, uint8, shape (nbytes,), beginning at a multiple of 8."""
    # A copy of bool makes each true element 1, whatever its byte was.
    plain = tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor.resolve_conj().resolve_neg()
    dense = plain.contiguous()
    # A tensor of one element is contiguous with any stride, and cannot be viewed as bytes unless that is 1.
    if dense.data_ptr() % _WORD or (dense.numel() == 1 and dense.dim() and dense.stride(-1) != 1):
        dense = torch.empty(dense.shape, dtype=dense.dtype, device=dense.device).copy_(dense)
    if dense.dtype.is_complex:
        dense = torch.view_as_real(dense)
    return dense.reshape(-1).view(torch.uint8)


def split_words(data: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole 8-byte words as int64, shape (n,), and the bytes that remain as uint8, shape (0 to 7,)."""
    whole = data.numel() // _WORD * _WORD
    return data[:whole].view(torch.int64), data[whole:]


def _on_host(lanes: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return all lanes on the host, with one copy from each device."""
    found: list[list[int]] = [[] for _ in lanes]
    for device in dict.fromkeys(one.device for one in lanes):
        places = [i for i, one in enumerate(lanes) if one.device == device]
        for place, values in zip(places, torch.stack([lanes[i] for i in places]).tolist(), strict=True):
            found[place] = values
    return found


# `fingerprint` in plain torch, for CPU and virtual-device tensors; the reference implementation of the kernel.

#: Words at a time.
_CHUNK: Final = 1 << 21


def run_reference(words: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Return the two sums over `words` (int64, shape (n,)) and the bytes after them (uint8, shape (0 to 7,)).

    Returns:
        int64, shape (2,).
    """
    if tail.numel():
        rest = torch.zeros(8, dtype=torch.uint8, device=tail.device)
        rest[: tail.numel()] = tail
        words = torch.cat([words, rest.view(torch.int64)])
    total = torch.zeros(2, dtype=torch.int64, device=words.device)
    for start in range(0, words.numel(), _CHUNK):
        part = words[start : start + _CHUNK]
        total += _sums(part, torch.arange(start, start + part.numel(), device=words.device))
    return total


def _sums(words: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    first = (words ^ (places * PLACE + SEED)) * FIRST
    first = (first ^ _shifted(first, 32)) * SECOND
    second = (first ^ _shifted(first, 29)) * THIRD
    return torch.stack([first.sum(), second.sum()])


def _shifted(values: torch.Tensor, by: int) -> torch.Tensor:
    """Return a logical shift to the right; torch's is arithmetic."""
    return (values >> by) & ((1 << (64 - by)) - 1)
