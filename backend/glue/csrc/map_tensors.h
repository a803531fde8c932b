// An argument with each of its tensors replaced.
#pragma once
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace tpu {

// Applies `one` (at::Tensor of const at::Tensor&) to a tensor, or to those of a list; undefined ones come to it too. Other
// values stay as they are.
template <class F>
c10::IValue map_tensors(const c10::IValue& value, F&& one) {
  if (value.isTensor()) return one(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (at::Tensor tensor : value.toTensorList()) list.push_back(one(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional<at::Tensor>(one(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace tpu
