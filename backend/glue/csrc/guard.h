// The current device of a thread.
#pragma once
#include <c10/core/Device.h>

namespace tpu {

c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
c10::DeviceIndex device_count();

}  // namespace tpu
