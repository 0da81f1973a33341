// One row of bfloat16 times stored codes. The memory is the limit, and is asked in good time.
//
// Sixteen rows of weights at a time are read across: each is a stream of its own, more than the
// processor foresees, and the groups of neighbouring rows are lines far apart from each other.

constexpr int kUnit = 16;
constexpr size_t kPairsAhead = 24576;  // bytes: what a processor reads while the memory answers

// Where a unit stands, and what is to be asked for on its way.
struct Unit {
  const uint8_t* rows;
  const uint8_t* later;          // as many rows that are to come,
  const uint8_t *scales, *offsets;  // and the end of the next tile's lines of groups, or null
};

// Adds a block of `kRows` rows of weights, one or sixteen, times as much of a row of numbers.
template <class F, bool kWhole, int kRows>
static inline void add_block(const Matrix& m, const Unit& unit, int block, const float* scales, const Groups& groups,
                             __m512i levels, const uint16_t* x, V* sums) {
  constexpr bool kInFours = F::kCodes && !F::kByRow && F::kGroups < 8 && kRows >= 4;
  __m512i each[kVectors], w[kVectors];
  for (int s = 0; s < kVectors; s++) each[s] = load_bits(x + (block * kVectors + s) * 32);
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
    unpack_pairs<F, kWhole>(unit.rows + row, m.row_bytes, block, levels, w);
    V made = F::kCodes ? set1(0.0f) : sums[r];
    for (int s = 0; s < kVectors; s++) made = dot(made, w[s], each[s]);
    if (kInFours && r % 4 == 0) four = four_scales<F>(scales + r, groups.group_step);
    V scale = kInFours ? of_row(four, r % 4) : F::kCodes ? lane_scales<F>(scales + r * groups.row_step, groups.group_step) : four;
    sums[r] = F::kCodes ? fma(made, scale, sums[r]) : made;
  }
}

// `kRows` rows of weights times a row of numbers. `scales` are those of the first row.
template <class F, int kRows>
static inline void single_unit(const Matrix& m, const Unit& unit, const float* scales, const Groups& groups, __m512i levels,
                               const uint16_t* x, float* out) {
  auto scales_of = [&](int block) {
    return F::kCodes ? scales + static_cast<size_t>(block) * block_columns(m) / m.group_size * groups.group_step : nullptr;
  };
  int whole = whole_blocks<F>(m);
  V sums[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) sums[r] = set1(0.0f);
  for (int b = 0; b < whole; b++) add_block<F, true, kRows>(m, unit, b, scales_of(b), groups, levels, x, sums);
  if (whole < pair_blocks_of(m)) add_block<F, false, kRows>(m, unit, whole, scales_of(whole), groups, levels, x, sums);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++) out[r] = sum(sums[r]);
}

// A tile times one row.
template <class F>
static void single_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* out) {
  Groups groups = unpack_pair_groups(m, first, count, room);
  __m512i levels = levels_of_pairs<F>(m);
  const size_t unit_bytes = kUnit * static_cast<size_t>(m.row_bytes), ahead = (kPairsAhead + unit_bytes - 1) / unit_bytes * unit_bytes;
  const size_t next = (static_cast<size_t>(first) + 2 * kTile - 1) * sizeof(uint16_t);
  bool has_lines = F::kCodes && !F::kByRow && has_plain_groups(m);
  for (int at = 0; at < count;) {
    const uint8_t* here = tile_row(m, first, at);
    Unit unit{here, here + ahead, nullptr, nullptr};
    if (has_lines && at == 0) unit.scales = reinterpret_cast<const uint8_t*>(m.scales) + next;
    if (unit.scales && m.offset_kind == kLikeScales) unit.offsets = reinterpret_cast<const uint8_t*>(m.offsets) + next;
    bool is_whole = at + kUnit <= count;
    auto* body = is_whole ? single_unit<F, kUnit> : single_unit<F, 1>;
    body(m, unit, groups.scales + static_cast<size_t>(at) * groups.row_step, groups, levels, rows.x, out + at);
    at += is_whole ? kUnit : 1;
  }
  float added[kTile];
  if (F::kCodes) offset_sums(m, groups, rows.sums, count, added);
  for (int r = 0; F::kCodes && r < count; r++) out[r] += added[r];
}
