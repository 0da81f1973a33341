// Codes with a scale and a bias for each group, on the grid that mlx.core.quantize lays.
//
// The twin of quantizers/methods/mlx.py, which says why each step is taken: the same float32
// operations in the same order. Included once per instruction set, inside its namespace. The loops
// are short and of fixed length, so that compilers make vectors of them; nothing here is a template
// of the standard library, whose one copy all instruction sets would share.

struct F32 {
  using stored = float;
  static constexpr uint32_t exponent = 0x7f800000;
  static uint32_t bits(float value) { return to_bits(value); }
  static float widened(float value) { return value; }
};

struct BF16 {
  using stored = uint16_t;
  static constexpr uint32_t exponent = 0x7f80;
  static uint32_t bits(uint16_t half) { return half; }
  static float widened(uint16_t half) { return from_bits(static_cast<uint32_t>(half) << 16); }
};

struct F16 {
  using stored = uint16_t;
  static constexpr uint32_t exponent = 0x7c00;
  static uint32_t bits(uint16_t half) { return half; }
  static float widened(uint16_t half) {
    uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, rest = half & 0x7fff;
    // Numbers of 2^-24 below the smallest normal half. As floats they are normal: nothing depends
    // on how the calling thread treats numbers that are not.
    float small = static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f;
    float normal = from_bits((rest << 13) + 0x38000000);
    return from_bits(sign | to_bits(rest < 0x400 ? small : normal));
  }
};

template <class T>
static bool finite_of(const typename T::stored* values, int64_t count) {
  uint32_t found = 0;
  for (int64_t i = 0; i < count; i++) found |= (T::bits(values[i]) & T::exponent) == T::exponent;
  return !found;
}

static constexpr int STRIP = 4096;  // values at a time, and what is made of them: for the first cache

static inline float lesser(float a, float b) { return a < b ? a : b; }
static inline float greater(float a, float b) { return a > b ? a : b; }

// The least of the first and the greatest of the second numbers of each group of SIZE, in steps in
// which those that lie side by side stay so: each step is a loop of vectors.
template <int SIZE>
static void extremes(const float* __restrict low, const float* __restrict high, int groups, float* __restrict lowest,
                     float* __restrict highest) {
  constexpr int PARTS = SIZE == 32 || SIZE == 128 ? 2 : 4, LEFT = SIZE / PARTS;
  alignas(64) float least[STRIP / PARTS], most[STRIP / PARTS];
  float *l = LEFT == 1 ? lowest : least, *m = LEFT == 1 ? highest : most;
  for (int g = 0; g < groups; g++)
    for (int i = 0; i < LEFT; i++) {
      const float *from = low + g * SIZE + i, *to = high + g * SIZE + i;
      float a = lesser(from[0], from[LEFT]), b = greater(to[0], to[LEFT]);
      if (PARTS == 4) a = lesser(a, lesser(from[2 * LEFT], from[3 * LEFT]));
      if (PARTS == 4) b = greater(b, greater(to[2 * LEFT], to[3 * LEFT]));
      l[g * LEFT + i] = a;
      m[g * LEFT + i] = b;
    }
  if constexpr (LEFT > 1) extremes<LEFT>(least, most, groups, lowest, highest);
}

// From the extremes of groups to their scales and biases, in place.
static void lay_grids(float* __restrict scales, float* __restrict biases, int count, float top) {
  for (int i = 0; i < count; i++) {
    float lowest = scales[i], highest = biases[i];
    bool counts_up = std::fabs(lowest) > std::fabs(highest);
    float step = (highest - lowest) / top;
    step = step > 1e-7f ? step : 1e-7f;
    float scale = counts_up ? step : -step, edge = counts_up ? lowest : highest;
    float code_of_zero = __builtin_rintf(edge / scale);
    bool has_zero = code_of_zero != 0.0f;
    float stretched = edge / (has_zero ? code_of_zero : 1.0f);
    scales[i] = has_zero ? stretched : scale;
    biases[i] = has_zero ? edge : 0.0f;
  }
}

// The nearest code of each value, the even one of two at the same distance.
template <int SIZE>
static void round_group(const float* __restrict group, float scale, float bias, float top, uint8_t* __restrict codes) {
  for (int i = 0; i < SIZE; i++) {
    float code = (group[i] - bias) / scale;
    code = code > 0.0f ? code : 0.0f;  // also where a huge group of one value has the scale 0
    code = code < top ? code : top;
    codes[i] = static_cast<uint8_t>(to_bits(code + 0x1.8p23f));  // where floats are whole numbers
  }
}

template <int SIZE>
static void pack_pairs(const uint8_t* __restrict codes, uint8_t* __restrict out) {
  for (int i = 0; i < SIZE / 2; i++) out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

template <class T, int SIZE, int BITS>
static void encode_of(const typename T::stored* values, int64_t count, uint8_t* codes, float* scales, float* biases) {
  constexpr float top = (1 << BITS) - 1;
  alignas(64) float wide[STRIP];
  alignas(64) uint8_t loose[SIZE];
  while (count > 0) {
    int length = count < STRIP ? static_cast<int>(count) : STRIP, groups = length / SIZE;
    for (int i = 0; i < length; i++) wide[i] = T::widened(values[i]);
    extremes<SIZE>(wide, wide, groups, scales, biases);
    lay_grids(scales, biases, groups, top);
    for (int i = 0; i < groups; i++, codes += SIZE * BITS / 8) {
      round_group<SIZE>(wide + i * SIZE, scales[i], biases[i], top, BITS == 8 ? codes : loose);
      if (BITS == 4) pack_pairs<SIZE>(loose, codes);
    }
    values += length, count -= length, scales += groups, biases += groups;
  }
}

template <class T, int SIZE>
static bool encode_in(int bits, const void* values, int64_t count, uint8_t* codes, float* scales, float* biases) {
  auto* stored = static_cast<const typename T::stored*>(values);
  if (bits == 4) encode_of<T, SIZE, 4>(stored, count, codes, scales, biases);
  if (bits == 8) encode_of<T, SIZE, 8>(stored, count, codes, scales, biases);
  return bits == 4 || bits == 8;
}

template <class T>
static bool encode(int bits, int size, const void* values, int64_t count, uint8_t* codes, float* scales, float* biases) {
  switch (size) {
    case 32: return encode_in<T, 32>(bits, values, count, codes, scales, biases);
    case 64: return encode_in<T, 64>(bits, values, count, codes, scales, biases);
    case 128: return encode_in<T, 128>(bits, values, count, codes, scales, biases);
  }
  return false;
}

static bool any_encode(int type, int bits, int size, const void* values, int64_t count, uint8_t* codes, float* scales,
                       float* biases) {
  if (type == 0) return encode<F32>(bits, size, values, count, codes, scales, biases);
  if (type == 1) return encode<F16>(bits, size, values, count, codes, scales, biases);
  return encode<BF16>(bits, size, values, count, codes, scales, biases);
}

static bool any_finite(int type, const void* values, int64_t count) {
  if (type == 0) return finite_of<F32>(static_cast<const float*>(values), count);
  if (type == 1) return finite_of<F16>(static_cast<const uint16_t*>(values), count);
  return finite_of<BF16>(static_cast<const uint16_t*>(values), count);
}
