// Sixteen floats at a time, on every instruction set: what the kernels are written in.
//
// Included once per instruction set, inside its namespace. Sums are always kept in sixteen lanes,
// and lanes are always added in the same tree, so that no shape of a call changes an order.

#if defined(MASU_AVX512)

struct V { __m512 v; };
static inline V load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline void store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
static inline V set1(float a) { return {_mm512_set1_ps(a)}; }
static inline V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static inline V operator+(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline V operator-(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline V operator*(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline V operator/(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline V load(const uint16_t* p, BF16) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
static inline V load(const uint16_t* p, F16) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static inline void store(uint16_t* p, V a, BF16) {
  __m512i bits = _mm512_castps_si512(a.v), high = _mm512_srli_epi32(bits, 16);
  __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i up = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  __mmask16 is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  up = _mm512_mask_or_epi32(up, is_nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(up));
}
static inline void store(uint16_t* p, V a, F16) {
  __m256i half = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}
// The levels of nibble `place` of sixteen little-endian words.
static inline V nibbles(const uint8_t* p, int place, V levels) {
  __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * place), levels.v)};
}
static inline V bytes(const uint8_t* p) {
  __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_cvtepi32_ps(wide)};
}
static inline V bits(const uint8_t* p) {
  __mmask16 mask = static_cast<__mmask16>(p[0] | p[1] << 8);
  return {_mm512_maskz_mov_ps(mask, _mm512_set1_ps(1.0f))};
}
static inline V halves(float a, float b) {
  return {_mm512_mask_blend_ps(0xff00, _mm512_set1_ps(a), _mm512_set1_ps(b))};
}
static inline V quarters(float a, float b, float c, float d) {
  __m512 low = _mm512_mask_blend_ps(0x00f0, _mm512_set1_ps(a), _mm512_set1_ps(b));
  __m512 high = _mm512_mask_blend_ps(0xf000, _mm512_set1_ps(c), _mm512_set1_ps(d));
  return {_mm512_mask_blend_ps(0xff00, low, high)};
}
static inline V first(V a, int count) {
  return {_mm512_maskz_mov_ps(static_cast<__mmask16>((1u << count) - 1), a.v)};
}
static inline V select_less(V a, V b, V yes, V no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
static inline V max_or_nan(V a, V b) {  // NaN where either is
  __m512 larger = _mm512_max_ps(a.v, b.v);  // b where unordered
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), larger, a.v)};
}
static inline float largest_lane(V a) {  // NaN where there is one
  a = max_or_nan(a, {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)});
  a = max_or_nan(a, {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)});
  a = max_or_nan(a, {_mm512_permute_ps(a.v, 0x4e)});
  a = max_or_nan(a, {_mm512_permute_ps(a.v, 0xb1)});
  return _mm512_cvtss_f32(a.v);
}
static inline V nearest(V a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline V power_of_two(V n) {
  __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
// Of four vectors the sums of each quarter: [a b c d] of lanes 0 to 3, of 4 to 7 ...
static inline V quarter_sums(V a, V b, V c, V d) {
  __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a.v, b.v), _mm512_unpackhi_ps(a.v, b.v));
  __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c.v, d.v), _mm512_unpackhi_ps(c.v, d.v));
  __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  return {_mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))};
}
// The sum of each of sixteen vectors, in one tree: lane i has that of vector i.
static inline V sum16(const V* a) {
  __m512 q0 = quarter_sums(a[0], a[1], a[2], a[3]).v, q1 = quarter_sums(a[4], a[5], a[6], a[7]).v;
  __m512 q2 = quarter_sums(a[8], a[9], a[10], a[11]).v, q3 = quarter_sums(a[12], a[13], a[14], a[15]).v;
  __m512 x = _mm512_add_ps(_mm512_shuffle_f32x4(q0, q1, 0x44), _mm512_shuffle_f32x4(q0, q1, 0xee));
  __m512 y = _mm512_add_ps(_mm512_shuffle_f32x4(q2, q3, 0x44), _mm512_shuffle_f32x4(q2, q3, 0xee));
  return {_mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd))};
}
static inline float sum(V a) {
  __m256 high = _mm512_extractf32x8_ps(a.v, 1);
  __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#elif defined(MASU_AVX2)

struct V { __m256 a, b; };
static inline V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline void store(float* p, V x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
static inline V set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline V fma(V x, V y, V z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline V operator+(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline V operator-(V x, V y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
static inline V operator*(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline V operator/(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
static inline __m256i words8(const uint16_t* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline V load(const uint16_t* p, BF16) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(words8(p), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(words8(p + 8), 16))};
}
static inline V load(const uint16_t* p, F16) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
static inline __m256i rounded8(__m256 x) {
  __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i up = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
static inline void store(uint16_t* p, V x, BF16) {
  __m256i packed = _mm256_packus_epi32(rounded8(x.a), rounded8(x.b));  // in two halves, each of both
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline void store(uint16_t* p, V x, F16) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, kNearest));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, kNearest));
}
static inline __m256 look_up8(__m256i index, V levels) {
  __m256 low = _mm256_permutevar8x32_ps(levels.a, index);
  __m256 high = _mm256_permutevar8x32_ps(levels.b, index);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}
static inline V nibbles(const uint8_t* p, int place, V levels) {
  auto* words = reinterpret_cast<const uint16_t*>(p);
  return {look_up8(_mm256_srli_epi32(words8(words), 4 * place), levels),
          look_up8(_mm256_srli_epi32(words8(words + 8), 4 * place), levels)};
}
static inline __m256 bytes8(const uint8_t* p) {
  __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight));
}
static inline V bytes(const uint8_t* p) { return {bytes8(p), bytes8(p + 8)}; }
static inline __m256 bits8(uint8_t byte) {
  __m256i shifts = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i shifted = _mm256_srlv_epi32(_mm256_set1_epi32(byte), shifts);
  return _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(1)));
}
static inline V bits(const uint8_t* p) { return {bits8(p[0]), bits8(p[1])}; }
static inline V halves(float x, float y) { return {_mm256_set1_ps(x), _mm256_set1_ps(y)}; }
static inline V quarters(float x, float y, float z, float w) {
  return {_mm256_blend_ps(_mm256_set1_ps(x), _mm256_set1_ps(y), 0xf0),
          _mm256_blend_ps(_mm256_set1_ps(z), _mm256_set1_ps(w), 0xf0)};
}
static inline __m256 first8(__m256 x, int count) {
  __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes)));
}
static inline V first(V x, int count) { return {first8(x.a, count), first8(x.b, count - 8)}; }
static inline V select_less(V x, V y, V yes, V no) {
  return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
static inline __m256 max8(__m256 x, __m256 y) {
  return _mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
static inline V max_or_nan(V x, V y) { return {max8(x.a, y.a), max8(x.b, y.b)}; }
static inline V nearest(V x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline __m256 power8(__m256 n) {
  __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
static inline V power_of_two(V n) { return {power8(n.a), power8(n.b)}; }
static inline __m256 pair_sums(__m256 a, __m256 b, __m256 c, __m256 d) {  // of each half: [a b c d]
  return _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
}
static inline __m256 sum8(const V* a) {
  __m256 e[8];
  for (int i = 0; i < 8; i++) e[i] = _mm256_add_ps(a[i].a, a[i].b);
  __m256 low = pair_sums(e[0], e[1], e[2], e[3]), high = pair_sums(e[4], e[5], e[6], e[7]);
  return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}
static inline V sum16(const V* a) { return {sum8(a), sum8(a + 8)}; }
static inline float sum(V x) {
  __m256 eight = _mm256_add_ps(x.a, x.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#else

struct V { float v[16]; };
#define MASU_EACH(expression) \
  V out;                      \
  for (int i = 0; i < 16; i++) out.v[i] = (expression); \
  return out
static inline V load(const float* p) { MASU_EACH(p[i]); }
static inline void store(float* p, V a) { std::memcpy(p, a.v, sizeof a.v); }
static inline V set1(float a) { MASU_EACH(a); }
static inline V fma(V a, V b, V c) { MASU_EACH(a.v[i] * b.v[i] + c.v[i]); }
static inline V operator+(V a, V b) { MASU_EACH(a.v[i] + b.v[i]); }
static inline V operator-(V a, V b) { MASU_EACH(a.v[i] - b.v[i]); }
static inline V operator*(V a, V b) { MASU_EACH(a.v[i] * b.v[i]); }
static inline V operator/(V a, V b) { MASU_EACH(a.v[i] / b.v[i]); }
static inline V load(const uint16_t* p, BF16) { MASU_EACH(widened(p[i], BF16())); }
static inline V load(const uint16_t* p, F16) { MASU_EACH(widened(p[i], F16())); }
static inline void store(uint16_t* p, V a, BF16) {
  for (int i = 0; i < 16; i++) p[i] = narrowed(a.v[i], BF16());
}
static inline void store(uint16_t* p, V a, F16) {
  for (int i = 0; i < 16; i++) p[i] = narrowed(a.v[i], F16());
}
static inline V nibbles(const uint8_t* p, int place, V levels) {
  MASU_EACH(levels.v[p[2 * i + place / 2] >> 4 * (place & 1) & 15]);
}
static inline V bytes(const uint8_t* p) { MASU_EACH(static_cast<float>(p[i])); }
static inline V bits(const uint8_t* p) { MASU_EACH(static_cast<float>(p[i / 8] >> (i & 7) & 1)); }
static inline V halves(float a, float b) { MASU_EACH(i < 8 ? a : b); }
static inline V quarters(float a, float b, float c, float d) {
  MASU_EACH(i < 4 ? a : i < 8 ? b : i < 12 ? c : d);
}
static inline V first(V a, int count) { MASU_EACH(i < count ? a.v[i] : 0.0f); }
static inline V select_less(V a, V b, V yes, V no) { MASU_EACH(a.v[i] < b.v[i] ? yes.v[i] : no.v[i]); }
static inline V max_or_nan(V a, V b) {
  MASU_EACH(a.v[i] != a.v[i] ? a.v[i] : a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline V nearest(V a) { MASU_EACH(std::nearbyint(a.v[i])); }
static inline V power_of_two(V n) {
  MASU_EACH(from_bits(static_cast<uint32_t>(static_cast<int32_t>(n.v[i]) + 127) << 23));
}
static inline float sum(V a);
static inline V sum16(const V* a) { MASU_EACH(sum(a[i])); }
static inline float sum(V a) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; i++) a.v[i] += a.v[i + width];
  return a.v[0];
}
#undef MASU_EACH

#endif

static inline float lane0(V a) {
  float lanes[16];
  store(lanes, a);
  return lanes[0];
}

#if !defined(MASU_AVX512)
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
