// A few rows of bfloat16 times stored codes. The memory is the limit, and is asked in good time.
//
// Up to sixteen rows of weights are read across at a time: each is a stream of its own, more than
// the processor foresees, and the groups of neighbouring rows are lines far apart from each other.

constexpr int kFew = 16;  // rows; more are worth decoding weights for
constexpr size_t kPairsAhead = 24576;  // bytes: what a processor reads while the memory answers

// Where some rows of weights stand, and what is to be asked for on the way.
struct Unit {
  const uint8_t* rows;
  const uint8_t* later;             // as many rows that are to come,
  const uint8_t *scales, *offsets;  // and the end of the next tile's lines of groups, or null
};

// The unit that begins with the row `at` of a tile. `asks` where its lines have not been asked for yet.
template <class F>
static inline Unit unit_at(const Matrix& m, uint32_t first, int at, int height, bool asks) {
  const size_t span = height * static_cast<size_t>(m.row_bytes), ahead = (kPairsAhead + span - 1) / span * span;
  const uint8_t* here = tile_row(m, first, at);
  Unit unit{here, asks ? here + ahead : here, nullptr, nullptr};
  if (!asks || at > 0 || !F::kCodes || F::kByRow || !has_plain_groups(m)) return unit;
  const size_t next = (static_cast<size_t>(first) + 2 * kTile - 1) * sizeof(uint16_t);
  unit.scales = reinterpret_cast<const uint8_t*>(m.scales) + next;
  if (m.offset_kind == kLikeScales) unit.offsets = reinterpret_cast<const uint8_t*>(m.offsets) + next;
  return unit;
}

// Adds a block of `kRows` rows of weights times as much of `kCount` rows of numbers, to [kCount][kRows].
template <class F, bool kWhole, int kPieces, int kRows, int kCount>
static inline void add_block(const Matrix& m, const Unit& unit, int block, const float* scales, const Groups& groups,
                             __m512i levels, const PairRows& x, V* sums) {
  constexpr bool kInFours = F::kCodes && !F::kByRow && F::kGroups < 8 && kRows >= 4;
  // Written out here: compilers take calls of functions that only prefetch for void.
  for (int g = 0; F::kCodes && !F::kByRow && g < F::kGroups; g++) {
    size_t line = (static_cast<size_t>(block) * block_columns(m) / m.group_size + g) * m.group_step * sizeof(uint16_t);
    if (unit.scales) __builtin_prefetch(unit.scales + line, 0, 2);
    if (unit.offsets) __builtin_prefetch(unit.offsets + line, 0, 2);
  }
  V four = set1(0.0f);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) {
    size_t row = static_cast<size_t>(r) * m.row_bytes, at = row + static_cast<size_t>(block) * F::kBytes;
    for (size_t line = 0; line < F::kBytes; line += 64) __builtin_prefetch(unit.later + at + line, 0, 2);
    __m512i w[kVectors];
    unpack_pairs<F, kWhole>(unit.rows + row, m.row_bytes, block, levels, w);
    if (kInFours && r % 4 == 0) four = four_scales<F>(scales + r, groups.group_step);
    V scale = kInFours ? of_row(four, r % 4) : F::kCodes ? lane_scales<F>(scales + r * groups.row_step, groups.group_step) : four;
#pragma GCC unroll 4
    for (int i = 0; i < kCount; i++) {
      const uint16_t* each = x.x + i * kPieces * x.width + block * kVectors * 32;
      V& sum = sums[i * kRows + r];
      V made = F::kCodes ? set1(0.0f) : sum;
      for (int s = 0; s < kPieces * kVectors; s++)
        made = dot(made, w[s % kVectors], load_bits(each + s / kVectors * x.width + 32 * (s % kVectors)));
      sum = F::kCodes ? fma(made, scale, sum) : made;
    }
  }
}

// `kRows` rows of weights times `kCount` rows of numbers; out[row * kTile + weight row]. `scales` are
// those of the first row of weights.
template <class F, int kPieces, int kRows, int kCount>
static inline void few_pairs(const Matrix& m, const Unit& unit, const float* scales, const Groups& groups, __m512i levels,
                             const PairRows& x, float* out) {
  auto scales_of = [&](int block) {
    return F::kCodes ? scales + static_cast<size_t>(block) * block_columns(m) / m.group_size * groups.group_step : nullptr;
  };
  int whole = whole_blocks<F>(m);
  V sums[kRows * kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kCount; i++) sums[i] = set1(0.0f);
  for (int b = 0; b < whole; b++) add_block<F, true, kPieces, kRows, kCount>(m, unit, b, scales_of(b), groups, levels, x, sums);
  if (whole < pair_blocks_of(m)) add_block<F, false, kPieces, kRows, kCount>(m, unit, whole, scales_of(whole), groups, levels, x, sums);
  V held[kRows * kCount];  // sums that are pointed at would be written to memory all along
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kCount; i++) held[i] = sums[i];
  store_sums<kRows, kCount>(held, out);
}

// A tile times a few rows, at most four at a time.
template <class F, int kPieces>
static void few_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* out) {
  Groups groups = unpack_pair_groups(m, first, count, room);
  __m512i levels = levels_of_pairs<F>(m);
  for (int i = 0, together; i < rows.count; i += together) {
    together = rows.count - i >= 4 ? 4 : rows.count - i >= 2 ? 2 : 1;
    PairRows x{rows.x + i * kPieces * rows.width, nullptr, rows.width, 0, together, kPieces};
    const int height = 16 / together;
    for (int at = 0; at < count;) {
      Unit unit = unit_at<F>(m, first, at, height, i == 0);
      const float* scales = groups.scales + static_cast<size_t>(at) * groups.row_step;
      float* to = out + i * kTile + at;
      bool is_whole = at + height <= count;
      auto* body = together == 4 ? few_pairs<F, kPieces, 4, 4> : together == 2 ? few_pairs<F, kPieces, 8, 2> : few_pairs<F, kPieces, 16, 1>;
      if (is_whole) body(m, unit, scales, groups, levels, x, to);
      for (int j = 0; !is_whole && j < together; j++)
        few_pairs<F, kPieces, 1, 1>(m, unit, scales, groups, levels, {x.x + j * kPieces * x.width, nullptr, x.width, 0, 1, kPieces}, to + j * kTile);
      at += is_whole ? height : 1;
    }
  }
  float added[kTile];
  for (int i = 0; F::kCodes && i < rows.count; i++) {
    offset_sums(m, groups, rows.sums + i * rows.groups, count, added);
    for (int r = 0; r < count; r++) out[i * kTile + r] += added[r];
  }
}
