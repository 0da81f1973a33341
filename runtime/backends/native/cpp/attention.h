// Softmax attention over a cache, keys in blocks of sixteen, with a running maximum and sum
// (Milakov and Gimelshein 2018, arXiv:1805.02867). Included once per instruction set.
//
// Blocks begin at multiples of sixteen of the sequence, and runs of blocks at multiples of `kRun`;
// what runs give is put together in their order. So what a query gets depends neither on the
// queries beside it, nor on how the sequence was cut into steps, nor on who computed a run.

constexpr int kKeys = 16;
constexpr int kRun = 256;

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

// One query of one head on its way through the keys, and what it has gathered: `[width]` floats.
struct Running {
  float peak, total;
  float* out;
};

static inline int padded_width(const AttentionCall& call) { return (call.width + 15) / 16 * 16; }

static inline float factor_of(float from, float to) { return from == to ? 1.0f : lane0(exp(set1(from - to))); }

// What one run of keys gave, added to what those before it gave.
static inline void merge(Running& whole, const Running& run, int width) {
  if (run.peak == -INFINITY) return;
  float peak = run.peak > whole.peak || run.peak != run.peak ? run.peak : whole.peak;
  float kept = whole.peak == -INFINITY ? 0.0f : factor_of(whole.peak, peak), taken = factor_of(run.peak, peak);
  whole.peak = peak;
  whole.total = whole.total * kept + run.total * taken;
  V a = set1(kept), b = set1(taken);
  for (int d = 0; d < width; d += 16) store(whole.out + d, fma(load(run.out + d), b, load(whole.out + d) * a));
}

// Sixteen rows of a cache as floats, in strips of sixteen columns: `[width / 16][kKeys][16]`.
constexpr int kStripSize = kKeys * 16;

static inline V scores_of(const float* q, const float* k, int width) {
  V sums[kKeys];
#pragma GCC unroll 16
  for (int i = 0; i < kKeys; i++) sums[i] = set1(0.0f);
  for (int d = 0; d < width; d += 16, k += kStripSize) {
    V query = load(q + d);
#pragma GCC unroll 16
    for (int i = 0; i < kKeys; i++) sums[i] = fma(query, load(k + i * 16), sums[i]);
  }
  return sum16(sums);
}

#if defined(MASU_PAIRS)
// The same of rows of bfloat16 as they lie in the cache, by products of pairs.
static inline V scores_of_pairs(const uint16_t* q, const uint16_t* k, int width) {
  V sums[kKeys];
#pragma GCC unroll 16
  for (int i = 0; i < kKeys; i++) sums[i] = set1(0.0f);
  const uint16_t *k0 = k, *k1 = k + 4 * width, *k2 = k + 8 * width, *k3 = k + 12 * width;
  for (int d = 0; d < width; d += 32) {
    __m512i query = load_bits(q + d);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      sums[i] = dot(sums[i], query, load_bits(k0 + i * width + d));
      sums[4 + i] = dot(sums[4 + i], query, load_bits(k1 + i * width + d));
      sums[8 + i] = dot(sums[8 + i], query, load_bits(k2 + i * width + d));
      sums[12 + i] = dot(sums[12 + i], query, load_bits(k3 + i * width + d));
    }
  }
  return sum16(sums);
}
#endif

// `out * kept`, plus what `kStrips` strips of values give with these shares. The steps are those from
// one key to the next, and from one strip.
template <class T, int kStrips>
static inline void gather(const typename T::stored* v, size_t key_step, size_t strip_step, const float* shares, V kept, float* out) {
  V held[kStrips];
#pragma GCC unroll 4
  for (int s = 0; s < kStrips; s++) held[s] = load(out + 16 * s) * kept;
#pragma GCC unroll 16
  for (int i = 0; i < kKeys; i++) {
    V share = set1(shares[i]);
#pragma GCC unroll 4
    for (int s = 0; s < kStrips; s++) held[s] = fma(share, load(v + s * strip_step + i * key_step, T()), held[s]);
  }
#pragma GCC unroll 4
  for (int s = 0; s < kStrips; s++) store(out + 16 * s, held[s]);
}

// The lanes of a block that stand for keys within the span; the others get no share.
static inline V within(V scores, int start, Span seen) {
  if (start >= seen.from && start + kKeys <= seen.to) return scores;
  float lanes[kKeys];
  store(lanes, scores);
  for (int i = 0; i < kKeys; i++)
    if (start + i < seen.from || start + i >= seen.to) lanes[i] = -INFINITY;
  return load(lanes);
}

