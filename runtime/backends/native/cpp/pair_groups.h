// Scales and offsets of a tile's groups, in the lanes of the codes that they are for.
//
// Included for processors that have products of bfloat16 pairs.

// Adds the sum of each group's numbers, bfloat16 or float.
template <class Stored>
static inline void add_group_sums(const Matrix& m, const Stored* x, float* out) {
  using T = std::conditional_t<std::is_same_v<Stored, float>, F32, BF16>;
  for (uint32_t c = 0; c < m.columns; c += m.group_size) {
    V sums = set1(0.0f);
    for (uint32_t i = 0; i < m.group_size; i += 16) sums = sums + load(x + c + i, T());
    out[c / m.group_size] += sum(sums);
  }
}

// By how much levels are too large.
static inline float lift_of(const Matrix& m) {
  if (!is_counted(m)) return 0.0f;
  return m.kind == kCodes8 ? 272.0f : 16.0f;
}

// An offset that is added to what the lifted level gives.
static inline V lifted(bool is_affine, V scale, V offset, V lift) {
  return is_affine ? fma(set1(0.0f) - lift, scale, offset) : (set1(0.0f) - lift - offset) * scale;
}

// Sixteen numbers of a plane; zeros where the mask has none, and nothing is read there.
static inline V load_masked(const uint16_t* from, __mmask16 mask, BF16) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

static inline V load_masked(const uint16_t* from, __mmask16 mask, F16) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from))};
}

// Planes of numbers of 16 bits, by row or by group, and offsets like scales or one for all.
static inline bool has_plain_groups(const Matrix& m) {
  return (m.group_step == 1 || m.row_step == 1) && (m.offset_kind == kConstant || m.offset_kind == kLikeScales) &&
         (m.param == kParamF16 || m.param == kParamBF16);
}

// One line of such planes: `length` numbers, then zeros up to `padded`.
template <class P>
static inline void widen_line(const Matrix& m, size_t from, size_t length, size_t padded, V lift, float* scales, float* offsets) {
  auto* stored_scales = reinterpret_cast<const uint16_t*>(m.scales) + from;
  auto* stored_offsets = reinterpret_cast<const uint16_t*>(m.offsets) + from;
  bool is_affine = m.mode == kAffine, is_constant = m.offset_kind == kConstant;
  for (size_t i = 0; i < padded; i += 16) {
    __mmask16 mask = i + 16 <= length ? 0xffff : i < length ? (1u << (length - i)) - 1 : 0;
    V scale = load_masked(stored_scales + i, mask, P());
    V offset = is_constant ? set1(m.offset) : load_masked(stored_offsets + i, mask, P());
    store(scales + i, scale);
    store(offsets + i, lifted(is_affine, scale, offset, lift));
  }
}

// How a tile's groups lie: in lines of a row's groups, or of the rows of a group.
struct Lines {
  size_t count, length, padded;
};

static inline Lines lines_of(const Matrix& m, int rows) {
  size_t groups = m.columns / m.group_size;
  if (m.group_step == 1) return {static_cast<size_t>(rows), groups, group_line(m)};
  return {groups, static_cast<size_t>(rows), static_cast<size_t>(kTile)};
}

template <class P>
static void widen_groups(const Matrix& m, uint32_t first, int rows, V lift, const Groups& to) {
  Lines lines = lines_of(m, rows);
  for (size_t line = 0; line < lines.count; line++) {
    size_t from = m.group_step == 1 ? (first + line) * m.row_step : line * m.group_step + first, place = line * lines.padded;
    widen_line<P>(m, from, lines.length, lines.padded, lift, to.scales + place, to.offsets + place);
  }
}

// Planes of every other kind.
static void widen_other_groups(const Matrix& m, uint32_t first, int rows, V lift, const Groups& to) {
  unpack_groups(m, first, rows, to.scales);
  Lines lines = lines_of(m, rows);
  for (size_t line = 0; line < lines.count; line++) {
    float *scales = to.scales + line * lines.padded, *offsets = to.offsets + line * lines.padded;
    std::fill(scales + lines.length, scales + lines.padded, 0.0f);
    std::fill(offsets + lines.length, offsets + lines.padded, 0.0f);
    for (size_t i = 0; i < lines.padded; i += 16)
      store(offsets + i, lifted(m.mode == kAffine, load(scales + i), load(offsets + i), lift));
  }
}

