"""Error bands of predicted times: their laws, and published times of whole models inside them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cudalens
import cudalens.virtual
from cudalens import virtual
from cudalens.frames import RunInfo
from cudalens.frames.info import BAND_KEY
from cudalens.gpus.constants import bands
from cudalens.gpus.predict import family_bounds, time_band
from cudalens.gpus.registry import SPECS
from cudalens.virtual.fit.runs import Kernels

families = st.sampled_from([*bands(), "other"])
kernels = st.lists(st.tuples(families, st.integers(1, 10**9)), min_size=1, max_size=8)
specs = st.sampled_from(sorted(SPECS.values(), key=lambda spec: spec.key))


@given(specs, kernels)
def test_a_band_contains_the_predicted_time_and_does_not_depend_on_the_order(spec, works):
    band = time_band(spec, works)
    assert 0 < band.low < 1 < band.high
    assert 0 <= band.unmeasured_share <= 1
    again = time_band(spec, works[::-1])
    assert again == pytest.approx(band)


@given(specs, kernels, st.integers(2, 50))
def test_many_kernels_of_a_family_do_not_make_a_band_narrower(spec, works, copies):
    assert time_band(spec, works * copies) == pytest.approx(time_band(spec, works))


def test_kernels_without_measurements_have_a_band_wider_than_a_factor_of_two():
    band = time_band(SPECS["h100"], [("other", 1000)])
    assert band.is_wide
    assert band.unmeasured_share == 1
    assert not time_band(SPECS["h100"], [("matrix_half", 100_000)]).is_wide


def test_constants_of_another_gpu_widen_the_band():
    own, other = (family_bounds(SPECS[gpu], "matrix_single", is_short=False) for gpu in ("v100", "a10"))
    unmeasured = family_bounds(SPECS["a10"], "other", is_short=False)
    assert unmeasured.low < other.low < own.low <= 0 <= own.high < other.high < unmeasured.high


def test_short_kernels_have_a_band_of_their_own():
    # Replays of small products take 0.6 of their predicted times: their operands are in the cache.
    short, long = (time_band(SPECS["h100"], [("matrix_half", duration_ns)]) for duration_ns in (5_000, 500_000))
    assert short.low < long.low


def test_families_of_a_gpu_that_was_measured_by_whole_models_have_one_error():
    one = time_band(SPECS["rtx4090"], [("matrix_half", 50_000)])
    two = time_band(SPECS["rtx4090"], [("matrix_half", 50_000), ("pointwise", 50_000)])
    assert two == pytest.approx(one)


# -- published times of ResNet-50 ------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """The block of ResNet-50 v1.5: the stride is that of the 3 x 3 convolution."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.convolutions = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu_(self.convolutions(x).add_(self.shortcut(x)))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(count):
            layers.append(Bottleneck(inputs, width, 2 if index == 0 and width > 64 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def measure(gpu, batch, *, is_half, is_training):
    """Predicted images a second, and the band of the time."""
    layout = torch.channels_last if is_half else torch.contiguous_format
    with cudalens.virtual.device(gpu, values=False) as on:
        model = resnet50().cuda().to(memory_format=layout).train(is_training)
        images = torch.empty(batch, 3, 224, 224, device="cuda").contiguous(memory_format=layout)
        labels = torch.zeros(batch, dtype=torch.int64, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step():
            with torch.set_grad_enabled(is_training), torch.autocast("cuda", torch.float16, enabled=is_half):
                scores = model(images)
            if is_training:
                nn.functional.cross_entropy(scores, labels).backward()
                optimizer.step()
                optimizer.zero_grad()

        step()
        torch.cuda.synchronize()
        on.gpus.machine.recorder = recorded = Kernels()
        began = on.gpus.machine.now_ns
        step()
        torch.cuda.synchronize()
        on.gpus.machine.recorder = None
        step_ns = on.gpus.machine.now_ns - began
    return batch / step_ns * 1e9, time_band(SPECS[gpu], recorded.works)


#: Images a second of NVIDIA's DeepLearningExamples (ResNet50 v1.5 for PyTorch, container 21.03, one GPU).
PUBLISHED = [
    ("a100-80gb", 256, True, True, 2470),
    ("a100-80gb", 256, False, True, 938),
    ("v100", 256, True, True, 1156),
    ("v100", 128, False, True, 356),
    ("v100", 256, True, False, 3382),
    ("v100", 256, False, False, 1261),
    ("t4", 256, True, False, 1198),
]


@pytest.mark.parametrize(("gpu", "batch", "is_half", "is_training", "published"), PUBLISHED)
def test_published_times_of_resnet_50_are_near_the_predicted_ones(gpu, batch, is_half, is_training, published):
    predicted, band = measure(gpu, batch, is_half=is_half, is_training=is_training)
    assert published == pytest.approx(predicted, rel=0.3)
    assert 1 / band.high <= published / predicted <= 1 / band.low


def test_a_run_on_a_virtual_device_says_the_band_of_its_kernels():
    with virtual.device("h100"):
        x = torch.ones(512, 512, device="cuda", dtype=torch.float16)
        with cudalens.profile("products") as run:
            x @ x
    low, high, unmeasured = run.trace.info.kernel_time_band
    expected = time_band(SPECS["h100"], [("matrix_half", 1)])
    assert (low, high, unmeasured) == pytest.approx(expected)
    assert f"modelled kernel times {expected.words}" in str(run.trace.summary()).splitlines()[0]
    assert f"80 % band of the kernels: {expected.words}" in str(run.trace.info.trust)


@pytest.mark.parametrize(
    "text", ["", "[]", "[1, 2]", '["a", 2, 3]', "[0.5, 0.9, 0.1]", "[-1, 2, 0]", "{", "[1, 1e99, 0]"]
)
def test_a_band_of_a_file_that_is_none_is_not_shown(text):
    assert RunInfo(name="x", source="virtual:h100", extra={BAND_KEY: text}).kernel_time_band is None