// Sixteen scores, and what they add to the output: by rows of values if there are any, else by strips.
template <class T>
static inline void attend_block(const AttentionCall& call, V scores, const typename T::stored* rows, const float* v,
                                int width, int start, Span seen, Running& run) {
  if (call.cap != 0.0f) scores = tanh(scores / set1(call.cap)) * set1(call.cap);
  scores = within(scores, start, seen);
  float highest = largest_lane(scores), peak = highest > run.peak || highest != highest ? highest : run.peak;
  if (peak == -INFINITY) return;
  V wide = exp(scores - set1(peak));
  float kept = run.peak == -INFINITY ? 0.0f : factor_of(run.peak, peak), shares[kKeys];
  store(shares, wide);
  run.peak = peak;
  run.total = run.total * kept + sum(wide);
  int d = 0;
  if (rows) {
    for (; d + 64 <= width; d += 64) gather<T, 4>(rows + d, width, 16, shares, set1(kept), run.out + d);
    for (; d < width; d += 16) gather<T, 1>(rows + d, width, 16, shares, set1(kept), run.out + d);
    return;
  }
  for (; d + 64 <= width; d += 64) gather<F32, 4>(v + d * kKeys, 16, kStripSize, shares, set1(kept), run.out + d);
  for (; d < width; d += 16) gather<F32, 1>(v + d * kKeys, 16, kStripSize, shares, set1(kept), run.out + d);
}

// Rows `start .. start + kKeys` of a cache as strips, zeros from the length on.
template <class T>
static inline void widen_rows(const AttentionCall& call, const void* cache, int group, int start, int width, float* to) {
  auto* rows = static_cast<const typename T::stored*>(cache) + static_cast<size_t>(group) * call.capacity * call.width;
  for (int i = 0; i < kKeys; i++) {
    bool is_void = start + i >= call.length;
    const typename T::stored* row = rows + static_cast<size_t>(start + i) * call.width;
    for (int d = 0; d < width; d += 16)
      store(to + d * kKeys + i * 16, is_void ? set1(0.0f) : load_some<T>(row + d, call.width - d));
  }
}

#if defined(MASU_PAIRS)
template <class T>
constexpr bool kHasPairs = std::is_same<T, BF16>::value;
#else
template <class T>
constexpr bool kHasPairs = false;
#endif

// Some queries of some heads of one group, and their way through one run of keys after the other.
template <class T>
struct Attending {
  using Stored = typename T::stored;

  const AttentionCall& call;
  int first_token, tokens, first_head, heads;
  int width = padded_width(call), count = tokens * heads, group = first_head / (call.heads / call.groups);
  float *k = room(static_cast<size_t>(width) * (2 * kKeys + 2 * count)), *v = k + kKeys * width;
  float *q = v + kKeys * width, *out = q + count * width;

  // Of this thread, until it attends again.
  static float* room(size_t count) {
    thread_local Room<float> held;
    if (held.size() < count) held.resize(count);
    return held.data();
  }

  int token_of(int i) const { return first_token + i / heads; }
  int head_of(int i) const { return first_head + i % heads; }
  Span seen(int i) const { return seen_by(call, call.position + token_of(i)); }

  // The keys that any of the queries sees.
  Span all() const {
    Span span{call.length, 0};
    for (int i = 0; i < count; i += heads) span = {std::min(span.from, seen(i).from), std::max(span.to, seen(i).to)};
    return span;
  }

  // Scores straight from the cache, which has whole blocks only up to its capacity.
  bool by_pairs(int start) const { return kHasPairs<T> && call.width % 32 == 0 && start + kKeys <= call.capacity; }

  V scores(int i, int start) const {
#if defined(MASU_PAIRS)
    if (by_pairs(start)) {
      auto* queries = static_cast<const uint16_t*>(call.queries) + (static_cast<size_t>(token_of(i)) * call.heads + head_of(i)) * width;
      auto* keys = static_cast<const uint16_t*>(call.keys) + (static_cast<size_t>(group) * call.capacity + start) * width;
      return scores_of_pairs(queries, keys, width) * set1(call.scale);
    }
#else
    (void)start;
#endif
    return scores_of(q + i * width, k, width) * set1(call.scale);
  }

  // Values straight from the cache, where few queries share them and none is void; else null.
  const Stored* values(int start) const {
    if (count > 4 || call.width % 16 != 0 || start + kKeys > call.length) return nullptr;
    return static_cast<const Stored*>(call.values) + (static_cast<size_t>(group) * call.capacity + start) * width;
  }

  void take_queries() {
    for (int i = 0; i < count; i++) {
      auto* from = static_cast<const typename T::stored*>(call.queries) +
                   (static_cast<size_t>(token_of(i)) * call.heads + head_of(i)) * call.width;
      for (int d = 0; d < width; d += 16) store(q + i * width + d, load_some<T>(from + d, call.width - d));
    }
  }

