// Rounded rows times stored codes, by the processor's own products of bytes.
//
// For each row of weights a quarter of all blocks has a sum of its own, and the four are added last:
// for few rows of numbers in the lanes of four rows of weights, for many in those of sixteen, which
// are laid side by side for it. Included for processors that have such products.

constexpr int kFewRounded = 3;  // rows; more are worth laying weights side by side for
constexpr int kSide = 16;       // rows of weights

// Adds a block of sixteen rows of weights, `step` bytes apart, times one row of numbers to sums [4].
template <class F, bool kWhole>
static inline void add_bytes(const Matrix& m, const Unit& unit, size_t step, int block, const float* scales, const Groups& groups,
                             const uint16_t* x, V* sums) {
  for (int g = 0; !F::kByRow && g < F::kGroups; g++) {  // see few_dots.h
    size_t line = (static_cast<size_t>(block) * block_columns(m) / m.group_size + g) * m.group_step * sizeof(uint16_t);
    if (unit.scales) __builtin_prefetch(unit.scales + line, 0, 2);
    if (unit.offsets) __builtin_prefetch(unit.offsets + line, 0, 2);
  }
  V by = load(reinterpret_cast<const float*>(x + 32 * kParts<F>));
#pragma GCC unroll 4
  for (int r = 0; r < kSide; r += 4) {
    __m512i made[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const size_t row = (r + j) * step;
      __builtin_prefetch(unit.later + row + static_cast<size_t>(block) * F::kBytes, 0, 2);
      __m512i w[kParts<F>];
      unpack_bytes<F>(stored_bytes<kWhole>(unit.rows + row, m.row_bytes, static_cast<size_t>(block) * F::kBytes), w);
      made[j] = _mm512_setzero_si512();
      for (int s = 0; s < kParts<F>; s++) made[j] = _mm512_dpbusd_epi32(made[j], w[s], load_bits(x + 32 * s));
    }
    V scale = scales_of_four<F>(scales + r * groups.row_step, groups);
    sums[r / 4] = fma(quarter_sums(made) * by, scale, sums[r / 4]);
  }
}

// Sixteen rows of weights times one row of numbers.
template <class F>
static inline void sixteen_rows(const Matrix& m, const Unit& unit, size_t step, const float* scales, const Groups& groups,
                                const uint16_t* x, float* out) {
  auto scales_at = [&](int block) { return scales + static_cast<size_t>(block) * block_columns(m) / m.group_size * groups.group_step; };
  int whole = whole_blocks<F>(m);
  V sums[4] = {set1(0.0f), set1(0.0f), set1(0.0f), set1(0.0f)};
  for (int b = 0; b < whole; b++) add_bytes<F, true>(m, unit, step, b, scales_at(b), groups, x + b * byte_stride(kParts<F>), sums);
  if (whole < pair_blocks_of(m)) add_bytes<F, false>(m, unit, step, whole, scales_at(whole), groups, x + whole * byte_stride(kParts<F>), sums);
  for (int i = 0; i < 4; i++) {
    __m512 half = _mm512_add_ps(sums[i].v, _mm512_shuffle_f32x4(sums[i].v, sums[i].v, 0x4e));
    _mm_storeu_ps(out + 4 * i, _mm512_castps512_ps128(_mm512_add_ps(half, _mm512_shuffle_f32x4(half, half, 0xb1))));
  }
}

// A tile times a few rows, one after the other.
template <class F>
static void few_rounded(const Matrix& m, uint32_t first, int count, const PairRows& rows, const Groups& groups, float* out) {
  for (int i = 0; i < rows.count; i++)
    for (int at = 0; at < count;) {
      Unit unit = unit_at<F>(m, first, at, kSide, i == 0);
      bool is_whole = at + kSide <= count;  // else one row stands for all sixteen
      float made[kSide], *to = out + i * kTile + at;
      sixteen_rows<F>(m, unit, is_whole ? m.row_bytes : 0, groups.scales + at * groups.row_step, groups, rows.x + i * rows.width, made);
      std::copy(made, made + (is_whole ? kSide : 1), to);
      at += is_whole ? kSide : 1;
    }
}

// Sixteen rows of weights side by side: for each quarter of a block sixteen scales as floats, and then
// vectors of four bytes of each row.
constexpr int quarter_size(int parts) { return 16 + 4 * parts * 16; }  // floats

template <class F>
static void lay_side_by_side(const Matrix& m, const Groups& groups, uint32_t first, int count, int at, float* out) {
  int blocks = pair_blocks_of(m), whole = whole_blocks<F>(m);
  auto place = [&](int r) { return std::min(at + r, count - 1); };  // past the last one it stands in
  for (int b = 0; b < blocks; b++) {
    __m512i rows[kSide];
    for (int r = 0; r < kSide; r++) {
      const uint8_t* row = tile_row(m, first, place(r));
      size_t from = static_cast<size_t>(b) * F::kBytes;
      rows[r] = b < whole ? stored_bytes<true>(row, m.row_bytes, from) : stored_bytes<false>(row, m.row_bytes, from);
    }
    transpose(rows);
    for (int q = 0; q < 4; q++, out += quarter_size(kParts<F>)) {
      size_t group = static_cast<size_t>(b) * block_columns(m) / m.group_size + q * F::kGroups / 4;
      const float* scales = groups.scales + group * groups.group_step;
      for (int r = 0; r < kSide; r++) out[r] = scales[place(r) * groups.row_step];
      for (int i = 0; i < 4; i++) {
        __m512i w[kParts<F>];
        unpack_bytes<F>(rows[4 * q + i], w);
        for (int s = 0; s < kParts<F>; s++) _mm512_storeu_si512(out + 16 + (i * kParts<F> + s) * 16, w[s]);
      }
    }
  }
}

