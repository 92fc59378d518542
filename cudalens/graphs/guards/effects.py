"""Find effects of a function's Python code in a warm-up; a replay runs no Python code and would omit them.

The values that the function can reach are compared before and after the call, so that an effect that stores the same
value again counts as none. Calls of clocks, random numbers, files and output are observed (`CallWatch`).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any, Final

import torch
from torch.nn.parameter import is_lazy

from cudalens.device.stacks import Place
from cudalens.graphs.arguments import Leaves
from cudalens.graphs.guards.ambient import changed_setting, settings
from cudalens.graphs.guards.code_names import attributes_of_tensors, names_of, takes_identity
from cudalens.graphs.guards.files import is_of_program
from cudalens.graphs.guards.found import Read, Reads
from cudalens.graphs.guards.guard_set import are_equal_keys, first_change
from cudalens.graphs.guards.lookups import IsGradientMissing, NumpyState, Version, attributes_in, place_id
from cudalens.graphs.guards.outside import CallWatch
from cudalens.graphs.guards.reads import HOOK_TABLES, find_reads
from cudalens.graphs.guards.restoring import ContainerCopies, restore_values
from cudalens.graphs.liveness import storage_id
from cudalens.graphs.reasons import Finding, Reason
from cudalens.graphs.structure import containers_in


class Snapshot:
    """The Python values that a function can reach, as they are now: those that its code has no name for, too.

    Args:
        roots: What the function can reach, by label.
        tensors: Tensors besides, by label.
        can_restore: Whether to copy containers, for `restore`.
    """

    def __init__(
        self,
        roots: Iterable[tuple[str, Any]],
        tensors: Iterable[tuple[str, torch.Tensor]] = (),
        *,
        can_restore: bool = False,
    ) -> None:
        roots = list(roots)
        reads = find_reads(roots, reads_hooks=True, reads_gradients=True, takes_all=True)
        if not reads.is_complete:  # more than can be compared
            reads = find_reads(roots, reads_hooks=True, reads_gradients=True)
        values = [read for read in reads.values if not isinstance(read.container, Version)]  # a replay counts writes
        module = sys.modules.get("numpy.random")
        if module is not None:  # the state of NumPy's global generator
            state = NumpyState(module.mtrand._rand._bit_generator)
            values.append(Read(state, "", "the state of numpy.random", state[""]))
        self._values = values
        self._stored: set[tuple[int, Any]] = set()
        self._sizes = [(held, label, len(held)) for held, label in reads.sizes]
        self._copies = ContainerCopies([held for held, _ in reads.sizes] if can_restore else [])
        self._orders = [(held, label, list(held)) for held, label in reads.orders]
        self._tensors = reads.tensors
        every = [*tensors, *((read.label, read.value) for read in reads.tensors)]
        self._forms = [(label, tensor, _form_of(tensor)) for label, tensor in every]
        self._settings, self._is_grad_enabled = settings(), torch.is_grad_enabled()

    def values(self) -> list[Read]:
        """The values."""
        return self._values

    def identities(self) -> set[int]:
        """The identities of the values."""
        return {id(read.value) for read in self._values}

    def tensors(self) -> list[torch.Tensor]:
        """The tensors that the function can reach."""
        return [read.value for read in self._tensors]

    def tensors_by_place(self) -> dict[tuple[int, Any], torch.Tensor]:
        """The same by their places."""
        return {place_id(read.container, read.key): read.value for read in self._tensors}

    def gradients_missing(self) -> dict[int, tuple[torch.Tensor, bool]]:
        """Each tensor and whether its ``.grad`` was None, by the identity of the tensor."""
        found = ((read.container, read.value) for read in self._values)
        return {id(at.tensor): (at.tensor, value) for at, value in found if isinstance(at, IsGradientMissing)}

    def leave_out(self, places: Iterable[tuple[int, Any]]) -> None:
        """A replay stores a tensor in these places as well: that another one is there is not a difference."""
        self._stored = set(places)

    def _is_stored(self, read: Read) -> bool:
        if isinstance(read.container, IsGradientMissing):
            return (id(read.container.tensor), "grad") in self._stored
        return place_id(read.container, read.key) in self._stored

    def difference(self) -> str | None:
        """The first value that is not as it was, in words; None if there is none."""
        return (
            first_change(read for read in self._values if not self._is_stored(read))
            or self._other_size()
            or self._other_order()
            or self._other_tensor()
            or changed_setting(self._settings, settings())
            or self._other_mode()
        )

    def restore(self) -> str | None:
        """Store the values again where a call that did not reach its end left others.

        Returns:
            The first value that could not be restored, in words; None if all are as they were.
        """
        self._copies.restore()
        restore_values([*self._values, *self._tensors])
        torch.set_grad_enabled(self._is_grad_enabled)
        return self.difference()

    def _other_mode(self) -> str | None:
        is_on = torch.is_grad_enabled()
        if is_on == self._is_grad_enabled:
            return None
        return "the gradient mode: off → on" if is_on else "the gradient mode: on → off"

    def _other_size(self) -> str | None:
        found = (f"{label}: {size} → {len(held)}" for held, label, size in self._sizes if len(held) != size)
        return next(found, None)

    def _other_order(self) -> str | None:
        return next((label for held, label, before in self._orders if not are_equal_keys(held, before)), None)

    def _other_tensor(self) -> str | None:
        changed = first_change(read for read in self._tensors if not self._is_stored(read))
        if changed is not None:
            return changed
        for label, tensor, before in self._forms:
            after = _form_of(tensor)
            other = next((name for name in after if after[name] != before[name]), None)
            if other == "attributes" and self._without_stored(tensor, after) == self._without_stored(tensor, before):
                other = None
            if other is not None:
                return f"the {other} of {label}"
        return None

    def _without_stored(self, tensor: torch.Tensor, form: Mapping[str, Any]) -> dict[str, Any]:
        """A form without the attributes that a replay stores."""
        held = id(attributes_in(tensor))
        attributes = {name: value for name, value in form["attributes"].items() if (held, name) not in self._stored}
        return {**form, "attributes": attributes}


class Effects:
    """What a call changes besides its results; enter it around the call.

    Args:
        roots: What the function can reach, by label.
        leaves: The arguments, flat.
        spec: Their structure.
        labels: Their names.

    Attributes:
        calls: The observed calls.
        snapshot: The Python values before the call.
    """

    def __init__(self, roots: Iterable[tuple[str, Any]], leaves: list[Any], spec: Any, labels: Sequence[str]) -> None:
        self._leaves, self._spec, self._labels = leaves, spec, labels
        self._given = getattr(leaves, "given", None)
        arguments = zip(labels, leaves, strict=True)
        tensors = [(f"'{label}'", leaf) for label, leaf in arguments if isinstance(leaf, torch.Tensor)]
        self.snapshot = Snapshot(roots, tensors)
        self._random_state = torch.get_rng_state()
        self.calls = CallWatch()

    def __enter__(self) -> Effects:
        self.calls.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.calls.__exit__(*error)

    def finding(self, after: Reads, default: Place | None) -> Finding | None:
        """Why a replay would differ from the call; None if it would not.

        Args:
            after: What the function can read after the call.
            default: The place of the function, where no line is known.
        """
        what = self.snapshot.difference() or self._other_argument() or self._kept_argument(after)
        if what is None:
            if (changed := first_change(self.calls.values)) is not None:
                return Finding(Reason.CHANGED_READ, changed, default)
            if self.calls.findings:
                return self.calls.findings[0]
            return self._seeded(default) or self._drawn(default) or self._read_of_argument() or self._read_modules()
        return Finding(Reason.SIDE_EFFECT, what, _line_of(what, self.calls.functions) or default)

    def returned_container(self, containers: Iterable[Any], default: Place | None) -> Finding | None:
        """A list or dict that a call returns and that existed before: a replay would return another one.

        Args:
            containers: The lists and dicts in the result.
            default: The place of the function.
        """
        known = {id(part) for part in containers_in(self._given)} | self.snapshot.identities()
        found = next((held for held in containers if id(held) in known), None)
        if found is None:
            return None
        return Finding(Reason.OPAQUE_RESULT, f"a {type(found).__name__} that exists before the call", default)

    def hooked_argument(self) -> Finding | None:
        """An argument with hooks, which a backward inside the call runs. The copy in a graph has none."""
        for label, leaf in zip(self._labels, self._leaves, strict=True):
            if isinstance(leaf, torch.Tensor) and any(getattr(leaf, table, None) for table in HOOK_TABLES):
                return Finding(Reason.ODD_TENSOR, f"'{label}' (with hooks, which a backward calls)")
        return None

    def _seeded(self, default: Place | None) -> Finding | None:
        """A seed of NumPy's global generator, which leaves equal states after every call and calls no hook.

        A value of the program may be a function that seeds. Code that ran reads one of NumPy's module by its name.
        """
        module = sys.modules.get("numpy.random")
        seeds: set[int] = set()  # the functions that seed, by identity
        own: list[dict[str, Any]] = []  # the modules that have them
        if module is not None:
            seeds = {id(getattr(module, name)) for name in _SEEDS if hasattr(module, name)}
            own = [vars(module), vars(module.mtrand)]
        held = [read for read in self.snapshot.values() if id(read.value) in seeds]
        if any(all(read.container is not module for module in own) for read in held):
            return Finding(Reason.OUTSIDE_CALL, f"seed() {_IN_THE_CODE}", default)
        for code, function in self.calls.functions.items():
            used = [function.__globals__.get(name) for name in code.co_names]
            modules = [value.__name__ for value in used if isinstance(value, ModuleType)]
            is_of_numpy = any("random" in name for name in (*code.co_names, *modules))
            if is_of_numpy and names_of(code).is_dynamic:
                return Finding(Reason.OUTSIDE_CALL, f"seed() {_IN_THE_CODE}", Place(code, 0))
            for at in dis.get_instructions(code):
                is_read = at.opname.startswith(("LOAD_", "IMPORT_FROM")) and at.argval in _SEEDS
                if is_read and (is_of_numpy or held):
                    return Finding(Reason.OUTSIDE_CALL, f"{at.argval}() {_IN_THE_CODE}", Place(code, at.offset))
        return None

    def _drawn(self, default: Place | None) -> Finding | None:
        """Random numbers on the CPU, which the Python code of an operator can draw unseen."""
        if torch.equal(self._random_state, torch.get_rng_state()):
            return None
        return Finding(Reason.OUTSIDE_CALL, "random numbers of the CPU", default)

    def _read_of_argument(self) -> Finding | None:
        """What the program's code reads of an argument that a copy of it in a graph does not share."""
        arguments = zip(self._labels, self._leaves, strict=True)
        tensors = [(label, leaf) for label, leaf in arguments if isinstance(leaf, torch.Tensor)]
        copied = [(label, leaf) for label, leaf in tensors if leaf.is_cuda and not isinstance(leaf, torch.nn.Parameter)]
        storages = {storage_id(leaf): label for label, leaf in copied if leaf.layout is torch.strided}
        for storage, method, place in self.calls.storage_reads:
            if storage in storages:
                return Finding(Reason.UNGUARDED, f"{method} of '{storages[storage]}'", place)
        for code in filter(lambda code: is_of_program(code.co_filename), self.calls.functions):
            if copied and takes_identity(code):
                return Finding(Reason.UNGUARDED, f"id() with '{copied[0][0]}'", _line_of("id", [code]))
            names = attributes_of_tensors(code)
            for label, leaf in copied:
                has_gradient = leaf.requires_grad and leaf.is_leaf
                if name := next((name for name in names if name != "grad" or has_gradient), None):
                    return Finding(Reason.UNGUARDED, f"{name} of '{label}'", _line_of(name, [code]))
        return None

    def _read_modules(self) -> Finding | None:
        """A module that the program's code looks up in `sys.modules`, which is not compared."""
        for code, function in self.calls.functions.items():
            is_named = "modules" in code.co_names and function.__globals__.get("sys") is sys
            if is_named and is_of_program(code.co_filename):
                return Finding(Reason.UNGUARDED, "sys.modules", _line_of("modules", [code]))
        return None

    def _other_argument(self) -> str | None:
        """A list or dict among the arguments that the call changed."""
        changed = self._leaves.changed(self._spec) if isinstance(self._leaves, Leaves) else None
        return None if changed is None else f"the contents of '{self._labels[changed].partition('[')[0]}'"

    def _kept_argument(self, after: Reads) -> str | None:
        """An argument that the function stores: a recording would store the graph's copy of it."""
        given = {id(leaf) for leaf in self._leaves if isinstance(leaf, torch.Tensor)}
        given |= {id(part) for part in containers_in(self._given)}
        kept = (read for read in (*after.tensors, *after.values) if id(read.value) in given)
        found = next((read for read in kept if _is_stored(read.key, self.calls.functions)), None)
        return None if found is None else f"{found.label}, which keeps an argument"


