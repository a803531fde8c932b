"""Arguments that CPU torch refuses are refused in its words."""

import pytest
import torch
import torch.nn.functional as F

FLOAT, OTHER = torch.float32, torch.float64


def same_error(fn):
    """`fn` of a device raises on tpu what it raises on the CPU."""
    with pytest.raises(Exception) as want:
        fn("cpu")
    with pytest.raises(type(want.value)) as got:
        fn("tpu")
    assert str(got.value).split("\n")[0] == str(want.value).split("\n")[0]


def ones(device, dtype, *sizes):
    return torch.ones(*sizes, dtype=dtype, device=device)


PRODUCTS = {
    "mm": lambda d, a, b: torch.mm(ones(d, a, 2, 3), ones(d, b, 3, 4)),
    "matmul": lambda d, a, b: ones(d, a, 2, 3) @ ones(d, b, 3, 4),
    "bmm": lambda d, a, b: torch.bmm(ones(d, a, 2, 2, 3), ones(d, b, 2, 3, 4)),
    "mv": lambda d, a, b: torch.mv(ones(d, a, 2, 3), ones(d, b, 3)),
    "dot": lambda d, a, b: torch.dot(ones(d, a, 3), ones(d, b, 3)),
    "addmm": lambda d, a, b: torch.addmm(ones(d, a, 2, 4), ones(d, a, 2, 3), ones(d, b, 3, 4)),
    "addmv": lambda d, a, b: torch.addmv(ones(d, a, 2), ones(d, a, 2, 3), ones(d, b, 3)),
    "baddbmm": lambda d, a, b: torch.baddbmm(ones(d, a, 2, 2, 4), ones(d, a, 2, 2, 3), ones(d, b, 2, 3, 4)),
    "addbmm": lambda d, a, b: torch.addbmm(ones(d, a, 2, 4), ones(d, a, 2, 2, 3), ones(d, b, 2, 3, 4)),
    "addbmm self": lambda d, a, b: torch.addbmm(ones(d, b, 2, 4), ones(d, a, 2, 2, 3), ones(d, a, 2, 3, 4)),
    "linear": lambda d, a, b: F.linear(ones(d, a, 2, 3), ones(d, b, 4, 3)),
    "linear bias": lambda d, a, b: F.linear(ones(d, a, 2, 3), ones(d, b, 4, 3), ones(d, b, 4)),
    "linear 3d": lambda d, a, b: F.linear(ones(d, a, 2, 2, 3), ones(d, b, 4, 3)),
    "einsum": lambda d, a, b: torch.einsum("bij,bjk->bik", ones(d, a, 2, 2, 3), ones(d, b, 2, 3, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("types", [(FLOAT, OTHER), (torch.float16, torch.bfloat16), (torch.int64, FLOAT)])
def test_factors_of_different_types(name, types):
    same_error(lambda device: PRODUCTS[name](device, *types))


def test_convolution_of_different_types():
    half, narrow = torch.float16, torch.bfloat16
    same_error(lambda d: F.conv2d(ones(d, half, 1, 2, 4, 4), ones(d, narrow, 3, 2, 3, 3)))


@pytest.mark.parametrize(
    ("classes", "number"), [([-1, 2], -1), ([-1, 3], 5), ([1, 7], 5), ([], -1), ([0], -3), ([0.5], 2)]
)
def test_one_hot(classes, number):
    same_error(
        lambda d: (
            F.one_hot(torch.tensor(classes, device=d, dtype=None if classes else torch.int64), number).sum().item()
        )
    )
