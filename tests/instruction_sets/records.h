// Numbers that are the same on every machine, and arrays written out by name for others to compare.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "floats.h"

namespace masu {

// A stream of numbers (SplitMix64), made with whole numbers only.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state(seed) {}

  uint32_t word() {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((z ^ z >> 31) >> 32);
  }

  int below(int count) { return static_cast<int>(word() % static_cast<uint32_t>(count)); }

  // From -2 to 2, of 24 bits and of several sizes: otherwise most sums would be exact in any order.
  float number() {
    uint32_t bits = word();
    return static_cast<float>(static_cast<int32_t>(bits >> 8) - (1 << 23)) * from_bits((127 - 22 - (bits & 7)) << 23);
  }

  template <class T>
  std::vector<typename T::stored> many(size_t count, float factor = 1.0f) {
    std::vector<typename T::stored> made(count);
    for (auto& each : made) each = narrowed(number() * factor, T());
    return made;
  }

  std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> made(count);
    for (auto& each : made) each = static_cast<uint8_t>(word());
    return made;
  }

 private:
  uint64_t state;
};

inline const char* type_name(F32) { return "float32"; }
inline const char* type_name(F16) { return "float16"; }
inline const char* type_name(BF16) { return "bfloat16"; }

// A line "name type count", then the numbers as they lie in memory.
inline void record_bytes(const std::string& name, const char* type, const void* values, size_t count, size_t size) {
  std::printf("%s %s %zu\n", name.c_str(), type, count);
  std::fwrite(values, size, count, stdout);
}

template <class T>
void record(const std::string& name, const std::vector<typename T::stored>& values) {
  record_bytes(name, type_name(T()), values.data(), values.size(), sizeof(typename T::stored));
}

inline void record(const std::string& name, const std::vector<int32_t>& values) {
  record_bytes(name, "int32", values.data(), values.size(), sizeof(int32_t));
}

// Calls `body` with each element type and its `Kind`.
template <class Body>
void with_types(Body body) {
  body(F32(), 0u), body(F16(), 1u), body(BF16(), 2u);
}

}  // namespace masu
