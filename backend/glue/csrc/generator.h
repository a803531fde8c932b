// Philox generators: a seed and the next block of 128 random bits.
#pragma once
#include <ATen/core/Generator.h>

namespace tpu {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);
// Seeds every device, also those not started yet.
void seed_all(uint64_t seed);
// Takes blocks; null stands for the device's default generator.
void take_blocks(c10::GeneratorImpl* generator, c10::DeviceIndex device, uint64_t blocks, uint64_t* seed,
                 uint64_t* offset);

}  // namespace tpu
