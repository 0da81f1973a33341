// Sixteen floats at a time, on every instruction set: what the kernels are written in.
//
// Included once per instruction set, inside its namespace. Sums are always kept in sixteen lanes,
// and lanes are always added in the same tree, so that no shape of a call changes an order.

#if defined(MASU_AVX512)
#include "simd_avx512.h"
#elif defined(MASU_AVX2)
#include "simd_avx2.h"
#elif defined(MASU_NEON)
#include "simd_neon.h"
#else
#include "simd_portable.h"
#endif

static inline float lane0(V a) {
  float lanes[16];
  store(lanes, a);
  return lanes[0];
}

#if !defined(MASU_AVX512) && !defined(MASU_NEON)
// The largest lane, NaN where there is one.
static inline float largest_lane(V a) {
  float lanes[32];
  for (int width = 8; width > 0; width /= 2) {
    store(lanes, a);
    std::memcpy(lanes + 16, lanes, sizeof(float) * 16);
    a = max_or_nan(a, load(lanes + width));
  }
  return lane0(a);
}
#endif

// Each of four sums, all in the tree of `sum`.
static inline void sum4(const V* a, float* out) {
  for (int i = 0; i < 4; i++) out[i] = sum(a[i]);
}

static inline V load(const float* p, F32) { return load(p); }
static inline void store(float* p, V a, F32) { store(p, a); }

// Some of sixteen numbers; beyond `count` zeros are read, and nothing is written.
template <class T>
static inline V load_some(const typename T::stored* from, int count) {
  if (count >= 16) return load(from, T());
  typename T::stored held[16] = {0};
  std::memcpy(held, from, count * sizeof held[0]);
  return load(held, T());
}

template <class T>
static inline void store_some(V values, int count, typename T::stored* to) {
  if (count >= 16) return store(to, values, T());
  typename T::stored held[16];
  store(held, values, T());
  std::memcpy(to, held, count * sizeof held[0]);
}

// Lanes rounded to the type and widened again.
template <class T>
static inline V rounded(V values) {
  typename T::stored held[16];
  store(held, values, T());
  return load(held, T());
}

template <>
inline V rounded<F32>(V values) { return values; }

// `exp` of sixteen floats, within 2 units in the last place; 0 below -87.3, NaN stays NaN.
static inline V exp(V x) {
  const V lowest = set1(-87.33654f), highest = set1(88.37626f);
  V held = select_less(x, lowest, lowest, x);
  held = select_less(highest, held, highest, held);
  V n = nearest(held * set1(1.44269504f));
  V r = fma(n, set1(-0.693359375f), held);
  r = fma(n, set1(2.12194440e-4f), r);
  V p = set1(1.9875691500e-4f);
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = fma(p, r, set1(c));
  V out = (fma(p, r * r, r) + set1(1.0f)) * power_of_two(n);
  out = select_less(x, lowest, set1(0.0f), out);
  return select_less(highest, x, set1(INFINITY), out);
}

static inline V tanh(V x) {
  V large = exp(set1(-2.0f) * max_or_nan(x, set1(0.0f) - x));
  V size = (set1(1.0f) - large) / (set1(1.0f) + large);
  return select_less(x, set1(0.0f), set1(0.0f) - size, size);
}
