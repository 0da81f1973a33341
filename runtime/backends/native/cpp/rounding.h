// Rows of activations rounded to signed bytes, where that is asked for.
//
// Included once per instruction set. Thirty-two columns share a scale: their largest magnitude is 127.
// What a row means is whole numbers times scales, each product rounded to float. Rows that are not
// finite stay as they are, and so do the rows of matrices without counted codes.

constexpr int kScaled = 32;  // columns of a run, which share a scale
constexpr float kLargestByte = 127.0f;
constexpr float kSmallestNormal = 1.17549435e-38f;  // scales below it are zeros

static inline size_t runs_of(const Matrix& m) { return (static_cast<size_t>(m.columns) + kScaled - 1) / kScaled; }

// Codes that bytes can be multiplied with, and no transform around them.
static inline bool takes_rounded(const Matrix& m) {
  return is_counted(m) && !m.input_signs && !m.input_block && !m.output_signs && !m.output_block;
}

// Some rows as whole numbers `[rows][columns]`, and the scales of their runs `[rows][runs]`.
struct RoundedRows {
  float *numbers, *scales;
  int count;
};

static inline V magnitude(V x) { return max_or_nan(x, set1(0.0f) - x); }

// One row; whether it was finite.
template <class T>
static bool round_row(const Matrix& m, const typename T::stored* x, float* numbers, float* scales) {
  int columns = static_cast<int>(m.columns);
  for (int c = 0; c < columns; c += kScaled) {
    int low_count = std::min(16, columns - c), high_count = std::max(0, std::min(16, columns - c - 16));
    V low = load_some<T>(x + c, low_count), high = high_count ? load_some<T>(x + c + 16, high_count) : set1(0.0f);
    float largest = largest_lane(max_or_nan(magnitude(low), magnitude(high)));
    if (!(largest <= 3.40282347e+38f)) return false;
    float scale = largest / kLargestByte;
    if (scale < kSmallestNormal) scale = 0.0f;
    V by = set1(scale == 0.0f ? INFINITY : scale);
    store_some<F32>(nearest(low / by), low_count, numbers + c);
    if (high_count) store_some<F32>(nearest(high / by), high_count, numbers + c + 16);
    scales[c / kScaled] = scale;
  }
  return true;
}

// What the rows mean, in place of their whole numbers.
static void scale_row(const Matrix& m, float* numbers, const float* scales) {
  for (uint32_t c = 0; c < m.columns; c++) numbers[c] = numbers[c] * scales[c / kScaled];
}

template <class Out>
static inline Outputs<Out> from_row(Outputs<Out> to, int row) {
  to.rows += static_cast<size_t>(row) * to.width;
  return to;
}

// Rows as floats, those from `start` on, for processors without products of bytes.
template <class Out>
static void scaled_product(const Matrix& m, const RoundedRows& rows, int start, const Outputs<Out>& to) {
  for (int i = 0; i < rows.count; i++) scale_row(m, rows.numbers + static_cast<size_t>(i) * m.columns, rows.scales + i * runs_of(m));
  product<F32>(m, rows.numbers, rows.count, from_row(to, start));
}

// Runs of finite rows as `body` multiplies them, the others one by one as they are.
template <class In, class Out, class Body>
static void rounded_product(const Matrix& m, const void* x_, int count, const Outputs<Out>& to, Body body) {
  auto* x = static_cast<const typename In::stored*>(x_);
  size_t columns = m.columns, most = static_cast<size_t>(std::min(count, kRowsAtOnce));
  Room<float> numbers(columns * most), scales(runs_of(m) * most);
  for (int start = 0; start < count;) {
    RoundedRows rows{numbers.data(), scales.data(), 0};
    auto* from = x + static_cast<size_t>(start) * columns;
    while (start + rows.count < count && rows.count < kRowsAtOnce &&
           round_row<In>(m, from + rows.count * columns, rows.numbers + rows.count * columns, rows.scales + rows.count * runs_of(m)))
      rows.count++;
    if (rows.count > 0) body(m, rows, start, to);
    else product<In>(m, from, 1, from_row(to, start));
    start += std::max(1, rows.count);
  }
}
