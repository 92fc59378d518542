"""Places and stacks."""

import copy
import sys
import types

import pytest
import torch
import typing_extensions

from cudalens.device import stacks
from cudalens.sanitizer.live.memory import region_of


def here():
    return stacks.place(2)


def test_the_same_point_is_the_same_object():
    places = [here() for _ in range(3)] + [here()]
    assert places[0] is places[1] is places[2]
    assert places[3] is not places[0]
    assert places[0].function.endswith("<listcomp>") or places[0].function.startswith("test_")


def test_a_place_has_its_line():
    place = stacks.place(1)
    assert (place.filename, place.source) == (__file__, "place = stacks.place(1)")
    assert str(place) == f"{__file__}:{place.line}"


def test_torchs_own_frames_are_passed_by():
    found = []

    class Probe(torch.nn.Module):
        def forward(self, x):
            return self.inner(x)

        @staticmethod
        def inner(x):
            found.append(torch.utils._pytree.tree_map(lambda _: stacks.place(2), [x])[0])
            return x

    Probe()(1)
    assert found[0].function.endswith("inner")


class Copied:
    """Reports from where it is copied."""

    def __deepcopy__(self, memo):
        return stacks.place(2)


def test_wrappers_of_functions_are_passed_by():
    @typing_extensions.deprecated("in this test")
    def old():
        return stacks.place(2)

    with pytest.warns(DeprecationWarning, match="in this test"):
        place = old()  # the wrapper calls it
    assert place.source.startswith("place = old()")
    place = copy.deepcopy([Copied()])[0]
    assert place.source.startswith("place = copy.deepcopy")


def test_a_lot_of_code_objects_do_not_mix(tmp_path):
    seen = set()
    for n in range(50):
        scope = {"place": stacks.place}
        exec(compile(f"\n\nfound = place(1)  # {n}", f"made-{n}.py", "exec"), scope)
        seen.add(str(scope["found"]))
    assert seen == {f"made-{n}.py:3" for n in range(50)}


def test_no_python_at_all():
    assert str(stacks.NOWHERE) == "(no Python code: torch's own thread)"
    assert stacks.NOWHERE.line == 0


def test_notebook_cells_are_named_by_their_number(monkeypatch):
    compiler = types.SimpleNamespace(_filename_map={"/tmp/ipykernel_1/99.py": 7})
    shell = types.SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    scope = {"place": stacks.place, "gather": stacks.gatherer()}
    code = "def f():\n    return place(1), gather(True, False, False)\nfound = f()"
    exec(compile(code, "/tmp/ipykernel_1/99.py", "exec"), scope)
    place, stack = scope["found"]
    assert str(place) == "In[7]:2"
    frames = stacks.frames_of(stack)
    assert [str(frame) for frame in frames] == ["In[7]:2 in f", "In[7]:3 in <module>"]  # not what ran the cell
    assert [str(frame) for frame in stacks.frames_of(stack, depth=1)] == ["In[7]:2 in f"]


def test_no_stack_is_no_frames():
    assert stacks.frames_of(None) == []


def test_regions_of_strided_tensors():
    cases = [torch.zeros(4, 6), torch.zeros(4, 6).t(), torch.zeros(4, 6)[:, 1:3], torch.zeros(4, 6)[::2, ::3]]
    cases += [
        torch.zeros(3, 1).expand(3, 5),
        torch.zeros(2, 3, 4).permute(1, 2, 0)[1:],
        torch.zeros(12).unfold(0, 4, 2),
    ]
    cases += [torch.zeros(()), torch.zeros(5)[2]]
    for tensor in cases:
        region = region_of(1000, tuple(tensor.shape), tensor.stride(), 4)
        indices = torch.zeros(tensor.untyped_storage().nbytes() // 4 - tensor.storage_offset(), dtype=torch.long)
        offsets = torch.arange(len(indices)).as_strided(tensor.shape, tensor.stride())
        expected = {1000 + 4 * int(o) + k for o in offsets.flatten() for k in range(4)}
        touched = {region.start}
        for count, stride in zip(region.shape, region.strides, strict=True):
            touched = {t + n * stride for t in touched for n in range(count)}
        assert {t + k for t in touched for k in range(region.run)} == expected
    assert region_of(1000, (3, 0), (1, 1), 4) is None
    assert region_of(1000, (4, 6), (6, 1), 4).shape == ()
