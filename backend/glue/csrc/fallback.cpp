// The one boxed kernel: every operator of the device arrives here.
#include <ATen/native/CPUFallback.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/_to_cpu.h>
#include <torch/library.h>

#include <algorithm>
#include <list>
#include <vector>

#include "call.h"
#include "error.h"
#include "hooks.h"
#include "map_tensors.h"

namespace tpu {

namespace {

constexpr auto kPrivateUse1 = c10::DispatchKey::PrivateUse1;

std::string full_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

c10::IValue to_cpu(const c10::IValue& value) {
  if (value.isDevice()) return c10::IValue(c10::Device(c10::kCPU));
  if (value.isGenerator()) return c10::IValue();
  return map_tensors(value, [](const at::Tensor& tensor) { return tensor.defined() ? tensor.cpu() : tensor; });
}

// Runs the op's CPU kernel on copies, for its error: users get the class and the words that they know.
void raise_as_on_cpu(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t arguments) {
  torch::jit::Stack copy;
  for (size_t i = stack.size() - arguments; i < stack.size(); i++) copy.push_back(to_cpu(stack[i]));
  op.callBoxed(&copy);
}

// Index masks become positions, indices in host memory move to the device, as on every accelerator.
void prepare_indices(const c10::OperatorHandle& op, torch::jit::Stack* stack, size_t arguments) {
  const auto& schema = op.schema().arguments();
  const size_t first = stack->size() - arguments;
  for (size_t i = 0; i < arguments; i++) {
    auto& value = (*stack)[first + i];
    if (schema[i].name() != "indices" || !value.isOptionalTensorList()) continue;
    auto list = value.toOptionalTensorList();
    bool plain = true;
    for (std::optional<at::Tensor> index : list) {
      plain &= !index || !index->defined() ||
          (index->device().type() == c10::DeviceType::PrivateUse1 && index->scalar_type() != at::kBool &&
           index->scalar_type() != at::kByte);
    }
    if (plain) continue;
    const auto self = (*stack)[first].toTensor();
    c10::List<std::optional<at::Tensor>> replaced;
    for (auto& tensor : at::native::expandTensors(self, at::IOptTensorListRef(list), true)) {
      replaced.push_back(tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt);
    }
    value = replaced;
  }
}

std::optional<c10::Device> stray(const c10::IValue& value) {
  const auto outside = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().type() != c10::DeviceType::PrivateUse1 && tensor.dim() != 0;
  };
  if (value.isTensor() && outside(value.toTensor())) return value.toTensor().device();
  if (value.isTensorList()) {
    for (at::Tensor tensor : value.toTensorList()) {
      if (outside(tensor)) return tensor.device();
    }
  }
  return std::nullopt;
}

// A tensor with dimensions in host memory among the arguments is the user's mistake, not a reason to compute on the host.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t arguments) {
  std::optional<c10::Device> ours, other;
  for (size_t i = stack.size() - arguments; i < stack.size(); i++) {
    if (auto device = stray(stack[i])) other = device;
    if (stack[i].isTensor() && stack[i].toTensor().defined() &&
        stack[i].toTensor().device().type() == c10::DeviceType::PrivateUse1) {
      ours = stack[i].toTensor().device();
    }
  }
  if (ours && other) {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *ours, " and ",
                *other, "! (when checking arguments of ", op.operator_name(), ")");
  }
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto name = full_name(op);
  const uint32_t status = core->note_fallback(name.data(), name.size());
  if (status == kWarn) {
    TORCH_WARN(name, " has no lowering for tpu and runs on the CPU: a copy there and back at each call. "
               "torch_tpu.fallbacks() lists such ops; TORCH_TPU_FALLBACK=error|allow changes this.");
  } else {
    check(status);
  }
  at::native::cpu_fallback(op, stack);
}

// Ops whose decomposition is running on this thread.
thread_local std::vector<const OpInfo*> decomposing;

struct Decomposing {
  explicit Decomposing(const OpInfo* info) { decomposing.push_back(info); }
  ~Decomposing() { decomposing.pop_back(); }
};

void next_tier(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack* stack) {
  check_devices(op, *stack, info.kinds.size());
  if (info.decomposed == OpInfo::kUnknown) {
    const auto& name = op.operator_name();
    const bool found =
        core->decompose(name.name.data(), name.name.size(), name.overload_name.data(), name.overload_name.size()) == 1;
    info.decomposed = found ? OpInfo::kYes : OpInfo::kNo;
  }
  // A decomposition may come to the same op, for other arguments: if those have no lowering either, it leads nowhere.
  const bool again = std::find(decomposing.begin(), decomposing.end(), &info) != decomposing.end();
  if (info.decomposed == OpInfo::kYes && !again) {
    Decomposing scope(&info);
    // Decompositions are registered for a key of their own: the lowering stays the operator's kernel.
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
    return;
  }
  run_on_cpu(op, stack);
}

void boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  OpInfo& info = info_of(op);
  if (C10_UNLIKELY(info.indices)) prepare_indices(op, stack, info.kinds.size());
  if (info.op != nullptr) {
    Call call(op, info, stack);
    switch (call.run()) {
      case kOk:
        return;
      case kError: {
        if (!last_error_is_ours()) throw_last_error();
        // A lowering failed on arguments that the Meta kernel let pass: if the CPU refuses them, its words count.
        const auto ours = take_last_error();
        raise_as_on_cpu(op, *stack, info.kinds.size());
        TORCH_CHECK(false, ours);
      }
      case kGlueThrew: {
        rethrow_final();
        // The Meta kernel refused: the CPU kernel says why in the words that users know. Where it has no objection,
        // the op is one whose metadata cannot be had without data.
        check_devices(op, *stack, info.kinds.size());
        raise_as_on_cpu(op, *stack, info.kinds.size());
        if (info.structured) {
          // torch's Python in the composite kernel's way refuses what the CPU takes (index_add_ of nothing).
          call.use_plain_meta();
          if (call.run() == kOk) return;
          rethrow_final();
        }
        run_on_cpu(op, stack);
        return;
      }
      case kNoLowering:
        break;
    }
  }
  next_tier(op, info, stack);
}

// Libraries end their registrations when they are destroyed; these never are.
std::list<torch::Library>& libraries() {
  static auto* all = new std::list<torch::Library>();
  return *all;
}

}  // namespace

void register_fallback() {
  auto& everything = libraries().emplace_back(torch::Library::IMPL, "_", kPrivateUse1, __FILE__, __LINE__);
  everything.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>());
  auto& aten = libraries().emplace_back(torch::Library::IMPL, "aten", kPrivateUse1, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    if (!core->has_op(name.name.data(), name.name.size(), name.overload_name.data(), name.overload_name.size())) continue;
    // These move tensors between devices and layouts: torch's own kernels do, over _copy_from.
    if (name.name == "aten::_to_copy" || name.name == "aten::copy_" || name.name == "aten::clone") continue;
    const auto op = dispatcher.findOp(name);
    // A composite kernel would win over the fallback: of a structured op, one that makes the result and calls `out=`.
    // Implicit ones stay: they carry the op's autograd formula. one_hot has none, and checks its classes on the CPU only.
    if (!op || op->hasKernelForDispatchKey(kPrivateUse1) ||
        !(name.name == "aten::one_hot" || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))) {
      continue;
    }
    aten.impl(full_name(*op).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed>());
  }
}

}  // namespace tpu
