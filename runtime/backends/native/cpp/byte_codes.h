// Counted codes as bytes without a sign, and rounded rows laid out to meet them.
//
// Included for processors that have products of bytes: of four bytes by four, which are added up as
// whole numbers, exactly. A block's 64 bytes are sixteen such fours; each quarter of them is added up
// before it is multiplied by both scales.

static_assert(kScaled == 32, "the columns of a quarter share a scale");

// Vectors that a block unpacks to. Of nibbles the even columns come first, then the odd ones.
template <class F>
constexpr int kParts = F::kKind == kCodes8 ? 1 : 2;

// Of a rounded row, a block's bytes and then the scales of its quarters, four of each: words of 16 bits.
constexpr int byte_stride(int parts) { return 32 * (parts + 1); }

static inline size_t byte_width(const Matrix& m) { return static_cast<size_t>(pair_blocks_of(m)) * byte_stride(m.kind == kCodes8 ? 1 : 2); }

// Groups that are no smaller than the quarter of a block.
static inline bool takes_bytes(const Matrix& m) { return block_columns(m) / m.group_size <= 4; }

template <class F>
static inline void unpack_bytes(__m512i stored, __m512i* out) {
  if constexpr (kParts<F> == 1) {
    out[0] = stored;
  } else {
    const __m512i low = _mm512_set1_epi8(15);
    out[0] = _mm512_and_si512(stored, low);
    out[1] = _mm512_and_si512(_mm512_srli_epi16(stored, 4), low);
  }
}

// Up to 64 whole numbers as bytes, then zeros.
static inline __m512i narrowed_bytes(const float* numbers, int count) {
  __m128i parts[4];
  for (int i = 0; i < 4; i++) {
    V some = 16 * i < count ? load_some<F32>(numbers + 16 * i, count - 16 * i) : set1(0.0f);
    parts[i] = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(some.v));
  }
  __m256i low = _mm256_set_m128i(parts[1], parts[0]), high = _mm256_set_m128i(parts[3], parts[2]);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// A rounded row, block after block.
static inline void arrange_bytes(const Matrix& m, const float* numbers, const float* scales, uint16_t* out) {
  int columns = static_cast<int>(m.columns), runs = static_cast<int>(runs_of(m)), size = static_cast<int>(block_columns(m));
  for (int c = 0; c < columns; c += size) {
    auto scale = [&](int place) { return c / kScaled + place < runs ? scales[c / kScaled + place] : 0.0f; };
    V lanes = m.kind == kCodes8 ? halves(scale(0), scale(1)) : quarters(scale(0), scale(1), scale(2), scale(3));
    __m512i first = narrowed_bytes(numbers + c, columns - c);
    if (m.kind == kCodes8) {
      _mm512_storeu_si512(out, first);
      out += 32;
    } else {
      __m512i second = columns - c > 64 ? narrowed_bytes(numbers + c + 64, columns - c - 64) : _mm512_setzero_si512();
      for (int shift = 0; shift < 16; shift += 8, out += 32) {
        __m256i low = _mm512_cvtepi16_epi8(_mm512_srli_epi16(first, shift)), high = _mm512_cvtepi16_epi8(_mm512_srli_epi16(second, shift));
        _mm512_storeu_si512(out, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
      }
    }
    store(reinterpret_cast<float*>(out), lanes);
    out += 32;
  }
}

// Of four vectors the sums of each quarter: [a b c d] of lanes 0 to 3, of 4 to 7 ...
static inline V quarter_sums(const __m512i* a) {
  __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
  __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(a[2], a[3]), _mm512_unpackhi_epi32(a[2], a[3]));
  return {_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd)))};
}

// The scales of four rows that meet such sums.
template <class F>
static inline V scales_of_four(const float* scales, const Groups& groups) {
  if constexpr (!F::kByRow) {
    return four_scales<F>(scales, groups.group_step);
  } else {
    V four = lane_scales<F>(scales, 1);
    for (int r = 1; r < 4; r++)
      four.v = _mm512_mask_blend_ps(static_cast<__mmask16>(0x1111 << r), four.v, lane_scales<F>(scales + r * groups.row_step, 1).v);
    return four;
  }
}

// Sixteen vectors of sixteen numbers with rows and columns exchanged.
static inline void transpose(__m512i* a) {
  __m512i b[16], c[16];
  for (int i = 0; i < 16; i += 2) b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]), b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; j++) {
      c[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + j + 2]);
      c[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + j + 2]);
    }
  for (int i = 0; i < 4; i++) {  // column i of each quarter, of four rows a vector
    __m512i low = _mm512_shuffle_i32x4(c[i], c[4 + i], 0x44), high = _mm512_shuffle_i32x4(c[8 + i], c[12 + i], 0x44);
    __m512i later_low = _mm512_shuffle_i32x4(c[i], c[4 + i], 0xee), later_high = _mm512_shuffle_i32x4(c[8 + i], c[12 + i], 0xee);
    a[i] = _mm512_shuffle_i32x4(low, high, 0x88), a[4 + i] = _mm512_shuffle_i32x4(low, high, 0xdd);
    a[8 + i] = _mm512_shuffle_i32x4(later_low, later_high, 0x88), a[12 + i] = _mm512_shuffle_i32x4(later_low, later_high, 0xdd);
  }
}
