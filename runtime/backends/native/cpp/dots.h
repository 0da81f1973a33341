// Rows of bfloat16 times stored codes, by the processor's own products of bfloat16 pairs.
//
// A code's level is a bfloat16 number as it is, and so is an activation: their products are exact,
// and are summed in float. A group's scale multiplies its sum, and what the group's offset adds is
// the offset times the sum of the activations that it meets. That is the same value in another
// order; the order does not depend on the number of rows. Included for processors that have it.

constexpr int kVectors = 4;  // of a block: 32 numbers each

static inline __m512bh pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }
static inline __m512i load_bits(const uint16_t* p) { return _mm512_loadu_si512(p); }

static inline V dot(V sums, __m512i a, __m512i b) { return {_mm512_dpbf16_ps(sums.v, pairs(a), pairs(b))}; }

// What a block holds: 128 numbers, 128 codes of 4 bits, or 64 of 8 bits, each in two halves.
static inline uint32_t block_columns(const Matrix& m) { return m.kind == kCodes8 ? 64 : 128; }
static inline int pair_blocks_of(const Matrix& m) { return static_cast<int>((m.columns + block_columns(m) - 1) / block_columns(m)); }
static inline size_t pair_width(const Matrix& m) { return static_cast<size_t>(pair_blocks_of(m)) * kVectors * 32; }

static inline bool is_bfloat16(float value) { return (to_bits(value) & 0xffff) == 0; }

// Levels that bfloat16 holds exactly, and nothing that mixes columns before the product.
static inline bool has_dots(const Matrix& m) {
  if (m.input_signs || m.input_block) return false;
  if (m.kind == kBF16 || m.kind == kCodes8) return true;
  if (m.kind != kCodes4) return false;
  auto* levels = reinterpret_cast<const float*>(m.levels);
  for (int i = 0; i < 16; i++)
    if (!is_bfloat16(levels[i])) return false;
  return true;
}

// The processor takes numbers below the smallest normal one for zeros. That is nothing beside a row's
// largest number where this is from 2^-60 to 2^40; other rows are left to the floats.
static inline bool is_ordinary(const uint16_t* x, uint32_t columns) {
  uint16_t largest = 0;
  for (uint32_t c = 0; c < columns; c++) largest = std::max<uint16_t>(largest, x[c] & 0x7fff);
  int exponent = largest >> 7;
  return largest == 0 || (exponent >= 127 - 60 && exponent <= 127 + 40);
}

// Of `[a b c d ...]` and what follows it: every second or fourth number, from `first` on.
static inline __m512i every(int step, int first, __m512i low, __m512i high) {
  uint16_t places[32];
  for (int j = 0; j < 32; j++) places[j] = static_cast<uint16_t>(first + step * (j % (64 / step)) + j / (64 / step));
  return _mm512_permutex2var_epi16(low, load_bits(places), high);
}

