// Along the sequence: causal filters and decayed recurrences, one token after the other. Included
// once per instruction set.
//
// Channels, and columns of a state, do not meet: they are shared out, and a token's arithmetic is
// the same whether it comes alone or in a prompt.

constexpr int kStrip = 64;  // channels of a filter that are worked on together

// The part of a row that enters the filter, as floats: rows of the history come first.
template <class T, bool kGated>
static inline void filter_row(const ConvCall& call, int row, int channel, int count, float* to) {
  using Stored = typename T::stored;
  size_t channels = call.channels;
  int place = row - (call.taps - 1);
  auto* from = static_cast<const Stored*>(place < 0 ? call.history : call.x);
  from += channel + static_cast<size_t>(place < 0 ? row : place) * (kGated && place >= 0 ? 3 * channels : channels);
  for (int c = 0; c < count; c += 16) {
    V each = load_some<T>(from + c, count - c);
    if (kGated && place >= 0) each = rounded<T>(each * load_some<T>(from + 2 * channels + c, count - c));
    store(to + c, each);
  }
}

template <class T, bool kGated>
static inline void filter_out(const ConvCall& call, int token, int channel, int count, const float* sums) {
  using Out = std::conditional_t<kGated, T, F32>;
  size_t channels = call.channels;
  auto* out = static_cast<typename Out::stored*>(call.out) + token * channels + channel;
  auto* after = static_cast<const typename T::stored*>(call.x) + (3 * token + 1) * channels + channel;
  for (int c = 0; c < count; c += 16) {
    V each = load(sums + c);
    if (kGated) each = each * load_some<T>(after + c, count - c);
    store_some<Out>(each, count - c, out + c);
  }
}

// Filters of a strip `[channels, taps]`, as `[taps][kStrip]`. The usual numbers of taps are known
// to the compiler; 0 stands for any other.
template <int kTaps>
static inline void turn(const float* from, int channels, int taps, float* to) {
  int count = kTaps ? kTaps : taps;
  for (int tap = 0; tap < count; tap++)
    for (int c = 0; c < channels; c++) to[tap * kStrip + c] = from[c * count + tap];
}

template <int kTaps>
static inline void filter_sums(const float* rows, const float* weights, const float* biases, int taps, float* sums) {
  int count = kTaps ? kTaps : taps;
  for (int c = 0; c < kStrip; c += 16) {
    V sum = set1(0.0f);
    for (int tap = 0; tap < count; tap++) sum = fma(load(rows + tap * kStrip + c), load(weights + tap * kStrip + c), sum);
    store(sums + c, sum + load(biases + c));
  }
}

constexpr int kTokens = 16;  // of a strip that are worked on together

template <class T, bool kGated, int kTaps>
static void filter(const ConvCall& call, int channel, int count) {
  int taps = call.taps, before = taps - 1;
  thread_local std::vector<float> room;
  room.resize(std::max(room.size(), static_cast<size_t>(2 * taps + kTokens) * kStrip));
  if (count < kStrip) std::fill(room.begin(), room.end(), 0.0f);  // lanes past the last channel
  float *weights = room.data(), *biases = weights + taps * kStrip, *window = biases + kStrip;
  turn<kTaps>(call.weights + static_cast<size_t>(channel) * taps, count, taps, weights);
  // Adding minus zero changes nothing, not even a zero's sign.
  for (int c = 0; c < kStrip; c++) biases[c] = call.biases && c < count ? call.biases[channel + c] : -0.0f;
  for (int row = 0; row < before; row++) filter_row<T, kGated>(call, row, channel, count, window + row * kStrip);
  for (int start = 0; start < call.filled; start += kTokens) {
    int tokens = std::min(kTokens, call.filled - start);
    for (int i = 0; i < tokens; i++)
      filter_row<T, kGated>(call, start + i + before, channel, count, window + (i + before) * kStrip);
    for (int i = 0; i < tokens; i++) {
      float sums[kStrip];
      filter_sums<kTaps>(window + i * kStrip, weights, biases, taps, sums);
      filter_out<T, kGated>(call, start + i, channel, count, sums);
    }
    std::memmove(window, window + tokens * kStrip, static_cast<size_t>(before) * kStrip * sizeof(float));
  }
  auto* kept = static_cast<typename T::stored*>(call.kept) + channel;
  for (int row = 0; row < before; row++, kept += call.channels)
    for (int c = 0; c < count; c += 16) store_some<T>(load(window + row * kStrip + c), count - c, kept + c);
}

template <class T, bool kGated>
static void conv(const ConvCall& call) {
  using Out = std::conditional_t<kGated, T, F32>;
  auto* out = static_cast<typename Out::stored*>(call.out);
  size_t channels = call.channels;
  std::fill(out + call.filled * channels, out + call.tokens * channels, narrowed(0.0f, Out()));
  int strips = (call.channels + kStrip - 1) / kStrip;
  int64_t work = static_cast<int64_t>(call.filled) * call.channels * call.taps;
  int pieces = work < 16384 ? 1 : std::min(strips, 4 * threads());
  auto body = [&](int piece) {
    for (int strip = strips * piece / pieces; strip < strips * (piece + 1) / pieces; strip++) {
      int channel = strip * kStrip;
      int count = std::min(kStrip, call.channels - channel);
      if (call.taps == 3) filter<T, kGated, 3>(call, channel, count);
      else if (call.taps == 4) filter<T, kGated, 4>(call, channel, count);
      else filter<T, kGated, 0>(call, channel, count);
    }
  };
  parallel(pieces, body);
}

template <class T>
static void conv_of(bool is_gated, const ConvCall& call) {
  is_gated ? conv<T, true>(call) : conv<T, false>(call);
}

