// Stored rows to floats, 64 columns at a time, in the order in which their format gives them.
//
// Included once per instruction set. In *stored order* lane j of vector s is column 4j + s of the
// block where codes are nibbles (a 16-bit word holds four), and column 16s + j otherwise.

constexpr int kBlock = 64;
constexpr int kTile = 32;  // rows whose group parameters are unpacked together

static inline int blocks_of(const Matrix& m) { return static_cast<int>((m.columns + kBlock - 1) / kBlock); }
static inline bool is_nibbles(const Matrix& m) { return m.kind == kCodes4; }
static inline bool has_groups(const Matrix& m) { return m.kind >= kCodes1; }

// Groups of a row, those of void columns up to a multiple of 128 included.
static inline size_t groups_of(const Matrix& m) {
  return has_groups(m) ? ((static_cast<size_t>(m.columns) + 127) / 128 * 128 + m.group_size - 1) / m.group_size : 0;
}

// Room for a row's groups: whole vectors, so that none reaches into the next row.
static inline size_t group_line(const Matrix& m) { return (groups_of(m) + 15) / 16 * 16; }

// Floats that `unpack_groups` writes for `kTile` rows: scales and offsets, each with 16 to spare.
static inline size_t group_room(const Matrix& m) { return 2 * (group_line(m) * kTile + 16); }

static inline float parameter(const Matrix& m, uint64_t base, size_t place) {
  auto* half = reinterpret_cast<const uint16_t*>(base);
  switch (m.param) {
    case kParamF32: return reinterpret_cast<const float*>(base)[place];
    case kParamF16: return widened(half[place], F16());
    case kParamBF16: return widened(half[place], BF16());
    default:
      return reinterpret_cast<const float*>(m.scale_values)[reinterpret_cast<const uint8_t*>(base)[place]];
  }
}

static inline float offset(const Matrix& m, uint32_t row, uint32_t group) {
  if (m.offset_kind == kConstant) return m.offset;
  if (m.offset_kind == kLikeScales)
    return parameter(m, m.offsets, static_cast<size_t>(row) * m.row_step + static_cast<size_t>(group) * m.group_step);
  uint32_t line = m.offset_is_by_group ? group : row, place = m.offset_is_by_group ? row : group;
  auto* packed = reinterpret_cast<const uint8_t*>(m.offsets) + static_cast<size_t>(line) * m.offset_line;
  uint32_t bit = place * m.offset_bits, code = packed[bit / 8] >> bit % 8 & ((1u << m.offset_bits) - 1);
  if (m.offset_kind == kPacked) return static_cast<float>(code);
  return reinterpret_cast<const float*>(m.offset_values)[code];
}

// `count` packed offsets of a line from `place` on.
static inline void unpack_offsets(const Matrix& m, uint32_t line, uint32_t place, size_t count, float* to) {
  auto* packed = reinterpret_cast<const uint8_t*>(m.offsets) + static_cast<size_t>(line) * m.offset_line;
  auto* values = reinterpret_cast<const float*>(m.offset_values);
  uint32_t bits = m.offset_bits, mask = (1u << bits) - 1;
  for (size_t i = 0; i < count; i++) {
    size_t bit = (place + i) * bits;
    uint32_t code = static_cast<uint32_t>(packed[bit / 8]) >> bit % 8 & mask;
    to[i] = m.offset_kind == kPacked ? static_cast<float>(code) : values[code];
  }
}

// Scales and offsets of some rows as floats: those of a row at `row * row_step`, group after group
// at `group_step`. Beyond the last group stands anything: columns there are void.
struct Groups {
  float *scales, *offsets;
  size_t row_step, group_step;
};

// Parameters that lie side by side. Where the plane goes on far enough, sixteen at a time, and past
// `count` at that: what stands there is written over by the next line, or void.
template <class T>
static inline void widen(const typename T::stored* from, size_t count, size_t there, float* to) {
  size_t i = 0;
  for (; i < count && i + 16 <= there; i += 16) store(to + i, load(from + i, T()));
  for (; i < count; i++) to[i] = widened(from[i], T());
}

static inline size_t parameter_bytes(const Matrix& m) { return m.param == kParamF32 ? 4 : m.param == kParamTable ? 1 : 2; }

// `count` of a plane's parameters from `place` on; the plane has `there` from there on.
static inline void widen_plane(const Matrix& m, uint64_t base, size_t place, size_t count, size_t there, float* to) {
  auto* half = reinterpret_cast<const uint16_t*>(base) + place;
  switch (m.param) {
    case kParamF32: return widen<F32>(reinterpret_cast<const float*>(base) + place, count, there, to);
    case kParamF16: return widen<F16>(half, count, there, to);
    case kParamBF16: return widen<BF16>(half, count, there, to);
    default:
      for (size_t i = 0; i < count; i++) to[i] = parameter(m, base, place + i);
  }
}

