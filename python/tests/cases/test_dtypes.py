"""Dtypes: what mixed arguments promote to, and integers that wrap, divide and shift as on the CPU."""

import torch

from cases.util import raises, same, same_bits


@same
def test_scalars_do_not_promote_tensors_of_their_kind(dev):
    half, byte = torch.ones(2, dtype=torch.float16, device=dev), torch.ones(2, dtype=torch.uint8, device=dev)
    zero_dim = torch.tensor(2.5, dtype=torch.float64, device=dev)
    return half * 2.5, half + zero_dim, byte + 3, byte * 1.5, byte + zero_dim, 1 - byte, byte / 2, True + byte


@same
def test_result_type_of_pairs(dev):
    dtypes = [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ]
    tensors = [torch.ones(1, dtype=d, device=dev) for d in dtypes]
    return [(a * b).dtype for a in tensors for b in tensors]


@same
def test_in_place_keeps_the_dtype(dev):
    x = torch.tensor([1, 2], dtype=torch.int32, device=dev)
    y = torch.ones(2, dtype=torch.bfloat16, device=dev)
    y += torch.tensor([0.5, 1.5], dtype=torch.float64, device=dev)
    x *= torch.tensor([3, 4], dtype=torch.int64, device=dev)
    return x, y, raises(lambda: x.add_(0.5)), raises(lambda: x.div_(2)), raises(lambda: x.mul_(y))


@same
def test_division_of_integers(dev):
    a = torch.tensor([7, -7, 7, -7, 0], device=dev)
    b = torch.tensor([2, 2, -2, -2, 5], device=dev)
    small = torch.tensor([-128, 127], dtype=torch.int8, device=dev)
    return a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a / b, small // 3, small % 7


@same
def test_integers_wrap(dev):
    byte = torch.tensor([250, 5], dtype=torch.uint8, device=dev)
    small = torch.tensor([127, -128], dtype=torch.int8, device=dev)
    big = torch.tensor([2**63 - 1, -(2**63)], device=dev)
    return byte + 10, byte - 10, -byte, small + 1, small * 2, -small, small.abs(), big + 1, big - 1, big * 2


@same
def test_shifts_and_bits(dev):
    x = torch.tensor([1, -8, 255], dtype=torch.int32, device=dev)
    byte = torch.tensor([1, 128, 255], dtype=torch.uint8, device=dev)
    truth = torch.tensor([True, False, True], device=dev)
    return x << 2, x >> 1, byte << 1, byte >> 3, x & byte, x | 1, x ^ byte, ~x, ~byte, ~truth, truth ^ True, truth & x


@same
def test_conversions_of_floats_to_integers(dev):
    x = torch.tensor([1.9, -1.9, 0.5, -0.5, 200.7], device=dev)
    return x.to(torch.int32), x.to(torch.int64), x.abs().to(torch.uint8), x.bool(), x.to(torch.int16), x.round().long()


@same
def test_reductions_choose_dtypes(dev):
    truth = torch.tensor([[True, False], [True, True]], device=dev)
    small = torch.tensor([[100, 100], [-3, 4]], dtype=torch.int8, device=dev)
    return (
        truth.sum(),
        truth.sum(0),
        truth.prod(),
        truth.cumsum(0),
        small.sum(1),
        small.sum(1, dtype=torch.int8),
        small.amax(),
        small.float().mean(dtype=torch.float64),
        raises(lambda: small.mean()),
        raises(lambda: torch.mean(truth, 0)),
        truth.any(1),
        small.all(),
    )


@same
def test_constructors_choose_dtypes(dev):
    return (
        torch.tensor([1, 2.5], device=dev),
        torch.tensor([True], device=dev),
        torch.full((2,), 3, device=dev),
        torch.full((2,), True, device=dev),
        torch.arange(3, device=dev),
        torch.arange(0, 1, 0.5, device=dev),
        torch.linspace(0, 1, 3, device=dev),
        torch.zeros(2, dtype=torch.complex64, device=dev),
        torch.tensor([], device=dev),
        torch.eye(2, dtype=torch.int16, device=dev),
    )


@same
def test_comparisons_with_scalars(dev):
    byte, big = torch.tensor([0, 255], dtype=torch.uint8, device=dev), torch.tensor([2**53, 2**53 + 1], device=dev)
    return byte > -1, byte < 256, byte == 255.5, big == 2**53 + 1, big > 2**53, torch.tensor([0.1], device=dev) == 0.1


@same
def test_large_integers_keep_every_bit(dev):
    x = torch.tensor([2**53 + 1, -(2**62) - 3], device=dev)
    return (
        x + 1,
        x * 3,
        x // 7,
        x % 1000,
        x.max(),
        x.sum(),
        x.sort(),
        x.abs(),
        x.clamp(max=2**53),
        x[0].item(),
        torch.stack([x, x]).argmax(),
    )


@same_bits
def test_narrow_floats_round_to_even(dev):
    x = torch.tensor([1.00390625, 1.01171875, 3.3895e38, 65519.0, 65520.0, 1e-8], device=dev)
    return x.bfloat16(), x.half(), x.bfloat16() + 1, x.half() * 0.3, x.bfloat16().sum(), x[:2].half().mean()


@same_bits
def test_arithmetic_of_bfloat16(dev):
    x = torch.arange(1, 40, device=dev).to(torch.bfloat16)
    return (
        x / 3,
        x * 0.1,
        x.sqrt(),
        x.reciprocal(),
        x.addcmul(x, x, value=0.1),
        x.lerp(x * 2, 0.3),
    )


@same
def test_floats_of_eight_bits(dev):
    x = torch.tensor([0.1, 1.0, -3.3, 300.0, 448.0], device=dev)
    e4, e5 = x.to(torch.float8_e4m3fn), x.to(torch.float8_e5m2)
    return e4.float(), e5.float(), e4.view(torch.uint8), e5.half()


@same
def test_unsigned_integers(dev):
    x = torch.tensor([1, 65535], dtype=torch.uint16, device=dev)
    y = torch.tensor([1, 2**32 - 1], dtype=torch.uint32, device=dev)
    return x.to(torch.int32), y.to(torch.int64), x.float(), y.double(), x.view(torch.int16), y


@same
def test_clamp_and_where_promote(dev):
    x = torch.tensor([-1, 5], dtype=torch.int32, device=dev)
    return (
        x.clamp(0.5, 2),
        x.clamp(min=0),
        torch.clamp(x, max=torch.tensor(2.5, device=dev)),
        torch.maximum(x, torch.tensor([2.0, 2.0], dtype=torch.float16, device=dev)),
        torch.where(x > 0, x, 0.5),
        torch.where(x > 0, x.half(), x.double()),
        x.masked_fill(x > 0, 2.9),
    )


@same
def test_gradients_have_the_dtype_of_their_parameter(dev):
    x = torch.ones(2, dtype=torch.bfloat16, device=dev, requires_grad=True)
    y = torch.ones(2, dtype=torch.float64, device=dev, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad


@same_bits
def test_sums_of_bfloat16_with_numbers(dev):
    x = torch.linspace(-3, 3, 200).to(torch.bfloat16).to(dev)
    return (
        x + 0.3,
        x - 0.3,
        0.3 - x,
        x + torch.tensor(0.3),
        x.clone().add_(0.7),
        torch._foreach_add([x], 0.3)[0],
        x * 0.3,
        x / 0.3,
    )
