// Everything that is compiled once per instruction set, and the table of it.

#include "simd.h"

#include "decode.h"

#include "product.h"

#include "rounding.h"

#if defined(MASU_PAIRS)
#include "dots.h"

#include "byte_codes.h"

#include "byte_product.h"
#endif

#include "attention.h"

#include "norm.h"

template <class In, class Out>
static void product_to(const Matrix& m, const void* x, int rows, const float* biases, const Activation* gate, void* out) {
  Outputs<Out> to(m, biases, gate, out);
#if defined(MASU_PAIRS)
  if constexpr (!std::is_same<In, F32>::value)
    if (has_dots(m)) return product_by_pairs<In>(m, x, rows, to);
#endif
  product<In>(m, x, rows, to);
}

template <class T>
static void product_of(const Matrix& m, const void* x, int rows, const float* biases, bool wide, const Activation* gate, void* out) {
  wide ? product_to<T, F32>(m, x, rows, biases, gate, out) : product_to<T, T>(m, x, rows, biases, gate, out);
}

template <class In, class Out>
static void rounded_product_to(const Matrix& m, const void* x, int rows, const float* biases, const Activation* gate, void* out) {
  Outputs<Out> to(m, biases, gate, out);
#if defined(MASU_PAIRS)
  rounded_product<In>(m, x, rows, to, byte_product<Out>);
#else
  rounded_product<In>(m, x, rows, to, scaled_product<Out>);
#endif
}

template <class T>
static void rounded_product_of(const Matrix& m, const void* x, int rows, const float* biases, bool wide, const Activation* gate, void* out) {
  wide ? rounded_product_to<T, F32>(m, x, rows, biases, gate, out) : rounded_product_to<T, T>(m, x, rows, biases, gate, out);
}

static void any_product(const Matrix& m, uint32_t type, const void* x, int rows, const float* biases, bool wide,
                        const Activation* gate, bool rounds, void* out) {
  auto by_type = [&](auto* in_f32, auto* in_f16, auto* in_bf16) {
    (type == kF32 ? in_f32 : type == kF16 ? in_f16 : in_bf16)(m, x, rows, biases, wide, gate, out);
  };
  if (rounds && takes_rounded(m)) by_type(rounded_product_of<F32>, rounded_product_of<F16>, rounded_product_of<BF16>);
  else by_type(product_of<F32>, product_of<F16>, product_of<BF16>);
}

static void any_lookup(const Matrix& m, uint32_t type, const int32_t* ids, int count, void* out) {
  if (type == kF32) lookup<F32>(m, ids, count, out);
  else if (type == kF16) lookup<F16>(m, ids, count, out);
  else lookup<BF16>(m, ids, count, out);
}

static void any_attention(uint32_t type, const void* queries, const void* keys, const void* values, const float* sinks,
                          const int* n, const float* f, void* out) {
  AttentionCall call{queries, keys, values, sinks, out, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] != 0, n[8], f[0], f[1]};
  if (type == kF32) attention<F32>(call);
  else if (type == kF16) attention<F16>(call);
  else attention<BF16>(call);
}

static void any_norm(uint32_t type, const void* x, const float* scales, const float* biases, const int* n,
                     const float* f, void* out) {
  NormCall call{x, scales, biases, out, n[0], n[1], f[0], f[1], n[2] != 0, n[3] != 0};
  if (type == kF32) norm<F32>(call);
  else if (type == kF16) norm<F16>(call);
  else norm<BF16>(call);
}

#include "between_of.h"
