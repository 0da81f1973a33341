// Rows times a stored matrix. Included once per instruction set.
//
// Every output is one sum in sixteen lanes over the columns in stored order, whatever the number
// of rows: a single row decodes on the way, several share rows of weights decoded to floats.

// `x` as floats `[rows, blocks * kBlock]` in stored order, with the input's signs and transform.
template <class T>
static void arrange(const Matrix& m, const typename T::stored* x, int rows, float* out) {
  size_t width = static_cast<size_t>(blocks_of(m)) * kBlock, columns = m.columns;
  bool plain = !is_nibbles(m) && !m.input_signs && !m.input_block;
  auto* signs = reinterpret_cast<const int32_t*>(m.input_signs);
  std::vector<float> held(plain ? 0 : width);
  for (int i = 0; i < rows; i++) {
    float* to = out + i * width;
    const typename T::stored* from = x + i * columns;
    if (plain) {
      for (size_t c = 0; c < columns; c++) to[c] = widened(from[c], T());
      for (size_t c = columns; c < width; c++) to[c] = 0.0f;
      continue;
    }
    std::fill(held.begin() + columns, held.end(), 0.0f);
    for (size_t c = 0; c < columns; c++) held[c] = widened(from[c], T());
    if (signs)
      for (size_t c = 0; c < columns; c++) held[c] *= static_cast<float>(signs[c]);
    if (m.input_block) hadamard(held.data(), columns, m.input_block);
    if (!is_nibbles(m)) {
      std::memcpy(to, held.data(), width * sizeof(float));
      continue;
    }
    for (size_t b = 0; b < width; b += kBlock)
      for (int j = 0; j < 16; j++)
        for (int s = 0; s < 4; s++) to[b + 16 * s + j] = held[b + 4 * j + s];
  }
}

constexpr size_t kAhead = 8192;  // bytes: what a processor reads while the memory answers

// Four rows of weights times one row, decoded on the way.
template <class F>
static inline void single(const Matrix& m, const Row* rows, V levels, const float* x, float* out) {
  int whole = static_cast<int>(m.columns / kBlock), blocks = blocks_of(m);
  // Rows lie one after the other, but four are read at a time: the memory is asked in good time.
  const size_t four = 4 * static_cast<size_t>(m.row_bytes), ahead = (kAhead + four - 1) / four * four;
  const Row r0 = rows[0], r1 = rows[1], r2 = rows[2], r3 = rows[3];
  V sums[4] = {set1(0.0f), set1(0.0f), set1(0.0f), set1(0.0f)}, w[4];
  for (int b = 0; b < whole; b++) {
    const float* at = x + b * kBlock;
    const size_t start = static_cast<size_t>(b) * F::kBytes;
    V x0 = load(at), x1 = load(at + 16), x2 = load(at + 32), x3 = load(at + 48);
    auto add = [&](const Row& row, V& sum) {
      for (size_t line = 0; line < F::kBytes; line += 64) __builtin_prefetch(row.bytes + start + ahead + line, 0, 2);
      decode<F>(row, row.bytes + start, b, levels, w);
      sum = fma(w[3], x3, fma(w[2], x2, fma(w[1], x1, fma(w[0], x0, sum))));
    };
    add(r0, sums[0]), add(r1, sums[1]), add(r2, sums[2]), add(r3, sums[3]);
  }
  for (int b = whole; b < blocks; b++)
    for (int r = 0; r < 4; r++) {
      decode_rest<F>(m, rows[r], b, levels, w);
      for (int s = 0; s < 4; s++) sums[r] = fma(w[s], load(x + b * kBlock + 16 * s), sums[r]);
    }
  sum4(sums, out);
}

