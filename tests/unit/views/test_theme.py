"""The palette: text can be read on every block, and colour-blind readers can distinguish the groups."""

from itertools import combinations

import numpy as np
import pytest

from cudalens.views import assets

GROUPS = [group["key"] for group in assets.theme()["groups"]]

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
MACHADO = {
    "none": [1, 0, 0, 0, 1, 0, 0, 0, 1],
    "protan": [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    "deutan": [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881],
    "tritan": [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900],
}
BLINDNESS = {name: np.reshape(matrix, (3, 3)) for name, matrix in MACHADO.items()}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def as_lab(color, blindness):
    srgb = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(BLINDNESS[blindness] @ linear, 0, 1)
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ seen / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_groups_can_be_distinguished(blindness):
    colors = {group["key"]: as_lab(group["color"], blindness) for group in assets.theme()["groups"]}
    close = [(a, b) for a, b in combinations(colors, 2) if np.linalg.norm(colors[a] - colors[b]) < 10]
    assert close == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_has_contrast_on_every_block(mode):
    for group in assets.theme()["groups"]:
        for toward, share in assets.theme()[mode]["shades"]:
            fill = assets.mixed(group["color"], toward, share)
            assert assets.contrast(fill, assets.ink_on(fill)) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_have_contrast_on_the_background(mode):
    colors = assets.theme()[mode]
    for ink, ground in [("text", "bg"), ("muted", "bg"), ("text", "gutter"), ("muted", "gutter"), ("tipText", "tip")]:
        assert assets.contrast(colors[ink], colors[ground]) >= 4.5
    assert assets.contrast(colors["accent"], colors["bg"]) >= 3, "the focus ring"


def test_groups_follow_category_and_name():
    assert assets.group_of("kernel", "ncclDevKernel_AllGather") == "comm"
    assert assets.group_of("cpu_op", "nccl:all_reduce") == "op"
    assert assets.group_of("no such category") == "other"
    assert assets.color_of("cpu_op", "aten::mm") == assets.color_of("cpu_op", "aten::mm")
    assert len({assets.color_of("cpu_op", f"op{k}") for k in range(50)}) == len(assets.theme()["light"]["shades"])
