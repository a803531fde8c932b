// Sparse tensors: torch's kernels that hold for every device, for the device's sparse keys. What the CPU computes by loops is
// composed of dense ops in python/torch_tpu/_sparse.py.
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include "hooks.h"

namespace tpu {

namespace {

namespace native = at::native;

// Functional, in-place and out= forms of an elementwise op that gives zero for zero.
#define FOR_EACH_UNARY(_)                                                                                              \
  _(abs) _(asin) _(asinh) _(atan) _(atanh) _(ceil) _(deg2rad) _(erf) _(erfinv) _(expm1) _(floor) _(frac) _(log1p)      \
  _(rad2deg) _(round) _(sgn) _(sign) _(sin) _(sinh) _(sqrt) _(tan) _(tanh) _(trunc)

#define FOR_EACH_PREDICATE(_) _(isneginf) _(isposinf) _(signbit)

void register_coo(torch::Library& m) {
  m.impl("_coalesced_", TORCH_FN(native::_coalesced_sparse_));
  m.impl("_dimI", TORCH_FN(native::sparse_dim_sparse));
  m.impl("_dimV", TORCH_FN(native::dense_dim_sparse));
  m.impl("_indices", TORCH_FN(native::_indices_sparse));
  m.impl("_nnz", TORCH_FN(native::_nnz_sparse));
  m.impl("_sparse_broadcast_to", TORCH_FN(native::sparse_broadcast_to));
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(native::new_with_dims_sparse));
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(native::new_with_dims_and_tensor_sparse_symint));
  m.impl("_to_dense", TORCH_FN(native::sparse_to_dense));
  m.impl("_to_sparse_csr", TORCH_FN(native::coo_to_sparse_csr));
  m.impl("_to_sparse_csc", TORCH_FN(native::coo_to_sparse_csc));
  m.impl("_values", TORCH_FN(native::_values_sparse));
  m.impl("add.Tensor", TORCH_FN(native::add_sparse));
  m.impl("add_.Tensor", TORCH_FN(native::add_sparse_));
  m.impl("any", TORCH_FN(native::any_sparse));
  m.impl("cat", TORCH_FN(native::cat_sparse));
  m.impl("clone", TORCH_FN(native::clone_sparse));
  m.impl("conj_physical.out", TORCH_FN(native::conj_physical_out_sparse));
  m.impl("copy_", TORCH_FN(native::copy_sparse_wrapper_));
  m.impl("copy_sparse_to_sparse_", TORCH_FN(native::copy_sparse_));
  m.impl("dense_dim", TORCH_FN(native::dense_dim_sparse));
  m.impl("empty.memory_format", TORCH_FN(native::empty_sparse));
  m.impl("empty_like", TORCH_FN(native::empty_like_sparse_coo));
  m.impl("indices", TORCH_FN(native::indices_sparse));
  m.impl("is_coalesced", TORCH_FN(native::is_coalesced_sparse));
  m.impl("is_pinned", TORCH_FN(native::is_pinned_sparse_coo));
  m.impl("isinf", TORCH_FN(native::isinf_sparse));
  m.impl("isnan", TORCH_FN(native::isnan_sparse));
  m.impl("linalg_vector_norm", TORCH_FN(native::linalg_vector_norm_sparse));
  m.impl("mm.out", TORCH_FN(native::_sparse_mm_out));
  m.impl("mul.Tensor", TORCH_FN(native::mul_sparse));
  m.impl("mul_.Tensor", TORCH_FN(native::mul_sparse_));
  m.impl("mv", TORCH_FN(native::mv_sparse));
  m.impl("narrow_copy", TORCH_FN(native::narrow_copy_sparse));
  m.impl("nan_to_num", TORCH_FN(native::nan_to_num_sparse));
  m.impl("nan_to_num.out", TORCH_FN(native::nan_to_num_sparse_out));
  m.impl("nan_to_num_", TORCH_FN(native::nan_to_num_sparse_));
  m.impl("norm.ScalarOpt_dim", TORCH_FN(native::sparse_norm));
  m.impl("norm.ScalarOpt_dim_dtype", TORCH_FN(native::sparse_dtype_norm));
  m.impl("permute", TORCH_FN(native::permute_sparse_coo));
  m.impl("pow.Tensor_Scalar", TORCH_FN(native::pow_sparse_scalar));
  m.impl("pow.Tensor_Scalar_out", TORCH_FN(native::pow_out_sparse_scalar));
  m.impl("neg", TORCH_FN(native::neg_sparse));
  m.impl("neg_", TORCH_FN(native::neg_sparse_));
  m.impl("neg.out", TORCH_FN(native::neg_out_sparse));
  m.impl("relu", TORCH_FN(native::relu_sparse));
  m.impl("relu_", TORCH_FN(native::relu_sparse_));
  m.impl("resize_as_sparse_", TORCH_FN(native::resize_as_sparse_));
  m.impl("sparse_dim", TORCH_FN(native::sparse_dim_sparse));
  m.impl("sparse_resize_", TORCH_FN(native::sparse_resize_));
  m.impl("sparse_resize_and_clear_", TORCH_FN(native::sparse_resize_and_clear_));
  m.impl("sub.Tensor", TORCH_FN(native::sub_sparse));
  m.impl("sub.out", TORCH_FN(native::sub_out_sparse));
  m.impl("sub_.Tensor", TORCH_FN(native::sub_sparse_));
  m.impl("sum.dim_IntList", TORCH_FN(native::sum_sparse_coo));
  m.impl("threshold_backward", TORCH_FN(native::threshold_backward_sparse));
  m.impl("threshold_backward.grad_input", TORCH_FN(native::threshold_backward_sparse_out));
  m.impl("unsqueeze", TORCH_FN(native::unsqueeze_sparse));
  m.impl("values", TORCH_FN(native::values_sparse));
  m.impl("view_as_complex", TORCH_FN(native::view_as_complex_sparse));
  m.impl("view_as_real", TORCH_FN(native::view_as_real_sparse));
  m.impl("zero_", TORCH_FN(native::zero_sparse_));
  m.impl("zeros.out", TORCH_FN(native::zeros_sparse_out));
  m.impl("floor_divide", TORCH_FN(native::floor_divide_sparse));
  m.impl("floor_divide.out", TORCH_FN(native::floor_divide_out_sparse_zerodim));
  m.impl("floor_divide_.Tensor", TORCH_FN(native::floor_divide_sparse_));
  // Names of overloads choose among C++ functions of one name.
  using Binary = at::Tensor(const at::Tensor&, const at::Tensor&);
  using Rounded = at::Tensor(const at::Tensor&, const at::Tensor&, std::optional<c10::string_view>);
  using BinaryOut = at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&);
  using RoundedOut = at::Tensor&(const at::Tensor&, const at::Tensor&, std::optional<c10::string_view>, at::Tensor&);
  using BinaryIn = at::Tensor&(at::Tensor&, const at::Tensor&);
  using RoundedIn = at::Tensor&(at::Tensor&, const at::Tensor&, std::optional<c10::string_view>);
  m.impl("mm", static_cast<Binary*>(native::_sparse_mm));
  m.impl("div.Tensor", static_cast<Binary*>(native::div_sparse));
  m.impl("div.Tensor_mode", static_cast<Rounded*>(native::div_sparse));
  m.impl("div.out", static_cast<BinaryOut*>(native::div_out_sparse_zerodim));
  m.impl("div.out_mode", static_cast<RoundedOut*>(native::div_out_sparse_zerodim));
  m.impl("div_.Tensor", static_cast<BinaryIn*>(native::div_sparse_));
  m.impl("div_.Tensor_mode", static_cast<RoundedIn*>(native::div_sparse_));
  using Norm = at::Tensor(const at::Tensor&, const at::Scalar&);
  using NormOf = at::Tensor(const at::Tensor&, const std::optional<at::Scalar>&, at::IntArrayRef, bool,
                            std::optional<at::ScalarType>);
  m.impl("native_norm", static_cast<Norm*>(native::norm_sparse));
  m.impl("native_norm.ScalarOpt_dim_dtype", static_cast<NormOf*>(native::norm_sparse));
  using Again = at::Tensor(const at::Tensor&, std::optional<at::Layout>, at::OptionalIntArrayRef, std::optional<int64_t>);
  using ByDims = at::Tensor(const at::Tensor&, int64_t);
  m.impl("_to_sparse", static_cast<Again*>(native::sparse_coo_to_sparse));
  m.impl("_to_sparse.sparse_dim", static_cast<ByDims*>(native::sparse_coo_to_sparse));
