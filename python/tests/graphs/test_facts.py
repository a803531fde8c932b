"""What ops of one program know of each other: the same numbers as the CPU's, from another program."""

import re

import pytest
import torch
import torch_tpu
from torch import Tensor
from torch.nn import functional as F

BATCH, LENGTH, HEADS, WIDE, CLASSES = 2, 6, 3, 4, 11


def language_model(x: Tensor, qkv: Tensor, bias: Tensor, out: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Attention, whose heads are transposed and whose softmax is single, and a loss of logits made single."""
    q, k, v = (
        part.view(BATCH, LENGTH, HEADS, WIDE).transpose(1, 2) for part in F.linear(x, qkv, bias).chunk(3, dim=-1)
    )
    weights = (q @ k.transpose(-2, -1)).float().softmax(-1).to(x.dtype)
    y = F.linear((weights @ v).transpose(1, 2).reshape(x.shape), out)
    return F.cross_entropy(F.linear(x + y, head).flatten(0, 1).float(), targets.flatten(), ignore_index=3)


def arguments(dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    wide = HEADS * WIDE
    sizes = [(BATCH, LENGTH, wide), (3 * wide, wide), (3 * wide,), (wide, wide), (CLASSES, wide)]
    made = [(torch.randn(size) / size[-1] ** 0.5).to(dtype) for size in sizes]
    return [*made, torch.randint(CLASSES, (BATCH, LENGTH))]


def gradients(given: list[Tensor]) -> list[Tensor]:
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in given]
    loss = language_model(*leaves)
    return [loss.detach(), *torch.autograd.grad(loss, leaves[:-1])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_language_model_learns_what_it_learns_on_the_cpu(dtype: torch.dtype) -> None:
    given = arguments(dtype)
    expected = gradients(given)
    step = torch_tpu.compile_step(lambda *leaves: gradients(list(leaves)))
    for _ in range(3):
        got = step(*(t.to("tpu") for t in given))
        # torch's default is for one op; here a dozen round, and sums of theirs come near zero.
        tolerance = {"rtol": 1.6e-2, "atol": 4e-3} if dtype == torch.bfloat16 else {}
        torch.testing.assert_close([t.cpu() for t in got], expected, **tolerance)


def test_the_program_keeps_no_logarithms_and_takes_batches_and_rows_apart() -> None:
    """Nothing of the logits' size is picked from but the logits, and the second product computes its own gradient."""
    step = torch_tpu.compile_step(lambda *leaves: gradients(list(leaves)))
    program = torch_tpu.aot.program(step, tuple(t.to("tpu") for t in arguments(torch.bfloat16)))
    logits = f"tensor<{BATCH * LENGTH}x{CLASSES}x"
    picked = re.findall(rf"stablehlo\.gather.* : \({logits}(\w+)>", program)
    assert picked == ["bf16"], picked
    barriers = re.findall(r"stablehlo\.optimization_barrier.*", program)
    assert len(barriers) == 1 and f"{logits}bf16>" in barriers[0], barriers
    products = re.findall(r"stablehlo\.dot_general.*", program)
    merged = [p for p in products if re.search(rf"tensor<{BATCH * HEADS}x\d+x\d+xbf16>", p)]
    assert len(products) == 6 + 3 * 3 and not merged, products
    apart = f"tensor<{BATCH}x{LENGTH}x{HEADS * WIDE}xbf16>"
    projections = [p for p in products if f" : ({apart}" in p]
    assert projections, products


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.75, 1.0, -0.25, 2.0])
@pytest.mark.parametrize("foreach", [False, True])
def test_lerp_starts_from_the_nearer_end(weight: float, foreach: bool) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(50), torch.randn(50) * 1e4
    x, y = a.to("tpu"), b.to("tpu")
    if foreach:
        (got,), (expected,) = torch._foreach_lerp([x], [y], weight), torch._foreach_lerp([a], [b], weight)
    else:
        got, expected = x.lerp(y, weight), a.lerp(b, weight)
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("value", [1, 1.0, 0.5, -2])
def test_a_value_of_one_is_like_others(value: float) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(3, 20)
    x, y, z = (t.to("tpu") for t in (a, b, c))
    torch.testing.assert_close(x.addcmul(y, z, value=value).cpu(), a.addcmul(b, c, value=value))
    torch.testing.assert_close(x.addcdiv(y, z, value=value).cpu(), a.addcdiv(b, c, value=value))
