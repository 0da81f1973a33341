// Rows of bfloat16 times stored codes, by the processor's own products of bfloat16 pairs.
//
// A code's level is a bfloat16 number as it is, and so is an activation: their products are exact,
// and are summed in float. A group's scale multiplies its sum, and what the group's offset adds is
// the offset times the sum of the activations that it meets. That is the same value in another
// order; the order does not depend on the number of rows. Included for processors that have it.

#include "pair_codes.h"

#include "pair_groups.h"

// The bytes of a row of a tile.
static inline const uint8_t* tile_row(const Matrix& m, uint32_t first, int at) {
  return reinterpret_cast<const uint8_t*>(m.weights) + (static_cast<size_t>(first) + at) * m.row_bytes;
}

// What a product by pairs needs of its rows: each as `pieces` arranged rows of bfloat16 that it is
// the sum of, and the sums of its groups.
struct PairRows {
  const uint16_t* x;
  const float* sums;
  size_t width, groups;
  int count, pieces;
};

// Sums [kCount][kRows], sixteen or one of them, to out[row * kTile + weight row].
template <int kRows, int kCount>
static inline void store_sums(const V* sums, float* out) {
  if (kRows * kCount == 1) {
    out[0] = sum_of_quarters(sums[0]);
    return;
  }
  V all = sum16(sums);
  if (kRows == 16) return store(out, all);
  float lanes[16];
  store(lanes, all);
  for (int i = 0; i < kCount; i++) std::memcpy(out + i * kTile, lanes + i * kRows, kRows * sizeof(float));
}

#include "few_dots.h"

// A decoded row: levels [blocks][128], and the scales of their lanes [blocks][16].
struct Decoded {
  const uint16_t* levels;
  const float* scales;
};

constexpr int kAbreast = 4;  // rows of weights, and of numbers, whose products are summed side by side

// Four decoded rows times `kRows` rows; out[row * kTile + weight row].
template <bool kCodes, int kPieces, int kRows>
static inline void several_pairs(const Decoded* decoded, int blocks, const uint16_t* x, float* out) {
  constexpr int kBlockSize = kVectors * 32;
  size_t width = static_cast<size_t>(blocks) * kBlockSize;
  V sums[kAbreast * kAbreast];
#pragma GCC unroll 16
  for (int i = 0; i < kAbreast * kAbreast; i++) sums[i] = set1(0.0f);
  for (int b = 0; b < blocks; b++) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; i++) {
      const uint16_t* each = x + i * kPieces * width + b * kBlockSize;
      V made[kAbreast];
#pragma GCC unroll 4
      for (int r = 0; r < kAbreast; r++) made[r] = kCodes ? set1(0.0f) : sums[i * kAbreast + r];
#pragma GCC unroll 8
      for (int s = 0; s < kPieces * kVectors; s++)
#pragma GCC unroll 4
        for (int r = 0; r < kAbreast; r++)
          made[r] = dot(made[r], load_bits(decoded[r].levels + b * kBlockSize + 32 * (s % kVectors)),
                        load_bits(each + s / kVectors * width + 32 * (s % kVectors)));
#pragma GCC unroll 4
      for (int r = 0; r < kAbreast; r++) {
        V& sum = sums[i * kAbreast + r];
        sum = kCodes ? fma(made[r], load(decoded[r].scales + b * 16), sum) : made[r];
      }
    }
  }
  V held[kAbreast * kAbreast];  // sums that are pointed at would be written to memory all along
#pragma GCC unroll 16
  for (int i = 0; i < kAbreast * kAbreast; i++) held[i] = sums[i];
  store_sums<kAbreast, kRows>(held, out);
}

// Rows of numbers are gone through four at a time: they stay near while all that is decoded passes.
template <bool kCodes, int kPieces>
static void several_rows(const Decoded* decoded, int count, int blocks, const PairRows& rows, float* out) {
  for (int i = 0; i < rows.count; i += kAbreast) {
    const uint16_t* x = rows.x + i * kPieces * rows.width;
    int left = std::min(kAbreast, rows.count - i);
    auto* body = left == 4   ? several_pairs<kCodes, kPieces, 4>
                 : left == 3 ? several_pairs<kCodes, kPieces, 3>
                 : left == 2 ? several_pairs<kCodes, kPieces, 2>
                             : several_pairs<kCodes, kPieces, 1>;
    for (int r = 0; r < count; r += kAbreast) body(decoded + r, blocks, x, out + i * kTile + r);
  }
}

// A row of codes, and the scales of its lanes.
template <class F>
static inline Decoded decode_pairs(const Matrix& m, const Groups& groups, uint32_t first, int at, __m512i levels, float* room) {
  int blocks = pair_blocks_of(m), whole = whole_blocks<F>(m);
  const uint8_t* row = tile_row(m, first, at);
  const float* from = groups.scales + static_cast<size_t>(at) * groups.row_step;
  auto* decoded = reinterpret_cast<uint16_t*>(room + blocks * 16);
  for (int b = 0; b < blocks; b++) {
    __m512i w[kVectors];
    b < whole ? unpack_pairs<F, true>(row, m.row_bytes, b, levels, w) : unpack_pairs<F, false>(row, m.row_bytes, b, levels, w);
    for (int s = 0; s < kVectors; s++) _mm512_storeu_si512(decoded + (b * kVectors + s) * 32, w[s]);
    if (!F::kCodes) continue;
    size_t group = static_cast<size_t>(b) * block_columns(m) / m.group_size;
    store(room + b * 16, lane_scales<F>(from + group * groups.group_step, groups.group_step));
  }
  return {decoded, room};
}

constexpr int kMostDecoded = 8;         // rows of weights
constexpr size_t kDecodedBytes = 16384;  // of them: what stays in the first-level cache

