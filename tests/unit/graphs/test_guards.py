"""Guards: which Python values a function reads, and whether they changed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from cudalens.graphs.guards.code_names import names_of
from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.guards.outside import CallWatch
from cudalens.graphs.guards.reads import find_reads


def guards_of(roots: list[tuple[str, Any]]) -> GuardSet:
    return GuardSet(find_reads(roots))


def test_names_of_nested_functions_are_names_of_the_outer_one() -> None:
    def outer(x: Any) -> Any:
        return [len(y.inner) for y in x.items]

    names = names_of(outer.__code__)
    assert {"len"} <= names.globals
    assert {"items", "inner"} <= names.attributes


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (1.5, float("1.5"), True),
        (float("nan"), float("nan"), True),
        ("ab", "".join(["a", "b"]), True),
        ((1, "x"), (1, "x"), True),
        ((1, "x"), (True, "x"), False),
        (None, 0, False),
        (torch.float32, torch.float16, False),
    ],
)
def test_plain_values_are_compared_with_their_types(before: Any, after: Any, holds: bool) -> None:
    held = {"value": before}
    guards = guards_of([("", lambda: held["value"])])
    held["value"] = after
    assert guards.hold() is holds
    assert (guards.difference() is None) is holds


def test_objects_are_compared_by_identity() -> None:
    held = [object()]
    guards = guards_of([("", lambda: held[0])])
    assert guards.hold()
    held[0] = object()
    assert not guards.hold()
    assert guards.difference() == "held[0]: another object → another object"


def test_a_name_that_is_gone_does_not_hold() -> None:
    held = {"a": 1}
    guards = guards_of([("", lambda: held["a"])])
    del held["a"]
    assert not guards.hold()
    assert guards.difference() == "held['a'] does not exist any more"


def test_what_no_code_names_is_not_looked_at() -> None:
    class Box:
        def __init__(self) -> None:
            self.read, self.unread = 1, 1

    box = Box()
    guards = guards_of([("", lambda: box.read)])
    box.unread = 2
    assert guards.hold()
    box.read = 2
    assert not guards.hold()


def test_a_hook_elsewhere_changes_nothing() -> None:
    module, other = nn.Linear(2, 2), nn.Linear(2, 2)
    guards = guards_of([("", module)])
    other.register_forward_hook(lambda *args: None)
    assert guards.hold()
    handle = module.register_forward_pre_hook(lambda *args: None)
    assert not guards.hold()
    assert guards.difference() == "hooks of the module: 0 → 1"
    handle.remove()
    assert guards.hold()
    module.register_full_backward_hook(lambda *args: None)
    assert not guards.hold()


def test_endless_structures_are_incomplete() -> None:
    chain: list[Any] = []
    end = chain
    for _ in range(30_000):
        end.append([])
        end = end[0]
    assert guards_of([("", lambda: chain)]).unguarded


def test_code_that_a_first_call_imports_is_not_what_later_calls_run(tmp_path, monkeypatch) -> None:
    library = "def build():\n    return 3\n\ndef scale(x):\n    return x * N\n\nN = build()\n"
    (tmp_path / "a_library.py").write_text(library)
    monkeypatch.syspath_prepend(tmp_path)

    def step(x: Any) -> Any:
        import a_library

        return a_library.scale(x)

    with CallWatch() as calls:
        assert step(2) == 6
    assert [name for name, _ in calls.executed() if "test_" not in name] == ["scale"]
    assert {name.rpartition(".")[2] for name, _ in calls.executed()} >= {"step", "scale"}


class LazyPackage(ModuleType):
    """A package whose names are imported when they are read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__file__ = f"/usr/lib/python3/site-packages/{name}/__init__.py"
        self._places = {f"name{n}": "module" for n in range(2000)}
        self.scale = 2.0


def test_a_table_of_lazy_imports_is_compared_by_identity() -> None:
    package = LazyPackage("cudalens_test_lazy")

    def step(x: Any) -> Any:
        return x * package.scale if "name1" in package._places else x

    guards = guards_of([("", step)])
    assert guards.unguarded is None
    assert guards.hold()
    package.scale = 3.0
    assert guards.difference() == "package.scale: 2.0 → 3.0"
    package.scale, package._places = 2.0, {}
    assert not guards.hold()


def test_a_call_is_attributed_to_the_function_of_a_maker_that_ran() -> None:
    def make(k: int) -> Any:
        def scale(x: int) -> int:
            if x < 0:
                raise ValueError(x)
            return x * k

        return scale

    first, second = make(2), make(2)
    calls = CallWatch()
    calls.watched = frozenset({first.__code__})
    with calls:
        assert second(1) + second(2) == 6
        with pytest.raises(ValueError, match="-1"):
            first(-1)
    assert calls.called == [second, second, first]
