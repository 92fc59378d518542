"""Analyze the Python code of a variant: the guards of what it reads, and effects that forbid a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from cudalens.device.stacks import Place
from cudalens.graphs.guards.closures import hidden_closure
from cudalens.graphs.guards.found import Read, Reads
from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.guards.lookups import IsGradientMissing, MethodValue, place_id
from cudalens.graphs.guards.reads import find_reads
from cudalens.graphs.host_values import HostContents
from cudalens.graphs.observer import is_plain, is_wrapper
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.recording import roots_of

if TYPE_CHECKING:
    from cudalens.graphs.functions import Variant
    from cudalens.graphs.guards.effects import Effects, Snapshot
    from cudalens.graphs.observer import Observer


#: Names of torch that switch off the dispatch modes of a thread.
_HIDING: Final = frozenset({"_DisableTorchDispatch", "_disable_current_modes", "no_dispatch"})


def python_roots(variant: Variant) -> list[tuple[str, Any]]:
    """Where the Python values of a variant are looked up: the function, its arguments, what ran in the warm-up."""
    return [*roots_of(variant), *variant.executed, *((read.label, read.value) for read in variant.outside)]


def note_effects(variant: Variant, effects: Effects, observer: Observer, containers: Sequence[Any]) -> None:
    """Store what a warm-up read and changed.

    The first warm-up with effects besides its results is repeated, because a program may prepare something in its first
    call. If the second has some as well, there is no graph.

    Args:
        variant: What ran.
        effects: What was compared and observed around the call.
        observer: What was seen of its operators.
        containers: The lists and dicts in its result.
    """
    calls = effects.calls
    variant.is_observed = not observer.has_other_threads
    variant.executed = calls.executed()
    variant.has_backward = calls.has_backward
    variant.outside = [_as_it_is(at) for at in calls.values]
    reads = _guard(variant)
    hidden = _hidden_tensor(calls.operators) or _hidden_operators(calls.functions)
    finding = effects.finding(reads, variant.function.place) or hidden
    finding = finding or _wrapped(variant) or _unreached(variant, reads)
    is_first = finding is not None and variant.num_effects == 0
    variant.num_effects += finding is not None
    if is_first:
        variant.is_warm = False
    elif variant.skip is None and variant.is_warm:
        hooked = effects.hooked_argument() if variant.has_backward else None
        returned = effects.returned_container(containers, variant.function.place)
        variant.skip = finding or hooked or returned or _unguarded(variant) or hidden_closure(variant, reads, calls)


def _as_it_is(read: Read) -> Read:
    """A value that a call read, as it is after it. A method may call code of the program: `finding` calls it first.

    It does so after it has found that the call changes no Python value.
    """
    if isinstance(read.container, MethodValue):
        return read
    return Read(read.container, read.key, read.label, read.container[read.key])


def check_recording(variant: Variant, before: Snapshot) -> None:
    """A recording ran the Python code once more: if that changed Python state, nothing is replayed."""
    changed = before.difference()
    if changed is None and variant.guards is not None:
        changed = variant.guards.difference()
    _guard(variant)
    if variant.skip is None:
        finding = None if changed is None else Finding(Reason.SIDE_EFFECT, changed, variant.function.place)
        variant.skip = finding or _unguarded(variant)


def _guard(variant: Variant) -> Reads:
    """Compare the values that are read, as they are after the code ran, before every replay."""
    executed = {function.__code__ for _, function in variant.executed} if variant.is_observed else None
    adds_gradients = variant.has_backward and variant.mode != "backward"
    reads = find_reads(
        python_roots(variant), executed, reads_hooks=variant.has_backward, reads_gradients=adds_gradients
    )
    variant.identities = {}  # the tensors that code may compare an argument with by identity, with labels
    if reads.has_identities:
        variant.identities = {id(at.value): f"'{at.label}'" for at in reads.tensors}
        variant.identities |= {id(key): label for key, label in reads.keys}
    made = {one.place for one in variant.stored}
    reads.values = [at for at in reads.values if not _is_new_gradient(at, made)]
    reads.tensors = [at for at in reads.tensors if place_id(at.container, at.key) not in made]
    for one in variant.stored:
        one.needs_same = reads.has_identities
    variant.wrappers = list({id(at.value): at for at in reads.tensors if is_wrapper(at.value)}.values())
    # Tensors that no operator takes, but whose sizes, say, the code can read. A recording compares the others.
    used = [*variant.reads, *(variant.before.reads if variant.before is not None else ())]
    known = {(id(container), key) for container, key in used}
    tensors = [at for at in reads.tensors if (id(at.container), at.key) not in known]
    plain = [at for at in tensors if is_plain(at.value)]
    same = [at for at in tensors if reads.has_identities or not is_plain(at.value) or at.value.__dict__]
    places = [(name, HostContents(name.container, name.key)) for name in variant.host_names]
    on_host = [Read(contents, "", f"the values of {name.label}", contents[""]) for name, contents in places]
    variant.guards = GuardSet(reads, [*variant.outside, *same, *on_host], plain)
    return reads


def _is_new_gradient(read: Read, made: set[tuple[int, Any]]) -> bool:
    """Whether a value says that a gradient is missing which the call makes: the variant compares what was before."""
    return isinstance(read.container, IsGradientMissing) and (id(read.container.tensor), "grad") in made


def _hidden_tensor(operators: Mapping[CodeType, FunctionType]) -> Finding | None:
    """A tensor that the Python code of an operator can read besides its arguments: nothing sees it use one."""
    for code, function in operators.items():
        if code.co_freevars:
            what = f"'{code.co_freevars[0]}' of {code.co_qualname}"
        elif tensors := find_reads([(code.co_qualname, function)], set(operators)).tensors:
            what = f"'{tensors[0].label}' in {code.co_qualname}"
        else:
            continue
        return Finding(Reason.HIDDEN_TENSOR, what, Place(code, 0))
    return None


def _hidden_operators(functions: Iterable[CodeType]) -> Finding | None:
    """Code that switches dispatch modes off, so that nothing sees the operators that it calls."""
    code = next((code for code in functions if not _HIDING.isdisjoint(code.co_names)), None)
    return None if code is None else Finding(Reason.HIDDEN_TENSOR, f"operators of {code.co_qualname}", Place(code, 0))


def _wrapped(variant: Variant) -> Finding | None:
    """A tensor whose class calls operators itself, and whose gradient a replay does not make."""
    tensors = variant.wrappers
    if variant.mode == "forward":
        needing = (at for at in tensors if at.value.requires_grad and not at.value.is_leaf)
        if (found := next(needing, None)) is not None:
            return Finding(Reason.ODD_TENSOR, f"'{found.label}' ({type(found.value).__name__})", variant.function.place)
    compared = {id(at.value) for at in tensors}
    owned = (one for one in variant.stored if one.owner is not None and is_wrapper(one.owner))
    unknown = next((one for one in owned if id(one.owner) not in compared), None)
    return None if unknown is None else Finding(Reason.NEW_GRADIENT, f"'{unknown.label}'", variant.function.place)


def _unreached(variant: Variant, reads: Reads) -> Finding | None:
    """An attribute that a call sets, of an object that is not compared: another one in its place would get nothing."""
    reached = {id(held) for held, _ in reads.sizes} | {id(held) for _, held, _ in reads.attributes}
    reached |= {id(at.container) for at in (*reads.values, *reads.tensors)}
    attributes = (one for one in variant.stored if one.owner is None)
    unknown = next((one for one in attributes if id(one.container) not in reached), None)
    return None if unknown is None else Finding(Reason.ESCAPED_TENSOR, f"'{unknown.label}'", variant.function.place)


def _unguarded(variant: Variant) -> Finding | None:
    """A value that cannot be compared before a replay."""
    what = variant.guards.unguarded if variant.guards is not None else None
    return None if what is None else Finding(Reason.UNGUARDED, what, variant.function.place)
