// Host memory that counts as pinned.
#pragma once
#include <c10/core/Allocator.h>

namespace tpu {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

}  // namespace tpu
