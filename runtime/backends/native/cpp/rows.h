// Row by row: lengths, softmax, the largest value, rotations, activation functions. Included once
// per instruction set.

// Shares rows out, where there is enough to do.
template <class F>
static inline void by_rows(int rows, int width, F each) {
  int pieces = static_cast<int64_t>(rows) * width < 16384 ? 1 : std::min(rows, 4 * threads());
  auto body = [&](int piece) {
    int from = static_cast<int>(static_cast<int64_t>(rows) * piece / pieces);
    int to = static_cast<int>(static_cast<int64_t>(rows) * (piece + 1) / pieces);
    for (int row = from; row < to; row++) each(row);
  };
  parallel(pieces, body);
}

static inline V load_or(const float* from, int count, float rest) {
  if (count >= 16) return load(from);
  float held[16];
  std::fill_n(held, 16, rest);
  std::memcpy(held, from, count * sizeof(float));
  return load(held);
}

// Each row divided by its length.
static void any_unit(const float* x, int rows, int width, float epsilon, float* out) {
  by_rows(rows, width, [&](int row) {
    const float* from = x + static_cast<size_t>(row) * width;
    float* to = out + static_cast<size_t>(row) * width;
    V sums = set1(0.0f);
    for (int i = 0; i < width; i += 16) {
      V each = load_or(from + i, width - i, 0.0f);
      sums = fma(each, each, sums);
    }
    float length = std::sqrt(sum(sums) + epsilon);
    for (int i = 0; i < width; i++) to[i] = from[i] / length;
  });
}

static void any_softmax(const float* x, int rows, int width, float* out) {
  by_rows(rows, 8 * width, [&](int row) {
    const float* from = x + static_cast<size_t>(row) * width;
    float* to = out + static_cast<size_t>(row) * width;
    V peaks = set1(-INFINITY), sums = set1(0.0f);
    for (int i = 0; i < width; i += 16) peaks = max_or_nan(load_or(from + i, width - i, -INFINITY), peaks);
    float lanes[16], peak;
    store(lanes, peaks);
    peak = lanes[0];
    for (float lane : lanes) peak = lane > peak || lane != lane ? lane : peak;
    auto share = [&](int i) { return exp(load_or(from + i, width - i, -INFINITY) - set1(peak)); };
    for (int i = 0; i < width; i += 16) {
      V each = share(i);
      sums = sums + first(each, std::min(16, width - i));
      store_some<F32>(each, width - i, to + i);
    }
    float total = sum(sums);
    for (int i = 0; i < width; i++) to[i] /= total;
  });
}

// The largest value and where it first stands; the first NaN is larger than all numbers.
struct Largest { float value; int place; };

static inline bool is_above(float value, float other) { return value > other || (value != value && other == other); }

static inline Largest largest_of(const float* x, int from, int to) {
  constexpr int kRun = 256;
  Largest best{x[from], from};
  for (int start = from; start < to; start += kRun) {
    int count = std::min(kRun, to - start);
    V peaks = set1(-INFINITY);
    for (int i = 0; i < count; i += 16) peaks = max_or_nan(load_or(x + start + i, count - i, -INFINITY), peaks);
    float lanes[16];
    store(lanes, peaks);
    bool is_higher = false;
    for (float lane : lanes) is_higher = is_higher || is_above(lane, best.value);
    for (int i = 0; is_higher && i < count; i++)
      if (is_above(x[start + i], best.value)) best = {x[start + i], start + i};
  }
  return best;
}

static void any_argmax(const float* x, int rows, int width, int32_t* out) {
  int parts = width < 32768 ? 1 : 4 * threads();
  std::vector<Largest> found(static_cast<size_t>(rows) * parts);
  auto body = [&](int piece) {
    int part = piece % parts;
    int from = static_cast<int>(static_cast<int64_t>(width) * part / parts);
    int to = static_cast<int>(static_cast<int64_t>(width) * (part + 1) / parts);
    found[piece] = largest_of(x + static_cast<size_t>(piece / parts) * width, from, to);
  };
  parallel(rows * parts, body);
  for (int row = 0; row < rows; row++) {
    Largest best = found[static_cast<size_t>(row) * parts];
    for (int part = 1; part < parts; part++) {
      Largest each = found[static_cast<size_t>(row) * parts + part];
      if (is_above(each.value, best.value)) best = each;
    }
    out[row] = best.place;
  }
}

// The places of the largest values of each row, from the largest down; of equals the first comes
// first, and NaN come last.
static void any_largest(const float* x, int rows, int width, int count, int32_t* out) {
  auto is_before = [](float value, float other) { return value > other || (other != other && value == value); };
  by_rows(rows, width, [&](int row) {
    const float* from = x + static_cast<size_t>(row) * width;
    int32_t* best = out + static_cast<size_t>(row) * count;
    for (int i = 0, found = 0; i < width; i++) {
      if (found == count && !is_before(from[i], from[best[found - 1]])) continue;
      int place = found < count ? found++ : found - 1;
      for (; place > 0 && is_before(from[i], from[best[place - 1]]); place--) best[place] = best[place - 1];
      best[place] = i;
    }
  });
}

