// The part of XLA's foreign function interface that the kernels use, as its C ABI lays it out.
//
// jaxlib ships headers for it, but to build against them every installation would first have to
// fetch jaxlib into the build's own environment. The ABI is append-only: each structure carries
// its size, and fields are never moved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace masu {
namespace ffi {

constexpr int kMajor = 0;
constexpr int kMinor = 3;

struct Extension {
  size_t struct_size;
  int32_t type;  // 1: asks for the handler's metadata
  Extension* next;
};

struct Version {
  size_t struct_size;
  Extension* extension;
  int32_t major_version;
  int32_t minor_version;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
  int64_t state_type;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;

struct ErrorArgs {
  size_t struct_size;
  Extension* extension;
  const char* message;
  int32_t code;
};

constexpr int32_t kInvalidArgument = 3;

struct Api {
  size_t struct_size;
  Extension* extension;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArgs*);
};

// Element types, by their numbers in XLA.
enum Type : int32_t { kPred = 1, kS32 = 4, kU8 = 6, kU32 = 8, kF16 = 10, kF32 = 11, kBF16 = 16 };

struct Buffer {
  size_t struct_size;
  Extension* extension;
  int32_t type;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct Args {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Buffer** buffers;
};

struct Array {
  int32_t type;
  size_t size;
  const void* data;
};

struct Name {
  const char* data;
  size_t length;
};

struct Attrs {
  size_t struct_size;
  Extension* extension;
  int64_t size;
  int32_t* types;
  Name** names;  // sorted
  void** values;
};

constexpr int32_t kExecute = 3;

struct Frame {
  size_t struct_size;
  Extension* extension;
  const Api* api;
  void* context;
  int32_t stage;
  Args args;
  Args rets;
  Attrs attrs;
};

// What a handler answers where it is asked for its version instead of being run.
inline bool answers_metadata(Frame* frame) {
  if (frame->extension == nullptr || frame->extension->type != 1) return false;
  auto* metadata = reinterpret_cast<MetadataExtension*>(frame->extension)->metadata;
  metadata->version.major_version = kMajor;
  metadata->version.minor_version = kMinor;
  metadata->traits = 0;
  return true;
}

inline Error* error(Frame* frame, const char* message) {
  ErrorArgs args{sizeof(ErrorArgs), nullptr, message, kInvalidArgument};
  return frame->api->create_error(&args);
}

}  // namespace ffi
}  // namespace masu
