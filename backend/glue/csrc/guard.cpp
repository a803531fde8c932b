#include "guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "error.h"

namespace tpu {

namespace {

thread_local c10::DeviceIndex current = 0;
thread_local c10::StreamId current_stream = 0;
std::atomic<c10::StreamId> next_stream{1};
constexpr auto kType = c10::DeviceType::PrivateUse1;

// A PJRT device runs its programs in the order of their launch, so every stream is that one queue.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kType;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old(kType, current);
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override {
    return c10::Device(kType, current);
  }
  void setDevice(c10::Device device) const override {
    if (device.index() != current) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, next_stream++);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, next_stream++);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream old(c10::Stream::UNSAFE, c10::Device(kType, current), current_stream);
    current_stream = stream.id();
    return old;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) core->event_free(reinterpret_cast<uint64_t>(event));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    const uint64_t made = core->event_record(stream.device_index());
    if (made == 0) throw_last_error();
    if (*event != nullptr) core->event_free(reinterpret_cast<uint64_t>(*event));
    *event = reinterpret_cast<void*>(made);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const int32_t answer = core->event_query(reinterpret_cast<uint64_t>(event));
    if (answer < 0) throw_last_error();
    return answer == 1;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    const int32_t count = core->device_count();
    return static_cast<c10::DeviceIndex>(count < 0 ? 0 : count);
  }
  bool queryStream(const c10::Stream& stream) const override {
    const uint64_t event = core->event_record(stream.device_index());
    if (event == 0) throw_last_error();
    const int32_t answer = core->event_query(event);
    core->event_free(event);
    if (answer < 0) throw_last_error();
    return answer == 1;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(core->synchronize(stream.device_index()));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(core->event_synchronize(reinterpret_cast<uint64_t>(event)));
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check(core->synchronize(device));
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    const double ms = core->event_elapsed(reinterpret_cast<uint64_t>(start), reinterpret_cast<uint64_t>(end));
    if (ms != ms) throw_last_error();
    return ms;
  }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

c10::DeviceIndex current_device() {
  return current;
}

c10::DeviceIndex device_count() {
  const int32_t count = core->device_count();
  if (count < 0) throw_last_error();
  return static_cast<c10::DeviceIndex>(count);
}

void set_current_device(c10::DeviceIndex device) {
  const auto count = device_count();
  TORCH_CHECK(device >= 0 && device < count, "invalid device ordinal ", static_cast<int>(device), ": there ",
              count == 1 ? "is 1 tpu device" : "are " + std::to_string(count) + " tpu devices",
              " (TORCH_TPU_SIM_TOPOLOGY sets how many the simulator has)");
  current = device;
}

}  // namespace tpu
