// A stored weight matrix as the kernels see it: addresses within the package and how to read them.
//
// The backend writes this structure into an array of 32-bit words, one row per matrix, and hands
// it over as an operand. Layers that are alike share one compiled program, whatever their weights.
#pragma once

#include <cstdint>

namespace masu {

// How a row's columns are stored.
enum Kind : uint32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kCodes1 = 3, kCodes4 = 4, kCodes8 = 5 };

// How a group's parameters are stored.
enum Param : uint32_t { kParamF32 = 0, kParamF16 = 1, kParamBF16 = 2, kParamTable = 3 };

// How a code becomes a weight: `code * scale + offset`, or `(level - offset) * scale`.
enum Mode : uint32_t { kAffine = 0, kCentred = 1 };

// How the offsets of groups are stored.
enum Offsets : uint32_t { kConstant = 0, kLikeScales = 1, kPacked = 2, kPackedTable = 3 };

struct Matrix {
  uint64_t weights;       // `rows` rows of `row_bytes`
  uint64_t scales;        // at [row * row_step + group * group_step]
  uint64_t offsets;
  uint64_t levels;        // float[16]: the value of each 4-bit code
  uint64_t scale_values;  // float[256]: the value of each scale byte, for kParamTable
  uint64_t offset_values; // float[...]: the value of each offset code, for kPackedTable
  uint64_t input_signs;   // int32[columns], or 0
  uint64_t output_signs;  // int32[rows], or 0
  uint32_t rows;
  uint32_t columns;
  uint32_t row_bytes;
  uint32_t kind;
  uint32_t group_size;
  uint32_t param;
  uint32_t mode;
  uint32_t offset_kind;
  uint32_t row_step, group_step;
  uint32_t offset_bits;         // packed offsets: bits of each,
  uint32_t offset_line;         // bytes of a line,
  uint32_t offset_is_by_group;  // and whether a line holds the rows of a group
  float offset;                 // where it is constant
  uint32_t input_block, output_block;  // of the Hadamard transforms, or 0
};

static_assert(sizeof(Matrix) == 128, "the backend lays it out in 32 words");

}  // namespace masu
