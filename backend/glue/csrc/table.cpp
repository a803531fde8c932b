#include "table.h"

#include <ATen/core/Generator.h>

#include "call.h"
#include "error.h"
#include "generator.h"
#include "guard.h"
#include "hooks.h"

namespace tpu {

namespace {

uint32_t meta(void* call, Results* results) {
  return guarded([&] { static_cast<Call*>(call)->meta(results); });
}
uint32_t meta_written(void* call, Results* results) {
  return guarded([&] { static_cast<Call*>(call)->meta_written(results); });
}
uint32_t resize(void* call, uint32_t written, const int64_t* sizes, uint32_t ndim) {
  return guarded([&] { static_cast<Call*>(call)->resize(written, {sizes, ndim}); });
}
uint32_t random(void* generator, int32_t device, uint64_t blocks, uint64_t* seed, uint64_t* offset) {
  return final_guarded([&] {
    take_blocks(static_cast<c10::GeneratorImpl*>(generator), static_cast<c10::DeviceIndex>(device), blocks, seed, offset);
  });
}
uint32_t generator_get(int32_t device, uint64_t* seed, uint64_t* offset) {
  return guarded([&] {
    auto generator = default_generator(static_cast<c10::DeviceIndex>(device));
    std::lock_guard<std::mutex> lock(generator.mutex());
    *seed = generator.current_seed();
    *offset = generator.get_offset();
  });
}
uint32_t generator_set(int32_t device, uint64_t seed, uint64_t offset) {
  return guarded([&] {
    if (device < 0) return seed_all(seed);
    auto generator = default_generator(static_cast<c10::DeviceIndex>(device));
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
    generator.set_offset(offset);
  });
}
int32_t get_device() {
  return current_device();
}
uint32_t set_device(int32_t device) {
  return guarded([&] { set_current_device(static_cast<c10::DeviceIndex>(device)); });
}

constexpr GlueTable kTable = {
    kAbiVersion,   sizeof(GlueTable), meta,       meta_written, resize,      random,
    generator_get, generator_set,     get_device, set_device,   thrown_text,
};

static_assert(sizeof(TensorArg) == 56 && sizeof(Arg) == 24 && sizeof(TensorResult) == 40 && sizeof(SchemaArg) == 24,
              "abi.h and backend/abi differ");
static_assert(sizeof(CoreTable) == 8 + 23 * sizeof(void*) && sizeof(GlueTable) == 8 + 9 * sizeof(void*),
              "abi.h and backend/abi differ");

}  // namespace

size_t start(size_t core_table) {
  core = reinterpret_cast<const CoreTable*>(core_table);
  register_hooks();
  register_tensors();
  register_fallback();
  register_autocast();
  register_sparse();
  return reinterpret_cast<size_t>(&kTable);
}

}  // namespace tpu
