// What is known of an operator from its schema.
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "call.h"

namespace tpu {

namespace {

c10::TypePtr strip(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

struct Kind {
  SchemaKind schema;
  Tag tag;
};

Kind kind_of(const c10::Argument& argument) {
  using K = c10::TypeKind;
  const auto real = strip(argument.real_type());
  switch (real->kind()) {
    case K::TensorType:
      return {kTensor, kTagTensor};
    case K::NumberType:
      return {kScalar, kTagFloat};
    case K::FloatType:
      return {kFloat, kTagFloat};
    case K::IntType:
    case K::SymIntType:
      return {kInt, kTagInt};
    case K::BoolType:
      return {kOther, kTagBool};
    case K::StringType:
      return {kOther, kTagStr};
    case K::DeviceObjType:
      return {kOther, kTagDevice};
    case K::GeneratorType:
      return {kGenerator, kTagGenerator};
    case K::ScalarTypeType:
      return {kDtype, kTagDtype};
    case K::LayoutType:
    case K::MemoryFormatType:
      return {kOther, kTagInt};
    case K::ListType: {
      switch (strip(real->castRaw<c10::ListType>()->getElementType())->kind()) {
        case K::TensorType:
          return {kTensors, kTagTensors};
        case K::IntType:
        case K::SymIntType:
          return {kOther, kTagInts};
        case K::FloatType:
          return {kOther, kTagFloats};
        case K::BoolType:
          return {kOther, kTagBools};
        case K::NumberType:
          return {kScalars, kTagScalars};
        default:
          return {kOther, kTagNone};
      }
    }
    default:
      return {kOther, kTagNone};
  }
}

// Ops whose CPU kernels refuse that what they write is, or overlaps, an operand: they read it while they write.
const std::unordered_set<std::string_view> kExclusive = {"aten::cat",          "aten::gather",        "aten::take",
                                                         "aten::index_select", "aten::masked_select", "aten::index"};
// The same, but for the operand that they change.
const std::unordered_set<std::string_view> kUpdates = {
    "aten::put_",         "aten::index_add_",   "aten::index_fill_", "aten::index_copy_",    "aten::scatter_",
    "aten::scatter_add_", "aten::scatter_add",  "aten::scatter",     "aten::scatter_reduce", "aten::scatter_reduce_",
    "aten::index_add"};

OpInfo make(const c10::OperatorHandle& op) {
  OpInfo info;
  const auto& own = op.operator_name().name;
  info.structured = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  if (op.hasTag(at::Tag::pointwise)) info.writes = OpInfo::Operands::kWhole;
  if (kUpdates.count(own) != 0) info.writes = OpInfo::Operands::kFirst;
  if (kExclusive.count(own) != 0) info.writes = OpInfo::Operands::kNone;
  info.distinct = own == "aten::aminmax";
  info.fills = own == "aten::fill_" || own == "aten::zero_";
  const auto& schema = op.schema();
  std::vector<SchemaArg> described;
  const auto& arguments = schema.arguments();
  for (const auto& argument : arguments) {
    const auto kind = kind_of(argument);
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    info.kinds.push_back(kind.schema);
    info.tags.push_back(kind.tag);
    info.written.push_back(written);
    described.push_back({argument.name().data(), static_cast<uint32_t>(argument.name().size()), kind.schema, written, 0});
    if (argument.name() == "indices" && kind.schema == kTensors) info.indices = true;
  }
  for (const auto& ret : schema.returns()) {
    int alias = -1;
    if (ret.alias_info() != nullptr && ret.alias_info()->isWrite()) {
      for (size_t i = 0; i < arguments.size(); i++) {
        const auto* theirs = arguments[i].alias_info();
        if (theirs != nullptr && theirs->beforeSets() == ret.alias_info()->beforeSets()) alias = static_cast<int>(i);
      }
    }
    info.return_alias.push_back(alias);
    info.return_list.push_back(ret.type()->kind() == c10::TypeKind::ListType);
    const bool tensor = strip(ret.type())->kind() == c10::TypeKind::TensorType;
    described.push_back({nullptr, 0, tensor ? kTensor : info.return_list.back() ? kTensors : kOther, alias, 0});
  }
  const auto& name = op.operator_name().name;
  const auto& overload = op.operator_name().overload_name;
  info.op = core->find_op(name.data(), name.size(), overload.data(), overload.size(), described.data(),
                          static_cast<uint32_t>(arguments.size()), static_cast<uint32_t>(schema.returns().size()));
  return info;
}

}  // namespace

OpInfo& info_of(const c10::OperatorHandle& op) {
  // Schemas live as long as their operator, and operators are not removed while kernels of ours are called by them.
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> all;
  thread_local std::unordered_map<const c10::FunctionSchema*, OpInfo*> mine;
  const auto* key = &op.schema();
  auto found = mine.find(key);
  if (C10_LIKELY(found != mine.end())) return *found->second;
  std::lock_guard<std::mutex> lock(mutex);
  auto& slot = all[key];
  if (!slot) slot = std::make_unique<OpInfo>(make(op));
  mine.emplace(key, slot.get());
  return *slot;
}

}  // namespace tpu
