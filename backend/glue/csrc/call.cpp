#include "call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>

#include "allocator.h"
#include "describe.h"
#include "error.h"
#include "guard.h"
#include "map_tensors.h"

namespace tpu {

namespace {

at::Tensor to_meta(const at::Tensor& tensor) {
  // Host scalars stay: Meta kernels promote them as the op itself would.
  if (!tensor.defined() || (tensor.device().is_cpu() && tensor.dim() == 0) || tensor.layout() != c10::kStrided) {
    return tensor;
  }
  at::Tensor meta = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

c10::IValue to_meta(const c10::IValue& value) {
  if (value.isDevice()) return c10::IValue(c10::Device(c10::kMeta));
  if (value.isGenerator()) return c10::IValue();
  return map_tensors(value, [](const at::Tensor& tensor) { return to_meta(tensor); });
}

void append(const c10::IValue& value, std::vector<at::Tensor>* out) {
  if (value.isTensor()) {
    out->push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (at::Tensor tensor : value.toTensorList()) out->push_back(tensor);
  }
}

// A view whose elements are the conjugates or the negatives of those in memory.
bool is_lazy(const at::Tensor& tensor) {
  return C10_UNLIKELY(tensor.defined() && (tensor.is_conj() || tensor.is_neg()));
}

at::Tensor make_tensor(const TensorResult& result) {
  const auto device = static_cast<c10::DeviceIndex>(result.device);
  c10::Storage storage(c10::Storage::use_byte_size_t{}, static_cast<size_t>(result.nbytes),
                       adopt(result.storage, device), allocator(), true);
  auto tensor = at::detail::make_tensor_base<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(result.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides({result.sizes, result.ndim}, {result.strides, result.ndim});
  return tensor;
}

}  // namespace

Call::Call(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack* stack)
    : op_(op), info_(info), stack_(stack), first_(stack->size() - info.kinds.size()) {}

template <class T>
T* Call::allocate(size_t count) {
  const size_t bytes = (count * sizeof(T) + 15) / 16 * 16;
  if (used_ + bytes <= sizeof inline_) {
    void* at = inline_ + used_;
    used_ += bytes;
    return static_cast<T*>(at);
  }
  more_.emplace_back(bytes);
  return reinterpret_cast<T*>(more_.back().data());
}

bool Call::add(const c10::IValue& value, Tag tag, Arg* out) {
  out->tag = kTagNone;
  out->len = 0;
  out->payload = 0;
  out->imaginary = 0;
  if (value.isNone()) return true;
  switch (tag) {
    case kTagTensor: {
      const auto& tensor = value.toTensor();
      lazy_ |= is_lazy(tensor);
      auto* arg = allocate<TensorArg>(1);
      if (!describe(tensor, arg)) return false;
      if (device_ < 0 && arg->kind == kDevice) device_ = arg->device;
      out->tag = kTagTensor;
      out->payload = reinterpret_cast<uint64_t>(arg);
      return true;
    }
    case kTagTensors: {
      const auto list = value.toListRef();
      auto* args = allocate<TensorArg>(list.size());
      for (size_t i = 0; i < list.size(); i++) {
        if (list[i].isNone()) {
          std::memset(&args[i], 0, sizeof args[i]);
          continue;
        }
        lazy_ |= is_lazy(list[i].toTensor());
        if (!describe(list[i].toTensor(), &args[i])) return false;
        if (device_ < 0 && args[i].kind == kDevice) device_ = args[i].device;
      }
      out->tag = kTagTensors;
      out->len = static_cast<uint32_t>(list.size());
      out->payload = reinterpret_cast<uint64_t>(args);
      return true;
    }
    case kTagFloat:
    case kTagInt:
    case kTagBool:
    case kTagDtype: {
      if (value.isInt()) {
        out->tag = tag == kTagDtype ? kTagDtype : kTagInt;
        out->payload = static_cast<uint64_t>(value.toInt());
      } else if (value.isDouble()) {
        const double real = value.toDouble();
        out->tag = kTagFloat;
        std::memcpy(&out->payload, &real, sizeof real);
      } else if (value.isBool()) {
        out->tag = kTagBool;
        out->payload = value.toBool();
      } else if (value.isComplexDouble()) {
        const auto number = value.toComplexDouble();
        const double real = number.real();
        out->tag = kTagComplex;
        std::memcpy(&out->payload, &real, sizeof real);
        out->imaginary = number.imag();
      } else {
        return false;
      }
      return true;
    }
    case kTagInts: {
      if (value.isInt()) return add(value, kTagInt, out);
      const auto list = value.toListRef();
      auto* ints = allocate<int64_t>(list.size());
      for (size_t i = 0; i < list.size(); i++) {
        if (!list[i].isInt()) return false;
        ints[i] = list[i].toInt();
      }
      out->tag = kTagInts;
      out->len = static_cast<uint32_t>(list.size());
      out->payload = reinterpret_cast<uint64_t>(ints);
      return true;
    }
    case kTagFloats: {
      const auto list = value.toListRef();
      auto* floats = allocate<double>(list.size());
      for (size_t i = 0; i < list.size(); i++) floats[i] = list[i].toDouble();
      out->tag = kTagFloats;
      out->len = static_cast<uint32_t>(list.size());
      out->payload = reinterpret_cast<uint64_t>(floats);
      return true;
    }
    case kTagBools: {
      const auto list = value.toListRef();
      auto* bools = allocate<uint8_t>(list.size());
      for (size_t i = 0; i < list.size(); i++) bools[i] = list[i].toBool();
      out->tag = kTagBools;
      out->len = static_cast<uint32_t>(list.size());
      out->payload = reinterpret_cast<uint64_t>(bools);
      return true;
    }
    case kTagScalars: {
      const auto list = value.toListRef();
      auto* scalars = allocate<Arg>(list.size());
      for (size_t i = 0; i < list.size(); i++) {
        if (!add(list[i], kTagFloat, &scalars[i])) return false;
      }
      out->tag = kTagScalars;
      out->len = static_cast<uint32_t>(list.size());
      out->payload = reinterpret_cast<uint64_t>(scalars);
      return true;
    }
    case kTagStr: {
      const auto& text = value.toStringRef();
      out->tag = kTagStr;
      out->len = static_cast<uint32_t>(text.size());
      out->payload = reinterpret_cast<uint64_t>(text.data());
      return true;
    }
    case kTagDevice:
      out->tag = kTagDevice;
      out->payload = static_cast<uint64_t>(value.toDevice().index());
      if (device_ < 0 && value.toDevice().type() == c10::DeviceType::PrivateUse1) device_ = value.toDevice().index();
      return true;
    case kTagGenerator:
      out->tag = kTagGenerator;
      out->payload = reinterpret_cast<uint64_t>(value.toGenerator().unsafeGetGeneratorImpl());
      return true;
    default:
      return true;
  }
}

// As torch's own kernels.
void Call::check_overlap(size_t written) const {
  using Operands = OpInfo::Operands;
  const auto& target = (*stack_)[first_ + written].toTensor();
  at::assert_no_internal_overlap(target);
  for (size_t i = 0; info_.distinct && i < written; i++) {
    if (!info_.written[i]) continue;
    const auto status = at::get_overlap_status((*stack_)[first_ + i].toTensor(), target);
    TORCH_CHECK_VALUE(status == at::MemOverlapStatus::No, "aminmax(): the `min` and `max` out= tensors must not overlap.");
  }
  if (info_.writes == Operands::kAny) return;
  const auto check = [&](const at::Tensor& operand) {
    if (!operand.defined() || !operand.is_alias_of(target)) return;
    if (info_.writes == Operands::kWhole) return at::assert_no_partial_overlap(target, operand);
    at::assert_no_overlap(target, operand);
  };
  for (size_t i = info_.writes == Operands::kFirst ? 1 : 0; i < info_.kinds.size(); i++) {
    const auto& value = (*stack_)[first_ + i];
    if (i == written) continue;
    if (value.isTensor()) check(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& operand : value.toTensorList()) check(operand);
    }
  }
}

Status Call::run() {
  const size_t count = info_.kinds.size();
  // Results may have torch's default dtype: another one than float32 is a part of the program's key.
  const auto fallback_type = c10::get_default_dtype_as_scalartype();
  const size_t sent = count + (fallback_type != c10::kFloat ? 1 : 0);
  args_.resize(sent);
  if (C10_UNLIKELY(sent != count)) args_[count] = {kTagNone, static_cast<uint32_t>(fallback_type), 0, 0};
  for (;;) {
    used_ = 0;
    more_.clear();
    for (size_t i = 0; i < count; i++) {
      const auto& value = (*stack_)[first_ + i];
      if (C10_UNLIKELY(!add(value, info_.tags[i], &args_[i]))) return kNoLowering;
      if (C10_UNLIKELY(info_.written[i]) && !info_.fills && value.isTensor() && value.toTensor().defined()) {
        check_overlap(i);
      }
    }
    if (C10_UNLIKELY(lazy_)) {
      resolve();
      continue;
    }
    if (device_ < 0) device_ = current_device();
    Results results{};
    const auto status = static_cast<Status>(
        core->dispatch(info_.op, args_.data(), static_cast<uint32_t>(sent), device_, this, &results));
    if (status == kRetry) continue;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    for (auto& [i, given] : written_lazily_) {
      auto& slot = (*stack_)[first_ + i];
      if (status == kOk) copies.emplace_back(given, slot.toTensor());
      slot = given;
    }
    if (C10_LIKELY(status == kOk)) push_results(results);
    // Only now: the results lie in the core until this thread's next call, and a copy is one.
    for (auto& [given, value] : copies) given.copy_(value);
    return status;
  }
}

// torch resolves lazy views before most ops, but leaves those of products and decompositions to the backend.
void Call::resolve() {
  lazy_ = false;
  for (size_t i = 0; i < info_.kinds.size(); i++) {
    auto& value = (*stack_)[first_ + i];
    if (value.isTensor() && info_.written[i] && is_lazy(value.toTensor())) written_lazily_.emplace_back(i, value.toTensor());
    value = map_tensors(value, [](const at::Tensor& tensor) {
      return is_lazy(tensor) ? tensor.resolve_conj().resolve_neg() : tensor;
    });
  }
}

void Call::push_results(const Results& results) {
  auto& stack = *stack_;
  c10::SmallVector<c10::IValue, 4> returned;
  size_t next = 0;
  for (uint32_t r = 0; r < results.returns; r++) {
    const int32_t count = results.counts[r];
    if (count == -2) {
      returned.emplace_back(stack[first_ + info_.return_alias[r]]);
    } else if (count == -1) {
      const auto& result = results.tensors[next++];
      returned.emplace_back(result.defined ? make_tensor(result) : at::Tensor());
    } else {
      c10::List<at::Tensor> list;
      list.reserve(count);
      for (int32_t i = 0; i < count; i++) list.push_back(make_tensor(results.tensors[next++]));
      returned.emplace_back(std::move(list));
    }
  }
  stack.resize(first_);
  for (auto& value : returned) stack.emplace_back(std::move(value));
}

void Call::add_result(const at::Tensor& tensor) {
  TensorResult result{};
  if (tensor.defined()) {
    result.defined = 1;
    result.sizes = tensor.sizes().data();
    result.strides = tensor.strides().data();
    result.ndim = static_cast<uint32_t>(tensor.dim());
    result.dtype = static_cast<int8_t>(tensor.scalar_type());
  }
  results_.push_back(result);
}

// CPU kernels refuse dtypes that Meta kernels let pass (`~` of floats, floats written to integers). Run on zeros of the same sizes, once a signature,
// to give users that error; other errors may be due to the zeros and are not ours to judge.
void Call::probe_on_cpu() const {
  constexpr int64_t kMostElements = 1 << 14;
  torch::jit::Stack copy;
  int64_t elements = 0;
  bool fit = true;
  const auto zeros = [&](const at::Tensor& tensor) -> at::Tensor {
    if (!tensor.defined() || tensor.device().is_cpu()) return tensor;
    // What the CPU lacks in the small floating types, accelerators have.
    fit &= !c10::isReducedFloatingType(tensor.scalar_type()) && tensor.layout() == c10::kStrided;
    elements += tensor.numel();
    return fit && elements <= kMostElements ? at::zeros(tensor.sizes(), tensor.options().device(c10::kCPU)) : tensor;
  };
  for (size_t i = first_; i < stack_->size(); i++) {
    const auto& value = (*stack_)[i];
    if (info_.kinds[i - first_] == kGenerator || value.isDevice()) return;
    copy.push_back(map_tensors(value, zeros));
  }
  if (!fit || elements > kMostElements) return;
  try {
    op_.callBoxed(&copy);
  } catch (const c10::NotImplementedError& e) {
    if (std::strstr(e.what_without_backtrace(), "not implemented for '") != nullptr) throw;
  } catch (const std::exception& e) {
    if (std::strstr(e.what(), "can't be cast to the desired output type") != nullptr) throw;
  }
}

void Call::meta(Results* out) {
  meta_inputs_.clear();
  for (size_t i = first_; i < stack_->size(); i++) meta_inputs_.push_back(to_meta((*stack_)[i]));
  meta_stack_ = meta_inputs_;
  // A structured op's composite kernel checks as every backend's does; torch's Python replaces some Meta kernels by ones
  // that let more pass. Nothing is registered for this key, so the composite kernel answers for it.
  const auto key = info_.structured && !plain_meta_ ? c10::DispatchKey::PrivateUse3 : c10::DispatchKey::Meta;
  op_.redispatchBoxed(c10::DispatchKeySet(key), &meta_stack_);
  probe_on_cpu();
  results_.clear();
  counts_.clear();
  for (size_t r = 0; r < meta_stack_.size(); r++) {
    if (info_.return_alias[r] >= 0) {
      counts_.push_back(-2);
    } else if (meta_stack_[r].isTensor()) {
      counts_.push_back(-1);
      add_result(meta_stack_[r].toTensor());
    } else if (meta_stack_[r].isTensorList()) {
      const auto list = meta_stack_[r].toTensorVector();
      counts_.push_back(static_cast<int32_t>(list.size()));
      for (const auto& tensor : list) add_result(tensor);
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, op_.operator_name(), " returns something that is no tensor");
    }
  }
  *out = {results_.data(), counts_.data(), static_cast<uint32_t>(counts_.size()), static_cast<uint32_t>(results_.size())};
}

std::vector<at::Tensor> Call::written_tensors(const torch::jit::Stack& stack) const {
  const size_t first = stack.size() - info_.kinds.size();
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < info_.kinds.size(); i++) {
    if (info_.written[i]) append(stack[first + i], &out);
  }
  return out;
}

void Call::meta_written(Results* out) {
  results_.clear();
  counts_.clear();
  for (const auto& tensor : written_tensors(meta_inputs_)) add_result(tensor);
  *out = {results_.data(), counts_.data(), 0, static_cast<uint32_t>(results_.size())};
}

void Call::resize(uint32_t written, at::IntArrayRef sizes) {
  auto tensors = written_tensors(*stack_);
  at::native::resize_output(tensors.at(written), sizes);
}

}  // namespace tpu
