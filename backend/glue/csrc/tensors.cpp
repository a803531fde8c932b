// Creation, metadata and copies: what concerns tensors rather than their elements.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "allocator.h"
#include "describe.h"
#include "error.h"
#include "guard.h"
#include "hooks.h"

namespace tpu {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return {c10::DeviceType::PrivateUse1, current_device()};
}

void check_request(std::optional<c10::Layout> layout, std::optional<bool> pinned) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "tpu tensors are strided; ", *layout, " is not supported");
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
}

// Says in which sizes, outermost first in memory, the tensor will be filled.
void hint(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) return;
  const auto sizes = tensor.sizes();
  core->storage_hint(storage_of(tensor.unsafeGetTensorImpl()), static_cast<int8_t>(tensor.scalar_type()), sizes.data(),
                     static_cast<uint32_t>(sizes.size()));
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pinned,
                 std::optional<at::MemoryFormat> format) {
  check_request(layout, pinned);
  const c10::DeviceGuard guard(device_or_current(device));
  at::Tensor tensor = at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
  hint(tensor);
  return tensor;
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pinned) {
  check_request(layout, pinned);
  const c10::DeviceGuard guard(device_or_current(device));
  at::Tensor tensor = at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype));
  hint(tensor);
  return tensor;
}

void ensure_storage(c10::TensorImpl* impl, at::IntArrayRef size, std::optional<at::IntArrayRef> stride) {
  const auto item = impl->itemsize();
  const auto offset = impl->storage_offset();
  const size_t needed = stride
      ? at::detail::computeStorageNbytes(size, *stride, item, offset)
      : at::detail::computeStorageNbytesContiguous(size, item, offset);
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (c10::multiply_integers(size) != 0 && needed > storage->nbytes()) resize_storage(storage, needed);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) {
    impl->set_sizes_contiguous(size);
    ensure_storage(impl, size, std::nullopt);
  }
  if (format && *format != at::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(storage), offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() != nullptr) {
    impl->set_sizes_and_strides(size, stride);
    ensure_storage(impl, size, stride);
  } else {
    impl->set_sizes_contiguous(size);
    ensure_storage(impl, size, std::nullopt);
  }
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  const auto elements = static_cast<int64_t>(storage.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(storage), 0, {elements}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  caffe2::TypeMeta dtype = self.dtype();
  const c10::DeviceGuard guard(self.device());
  at::Storage storage(at::Storage::use_byte_size_t{}, 0, allocator()->allocate(0), allocator(), true);
  set_storage(self, std::move(storage), 0, {0}, {});
  TORCH_INTERNAL_ASSERT(dtype == self.dtype());
  return self;
}

TensorArg described(const at::Tensor& tensor) {
  TensorArg arg;
  TORCH_CHECK_NOT_IMPLEMENTED(describe(tensor, &arg), "a ", tensor.layout(), " tensor on ", tensor.device(),
                              " cannot be copied to or from tpu");
  return arg;
}

// The elements that the bits of a lazily conjugated or negated view stand for.
at::Tensor resolved(const at::Tensor& tensor) {
  at::Tensor plain = tensor;
  if (plain.is_conj()) plain = at::conj_physical(plain.conj());
  if (plain.is_neg()) plain = at::neg(plain._neg_view());
  return plain;
}

void download(const at::Tensor& src, at::Tensor dst) {
  const bool direct = dst.is_contiguous() && dst.scalar_type() == src.scalar_type() && !dst.is_conj() && !dst.is_neg();
  at::Tensor host = direct ? dst : at::empty(src.sizes(), dst.options().dtype(src.scalar_type()));
  const auto arg = described(src);
  check(core->download(&arg, host.mutable_data_ptr(), host.nbytes()));
  if (!direct) dst.copy_(host);
}

void upload(const at::Tensor& src, const at::Tensor& dst) {
  const auto host = src.to(dst.scalar_type()).resolve_conj().resolve_neg().contiguous();
  const auto arg = described(dst);
  check(core->upload(host.const_data_ptr(), host.nbytes(), &arg));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  if (dst.numel() == 0 && self.numel() == 0) return dst;
  const auto kType = c10::DeviceType::PrivateUse1;
  at::Tensor src = self.sizes() == dst.sizes() ? self : self.expand(dst.sizes());
  if (dst.numel() == 0) return dst;
  if (src.device().type() == kType) src = resolved(src);
  if (dst.device().type() == kType) {
    at::assert_no_internal_overlap(dst);
    if (src.is_alias_of(dst)) at::assert_no_partial_overlap(dst, src);
  }
  at::Tensor target = dst;
  at::Tensor owned;
  if (dst.device().type() == kType && (dst.is_conj() || dst.is_neg())) {
    // Write the elements that the view's bit turns into the wanted ones.
    owned = src.to(dst.device(), dst.scalar_type());
    if (dst.is_conj()) owned = at::conj_physical(owned);
    if (dst.is_neg()) owned = at::neg(owned);
    src = owned;
    target = dst.is_conj() ? dst.conj() : dst;
    if (target.is_neg()) target = target._neg_view();
  }
  if (src.device().is_cpu() && target.device().type() == kType) {
    upload(src, target);
  } else if (src.device().type() == kType && target.device().is_cpu()) {
    download(src, target);
  } else if (src.device().type() == kType && target.device().type() == kType) {
    const auto from = described(src), to = described(target);
    check(core->copy(&from, &to));
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "copies from ", src.device(), " to ", target.device(), " are not supported: go through the CPU");
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  const auto plain = resolved(self);
  at::Tensor host = at::detail::empty_cpu({}, plain.scalar_type());
  const auto arg = described(plain);
  check(core->download(&arg, host.mutable_data_ptr(), host.nbytes()));
  return host.item();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              other.device(), "!");
  TORCH_CHECK(self.dtype() == other.dtype(), "Expected object of data type ", self.dtype(), " but got data type ",
              other.dtype(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::all(at::eq(self, other)).item<bool>();
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
      self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() && self.strides() == other.strides();
}

// What lets `parameter.data = parameter.to("tpu")` and module.to keep the parameter itself, as for CUDA.
bool compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& tensor) { return tensor.layout() == c10::kStrided && !tensor.is_meta(); };
  return plain(self) && plain(from);
}

void record_stream(at::Tensor&, c10::Stream) {
  // One queue a device: memory is not reused before the work that reads it was launched.
}

}  // namespace

void register_tensors() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto& m = *library;
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("equal", TORCH_FN(equal));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(compatible_shallow_copy_type));
  m.impl("record_stream", TORCH_FN(record_stream));
  // Copies see lazy conjugation and negation themselves: torch's fallbacks for those bits would copy in order to copy.
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    auto* bits = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    for (const auto* name : {"_copy_from", "_copy_from_and_resize"}) bits->impl(name, torch::CppFunction::makeFallthrough());
  }
}

}  // namespace tpu
