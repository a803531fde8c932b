// Host memory that counts as pinned: page-aligned, known by address.
#include "pinned.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include <c10/util/Exception.h>

namespace tpu {

namespace {

std::mutex ranges_mutex;
std::map<const char*, size_t> ranges;

void free_pinned(void* data) {
  {
    std::lock_guard<std::mutex> lock(ranges_mutex);
    ranges.erase(static_cast<const char*>(data));
  }
  std::free(data);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    void* data = nullptr;
    if (nbytes != 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&data, 4096, nbytes) == 0, "cannot allocate ", nbytes,
                       " bytes of pinned host memory");
      std::lock_guard<std::mutex> lock(ranges_mutex);
      ranges.emplace(static_cast<const char*>(data), nbytes);
    }
    return {data, data, free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return free_pinned;
  }
  void copy_data(void* dst, const void* src, std::size_t count) const override {
    default_copy_data(dst, src, count);
  }
};

PinnedAllocator the_allocator;

}  // namespace

c10::Allocator* pinned_allocator() {
  return &the_allocator;
}

bool is_pinned(const void* data) {
  const auto* at = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(ranges_mutex);
  auto after = ranges.upper_bound(at);
  return after != ranges.begin() && at < std::prev(after)->first + std::prev(after)->second;
}

}  // namespace tpu
