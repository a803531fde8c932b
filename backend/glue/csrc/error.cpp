#include "error.h"

#include <string>

namespace tpu {

const CoreTable* core = nullptr;

namespace {
thread_local std::string last_thrown;
}

void throw_last_error() {
  const char* text = nullptr;
  size_t len = 0;
  const uint32_t kind = core->last_error(&text, &len);
  const std::string message(text, len);
  switch (kind) {
    case kIndex:
      TORCH_CHECK_INDEX(false, message);
    case kValue:
      TORCH_CHECK_VALUE(false, message);
    case kType:
      TORCH_CHECK_TYPE(false, message);
    case kNotImplemented:
      TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    case kOutOfMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    default:
      TORCH_CHECK(false, message);
  }
}

bool last_error_is_ours() {
  const char* text = nullptr;
  size_t len = 0;
  return core->last_error(&text, &len) == kInternal;
}

std::string take_last_error() {
  const char* text = nullptr;
  size_t len = 0;
  core->last_error(&text, &len);
  return std::string(text, len);
}

void remember_exception() noexcept {
  try {
    throw;
  } catch (const c10::Error& e) {
    last_thrown = e.what_without_backtrace();
  } catch (const std::exception& e) {
    last_thrown = e.what();
  } catch (...) {
    last_thrown = "an exception that is no std::exception";
  }
}

void thrown_text(const char** text, size_t* len) {
  *text = last_thrown.data();
  *len = last_thrown.size();
}

}  // namespace tpu