  // What the keys of one run give each query, in `out`.
  void attend_run(int run, Running* running) {
    std::fill_n(out, static_cast<size_t>(count) * width, 0.0f);
    for (int i = 0; i < count; i++) running[i] = {-INFINITY, 0.0f, out + i * width};
    Span span = all();
    int end = std::min(span.to, (run + 1) * kRun);
    for (int start = std::max(span.from / kKeys * kKeys, run * kRun); start < end; start += kKeys) {
      if (!by_pairs(start)) widen_rows<T>(call, call.keys, group, start, width, k);
      const Stored* rows = values(start);
      if (!rows) widen_rows<T>(call, call.values, group, start, width, v);
      for (int i = 0; i < count; i++) {
        Span mine = seen(i);
        if (start + kKeys <= mine.from || start >= mine.to) continue;
        attend_block<T>(call, scores(i, start), rows, v, width, start, mine, running[i]);
      }
    }
  }
};

template <class T>
static void store_row(const AttentionCall& call, int token, int head, const Running& whole) {
  auto* to = static_cast<typename T::stored*>(call.out) + (static_cast<size_t>(token) * call.heads + head) * call.width;
  V total = set1(whole.total);
  for (int d = 0; d < call.width; d += 16) {
    V value = whole.total == 0.0f ? set1(0.0f) : load(whole.out + d) / total;
    store_some<T>(value, call.width - d, to + d);
  }
}

// Where a query starts: a sink is a score that has no value.
static inline Running before_keys(const AttentionCall& call, int head, float* out) {
  return {call.sinks ? call.sinks[head] : -INFINITY, call.sinks ? 1.0f : 0.0f, out};
}

// Many tokens: eight of them share what is read of the cache.
template <class T>
static void attend_tokens(const AttentionCall& call, int first_token, int group) {
  int heads = call.heads / call.groups;
  Attending<T> part{call, first_token, std::min(8, call.tokens - first_token), group * heads, heads};
  part.take_queries();
  std::vector<float> gathered(static_cast<size_t>(part.count) * part.width);
  std::vector<Running> whole(part.count), running(part.count);
  for (int i = 0; i < part.count; i++) whole[i] = before_keys(call, part.head_of(i), gathered.data() + i * part.width);
  Span span = part.all();
  for (int run = span.from / kRun; run * kRun < span.to; run++) {
    part.attend_run(run, running.data());
    for (int i = 0; i < part.count; i++) merge(whole[i], running[i], part.width);
  }
  for (int i = 0; i < part.count; i++) store_row<T>(call, part.token_of(i), part.head_of(i), whole[i]);
}

// How many heads of one token are worked on together: those of a group, which share what is read of
// the cache, or one, where there would be too few pieces for all threads.
template <class T>
static int heads_together(const AttentionCall& call, int runs) {
  int pieces = call.groups * runs;
  bool is_cheap = kHasPairs<T> && call.width % 32 == 0;  // nothing is widened for each head anew
  return threads() > 1 && pieces < (is_cheap ? 2 : 1) * threads() ? 1 : call.heads / call.groups;
}

// One token: runs of keys are shared out, too.
template <class T>
static void attend_one(const AttentionCall& call) {
  Span span = seen_by(call, call.position);
  int first = span.from / kRun, runs = std::max(1, (span.to + kRun - 1) / kRun - first);
  int width = padded_width(call), heads = heads_together<T>(call, runs);
  size_t line = static_cast<size_t>(heads) * width;
  std::vector<float> given(static_cast<size_t>(call.heads) * runs * width);
  std::vector<Running> running(static_cast<size_t>(call.heads) * runs);
  auto body = [&](int piece) {
    Attending<T> part{call, 0, 1, piece / runs * heads, heads};
    part.take_queries();
    Running* mine = running.data() + static_cast<size_t>(piece) * heads;
    part.attend_run(first + piece % runs, mine);
    std::copy_n(part.out, line, given.data() + piece * line);
    for (int i = 0; i < heads; i++) mine[i].out = given.data() + piece * line + i * width;
  };
  parallel(call.heads / heads * runs, body);
  std::vector<float> gathered(width);
  for (int head = 0; head < call.heads; head++) {
    std::fill(gathered.begin(), gathered.end(), 0.0f);
    Running whole = before_keys(call, head, gathered.data());
    for (int run = 0; run < runs; run++) merge(whole, running[(head / heads * runs + run) * heads + head % heads], width);
    store_row<T>(call, 0, head, whole);
  }
}

template <class T>
static void attention(const AttentionCall& call) {
  if (call.tokens == 1) return attend_one<T>(call);
  int lines = (call.tokens + 7) / 8;
  auto body = [&](int piece) { attend_tokens<T>(call, piece / call.groups * 8, piece % call.groups); };
  parallel(lines * call.groups, body);
}
