"""Sparse tensors on the device equal those of CPU torch; nothing of them runs on the CPU."""

import pytest
import torch
import torch.nn.functional as F

INDICES = torch.tensor([[0, 2, 1, 0, 2], [1, 3, 0, 1, 2]])
VALUES = torch.tensor([1.0, 2.0, -3.0, 4.0, 5.0])
SIZE = (3, 4)
DENSE = torch.randn(3, 4)
MATRIX = torch.randn(4, 5)


def coo(device, dtype=torch.float32, size=SIZE, inner=()):
    """An uncoalesced matrix, with one coordinate twice."""
    values = VALUES.reshape(-1, *[1] * len(inner)).expand(-1, *inner).to(dtype)
    return torch.sparse_coo_tensor(INDICES.to(device), values.to(device), size + inner, check_invariants=False)


def other(device):
    return torch.sparse_coo_tensor([[0, 1, 1], [1, 1, 0]], [7.0, 8.0, 9.0], SIZE, device=device, check_invariants=False)


def same(got, want):
    """Layout, dtype, sizes, values; and the elements themselves where they are sorted."""
    if isinstance(want, (tuple, list)):
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert got.device.type == "tpu"
    assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape)
    if want.layout == torch.sparse_coo:
        assert got.is_coalesced() == want.is_coalesced()
        if want.is_coalesced():
            same((got.indices(), got.values()), (want.indices(), want.values()))
        else:
            # How often a coordinate occurs is left open: CPU torch joins some of the equal ones.
            same(got.to_dense(), want.to_dense())
    else:
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def check(fn):
    same(fn("tpu"), fn("cpu"))


UNARY = [abs, torch.neg, torch.sin, torch.sqrt, torch.relu, torch.sign, torch.expm1, torch.isnan, torch.floor]
OF_ONE = {
    "coalesce": lambda s: s.coalesce(),
    "to_dense": lambda s: s.to_dense(),
    "again": lambda s: s.to_dense().to_sparse(),
    "hybrid": lambda s: s.to_dense().to_sparse(1),
    "transpose": lambda s: s.t(),
    "permute": lambda s: s.permute(1, 0),
    "unsqueeze": lambda s: s.unsqueeze(0),
    "times number": lambda s: s * 2.5,
    "over number": lambda s: s / 4,
    "floor over number": lambda s: s.coalesce() // 2,
    "sum": lambda s: s.sum(),
    "sum of rows": lambda s: torch.sparse.sum(s, 0),
    "sum of all": lambda s: torch.sparse.sum(s),
    "power": lambda s: s.coalesce().pow(2),
    "clone": lambda s: s.clone(),
    "zeros": lambda s: torch.zeros_like(s),
    "zeroed": lambda s: s.clone().zero_(),
    "dtype": lambda s: s.to(torch.float64),
    "cat": lambda s: torch.cat([s, s], 0),
    "narrow": lambda s: s.narrow_copy(0, 1, 2),
    "select": lambda s: s.select(0, 2),
    "index_select": lambda s: s.index_select(1, torch.tensor([3, 1, 1], device=s.device)),
    "norm": lambda s: s.norm(),
    "any": lambda s: s.any(),
    "softmax": lambda s: torch.sparse.softmax(s, 1),
    "log_softmax": lambda s: torch.sparse.log_softmax(s, 0),
    "csr": lambda s: s.to_sparse_csr().to_dense(),
    "parts": lambda s: (s.sparse_dim(), s.dense_dim(), s._nnz(), s._indices(), s._values()),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one(name):
    check(lambda device: OF_ONE[name](coo(device)))


def test_a_mask_without_sparse_dimensions_gives_values_of_their_own():
    def values(device):
        x = torch.tensor(0.5).to(device)
        masked = x.sparse_mask(torch.tensor(1.0).to_sparse().to(device))
        x.add_(1)
        return masked._values()

    check(values)


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.__name__)
def test_elementwise(op):
    check(lambda device: op(coo(device)))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
def test_types(dtype):
    check(lambda device: coo(device, dtype).coalesce())
    check(lambda device: coo(device, dtype).to_dense())
    check(lambda device: DENSE.to(device, dtype).to_sparse())


def test_dense_dimensions():
    check(lambda device: coo(device, inner=(2, 3)).coalesce())
    check(lambda device: coo(device, inner=(2, 3)).to_dense())
    check(lambda device: torch.sparse.sum(coo(device, inner=(2, 3)), (0, 2)))
    check(lambda device: torch.ones(3, 4, 2, device=device) + coo(device, inner=(2,)))


def test_empty():
    for size in [(3, 4), (0, 4)]:
        check(lambda device, size=size: torch.sparse_coo_tensor(size=size, device=device).to_dense())
        check(lambda device, size=size: torch.sparse_coo_tensor(size=size, device=device).coalesce())
    check(lambda device: torch.zeros(3, 4, device=device).to_sparse())


