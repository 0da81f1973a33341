// Attention, norms and what stands between the products, at odd widths and with every option.
#pragma once

#include "kernels.h"
#include "records.h"

namespace masu {

struct AttentionCase { const char* name; int tokens, heads, groups, capacity, width, position, length, causal, window; bool sinks; float cap; };

inline void attention_kernel() {
  constexpr AttentionCase kCases[] = {
      {"one", 1, 4, 2, 40, 64, 36, 37, 1, 0, false, 0.0f},
      {"one_long", 1, 2, 1, 600, 32, 577, 578, 1, 0, true, 0.0f},
      {"prompt", 9, 4, 2, 19, 24, 5, 14, 1, 0, false, 0.0f},
      {"window", 17, 2, 2, 310, 80, 290, 307, 1, 33, true, 0.0f},
      {"capped", 3, 3, 1, 16, 17, 0, 3, 1, 0, false, 5.0f},
      {"both_ways", 20, 2, 1, 20, 64, 0, 20, 0, 6, false, 0.0f},
  };
  for (const auto& c : kCases)
    with_types([&](auto type, uint32_t kind) {
      using T = decltype(type);
      Numbers numbers(static_cast<uint64_t>(c.width));
      size_t line = static_cast<size_t>(c.groups) * c.capacity * c.width, count = static_cast<size_t>(c.tokens) * c.heads * c.width;
      auto queries = numbers.many<T>(count), keys = numbers.many<T>(line), values = numbers.many<T>(line);
      auto sinks = numbers.many<F32>(static_cast<size_t>(c.heads));
      int sizes[] = {c.tokens, c.heads, c.groups, c.capacity, c.width, c.position, c.length, c.causal, c.window};
      float options[] = {0.3f, c.cap};
      decltype(queries) out(count);
      in_use().attention(kind, queries.data(), keys.data(), values.data(), c.sinks ? sinks.data() : nullptr, sizes, options, out.data());
      record<T>(std::string("attention/") + c.name + "/" + type_name(type), out);
    });
}

inline void norm_kernel() {
  for (int width : {1, 15, 16, 100, 1024})
    for (int options = 0; options < 8; options++)
      with_types([&](auto type, uint32_t kind) {
        using T = decltype(type);
        Numbers numbers(static_cast<uint64_t>(width));
        size_t line = static_cast<size_t>(width);
        auto x = numbers.many<T>(3 * line);
        auto scales = numbers.many<F32>(line), biases = numbers.many<F32>(line);
        decltype(x) out(x.size());
        int sizes[] = {3, width, options & 1, options >> 1 & 1};
        float constants[] = {1e-5f, options & 4 ? 1.0f : 0.0f};
        in_use().norm(kind, x.data(), scales.data(), options & 4 ? biases.data() : nullptr, sizes, constants, out.data());
        record<T>("norm/" + std::to_string(width) + "/" + std::to_string(options) + "/" + type_name(type), out);
      });
}

template <class T, class Out>
void record_conv(uint32_t kind, bool is_gated, int channels, int taps) {
  Numbers numbers(static_cast<uint64_t>(channels + taps));
  constexpr int kTokens = 21;
  size_t line = static_cast<size_t>(channels), before = static_cast<size_t>(taps - 1) * line;
  auto x = numbers.many<T>(kTokens * line * (is_gated ? 3 : 1)), history = numbers.many<T>(before);
  auto weights = numbers.many<F32>(line * static_cast<size_t>(taps)), biases = numbers.many<F32>(line);
  std::vector<typename Out::stored> out(kTokens * line);
  decltype(history) kept(before);
  in_use().between.conv(kind, is_gated, {x.data(), history.data(), weights.data(), taps == 3 ? nullptr : biases.data(), out.data(),
                                         kept.data(), kTokens, channels, taps, kTokens - 2});
  std::string name = std::to_string(channels) + "/" + std::to_string(taps) + (is_gated ? "/gated/" : "/") + type_name(T());
  record<Out>("conv/" + name, out);
  record<T>("conv_history/" + name, kept);
}

inline void conv_kernel() {
  for (int channels : {1, 16, 70, 128})
    for (int taps : {2, 3, 4})
      with_types([&](auto type, uint32_t kind) {
        using T = decltype(type);
        record_conv<T, F32>(kind, false, channels, taps);
        record_conv<T, T>(kind, true, channels, taps);
      });
}

inline void recur_kernel() {
  for (int tokens : {1, 6})
    for (int value_dim : {8, 32, 50})
      for (bool has_beta : {false, true}) {
        constexpr int kHeads = 4, kGroups = 2, kKeys = 19;
        Numbers numbers(static_cast<uint64_t>(tokens + value_dim));
        size_t count = static_cast<size_t>(tokens), width = static_cast<size_t>(value_dim);
        auto queries = numbers.many<F32>(count * kGroups * kKeys, 0.25f), keys = numbers.many<F32>(count * kGroups * kKeys, 0.25f);
        auto values = numbers.many<F32>(count * kHeads * width), beta = numbers.many<F32>(count * kHeads, 0.5f);
        auto log_decay = numbers.many<F32>(count * kHeads), state = numbers.many<F32>(kHeads * kKeys * width);
        for (auto& each : log_decay) each = -std::fabs(each);
        decltype(values) out(values.size()), after(state.size());
        in_use().between.recur({queries.data(), keys.data(), values.data(), log_decay.data(), has_beta ? beta.data() : nullptr,
                                state.data(), out.data(), after.data(), tokens, kHeads, kGroups, kKeys, value_dim});
        std::string name = std::to_string(tokens) + "/" + std::to_string(value_dim) + (has_beta ? "/delta" : "/plain");
        record<F32>("recur/" + name, out);
        record<F32>("recur_state/" + name, after);
      }
}

inline void rotate_kernel() {
  constexpr int kSizes[][2] = {{64, 32}, {50, 19}, {2, 1}};
  for (const auto& size : kSizes)
    with_types([&](auto type, uint32_t kind) {
      using T = decltype(type);
      int width = size[0], pairs = size[1];
      Numbers numbers(static_cast<uint64_t>(width));
      auto x = numbers.many<T>(3 * 2 * static_cast<size_t>(width));
      auto cosines = numbers.many<F32>(3 * static_cast<size_t>(pairs)), sines = numbers.many<F32>(3 * static_cast<size_t>(pairs));
      decltype(x) out(x.size());
      in_use().between.rotate(kind, {x.data(), cosines.data(), sines.data(), out.data(), 3, 2, width, pairs});
      record<T>("rotate/" + std::to_string(width) + "/" + type_name(type), out);
    });
}

inline void row_kernels() {
  for (int width : {1, 15, 64, 333, 40000}) {
    Numbers numbers(static_cast<uint64_t>(width));
    auto x = numbers.many<F32>(3 * static_cast<size_t>(width), 4.0f);
    std::vector<float> out(x.size());
    int count = std::min(width, 5);
    std::vector<int32_t> highest(3), largest(3 * static_cast<size_t>(count));
    std::string name = "/" + std::to_string(width);
    in_use().between.unit(x.data(), 3, width, 1e-6f, out.data());
    record<F32>("unit" + name, out);
    in_use().between.softmax(x.data(), 3, width, out.data());
    record<F32>("softmax" + name, out);
    x[static_cast<size_t>(width) / 2] = NAN;
    in_use().between.argmax(x.data(), 3, width, highest.data());
    in_use().between.largest(x.data(), 3, width, count, largest.data());
    record("argmax" + name, highest);
    record("largest" + name, largest);
  }
}

inline void activations() {
  for (int function = kIdentity; function <= kSoftplus; function++)
    for (bool is_gated : {false, true})
      with_types([&](auto type, uint32_t kind) {
        using T = decltype(type);
        constexpr int kWidth = 77;
        Numbers numbers(static_cast<uint64_t>(function));
        auto x = numbers.many<T>(3 * 2 * kWidth, 6.0f);
        decltype(x) out(3 * kWidth);
        Activation activation{is_gated, function, function == kSoftCap ? 3.0f : 1.7f, -7.0f, 7.0f, -INFINITY, 8.0f};
        in_use().between.activate(kind, activation, x.data(), 3, kWidth, out.data());
        record<T>("activate/" + std::to_string(function) + (is_gated ? "/gated/" : "/") + type_name(type), out);
      });
}

inline void vector_tables() {
  constexpr uint32_t kRows = 37, kColumns = 192;
  Numbers numbers(3);
  auto codes = numbers.bytes(kRows * kColumns / 4), steps = numbers.bytes(kRows * 2);
  auto ladder = numbers.many<F32>(16), vectors = numbers.many<F32>(1024), factors = numbers.many<F32>(kColumns);
  auto scales = numbers.many<F16>(kRows);
  auto at = [](const auto& memory) { return reinterpret_cast<uint64_t>(memory.data()); };
  VectorTable table{at(codes), at(steps), at(scales), at(ladder), at(vectors), at(factors), kRows, kColumns, 2, kParamF16, {}};
  with_types([&](auto type, uint32_t kind) {
    using T = decltype(type);
    std::vector<int32_t> ids = {0, 36, 37, -1, 20};
    auto x = numbers.many<T>(3 * kColumns);
    decltype(x) rows(ids.size() * kColumns), out(3 * kRows);
    in_use().between.vector_rows(kind, table, ids.data(), static_cast<int>(ids.size()), rows.data());
    in_use().between.vector_product(kind, table, x.data(), 3, nullptr, false, out.data());
    record<T>(std::string("vector_rows/") + type_name(type), rows);
    record<T>(std::string("vector_product/") + type_name(type), out);
  });
}

}  // namespace masu