// Four decoded rows of weights times `kRows` rows: out[row * kTile + weight row].
template <int kRows>
static inline void several(const float* w, const float* x, size_t width, float* out) {
  V sums[kRows][4];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i++)
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) sums[i][r] = set1(0.0f);
  for (size_t c = 0; c < width; c += 16) {
    V w0 = load(w + c), w1 = load(w + width + c), w2 = load(w + 2 * width + c), w3 = load(w + 3 * width + c);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; i++) {
      V each = load(x + i * width + c);
      sums[i][0] = fma(w0, each, sums[i][0]);
      sums[i][1] = fma(w1, each, sums[i][1]);
      sums[i][2] = fma(w2, each, sums[i][2]);
      sums[i][3] = fma(w3, each, sums[i][3]);
    }
  }
  for (int i = 0; i < kRows; i++)
    for (int r = 0; r < 4; r++) out[i * kTile + r] = sum(sums[i][r]);
}

static inline void several(const float* w, const float* x, size_t width, int rows, float* out) {
  for (; rows >= 4; rows -= 4, x += 4 * width, out += 4 * kTile) several<4>(w, x, width, out);
  if (rows == 3) several<3>(w, x, width, out);
  if (rows == 2) several<2>(w, x, width, out);
  if (rows == 1) several<1>(w, x, width, out);
}

// Sums `[rows][kTile]` of the weight rows `first .. first + count`.
template <class F>
static void tile(const Matrix& m, uint32_t first, int count, const float* x, int rows, float* room, float* sums) {
  size_t width = static_cast<size_t>(blocks_of(m)) * kBlock;
  float* decoded = room + group_room(m);
  Groups groups = unpack_groups(m, first, count, room);
  V levels = levels_of(m);
  for (int at = 0; at < count; at += 4) {
    // Past the last row the last one stands in; what it gives is written over or never read.
    Row four[4];
    for (int r = 0; r < 4; r++) {
      int place = at + r < count ? at + r : count - 1;
      four[r] = row_of(m, first + place, groups, place);
    }
    if (rows == 1) {
      single<F>(m, four, levels, x, sums + at);
      continue;
    }
    for (int r = 0; r < 4; r++) decode_row<F>(m, four[r], levels, decoded + r * width);
    several(decoded, x, width, rows, sums + at);
  }
}

// Where outputs go: rows as wide as the matrix has rows; half as wide where gates follow values, and
// the function of a gated MLP makes one of both.
template <class Out>
struct Outputs {
  const float* biases;  // of the matrix's rows, or null
  typename Out::stored* rows;
  const Activation* gate;  // or null
  uint32_t width;

  Outputs(const Matrix& m, const float* given, const Activation* function, void* out)
      : biases(given), rows(static_cast<typename Out::stored*>(out)), gate(function), width(function ? m.rows / 2 : m.rows) {}

  int tiles() const { return static_cast<int>((width + kTile - 1) / kTile); }
};

// The sums of a tile as outputs `[rows][step]`.
template <class T>
static void finish(const Matrix& m, uint32_t first, int count, int rows, float* sums, const float* biases,
                   typename T::stored* out, size_t step) {
  auto* signs = reinterpret_cast<const int32_t*>(m.output_signs);
  for (int i = 0; i < rows; i++) {
    float* row = sums + i * kTile;
    if (m.output_block) hadamard(row, count, m.output_block);
    if (signs)
      for (int r = 0; r < count; r++) row[r] *= static_cast<float>(signs[first + r]);
    if (biases)
      for (int r = 0; r < count; r++) row[r] += biases[first + r];
    typename T::stored* to = out + static_cast<size_t>(i) * step;
    for (int r = 0; r < count; r++) to[r] = narrowed(row[r], T());
  }
}

template <class T>
static void activate(const Activation& activation, const void* x, int rows, int width, void* out);

