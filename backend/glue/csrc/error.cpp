#include "error.h"

#include <exception>
#include <string>
#include <utility>

namespace tpu {

const CoreTable* core = nullptr;

namespace {
thread_local std::string last_thrown;
thread_local std::exception_ptr final_exception;
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

void remember_exception(bool is_final) noexcept {
  try {
    throw;
  } catch (const c10::Error& e) {
    last_thrown = e.what_without_backtrace();
  } catch (const std::exception& e) {
    last_thrown = e.what();
    // The class is libtorch_python's, to which this library is not linked; its text begins with Python's class.
    is_final |= last_thrown.rfind("KeyboardInterrupt", 0) == 0 || last_thrown.rfind("SystemExit", 0) == 0;
  } catch (...) {
    last_thrown = "an exception that is no std::exception";
  }
  final_exception = is_final ? std::current_exception() : nullptr;
}

void rethrow_final() {
  if (final_exception) std::rethrow_exception(std::exchange(final_exception, nullptr));
}

void thrown_text(const char** text, size_t* len) {
  *text = last_thrown.data();
  *len = last_thrown.size();
}

}  // namespace tpu
