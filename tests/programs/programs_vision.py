"""Programs of timm, torchvision, kornia and monai."""

from __future__ import annotations

import kornia
import monai
import timm
import timm.utils
import torch
import torchvision
from program import AUTOCAST, Programs, batches, inference_step, training_step
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from torchvision.transforms import v2

PROGRAMS = Programs()


@PROGRAMS.add
def timm_resnet_forward(device):
    model = timm.create_model("test_resnet", num_classes=3).eval().to(device)
    return inference_step(model), batches(device, 2, 3, 32, 32)


@PROGRAMS.add
def timm_vit_training(device):
    model = timm.create_model("test_vit", num_classes=3, img_size=32).to(device)
    labels, loss = torch.tensor([0, 2]).to(device), LabelSmoothingCrossEntropy()
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    return training_step(model, lambda x: loss(model(x), labels), optimizer), batches(device, 2, 3, 32, 32)


@PROGRAMS.add(condition=AUTOCAST)
def timm_convnext_autocast(device):
    model = timm.create_model("test_convnext", num_classes=3).to(device)

    def loss(x):
        with torch.autocast(device, dtype=torch.bfloat16):
            return model(x).float().square().mean()

    return training_step(model, loss), batches(device, 2, 3, 32, 32)


@PROGRAMS.add
def timm_average_of_weights(device):
    model = timm.create_model("test_efficientnet", num_classes=3).to(device)
    average = timm.utils.ModelEmaV3(model, decay=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = training_step(model, lambda x: model(x).square().mean(), optimizer)

    def step(x):
        return train(x), average.update(model), [value.clone() for value in average.module.state_dict().values()]

    return step, batches(device, 2, 3, 32, 32)


@PROGRAMS.add
def torchvision_transforms(device):
    transform = v2.Compose([v2.Resize(12), v2.CenterCrop(8), v2.Normalize([0.5] * 3, [0.2] * 3)])
    return transform, batches(device, 2, 3, 16, 16)


@PROGRAMS.add
def torchvision_mobilenet_training(device):
    model = torchvision.models.mobilenet_v3_small(num_classes=3).to(device, memory_format=torch.channels_last)
    labels = torch.tensor([0, 2]).to(device)
    loss = torch.nn.CrossEntropyLoss()
    model.eval()  # without dropout: its numbers would be drawn on the device
    return training_step(model, lambda x: loss(model(x), labels)), batches(device, 2, 3, 32, 32)


@PROGRAMS.add
def kornia_filters(device):
    def filters(x):
        x = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
        return kornia.color.rgb_to_hsv(x.sigmoid()), kornia.filters.sobel(x), kornia.geometry.rotate(x, x[:, 0, 0, 0])

    return filters, batches(device, 2, 3, 8, 8)


@PROGRAMS.add
def monai_unet_training(device):
    model = monai.networks.nets.UNet(2, 1, 2, channels=(4, 8), strides=(2,)).to(device)
    target = torch.randint(2, (2, 1, 8, 8)).to(device)
    loss = monai.losses.DiceLoss(to_onehot_y=True, softmax=True)
    return training_step(model, lambda x: loss(model(x), target)), batches(device, 2, 1, 8, 8)


@PROGRAMS.add
def monai_sliding_window(device):
    model = monai.networks.nets.UNet(2, 1, 2, channels=(4, 8), strides=(2,)).eval().to(device)
    infer = monai.inferers.SlidingWindowInferer(roi_size=(8, 8), overlap=0.5)
    return inference_step(lambda x: infer(x, model)), batches(device, 1, 1, 12, 12)
