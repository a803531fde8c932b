// From a status of the core to torch's exception.
#pragma once
#include <c10/util/Exception.h>

#include <string>

#include "abi.h"

namespace tpu {

// Throws the core's last error in the class that it names.
[[noreturn]] void throw_last_error();

// Whether the core's last error is a fault of a lowering, and its text.
bool last_error_is_ours();
std::string take_last_error();

// Throws again what a function of this library threw last, if no CPU kernel need be asked about it: what `final_guarded` ran,
// and Python's KeyboardInterrupt and SystemExit, which are no answer of an operator.
void rethrow_final();

inline void check(uint32_t status) {
  if (C10_UNLIKELY(status != kOk)) throw_last_error();
}

// Remembers the exception in flight for GlueTable::thrown. Called inside a catch block.
void remember_exception(bool is_final) noexcept;
void thrown_text(const char** text, size_t* len);

// Runs `body`; an exception becomes kGlueThrew, so that none crosses into Rust.
template <class F>
uint32_t guarded(F&& body) noexcept {
  try {
    body();
    return kOk;
  } catch (...) {
    remember_exception(false);
    return kGlueThrew;
  }
}

// The same for a body whose exceptions are the call's own: `rethrow_final` throws them again.
template <class F>
uint32_t final_guarded(F&& body) noexcept {
  try {
    body();
    return kOk;
  } catch (...) {
    remember_exception(true);
    return kGlueThrew;
  }
}

}  // namespace tpu
