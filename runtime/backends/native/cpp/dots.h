// Rows of bfloat16 times stored codes, by the processor's own products of bfloat16 pairs.
//
// A code's level is a bfloat16 number as it is, and so is an activation: their products are exact,
// and are summed in float. A group's scale multiplies its sum, and what the group's offset adds is
// the offset times the sum of the activations that it meets. That is the same value in another
// order; the order does not depend on the number of rows. Included for processors that have it.

#include "pair_codes.h"

#include "pair_groups.h"

// The bytes of a row of a tile; past the last row the last one stands in: what it gives is never read.
static inline const uint8_t* tile_row(const Matrix& m, uint32_t first, int at) {
  return reinterpret_cast<const uint8_t*>(m.weights) + (static_cast<size_t>(first) + at) * m.row_bytes;
}

// What a product by pairs needs of its rows: arranged, and the sums of their groups.
struct PairRows {
  const uint16_t* x;
  const float* sums;
  size_t width, groups;
  int count;
};

#include "single_dots.h"

// Two decoded rows times `kRows` rows; out[row * kTile + weight row].
template <class F, int kRows>
static inline void several_pairs(const uint16_t* w, const float* scales, int blocks, const uint16_t* x, float* out) {
  constexpr int kBlockSize = kVectors * 32;
  size_t width = static_cast<size_t>(blocks) * kBlockSize;
  V sums[kRows][2];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i++) sums[i][0] = sums[i][1] = set1(0.0f);
  for (int b = 0; b < blocks; b++) {
    __m512i left[kVectors], right[kVectors];
    for (int s = 0; s < kVectors; s++) {
      left[s] = load_bits(w + b * kBlockSize + 32 * s);
      right[s] = load_bits(w + width + b * kBlockSize + 32 * s);
    }
    V one = load(scales + b * 16), two = load(scales + (blocks + b) * 16);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; i++) {
      V a = F::kCodes ? set1(0.0f) : sums[i][0], c = F::kCodes ? set1(0.0f) : sums[i][1];
      for (int s = 0; s < kVectors; s++) {
        __m512i each = load_bits(x + i * width + b * kBlockSize + 32 * s);
        a = dot(a, left[s], each);
        c = dot(c, right[s], each);
      }
      sums[i][0] = F::kCodes ? fma(a, one, sums[i][0]) : a;
      sums[i][1] = F::kCodes ? fma(c, two, sums[i][1]) : c;
    }
  }
  for (int i = 0; i < kRows; i++)
    for (int r = 0; r < 2; r++) out[i * kTile + r] = sum(sums[i][r]);
}

// Two rows of codes, and the scales of their lanes, as `several_pairs` takes them.
template <class F>
static inline void decode_pairs(const Matrix& m, const Groups& groups, uint32_t first, int place, int count, __m512i levels,
                                uint16_t* decoded, float* scales) {
  int blocks = pair_blocks_of(m), whole = whole_blocks<F>(m);
  for (int r = 0; r < 2; r++) {
    int at = place + r < count ? place + r : count - 1;
    const uint8_t* row = tile_row(m, first, at);
    const float* from = groups.scales + static_cast<size_t>(at) * groups.row_step;
    for (int b = 0; b < blocks; b++) {
      __m512i w[kVectors];
      b < whole ? unpack_pairs<F, true>(row, m.row_bytes, b, levels, w) : unpack_pairs<F, false>(row, m.row_bytes, b, levels, w);
      for (int s = 0; s < kVectors; s++) _mm512_storeu_si512(decoded + ((r * blocks + b) * kVectors + s) * 32, w[s]);
      if (F::kCodes)
        store(scales + (r * blocks + b) * 16,
              lane_scales<F>(from + static_cast<size_t>(b) * block_columns(m) / m.group_size * groups.group_step, groups.group_step));
    }
  }
}

// A tile times several rows.
template <class F>
static void several_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* sums) {
  Groups groups = unpack_pair_groups(m, first, count, room);
  __m512i levels = levels_of_pairs<F>(m);
  int blocks = pair_blocks_of(m);
  float* scales = room + group_room(m);
  auto* decoded = reinterpret_cast<uint16_t*>(scales + 2 * 16 * blocks);
  for (int at = 0; at < count; at += 2) {
    decode_pairs<F>(m, groups, first, at, count, levels, decoded, scales);
    const uint16_t* x = rows.x;
    float* out = sums + at;
    int left = rows.count;
    for (; left >= 4; left -= 4, x += 4 * rows.width, out += 4 * kTile) several_pairs<F, 4>(decoded, scales, blocks, x, out);
    if (left == 3) several_pairs<F, 3>(decoded, scales, blocks, x, out);
    if (left == 2) several_pairs<F, 2>(decoded, scales, blocks, x, out);
    if (left == 1) several_pairs<F, 1>(decoded, scales, blocks, x, out);
  }
  float added[kTile];
  for (int i = 0; F::kCodes && i < rows.count; i++) {
    offset_sums(m, groups, rows.sums + i * rows.groups, count, added);
    for (int r = 0; r < count; r++) sums[i * kTile + r] += added[r];
  }
}

