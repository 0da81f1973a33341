// The kernels of one instruction set, as a table to choose from at run time.
#pragma once

#include "between.h"
#include "matrix.h"

namespace masu {

// Element types in the order of `Kind`: F32, F16, BF16.
struct Kernels {
  const char* name;
  Between between;
  // With a gate the outputs of the second half of the rows gate those of the first. `rounds`: rows
  // that meet counted codes are rounded to bytes first.
  void (*product)(const Matrix&, uint32_t type, const void* x, int rows, const float* biases, bool wide,
                  const Activation* gate, bool rounds, void* out);
  void (*lookup)(const Matrix&, uint32_t type, const int32_t* ids, int count, void* out);
  void (*attention)(uint32_t type, const void* queries, const void* keys, const void* values, const float* sinks,
                    const int* sizes, const float* numbers, void* out);
  void (*norm)(uint32_t type, const void* x, const float* scales, const float* biases, const int* sizes,
               const float* numbers, void* out);
};

extern const Kernels kPortable;
#if defined(__x86_64__)
extern const Kernels kAvx2, kAvx512;
#elif defined(__aarch64__)
extern const Kernels kNeon;
#endif

// Compilers that know products of bfloat16 pairs.
#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#define MASU_KNOWS_PAIRS
extern const Kernels kAvx512BF16;
#endif

// Those of the instruction set that was chosen.
const Kernels& in_use();

}  // namespace masu