static inline Groups unpack_groups(const Matrix& m, uint32_t row, int count, float* room) {
  size_t padded = group_line(m), groups = m.columns / (m.group_size ? m.group_size : 1);
  bool by_row = m.group_step == 1;
  Groups to{room, room + group_room(m) / 2, by_row ? padded : 1, by_row ? 1 : static_cast<size_t>(kTile)};
  if (!has_groups(m)) return to;
  size_t plane = by_row ? static_cast<size_t>(m.rows) * m.row_step : groups * m.group_step;
  size_t lines = by_row ? count : groups, length = by_row ? groups : count;
  for (size_t line = 0; line < lines; line++) {
    size_t stored = by_row ? (row + line) * m.row_step : line * m.group_step + static_cast<size_t>(row) * m.row_step;
    float *s = to.scales + line * (by_row ? to.row_step : to.group_step);
    float *o = to.offsets + line * (by_row ? to.row_step : to.group_step);
    bool is_plain = by_row || m.row_step == 1;
    size_t step = by_row ? 1 : m.row_step, size = parameter_bytes(m);
    if (is_plain && !by_row) {  // lines of the next tile: they lie too far apart to be foreseen
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(m.scales) + (stored + kTile) * size);
      if (m.offset_kind == kLikeScales)
        __builtin_prefetch(reinterpret_cast<const uint8_t*>(m.offsets) + (stored + kTile) * size);
    }
    if (is_plain) widen_plane(m, m.scales, stored, length, plane - stored, s);
    else for (size_t i = 0; i < length; i++) s[i] = parameter(m, m.scales, stored + i * step);
    if (m.offset_kind == kConstant) std::fill(o, o + length, m.offset);
    else if (is_plain && m.offset_kind == kLikeScales) widen_plane(m, m.offsets, stored, length, plane - stored, o);
    else if (m.offset_kind != kLikeScales && by_row != (m.offset_is_by_group != 0))
      unpack_offsets(m, by_row ? row + line : line, by_row ? 0 : row, length, o);
    else
      for (size_t i = 0; i < length; i++)
        o[i] = by_row ? offset(m, row + line, i) : offset(m, row + i, line);
  }
  return to;
}

// What the code of a row's decoder is made for. `kSmall` is the size of groups that share a block
// of nibbles, 0 where every group has whole blocks.
template <uint32_t kOfKind, uint32_t kOfMode = kAffine, int kOfSmall = 0>
struct Form {
  static constexpr uint32_t kKind = kOfKind, kMode = kOfMode;
  static constexpr int kSmall = kOfSmall;
  static constexpr int kBytes = kKind == kF32 ? 256 : kKind == kCodes4 ? 32 : kKind == kCodes8 ? 64 : kKind == kCodes1 ? 8 : 128;
};

template <class F>
static inline V weighted(V level, V scale, V offset) {
  return F::kMode == kAffine ? fma(level, scale, offset) : (level - offset) * scale;
}

// What a row decodes from: its bytes, and its unpacked groups.
struct Row {
  const uint8_t* bytes;
  const float* scales;
  const float* offsets;
  size_t group_step;
  int shift;  // a column's group is the column shifted by this
};

static inline Row row_of(const Matrix& m, uint32_t row, const Groups& groups, int place) {
  auto* bytes = reinterpret_cast<const uint8_t*>(m.weights) + static_cast<size_t>(row) * m.row_bytes;
  size_t at = place * groups.row_step;
  int shift = m.group_size ? 31 - __builtin_clz(m.group_size) : 0;
  return {bytes, groups.scales + at, groups.offsets + at, groups.group_step, shift};
}

// The parameters of a block of nibbles whose groups are smaller, each in the lanes of its group.
template <int kSmall>
static inline V per_lane(const float* values, size_t step) {
  return kSmall == 32 ? halves(values[0], values[step])
                      : quarters(values[0], values[step], values[2 * step], values[3 * step]);
}

