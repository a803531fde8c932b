#include "generator.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GeneratorImpl.h>

#include <deque>
#include <mutex>

#include "guard.h"

namespace tpu {

namespace {

struct GeneratorImpl final : c10::GeneratorImpl {
  explicit GeneratorImpl(c10::DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    offset_ = offset;
  }
  uint64_t get_offset() const override {
    return offset_;
  }
  uint64_t current_seed() const override {
    return seed_;
  }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.numel() == sizeof(State) &&
                    state.is_contiguous() && state.device().is_cpu(),
                "RNG state must be a torch.ByteTensor of ", sizeof(State), " bytes on the CPU");
    const auto* read = static_cast<const State*>(state.data());
    seed_ = read->seed;
    offset_ = read->offset;
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto out = at::detail::empty_cpu({static_cast<int64_t>(sizeof(State))}, at::kByte);
    const State state{seed_, offset_};
    std::memcpy(out.mutable_data_ptr(), &state, sizeof(State));
    return out.getIntrusivePtr();
  }
  c10::GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl(device_.index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

 private:
  struct State {
    uint64_t seed;
    uint64_t offset;
  };
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

std::mutex generators_mutex;
// For devices that nobody asked for yet: seeding must not start them.
uint64_t first_seed = c10::default_rng_seed_val;
// A deque, so that references stay good as it grows.
std::deque<at::Generator> generators;

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  // The first device is always there, so that seeding it starts nothing.
  TORCH_CHECK(device == 0 || device < device_count(), "invalid device ordinal ", static_cast<int>(device));
  std::lock_guard<std::mutex> lock(generators_mutex);
  while (generators.size() <= static_cast<size_t>(device)) {
    generators.push_back(new_generator(static_cast<c10::DeviceIndex>(generators.size())));
    generators.back().set_current_seed(first_seed);
  }
  return generators[device];
}

void seed_all(uint64_t seed) {
  std::lock_guard<std::mutex> lock(generators_mutex);
  first_seed = seed;
  for (auto& generator : generators) {
    std::lock_guard<std::mutex> guard(generator.mutex());
    generator.set_current_seed(seed);
  }
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<GeneratorImpl>(device < 0 ? current_device() : device);
}

void take_blocks(c10::GeneratorImpl* generator, c10::DeviceIndex device, uint64_t blocks, uint64_t* seed,
                 uint64_t* offset) {
  if (generator == nullptr) generator = default_generator(device).unsafeGetGeneratorImpl();
  TORCH_CHECK(generator->device().type() == c10::DeviceType::PrivateUse1, "Expected a 'tpu' device type for generator but found '",
              generator->device().type(), "'");
  std::lock_guard<std::mutex> lock(generator->mutex_);
  *seed = generator->current_seed();
  *offset = generator->get_offset();
  generator->set_offset(*offset + blocks);
}

}  // namespace tpu
