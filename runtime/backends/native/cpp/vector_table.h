// Tables in vectors of a codebook (D4S4): rows looked up, and rows as a product's matrix. Included
// once per instruction set.

constexpr int kStep = 64;       // columns that share a step of the ladder
constexpr int kRotated = 32;    // columns of one Hadamard block
constexpr int kTableRows = 32;  // rows that a product decodes together

static inline float row_scale(const VectorTable& t, uint32_t row) {
  auto* half = reinterpret_cast<const uint16_t*>(t.row_scales);
  if (t.param == kParamF32) return reinterpret_cast<const float*>(t.row_scales)[row];
  return t.param == kParamF16 ? widened(half[row], F16()) : widened(half[row], BF16());
}

static inline void table_row(const VectorTable& t, uint32_t row, float* out) {
  auto* codes = reinterpret_cast<const uint8_t*>(t.codes) + static_cast<size_t>(row) * (t.columns / 4);
  auto* steps = reinterpret_cast<const uint8_t*>(t.steps) + static_cast<size_t>(row) * t.step_bytes;
  auto* ladder = reinterpret_cast<const float*>(t.ladder);
  auto* vectors = reinterpret_cast<const float*>(t.vectors);
  auto* factors = reinterpret_cast<const float*>(t.factors);
  for (uint32_t start = 0, group = 0; start < t.columns; start += kStep, group++, codes += kStep / 4) {
    V scale = set1(row_scale(t, row) * ladder[steps[group / 2] >> 4 * (group & 1) & 15]);
    float* to = out + start;
    for (int i = 0; i < kStep / 4; i++) std::memcpy(to + 4 * i, vectors + 4 * codes[i], 4 * sizeof(float));
    for (int i = 0; i < kStep; i += 16) store(to + i, load(to + i) * scale);
    hadamard(to, kStep, kRotated);
    for (int i = 0; i < kStep; i += 16) store(to + i, load(to + i) * load(factors + start + i));
  }
}

template <class T>
static void vector_rows(const VectorTable& t, const int32_t* ids, int count, void* out_) {
  by_rows(count, 4 * t.columns, [&](int i) {
    auto* out = static_cast<typename T::stored*>(out_) + static_cast<size_t>(i) * t.columns;
    bool is_there = ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < t.rows;
    std::vector<float> row(t.columns);
    if (is_there) table_row(t, static_cast<uint32_t>(ids[i]), row.data());
    narrow<T>(row.data(), static_cast<int>(t.columns), out);
  });
}

static void any_vector_rows(uint32_t type, const VectorTable& t, const int32_t* ids, int count, void* out) {
  if (type == kF32) vector_rows<F32>(t, ids, count, out);
  else if (type == kF16) vector_rows<F16>(t, ids, count, out);
  else vector_rows<BF16>(t, ids, count, out);
}

// Each output is one sum in sixteen lanes, for any number of rows.
template <class In, class Out>
static void vector_product(const VectorTable& t, const void* x_, int rows, const float* biases, void* out_) {
  size_t width = t.columns;
  auto* x = static_cast<const typename In::stored*>(x_);
  auto* out = static_cast<typename Out::stored*>(out_);
  std::vector<float> wide(rows * width);
  for (size_t i = 0; i < wide.size(); i++) wide[i] = widened(x[i], In());
  int tiles = static_cast<int>((t.rows + kTableRows - 1) / kTableRows);
  auto body = [&](int tile) {
    thread_local std::vector<float> room;
    room.resize(std::max(room.size(), width));
    uint32_t first = static_cast<uint32_t>(tile) * kTableRows;
    for (uint32_t row = first; row < std::min(t.rows, first + kTableRows); row++) {
      table_row(t, row, room.data());
      for (int i = 0; i < rows; i++) {
        V sums = set1(0.0f);
        for (size_t c = 0; c < width; c += 16) sums = fma(load(&room[c]), load(&wide[i * width + c]), sums);
        float value = biases ? sum(sums) + biases[row] : sum(sums);
        out[static_cast<size_t>(i) * t.rows + row] = narrowed(value, Out());
      }
    }
  };
  parallel(tiles, body);
}

template <class T>
static void vector_product_of(const VectorTable& t, const void* x, int rows, const float* biases, bool wide, void* out) {
  wide ? vector_product<T, F32>(t, x, rows, biases, out) : vector_product<T, T>(t, x, rows, biases, out);
}

static void any_vector_product(uint32_t type, const VectorTable& t, const void* x, int rows, const float* biases,
                               bool wide, void* out) {
  if (type == kF32) vector_product_of<F32>(t, x, rows, biases, wide, out);
  else if (type == kF16) vector_product_of<F16>(t, x, rows, biases, wide, out);
  else vector_product_of<BF16>(t, x, rows, biases, wide, out);
}
