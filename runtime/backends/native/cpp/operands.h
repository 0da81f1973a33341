// What handlers ask of XLA's operands: element types, sizes, and the two lists of constants.
#pragma once

#include <cstring>

#include "ffi.h"
#include "matrix.h"

namespace masu {

// The element type as a `Kind`; `kCodes1` stands for any other.
inline uint32_t type_of(const ffi::Buffer* buffer) {
  switch (buffer->type) {
    case ffi::kF32: return kF32;
    case ffi::kF16: return kF16;
    case ffi::kBF16: return kBF16;
    default: return kCodes1;
  }
}

inline int64_t count_of(const ffi::Buffer* buffer, int64_t from, int64_t to) {
  int64_t count = 1;
  for (int64_t i = from; i < to; i++) count *= buffer->dims[i];
  return count;
}

inline const int32_t* ints(ffi::Frame* frame) {  // "numbers" sorts before "sizes"
  return static_cast<const int32_t*>(static_cast<ffi::Array*>(frame->attrs.values[1])->data);
}

inline const float* floats(ffi::Frame* frame) {
  return static_cast<const float*>(static_cast<ffi::Array*>(frame->attrs.values[0])->data);
}

inline const float* optional(ffi::Frame* frame, int64_t place) {
  return static_cast<const float*>(frame->args.buffers[place]->data);
}

inline bool is_matrix(const ffi::Buffer* buffer) {
  return buffer->type == ffi::kU32 && count_of(buffer, 0, buffer->rank) == sizeof(Matrix) / 4;
}

}  // namespace masu
