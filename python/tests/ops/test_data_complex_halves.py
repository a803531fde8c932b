"""complex32 and bcomplex32, which XLA has no types for: how they lie in memory, how they convert and round."""

import pytest
import torch
from util import check, on_tpu

HALVES = [torch.complex32, torch.bcomplex32]
pytestmark = pytest.mark.filterwarnings("ignore:.*support is experimental")


def numbers(dtype=torch.complex32, seed=0, sizes=(6, 5)):
    generator = torch.Generator().manual_seed(seed)
    parts = torch.randn(*sizes, 2, generator=generator) * 3
    return torch.view_as_complex(parts).to(dtype)


def bits(tensor):
    return tensor.detach().cpu().resolve_conj().contiguous().view(torch.int32)


def check_bits(fn, *args):
    """Equal to the last bit, as two's complement words tell; sizes, strides and dtypes too."""
    want, got = fn(*args), fn(*map(on_tpu, args))
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    assert got.device.type == "tpu"
    assert torch.equal(bits(got), bits(want))


@pytest.mark.parametrize("dtype", HALVES)
def test_bits_survive_the_way_there_and_back(dtype):
    words = torch.arange(-(2**31), 2**31, 65537 * 97, dtype=torch.int64).to(torch.int32)
    given = words.view(dtype)
    assert torch.equal(bits(given.to("tpu")), words)
    assert torch.equal(bits(given.to("tpu").clone()), words)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[1::2, ::3],
        lambda x: x[2],
        lambda x: x.as_strided((3, 3), (2, 1), 1),
        lambda x: x.unfold(0, 3, 2),
        lambda x: x[:, 1].expand(4, 6),
        lambda x: x.reshape(10, 3).transpose(0, 1),
        lambda x: x.diagonal(1),
        lambda x: x.roll(2, 1),
        lambda x: x[:0],
    ],
)
def test_views_move_whole_numbers(dtype, view):
    check_bits(lambda x: view(x).clone(memory_format=torch.contiguous_format), numbers(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_parts_are_views(dtype):
    check(torch.view_as_real, numbers(dtype))
    check(lambda x: (x.real, x.imag), numbers(dtype))
    check(lambda x: x.view(torch.uint8), numbers(dtype))
    check_bits(lambda x: torch.view_as_real(x).clone().view(dtype).squeeze(-1), numbers(dtype))

    def write(x):
        x = x.clone()
        x.real[1] = 7
        x.imag.t()[2:] = -1
        torch.view_as_real(x)[0, :, 1].zero_()
        return x

    check_bits(write, numbers(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "to",
    [
        torch.complex64,
        torch.complex128,
        torch.complex32,
        torch.bcomplex32,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int64,
        torch.int8,
        torch.bool,
    ],
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_conversions(dtype, to):
    given = numbers(dtype)
    if to in HALVES:
        check_bits(lambda x: x.to(to), given)
    else:
        check(lambda x: x.to(to), given)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "source", [torch.complex128, torch.complex64, torch.float64, torch.float16, torch.int64, torch.bool]
)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_conversions_round_once(dtype, source):
    given = (numbers(torch.complex128, sizes=(40, 40)) * 1e4).to(source)
    check_bits(lambda x: x.to(dtype), given)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x + y,
        lambda x, y: torch.sub(x, y, alpha=2),
        lambda x, y: x * y,
        lambda x, y: x.t() * y.t(),
        lambda x, y: x[::2] + y.conj()[1::2],
        lambda x, y: x.clone().mul_(y),
        lambda x, y: x.clone()[1:, ::2].add_(y[:-1, ::2]),
        lambda x, y: torch.add(x, y, out=torch.empty_like(x)),
        lambda x, y: torch.add(x, y, out=torch.empty(5, 6, dtype=x.dtype, device=x.device).t()),
        lambda x, y: torch.where(x.real > 0, x, y),
        lambda x, y: torch.cat([x, y], 1),
        lambda x, y: -x.conj() + 2.5j,
        lambda x, y: x * torch.tensor(2.5 - 1j, dtype=torch.complex32),
        lambda x, y: x * torch.arange(5, device=x.device),
        lambda x, y: x + 0.1,
        lambda x, y: 0.1 - x,
        lambda x, y: x * (0.1 + 0.7j),
        lambda x, y: torch.add(x, y, alpha=0.3),
        lambda x, y: torch.sub(x, y, alpha=0.3 + 0.7j),
        lambda x, y: x * torch.tensor(0.1, device=x.device),
        lambda x, y: x.real * torch.tensor(0.1 - 0.3j, device=x.device),
        lambda x, y: torch.full_like(x, 1e6),
        lambda x, y: x * y.real,
        lambda x, y: x.real * 2j,
        lambda x, y: x.index_add(0, torch.tensor([3, 1], device=x.device), y[:2]),
        lambda x, y: x.index_fill(1, torch.tensor([0, 3], device=x.device), 3e4),
        lambda x, y: torch.complex(x.real, y.imag),
        lambda x, y: torch.polar(x.real.abs(), y.imag),
        lambda x, y: torch.full_like(x, 1 / 3 - 1j / 3),
        lambda x, y: x.tril(-1).sgn(),
    ],
)
def test_results_round_as_on_the_cpu(fn):
    check_bits(fn, numbers(seed=1), numbers(seed=2))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x.abs(),
        lambda x, y: x + torch.ones(5, device=x.device),
        lambda x, y: x * torch.ones(5, device=x.device, dtype=torch.float64),
        lambda x, y: torch.add(x, y, out=torch.empty(6, 5, dtype=torch.complex64, device=x.device)),
        lambda x, y: torch.linalg.vector_norm(x, dim=1),
        lambda x, y: torch.norm(x, 3, 0),
        lambda x, y: x == y,
        lambda x, y: torch.full_like(x, 0.1) == 0.1,
        lambda x, y: x.isinf(),
        lambda x, y: x.any(1),
        lambda x, y: x.nonzero(),
        lambda x, y: x[2, 3].item(),
    ],
)
def test_results_of_other_types(fn):
    check(fn, numbers(seed=1), numbers(seed=2))


