"""Embeddings and bags of them."""

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, check_raises, numbers
from ops.util import check


def indices(*shape, n=7, dtype=torch.int64):
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_embedding(dtype):
    w = numbers(7, 4, dtype=dtype)
    for shape in [(), (2, 3), (0,)]:
        check_grads(lambda w, i: F.embedding(i, w), w, indices(*shape))
    check_grads(lambda w, i: F.embedding(i, w, padding_idx=2), w, indices(20))
    check_grads(lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), w, indices(20))
    check_grads(lambda w, i: F.embedding(i, w), w, indices(5, dtype=torch.int32))


@pytest.mark.parametrize("wrong", [7, -1])
def test_out_of_range(wrong):
    check_raises(lambda w, i: F.embedding(i, w), numbers(7, 4), torch.tensor([1, wrong]))


@pytest.mark.parametrize("p", [2.0, 1.0, 3.0])
def test_renormalization(p):
    def run(w, i):
        w = w.clone()
        return F.embedding(i, w, max_norm=1.0, norm_type=p), w

    check(run, numbers(7, 4, scale=2), torch.tensor([1, 3, 3, 5]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    w = numbers(7, 4)
    offsets = torch.tensor([0, 3, 3, 8])
    check_grads(lambda w, i: F.embedding_bag(i, w, mode=mode), w, indices(3, 4))
    check_grads(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), w, indices(10), offsets)
    check_grads(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=2), w, indices(10), offsets)
    last = torch.tensor([0, 3, 3, 10])
    check_grads(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True), w, indices(10), last)
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), w, indices(0), torch.tensor([0, 0]))


def test_weighted_bags():
    offsets = torch.tensor([0, 3, 8])

    def run(w, i, s):
        return F.embedding_bag(i, w, offsets.to(i.device), mode="sum", per_sample_weights=s)

    check_grads(run, numbers(7, 4), indices(10), numbers(10, seed=1))
    check_grads(lambda w, i: F.embedding_bag(i, w, mode="sum", scale_grad_by_freq=True), numbers(7, 4), indices(3, 4))
