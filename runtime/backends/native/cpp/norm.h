// Root-mean-square and layer norm over rows. Included once per instruction set.

struct NormCall {
  const void* x;        // [rows, width]
  const float *scales, *biases;  // [width], or null
  void* out;
  int rows, width;
  float epsilon, scale_offset;
  bool subtracts_mean, rounds_between;
};

template <class T>
static void norm_row(const NormCall& call, int row, float* wide) {
  using Stored = typename T::stored;
  auto* x = static_cast<const Stored*>(call.x) + static_cast<size_t>(row) * call.width;
  auto* out = static_cast<Stored*>(call.out) + static_cast<size_t>(row) * call.width;
  int width = call.width;
  V total = set1(0.0f), squares = set1(0.0f);
  for (int i = 0; i < width; i += 16) {
    V each = load_some<T>(x + i, width - i);
    store(wide + i, each);
    total = total + each;
  }
  float mean = call.subtracts_mean ? sum(total) / width : 0.0f;
  for (int i = 0; i < width; i += 16) {
    V each = load(wide + i);
    if (call.subtracts_mean) store(wide + i, each = first(each - set1(mean), std::min(16, width - i)));
    squares = fma(each, each, squares);
  }
  V root = set1(std::sqrt(sum(squares) / width + call.epsilon)), offset = set1(call.scale_offset);
  for (int i = 0; i < width; i += 16) {
    V value = load(wide + i) / root;
    if (call.scales) {
      V scale = load_some<F32>(call.scales + i, width - i) + offset;
      value = call.rounds_between ? rounded<T>(value) * rounded<T>(scale) : value * scale;
    }
    if (call.biases) value = rounded<T>(value) + load_some<F32>(call.biases + i, width - i);
    store_some<T>(value, width - i, out + i);
  }
}

template <class T>
static void norm(const NormCall& call) {
  int pieces = call.rows * call.width < 16384 ? 1 : std::min(call.rows, 4 * threads());
  auto body = [&](int piece) {
    std::vector<float> wide(call.width + 15);
    int from = static_cast<int>(static_cast<int64_t>(call.rows) * piece / pieces);
    int to = static_cast<int>(static_cast<int64_t>(call.rows) * (piece + 1) / pieces);
    for (int row = from; row < to; row++) norm_row<T>(call, row, wide.data());
  };
  parallel(pieces, body);
}
