"""Gradients of some of an op's arguments: kernels are told which ones are wanted, and leave the others out."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import numbers
from ops.util import check

GRID, VOLUME = numbers(1, 3, 3, 2, seed=5).tanh(), numbers(1, 2, 3, 3, 3, seed=5).tanh()
CHANNELS = (numbers(4, seed=1), numbers(4, seed=2))
CASES = {
    "conv2d": (F.conv2d, numbers(2, 3, 6, 6), numbers(4, 3, 3, 3, seed=1), numbers(4, seed=2)),
    "conv_transpose2d": (
        F.conv_transpose2d,
        numbers(2, 3, 4, 4),
        numbers(3, 4, 3, 3, seed=1, scale=0.3),
        numbers(4, seed=2),
    ),
    "linear": (F.linear, numbers(3, 5), numbers(4, 5, seed=1), numbers(4, seed=2)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), numbers(3, 5), numbers(5, seed=1), numbers(5, seed=2)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w), numbers(3, 5), numbers(5, seed=1)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), numbers(3, 4, 5), *CHANNELS),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), numbers(3, 4, 5), *CHANNELS),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), numbers(3, 4, 5), *CHANNELS),
    "batch_norm, evaluated": (
        lambda x, w, b: F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b),
        numbers(3, 4, 5),
        *CHANNELS,
    ),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=True), numbers(1, 2, 4, 4), GRID),
    "grid_sample, 3d": (lambda x, g: F.grid_sample(x, g, align_corners=True), numbers(1, 2, 3, 4, 4), VOLUME),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_some_arguments(name):
    f, *arguments = CASES[name]
    places = range(len(arguments))
    for wanted in itertools.chain.from_iterable(itertools.combinations(places, n) for n in places if n):

        def gradients(*given, wanted=wanted):
            leaves = [t.detach().clone().requires_grad_(i in wanted) for i, t in enumerate(given)]
            f(*leaves).square().sum().backward()
            return [leaves[i].grad for i in wanted]

        check(gradients, *arguments)