// An address that the compiler takes as it is: it would keep hundreds of others at hand.
static inline const uint8_t* taken(const uint8_t* address) {
  __asm__("" : "+r"(address));
  return address;
}

// Those times `kRows` rows of numbers; out[row * kTile + weight row].
template <int kOfParts, int kRows>
static void times_rounded(const float* side, int blocks, const uint16_t* x, size_t width, float* out) {
  V sums[4][kRows];
#pragma GCC unroll 16
  for (int i = 0; i < 4 * kRows; i++) sums[i / kRows][i % kRows] = set1(0.0f);
  for (int b = 0; b < blocks; b++, x += byte_stride(kOfParts), side += 4 * quarter_size(kOfParts)) {
    const uint8_t* each[kRows];
    for (int i = 0; i < kRows; i++) each[i] = taken(reinterpret_cast<const uint8_t*>(x + i * width));
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
      const float* quarter = side + q * quarter_size(kOfParts);
      __m512i made[kRows];
#pragma GCC unroll 4
      for (int i = 0; i < kRows; i++) made[i] = _mm512_setzero_si512();
#pragma GCC unroll 8
      for (int k = 0; k < 4 * kOfParts; k++) {
        __m512i w = _mm512_loadu_si512(quarter + 16 + k * 16);
#pragma GCC unroll 4
        for (int i = 0; i < kRows; i++) {
          int32_t four;
          std::memcpy(&four, each[i] + k % kOfParts * 64 + (4 * q + k / kOfParts) * 4, sizeof four);
          made[i] = _mm512_dpbusd_epi32(made[i], w, _mm512_set1_epi32(four));
        }
      }
      V scale = load(quarter);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; i++) {
        V products{_mm512_cvtepi32_ps(made[i])};
        float by;
        std::memcpy(&by, each[i] + 64 * kOfParts + 16 * q, sizeof by);
        sums[q][i] = fma(products * set1(by), scale, sums[q][i]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i++) store(out + i * kTile, (sums[0][i] + sums[2][i]) + (sums[1][i] + sums[3][i]));
}

// A tile times many rows, four at a time.
template <class F>
static void many_rounded(const Matrix& m, uint32_t first, int count, const PairRows& rows, const Groups& groups, float* side, float* out) {
  int blocks = pair_blocks_of(m);
  for (int at = 0; at < count; at += kSide) {
    lay_side_by_side<F>(m, groups, first, count, at, side);
    for (int i = 0; i < rows.count; i += 4) {
      int left = std::min(4, rows.count - i);
      auto* body = left == 4 ? times_rounded<kParts<F>, 4> : left == 3 ? times_rounded<kParts<F>, 3> : left == 2 ? times_rounded<kParts<F>, 2> : times_rounded<kParts<F>, 1>;
      body(side, blocks, rows.x + i * rows.width, rows.width, out + i * kTile + at);
    }
  }
}

template <class F>
static void rounded_tile(const Matrix& m, uint32_t first, int count, const PairRows& rows, float* room, float* out) {
  Groups groups = unpack_pair_groups(m, first, count, room, 0.0f);
  if (rows.count <= kFewRounded) few_rounded<F>(m, first, count, rows, groups, out);
  else many_rounded<F>(m, first, count, rows, groups, room + group_room(m), out);
  float added[kTile];
  for (int i = 0; i < rows.count; i++) {
    offset_sums(m, groups, rows.sums + i * rows.groups, count, added);
    for (int r = 0; r < count; r++) out[i * kTile + r] += added[r];
  }
}

template <class Out>
static void product_of_bytes(const Matrix& m, const RoundedRows& given, int start, const Outputs<Out>& to) {
  size_t width = byte_width(m), groups = group_line(m), count = static_cast<size_t>(given.count);
  Room<uint16_t> arranged(width * count);
  Room<float> sums_of_groups(groups * count);
  for (size_t i = 0; i < count; i++) {
    float *numbers = given.numbers + i * m.columns, *scales = given.scales + i * runs_of(m);
    arrange_bytes(m, numbers, scales, arranged.data() + i * width);
    scale_row(m, numbers, scales);
    add_group_sums(m, numbers, sums_of_groups.data() + i * groups);
  }
  PairRows rows{arranged.data(), sums_of_groups.data(), width, groups, given.count, 1};
  size_t needed = group_room(m) + static_cast<size_t>(pair_blocks_of(m)) * 4 * quarter_size(2);
  in_tiles(m, start, given.count, to, needed, [&](auto form, uint32_t first, int height, float* room, float* sums) {
    using F = decltype(form);
    if constexpr (F::kCounted && F::kGroups <= 4) rounded_tile<F>(m, first, height, rows, room, sums);
  });
}

constexpr float kLargestScale = 1099511627776.0f;  // 2^40: whole numbers times more come near the end of float

// Runs of rows with ordinary scales by bytes, the others as floats.
template <class Out>
static void byte_product(const Matrix& m, const RoundedRows& given, int start, const Outputs<Out>& to) {
  size_t runs = runs_of(m);
  auto is_fit = [&](int row) {
    const float* scales = given.scales + row * runs;
    return takes_bytes(m) && *std::max_element(scales, scales + runs) <= kLargestScale;
  };
  for (int from = 0, end; from < given.count; from = end) {
    for (end = from + 1; end < given.count && is_fit(end) == is_fit(from); end++) {}
    RoundedRows part{given.numbers + static_cast<size_t>(from) * m.columns, given.scales + from * runs, end - from};
    (is_fit(from) ? product_of_bytes<Out> : scaled_product<Out>)(m, part, start + from, to);
  }
}
