#include "guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "error.h"

namespace tpu {

namespace {

thread_local c10::DeviceIndex current = 0;
// By device; index is a small number by type.
thread_local std::array<c10::StreamId, std::numeric_limits<c10::DeviceIndex>::max() + 1> current_streams{};
std::atomic<c10::StreamId> next_stream{1};
constexpr auto kType = c10::DeviceType::PrivateUse1;

c10::Device indexed(c10::Device device) {
  return device.has_index() ? device : c10::Device(kType, current);
}

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
    const auto index = indexed(device);
    return c10::Stream(c10::Stream::UNSAFE, index, current_streams[index.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, indexed(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, indexed(device), next_stream++);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, indexed(device), next_stream++);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = getStream(stream.device());
    current_streams[old.device_index()] = stream.id();
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
  void block(void*, const c10::Stream&) const override {
    // The stream's device runs what follows later anyway, and data from another device is waited for by itself.
  }
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
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    // Everything that XLA has, which is all but the quantized types and 16-bit complex.
    c10::DeviceCapability capability;
    auto& bits = capability.capability_data.capability_bits;
    bits = 0;
    for (auto type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kFloat, at::kDouble, at::kBool,
                      at::kBFloat16, at::kUInt16, at::kUInt32, at::kUInt64, at::kComplexFloat, at::kComplexDouble,
                      at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat8_e4m3fnuz, at::kFloat8_e5m2fnuz}) {
      bits |= 1ULL << static_cast<unsigned>(type);
    }
    return capability;
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