// The `number`th tile of outputs of some rows, those from `start` on. `add(first, count)` makes the
// sums of a tile of the matrix.
template <class Out, class Add>
static void write_tile(const Matrix& m, int number, int start, int rows, const Outputs<Out>& to, float* sums, Add add) {
  uint32_t first = static_cast<uint32_t>(number) * kTile;
  int count = static_cast<int>(std::min<uint32_t>(kTile, to.width - first));
  auto* out = to.rows + static_cast<size_t>(start) * to.width + first;
  if (to.gate == nullptr) {
    add(first, count);
    finish<Out>(m, first, count, rows, sums, to.biases, out, to.width);
    return;
  }
  thread_local Room<typename Out::stored> room;
  if (room.size() < static_cast<size_t>(rows) * 3 * kTile) room.resize(static_cast<size_t>(rows) * 3 * kTile);
  auto *both = room.data(), *made = both + static_cast<size_t>(rows) * 2 * count;
  for (int half = 0; half < 2; half++) {
    add(first + half * to.width, count);
    finish<Out>(m, first + half * to.width, count, rows, sums, to.biases, both + half * count, 2 * static_cast<size_t>(count));
  }
  activate<Out>(*to.gate, both, rows, count, made);
  for (int i = 0; i < rows; i++)
    std::memcpy(out + static_cast<size_t>(i) * to.width, made + static_cast<size_t>(i) * count, count * sizeof *made);
}

constexpr int kRowsAtOnce = 128;  // as many as stay in the second-level cache

template <class In, class Out>
static void product(const Matrix& m, const void* x_, int rows, const Outputs<Out>& to) {
  size_t width = static_cast<size_t>(blocks_of(m)) * kBlock;
  auto* x = static_cast<const typename In::stored*>(x_);
  Room<float> arranged(width * static_cast<size_t>(std::min(rows, kRowsAtOnce)));
  int tiles = to.tiles(), pieces = std::min(tiles, rows == 1 ? 4 * threads() : 16 * threads());
  for (int start = 0; start < rows; start += kRowsAtOnce) {
    int count = std::min(rows - start, kRowsAtOnce);
    arrange<In>(m, x + static_cast<size_t>(start) * m.columns, count, arranged.data());
    auto body = [&](int piece) {
      thread_local Room<float> room;
      size_t needed = group_room(m) + 4 * width + static_cast<size_t>(count) * kTile;
      if (room.size() < needed) room.resize(needed);
      float* sums = room.data() + group_room(m) + 4 * width;
      int from = static_cast<int>(static_cast<int64_t>(tiles) * piece / pieces);
      int end = static_cast<int>(static_cast<int64_t>(tiles) * (piece + 1) / pieces);
      with_form(m, [&](auto form) {
        auto add = [&](uint32_t first, int height) { tile<decltype(form)>(m, first, height, arranged.data(), count, room.data(), sums); };
        for (int t = from; t < end; t++) write_tile(m, t, start, count, to, sums, add);
      });
    };
    parallel(pieces, body);
  }
}

// Rows of a table, by number; a number outside the table gives zeros.
template <class T>
static void lookup(const Matrix& m, const int32_t* ids, int count, void* out_) {
  size_t width = static_cast<size_t>(blocks_of(m)) * kBlock;
  Room<float> room(group_room(m) + 2 * width);
  float *decoded = room.data() + group_room(m), *plain = decoded + width;
  auto* signs = reinterpret_cast<const int32_t*>(m.input_signs);
  V levels = levels_of(m);
  for (int i = 0; i < count; i++) {
    auto* out = static_cast<typename T::stored*>(out_) + static_cast<size_t>(i) * m.columns;
    std::fill_n(out, m.columns, narrowed(0.0f, T()));
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= m.rows) continue;
    uint32_t id = static_cast<uint32_t>(ids[i]);
    Row row = row_of(m, id, unpack_groups(m, id, 1, room.data()), 0);
    with_form(m, [&](auto form) { decode_row<decltype(form)>(m, row, levels, decoded); });
    for (uint32_t c = 0; c < m.columns; c++)
      plain[c] = decoded[c / kBlock * kBlock + place_in_block(m, c % kBlock)];
    if (m.input_block) hadamard(plain, m.columns, m.input_block);
    if (signs)
      for (uint32_t c = 0; c < m.columns; c++) plain[c] *= static_cast<float>(signs[c]);
    for (uint32_t c = 0; c < m.columns; c++) out[c] = narrowed(plain[c], T());
  }
}
