"""Matrices whose rows are compressed, composed of dense ops as in `_sparse`."""

import torch
from torch import Tensor

from torch_tpu._sparse import _addmm, _addmm_out, _coordinates, _give, _mask_projection, _rows, _sum, _summed


def _compressed_mm(self: Tensor, mat2: Tensor) -> Tensor:
    size = (self.shape[0], mat2.shape[1])
    zeros = torch.zeros(size, dtype=self.dtype, device=self.device)
    product = _addmm(zeros, self, mat2, beta=0)
    return product if torch.strided in (self.layout, mat2.layout) else product.to_sparse_csr()


def _compressed_mul(self: Tensor, other: Tensor) -> Tensor:
    if not isinstance(self, Tensor) or self.layout == torch.strided:
        self, other = other, self
    if not isinstance(other, Tensor) or other.dim() == 0:
        return _with_values(self, self.values() * other)
    other = other if other.layout == torch.strided else other.to_sparse()
    return (self.to_sparse() * other).to_sparse(layout=self.layout)


def _csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """One row of coordinates for each dimension of compressed ones, batches first."""
    dtype = torch.int32 if out_int32 else torch.int64
    batch = crow_indices.shape[:-1]
    rows = crow_indices.shape[-1] - 1
    counts = crow_indices.diff(dim=-1).reshape(-1)
    number = torch.arange(counts.shape[0], device=counts.device).repeat_interleave(
        counts.long(), output_size=col_indices.numel()
    )
    row = (number % max(rows, 1)).to(dtype)
    pair = [row, col_indices.reshape(-1).to(dtype)]
    lead = []
    if batch:
        each = torch.arange(batch.numel(), device=counts.device).repeat_interleave(col_indices.shape[-1])
        lead = list(_coordinates(each, tuple(batch)).to(dtype))
    return torch.stack([*lead, *(pair[::-1] if transpose else pair)])


def _coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    steps = torch.arange(size + 1, device=self.device, dtype=self.dtype)
    return torch.searchsorted(self.contiguous(), steps, out_int32=out_int32)


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_compressed_tensor(
        *(
            (matrix.crow_indices(), matrix.col_indices())
            if matrix.layout == torch.sparse_csr
            else (matrix.ccol_indices(), matrix.row_indices())
        ),
        values,
        matrix.shape,
        layout=matrix.layout,
    )


def _compressed_mask(self: Tensor, mask: Tensor) -> Tensor:
    if mask.layout != torch.sparse_csr:
        return self.to_sparse().sparse_mask(mask.to_sparse()).to_sparse(layout=mask.layout)
    if self.layout == torch.strided:
        *batch, rows, columns = torch._convert_indices_from_csr_to_coo(mask.crow_indices(), mask.col_indices()).long()
        return _with_values(mask, self[(*batch, rows, columns)].reshape(mask.values().shape))
    projected = _mask_projection(self.to_sparse(), mask.to_sparse())
    return _with_values(mask, projected._values().reshape(mask.values().shape))


def _sampled_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    if self.layout != torch.sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected self to have layout SparseCsr, but got {self.layout}")
    coordinates = torch._convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices())
    *batch, rows, columns = coordinates.long()
    left = mat1.expand(*self.shape[:-2], *mat1.shape[-2:])[(*batch, rows)]
    right = mat2.transpose(-1, -2).expand(*self.shape[:-2], mat2.shape[-1], mat2.shape[-2])[(*batch, columns)]
    product = (left * right).sum(-1).reshape(self.values().shape) * alpha
    return _with_values(self, product if beta == 0 else product + self.values() * beta)


def _sampled_addmm_out(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1, out: Tensor
) -> Tensor:
    return _give(out, _sampled_addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _mm_reduce(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """Rows of products, reduced; for `amax` and `amin` also which element each of them came from."""
    rows, columns, values = _rows(self)
    terms = other.index_select(0, columns) * values[:, None]
    count, width = self.shape[0], other.shape[1]
    spread = rows[:, None].expand_as(terms)
    out = torch.zeros((count, width), dtype=terms.dtype, device=terms.device)
    if reduce in ("sum", "mean"):
        # The means of single precision, as CPU torch takes them.
        wide = torch.float32 if terms.dtype in (torch.float16, torch.bfloat16) else terms.dtype
        out = out.to(wide).index_add_(0, rows, terms.to(wide))
        if reduce == "mean":
            out = out / self.crow_indices().diff().clamp(min=1)[:, None]
        return out.to(terms.dtype), torch.empty(0, dtype=torch.int64, device=terms.device)
    out = out.scatter_reduce_(0, spread, terms, reduce, include_self=False)
    nnz = values.shape[0]
    number = torch.arange(nnz, device=terms.device)[:, None].expand_as(terms)
    # The first of equals; rows without elements have none.
    number = torch.where(terms == out[rows], number, nnz)
    arg = torch.full((count, width), nnz, dtype=torch.int64, device=terms.device)
    return out, arg.scatter_reduce_(0, spread, number, "amin")


def _mm_reduce_backward(
    self: Tensor, grad_out: Tensor, weight: Tensor, reduce: str, arg_out: Tensor, output_mask: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    rows, columns, values = _rows(self)
    narrow = values.dtype
    # CPU torch sums in single precision, and rounds the products of what it chose.
    rounds = reduce in ("amax", "amin") or narrow not in (torch.float16, torch.bfloat16)
    wide = narrow if rounds else torch.float32
    grads, values, weight = grad_out[rows].to(wide), values.to(wide), weight.to(wide)
    if reduce == "mean":
        grads = grads / self.crow_indices().diff().clamp(min=1).to(grads.dtype)[rows][:, None]
    if reduce in ("amax", "amin"):
        number = torch.arange(values.shape[0], device=values.device)
        grads = torch.where(arg_out[rows] == number[:, None], grads, torch.zeros_like(grads))
    own = other = None
    if output_mask[0]:
        own = _with_values(self, (grads * weight[columns]).sum(1).to(narrow))
    if output_mask[1]:
        other = _summed(grads * values[:, None], columns, self.shape[1]).to(narrow)
    return own, other


COMPRESSED = {
    "addmm": _addmm,
    "addmm.out": _addmm_out,
    "mm": _compressed_mm,
    "mul.Tensor": _compressed_mul,
    "sum": _sum,
    "sparse_mask": _compressed_mask,
    "sparse_sampled_addmm": _sampled_addmm,
    "sparse_sampled_addmm.out": _sampled_addmm_out,
    "_sparse_mm_reduce_impl": _mm_reduce,
    "_sparse_mm_reduce_impl_backward": _mm_reduce_backward,
}
DENSE = {
    "_convert_indices_from_csr_to_coo": _csr_to_coo,
    "_convert_indices_from_coo_to_csr": _coo_to_csr,
}
