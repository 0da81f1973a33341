// How stored codes become vectors of bfloat16 pairs, and how activations are laid out to meet them.
//
// Included for processors that have products of such pairs.

constexpr int kVectors = 4;  // of a block: 32 numbers each

static inline __m512bh pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }
static inline __m512i load_bits(const uint16_t* p) { return _mm512_loadu_si512(p); }

static inline V dot(V sums, __m512i a, __m512i b) { return {_mm512_dpbf16_ps(sums.v, pairs(a), pairs(b))}; }

// What a block holds: 128 numbers, 128 codes of 4 bits, or 64 of 8 bits, each in two halves.
static inline uint32_t block_columns(const Matrix& m) { return m.kind == kCodes8 ? 64 : 128; }
static inline int pair_blocks_of(const Matrix& m) { return static_cast<int>((m.columns + block_columns(m) - 1) / block_columns(m)); }
static inline size_t pair_width(const Matrix& m) { return static_cast<size_t>(pair_blocks_of(m)) * kVectors * 32; }

// The sum of a vector in the tree in which `sum16` adds: within quarters first.
static inline float sum_of_quarters(V a) {
  V two = a + V{_mm512_permute_ps(a.v, 0x4e)}, quarter = two + V{_mm512_permute_ps(two.v, 0xb1)};
  V half = quarter + V{_mm512_shuffle_f32x4(quarter.v, quarter.v, 0x4e)};
  return _mm512_cvtss_f32((half + V{_mm512_shuffle_f32x4(half.v, half.v, 0xb1)}).v);
}

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
struct Every {
  uint16_t places[32];
  constexpr Every(int step, int first) : places() {
    for (int j = 0; j < 32; j++) places[j] = static_cast<uint16_t>(first + step * (j % (64 / step)) + j / (64 / step));
  }
};

template <int kStep, int kFirst>
static inline __m512i every(__m512i low, __m512i high) {
  static constexpr Every kEvery(kStep, kFirst);
  return _mm512_permutex2var_epi16(low, load_bits(kEvery.places), high);
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
      for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(out + b + 32 * i, i < 2 ? every<2, 0>(v[0], v[1]) : every<2, 1>(v[0], v[1]));
      continue;
    }
    for (int i = 0; i < 2; i++) {  // of 64 columns: each fourth from the first and the second on, then the rest
      halves_of[i] = every<4, 0>(v[2 * i], v[2 * i + 1]);
      halves_of[2 + i] = every<4, 2>(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 4; i += 2) {
      _mm512_storeu_si512(out + b + 32 * i, _mm512_shuffle_i64x2(halves_of[i], halves_of[i + 1], 0x44));
      _mm512_storeu_si512(out + b + 32 * i + 32, _mm512_shuffle_i64x2(halves_of[i], halves_of[i + 1], 0xee));
    }
  }
}

// A nibble of a counted code is written into the middle of a bfloat16's mantissa: 16 more than it
// says, and of the upper half of a byte 256 more than 16 times that.
constexpr uint16_t kSixteen = 0x4180, kSixteenSquared = 0x4380, kNibble = 0x78;

// How a row is stored, of how many groups a block has parts, whether codes are counted, and whether
// the groups of a row lie side by side (else those of neighbouring rows do).
template <uint32_t kOfKind, int kOfGroups = 1, bool kOfCounted = false, bool kOfByRow = true>
struct PairForm {
  static constexpr uint32_t kKind = kOfKind;
  static constexpr int kGroups = kOfGroups, kBytes = kKind == kBF16 ? 256 : 64;
  static constexpr bool kCodes = kKind != kBF16, kCounted = kOfCounted, kByRow = kOfByRow;
};

// The levels of codes that are not counted, twice: a lookup takes five bits, of which a nibble has four.
template <class F>
static inline __m512i levels_of_pairs(const Matrix& m) {
  uint16_t levels[32] = {0};
  for (int i = 0; i < 32 && F::kCodes && !F::kCounted; i++) levels[i] = narrowed(reinterpret_cast<const float*>(m.levels)[i % 16], BF16());
  return load_bits(levels);
}

// The `place`-th nibble of each word as a level.
template <class F>
static inline __m512i level(__m512i words, int place, __m512i levels) {
  if (!F::kCounted) return _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * place), levels);
  constexpr int kAndThenOr = 0xea;
  __m512i moved = place == 0 ? _mm512_slli_epi16(words, 3) : _mm512_srli_epi16(words, 4 * place - 3);
  uint16_t lift = F::kKind == kCodes8 && place % 2 ? kSixteenSquared : kSixteen;
  return _mm512_ternarylogic_epi32(moved, _mm512_set1_epi16(kNibble), _mm512_set1_epi16(static_cast<short>(lift)), kAndThenOr);
}

// 64 bytes of a row. Of those that are not all there nothing past the row is read.
template <bool kWhole>
static inline __m512i stored_bytes(const uint8_t* row, size_t row_bytes, size_t from) {
  size_t left = from < row_bytes ? row_bytes - from : 0;
  return kWhole || left >= 64 ? _mm512_loadu_si512(row + from) : _mm512_maskz_loadu_epi8((uint64_t{1} << left) - 1, row + from);
}

// One block of a row: vectors of levels.
template <class F, bool kWhole>
static inline void unpack_pairs(const uint8_t* row, size_t row_bytes, int block, __m512i levels, __m512i* out) {
  size_t at = static_cast<size_t>(block) * F::kBytes;
  if (!F::kCodes) {
    for (int s = 0; s < kVectors; s++) out[s] = stored_bytes<kWhole>(row, row_bytes, at + 64 * s);
    return;
  }
  __m512i words = stored_bytes<kWhole>(row, row_bytes, at);
  for (int s = 0; s < kVectors; s++) out[s] = level<F>(words, s, levels);
}

// How many blocks of a row are whole.
template <class F>
static inline int whole_blocks(const Matrix& m) { return static_cast<int>(m.row_bytes / F::kBytes); }
