// Sixteen floats in two registers of AVX2, with FMA and F16C. Part of simd.h.

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
