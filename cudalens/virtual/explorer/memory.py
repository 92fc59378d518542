"""Track the memory of a logged program: locations of storages, and their contents at the first use."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import torch

from cudalens.virtual.explorer.logged import DEVICE, LoggedOp, Place, Span
from cudalens.virtual.tensors.residency import KEY, PINNED_KEY, MemoryOwner, Residence

#: Attribute of a storage: the log that tracks it, and its location.
_TAG: Final = "_cudalens_logged"

_FILLED: Final = "memory that torch filled"
_WRITTEN: Final = "host write"


class TrackedMemory:
    """The memory of one log.

    Args:
        gpus: The virtual GPUs: addresses of tensors on earlier ones mean nothing here.
        max_bytes: The limit of stored contents.
        leave: Called with a span, its bytes and a description, if the contents come from no logged operator.
        refuse: Called with the reason why this program cannot be run again.

    Attributes:
        initial: The contents of memory before the first task: span and bytes.
        num_bytes: The stored contents, in bytes.
        allocated: Addresses of blocks that were allocated since the log started.
        blank: Memory that was allocated without contents: the number of tasks before, and the span.
    """

    def __init__(
        self,
        gpus: MemoryOwner,
        max_bytes: int,
        leave: Callable[[Span, torch.Tensor, str], None],
        refuse: Callable[[str], None],
    ) -> None:
        self._gpus = gpus
        self.initial: list[tuple[Span, torch.Tensor]] = []
        self.num_bytes = 0
        self.allocated: set[int] = set()
        self.blank: list[tuple[int, Span]] = []
        self._max_bytes, self._leave, self._refuse = max_bytes, leave, refuse
        self._token = object()
        self._spaces = itertools.count(1)
        self._pinned: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._covered: list[Span] = []
        self._own: dict[int, tuple[object, int]] = {}
        self._exposed: dict[int, tuple[Any, torch.Tensor]] = {}

    def clear(self) -> None:
        """Drop all contents."""
        self.initial.clear()
        self._exposed.clear()
        self._own.clear()
        self._covered.clear()
        self.blank.clear()

    def storage_of(self, tensor: torch.Tensor) -> Any:
        """Return a tensor's storage, or None if it has none, which ends the log."""
        try:
            return tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            self._refuse(
                f"it uses a tensor of layout {tensor.layout}, which has no storage of its own to track; only dense "
                "tensors can be run again in another order"
            )
            return None

    def is_tracked(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is in tracked host memory."""
        try:
            storage: Any = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return False
        notes = storage.__dict__
        return self._residence(storage) is None and (PINNED_KEY in notes or self._tag(notes) is not None)

    def _residence(self, storage: Any) -> Residence | None:
        """Return the residence of a storage on these GPUs."""
        residence: Residence | None = storage.__dict__.get(KEY)
        return residence if residence is not None and residence.gpus is self._gpus else None

    def is_pinned(self, space: int) -> bool:
        """Return whether a piece of host memory is page-locked."""
        return space in self._pinned

    def block_at(self, address: int) -> Span:
        """Return the span of the block at an address, with the largest size of a storage seen there."""
        return Span(DEVICE, address, address + self._sizes.get(address, 0))

    def place_of(self, tensor: torch.Tensor, *, is_written: bool = False) -> Place | None:
        """Return the place of a tensor; None in host memory that is not tracked.

        Args:
            tensor: An operator's argument, before it runs.
            is_written: Whether the operator writes it; its memory is then tracked.
        """
        storage = self.storage_of(tensor)
        if storage is None:
            return None
        notes = storage.__dict__
        residence = self._residence(storage)
        if residence is not None and not self._gpus.is_closed:
            return Place.of(tensor, self._track_device(storage, residence))
        if is_written or PINNED_KEY in notes or self._tag(notes) is not None:
            return Place.of(tensor, self._track_host(storage))
        return None

    def track(self, storage: Any) -> Span:
        """Track a storage that a graph uses; returns its span."""
        residence = self._residence(storage)
        return self._track_host(storage) if residence is None else self._track_device(storage, residence)

    def own_space(self, piece: object, num_bytes: int) -> Span:
        """Return a space for a graph's own memory, which is no storage of the user.

        Args:
            piece: Its key; kept alive by the log.
            num_bytes: Its size.
        """
        if id(piece) not in self._own:
            self._own[id(piece)] = (piece, next(self._spaces))
        return Span(self._own[id(piece)][1], 0, num_bytes)

    def constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a host tensor that is not tracked."""
        kept = tensor.detach().clone()
        self._charge(kept.nbytes)
        return kept

    def contents(self, storage: Any) -> torch.Tensor:
        """Return a copy of the current bytes of a storage."""
        kept = _bytes_of(storage).clone()
        self._charge(kept.nbytes)
        return kept

    def made(self, tensor: torch.Tensor) -> Place:
        """Return the place of an operator's new result."""
        storage: Any = tensor.untyped_storage()
        residence = self._residence(storage)
        if residence is None:
            span = self._new_space(storage)
        else:
            span = self._span(storage, residence)
            self._register(storage, span, residence)
        return Place.of(tensor, span)

    def span_of(self, storage: Any) -> Span | None:
        """Return the current span of a storage; None in host memory that is not tracked."""
        residence = self._residence(storage)
        if residence is not None:
            return self._span(storage, residence)
        tag = self._tag(storage.__dict__)
        return None if tag is None else Span(tag[0], 0, storage.nbytes())

    def moved(self, place: Place, storage: Any) -> Place | None:
        """Return the whole new storage of an argument that was moved, or None if it is empty."""
        span = self.span_of(storage)
        residence = self._residence(storage)
        if span is None or not storage.nbytes():
            return None
        if residence is not None:
            self._register(storage, span, residence)
        return Place(span, torch.uint8, (storage.nbytes(),), (1,), 0)

    def expose(self, tensor: torch.Tensor) -> None:
        """Track writes of Python to host memory outside of torch: its contents are compared at each use."""
        storage: Any = tensor.untyped_storage()
        tag = self._tag(storage.__dict__)
        if tag is not None:
            self._exposed[tag[0]] = (storage, _bytes_of(storage).clone())

    def after_op(self, op: LoggedOp) -> None:
        """Update the compared contents after an operator was logged that wrote them."""
        for space in {span.space for span in op.written()} & self._exposed.keys():
            storage, _ = self._exposed[space]
            self._exposed[space] = (storage, _bytes_of(storage).clone())

    def cover(self, span: Span, contents: Callable[[], torch.Tensor]) -> None:
        """Track bytes of a graph's pool: store the contents of the parts that are not tracked.

        Args:
            span: The bytes.
            contents: Returns the bytes of the whole span.
        """
        for part in _without(span, self._covered):
            self._keep_initial(part, contents()[part.start - span.start : part.end - span.start])
            self._covered.append(part)

    def _track_device(self, storage: Any, residence: Residence) -> Span:
        span = self._span(storage, residence)
        if span.start == span.end:
            return span
        if residence.arena is not None:
            self.cover(span, lambda: _bytes_of(storage))
        elif self._tag(storage.__dict__) != (DEVICE, span.start):
            if residence.address in self.allocated:
                self._leave(span, self.contents(storage), _FILLED)
            else:
                self._keep_initial(span, _bytes_of(storage))
            self._register(storage, span, residence)
        return span

    def _track_host(self, storage: Any) -> Span:
        tag = self._tag(storage.__dict__)
        if tag is None:
            span = self._new_space(storage)
            self._keep_initial(span, _bytes_of(storage))
            return span
        span = Span(tag[0], 0, storage.nbytes())
        if span.space in self._exposed and not torch.equal(self._exposed[span.space][1], _bytes_of(storage)):
            contents = self.contents(storage)
            self._exposed[span.space] = (storage, contents)
            self._leave(span, contents, _WRITTEN)
        return span

    def _new_space(self, storage: Any) -> Span:
        space = next(self._spaces)
        storage.__dict__[_TAG] = (self._token, space, 0)
        if PINNED_KEY in storage.__dict__:
            self._pinned.add(space)
        return Span(space, 0, storage.nbytes())

    def _span(self, storage: Any, residence: Residence) -> Span:
        return Span(DEVICE, residence.address, residence.address + storage.nbytes())

    def _register(self, storage: Any, span: Span, residence: Residence) -> None:
        storage.__dict__[_TAG] = (self._token, DEVICE, span.start)
        self._sizes[span.start] = max(self._sizes.get(span.start, 0), span.end - span.start)
        if residence.arena is not None:
            self._covered += _without(span, self._covered)

    def _tag(self, notes: dict[str, Any]) -> tuple[int, int] | None:
        tag = notes.get(_TAG)
        return (tag[1], tag[2]) if tag is not None and tag[0] is self._token else None

    def _keep_initial(self, span: Span, contents: torch.Tensor) -> None:
        kept = contents.clone()
        self._charge(kept.nbytes)
        self.initial.append((span, kept))

    def _charge(self, num_bytes: int) -> None:
        self.num_bytes += num_bytes
        if self.num_bytes > self._max_bytes:
            self._refuse(
                f"its inputs need more than the limit of {self._max_bytes / 2**20:,.0f} MiB. Explore a shorter "
                "block (one step is enough) or smaller tensors, or raise explore_bytes."
            )


def _bytes_of(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _without(span: Span, covered: list[Span]) -> list[Span]:
    """Return the parts of a span that no other span covers."""
    left = [span]
    for other in covered:
        pieces, left = left, []
        for piece in pieces:
            if not piece.overlaps(other):
                left.append(piece)
                continue
            if piece.start < other.start:
                left.append(Span(piece.space, piece.start, other.start))
            if other.end < piece.end:
                left.append(Span(piece.space, other.end, piece.end))
    return left