#define REGISTER(op)                                          \
  m.impl(#op, TORCH_FN(native::op##_sparse));                 \
  m.impl(#op "_", TORCH_FN(native::op##_sparse_));            \
  m.impl(#op ".out", TORCH_FN(native::op##_sparse_out));
  FOR_EACH_UNARY(REGISTER)
#undef REGISTER
#define REGISTER(op)                          \
  m.impl(#op, TORCH_FN(native::op##_sparse)); \
  m.impl(#op ".out", TORCH_FN(native::op##_sparse_out));
  FOR_EACH_PREDICATE(REGISTER)
#undef REGISTER
}

void register_compressed(torch::Library& m) {
  m.impl("_nnz", TORCH_FN(native::_nnz_sparse_csr));
  m.impl("_to_dense", TORCH_FN(native::sparse_compressed_to_dense));
  m.impl("_to_sparse_csr", TORCH_FN(native::sparse_compressed_to_sparse_csr));
  m.impl("_to_sparse_csc", TORCH_FN(native::sparse_compressed_to_sparse_csc));
  m.impl("ccol_indices", TORCH_FN(native::ccol_indices_sparse_csr));
  m.impl("clone", TORCH_FN(native::clone_sparse_compressed));
  m.impl("col_indices", TORCH_FN(native::col_indices_sparse_csr));
  m.impl("copy_", TORCH_FN(native::copy_sparse_compressed_));
  m.impl("crow_indices", TORCH_FN(native::crow_indices_sparse_csr));
  m.impl("dense_dim", TORCH_FN(native::dense_dim_sparse_csr));
  m.impl("empty.memory_format", TORCH_FN(native::empty_sparse_compressed));
  m.impl("empty_like", TORCH_FN(native::empty_like_sparse_csr));
  m.impl("is_pinned", TORCH_FN(native::is_pinned_sparse_compressed));
  m.impl("isinf", TORCH_FN(native::isinf_sparse_csr));
  m.impl("isnan", TORCH_FN(native::isnan_sparse_csr));
  m.impl("mul.Scalar", TORCH_FN(native::mul_scalar_sparse_csr));
  m.impl("mul_.Scalar", TORCH_FN(native::mul__scalar_sparse_csr));
  m.impl("neg", TORCH_FN(native::neg_sparse_csr));
  m.impl("neg_", TORCH_FN(native::neg_sparse_csr_));
  m.impl("neg.out", TORCH_FN(native::neg_sparse_csr_out));
  m.impl("relu", TORCH_FN(native::relu_sparse_csr));
  m.impl("relu_", TORCH_FN(native::relu_sparse_csr_));
  m.impl("resize_as_sparse_", TORCH_FN(native::resize_as_sparse_compressed_));
  m.impl("row_indices", TORCH_FN(native::row_indices_sparse_csr));
  m.impl("select.int", TORCH_FN(native::select_sparse_csr));
  m.impl("sparse_dim", TORCH_FN(native::sparse_dim_sparse_csr));
  m.impl("values", TORCH_FN(native::values_sparse_csr));
  m.impl("zero_", TORCH_FN(native::zero_sparse_csr_));
  using Again = at::Tensor(const at::Tensor&, std::optional<at::Layout>, at::OptionalIntArrayRef, std::optional<int64_t>);
  using ByDims = at::Tensor(const at::Tensor&, int64_t);
  m.impl("_to_sparse", static_cast<Again*>(native::sparse_compressed_to_sparse));
  m.impl("_to_sparse.sparse_dim", static_cast<ByDims*>(native::sparse_compressed_to_sparse));
#define REGISTER(op)                                              \
  m.impl(#op, TORCH_FN(native::op##_sparse_csr));                 \
  m.impl(#op "_", TORCH_FN(native::op##_sparse_csr_));            \
  m.impl(#op ".out", TORCH_FN(native::op##_sparse_csr_out));
  FOR_EACH_UNARY(REGISTER)
#undef REGISTER
#define REGISTER(op)                              \
  m.impl(#op, TORCH_FN(native::op##_sparse_csr)); \
  m.impl(#op ".out", TORCH_FN(native::op##_sparse_csr_out));
  FOR_EACH_PREDICATE(REGISTER)
#undef REGISTER
}

// From dense tensors to sparse ones.
void register_dense(torch::Library& m) {
  using Again = at::Tensor(const at::Tensor&, std::optional<at::Layout>, at::OptionalIntArrayRef, std::optional<int64_t>);
  using ByDims = at::Tensor(const at::Tensor&, int64_t);
  m.impl("_to_sparse", static_cast<Again*>(native::dense_to_sparse));
  m.impl("_to_sparse.sparse_dim", static_cast<ByDims*>(native::dense_to_sparse));
  m.impl("_to_sparse_csr", TORCH_FN(native::dense_to_sparse_csr));
  m.impl("_to_sparse_csc", TORCH_FN(native::dense_to_sparse_csc));
}

torch::Library& library(c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
}

}  // namespace

void register_sparse() {
  register_coo(library(c10::DispatchKey::SparsePrivateUse1));
  register_compressed(library(c10::DispatchKey::SparseCsrPrivateUse1));
  register_dense(library(c10::DispatchKey::PrivateUse1));
}

}  // namespace tpu
