"""Results without values have the strides of results with values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens.virtual.shapes.operators import Shapes
from cudalens.virtual.shapes.reading import Defaults

CALLS = {
    "add": (torch.ops.aten.add.Tensor, (2,)),
    "sub": (torch.ops.aten.sub.Tensor, (2.5,)),
    "mul": (torch.ops.aten.mul.Tensor, (2.0,)),
    "mul.Scalar": (torch.ops.aten.mul.Scalar, (2.0,)),
    "div": (torch.ops.aten.div.Tensor, (2.0,)),
    "gt": (torch.ops.aten.gt.Scalar, (0,)),
    "fmod": (torch.ops.aten.fmod.Scalar, (3,)),
}


LAYOUTS = {
    "transposed and reshaped": lambda n, c, h, w: torch.ones(n, h * w, c).transpose(1, 2).reshape(n, c, h, w),
    "permuted": lambda n, c, h, w: torch.ones(n, h, w, c).permute(0, 3, 1, 2),
    "channels last": lambda n, c, h, w: torch.ones(n, c, h, w).to(memory_format=torch.channels_last),
    "contiguous": torch.ones,
    "part of a row": lambda n, c, h, w: torch.ones(n, c, h, w + 2)[..., :w],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
@given(st.tuples(*[st.integers(1, 3)] * 4))
def test_an_operator_of_a_tensor_and_a_number(name: str, layout: str, sizes: tuple[int, ...]) -> None:
    func, numbers = CALLS[name]
    tensor = LAYOUTS[layout](*sizes)
    expected = func(tensor, *numbers)
    found = Shapes(Defaults()).infer(func, (tensor, *numbers), {})
    assert (found.shape, found.stride(), found.dtype) == (expected.shape, expected.stride(), expected.dtype)
