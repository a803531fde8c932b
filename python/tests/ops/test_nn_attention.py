"""Attention, transformers, recurrent layers."""

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, HALF, check_grads, check_precision, numbers
from ops.util import check


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_scaled_dot_product(dtype, causal):
    q, k, v = (numbers(2, 3, 5, 4, dtype=dtype, seed=s) for s in range(3))
    # CPU torch's fused kernel chooses strides of its own, and rounds at other places.
    compare = check_precision if dtype in HALF else check_grads
    compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal).contiguous(), q, k, v)


def test_masks_scale_and_groups():
    q, k, v = numbers(2, 4, 5, 8), numbers(2, 4, 6, 8, seed=1), numbers(2, 4, 6, 3, seed=2)
    mask = numbers(5, 6, seed=3) > -0.5
    mask[2] = False
    check_grads(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.device)), q, k, v)
    check_grads(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3), q, k, v, numbers(2, 1, 5, 6)
    )
    check_grads(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k[:, :2], v[:, :2])


def seeded(make, x):
    """A module with the same weights on every device."""
    torch.manual_seed(0)
    return make().to(x.device)


@pytest.mark.parametrize("norm_first, activation", [(True, "relu"), (False, "gelu")])
def test_encoder_layer(norm_first, activation):
    def layer():
        return torch.nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
        )

    x = numbers(2, 5, 8)
    check_grads(lambda x: seeded(layer, x)(x), x)

    def fast(x):
        with torch.no_grad():
            net = seeded(layer, x).eval()
            mask = torch.nn.Transformer.generate_square_subsequent_mask(5).isinf().to(x.device)
            return net(x), net(x, src_mask=mask)

    check(fast, x)


@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head(need_weights):
    def make():
        return torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def train(q, k):
        return seeded(make, q)(q, k, k, need_weights=need_weights)

    def fast(q):
        padding = torch.tensor([[False, False, True], [False, False, False]], device=q.device)
        with torch.no_grad():
            net = seeded(make, q).eval()
            return net(q, q, q, need_weights=need_weights), net(q, q, q, key_padding_mask=padding)[0]

    check_grads(train, numbers(2, 3, 8), numbers(2, 4, 8, seed=1))
    check(fast, numbers(2, 3, 8))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("options", [{"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
def test_recurrent(kind, options):
    def run(x):
        net = seeded(lambda: getattr(torch.nn, kind)(4, 3, batch_first=True, **options), x)
        y, state = net(x)
        grads = torch.autograd.grad(y.pow(2).sum(), list(net.parameters()), retain_graph=True)
        return (y, *(state if isinstance(state, tuple) else (state,)), *grads)

    check_grads(run, numbers(2, 5, 4))


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(kind):
    def run(x):
        state = seeded(lambda: getattr(torch.nn, kind)(4, 3), x)(x)
        return state if isinstance(state, tuple) else (state,)

    check_grads(run, numbers(2, 4))
