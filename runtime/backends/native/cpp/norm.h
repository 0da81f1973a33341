// Root-mean-square and layer norm over rows. Included once per instruction set.

struct NormCall {
  const void* x;        // [rows, width]
  const float *scales, *biases;  // [width], or null
  void* out;
  int rows, width;
  float epsilon, scale_offset;
  bool subtracts_mean, rounds_between;
};

// The sum of what `term` makes of each sixteen values; past the width it is given zeros.
template <class F>
static inline float total(const float* x, int width, F term) {
  V sums = set1(0.0f);
  int i = 0;
  for (; i + 16 <= width; i += 16) sums = term(load(x + i), sums);
  if (i < width) {
    float rest[16] = {0};
    std::memcpy(rest, x + i, (width - i) * sizeof(float));
    sums = term(load(rest), sums);
  }
  return sum(sums);
}

template <class T>
static void norm_row(const NormCall& call, int row, float* wide) {
  using Stored = typename T::stored;
  auto* x = static_cast<const Stored*>(call.x) + static_cast<size_t>(row) * call.width;
  auto* out = static_cast<Stored*>(call.out) + static_cast<size_t>(row) * call.width;
  int width = call.width;
  for (int i = 0; i < width; i++) wide[i] = widened(x[i], T());
  if (call.subtracts_mean) {
    float mean = total(wide, width, [](V x, V sums) { return sums + x; }) / width;
    for (int i = 0; i < width; i++) wide[i] -= mean;
  }
  float squares = total(wide, width, [](V x, V sums) { return fma(x, x, sums); });
  float root = std::sqrt(squares / width + call.epsilon);
  for (int i = 0; i < width; i++) {
    float value = wide[i] / root;
    if (call.scales) {
      float scale = call.scales[i] + call.scale_offset;
      if (call.rounds_between)
        value = widened(narrowed(value, T()), T()), scale = widened(narrowed(scale, T()), T());
      value *= scale;
    }
    if (call.biases) value = widened(narrowed(value, T()), T()) + call.biases[i];
    out[i] = narrowed(value, T());
  }
}

template <class T>
static void norm(const NormCall& call) {
  int pieces = call.rows * call.width < 16384 ? 1 : std::min(call.rows, 4 * threads());
  auto body = [&](int piece) {
    std::vector<float> wide(call.width);
    int from = static_cast<int>(static_cast<int64_t>(call.rows) * piece / pieces);
    int to = static_cast<int>(static_cast<int64_t>(call.rows) * (piece + 1) / pieces);
    for (int row = from; row < to; row++) norm_row<T>(call, row, wide.data());
  };
  parallel(pieces, body);
}
