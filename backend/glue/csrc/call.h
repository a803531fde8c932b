// One boxed call: torch's stack as flat arguments, and what the core asks of it while it runs.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <deque>
#include <vector>

#include "abi.h"

namespace tpu {

// What is known of an operator, found once.
struct OpInfo {
  const void* op = nullptr;  // the core's, or null
  std::vector<SchemaKind> kinds;
  std::vector<Tag> tags;  // of a value that is not None
  std::vector<bool> written;
  std::vector<int> return_alias;  // argument, or -1
  std::vector<bool> return_list;
  bool structured = false;  // its composite kernel checks, makes the result and calls out=
  bool indices = false;     // takes a list of indices that may be masks or live on the host
  // What it writes may overlap operands; may be one, as pointwise kernels go element by element; may be its first alone;
  // may be none.
  enum class Operands { kAny, kWhole, kFirst, kNone } writes = Operands::kAny;
  bool distinct = false;    // refuses results that overlap each other
  bool fills = false;       // may write one element several times: all get the same number
  enum { kUnknown, kYes, kNo } decomposed = kUnknown;  // whether torch has a decomposition
};

class Call {
 public:
  Call(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack* stack);

  // Runs the core's lowering. kNoLowering leaves the stack as it was.
  Status run();

  // From here on the Meta kernel gives a structured op's metadata, not the composite one.
  void use_plain_meta() { plain_meta_ = true; }

  // Asked by the core.
  void meta(Results* out);
  void meta_written(Results* out);
  void resize(uint32_t written, at::IntArrayRef sizes);

 private:
  bool add(const c10::IValue& value, Tag tag, Arg* out);
  template <class T>
  T* allocate(size_t count);
  void resolve();
  void check_overlap(size_t written) const;
  void add_result(const at::Tensor& tensor);
  std::vector<at::Tensor> written_tensors(const torch::jit::Stack& stack) const;
  void push_results(const Results& results);
  void probe_on_cpu() const;

  const c10::OperatorHandle& op_;
  OpInfo& info_;
  torch::jit::Stack* stack_;
  size_t first_;
  c10::SmallVector<Arg, 16> args_;
  c10::DeviceIndex device_ = -1;
  bool plain_meta_ = false;
  bool lazy_ = false;  // some argument is a lazily conjugated or negated view
  std::vector<std::pair<size_t, at::Tensor>> written_lazily_;
  alignas(16) char inline_[2048];
  size_t used_ = 0;
  std::deque<std::vector<char>> more_;
  torch::jit::Stack meta_stack_;
  torch::jit::Stack meta_inputs_;
  std::vector<TensorResult> results_;
  std::vector<int32_t> counts_;
};

// The operator's description, made at its first call.
OpInfo& info_of(const c10::OperatorHandle& op);

}  // namespace tpu
