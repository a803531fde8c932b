"""Sparse tensors: what torch computes by loops on the CPU, composed of dense ops.

The glue registers torch's kernels that hold for every device: metadata, elementwise functions of values, conversions;
here is the rest. Coordinates are flat numbers while they are matched, sorted or summed.
"""

import torch
from torch import Tensor
from torch.library import Library

_libraries: list[Library] = []
Size = tuple[int, ...]


def _coo(indices: Tensor, values: Tensor, size: Size, *, coalesced: bool) -> Tensor:
    return torch.ops.aten._sparse_coo_tensor_unsafe(indices, values, size, is_coalesced=coalesced)


def _flat(indices: Tensor, size: Size) -> Tensor:
    """Positions in row-major order of coordinates in tensors of this size."""
    flat = indices.new_zeros(indices.shape[1])
    for row, length in zip(indices, size, strict=True):
        flat = flat * length + row
    return flat


def _coordinates(flat: Tensor, size: Size) -> Tensor:
    """What `_flat` was made of."""
    rows = []
    for length in reversed(size):
        rows.append(flat % length)
        flat = flat.div(length, rounding_mode="floor")
    return torch.stack(rows[::-1]) if rows else flat.new_zeros((0, flat.shape[0]))


def _summed(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Sums of rows, group by group."""
    wide = torch.uint8 if values.dtype == torch.bool else values.dtype
    if values.dtype in (torch.float16, torch.bfloat16):
        wide = torch.float32
    total = torch.zeros((count, *values.shape[1:]), dtype=wide, device=values.device)
    return total.index_add_(0, groups, values.to(wide)).to(values.dtype)


def _coalesce(self: Tensor) -> Tensor:
    if self.is_coalesced():
        return self
    indices, values, size = self._indices(), self._values(), tuple(self.shape)
    if self._nnz() < 2:
        return _coo(indices.clone(), values.clone(), size, coalesced=True)
    sizes = size[: self.sparse_dim()]
    flat, groups = torch.unique(_flat(indices, sizes), return_inverse=True)
    return _coo(_coordinates(flat, sizes), _summed(values, groups, flat.shape[0]), size, coalesced=True)


def _matches(wanted: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """For each of `wanted` its position in `among`, which is sorted, and whether it is there."""
    if among.shape[0] == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    at = torch.searchsorted(among, wanted).clamp_(max=among.shape[0] - 1)
    return at, among[at] == wanted


def _give(out: Tensor, result: Tensor) -> Tensor:
    """Writes a result to `out`, in the dtype of `out`."""
    if not torch.can_cast(result.dtype, out.dtype):
        raise RuntimeError(f"result type {_name(result)} can't be cast to the desired output type {_name(out)}")
    if out.layout == torch.strided and out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result.to(out.dtype))


def _name(tensor: Tensor) -> str:
    return tensor.type().rsplit(".", 1)[-1].removesuffix("Tensor")


def _add_out(self: Tensor, other: Tensor, *, alpha: complex = 1, out: Tensor) -> Tensor:
    dtype = torch.result_type(self, other)
    if other.layout != torch.sparse_coo:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if self.layout != torch.sparse_coo:
        return _give(out, _scattered(self.to(dtype), other.to(dtype), alpha))
    if self.shape != other.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {_sizes(self)} != {_sizes(other)}")
    if self._nnz() == 0 and self.dense_dim() != other.dense_dim():
        self = _coo(other._indices()[:, :0], other._values()[:0].to(self.dtype), tuple(self.shape), coalesced=True)
    elif other._nnz() == 0:
        return _give(out, self.to(dtype))
    elif self.dense_dim() != other.dense_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{self.sparse_dim()} sparse dimensions while 'other' has {other.sparse_dim()} sparse dimensions"
        )
    values = other._values().to(dtype)
    values = torch.cat((self._values().to(dtype), values if alpha == 1 else values * alpha))
    indices = torch.cat((self._indices(), other._indices()), 1)
    total = _coo(indices, values, tuple(self.shape), coalesced=False)
    both = self.is_coalesced() and other.is_coalesced()
    return _give(out, _coalesce(total) if both else total)


def _sizes(tensor: Tensor) -> str:
    return str(list(tensor.shape))


def _scattered(dense: Tensor, sparse: Tensor, alpha: complex) -> Tensor:
    if dense.shape != sparse.shape:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{_sizes(dense)} while other has size {_sizes(sparse)} (FYI: dense-sparse addition does not currently "
            "support broadcasting)"
        )
    values = sparse._values() if alpha == 1 else sparse._values() * alpha
    if sparse.sparse_dim() == 0:
        return dense + values.sum(0)
    if sparse._nnz() == 0:
        return dense
    return dense.index_put(tuple(sparse._indices()), values.to(dense.dtype), accumulate=True)


def _is_sparse(value: Tensor | complex) -> bool:
    """Not so numbers, as which torch gives tensors that stand for one."""
    return isinstance(value, Tensor) and value.layout == torch.sparse_coo


def _mul_out(self: Tensor, other: Tensor, *, out: Tensor) -> Tensor:
    dtype = torch.result_type(self, other)
    if not _is_sparse(self):
        self, other = other, self
    if not isinstance(other, Tensor):
        return _give(out, _like(self, self._values() * other).to(dtype))
    if other.layout != torch.sparse_coo:
        return _give(out, _times_dense(self, other).to(dtype))
    if self.dim() == 0 or other.dim() == 0:
        few, many = (other, self) if other.dim() == 0 else (self, other)
        number = few._values().sum(0) if few._nnz() else few._values().new_zeros(())
        return _give(out, _like(many, many._values() * number).to(dtype))
    if self.shape != other.shape:
        size = torch.broadcast_shapes(self.shape, other.shape)
        self, other = (torch.ops.aten._sparse_broadcast_to(t, size) if t.shape != size else t for t in (self, other))
    return _give(out, _times_sparse(self, other, dtype))


def _like(sparse: Tensor, values: Tensor) -> Tensor:
    return _coo(sparse._indices().clone(), values, tuple(sparse.shape), coalesced=sparse.is_coalesced())


def _times_dense(sparse: Tensor, dense: Tensor) -> Tensor:
    if dense.dim() == 0:
        return _like(sparse, sparse._values() * dense)
    size = torch.broadcast_shapes(sparse.shape, dense.shape)
    if tuple(sparse.shape) != tuple(size):
        sparse = torch.ops.aten._sparse_broadcast_to(sparse, size)
    if sparse.sparse_dim() == 0:
        return _like(sparse, sparse._values() * dense)
    return _like(sparse, sparse._values() * dense.expand(size)[tuple(sparse._indices())])


def _times_sparse(self: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    sorted_both = self.is_coalesced() and other.is_coalesced()
    self, other = _coalesce(self), _coalesce(other)
    sizes = tuple(self.shape[: self.sparse_dim()])
    at, found = _matches(_flat(self._indices(), sizes), _flat(other._indices(), sizes))
    kept = found.nonzero()[:, 0]
    values = self._values()[kept] * other._values()[at[kept]]
    return _coo(self._indices()[:, kept], values.to(dtype), tuple(self.shape), coalesced=sorted_both)


def _mask_projection(self: Tensor, mask: Tensor, accumulate_matches: bool = False) -> Tensor:
    """The values that `self` has where `mask` has some, else zero."""
    del accumulate_matches
    self = _coalesce(self)
    sizes = tuple(mask.shape[: mask.sparse_dim()])
    at, found = _matches(_flat(mask._indices(), sizes), _flat(self._indices(), sizes))
    values = self._values()
    if values.shape[0] == 0:
        return _like(mask, torch.zeros((mask._nnz(), *values.shape[1:]), dtype=values.dtype, device=values.device))
    shaped = found.reshape(-1, *[1] * (values.dim() - 1))
    return _like(mask, torch.where(shaped, values[at], torch.zeros_like(values[:1])))


def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{_sizes(self)} but mask has size {_sizes(mask)}"
        )
    if self.layout == torch.strided:
        if not mask.sparse_dim():
            # Values of their own: an optimizer changes `self` before it reads them.
            return _like(mask, self.expand(mask._nnz(), *self.shape).clone())
        return _like(mask, self[tuple(mask._indices())])
    return _mask_projection(self, mask)


def _rows(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values of a sparse matrix of either layout."""
    if matrix.layout == torch.sparse_csr:
        rows = torch._convert_indices_from_csr_to_coo(matrix.crow_indices(), matrix.col_indices())[0]
        return rows.long(), matrix.col_indices().long(), matrix.values()
    matrix = matrix if matrix.layout == torch.sparse_coo else matrix.to_sparse()
    return *matrix._indices(), matrix._values()


def _product(matrix: Tensor, dense: Tensor) -> Tensor:
    rows, columns, values = _rows(matrix)
    wide = torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype
    terms = dense.index_select(0, columns).to(wide) * values.to(wide)[:, None]
    return torch.zeros((matrix.shape[0], dense.shape[1]), dtype=wide, device=dense.device).index_add_(0, rows, terms)


def _addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    if mat1.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(f"addmm: matrices expected, got {mat1.dim()}D and {mat2.dim()}D tensors")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, mat1.shape))} and "
            f"{'x'.join(map(str, mat2.shape))})"
        )
    if mat1.layout == torch.strided:
        # Of a product with its second factor sparse, the transpose has the first one so.
        product = _product(mat2.to_sparse().transpose(0, 1), mat1.transpose(0, 1)).transpose(0, 1)
    elif mat2.layout == torch.strided:
        product = _product(mat1, mat2)
    else:
        product = _product(mat1, mat2.to_dense())
    product = product if alpha == 1 else product * alpha
    own = self.to_dense() if self.layout != torch.strided else self
    total = product if beta == 0 else product + own.to(product.dtype) * beta
    return total.to(self.dtype)


