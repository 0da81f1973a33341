// Sixteen floats as an array, in plain C++: what the other instruction sets are compared with. Part of
// simd.h.

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