_SEEDS: Final = ("seed", "set_state", "set_bit_generator")
#: NumPy's compiled functions call no hook: the code names one, in a branch that ran or in another.
_IN_THE_CODE: Final = "of NumPy's generator (it is in the code; whether a call reaches it is not known)"


def _form_of(tensor: torch.Tensor) -> dict[str, Any]:
    """What a function can change in place besides the elements, by name."""
    with torch._C.DisableTorchFunctionSubclass():
        held = {name: id(value) for name, value in (attributes_in(tensor) or {}).items()}
        kind: Any = type(tensor)
        if tensor.layout is not torch.strided or is_lazy(tensor):
            return dict.fromkeys(("shape", "memory", "need of a gradient", "hooks")) | {
                "class": kind,
                "attributes": held,
            }
        shape = tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype
        memory = storage_id(tensor)
        hooks = [*(tensor._backward_hooks or ()), *(getattr(tensor, "_post_accumulate_grad_hooks", None) or ())]
        return {
            "class": kind,
            "attributes": held,
            "shape": shape,
            "memory": memory,
            "need of a gradient": tensor.requires_grad,
            "hooks": hooks,
        }


_STORES: Final = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")


def _is_stored(key: Any, functions: Iterable[CodeType]) -> bool:
    """Whether code assigns to an attribute or variable of that name, or to an item of something."""
    return any(
        at.opname == "STORE_SUBSCR" or (at.opname in _STORES and at.argval == key)
        for code in functions
        for at in dis.get_instructions(code)
    )


def _line_of(what: str, functions: Iterable[CodeType]) -> Place | None:
    """The line that changes a value, by the last name in its label; the first that uses the name otherwise."""
    name = what.partition(":")[0].partition("[")[0].rpartition(" ")[2].rpartition(".")[2]
    for kinds in (_STORES, ("LOAD_",)):
        for code in functions:
            for at in dis.get_instructions(code):
                if at.argval == name and at.opname.startswith(kinds):
                    return Place(code, at.offset)
    return None