OF_TWO = {
    "add": lambda d: coo(d) + other(d),
    "add sorted": lambda d: coo(d).coalesce() + other(d).coalesce(),
    "subtract": lambda d: coo(d).coalesce() - other(d).coalesce(),
    "add to dense": lambda d: DENSE.to(d) + coo(d),
    "into dense": lambda d: DENSE.to(d).clone().add_(coo(d), alpha=-0.5),
    "into columns": lambda d: DENSE.t().contiguous().to(d).t().add_(coo(d)),
    "multiply": lambda d: coo(d) * other(d),
    "times dense": lambda d: coo(d) * DENSE.to(d),
    "dense times": lambda d: DENSE.to(d) * coo(d),
    "by tensor": lambda d: coo(d).mul_(torch.tensor(3.0, device=d)),
    "sparse_mask": lambda d: DENSE.to(d).sparse_mask(other(d).coalesce()),
    "sparse mask of sparse": lambda d: coo(d).coalesce().sparse_mask(other(d).coalesce()),
    "mm": lambda d: coo(d) @ MATRIX.to(d),
    "mv": lambda d: coo(d) @ MATRIX[:, 0].to(d),
    "sparse.mm": lambda d: torch.sparse.mm(coo(d), MATRIX.to(d)),
    "dense mm": lambda d: DENSE.t().contiguous().to(d) @ coo(d),
    "addmm": lambda d: torch.addmm(torch.ones(3, 5, device=d), coo(d), MATRIX.to(d), beta=0.5, alpha=2),
    "sparse.addmm": lambda d: torch.sparse.addmm(torch.ones(3, 5, device=d), coo(d), MATRIX.to(d)),
    "sparse product": lambda d: torch.sparse.mm(coo(d).coalesce(), other(d).t().coalesce()).coalesce(),
    "copy": lambda d: coo(d).copy_(other(d)),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two(name):
    check(OF_TWO[name])


def test_batches():
    def product(device):
        sparse = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 1], [1, 3, 0]], [1.0, 2.0, 3.0], (2, 3, 4), device=device)
        return torch.bmm(sparse, torch.arange(40.0, device=device).reshape(2, 4, 5))

    check(product)


def test_between_devices():
    there = coo("cpu").to("tpu")
    same(there, coo("cpu"))
    assert there.is_sparse and there.device.type == "tpu"
    back = there.cpu()
    assert back.device.type == "cpu"
    assert torch.equal(back.to_dense(), coo("cpu").to_dense())
    assert torch.equal(coo("cpu").to_sparse_csr().to("tpu").to_dense().cpu(), coo("cpu").to_dense())


def test_printing():
    text = repr(coo("tpu").coalesce())
    assert "layout=torch.sparse_coo" in text and "nnz=4" in text and "device='tpu:0'" in text


def test_errors():
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        coo("tpu").add_(DENSE.to("tpu"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        coo("tpu") @ torch.ones(3, 2, device="tpu")
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor(INDICES, VALUES, (2, 4), device="tpu", check_invariants=True)


def grads(device, fn, *tensors):
    leaves = [t.to(device).detach().requires_grad_() for t in tensors]
    out = fn(*leaves)
    out = out.to_dense() if out.layout != torch.strided else out
    (out * torch.arange(1.0, 1 + out.numel(), device=device).reshape(out.shape)).sum().backward()
    return [leaf.grad for leaf in leaves]


GRADIENTS = {
    "values": lambda v, m: torch.sparse_coo_tensor(INDICES.to(v.device), v, SIZE).to_dense() @ m,
    "mm": lambda v, m: torch.sparse.mm(torch.sparse_coo_tensor(INDICES.to(v.device), v, SIZE).coalesce(), m),
    "sum": lambda v, m: (
        torch.sparse.sum(torch.sparse_coo_tensor(INDICES.to(v.device), v, SIZE), 1).to_dense() + m.sum()
    ),
    "softmax": lambda v, m: (
        torch.sparse.softmax(torch.sparse_coo_tensor(INDICES.to(v.device), v, SIZE), 1).to_dense() @ m
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    check(lambda device: grads(device, GRADIENTS[name], VALUES, MATRIX))


def test_gradient_of_to_sparse():
    check(lambda device: grads(device, lambda x: x.to_sparse() * 2, DENSE))


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_embedding_is_trained(name):
    def train(device):
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 3, sparse=True)
        table.weight.data = torch.arange(18.0).reshape(6, 3) / 10
        table.to(device)
        optimizer = OPTIMIZERS[name](list(table.parameters()))
        for step in range(3):
            optimizer.zero_grad()
            table(torch.tensor([1, 4, 1, step], device=device)).pow(2).sum().backward()
            optimizer.step()
        return table.weight.detach(), table.weight.grad.coalesce()

    check(train)


def test_gradient_of_embedding_is_sparse():
    weight = torch.randn(5, 2, device="tpu", requires_grad=True)
    F.embedding(torch.tensor([0, 3, 3], device="tpu"), weight, sparse=True).sum().backward()
    assert weight.grad.is_sparse
    assert weight.grad.to_dense().sum(1).tolist() == [2, 0, 0, 4, 0]


def csr(device):
    return coo(device).coalesce().to_sparse_csr()


COMPRESSED = {
    "sampled_addmm": lambda d: torch.sparse.sampled_addmm(csr(d), DENSE.to(d), torch.eye(4).to(d), beta=0.5).to_dense(),
    "mm": lambda d: csr(d) @ MATRIX.to(d),
    "addmm": lambda d: torch.addmm(torch.ones(3, 5, device=d), csr(d), MATRIX.to(d), alpha=2),
    "sin": lambda d: csr(d).sin().to_dense(),
    "times number": lambda d: (csr(d) * 2).to_dense(),
    "coo": lambda d: csr(d).to_sparse_coo(),
    "parts": lambda d: (csr(d).crow_indices(), csr(d).col_indices(), csr(d).values()),
    "dense": lambda d: DENSE.to(d).to_sparse_csr().to_dense(),
    "columns": lambda d: DENSE.to(d).to_sparse_csc().to_dense(),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed(name):
    check(COMPRESSED[name])


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reduced_products(reduce):
    check(lambda device: torch.sparse.mm(csr(device), MATRIX.to(device), reduce))
