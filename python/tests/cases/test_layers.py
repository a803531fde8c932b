"""What layers mean at their corners: paddings, roundings, ties, running statistics, reductions."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.util import same


def ramp(dev, *sizes):
    """Small numbers in order, divided by their count."""
    count = torch.Size(sizes).numel()
    return (torch.arange(count, device=dev) / count).view(sizes)


@same
def test_interpolation(dev):
    x = torch.arange(12.0, device=dev).view(1, 1, 3, 4)
    return (
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(5, 3), mode="bilinear", align_corners=True),
        F.interpolate(x, size=(2, 7), mode="nearest"),
        F.interpolate(x, scale_factor=0.6, mode="area"),
        F.interpolate(x[0], size=6, mode="linear"),
        F.interpolate(x, size=(6, 8), mode="bicubic"),
    )


@same
def test_pooling_with_ceil_padding_and_indices(dev):
    x = torch.tensor([[[1.0, 5.0, 5.0, 2.0, -1.0, 0.0, 7.0]]], device=dev)
    out, where = F.max_pool1d(x, 3, 2, padding=1, ceil_mode=True, return_indices=True)
    return (
        out,
        where,
        F.avg_pool1d(x, 3, 2, padding=1, ceil_mode=True),
        F.adaptive_avg_pool1d(x, 3),
        F.adaptive_max_pool1d(x, 4, return_indices=True),
        F.max_pool1d(x, 2, dilation=3),
        F.lp_pool1d(x.abs(), 2, 2),
        F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
    )


@same
def test_convolutions_with_groups_padding_and_transposes(dev):
    x, w = ramp(dev, 2, 4, 5, 5), ramp(dev, 4, 2, 3, 3)
    return (
        F.conv2d(x, w, groups=2, padding="same"),
        F.conv2d(x, w, groups=2, stride=2, padding=(1, 0)),
        F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2),
        F.conv_transpose2d(x, w, dilation=2),
        F.conv1d(x[..., 0], ramp(dev, 2, 4, 3), bias=ramp(dev, 2)),
        F.conv2d(x[0], ramp(dev, 4, 1, 3, 3), groups=4),
        F.unfold(x, 3, stride=2),
        F.fold(F.unfold(x, 2, stride=2, padding=1), (5, 5), 2, stride=2, padding=1),
    )


@same
def test_gradients_of_convolutions(dev):
    x, w, b = (
        ramp(dev, 2, 4, 5, 5).requires_grad_(),
        ramp(dev, 4, 2, 3, 3).requires_grad_(),
        ramp(dev, 4).requires_grad_(),
    )
    F.conv2d(x, w, b, stride=2, padding=1, dilation=2, groups=2).pow(2).sum().backward()
    grads = x.grad, w.grad, b.grad
    return grads, torch.autograd.grad(F.conv_transpose2d(x, w, stride=2, groups=2).pow(2).sum(), (x, w))


@same
def test_norms(dev):
    x = ramp(dev, 3, 4, 2, 2).requires_grad_()
    norm = nn.BatchNorm2d(4).to(dev)
    y = norm(x)
    (y * x.detach()).sum().backward()
    trained = y.detach(), x.grad, norm.running_mean, norm.running_var, norm.weight.grad
    return (
        trained,
        norm.eval()(x).detach(),
        F.group_norm(x, 2).detach(),
        F.instance_norm(x).detach(),
        F.layer_norm(x, (4, 2, 2)).detach(),
        F.rms_norm(x, (2,)).detach(),
        F.local_response_norm(x, 2).detach(),
        F.normalize(x, dim=1).detach(),
    )


@same
def test_losses_and_their_reductions(dev):
    x, y = ramp(dev, 3, 4).requires_grad_(), ramp(dev, 3, 4).flip(0)
    k = torch.tensor([3, 0, -100], device=dev)
    results = [
        fn(x, y, reduction=r)
        for fn in (
            F.mse_loss,
            F.l1_loss,
            F.smooth_l1_loss,
            F.huber_loss,
            F.binary_cross_entropy,
            F.kl_div,
            F.poisson_nll_loss,
            F.soft_margin_loss,
        )
        for r in ("none", "mean", "sum")
    ]
    results += [F.cross_entropy(x, k, reduction=r, weight=y[0]) for r in ("none", "mean", "sum")] + [
        F.cross_entropy(x, y),
        F.nll_loss(x, k),
        F.multi_margin_loss(x, k.clamp(0)),
        F.margin_ranking_loss(x, y, y.sign()),
        F.triplet_margin_loss(x, y, y.flip(1)),
        F.cosine_embedding_loss(x, y, k.sign()),
        F.gaussian_nll_loss(x, y, y + 1),
    ]
    sum(r.sum() for r in results).backward()
    return [r.detach() for r in results], x.grad


@same
def test_cross_entropy_over_images_and_of_nothing(dev):
    x, k = ramp(dev, 2, 3, 2, 2).requires_grad_(), torch.tensor([[[0, 2], [1, 5]], [[5, 1], [0, 2]]], device=dev)
    loss = F.cross_entropy(x, k, ignore_index=5)
    loss.backward()
    return (
        loss.detach(),
        x.grad,
        F.cross_entropy(x, torch.full_like(k, 5), ignore_index=5).detach(),
        F.ctc_loss(ramp(dev, 4, 1, 3).log_softmax(2), k[:1, 0].clamp(1), torch.tensor([4]), torch.tensor([2])),
    )


@same
def test_embeddings(dev):
    w = ramp(dev, 5, 2).requires_grad_()
    k = torch.tensor([[0, 3], [3, 1]], device=dev)
    y = F.embedding(k, w, padding_idx=3)
    (y * torch.tensor([1.0, 2.0], device=dev)).sum().backward()
    bag = nn.EmbeddingBag(5, 2, mode="mean", _weight=w.detach().clone()).to(dev)
    return (
        y.detach(),
        w.grad,
        bag(k).detach(),
        F.embedding(k, w.detach().clone() * 9, max_norm=1.0),
        F.one_hot(k),
        F.one_hot(k, 6).dtype,
    )


@same
def test_recurrent_layers(dev):
    results = []
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        layer = kind(2, 3, num_layers=2, batch_first=True, bidirectional=True)
        for p in layer.parameters():
            nn.init.constant_(p, 0.1)
        layer.to(dev)
        x = ramp(dev, 2, 3, 2).requires_grad_()
        out, state = layer(x)
        out.sum().backward()
        results.append((out.detach(), [s.detach() for s in state], x.grad))
    return results


@same
def test_packed_sequences(dev):
    x = ramp(dev, 3, 2, 1)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), enforce_sorted=False)
    out, sizes = nn.utils.rnn.pad_packed_sequence(packed)
    return (
        packed.data,
        packed.batch_sizes,
        out,
        sizes,
        nn.utils.rnn.pad_sequence([x[0], x[1, :1]], batch_first=True, padding_value=-1.0),
    )


@same
def test_transformer_with_masks(dev):
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    for p in layer.parameters():
        nn.init.constant_(p, 0.1)
    layer.to(dev)
    x = ramp(dev, 2, 3, 4).sin().requires_grad_()
    mask = nn.Transformer.generate_square_subsequent_mask(3, device=dev)
    pad = torch.tensor([[False, False, True], [False, False, False]], device=dev)
    y = layer(x, src_mask=mask, src_key_padding_mask=pad.float().masked_fill(pad, float("-inf")))
    (y * ramp(dev, 4)).sum().backward()
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    for p in attention.parameters():
        nn.init.constant_(p, 0.1)
    return (
        y.detach(),
        x.grad,
        attention.to(dev)(x, x, x, attn_mask=mask, average_attn_weights=False)[1].detach(),
        layer.eval()(x.detach(), src_key_padding_mask=pad),
    )


@same
def test_attention_with_scale_bias_and_groups(dev):
    q, kv = ramp(dev, 1, 4, 3, 2).requires_grad_(), ramp(dev, 1, 2, 5, 2)
    y = F.scaled_dot_product_attention(q, kv, kv, attn_mask=ramp(dev, 3, 5), scale=0.3, enable_gqa=True)
    y.sum().backward()
    return y.detach(), q.grad


@same
def test_grid_sampling_and_shuffles(dev):
    x = torch.arange(16.0, device=dev).view(1, 1, 4, 4)
    grid = F.affine_grid(
        torch.tensor([[[1.0, 0.2, 0.1], [0.0, 0.8, -0.3]]], device=dev), (1, 1, 3, 3), align_corners=False
    )
    return (
        [
            F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=False)
            for m in ("bilinear", "nearest")
            for p in ("zeros", "border", "reflection")
        ],
        F.pixel_shuffle(x.view(1, 4, 2, 2), 2),
        F.pixel_unshuffle(x, 2),
        F.channel_shuffle(x.view(1, 4, 2, 2), 2),
    )


@same
def test_ties_and_repeats_in_scatter(dev):
    x, k = torch.tensor([3.0, 1.0, 3.0, 1.0], device=dev), torch.tensor([0, 2, 0, 2], device=dev)
    zero = torch.zeros(3, device=dev)
    return (
        zero.index_add(0, k, x),
        zero.scatter_add(0, k, x),
        zero.scatter_reduce(0, k, x, "amax", include_self=False),
        zero.scatter_reduce(0, k, x, "mean"),
        zero.index_put((k,), x, accumulate=True),
        x.unique(return_inverse=True, return_counts=True),
        x.unique_consecutive(return_counts=True),
        torch.bincount(k, weights=x),
        torch.histc(x, 4, 0, 4),
        torch.searchsorted(torch.tensor([1.0, 3.0], device=dev), x, right=True),
        torch.bucketize(x, torch.tensor([1.0, 2.0], device=dev)),
        x.argmax(),
        x.cummax(0),
        x.mode(),
    )


@same
def test_linear_algebra(dev):
    a = torch.tensor([[4.0, 1.0], [1.0, 3.0]], device=dev, requires_grad=True)
    results = (
        torch.linalg.inv(a),
        torch.linalg.det(a),
        torch.linalg.cholesky(a),
        torch.linalg.solve(a, torch.ones(2, device=dev)),
        torch.linalg.slogdet(a)[1],
        torch.linalg.eigvalsh(a),
        torch.linalg.matrix_norm(a),
        torch.linalg.svdvals(a),
        torch.linalg.matrix_power(a, 3),
    )
    sum(r.sum() for r in results).backward()
    return (
        [r.detach() for r in results],
        a.grad,
        torch.trapz(a.detach()),
        torch.cdist(a.detach(), a.detach() * 2),
        torch.outer(a[0], a[1]).detach(),
        torch.cross(ramp(dev, 3), ramp(dev, 3) + 1, 0),
    )


@same
def test_an_encoder_with_padding_takes_the_dense_path(dev):
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    with torch.no_grad():
        out = encoder.to(dev)(x.to(dev), src_key_padding_mask=padding.to(dev))
    # What stands at padded places is nobody's business: torch's CPU path leaves zeros there.
    return out[~padding.to(dev)]
