// What this library offers the core.
#pragma once
#include <cstddef>

#include "rust/cxx.h"

namespace tpu {

// Registers device, kernels and autocast with torch; gives the address of the GlueTable.
size_t start(size_t core_table);

}  // namespace tpu