template <uint32_t kKind, int kGroups, class Body>
static inline void with_groups(bool counted, bool by_row, Body body) {
  if (counted) return by_row ? body(PairForm<kKind, kGroups, true, true>()) : body(PairForm<kKind, kGroups, true, false>());
  if (kKind == kCodes4) return by_row ? body(PairForm<kCodes4, kGroups, false, true>()) : body(PairForm<kCodes4, kGroups, false, false>());
}

template <class Body>
static inline void with_pair_form(const Matrix& m, Body body) {
  if (m.kind == kBF16) return body(PairForm<kBF16>());
  bool bytes = m.kind == kCodes8, counted = is_counted(m), by_row = m.group_step == 1;
  switch (std::max(1u, block_columns(m) / m.group_size)) {
    case 1: return bytes ? with_groups<kCodes8, 1>(counted, by_row, body) : with_groups<kCodes4, 1>(counted, by_row, body);
    case 2: return bytes ? with_groups<kCodes8, 2>(counted, by_row, body) : with_groups<kCodes4, 2>(counted, by_row, body);
    case 4: return bytes ? with_groups<kCodes8, 4>(counted, by_row, body) : with_groups<kCodes4, 4>(counted, by_row, body);
    default: return with_groups<kCodes4, 8>(counted, by_row, body);
  }
}

// Some rows, all of them ordinary.
template <class Out>
static void pair_product(const Matrix& m, const uint16_t* x, int count, const float* biases, typename Out::stored* out) {
  size_t width = pair_width(m), groups = group_line(m);
  std::vector<uint16_t> arranged(width * count);
  std::vector<float> sums_of_groups(groups * count);
  for (int i = 0; i < count; i++) {
    arrange_pairs(m, x + static_cast<size_t>(i) * m.columns, arranged.data() + i * width);
    if (groups) group_sums(m, x + static_cast<size_t>(i) * m.columns, groups, sums_of_groups.data() + i * groups);
  }
  PairRows rows{arranged.data(), sums_of_groups.data(), width, groups, count};
  int tiles = static_cast<int>((m.rows + kTile - 1) / kTile), pieces = std::min(tiles, (count == 1 ? 2 : 16) * threads());
  auto body = [&](int piece) {
    thread_local std::vector<float> room;
    size_t before = group_room(m) + 32 * static_cast<size_t>(pair_blocks_of(m)) + width;
    size_t needed = before + static_cast<size_t>(count) * kTile;
    if (room.size() < needed) room.resize(needed);
    float* sums = room.data() + before;
    int from = static_cast<int>(static_cast<int64_t>(tiles) * piece / pieces);
    int to = static_cast<int>(static_cast<int64_t>(tiles) * (piece + 1) / pieces);
    with_pair_form(m, [&](auto form) {
      auto* tile = count == 1 ? single_tile<decltype(form)> : several_tile<decltype(form)>;
      for (int t = from; t < to; t++) {
        uint32_t first = static_cast<uint32_t>(t) * kTile;
        int height = static_cast<int>(std::min<uint32_t>(kTile, m.rows - first));
        tile(m, first, height, rows, room.data(), sums);
        finish<Out>(m, first, height, count, sums, biases, out);
      }
    });
  };
  parallel(pieces, body);
}

// Runs of ordinary rows by pairs, the others one by one in floats.
template <class Out>
static void product_by_pairs(const Matrix& m, const void* x_, int rows, const float* biases, void* out_) {
  auto* x = static_cast<const uint16_t*>(x_);
  auto* out = static_cast<typename Out::stored*>(out_);
  for (int start = 0; start < rows;) {
    int end = start;
    while (end < rows && end - start < kRowsAtOnce && is_ordinary(x + static_cast<size_t>(end) * m.columns, m.columns)) end++;
    const uint16_t* from = x + static_cast<size_t>(start) * m.columns;
    auto* to = out + static_cast<size_t>(start) * m.rows;
    if (end == start) product<BF16, Out>(m, from, 1, biases, to), end++;
    else pair_product<Out>(m, from, end - start, biases, to);
    start = end;
  }
}
