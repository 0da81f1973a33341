// Codes of a few levels, and which of several scales leaves a group the smallest squared error.
//
// The twin of `of_lowest_error` in specs/formats/grouped.py, for formats with an ascending ladder
// of levels: the same float32 operations, and sums in the order of numpy's. Included once per
// instruction set, inside its namespace; written as affine.h is.

template <int LEVELS, bool MIRRORED>
static inline float level_of(float value, const Ladder& ladder) {
  float place = MIRRORED ? std::fabs(value) : value, level = ladder.levels[0];
#pragma GCC unroll 16
  for (int i = 0; i < LEVELS - 1; i++) {
    float next = ladder.levels[i + 1];
    level = ladder.thresholds[i] < place ? next : level;
  }
  return MIRRORED ? __builtin_copysignf(level, value) : level;
}

// The index of its level, with the sign above it where levels are mirrored; zero has no sign.
template <int LEVELS, bool MIRRORED>
static inline int code_of(float value, const Ladder& ladder) {
  float place = MIRRORED ? std::fabs(value) : value;
  int index = 0;
#pragma GCC unroll 16
  for (int i = 0; i < LEVELS - 1; i++) index += ladder.thresholds[i] < place;
  return MIRRORED && value < 0.0f && index > 0 ? index + LEVELS : index;
}

static inline float greater_size(float a, float b) { return std::fabs(a) > b ? std::fabs(a) : b; }

// Divided by infinity, a group of scale zero becomes zero.
static inline float divisor_of(float scale) { return scale == 0.0f ? INFINITY : scale; }

// Of up to 128 numbers, a multiple of 8: in eight lanes, which are added in one tree.
template <int SIZE>
static inline float sum_of(const float* __restrict values) {
  float lanes[8];
  for (int i = 0; i < 8; i++) lanes[i] = values[i];
  for (int start = 8; start < SIZE; start += 8)
    for (int i = 0; i < 8; i++) lanes[i] += values[start + i];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <int SIZE, int LEVELS, bool MIRRORED>
static float error_of(const float* __restrict group, const Candidate& with, float largest, const Ladder& ladder) {
  alignas(64) float squares[SIZE];
  for (int i = 0; i < SIZE; i++) {
    float level = level_of<LEVELS, MIRRORED>(group[i] / with.divisor + with.offset, ladder);
    float distance = ((level - with.offset) * with.scale * with.shared - group[i]) / largest;
    squares[i] = distance * distance;
  }
  return sum_of<SIZE>(squares);
}

template <int SIZE, int LEVELS, bool MIRRORED>
static void choose_of(const Ladder& ladder, const float* values, int64_t groups, int count, const float* divisors,
                      const float* offsets, const float* scales, const float* shared, uint8_t* chosen) {
  for (int64_t g = 0; g < groups; g++, values += SIZE) {
    float largest = 0, least = 0;
    for (int i = 0; i < SIZE; i++) largest = greater_size(values[i], largest);
    largest = largest == 0.0f ? 1.0f : largest;
    for (int c = 0; c < count; c++) {
      int64_t at = c * groups + g;
      float error = error_of<SIZE, LEVELS, MIRRORED>(values, {divisor_of(divisors[at]), offsets[at], scales[at], shared[g]}, largest, ladder);
      bool is_better = c == 0 || error < least;
      least = is_better ? error : least;
      chosen[g] = static_cast<uint8_t>(is_better ? c : chosen[g]);
    }
  }
}

template <int SIZE, int LEVELS, bool MIRRORED>
static void round_of(const Ladder& ladder, const float* __restrict values, int64_t groups,
                     const float* __restrict divisors, const float* __restrict offsets, uint8_t* __restrict codes) {
  for (int64_t g = 0; g < groups; g++, values += SIZE, codes += SIZE) {
    float divisor = divisor_of(divisors[g]), offset = offsets[g];
    for (int i = 0; i < SIZE; i++)
      codes[i] = static_cast<uint8_t>(code_of<LEVELS, MIRRORED>(values[i] / divisor + offset, ladder));
  }
}

template <int SIZE, int LEVELS, bool MIRRORED>
static bool laddered_in(const Ladder& ladder, const Rounding& r) {
  if (r.candidates == 0)
    round_of<SIZE, LEVELS, MIRRORED>(ladder, r.values, r.groups, r.divisors, r.offsets, r.chosen);
  else
    choose_of<SIZE, LEVELS, MIRRORED>(ladder, r.values, r.groups, r.candidates, r.divisors, r.offsets, r.scales, r.shared,
                            r.chosen);
  return true;
}

template <int LEVELS, bool MIRRORED = false>
static bool laddered(const Ladder& ladder, const Rounding& r) {
  switch (r.size) {
    case 16: return laddered_in<16, LEVELS, MIRRORED>(ladder, r);
    case 32: return laddered_in<32, LEVELS, MIRRORED>(ladder, r);
    case 64: return laddered_in<64, LEVELS, MIRRORED>(ladder, r);
    case 128: return laddered_in<128, LEVELS, MIRRORED>(ladder, r);
  }
  return false;
}

static bool any_laddered(const Ladder& ladder, const Rounding& r) {
  if (r.mirrored) return r.levels == 8 && laddered<8, true>(ladder, r);
  if (r.levels <= 4) return laddered<4>(ladder, r);
  if (r.levels <= 8) return laddered<8>(ladder, r);
  return r.levels <= 16 && laddered<16>(ladder, r);
}
