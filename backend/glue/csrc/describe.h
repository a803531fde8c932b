// A torch tensor as the core sees it.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "abi.h"

namespace tpu {

// The data pointer is the core's storage, also in tensors that torch makes by from_blob over another's (as writing a storage
// to a file does), where the context is not ours.
inline void* storage_of(const c10::TensorImpl* impl) {
  return impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

// Fills `out`; false when the core cannot take the tensor (host memory with dimensions, sparse, nested, another device).
inline bool describe(const at::Tensor& tensor, TensorArg* out) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(!tensor.defined())) {
    std::memset(out, 0, sizeof *out);
    return true;
  }
  const auto sizes = impl->sizes();
  out->sizes = sizes.data();
  out->ndim = static_cast<uint32_t>(sizes.size());
  out->dtype = static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype()));
  out->flags = impl->is_wrapped_number() ? kWrappedNumber : 0;
  const auto device = impl->device();
  out->device = device.index();
  if (C10_LIKELY(device.type() == c10::DeviceType::PrivateUse1)) {
    if (C10_UNLIKELY(!impl->has_storage() || tensor.layout() != c10::kStrided)) return false;
    out->kind = kDevice;
    out->storage = storage_of(impl);
    out->strides = impl->strides().data();
    out->offset = impl->storage_offset();
    return true;
  }
  if (device.type() != c10::DeviceType::CPU || !sizes.empty() || tensor.layout() != c10::kStrided) return false;
  out->kind = kHostScalar;
  out->storage = nullptr;
  out->strides = nullptr;
  out->offset = 0;
  out->scalar[0] = out->scalar[1] = 0;
  std::memcpy(out->scalar, impl->data(), impl->itemsize());
  return true;
}

}  // namespace tpu