template <class T>
static void rotate(const RotateCall& call) {
  by_rows(call.tokens, call.heads * call.width, [&](int token) {
    int pairs = call.pairs;
    const float *cosines = call.cosines + static_cast<size_t>(token) * pairs, *sines = call.sines + static_cast<size_t>(token) * pairs;
    for (int head = 0; head < call.heads; head++) {
      size_t start = (static_cast<size_t>(token) * call.heads + head) * call.width;
      auto* from = static_cast<const typename T::stored*>(call.x) + start;
      auto* to = static_cast<typename T::stored*>(call.out) + start;
      for (int i = 0; i < pairs; i += 16) {
        int count = std::min(16, pairs - i);
        V first = load_some<T>(from + i, count), second = load_some<T>(from + pairs + i, count);
        V cosine = load_or(cosines + i, count, 0.0f), sine = load_or(sines + i, count, 0.0f);
        store_some<T>(first * cosine - second * sine, count, to + i);
        store_some<T>(second * cosine + first * sine, count, to + pairs + i);
      }
      std::copy(from + 2 * pairs, from + call.width, to + 2 * pairs);
    }
  });
}

static void any_rotate(uint32_t type, const RotateCall& call) {
  if (type == kF32) rotate<F32>(call);
  else if (type == kF16) rotate<F16>(call);
  else rotate<BF16>(call);
}

static inline V sigmoid(V x) {
  V zero = set1(0.0f), one = set1(1.0f);
  V small = exp(zero - max_or_nan(x, zero - x));
  return select_less(x, zero, small, one) / (one + small);
}

// `2/sqrt(pi)` times the integral of `exp(-t^2)` from 0 to x, within 1.2e-7. Polynomials fitted by
// least squares at Chebyshev points: of x^2 for erf(x)/x up to 1, of x for log(1 - erf(x)) up to 4.
static inline V erf(V x) {
  V size = max_or_nan(x, set1(0.0f) - x), held = select_less(set1(4.0f), size, set1(4.0f), size), square = x * x;
  V low = set1(-9.6735930128e-06f), high = set1(1.6140494381e-06f);
  for (float c : {1.1268258095e-04f, -8.4843975492e-04f, 5.2210534923e-03f, -2.6865437627e-02f, 1.1283782870e-01f,
                  -3.7612637877e-01f, 1.1283792257e+00f})
    low = fma(low, square, set1(c));
  for (float c : {-4.5590393711e-05f, 5.9276772663e-04f, -4.7402144410e-03f, 2.6364697143e-02f, -1.0997821391e-01f,
                  -6.3193714619e-01f, -1.1301666498e+00f, 3.0320908991e-04f})
    high = fma(high, held, set1(c));
  high = set1(1.0f) - exp(high);
  high = select_less(x, set1(0.0f), set1(0.0f) - high, high);
  return select_less(size, set1(1.0f), low * x, high);
}

static inline V function_of(const Activation& activation, V x) {
  switch (activation.function) {
    case kSiLU: return x * sigmoid(set1(activation.alpha) * x);
    case kTanhGELU: {
      V inner = set1(0.7978845608f) * (x + set1(0.044715f) * x * x * x);
      return set1(0.5f) * x * (set1(1.0f) + tanh(inner));
    }
    case kGELU: return set1(0.5f) * x * (set1(1.0f) + erf(x * set1(0.70710678f)));
    case kSquaredReLU: {
      V positive = max_or_nan(x, set1(0.0f));
      return positive * positive;
    }
    case kSigmoid: return sigmoid(x);
    case kSoftplus: {
      float lanes[16];
      store(lanes, x);
      for (float& lane : lanes) lane = std::max(lane, 0.0f) + std::log1p(std::exp(-std::fabs(lane)));
      return load(lanes);
    }
    case kSoftCap: return tanh(x / set1(activation.alpha)) * set1(activation.alpha);
    default: return x;
  }
}

static inline V clipped(V x, float lowest, float highest) {
  x = max_or_nan(x, set1(lowest));
  return select_less(set1(highest), x, set1(highest), x);
}

template <class T>
static void activate(const Activation& activation, const void* x, int rows, int width, void* out) {
  int line = activation.is_gated ? 2 * width : width;
  for (int row = 0; row < rows; row++) {
    auto* from = static_cast<const typename T::stored*>(x) + static_cast<size_t>(row) * line;
    auto* to = static_cast<typename T::stored*>(out) + static_cast<size_t>(row) * width;
    for (int i = 0; i < width; i += 16) {
      V values = load_some<T>(from + i, width - i);
      if (!activation.is_gated) {
        store_some<T>(function_of(activation, values), width - i, to + i);
        continue;
      }
      V gates = clipped(load_some<T>(from + width + i, width - i), activation.lowest_gate, activation.highest_gate);
      values = rounded<T>(clipped(values, activation.lowest_value, activation.highest_value));
      store_some<T>(values * rounded<T>(function_of(activation, gates)), width - i, to + i);
    }
  }
}

static void any_activate(uint32_t type, const Activation& activation, const void* x, int rows, int width, void* out) {
  if (type == kF32) activate<F32>(activation, x, rows, width, out);
  else if (type == kF16) activate<F16>(activation, x, rows, width, out);
  else activate<BF16>(activation, x, rows, width, out);
}

template <class T>
static void add_weighted(const void* x, float weight, int width, float* sums) {
  auto* from = static_cast<const typename T::stored*>(x);
  for (int i = 0; i < width; i++) sums[i] += weight * widened(from[i], T());
}

static void any_add_weighted(uint32_t type, const void* x, float weight, int width, float* sums) {
  if (type == kF32) add_weighted<F32>(x, weight, width, sums);
  else if (type == kF16) add_weighted<F16>(x, weight, width, sums);
  else add_weighted<BF16>(x, weight, width, sums);
}

template <class T>
static void narrow(const float* x, int width, void* out) {
  for (int i = 0; i < width; i++) static_cast<typename T::stored*>(out)[i] = narrowed(x[i], T());
}

static void any_narrow(uint32_t type, const float* x, int width, void* out) {
  if (type == kF32) narrow<F32>(x, width, out);
  else if (type == kF16) narrow<F16>(x, width, out);
  else narrow<BF16>(x, width, out);
}