// `x` in the order in which codes are unpacked: of four nibbles in a word the first ones, the second
// ones ...; where two of them are one code, they meet the same number.
static inline void arrange_pairs(const Matrix& m, const uint16_t* x, uint16_t* out) {
  size_t width = pair_width(m), columns = static_cast<size_t>(pair_blocks_of(m)) * block_columns(m);
  std::vector<uint16_t> padded;
  if (m.columns < columns) {
    padded.assign(columns, 0);
    std::copy(x, x + m.columns, padded.begin());
    x = padded.data();
  }
  if (m.kind == kBF16) {
    std::copy(x, x + width, out);
    return;
  }
  bool bytes = m.kind == kCodes8;
  for (size_t b = 0; b < width; b += kVectors * 32, x += block_columns(m)) {
    __m512i v[4], halves_of[4];
    for (int i = 0; i < (bytes ? 2 : 4); i++) v[i] = load_bits(x + 32 * i);
    if (bytes) {  // even columns, then odd ones
      for (int i = 0; i < 4; i++) _mm512_storeu_si512(out + b + 32 * i, every(2, i / 2, v[0], v[1]));
      continue;
    }
    for (int i = 0; i < 2; i++) {  // of 64 columns: each fourth from the first and the second on, then the rest
      halves_of[i] = every(4, 0, v[2 * i], v[2 * i + 1]);
      halves_of[2 + i] = every(4, 2, v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 4; i += 2) {
      _mm512_storeu_si512(out + b + 32 * i, _mm512_shuffle_i64x2(halves_of[i], halves_of[i + 1], 0x44));
      _mm512_storeu_si512(out + b + 32 * i + 32, _mm512_shuffle_i64x2(halves_of[i], halves_of[i + 1], 0xee));
    }
  }
}

// The sum of each group's activations; zeros past the last group.
static inline void group_sums(const Matrix& m, const uint16_t* x, size_t groups, float* out) {
  std::fill(out, out + groups, 0.0f);
  for (uint32_t c = 0; c < m.columns; c += m.group_size) {
    V sums = set1(0.0f);
    for (uint32_t i = 0; i < m.group_size; i += 16) sums = sums + load(x + c + i, BF16());
    out[c / m.group_size] = sum(sums);
  }
}

// Codes that are counted are taken from their middle, so that sums stay small. The middle, or 0.
static inline float middle_of(const Matrix& m) {
  if (m.kind == kCodes8) return 128.0f;
  auto* levels = reinterpret_cast<const float*>(m.levels);
  for (int i = 0; m.kind == kCodes4 && i < 16; i++)
    if (levels[i] != static_cast<float>(i)) return 0.0f;
  return m.kind == kCodes4 ? 8.0f : 0.0f;
}

// Scales and offsets of the rows of a tile, with zeros where a block reaches past the last group.
// An offset is made one that is added to what the level gives, counted from the middle.
static inline Groups unpack_pair_groups(const Matrix& m, uint32_t first, int rows, float* room) {
  Groups to = unpack_groups(m, first, rows, room);
  if (!has_groups(m)) return to;
  bool by_row = m.group_step == 1;
  size_t count = m.columns / m.group_size, line = group_line(m);
  size_t lines = by_row ? static_cast<size_t>(rows) : count, length = by_row ? count : static_cast<size_t>(kTile);
  size_t step = by_row ? line : static_cast<size_t>(kTile);
  float middle = middle_of(m);
  for (size_t i = 0; i < lines; i++)
    for (size_t j = i * step; j < i * step + length; j++)
      to.offsets[j] = m.mode == kAffine ? to.offsets[j] + middle * to.scales[j] : (middle - to.offsets[j]) * to.scales[j];
  for (size_t i = 0; by_row && i < lines; i++) {
    std::fill(to.scales + i * line + count, to.scales + (i + 1) * line, 0.0f);
    std::fill(to.offsets + i * line + count, to.offsets + (i + 1) * line, 0.0f);
  }
  if (!by_row) std::fill(to.scales + count * kTile, to.scales + groups_of(m) * kTile, 0.0f);
  return to;
}

// What the offsets of a tile's rows add for one row of activations: float [kTile].
static inline void offset_sums(const Matrix& m, const Groups& groups, const float* sums, int rows, float* out) {
  size_t count = m.columns / m.group_size;
  if (groups.row_step == 1) {  // lanes are rows
    for (int r = 0; r < kTile; r += 16) {
      V total = set1(0.0f);
      for (size_t g = 0; g < count; g++) total = fma(load(groups.offsets + g * kTile + r), set1(sums[g]), total);
      store(out + r, total);
    }
    return;
  }
  for (int r = 0; r < rows; r++) {
    V total = set1(0.0f);
    for (size_t g = 0; g < count; g += 16) total = fma(load(groups.offsets + r * groups.row_step + g), load(sums + g), total);
    out[r] = sum(total);
  }
}

// The scales of a block of a row, each in the lanes of its group.
template <int kGroups>
static inline V lane_scales(const float* scales, size_t step) {
  if (kGroups == 1) return set1(scales[0]);
  if (kGroups == 2) return halves(scales[0], scales[step]);
  if (kGroups == 4) return quarters(scales[0], scales[step], scales[2 * step], scales[3 * step]);
  float lanes[16];
  for (int k = 0; k < 16; k++) lanes[k] = scales[static_cast<size_t>(k / 2) * step];
  return load(lanes);
}

// How a row is stored, and of how many groups a block has parts.
template <uint32_t kOfKind, int kOfGroups = 1>
struct PairForm {
  static constexpr uint32_t kKind = kOfKind;
  static constexpr int kGroups = kOfGroups, kBytes = kKind == kBF16 ? 256 : 64;
  static constexpr bool kCodes = kKind != kBF16;
};

// The levels of a nibble, twice: a lookup takes five bits of an index, of which a nibble has four.
struct Levels {
  __m512i low, high;  // of the lower and the upper half of a byte; of codes of 4 bits both are the same
};

static inline Levels levels_of_pairs(const Matrix& m) {
  uint16_t low[32] = {0}, high[32] = {0};
  float middle = middle_of(m);
  for (int i = 0; i < 32 && m.kind != kBF16; i++) {
    float level = m.kind == kCodes8 ? static_cast<float>(i % 16) : reinterpret_cast<const float*>(m.levels)[i % 16] - middle;
    low[i] = narrowed(level, BF16());
    high[i] = m.kind == kCodes8 ? narrowed(16.0f * level - middle, BF16()) : low[i];
  }
  return {load_bits(low), load_bits(high)};
}

// One block of a row: four vectors of levels. Past the row's bytes nothing is read.
template <class F>
static inline void unpack_pairs(const uint8_t* row, size_t row_bytes, int block, const Levels& levels, __m512i* out) {
  size_t at = static_cast<size_t>(block) * F::kBytes;
  auto part = [&](size_t from) {
    size_t left = from < row_bytes ? row_bytes - from : 0;
    return left >= 64 ? _mm512_loadu_si512(row + from) : _mm512_maskz_loadu_epi8((uint64_t{1} << left) - 1, row + from);
  };
  if (!F::kCodes) {
    for (int s = 0; s < kVectors; s++) out[s] = part(at + 64 * s);
    return;
  }
  __m512i words = part(at);
  for (int s = 0; s < kVectors; s++)
    out[s] = _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * s), s % 2 ? levels.high : levels.low);
}

