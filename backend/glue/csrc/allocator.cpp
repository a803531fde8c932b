#include "allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "error.h"
#include "guard.h"

namespace tpu {

namespace {

void free_storage(void* storage) {
  core->storage_free(storage);
}

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

void set(StatArray* stats, const uint64_t (&amount)[4]) {
  auto& stat = (*stats)[static_cast<size_t>(StatType::AGGREGATE)];
  stat.current = static_cast<int64_t>(amount[0]);
  stat.peak = static_cast<int64_t>(amount[1]);
  stat.allocated = static_cast<int64_t>(amount[2]);
  stat.freed = static_cast<int64_t>(amount[3]);
}

Memory memory_of(c10::DeviceIndex device) {
  Memory memory{};
  check(core->memory(device, &memory));
  return memory;
}

// Memory itself is XLA's; torch.accelerator reads its statistics here.
struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    const auto device = current_device();
    void* storage = core->storage_new(nbytes, device);
    if (storage == nullptr) throw_last_error();
    return adopt(storage, device);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return free_storage;
  }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "tpu: raw memory of the device cannot be copied; copy tensors instead");
  }
  bool initialized() override {
    return core != nullptr && core->started() != 0;
  }
  void emptyCache(c10::MempoolId_t) override {
    // Nothing is held back: a buffer is freed with the last tensor that needs it.
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {
    // One queue a device: memory is not reused before the work that reads it was launched.
  }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto memory = memory_of(device);
    DeviceStats stats;
    set(&stats.allocation, memory.buffers);
    set(&stats.active, memory.buffers);
    set(&stats.allocated_bytes, memory.bytes);
    set(&stats.active_bytes, memory.bytes);
    set(&stats.requested_bytes, memory.bytes);
    set(&stats.reserved_bytes, {memory.in_use, memory.peak_in_use, memory.bytes[2], memory.bytes[3]});
    stats.num_device_alloc = static_cast<int64_t>(memory.buffers[2]);
    stats.num_device_free = static_cast<int64_t>(memory.buffers[3]);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    check(core->memory_reset(device, 1));
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    check(core->memory_reset(device, 0));
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto memory = memory_of(device);
    return {memory.limit - std::min(memory.limit, memory.in_use), memory.limit};
  }
};

Allocator the_allocator;

}  // namespace

c10::Allocator* allocator() {
  return &the_allocator;
}

c10::DataPtr adopt(void* storage, c10::DeviceIndex device) {
  return {storage, storage, free_storage, c10::Device(c10::DeviceType::PrivateUse1, device)};
}

void resize_storage(c10::StorageImpl* storage, size_t nbytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  check(core->storage_resize(storage->_mutable_data_ptr_no_checks().get(), nbytes));
  storage->set_nbytes(nbytes);
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &the_allocator);

}  // namespace tpu