static void any_conv(uint32_t type, bool is_gated, const ConvCall& call) {
  if (type == kF32) conv_of<F32>(is_gated, call);
  else if (type == kF16) conv_of<F16>(is_gated, call);
  else conv_of<BF16>(is_gated, call);
}

constexpr int kColumns = 32;  // of a state, that are worked on together: two vectors

struct Strip { V a, b; };

static inline Strip strip_at(const float* p) { return {load(p), load(p + 16)}; }
static inline void put(float* p, Strip s) { store(p, s.a), store(p + 16, s.b); }
static inline Strip fma(float x, Strip y, Strip z) {
  V each = set1(x);
  return {fma(each, y.a, z.a), fma(each, y.b, z.b)};
}

// A row vector times the columns of a state: even rows in one sum, odd rows in another.
static inline Strip read(const float* vector, const float* state, size_t step, int rows) {
  Strip even{set1(0.0f), set1(0.0f)}, odd = even;
  int i = 0;
  for (; i + 2 <= rows; i += 2, state += 2 * step) {
    even = fma(vector[i], strip_at(state), even);
    odd = fma(vector[i + 1], strip_at(state + step), odd);
  }
  if (i < rows) even = fma(vector[i], strip_at(state), even);
  return {even.a + odd.a, even.b + odd.b};
}

// The state decayed, with `keys` times `update` added to it, and read by `queries`.
static inline Strip renew(const float* queries, const float* keys, float decay, Strip update, const float* from,
                          size_t from_step, float* to, size_t to_step, int rows) {
  Strip sums[2] = {{set1(0.0f), set1(0.0f)}, {set1(0.0f), set1(0.0f)}};
  V kept = set1(decay);
  auto step = [&](int i, Strip& sum) {
    Strip row = strip_at(from + i * from_step);
    row = fma(keys[i], update, Strip{row.a * kept, row.b * kept});
    put(to + i * to_step, row);
    sum = fma(queries[i], row, sum);
  };
  int i = 0;
  for (; i + 2 <= rows; i += 2) step(i, sums[0]), step(i + 1, sums[1]);
  if (i < rows) step(i, sums[0]);
  return {sums[0].a + sums[1].a, sums[0].b + sums[1].b};
}

static inline bool is_zero(const float* x, int count) {
  for (int i = 0; i < count; i++)
    if (x[i] != 0.0f) return false;
  return true;
}

// One token on some columns of one head, whose values stand at `values`; the state goes from one
// place to another, or stays where it is.
static inline Strip recur_token(const RecurCall& call, int token, int head, const float* values, const float* from,
                                size_t from_step, float* to, size_t to_step) {
  int rows = call.key_dim, group = head / (call.heads / call.groups);
  size_t shared = (static_cast<size_t>(token) * call.groups + group) * rows, own = static_cast<size_t>(token) * call.heads + head;
  const float *queries = call.queries + shared, *keys = call.keys + shared;
  float log_decay = call.log_decay[own], beta = call.beta ? call.beta[own] : 0.0f;
  bool adds_nothing = beta == 0.0f && log_decay == 0.0f && is_zero(keys, rows) && is_zero(values, kColumns);
  if (adds_nothing) {  // padding: not even the sign of a zero may change
    if (from != to)
      for (int i = 0; i < rows; i++) put(to + i * to_step, strip_at(from + i * from_step));
    return read(queries, to, to_step, rows);
  }
  float decay = lane0(exp(set1(log_decay)));
  Strip update = strip_at(values);
  if (call.beta) {
    Strip known = read(keys, from, from_step, rows);
    V rate = set1(beta), kept = set1(decay);
    update = {rate * (update.a - known.a * kept), rate * (update.b - known.b * kept)};
  }
  return renew(queries, keys, decay, update, from, from_step, to, to_step, rows);
}

// All tokens on some columns of one head. Several tokens work on a copy that lies close together.
static void recur_columns(const RecurCall& call, int head, int column, int count) {
  size_t width = call.value_dim, start = static_cast<size_t>(head) * call.key_dim * width + column;
  const float* before = call.state + start;
  float* after = call.after + start;
  thread_local std::vector<float> room;
  bool is_copied = call.tokens != 1 || count < kColumns;
  if (is_copied) {
    room.assign(static_cast<size_t>(call.key_dim) * kColumns, 0.0f);
    for (int i = 0; i < call.key_dim; i++) std::memcpy(&room[i * kColumns], before + i * width, count * sizeof(float));
  }
  for (int token = 0; token < call.tokens; token++) {
    size_t place = (static_cast<size_t>(token) * call.heads + head) * width + column;
    float values[kColumns] = {0}, out[kColumns];
    std::memcpy(values, call.values + place, count * sizeof(float));
    put(out, is_copied ? recur_token(call, token, head, values, room.data(), kColumns, room.data(), kColumns)
                       : recur_token(call, token, head, values, before, width, after, width));
    std::memcpy(call.out + place, out, count * sizeof(float));
  }
  if (is_copied)
    for (int i = 0; i < call.key_dim; i++) std::memcpy(after + i * width, &room[i * kColumns], count * sizeof(float));
}

static void any_recur(const RecurCall& call) {
  int strips = (call.value_dim + kColumns - 1) / kColumns, all = call.heads * strips;
  int64_t work = static_cast<int64_t>(call.tokens) * call.heads * call.key_dim * call.value_dim;
  int pieces = work < 16384 ? 1 : std::min(all, 8 * threads());
  auto body = [&](int piece) {
    for (int strip = all * piece / pieces; strip < all * (piece + 1) / pieces; strip++) {
      int column = strip % strips * kColumns;
      recur_columns(call, strip / strips, column, std::min(kColumns, call.value_dim - column));
    }
  };
  parallel(pieces, body);
}
