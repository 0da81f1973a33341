// Softmax attention over a cache, keys in blocks of sixteen, with a running maximum and sum
// (Milakov and Gimelshein 2018, arXiv:1805.02867). Included once per instruction set.
//
// Blocks begin at multiples of sixteen of the sequence, so that what a query gets depends neither
// on the queries beside it nor on how the sequence was cut into steps.

constexpr int kKeys = 16;

struct AttentionCall {
  const void *queries, *keys, *values;  // [tokens, heads, width], [groups, capacity, width]
  const float* sinks;                   // [heads], or null
  void* out;
  int tokens, heads, groups, capacity, width;
  int position, length;
  bool is_causal;
  int window;      // 0: none
  float scale, cap;  // cap 0: none
};

struct Span { int from, to; };

// The keys that a query sees. A void query, past the length, sees what is there.
static inline Span seen_by(const AttentionCall& call, int query) {
  int from = 0, to = call.is_causal ? std::min(query + 1, call.length) : call.length;
  if (call.window > 0 && call.is_causal) from = std::max(0, query - call.window + 1);
  if (call.window > 0 && !call.is_causal) {
    from = std::max(0, query - call.window / 2);
    to = std::min(to, query + call.window / 2 + 1);
  }
  return {from, to};
}

// One query of one head on its way through the keys.
struct Running {
  float peak, total;
};

// Sixteen scores, and what they add to the output. `k` and `v` are `[kKeys][width]` floats.
static inline void attend_block(const AttentionCall& call, const float* q, const float* k, const float* v, int width,
                                int start, Span seen, Running& run, float* out) {
  float scores[kKeys];
  for (int i = 0; i < kKeys; i += 4) {
    V sums[4] = {set1(0.0f), set1(0.0f), set1(0.0f), set1(0.0f)};
    for (int d = 0; d < width; d += 16) {
      V query = load(q + d);
#pragma GCC unroll 4
      for (int r = 0; r < 4; r++) sums[r] = fma(query, load(k + (i + r) * width + d), sums[r]);
    }
    sum4(sums, scores + i);
  }
  V wide = load(scores);
  if (call.cap != 0.0f) wide = tanh(wide / set1(call.cap)) * set1(call.cap);
  store(scores, wide);
  for (int i = 0; i < kKeys; i++)
    if (start + i < seen.from || start + i >= seen.to) scores[i] = -INFINITY;
  float peak = run.peak;
  for (int i = 0; i < kKeys; i++) peak = scores[i] > peak || scores[i] != scores[i] ? scores[i] : peak;
  if (peak == -INFINITY) return;
  V shares = exp(load(scores) - set1(peak));
  float kept = peak == run.peak ? 1.0f : lane0(exp(set1(run.peak - peak)));
  store(scores, shares);
  run.peak = peak;
  run.total = run.total * kept + sum(shares);
  for (int d = 0; d < width; d += 16) {
    V held = load(out + d) * set1(kept);
    for (int i = 0; i < kKeys; i++) held = fma(set1(scores[i]), load(v + i * width + d), held);
    store(out + d, held);
  }
}

// Rows `start .. start + kKeys` of a cache as floats, zeros from the length on.
template <class T>
static inline void widen_rows(const AttentionCall& call, const void* cache, int group, int start, int width, float* to) {
  auto* rows = static_cast<const typename T::stored*>(cache) + static_cast<size_t>(group) * call.capacity * call.width;
  for (int i = 0; i < kKeys; i++, to += width) {
    if (start + i >= call.length) {
      std::memset(to, 0, width * sizeof(float));
      continue;
    }
    const typename T::stored* row = rows + static_cast<size_t>(start + i) * call.width;
    int d = 0;
    for (; d + 16 <= call.width; d += 16) store(to + d, load(row + d, T()));
    for (; d < width; d++) to[d] = d < call.width ? widened(row[d], T()) : 0.0f;
  }
}

// Some tokens and some heads of one group.
template <class T>
static void attend(const AttentionCall& call, int first_token, int tokens, int first_head, int heads) {
  int width = (call.width + 15) / 16 * 16, group = first_head / (call.heads / call.groups), count = tokens * heads;
  thread_local std::vector<float> room;
  size_t needed = static_cast<size_t>(width) * (2 * kKeys + 2 * count);
  if (room.size() < needed) room.resize(needed);
  float *k = room.data(), *v = k + kKeys * width, *q = v + kKeys * width, *out = q + count * width;
  std::vector<Running> running(count);
  Span all{call.length, 0};
  for (int i = 0; i < count; i++) {
    int token = first_token + i / heads, head = first_head + i % heads;
    auto* from = static_cast<const typename T::stored*>(call.queries) + (static_cast<size_t>(token) * call.heads + head) * call.width;
    for (int d = 0; d < width; d++) {
      q[i * width + d] = d < call.width ? widened(from[d], T()) * call.scale : 0.0f;
      out[i * width + d] = 0.0f;
    }
    running[i] = {call.sinks ? call.sinks[head] : -INFINITY, call.sinks ? 1.0f : 0.0f};
    Span seen = seen_by(call, call.position + token);
    all = {std::min(all.from, seen.from), std::max(all.to, seen.to)};
  }
  for (int start = all.from / kKeys * kKeys; start < all.to; start += kKeys) {
    widen_rows<T>(call, call.keys, group, start, width, k);
    widen_rows<T>(call, call.values, group, start, width, v);
    for (int i = 0; i < count; i++) {
      Span seen = seen_by(call, call.position + first_token + i / heads);
      if (start + kKeys <= seen.from || start >= seen.to) continue;
      attend_block(call, q + i * width, k, v, width, start, seen, running[i], out + i * width);
    }
  }
  for (int i = 0; i < count; i++) {
    int token = first_token + i / heads, head = first_head + i % heads;
    auto* to = static_cast<typename T::stored*>(call.out) + (static_cast<size_t>(token) * call.heads + head) * call.width;
    float total = running[i].total;
    for (int d = 0; d < call.width; d++) to[d] = narrowed(total == 0.0f ? 0.0f : out[i * width + d] / total, T());
  }
}

template <class T>
static void attention(const AttentionCall& call) {
  int per_group = call.heads / call.groups;
  // One token: heads are shared out. Many: eight tokens share what is read of the cache.
  int heads = call.tokens == 1 ? 1 : per_group, tokens = call.tokens == 1 ? 1 : 8;
  int columns = call.heads / heads, lines = (call.tokens + tokens - 1) / tokens;
  auto body = [&](int piece) {
    int token = piece / columns * tokens;
    attend<T>(call, token, std::min(tokens, call.tokens - token), piece % columns * heads, heads);
  };
  parallel(lines * columns, body);
}
