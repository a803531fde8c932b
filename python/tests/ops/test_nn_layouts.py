"""Results lie in memory as CPU torch's do: channels last where it keeps them."""

import pytest
import torch
import torch.nn.functional as F
from util import check, on_tpu

LAST, LAST3 = torch.channels_last, torch.channels_last_3d
IMAGE = torch.randn(2, 4, 6, 6).contiguous(memory_format=LAST)
VOLUME = torch.randn(2, 4, 5, 6, 6).contiguous(memory_format=LAST3)
SIGNAL = torch.randn(2, 6, 4).permute(0, 2, 1)


def both(fn, x, *more):
    """Result and gradients, for incoming gradients of both layouts."""

    def run(x, *more):
        leaves = [t.detach().requires_grad_() for t in (x, *more)]
        out = fn(*leaves)
        ones = torch.ones_like(out, memory_format=torch.contiguous_format)
        grads = torch.autograd.grad(out, leaves, ones, retain_graph=True)
        last = {4: LAST, 5: LAST3}.get(out.dim(), torch.contiguous_format)
        return out, grads, torch.autograd.grad(out, leaves, ones.contiguous(memory_format=last))

    check(run, x, *more)


CONVOLUTIONS = {
    "plain": (F.conv2d, IMAGE, torch.randn(3, 4, 3, 3)),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), IMAGE, torch.randn(3, 4, 3, 3)),
    "dilated": (lambda x, w: F.conv2d(x, w, dilation=2), IMAGE, torch.randn(3, 4, 3, 3)),
    "bias": (F.conv2d, IMAGE, torch.randn(3, 4, 3, 3), torch.randn(3)),
    "kernel": (F.conv2d, IMAGE.contiguous(), torch.randn(3, 4, 3, 3).contiguous(memory_format=LAST)),
    "rows": (F.conv2d, IMAGE.contiguous(), torch.randn(3, 4, 3, 3)),
    "depthwise": (lambda x, w: F.conv2d(x, w, groups=4), IMAGE, torch.randn(4, 1, 3, 3)),
    "depthwise64": (lambda x, w: F.conv2d(x, w, groups=4), IMAGE.double(), torch.randn(4, 1, 3, 3).double()),
    "transposed": (F.conv_transpose2d, IMAGE, torch.randn(4, 3, 3, 3)),
    "complex": (F.conv2d, IMAGE.cfloat(), torch.randn(3, 4, 3, 3).cfloat()),
    "volume": (F.conv3d, VOLUME, torch.randn(3, 4, 2, 2, 2)),
    "volume64": (F.conv3d, VOLUME.double(), torch.randn(3, 4, 2, 2, 2).double()),
    "transposed volume": (F.conv_transpose3d, VOLUME, torch.randn(4, 3, 2, 2, 2)),
    "signal": (F.conv1d, SIGNAL, torch.randn(3, 4, 3)),
    "signal's kernel": (F.conv1d, SIGNAL, torch.randn(3, 3, 4).permute(0, 2, 1)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    both(*CONVOLUTIONS[name])


OTHERS = {
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 2),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 3),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x, 3),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "roll": lambda x: x.roll(1, 2),
    "glu": lambda x: F.glu(x, 1),
}


@pytest.mark.parametrize("layout", ["last", "rows"])
@pytest.mark.parametrize("name", OTHERS)
def test_others(name, layout):
    both(OTHERS[name], IMAGE if layout == "last" else IMAGE.contiguous())


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses(loss):
    both(lambda x, y: loss(x, y, reduction="none"), IMAGE, IMAGE.flip(2).contiguous())


def test_volumes():
    for fn in (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.max_pool3d(x, 2),
        lambda x: F.avg_pool3d(x, 2),
        lambda x: F.pad(x, (1,) * 6, mode="replicate"),
        lambda x: F.pad(x, (1,) * 6, mode="reflect"),
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
    ):
        both(fn, VOLUME)


def test_shuffles_of_all_types_and_no_pixels():
    for dtype in (torch.bool, torch.int8, torch.float16, torch.complex64):
        check(lambda x: F.pixel_shuffle(x, 2), (torch.arange(64).reshape(1, 8, 2, 4) % 3).to(dtype))
    assert F.pixel_unshuffle(torch.ones(0, 2, 3, 6, device="tpu"), 3).shape == (0, 18, 1, 2)
    check(lambda x: F.pixel_shuffle(x, 2), torch.randn(3, 1, 4, 2, 2))


def test_a_network_keeps_channels_last():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 6, 3),
        torch.nn.BatchNorm2d(6),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 2, 1),
    ).to(memory_format=LAST)
    there = net.to("tpu")(on_tpu(IMAGE))
    assert there.is_contiguous(memory_format=LAST)
