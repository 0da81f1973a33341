// Sixteen floats in four registers of NEON. Part of simd.h.
//
// Sums are in the trees of AVX2: with products and sums fused as there, both make the same bits.

struct V { float32x4_t a, b, c, d; };
static inline V load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
static inline void store(float* p, V x) {
  vst1q_f32(p, x.a), vst1q_f32(p + 4, x.b), vst1q_f32(p + 8, x.c), vst1q_f32(p + 12, x.d);
}
static inline V quarters(float x, float y, float z, float w) {
  return {vdupq_n_f32(x), vdupq_n_f32(y), vdupq_n_f32(z), vdupq_n_f32(w)};
}
static inline V halves(float x, float y) { return quarters(x, x, y, y); }
static inline V set1(float x) { return quarters(x, x, x, x); }
static inline V fma(V x, V y, V z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
static inline V operator+(V x, V y) {
  return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
static inline V operator-(V x, V y) {
  return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
static inline V operator*(V x, V y) {
  return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
static inline V operator/(V x, V y) {
  return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
static inline float32x4_t load4(const uint16_t* p, BF16) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
static inline float32x4_t load4(const uint16_t* p, F16) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void store4(uint16_t* p, float32x4_t x, BF16) {
  uint32x4_t bits = vreinterpretq_u32_f32(x), high = vshrq_n_u32(bits, 16);
  uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  uint32x4_t up = vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
  uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(x, x), up, quiet)));
}
static inline void store4(uint16_t* p, float32x4_t x, F16) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
template <class T>
static inline V load(const uint16_t* p, T type) {
  return {load4(p, type), load4(p + 4, type), load4(p + 8, type), load4(p + 12, type)};
}
template <class T>
static inline void store(uint16_t* p, V x, T type) {
  store4(p, x.a, type), store4(p + 4, x.b, type), store4(p + 8, x.c, type), store4(p + 12, x.d, type);
}
static inline uint8x16_t bytes_of(float32x4_t x) { return vreinterpretq_u8_f32(x); }
static inline float32x4_t low_words(uint8x16_t x, uint8x16_t y) {  // in turn a half word of each
  return vreinterpretq_f32_u16(vzip1q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
}
static inline float32x4_t high_words(uint8x16_t x, uint8x16_t y) {
  return vreinterpretq_f32_u16(vzip2q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
}
// A lookup is of bytes: the levels are taken apart into four tables of sixteen bytes, and what the
// tables give is put together again.
static inline V nibbles(const uint8_t* p, int place, V levels) {
  int16x8_t right = vdupq_n_s16(static_cast<int16_t>(-4 * place));
  uint16x8_t first = vshlq_u16(vreinterpretq_u16_u8(vld1q_u8(p)), right);
  uint16x8_t second = vshlq_u16(vreinterpretq_u16_u8(vld1q_u8(p + 16)), right);
  uint8x16_t index = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second)), vdupq_n_u8(15));
  uint8x16_t even_ab = vuzp1q_u8(bytes_of(levels.a), bytes_of(levels.b)), odd_ab = vuzp2q_u8(bytes_of(levels.a), bytes_of(levels.b));
  uint8x16_t even_cd = vuzp1q_u8(bytes_of(levels.c), bytes_of(levels.d)), odd_cd = vuzp2q_u8(bytes_of(levels.c), bytes_of(levels.d));
  uint8x16_t byte0 = vqtbl1q_u8(vuzp1q_u8(even_ab, even_cd), index), byte1 = vqtbl1q_u8(vuzp1q_u8(odd_ab, odd_cd), index);
  uint8x16_t byte2 = vqtbl1q_u8(vuzp2q_u8(even_ab, even_cd), index), byte3 = vqtbl1q_u8(vuzp2q_u8(odd_ab, odd_cd), index);
  uint8x16_t low_ab = vzip1q_u8(byte0, byte1), high_ab = vzip1q_u8(byte2, byte3);
  uint8x16_t low_cd = vzip2q_u8(byte0, byte1), high_cd = vzip2q_u8(byte2, byte3);
  return {low_words(low_ab, high_ab), high_words(low_ab, high_ab), low_words(low_cd, high_cd), high_words(low_cd, high_cd)};
}
static inline float32x4_t bytes4(uint16x4_t x) { return vcvtq_f32_u32(vmovl_u16(x)); }
static inline V bytes(const uint8_t* p) {
  uint8x16_t all = vld1q_u8(p);
  uint16x8_t low = vmovl_u8(vget_low_u8(all)), high = vmovl_u8(vget_high_u8(all));
  return {bytes4(vget_low_u16(low)), bytes4(vget_high_u16(low)), bytes4(vget_low_u16(high)), bytes4(vget_high_u16(high))};
}
static inline int32x4_t lanes_from(int first) {
  const int32_t zero_to_three[4] = {0, 1, 2, 3};
  return vaddq_s32(vld1q_s32(zero_to_three), vdupq_n_s32(first));
}
static inline float32x4_t bits4(uint8_t byte, int first) {
  uint32x4_t shifted = vshlq_u32(vdupq_n_u32(byte), vnegq_s32(lanes_from(first)));
  return vcvtq_f32_u32(vandq_u32(shifted, vdupq_n_u32(1)));
}
static inline V bits(const uint8_t* p) { return {bits4(p[0], 0), bits4(p[0], 4), bits4(p[1], 0), bits4(p[1], 4)}; }
static inline float32x4_t first4(float32x4_t x, int count, int first) {
  uint32x4_t is_in = vcltq_s32(lanes_from(first), vdupq_n_s32(count));
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), is_in));
}
static inline V first(V x, int count) {
  return {first4(x.a, count, 0), first4(x.b, count, 4), first4(x.c, count, 8), first4(x.d, count, 12)};
}
static inline V select_less(V x, V y, V yes, V no) {
  return {vbslq_f32(vcltq_f32(x.a, y.a), yes.a, no.a), vbslq_f32(vcltq_f32(x.b, y.b), yes.b, no.b),
          vbslq_f32(vcltq_f32(x.c, y.c), yes.c, no.c), vbslq_f32(vcltq_f32(x.d, y.d), yes.d, no.d)};
}
static inline float32x4_t max4(float32x4_t x, float32x4_t y) {
  float32x4_t larger = vbslq_f32(vcgtq_f32(x, y), x, y);  // y where unordered, and of two zeros
  return vbslq_f32(vceqq_f32(x, x), larger, x);
}
static inline V max_or_nan(V x, V y) { return {max4(x.a, y.a), max4(x.b, y.b), max4(x.c, y.c), max4(x.d, y.d)}; }
static inline float largest_lane(V x) {  // NaN where there is one; of two zeros the positive one
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}
static inline V nearest(V x) { return {vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d)}; }
static inline float32x4_t power4(float32x4_t n) {
  int32x4_t biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(biased, 23));
}
static inline V power_of_two(V n) { return {power4(n.a), power4(n.b), power4(n.c), power4(n.d)}; }
static inline float32x4_t four_sums(const V* x) {
  float32x4_t low[4], high[4];  // lanes 0 to 3 and 4 to 7, once lanes that are eight apart are added
  for (int i = 0; i < 4; i++) low[i] = vaddq_f32(x[i].a, x[i].c), high[i] = vaddq_f32(x[i].b, x[i].d);
  return vaddq_f32(vpaddq_f32(vpaddq_f32(low[0], low[1]), vpaddq_f32(low[2], low[3])),
                   vpaddq_f32(vpaddq_f32(high[0], high[1]), vpaddq_f32(high[2], high[3])));
}
static inline V sum16(const V* x) { return {four_sums(x), four_sums(x + 4), four_sums(x + 8), four_sums(x + 12)}; }
static inline float sum(V x) {
  float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(vpadd_f32(two, two), 0);
}
