// The same as backend/abi/src/lib.rs: what the core and this library say to each other.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tpu {

constexpr uint32_t kAbiVersion = 2;

enum Status : uint32_t { kOk = 0, kError = 1, kNoLowering = 2, kGlueThrew = 3, kRetry = 4 };
// What note_fallback answers when the user is to be warned.
constexpr uint32_t kWarn = 100;
enum ErrorKind : uint32_t { kRuntime = 0, kIndex = 1, kValue = 2, kType = 3, kNotImplemented = 4, kOutOfMemory = 5, kInternal = 6 };
enum TensorKind : uint8_t { kUndefined = 0, kDevice = 1, kHostScalar = 2 };
enum Tag : uint32_t {
  kTagNone = 0, kTagTensor, kTagTensors, kTagInt, kTagFloat, kTagBool, kTagComplex, kTagInts, kTagFloats, kTagBools,
  kTagStr, kTagDtype, kTagDevice, kTagGenerator, kTagScalars,
};
enum SchemaKind : uint32_t {
  kOther = 0, kTensor, kTensors, kScalar, kFloat, kDtype, kGenerator, kScalars, kInt,
};
constexpr uint8_t kWrappedNumber = 1;

struct TensorArg {
  void* storage;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t offset;
  uint32_t ndim;
  int8_t dtype;
  uint8_t kind;
  uint8_t flags;
  int8_t device;
  uint64_t scalar[2];
};

struct Arg {
  uint32_t tag;
  uint32_t len;
  uint64_t payload;
  double imaginary;
};

struct TensorResult {
  void* storage;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t nbytes;
  uint32_t ndim;
  int8_t dtype;
  uint8_t defined;
  int8_t device;
  uint8_t reserved;
};

struct SchemaArg {
  const char* name;
  uint32_t name_len;
  uint32_t kind;
  int32_t alias;
  uint32_t reserved;
};

struct Results {
  const TensorResult* tensors;
  const int32_t* counts;
  uint32_t returns;
  uint32_t len;
};

struct Memory {
  uint64_t bytes[4];
  uint64_t buffers[4];
  uint64_t in_use;
  uint64_t peak_in_use;
  uint64_t limit;
};

struct CoreTable {
  uint32_t version;
  uint32_t size;
  uint32_t (*last_error)(const char** text, size_t* len);
  void* (*storage_new)(size_t nbytes, int32_t device);
  void (*storage_free)(void* storage);
  uint32_t (*storage_resize)(void* storage, size_t nbytes);
  void (*storage_hint)(void* storage, int8_t dtype, const int64_t* sizes, uint32_t ndim);
  const void* (*find_op)(const char* name, size_t name_len, const char* overload, size_t overload_len,
                         const SchemaArg* schema, uint32_t arguments, uint32_t returns);
  uint32_t (*dispatch)(const void* op, const Arg* arguments, uint32_t len, int32_t device, void* call,
                       Results* results);
  uint32_t (*copy)(const TensorArg* src, const TensorArg* dst);
  uint32_t (*upload)(const void* bytes, size_t len, const TensorArg* dst);
  uint32_t (*download)(const TensorArg* src, void* bytes, size_t len);
  uint32_t (*has_op)(const char* name, size_t name_len, const char* overload, size_t overload_len);
  uint32_t (*decompose)(const char* name, size_t name_len, const char* overload, size_t overload_len);
  uint32_t (*note_fallback)(const char* name, size_t len);
  int32_t (*device_count)();
  uint32_t (*synchronize)(int32_t device);
  uint64_t (*event_record)(int32_t device);
  int32_t (*event_query)(uint64_t event);
  uint32_t (*event_synchronize)(uint64_t event);
  double (*event_elapsed)(uint64_t start, uint64_t end);
  void (*event_free)(uint64_t event);
  uint32_t (*memory)(int32_t device, Memory* out);
  uint32_t (*memory_reset)(int32_t device, uint32_t sums);
  uint32_t (*started)();
};

struct GlueTable {
  uint32_t version;
  uint32_t size;
  uint32_t (*meta)(void* call, Results* results);
  uint32_t (*meta_written)(void* call, Results* results);
  uint32_t (*resize)(void* call, uint32_t written, const int64_t* sizes, uint32_t ndim);
  uint32_t (*random)(void* generator, int32_t device, uint64_t blocks, uint64_t* seed, uint64_t* offset);
  uint32_t (*generator_get)(int32_t device, uint64_t* seed, uint64_t* offset);
  uint32_t (*generator_set)(int32_t device, uint64_t seed, uint64_t offset);
  int32_t (*current_device)();
  uint32_t (*set_current_device)(int32_t device);
  void (*thrown)(const char** text, size_t* len);
};

// The core, set once before anything else of this library runs.
extern const CoreTable* core;

}  // namespace tpu