// One block of a row whose stored bytes are all there.
template <class F>
static inline void decode(const Row& row, const uint8_t* stored, int block, V levels, V* out) {
  constexpr uint32_t kKind = F::kKind;
  if (kKind == kF32 || kKind == kF16 || kKind == kBF16) {
    for (int s = 0; s < 4; s++) {
      if (kKind == kF32) out[s] = load(reinterpret_cast<const float*>(stored) + 16 * s);
      if (kKind == kF16) out[s] = load(reinterpret_cast<const uint16_t*>(stored) + 16 * s, F16());
      if (kKind == kBF16) out[s] = load(reinterpret_cast<const uint16_t*>(stored) + 16 * s, BF16());
    }
  } else if (kKind == kCodes4) {
    size_t at = (static_cast<size_t>(block) * kBlock >> row.shift) * row.group_step;
    if (F::kSmall == 0) {
      V table = weighted<F>(levels, set1(row.scales[at]), set1(row.offsets[at]));
      for (int s = 0; s < 4; s++) out[s] = nibbles(stored, s, table);
    } else {
      V scale = per_lane<F::kSmall>(row.scales + at, row.group_step);
      V offset = per_lane<F::kSmall>(row.offsets + at, row.group_step);
      for (int s = 0; s < 4; s++) out[s] = weighted<F>(nibbles(stored, s, levels), scale, offset);
    }
  } else {
    for (int s = 0; s < 4; s++) {
      size_t at = (static_cast<size_t>(block * kBlock + 16 * s) >> row.shift) * row.group_step;
      V level = kKind == kCodes8 ? bytes(stored + 16 * s) : bits(stored + 2 * s);
      out[s] = weighted<F>(level, set1(row.scales[at]), set1(row.offsets[at]));
    }
  }
}

// The last block of a row that does not fill it: void columns are zeros, and nothing past the
// row's bytes is read.
template <class F>
static inline void decode_rest(const Matrix& m, const Row& row, int block, V levels, V* out) {
  uint8_t held[256] = {0};
  size_t start = static_cast<size_t>(block) * F::kBytes;
  std::memcpy(held, row.bytes + start, m.row_bytes - start);
  decode<F>(row, held, block, levels, out);
  int columns = static_cast<int>(m.columns) - block * kBlock;
  for (int s = 0; s < 4; s++) {
    float lanes[16];
    store(lanes, out[s]);
    for (int j = 0; j < 16; j++)
      if ((F::kKind == kCodes4 ? 4 * j + s : 16 * s + j) >= columns) lanes[j] = 0.0f;
    out[s] = load(lanes);
  }
}

// A whole row, as `blocks_of(m) * kBlock` floats in stored order.
template <class F>
static void decode_row(const Matrix& m, const Row& row, V levels, float* out) {
  int whole = static_cast<int>(m.columns / kBlock);
  V vectors[4];
  for (int b = 0; b < blocks_of(m); b++) {
    if (b < whole) decode<F>(row, row.bytes + static_cast<size_t>(b) * F::kBytes, b, levels, vectors);
    else decode_rest<F>(m, row, b, levels, vectors);
    for (int s = 0; s < 4; s++) store(out + b * kBlock + 16 * s, vectors[s]);
  }
}

// Calls `body` with the form of the matrix.
template <class Body>
static inline void with_form(const Matrix& m, Body body) {
  bool affine = m.mode == kAffine;
  switch (m.kind) {
    case kF32: return body(Form<kF32>());
    case kF16: return body(Form<kF16>());
    case kBF16: return body(Form<kBF16>());
    case kCodes1: return body(Form<kCodes1>());
    case kCodes8: return affine ? body(Form<kCodes8>()) : body(Form<kCodes8, kCentred>());
    default: break;
  }
  if (m.group_size == 16) return affine ? body(Form<kCodes4, kAffine, 16>()) : body(Form<kCodes4, kCentred, 16>());
  if (m.group_size == 32) return affine ? body(Form<kCodes4, kAffine, 32>()) : body(Form<kCodes4, kCentred, 32>());
  return affine ? body(Form<kCodes4>()) : body(Form<kCodes4, kCentred>());
}

// Codes that stand for themselves: 0, 1, 2 ...
static inline bool is_counted(const Matrix& m) {
  auto* levels = reinterpret_cast<const float*>(m.levels);
  for (int i = 0; m.kind == kCodes4 && i < 16; i++)
    if (levels[i] != static_cast<float>(i)) return false;
  return m.kind == kCodes4 || m.kind == kCodes8;
}

static inline V levels_of(const Matrix& m) {
  return m.levels ? load(reinterpret_cast<const float*>(m.levels)) : set1(0.0f);
}

// Where a column of a block stands in stored order.
static inline int place_in_block(const Matrix& m, int column) {
  return is_nibbles(m) ? column % 4 * 16 + column / 4 : column;
}

// Normalised Hadamard transform of each run of `block` floats.
static inline void hadamard(float* x, size_t count, uint32_t block) {
  for (uint32_t distance = 1; distance < block; distance *= 2)
    for (size_t i = 0; i < count; i++)
      if (!(i & distance)) {
        float low = x[i], high = x[i + distance];
        x[i] = low + high, x[i + distance] = low - high;
      }
  float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
  for (size_t i = 0; i < count; i++) x[i] *= factor;
}
