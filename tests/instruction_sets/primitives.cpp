// What each primitive of simd.h makes of many numbers, in the one instruction set this is built for.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(MASU_NEON)
#include <arm_neon.h>
#elif defined(MASU_AVX2) || defined(MASU_AVX512)
#include <immintrin.h>
#endif

#include "floats.h"
#include "records.h"

namespace masu {
namespace {

#include "simd.h"

// Zeros, numbers below the smallest normal one, ties, the edges of narrow types, infinities, NaN.
const std::vector<float> kSpecial = {
    0.0f, -0.0f, 1e-45f, -1e-45f, 1e-39f, 0x1p-126f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 0x1p-14f, 0.5f, -0.5f,
    1.0f, -1.0f, 1.5f, 2.5f, -2.5f, 65504.0f, 65519.0f, 65520.0f, -65536.0f, 0x1.fep127f, 3.4028235e38f,
    -3.4028235e38f, INFINITY, -INFINITY, NAN, 88.3f, -87.3f, 8388607.5f, 16777216.0f, 3.1415927f,
};

using Floats = std::vector<float>;

// `of(vector...)` for the inputs sixteen at a time, which are as long as each other.
template <class F>
Floats mapped(F of, const Floats& x, const Floats& y, const Floats& z) {
  Floats out(x.size());
  for (size_t i = 0; i + 16 <= x.size(); i += 16) store(&out[i], of(load(&x[i]), load(&y[i]), load(&z[i])));
  return out;
}

// Every special number with each, and random ones of many sizes.
void pairs_of(Floats& x, Floats& y, Floats& z) {
  Numbers numbers(7);
  for (float a : kSpecial)
    for (float b : kSpecial) x.push_back(a), y.push_back(b), z.push_back(kSpecial[numbers.below(static_cast<int>(kSpecial.size()))]);
  for (int i = 0; i < 4096; i++)
    for (Floats* to : {&x, &y, &z}) {
      float number = numbers.number();
      to->push_back(std::ldexp(number, numbers.below(24) - 12));
    }
}

void lane_by_lane() {
  Floats x, y, z;
  pairs_of(x, y, z);
  record<F32>("add", mapped([](V a, V b, V) { return a + b; }, x, y, z));
  record<F32>("subtract", mapped([](V a, V b, V) { return a - b; }, x, y, z));
  record<F32>("multiply", mapped([](V a, V b, V) { return a * b; }, x, y, z));
  record<F32>("divide", mapped([](V a, V b, V) { return a / b; }, x, y, z));
  record<F32>("fma", mapped([](V a, V b, V c) { return fma(a, b, c); }, x, y, z));
  record<F32>("select_less", mapped([](V a, V b, V c) { return select_less(a, b, c, a); }, x, y, z));
  record<F32>("max_or_nan", mapped([](V a, V b, V) { return max_or_nan(a, b); }, x, y, z));
  record<F32>("nearest", mapped([](V a, V, V) { return nearest(a); }, x, y, z));
  record<F32>("rounded_bf16", mapped([](V a, V, V) { return rounded<BF16>(a); }, x, y, z));
  record<F32>("rounded_f16", mapped([](V a, V, V) { return rounded<F16>(a); }, x, y, z));
  Floats whole;
  for (int n = -126; n <= 129; n++) whole.push_back(static_cast<float>(std::min(n, 127)));
  record<F32>("power_of_two", mapped([](V a, V, V) { return power_of_two(a); }, whole, whole, whole));
  Floats all;  // one of each 65536 numbers there are
  for (uint32_t high = 0; high < 65536; high++) all.push_back(from_bits(high << 16 | 0x5a5a));
  record<F32>("exp", mapped([](V a, V, V) { return exp(a); }, all, all, all));
  record<F32>("tanh", mapped([](V a, V, V) { return tanh(a); }, all, all, all));
}

// Every narrow number, and around every one of them.
template <class T>
void narrow_floats(const std::string& name) {
  std::vector<uint16_t> all(65536), narrow;
  Floats wide(65536), near;
  for (uint32_t i = 0; i < 65536; i++) all[i] = static_cast<uint16_t>(i);
  for (size_t i = 0; i < 65536; i += 16) store(&wide[i], load(&all[i], T()));
  record<F32>("load_" + name, wide);
  for (uint32_t high = 0; high < 65536; high++)
    for (uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) near.push_back(from_bits(high << 16 | low));
  narrow.resize(near.size());
  for (size_t i = 0; i < near.size(); i += 16) store(&narrow[i], load(&near[i]), T());
  record<T>("store_" + name, narrow);
}

void codes() {
  Numbers numbers(11);
  Floats nibbled, bytes_, bits_(16), levels = numbers.many<F32>(16);
  for (int i = 0; i < 256; i++) {
    auto given = numbers.bytes(32);
    float lanes[16];
    for (int place = 0; place < 4; place++) {
      store(lanes, nibbles(given.data(), place, load(levels.data())));
      nibbled.insert(nibbled.end(), lanes, lanes + 16);
    }
    store(lanes, bytes(given.data()));
    bytes_.insert(bytes_.end(), lanes, lanes + 16);
    uint8_t pair[2] = {static_cast<uint8_t>(i), given[0]};
    store(lanes, bits(pair));
    bits_.insert(bits_.end(), lanes, lanes + 16);
  }
  record<F32>("nibbles", nibbled);
  record<F32>("bytes", bytes_);
  record<F32>("bits", bits_);
}

void lanes_apart() {
  Numbers numbers(13);
  Floats all(16 * 40), x = numbers.many<F32>(16), held(16);
  float* to = all.data();
  store(to, set1(1.5f)), store(to + 16, halves(1.0f, 2.0f)), store(to + 32, quarters(1.0f, 2.0f, 3.0f, 4.0f));
  to += 48;
  for (int count = 0; count <= 16; count++, to += 32) {
    store(to, first(load(x.data()), count));
    store(to + 16, load_some<F32>(x.data(), count));
  }
  record<F32>("lanes", all);
  for (int count = 0; count <= 16; count++) store_some<F32>(load(x.data()), count, held.data() + 16 - count);
  record<F32>("store_some", held);
}

void across_lanes() {
  Numbers numbers(17);
  Floats single, four, sixteen, largest, sizes;
  for (int i = 0; i < 256; i++) {
    Floats x = numbers.many<F32>(256);
    V vectors[16];
    float lanes[16];
    for (int k = 0; k < 16; k++) vectors[k] = load(&x[16 * static_cast<size_t>(k)]);
    for (int k = 0; k < 16; k++) single.push_back(sum(vectors[k]));
    sum4(vectors, lanes);
    four.insert(four.end(), lanes, lanes + 4);
    store(lanes, sum16(vectors));
    sixteen.insert(sixteen.end(), lanes, lanes + 16);
    if (i % 2) x[static_cast<size_t>(i) / 2 % 16] = kSpecial[static_cast<size_t>(i) / 2 % kSpecial.size()];
    largest.push_back(largest_lane(load(x.data())));
    largest.push_back(lane0(load(x.data())));
  }
  record<F32>("sum", single);
  record<F32>("sum4", four);
  record<F32>("sum16", sixteen);
  record<F32>("largest_lane", largest);
}

}  // namespace
}  // namespace masu

int main() {
  masu::lane_by_lane();
  masu::narrow_floats<masu::BF16>("bf16");
  masu::narrow_floats<masu::F16>("f16");
  masu::codes();
  masu::lanes_apart();
  masu::across_lanes();
}