def test_zeros_that_nobody_wrote():
    check_bits(lambda x: x.new_zeros(3, 2), numbers())
    check_bits(lambda x: torch.zeros(4, dtype=torch.bcomplex32, device=x.device)[1:], numbers())


def test_gradients():
    def gradient(x, y):
        x, y = (t.detach().requires_grad_() for t in (x, y))
        result = (x * y.conj() + x).abs()
        return torch.autograd.grad(result, (x, y), torch.ones_like(result))

    want, got = gradient(numbers(seed=1), numbers(seed=2)), gradient(*(on_tpu(numbers(seed=s)) for s in (1, 2)))
    for w, g in zip(want, got, strict=True):
        assert torch.equal(bits(g), bits(w))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum(),
        lambda x: x / x,
        lambda x: x @ x.t(),
        lambda x: x.exp(),
        lambda x: torch.complex(x.real.to(torch.float32), x.imag),
        lambda x: x.clone().fill_(1e300),
        lambda x: x.masked_fill(x.real > 0, 1e6),
        lambda x: torch.complex(x.real, x.imag, out=torch.empty(6, 5, dtype=torch.complex64, device=x.device)),
        lambda x: torch.polar(*(part.to(torch.bfloat16) for part in (x.real, x.imag))),
        lambda x: x.to(torch.bcomplex32) + x.to(torch.bcomplex32),
    ],
)
def test_refused_as_on_the_cpu(fn):
    given = numbers()
    with pytest.raises(Exception) as theirs:
        fn(given)
    with pytest.raises(theirs.type) as ours:
        fn(given.to("tpu"))
    assert str(ours.value) == str(theirs.value)