constexpr size_t kPairsAhead = 6144;  // bytes: what a processor reads while the memory answers

// Rows of codes times a row of numbers, decoded on the way; `kRows` share what is read of the numbers.
template <class F, int kRows>
static inline void single_pairs(const Matrix& m, const uint8_t* rows, const float* scales, size_t row_step, size_t step,
                                const Levels& levels, const uint16_t* x, float* out) {
  int blocks = pair_blocks_of(m);
  size_t columns = block_columns(m);
  V sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; r++) sums[r] = set1(0.0f);
  for (int b = 0; b < blocks; b++) {
    __m512i each[kVectors], w[kVectors];
    for (int s = 0; s < kVectors; s++) each[s] = load_bits(x + (b * kVectors + s) * 32);
    size_t at = F::kCodes ? static_cast<size_t>(b) * columns / m.group_size * step : 0;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++) {
      const uint8_t* row = rows + static_cast<size_t>(r) * m.row_bytes;
      for (size_t line = 0; line < F::kBytes; line += 64)
        __builtin_prefetch(row + static_cast<size_t>(b) * F::kBytes + line + kPairsAhead, 0, 2);
      unpack_pairs<F>(row, m.row_bytes, b, levels, w);
      V made = F::kCodes ? set1(0.0f) : sums[r];
      for (int s = 0; s < kVectors; s++) made = dot(made, w[s], each[s]);
      sums[r] = F::kCodes ? fma(made, lane_scales<F::kGroups>(scales + r * row_step + at, step), sums[r]) : made;
    }
  }
  for (int r = 0; r < kRows; r++) out[r] = sum(sums[r]);
}

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

// The bytes of a row of a tile; past the last row the last one stands in: what it gives is never read.
static inline const uint8_t* tile_row(const Matrix& m, uint32_t first, int at) {
  return reinterpret_cast<const uint8_t*>(m.weights) + (static_cast<size_t>(first) + at) * m.row_bytes;
}

