#pragma once

namespace tpu {

void register_hooks();
void register_tensors();
void register_fallback();
void register_autocast();
void register_sparse();

}  // namespace tpu