// Scales and offsets of a tile for levels that are `lift_` too large, with zeros where a block reaches
// past the last group.
static inline Groups unpack_pair_groups(const Matrix& m, uint32_t first, int rows, float* room, float lift_) {
  bool by_row = m.group_step == 1;
  Groups to{room, room + group_room(m) / 2, by_row ? group_line(m) : 1, by_row ? 1 : static_cast<size_t>(kTile)};
  if (!has_groups(m)) return to;
  V lift = set1(lift_);
  if (!has_plain_groups(m)) widen_other_groups(m, first, rows, lift, to);
  else if (m.param == kParamF16) widen_groups<F16>(m, first, rows, lift, to);
  else widen_groups<BF16>(m, first, rows, lift, to);
  size_t count = m.columns / m.group_size;
  if (!by_row) std::fill(to.scales + count * kTile, to.scales + groups_of(m) * kTile, 0.0f);
  return to;
}

static inline Groups unpack_pair_groups(const Matrix& m, uint32_t first, int rows, float* room) {
  return unpack_pair_groups(m, first, rows, room, lift_of(m));
}

// What the offsets of a tile's rows add for one row of activations: float [kTile].
static inline void offset_sums(const Matrix& m, const Groups& groups, const float* sums, int rows, float* out) {
  size_t count = m.columns / m.group_size;
  if (groups.row_step == 1) {  // lanes are rows
    V low = set1(0.0f), high = low;
    for (size_t g = 0; g < count; g++) {
      const float* offsets = groups.offsets + g * kTile;
      low = fma(load(offsets), set1(sums[g]), low), high = fma(load(offsets + 16), set1(sums[g]), high);
    }
    store(out, low), store(out + 16, high);
    return;
  }
  for (int r = 0; r < rows; r++) {
    V total = set1(0.0f);
    for (size_t g = 0; g < count; g += 16) total = fma(load(groups.offsets + r * groups.row_step + g), load(sums + g), total);
    out[r] = sum(total);
  }
}

// The scales of a block of one row, each in the lanes of its group.
template <class F>
static inline V lane_scales(const float* scales, size_t step) {
  if (F::kGroups == 1) return set1(scales[0]);
  if (F::kByRow && F::kGroups == 8) {
    __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(scales)))};
  }
  if (F::kByRow) {
    __m512i halves_of = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i quarters_of = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return {_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(scales)), F::kGroups == 2 ? halves_of : quarters_of)};
  }
  if (F::kGroups == 2) return halves(scales[0], scales[step]);
  if (F::kGroups == 4) return quarters(scales[0], scales[step], scales[2 * step], scales[3 * step]);
  float lanes[16];
  for (int k = 0; k < 16; k++) lanes[k] = scales[static_cast<size_t>(k / 2) * step];
  return load(lanes);
}

// Of groups whose rows lie side by side: the scales of a block of four rows, row after row in each
// quarter. `of_row` makes of it what `lane_scales` gives for one of them.
template <class F>
static inline V four_scales(const float* scales, size_t step) {
  auto of_quarter = [&](int quarter) { return _mm_loadu_ps(scales + static_cast<size_t>(quarter * F::kGroups / 4) * step); };
  __m512 four = _mm512_broadcast_f32x4(of_quarter(0));
  if (F::kGroups == 4) four = _mm512_insertf32x4(four, of_quarter(1), 1);
  if (F::kGroups > 1) four = _mm512_insertf32x4(four, of_quarter(2), 2);
  if (F::kGroups > 1) four = _mm512_insertf32x4(four, of_quarter(3), 3);
  return {four};
}

static inline V of_row(V four, int row) {
  switch (row) {
    case 0: return {_mm512_permute_ps(four.v, 0x00)};
    case 1: return {_mm512_permute_ps(four.v, 0x55)};
    case 2: return {_mm512_permute_ps(four.v, 0xaa)};
    default: return {_mm512_permute_ps(four.v, 0xff)};
  }
}