def _addmm_out(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1, out: Tensor
) -> Tensor:
    return _give(out, _addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _addmm_in(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    return self.copy_(_addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _sparse_sparse_matmul(self: Tensor, other: Tensor) -> Tensor:
    """Where both factors have elements the product has one, also where it is zero."""

    def pattern(matrix: Tensor) -> Tensor:
        ones = torch.ones_like(matrix._values(), dtype=torch.float32)
        return _coo(matrix._indices(), ones, tuple(matrix.shape), coalesced=False).to_dense()

    dense = _product(self, other.to_dense()).to(self.dtype)
    indices = (pattern(self) @ pattern(other)).nonzero().t().contiguous()
    return _coo(indices, dense[tuple(indices)], tuple(dense.shape), coalesced=True)


def _bmm(self: Tensor, mat2: Tensor) -> Tensor:
    if self.layout != torch.sparse_coo:
        raise RuntimeError("bmm_sparse: Tensor 'self' must be sparse and 'mat2' dense")
    batch, rows, columns = self._indices()
    terms = mat2[batch, columns] * self._values()[:, None]
    out = torch.zeros((self.shape[0] * self.shape[1], mat2.shape[2]), dtype=terms.dtype, device=terms.device)
    return out.index_add_(0, batch * self.shape[1] + rows, terms).reshape(self.shape[0], self.shape[1], mat2.shape[2])


def _bmm_out(self: Tensor, mat2: Tensor, *, out: Tensor) -> Tensor:
    return _give(out, _bmm(self, mat2))


def _index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    dim = dim % max(self.dim(), 1)
    size = list(self.shape)
    size[dim] = index.numel()
    indices, values = self._indices(), self._values()
    if dim >= self.sparse_dim():
        values = values.index_select(dim - self.sparse_dim() + 1, index)
        return _coo(indices.clone(), values, tuple(size), coalesced=self.is_coalesced())
    entry, place = (indices[dim][:, None] == index.reshape(1, -1)).nonzero().t()
    chosen = indices[:, entry]
    chosen = torch.cat((chosen[:dim], place[None], chosen[dim + 1 :]))
    return _coo(chosen, values[entry], tuple(size), coalesced=False)


def _sum(self: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    values = self._values() if self.layout == torch.sparse_coo else self.values()
    return values.sum(dtype=dtype)


def _sum_backward(grad: Tensor, self: Tensor, dim: list[int]) -> Tensor:
    """The gradient at the elements of `self`, of a sum over dimensions."""
    # As on the CPU: a coordinate that occurs twice has one gradient.
    self = _coalesce(self)
    gone = {d % self.dim() for d in dim}
    sparse, values = self.sparse_dim(), self._values()
    kept = [d for d in range(sparse) if d not in gone]
    inner = [1 if d in gone else self.shape[d] for d in range(sparse, self.dim())]
    if not kept:
        grown = grad.reshape(1, *inner)
    else:
        grad = _coalesce(grad) if grad.layout == torch.sparse_coo else grad.to_sparse(len(kept))
        sizes = tuple(self.shape[d] for d in kept)
        at, found = _matches(_flat(self._indices()[kept], sizes), _flat(grad._indices(), sizes))
        there = grad._values()
        if there.shape[0] == 0:
            return _like(self, torch.zeros_like(values))
        shaped = found.reshape(-1, *[1] * (there.dim() - 1))
        grown = torch.where(shaped, there[at], torch.zeros_like(there[:1])).reshape(-1, *inner)
    return _like(self, grown.expand(values.shape).clone())


def _softmax_groups(self: Tensor, dim: int) -> tuple[Tensor, Tensor, int]:
    """Which of the values along a sparse dimension belong together."""
    sizes = tuple(n for d, n in enumerate(self.shape[: self.sparse_dim()]) if d != dim)
    others = torch.cat((self._indices()[:dim], self._indices()[dim + 1 :]))
    flat, groups = torch.unique(_flat(others, sizes), return_inverse=True)
    return flat, groups, flat.shape[0]


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    del half_to_float
    self, dim = _coalesce(self), dim % self.dim()
    values = self._values()
    if dim >= self.sparse_dim():
        return _like(self, values.log_softmax(dim - self.sparse_dim() + 1))
    _, groups, count = _softmax_groups(self, dim)
    shape = (count, *values.shape[1:])
    spread = groups.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    most = torch.full(shape, -torch.inf, dtype=values.dtype, device=values.device)
    shifted = values - most.scatter_reduce_(0, spread, values, "amax")[groups]
    return _like(self, shifted - _summed(shifted.exp(), groups, count).log()[groups])


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    result = _log_softmax(self, dim, half_to_float)
    return _like(result, result._values().exp())


def _along(grad: Tensor, output: Tensor, self: Tensor) -> Tensor:
    """The gradient's values at the elements of the result."""
    del self
    return _mask_projection(grad, output)._values()


def _softmax_backward(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    dim = dim % self.dim()
    grad, value = _along(grad_output, output, self), output._values()
    return _like(output, value * (grad - _group_sums(output, grad * value, dim)))


def _log_softmax_backward(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    dim = dim % self.dim()
    grad, value = _along(grad_output, output, self), output._values()
    return _like(output, grad - value.exp() * _group_sums(output, grad, dim))


def _group_sums(output: Tensor, terms: Tensor, dim: int) -> Tensor:
    if dim >= output.sparse_dim():
        return terms.sum(dim - output.sparse_dim() + 1, keepdim=True)
    _, groups, count = _softmax_groups(output, dim)
    return _summed(terms, groups, count)[groups]


_COO = {
    "_coalesce": _coalesce,
    "_sparse_mask_projection": _mask_projection,
    "sparse_mask": _sparse_mask,
    "add.out": _add_out,
    "mul.out": _mul_out,
    "addmm": _addmm,
    "addmm.out": _addmm_out,
    "addmm_": _addmm_in,
    "bmm": _bmm,
    "bmm.out": _bmm_out,
    "index_select": _index_select,
    "sum": _sum,
    "_sparse_sum_backward": _sum_backward,
    "_sparse_sparse_matmul": _sparse_sparse_matmul,
    "_sparse_softmax": _softmax,
    "_sparse_log_softmax": _log_softmax,
    "_sparse_softmax_backward_data": _softmax_backward,
    "_sparse_log_softmax_backward_data": _log_softmax_backward,
}


def install() -> None:
    """Registers the kernels."""
    from torch_tpu._sparse_compressed import COMPRESSED, DENSE

    for key, kernels in (("SparsePrivateUse1", _COO), ("SparseCsrPrivateUse1", COMPRESSED), ("PrivateUse1", DENSE)):
        library = Library("aten", "IMPL")
        for name, kernel in kernels.items():
            library.impl(name, kernel, key)
        _libraries.append(library)
