// The encoders for each instruction set, and the C functions that choose among them.
//
// Types are 0 for float32, 1 for float16, 2 for bfloat16. Nothing here holds a lock or a state:
// any number of threads may call at once, each with its own outputs.
#include <cmath>
#include <cstdint>
#include <cstring>

static inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

static inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

struct Ladder {
  float levels[16];
  float thresholds[15];  // a number is on the level above each threshold that it exceeds
};

struct Candidate {
  float divisor, offset, scale, shared;
};

// All that `masu_on_ladder` is told.
struct Rounding {
  bool mirrored;
  int size, levels, candidates;
  const float* values;
  int64_t groups;
  const float *divisors, *offsets, *scales, *shared;
  uint8_t* chosen;
};

namespace portable {
#include "affine.h"
#include "ladder.h"
}  // namespace portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace avx2 {
#include "affine.h"
#include "ladder.h"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool has_avx2() { return __builtin_cpu_supports("avx2"); }
#else
namespace avx2 = portable;
static bool has_avx2() { return false; }
#endif

extern "C" {

// Whole groups of `size` values, one after the other: packed codes, and a scale and a bias each.
// False where there is no code for these numbers of bits and values; then nothing was written.
bool masu_encode_mlx(int portable_only, int type, int bits, int size, const void* values, int64_t count, uint8_t* codes,
                     float* scales, float* biases) {
  if (has_avx2() && !portable_only) return avx2::any_encode(type, bits, size, values, count, codes, scales, biases);
  return portable::any_encode(type, bits, size, values, count, codes, scales, biases);
}

bool masu_all_finite(int portable_only, int type, const void* values, int64_t count) {
  if (has_avx2() && !portable_only) return avx2::any_finite(type, values, count);
  return portable::any_finite(type, values, count);
}

// Groups of `size` float32 values and an ascending ladder of at most 16 levels, padded with numbers
// and infinite thresholds. A value is on the level of `value / divisor + offset`, and stands for
// `(level - offset) * scale * shared`; no divisor is zero, for infinity takes its place. For each group, which of the candidates has the smallest
// squared error, the first on ties: divisors, offsets and scales are `[candidates, groups]`, shared
// is `[groups]`. With no candidates, the index of each value's level under one divisor and offset.
// Eight mirrored levels are those of magnitudes, and 8 more is the index of a negative number.
bool masu_on_ladder(int portable_only, int mirrored, int size, int levels, const float* ladder, const float* thresholds,
                    const float* values, int64_t groups, int candidates, const float* divisors, const float* offsets,
                    const float* scales, const float* shared, uint8_t* chosen) {
  Ladder found;
  std::memcpy(found.levels, ladder, sizeof found.levels);
  std::memcpy(found.thresholds, thresholds, sizeof found.thresholds);
  Rounding told{mirrored != 0, size, levels, candidates, values, groups, divisors, offsets, scales, shared, chosen};
  return has_avx2() && !portable_only ? avx2::any_laddered(found, told) : portable::any_laddered(found, told);
}

}  // extern "C"
