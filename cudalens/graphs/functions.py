"""A function under a manager, and its variants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, Literal

import torch

from cudalens.device.stacks import Place
from cudalens.errors import GraphError
from cudalens.graphs import arguments
from cudalens.graphs.costs import HostCost
from cudalens.graphs.guards.captured import Name
from cudalens.graphs.guards.found import Read
from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.host_values import Upload
from cudalens.graphs.padding import Pad
from cudalens.graphs.programs import Inference, Program
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.stored import StoredTensor
from cudalens.graphs.training_flags import TrainingFlags
from cudalens.graphs.waits import ReadCounts

Mode = Literal["inference", "forward", "backward"]
Mutations = Literal["skip", "copy"]

#: A variant may prepare something anew after so many changes of the tensors that require gradients: a training freezes
#: layers a few times, and a program that freezes one before each call should not be warmed up for ever.
MAX_MODES: Final = 8


@dataclass(slots=True)
class Counts:
    """How the calls of a function were handled."""

    warmups: int = 0
    recordings: int = 0
    replays: int = 0
    eager: int = 0

    @property
    def calls(self) -> int:
        """All of them."""
        return self.warmups + self.recordings + self.replays + self.eager


@dataclass(slots=True, eq=False)
class Function:
    """A function that a manager runs.

    Attributes:
        id: Its number in the manager.
        name: As reports call it.
        call: The user's callable.
        place: Where it is defined.
        static: Names or positions of arguments that the user promised to be the same tensors in every call.
        mutations: What happens where it overwrites an argument that is not static.
        check: Whether the first and every 32nd replay of each recording is compared with a call without a graph.
        eager_if_slower: Whether a variant whose graph costs the host more than its launches runs without a graph.
        pad: How arguments are padded, by name.
        variants: By the key of their calls.
        counts: How its calls were handled.
        skip: Why it never runs as a graph; None where it does.
        num_rerecords: Recordings beyond the first.
        is_gone: Whether its callable was garbage-collected.
        modules: Modules that it reaches, whose training flags belong to the key; None before the first call.
        latest: The variant of the latest call; None if that was not stored.
    """

    id: int
    name: str
    call: Callable[..., Any]
    place: Place | None
    static: tuple[str | int, ...] = ()
    mutations: Mutations = "skip"
    check: bool = False
    eager_if_slower: bool = True
    pad: Mapping[str, Pad] = field(default_factory=dict)
    variants: dict[Any, Variant] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    skip: Finding | None = None
    num_rerecords: int = 0
    modules: list[torch.nn.Module] | None = None
    is_gone: bool = False
    latest: Variant | None = None
    _flags: TrainingFlags | None = None

    def forget(self) -> None:
        """Keep only the name and the counts, because it cannot be called any more."""
        self.skip = self.why_skipped()
        self.is_gone, self.call = True, _no_longer
        self.forget_variants()

    def forget_variants(self) -> None:
        """Begin anew: the next call is a warm-up."""
        self.variants.clear()
        self.modules = self.latest = self._flags = None

    @property
    def is_eager(self) -> bool:
        """Whether no call replays any more."""
        is_recorded = self.counts.recordings > 0
        skipped = [variant.skip is not None for variant in self.variants.values()]
        return self.skip is not None or (all(skipped) if is_recorded and skipped else any(skipped))

    def why_skipped(self) -> Finding | None:
        """Why it, or one of its variants, runs without a graph."""
        return self.skip or next((v.skip for v in self.variants.values() if v.skip is not None), None)

    def training(self) -> tuple[bool, ...]:
        """The training flags of its modules."""
        if self._flags is None:
            self._flags = TrainingFlags(self.modules or ())
        return self._flags.now()


@dataclass(slots=True)
class Guarded:
    """A tensor from outside, and where the program keeps it.

    Attributes:
        tensor: It, or a view of it; None for an output of an earlier recording, whose life is its own.
        name: Its name; None where it was not found.
        address: What data_ptr() of the named tensor was.
        is_written: Whether the function overwrites it.
        num_writes: How often autograd counts an in-place change of it in a call.
    """

    tensor: torch.Tensor | None
    name: Name | None
    address: int
    is_written: bool
    num_writes: int = 0

    @property
    def at(self) -> tuple[Any, Any] | None:
        """Container and key by which it is looked up; None for an output whose name was not found."""
        if self.name is not None:
            return self.name.container, self.name.key
        return None if self.tensor is None else (self, 0)

    def __getitem__(self, key: int) -> torch.Tensor | None:
        return self.tensor

    @property
    def label(self) -> str:
        """As a person would write it."""
        return self.name.label if self.name is not None else "a tensor from outside"


@dataclass(slots=True, eq=False)
class Variant:
    """A function on arguments that are alike: what a recording is for.

    Attributes:
        id: Its number in the manager.
        function: Whose.
        mode: With gradients, without, or the backward of a recording.
        program: What is run; None until it is known whether gradients are wanted.
        spec: How leaves become arguments.
        key: Of the calls.
        labels: What a person calls each leaf.
        static: Positions of leaves that are used in place.
        written: Positions of leaves that the function overwrites, with the operator that does it first.
        written_outside: Where it overwrites tensors from outside, by the address of their storage.
        is_warm: Whether it has run in the pool once.
        num_kept: Warmups that left a tensor somewhere.
        num_effects: Warm-ups whose Python code changed what it reads, or called what a replay does not call again.
        num_modes: How often other tensors from outside required gradients than in the warm-up.
        executed: Functions that ran in the warm-up, by name: guards read their code, too.
        watched: Code of which several functions have the same values: a warm-up finds out which of them is called.
        before: Of a backward: the forward.
        is_observed: Whether `executed` is all: no operator of the warm-up ran on another thread.
        has_backward: Whether it ran a backward, which calls the hooks of tensors.
        outside: Environment variables and ContextVars that it read.
        reads: Where the tensors are that it takes from outside: container and key.
        names: The same with labels, of those that have names.
        wrappers: Tensors from outside whose class calls operators itself on the tensors inside.
        requires_grad: Whether those required gradients in the warmup.
        guards: The Python values that it reads, as they were after its code last ran; None before that.
        alternatives: All variants for the same arguments, with other Python values; this one is among them.
        skip: Why it does not run as a graph; None where it does.
        num_kernels: Operators of its latest warm-up or recording that launch work.
        generators: Random generators that it named when it was warmed up.
        text: The key in words.
        objects: Leaves that are neither tensors nor plain values, by label: names may be found in them.
        owners: Of a backward: the tensors from outside whose gradients it makes.
        identities: The tensors from outside that its code may compare an argument with by identity, with labels.
        stored: Where it stores tensors that it makes: in gradients of tensors from outside, and in attributes.
        uploads: The CPU tensors that its warm-up copied to the device.
        first_read: The line that first read a value of the device in its warm-up.
        has_hidden_copies: Whether torch copied Python data to the device in it where no mode sees the copy.
        host_names: Where the small CPU tensors are whose values it reads.
        has_freed_history: Whether it ran the backward of its differentiable results, which freed what this needs.
        plain: What the arguments are compared by if they are tensors alone; None for others.
        host_reads: How often replays read the values of the device that a recording depends on.
        cost: What its calls cost the host.
    """

    id: int
    function: Function
    mode: Mode
    program: Program
    spec: Any
    key: Any
    labels: Sequence[str]
    text: str = ""
    static: frozenset[int] = frozenset()
    written: dict[int, tuple[str, Place]] = field(default_factory=dict)
    written_outside: dict[int, Place] = field(default_factory=dict)
    is_warm: bool = False
    num_kept: int = 0
    num_effects: int = 0
    num_modes: int = 0
    executed: list[tuple[str, Any]] = field(default_factory=list)
    watched: frozenset[CodeType] = frozenset()
    before: Variant | None = None
    is_observed: bool = False
    has_backward: bool = False
    outside: list[Read] = field(default_factory=list)
    reads: list[tuple[Any, Any]] = field(default_factory=list)
    names: list[Name] = field(default_factory=list)
    wrappers: list[Read] = field(default_factory=list)
    requires_grad: list[bool] = field(default_factory=list)
    guards: GuardSet | None = None
    alternatives: list[Variant] = field(default_factory=list)
    skip: Finding | None = None
    num_kernels: int = 0
    generators: list[torch.Generator] = field(default_factory=list)
    objects: list[tuple[str, Any]] = field(default_factory=list)
    owners: list[torch.Tensor] = field(default_factory=list)
    identities: dict[int, str] = field(default_factory=dict)
    stored: list[StoredTensor] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    first_read: Place | None = None
    has_hidden_copies: bool = False
    host_names: list[Name] = field(default_factory=list)
    has_freed_history: bool = False
    plain: arguments.PlainArguments | None = None
    host_reads: ReadCounts = field(default_factory=ReadCounts)
    cost: HostCost = field(default_factory=HostCost)

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call has its key; False also where that is not known without computing the key."""
        return self.plain is not None and self.plain.match(args, kwargs) and self.key[0] == self.function.training()

    def run_eagerly(self, leaves: list[Any]) -> Any:
        """Call the function without a graph."""
        self.function.counts.eager += 1
        if self.mode == "backward":
            return self.program.run(list(leaves))
        args, kwargs = arguments.unflatten(leaves, self.spec)
        return self.function.call(*args, **kwargs)

    def refuse_second_derivatives(self) -> None:
        """Run without graphs from now on: a backward ran with ``create_graph=True``."""
        if self.skip is None:
            name, place = self.function.name, self.function.place
            self.skip = Finding(Reason.SECOND_DERIVATIVE, f"create_graph=True in {name}", place)

    def is_current(self) -> bool:
        """Whether the Python values that it reads are those of its warmup."""
        if self.skip is not None or not self.is_warm or self.guards is None:
            return True
        return all(one.is_as_before() for one in self.stored) and self.guards.hold()

    def identified_argument(self, leaves: Sequence[Any]) -> Finding | None:
        """An argument that is also a tensor from outside, which a comparison by identity finds; its copy is not."""
        if not self.identities:
            return None
        copied = (n for n, leaf in enumerate(leaves) if id(leaf) in self.identities and n not in self.static)
        number = next(copied, None)
        if number is None:
            return None
        what = f"'{self.labels[number]}', which is {self.identities[id(leaves[number])]} by identity"
        return Finding(Reason.UNGUARDED, what, self.function.place)

    def has_new_gradients(self) -> bool:
        """Whether a tensor from outside requires a gradient and did not in the warmup, or the reverse."""
        try:
            return [container[key].requires_grad for container, key in self.reads] != self.requires_grad
        except (LookupError, AttributeError, TypeError, ValueError):
            return True  # the name does not exist or holds no tensor

    def note_reads(self, externals: Mapping[int, torch.Tensor], names: Mapping[int, Sequence[Name]]) -> None:
        """Store where the tensors from outside are, by the identity of their storage."""
        self.reads, self.names = [], []
        for key, tensor in externals.items():
            known = names.get(key, ())
            self.names += known
            self.reads += [(name.container, name.key) for name in known] or [([tensor], 0)]
        self.requires_grad = [container[key].requires_grad for container, key in self.reads]

    def drop_reads(self) -> None:
        """Hold no tensor from outside: without a graph it lives only as long as the program keeps it."""
        self.reads, self.requires_grad, self.wrappers = [], [], []

    def forget_warm_up(self) -> None:
        """Forget the warm-up: the next call is a warm-up again, because other tensors require gradients now.

        The program may prepare something in it once more: a step sets the gradients of a layer that was frozen to None.
        """
        self.is_warm, self.mode = False, "inference"
        self.num_modes += 1
        if self.num_modes <= MAX_MODES:
            self.num_effects = self.num_kept = 0
        self.program = Inference(self.function.call, self.spec, self.function.name)


class _Inside(threading.local):
    """Whether this thread runs a function of a manager: functions called within belong to it."""

    is_on = False


inside = _Inside()


@contextmanager
def run_inside() -> Iterator[None]:
    """This thread runs a function of a manager while the context is entered."""
    before, inside.is_on = inside.is_on, True
    try:
        yield
    finally:
        inside.is_on = before


def _no_longer(*args: Any, **kwargs: Any) -> Any:
    raise GraphError("this function was garbage-collected; wrap it again (cudalens.cudagraph).")
