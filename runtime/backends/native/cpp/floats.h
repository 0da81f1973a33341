// Narrow floats, one at a time: bfloat16 and IEEE half, to and from float.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace masu {

struct F32 { using stored = float; };
struct F16 { using stored = uint16_t; };
struct BF16 { using stored = uint16_t; };

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float widened(float value, F32) { return value; }

inline float widened(uint16_t half, BF16) { return from_bits(static_cast<uint32_t>(half) << 16); }

inline float widened(uint16_t half, F16) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // Halves below the smallest normal one are numbers of 2^-24. As floats they are normal: nothing
  // here may depend on how the calling thread treats numbers that are not.
  float value = rest < 0x400 ? static_cast<float>(rest) * 0x1p-24f : from_bits((rest << 13) + 0x38000000);
  return from_bits(sign | to_bits(value));
}

inline float narrowed(float value, F32) { return value; }

// To the nearest, ties to even; a NaN stays one.
inline uint16_t narrowed(float value, BF16) {
  uint32_t bits = to_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline uint16_t narrowed(float value, F16) {
  uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (bits < 0x38800000) {  // below the smallest normal half: adding 0.5 leaves numbers of 2^-24
    float shifted = from_bits(bits) + 0.5f;
    return static_cast<uint16_t>(sign | (to_bits(shifted) - 0x3f000000));
  }
  uint32_t rounded = bits - 0x38000000 + 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace masu
