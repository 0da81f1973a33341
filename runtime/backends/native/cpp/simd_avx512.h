// Sixteen floats in one register of AVX-512. Part of simd.h.

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
