"""Effects of running a cell besides its results: output, writes into what it read, random numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.graphs import GraphManager


class Effects:
    """The effects of a run.

    Attributes:
        wrote: Whether it wrote to standard output, or displayed something.
    """

    def __init__(self, things: Iterable[Any]) -> None:
        self.wrote = False
        self._tensors = list(tensors_in(things))
        self._versions = [_version(tensor) for tensor in self._tensors]
        self._draws = _draws()

    def reason(self) -> str:
        """Why another run may have another result; empty text where no effect was observed."""
        if [_version(tensor) for tensor in self._tensors] != self._versions:
            return "it writes into a tensor that it reads"
        return "" if _draws() == self._draws else "it draws random numbers"


class _Listening:
    """A stream that records whether text is written to it."""

    def __init__(self, stream: Any, effects: Effects) -> None:
        self._stream, self._effects = stream, effects

    def write(self, text: str) -> Any:
        self._effects.wrote = self._effects.wrote or bool(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def watched(shell: InteractiveShell, things: Sequence[Any]) -> Iterator[Effects]:
    """Observe what a run does to `things` (tensors, modules, lists of them), and whether it shows something."""
    effects = Effects(things)
    with ExitStack() as stack:
        before = sys.stdout
        listening: Any = _Listening(before, effects)
        sys.stdout = listening

        def restore() -> None:
            if sys.stdout is listening:  # the cell may have replaced it
                sys.stdout = before

        stack.callback(restore)
        stack.enter_context(_displays(shell, effects))
        yield effects


@contextmanager
def _displays(shell: InteractiveShell, effects: Effects) -> Iterator[None]:
    publisher: Any = shell.display_pub
    own = vars(publisher).get("publish")
    publish = publisher.publish

    def recorded(*args: Any, **more: Any) -> Any:
        effects.wrote = True
        return publish(*args, **more)

    publisher.publish = recorded
    try:
        yield
    finally:
        if own is None:
            del publisher.publish
        else:
            publisher.publish = own


def device_of(things: Iterable[Any]) -> int | None:
    """Index of the device of the first CUDA tensor among `things`; None where there is none."""
    return next((tensor.get_device() for tensor in tensors_in(things) if tensor.is_cuda), None)


def owned(manager: GraphManager | None, results: Any) -> Any:
    """`results` of a cell, with copies in place of tensors in the graphs' memory.

    The next run overwrites that memory, and a variable of a notebook keeps its value until it is assigned again. Views
    of one storage remain views of one storage.
    """
    current = manager.current if manager is not None else None
    if current is None:
        return results
    addresses = {ref.address for ref in current.live_refs()}
    storages: dict[int, torch.Tensor] = {}
    return _map_tensors(lambda tensor: _copied(tensor, addresses, storages), results)


def _map_tensors(change: Callable[[torch.Tensor], torch.Tensor], results: Any) -> Any:
    """Apply `change` to the tensors in some results; a torch.Size stays one, which pytree would make a tuple."""

    def is_size(value: Any) -> bool:
        return isinstance(value, torch.Size)

    return pytree.tree_map_only(torch.Tensor, change, results, is_leaf=is_size)


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
    """Return the variables that a cell had assigned when it raised `error`.

    Tensors are left out after an interrupt: it may have arrived during a capture, in which tensors have no values.
    """
    kept = {name: thing for name, thing in local.items() if name not in given}
    if isinstance(error, Exception):
        return {name: _map_tensors(_own, thing) for name, thing in kept.items()}
    return {name: thing for name, thing in kept.items() if next(tensors_in([thing]), None) is None}


def _own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.is_cuda else tensor


def _version(tensor: torch.Tensor) -> int | None:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors have no version
        return None


def _draws() -> list[bytes]:
    """Return the states of torch's random number generators: of the CPU, and of the devices in use."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states += [torch.cuda.get_rng_state(index) for index in range(torch.cuda.device_count())]
    return [bytes(state.numpy().tobytes()) for state in states]


# The tensors in the user's variables.


def tensors_in(things: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among `things`: also those in lists, tuples and dictionaries, and those of modules."""
    for thing in things:
        for leaf in pytree.tree_leaves(thing):
            if isinstance(leaf, torch.Tensor):
                yield leaf
            elif isinstance(leaf, torch.nn.Module):
                yield from leaf.parameters()
                yield from leaf.buffers()


def names_on_device(namespace: Mapping[str, Any]) -> list[str]:
    """Names of the variables with CUDA tensors, in order of assignment; names with an underscore are left out."""
    return [
        name
        for name, thing in namespace.items()
        if not name.startswith("_") and any(tensor.is_cuda for tensor in tensors_in([thing]))
    ]