static inline size_t decoded_floats(const Matrix& m) { return static_cast<size_t>(pair_blocks_of(m)) * (16 + kVectors * 16); }

// A tile times several rows.
template <class F>
static void several_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* sums) {
  Groups groups = unpack_pair_groups(m, first, count, room);
  __m512i levels = levels_of_pairs<F>(m);
  float* decoded_room = room + group_room(m);
  size_t size = decoded_floats(m);
  int together = size * kMostDecoded * sizeof(float) <= kDecodedBytes ? kMostDecoded : kAbreast;
  for (int at = 0; at < count; at += together) {
    Decoded decoded[kMostDecoded];
    int here = std::min(together, count - at);
    for (int r = 0; r < here; r++) decoded[r] = decode_pairs<F>(m, groups, first, at + r, levels, decoded_room + r * size);
    for (int r = here; r < together; r++) decoded[r] = decoded[here - 1];  // what it gives is written over or never read
    auto* body = rows.pieces == 1 ? several_rows<F::kCodes, 1> : several_rows<F::kCodes, 2>;
    body(decoded, here, pair_blocks_of(m), rows, sums + at);
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

// Pieces are taken in turns: the ones that a thread takes shall follow each other in memory.
static inline int in_runs(int ticket, int pieces, int runs) {
  int lines = pieces / runs;
  return ticket < lines * runs ? ticket % lines * runs + ticket / lines : ticket;
}

// All tiles of some rows of outputs, those from `start` on, shared out among threads. `tile` makes the
// sums of one, with `needed` floats of room.
template <class Out, class Tile>
static void in_tiles(const Matrix& m, int start, int count, const Outputs<Out>& to, size_t needed, Tile tile) {
  int tiles = to.tiles(), runs = count <= kFew ? 2 : 16, pieces = std::min(tiles, runs * threads());
  auto body = [&](int ticket) {
    int piece = in_runs(ticket, pieces, runs);
    thread_local Room<float> room;
    size_t all = needed + static_cast<size_t>(count) * kTile;
    if (room.size() < all) room.resize(all);
    float* sums = room.data() + needed;
    int from = static_cast<int>(static_cast<int64_t>(tiles) * piece / pieces);
    int end = static_cast<int>(static_cast<int64_t>(tiles) * (piece + 1) / pieces);
    with_pair_form(m, [&](auto form) {
      auto add = [&](uint32_t first, int height) { tile(form, first, height, room.data(), sums); };
      for (int t = from; t < end; t++) write_tile(m, t, start, count, to, sums, add);
    });
  };
  parallel(pieces, body);
}

// A row as bfloat16, and what that leaves of it: nothing of bfloat16, and of a half (11 bits) what
// bfloat16 (8 bits) holds exactly.
template <class In>
static inline void split(const uint16_t* x, size_t columns, uint16_t* out) {
  for (size_t c = 0; c < columns; c += 16) {
    int count = static_cast<int>(std::min<size_t>(16, columns - c));
    V all = load_some<In>(x + c, count), first = rounded<BF16>(all);
    store_some<BF16>(first, count, out + c);
    store_some<BF16>(all - first, count, out + columns + c);
  }
}

// Some rows, all of them ordinary, those from `start` on: `x` is their first pieces, side by side with
// the others.
template <class Out>
static void pair_product(const Matrix& m, const uint16_t* x, int start, int count, int piece_count, const Outputs<Out>& to) {
  size_t width = pair_width(m), groups = group_line(m);
  Room<uint16_t> arranged(width * count * piece_count);
  Room<float> sums_of_groups(groups * count);
  for (int i = 0; i < count * piece_count; i++) {
    const uint16_t* piece = x + static_cast<size_t>(i) * m.columns;
    arrange_pairs(m, piece, arranged.data() + i * width);
    if (groups) add_group_sums(m, piece, sums_of_groups.data() + i / piece_count * groups);
  }
  PairRows rows{arranged.data(), sums_of_groups.data(), width, groups, count, piece_count};
  size_t needed = group_room(m) + kMostDecoded * decoded_floats(m);
  in_tiles(m, start, count, to, needed, [&](auto form, uint32_t first, int height, float* room, float* sums) {
    using F = decltype(form);
    auto* tile = count > kFew ? several_tile<F> : piece_count == 1 ? few_tile<F, 1> : few_tile<F, 2>;
    tile(m, first, height, rows, room, sums);
  });
}

// Runs of ordinary rows by pairs, the others one by one in floats.
template <class In, class Out>
static void product_by_pairs(const Matrix& m, const void* x_, int rows, const Outputs<Out>& to) {
  constexpr int kPieces = std::is_same<In, BF16>::value ? 1 : 2;
  auto* x = static_cast<const uint16_t*>(x_);
  size_t columns = m.columns;
  Room<uint16_t> pieces(kPieces > 1 ? rows * columns * kPieces : 0);
  for (int i = 0; kPieces > 1 && i < rows; i++) split<In>(x + i * columns, columns, pieces.data() + i * columns * kPieces);
  const uint16_t* first = kPieces > 1 ? pieces.data() : x;
  auto is_fit = [&](int row) { return is_ordinary(first + row * columns * kPieces, m.columns); };
  for (int start = 0; start < rows;) {
    int end = start;
    while (end < rows && end - start < kRowsAtOnce && is_fit(end)) end++;
    if (end > start) {
      pair_product(m, first + start * columns * kPieces, start, end - start, kPieces, to);
      start = end;
      continue;
    }
    Outputs<Out> row = to;
    row.rows += static_cast<size_t>(start) * to.width;
    product<In>(m, x + start * columns, 1, row);
    start++;
  }
}
