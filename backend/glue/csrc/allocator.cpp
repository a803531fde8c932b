#include "allocator.h"

#include "error.h"
#include "guard.h"

namespace tpu {

namespace {

void free_storage(void* storage) {
  core->storage_free(storage);
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    const auto device = current_device();
    void* storage = core->storage_new(nbytes, device);
    if (storage == nullptr) throw_last_error();
    return adopt(storage, device);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return free_storage;
  }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "tpu: raw memory of the device cannot be copied; copy tensors instead");
  }
};

Allocator the_allocator;

}  // namespace

c10::Allocator* allocator() {
  return &the_allocator;
}

c10::DataPtr adopt(void* storage, c10::DeviceIndex device) {
  return {storage, storage, free_storage, c10::Device(c10::DeviceType::PrivateUse1, device)};
}

void resize_storage(c10::StorageImpl* storage, size_t nbytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  check(core->storage_resize(storage->_mutable_data_ptr_no_checks().get_context(), nbytes));
  storage->set_nbytes(nbytes);
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &the_allocator);

}  // namespace tpu