// Two rows of codes, and the scales of their lanes, as `several_pairs` takes them.
template <class F>
static inline void decode_pairs(const Matrix& m, const Groups& groups, uint32_t first, int place, int count, const Levels& levels,
                                uint16_t* decoded, float* scales) {
  int blocks = pair_blocks_of(m);
  for (int r = 0; r < 2; r++) {
    int at = place + r < count ? place + r : count - 1;
    const uint8_t* row = tile_row(m, first, at);
    const float* from = groups.scales + static_cast<size_t>(at) * groups.row_step;
    for (int b = 0; b < blocks; b++) {
      __m512i w[kVectors];
      unpack_pairs<F>(row, m.row_bytes, b, levels, w);
      for (int s = 0; s < kVectors; s++) _mm512_storeu_si512(decoded + ((r * blocks + b) * kVectors + s) * 32, w[s]);
      if (F::kCodes)
        store(scales + (r * blocks + b) * 16,
              lane_scales<F::kGroups>(from + static_cast<size_t>(b) * block_columns(m) / m.group_size * groups.group_step, groups.group_step));
    }
  }
}

// What a product by pairs needs of its rows: arranged, and the sums of their groups.
struct PairRows {
  const uint16_t* x;
  const float* sums;
  size_t width, groups;
  int count;
};

template <class F>
static void pair_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* sums) {
  Groups groups = unpack_pair_groups(m, first, count, room);
  Levels levels = levels_of_pairs(m);
  int blocks = pair_blocks_of(m);
  float* scales = room + group_room(m);
  auto* decoded = reinterpret_cast<uint16_t*>(scales + 2 * 16 * blocks);
  for (int at = 0; at < count && rows.count == 1; at += 2) {
    auto* body = at + 2 <= count ? single_pairs<F, 2> : single_pairs<F, 1>;
    body(m, tile_row(m, first, at), groups.scales + static_cast<size_t>(at) * groups.row_step, groups.row_step,
         groups.group_step, levels, rows.x, sums + at);
  }
  for (int at = 0; at < count && rows.count > 1; at += 2) {
    decode_pairs<F>(m, groups, first, at, count, levels, decoded, scales);
    const uint16_t* x = rows.x;
    float* out = sums + at;
    int left = rows.count;
    for (; left >= 4; left -= 4, x += 4 * rows.width, out += 4 * kTile) several_pairs<F, 4>(decoded, scales, blocks, x, out);
    if (left == 3) several_pairs<F, 3>(decoded, scales, blocks, x, out);
    if (left == 2) several_pairs<F, 2>(decoded, scales, blocks, x, out);
    if (left == 1) several_pairs<F, 1>(decoded, scales, blocks, x, out);
  }
  float added[kTile + 16];
  for (int i = 0; F::kCodes && i < rows.count; i++) {
    offset_sums(m, groups, rows.sums + i * rows.groups, count, added);
    for (int r = 0; r < count; r++) sums[i * kTile + r] += added[r];
  }
}

template <class Body>
static inline void with_pair_form(const Matrix& m, Body body) {
  if (m.kind == kBF16) return body(PairForm<kBF16>());
  bool bytes = m.kind == kCodes8;
  switch (std::max(1u, block_columns(m) / m.group_size)) {
    case 1: return bytes ? body(PairForm<kCodes8, 1>()) : body(PairForm<kCodes4, 1>());
    case 2: return bytes ? body(PairForm<kCodes8, 2>()) : body(PairForm<kCodes4, 2>());
    case 4: return bytes ? body(PairForm<kCodes8, 4>()) : body(PairForm<kCodes4, 4>());
    default: return body(PairForm<kCodes4, 8>());
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
  int tiles = static_cast<int>((m.rows + kTile - 1) / kTile), pieces = std::min(tiles, count == 1 ? 4 * threads() : 16 * threads());
  auto body = [&](int piece) {
    thread_local std::vector<float> room;
    size_t before = group_room(m) + 32 * static_cast<size_t>(pair_blocks_of(m)) + width;
    size_t needed = before + static_cast<size_t>(count) * kTile;
    if (room.size() < needed) room.resize(needed);
    float* sums = room.data() + before;
    int from = static_cast<int>(static_cast<int64_t>(tiles) * piece / pieces);
    int to = static_cast<int>(static_cast<int64_t>(tiles) * (piece + 1) / pieces);
    for (int t = from; t < to; t++) {
      uint32_t first = static_cast<uint32_t>(t) * kTile;
      int height = static_cast<int>(std::min<uint32_t>(kTile, m.rows - first));
      with_pair_form(m, [&](auto form) { pair_tile<decltype(form)>(m, first, height, rows, room.data(), sums); });
      finish<Out>(m, first, height, count, sums, biases, out);
    }
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
