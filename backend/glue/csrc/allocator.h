// Storages of the device: the data pointer is the core's storage.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

namespace tpu {

c10::Allocator* allocator();
// A data pointer that owns a reference to a storage of the core.
c10::DataPtr adopt(void* storage, c10::DeviceIndex device);
// Makes a storage larger or smaller; its leading bytes stay.
void resize_storage(c10::StorageImpl* storage, size_t nbytes);

}  // namespace tpu
