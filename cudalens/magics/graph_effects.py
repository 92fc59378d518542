"""What running a cell did besides its results: did it print, write into what it read, draw random numbers?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.graphs import GraphManager


class Effects:
    """What a run did.

    Attributes:
        wrote: It wrote to standard output, or displayed something.
    """

    def __init__(self, things: Iterable[Any]) -> None:
        self.wrote = False
        self._tensors = list(_tensors(things))
        self._versions = [_version(tensor) for tensor in self._tensors]
        self._draws = _draws()

    def told(self) -> str:
        """Why another run might come to something else; empty text where nothing shows that."""
        if [_version(tensor) for tensor in self._tensors] != self._versions:
            return "it writes into a tensor that it reads"
        return "" if _draws() == self._draws else "it draws random numbers"


class _Listening:
    """A stream that tells when somebody writes to it."""

    def __init__(self, stream: Any, effects: Effects) -> None:
        self._stream, self._effects = stream, effects

    def write(self, text: str) -> Any:
        self._effects.wrote = self._effects.wrote or bool(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def watched(shell: InteractiveShell, things: Sequence[Any]) -> Iterator[Effects]:
    """Watch what a run does to `things` (tensors, modules, lists of them), and what it shows."""
    effects = Effects(things)
    with ExitStack() as stack:
        before = sys.stdout
        listening: Any = _Listening(before, effects)
        sys.stdout = listening

        def give_back() -> None:
            if sys.stdout is listening:  # the cell may have put another one in place
                sys.stdout = before

        stack.callback(give_back)
        stack.enter_context(_displays(shell, effects))
        yield effects


@contextmanager
def _displays(shell: InteractiveShell, effects: Effects) -> Iterator[None]:
    publisher: Any = shell.display_pub
    own = vars(publisher).get("publish")
    publish = publisher.publish

    def told(*args: Any, **more: Any) -> Any:
        effects.wrote = True
        return publish(*args, **more)

    publisher.publish = told
    try:
        yield
    finally:
        if own is None:
            del publisher.publish
        else:
            publisher.publish = own


def device_of(things: Iterable[Any]) -> int | None:
    """Index of the device of the first CUDA tensor among `things`; None where there is none."""
    return next((tensor.get_device() for tensor in _tensors(things) if tensor.is_cuda), None)


def owned(manager: GraphManager | None, results: Any) -> Any:
    """`results` of a cell, with copies in place of tensors that lie in the graphs' memory.

    The next run overwrites that memory, and a variable of a notebook keeps its value until somebody assigns it. Views
    of one storage stay views of one storage.
    """
    current = manager.current if manager is not None else None
    if current is None:
        return results
    addresses = {ref.address for ref in current.live_refs()}
    storages: dict[int, torch.Tensor] = {}
    return pytree.tree_map_only(torch.Tensor, lambda tensor: _copied(tensor, addresses, storages), results)


def _copied(tensor: torch.Tensor, addresses: set[int], storages: dict[int, torch.Tensor]) -> torch.Tensor:
    if not tensor.is_cuda or tensor.untyped_storage().data_ptr() not in addresses:
        return tensor
    if tensor.requires_grad:  # the copy stays in the autograd graph
        return tensor.clone()
    storage = tensor.untyped_storage()
    whole = storages.get(storage.data_ptr())
    if whole is None:
        num_elements = storage.nbytes() // tensor.element_size()
        flat = torch.as_strided(tensor.detach(), (num_elements,), (1,), 0)
        whole = storages[storage.data_ptr()] = flat.clone()
    if whole.dtype != tensor.dtype:
        return tensor.clone()
    return torch.as_strided(whole, tensor.shape, tensor.stride(), tensor.storage_offset())


def left_by(error: BaseException, local: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Variables that a cell had assigned when it raised `error`, as they may be kept.

    An interrupt may have come in the middle of a capture, where tensors have no values yet: it leaves none.
    """
    kept = {name: thing for name, thing in local.items() if name not in given}
    if isinstance(error, Exception):
        return {name: pytree.tree_map_only(torch.Tensor, _own, thing) for name, thing in kept.items()}
    return {name: thing for name, thing in kept.items() if next(_tensors([thing]), None) is None}


def _own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.is_cuda else tensor


def _tensors(things: Iterable[Any]) -> Iterator[torch.Tensor]:
    for thing in things:
        for leaf in pytree.tree_leaves(thing):
            if isinstance(leaf, torch.Tensor):
                yield leaf
            elif isinstance(leaf, torch.nn.Module):
                yield from leaf.parameters()
                yield from leaf.buffers()


def _version(tensor: torch.Tensor) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors keep none
        return None


def _draws() -> list[bytes]:
    """The states of torch's random generators: the CPU's, and those of the devices that are in use."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states += [torch.cuda.get_rng_state(index) for index in range(torch.cuda.device_count())]
    return [bytes(state.numpy().tobytes()) for state in states]
