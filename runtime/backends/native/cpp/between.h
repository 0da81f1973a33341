// The kernels for what stands between the products: along the sequence, along rows, in tables of
// vectors. One table of them for each instruction set.
#pragma once

#include <cstdint>
#include <type_traits>

namespace masu {

// A causal filter for each channel. Rows before the first are those of `history`.
struct ConvCall {
  const void* x;        // [tokens, channels]; gated: [tokens, 3, channels], before, after and x
  const void* history;  // [taps - 1, channels]
  const float* weights;  // [channels, taps], tap 0 for the oldest row
  const float* biases;   // [channels], or null
  void* out;   // [tokens, channels], float; gated: like x. Rows from `filled` on are zeros
  void* kept;  // the history after `filled` rows
  int tokens, channels, taps, filled;
};

// A decayed recurrence over a matrix for each head; see runtime/recurrence.py.
struct RecurCall {
  const float *queries, *keys;  // [tokens, groups, key_dim]
  const float* values;          // [tokens, heads, value_dim]
  const float* log_decay;       // [tokens, heads]
  const float* beta;            // [tokens, heads] for the delta rule, or null for a state space
  const float* state;           // [heads, key_dim, value_dim]
  float *out, *after;           // like values, like state
  int tokens, heads, groups, key_dim, value_dim;
};

struct RotateCall {
  const void* x;  // [tokens, heads, width]
  const float *cosines, *sines;  // [tokens, pairs]
  void* out;
  int tokens, heads, width, pairs;
};

enum Function : int32_t {
  kIdentity = 0, kSiLU = 1, kTanhGELU = 2, kGELU = 3, kSquaredReLU = 4, kSigmoid = 5, kSoftCap = 6,
  kSoftplus = 7
};

// What an MLP does between its two projections: gated rows are values, then gates.
struct Activation {
  bool is_gated;
  int function;
  float alpha;  // of SiLU; the cap of a soft cap
  float lowest_value, highest_value, lowest_gate, highest_gate;
};

// A table of vectors, as its addresses; see D4S4Spec. 32 words, as for other matrices.
struct VectorTable {
  uint64_t codes;       // uint8 [rows, columns / 4]
  uint64_t steps;       // 4 bits each, [rows, columns / 64]: places in the ladder
  uint64_t row_scales;  // [rows], of type `param`
  uint64_t ladder;      // float [16]
  uint64_t vectors;     // float [256, 4]
  uint64_t factors;     // float [columns]
  uint32_t rows, columns, step_bytes, param;
  uint32_t unused[16];
};

static_assert(sizeof(VectorTable) == 128, "the backend lays it out in 32 words");

struct Between {
  void (*conv)(uint32_t type, bool is_gated, const ConvCall&);
  void (*recur)(const RecurCall&);
  void (*rotate)(uint32_t type, const RotateCall&);
  void (*unit)(const float* x, int rows, int width, float epsilon, float* out);
  void (*softmax)(const float* x, int rows, int width, float* out);
  void (*argmax)(const float* x, int rows, int width, int32_t* out);
  void (*largest)(const float* x, int rows, int width, int count, int32_t* out);
  void (*activate)(uint32_t type, const Activation&, const void* x, int rows, int width, void* out);
  void (*add_weighted)(uint32_t type, const void* x, float weight, int width, float* sums);
  void (*narrow)(uint32_t type, const float* x, int width, void* out);
  void (*vector_rows)(uint32_t type, const VectorTable&, const int32_t* ids, int count, void* out);
  void (*vector_product)(uint32_t type, const VectorTable&, const void* x, int rows, const float* biases, bool wide, void* out);
};

}  // namespace masu
