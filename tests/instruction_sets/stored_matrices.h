// Products and lookups of matrices in every stored form, at the edges of tiles and blocks.
#pragma once

#include <algorithm>

#include "kernels.h"
#include "records.h"

namespace masu {

// How a matrix is stored; what it does not have is zero.
struct Form {
  const char* name;
  uint32_t kind, group_size, param, mode, offset_kind;
  bool by_group;
  uint32_t offset_bits, input_block, output_block;
};

constexpr Form kForms[] = {
    {"f32", kF32, 0, 0, 0, 0, false, 0, 0, 0},
    {"f16", kF16, 0, 0, 0, 0, false, 0, 0, 0},
    {"bf16", kBF16, 0, 0, 0, 0, false, 0, 0, 0},
    {"codes1", kCodes1, 16, kParamF16, kAffine, kLikeScales, false, 0, 0, 0},
    {"codes4", kCodes4, 16, kParamBF16, kAffine, kLikeScales, false, 0, 0, 0},
    {"codes4_by_group", kCodes4, 32, kParamF16, kAffine, kLikeScales, true, 0, 0, 0},
    {"codes4_wide_groups", kCodes4, 64, kParamF32, kAffine, kLikeScales, false, 0, 0, 0},
    {"codes4_symmetric", kCodes4, 16, kParamBF16, kCentred, kConstant, true, 0, 0, 0},
    {"codes4_zero_points", kCodes4, 32, kParamF32, kCentred, kPacked, true, 4, 0, 0},
    {"codes4_table", kCodes4, 64, kParamTable, kCentred, kPackedTable, false, 4, 0, 0},
    {"codes4_rotated", kCodes4, 32, kParamBF16, kAffine, kLikeScales, false, 0, 16, 32},
    {"codes8", kCodes8, 16, kParamBF16, kAffine, kLikeScales, false, 0, 0, 0},
    {"codes8_wide_groups", kCodes8, 64, kParamF16, kAffine, kLikeScales, true, 0, 0, 0},
    {"codes8_zero_points", kCodes8, 32, kParamF32, kCentred, kPacked, false, 8, 0, 0},
};

// A matrix of random codes and parameters, with the memory that it points to.
struct Made {
  Matrix m{};
  std::vector<uint8_t> weights, scales, offsets;
  std::vector<float> levels, scale_values, offset_values;
  std::vector<int32_t> input_signs, output_signs;

  Made(const Form& form, uint32_t rows, uint32_t columns) {
    Numbers numbers(rows * 1000 + columns);
    m.rows = rows, m.columns = columns, m.kind = form.kind, m.group_size = form.group_size;
    m.param = form.param, m.mode = form.mode, m.offset_kind = form.offset_kind;
    uint32_t bits = form.kind == kF32 ? 32 : form.kind <= kBF16 ? 16 : form.kind == kCodes1 ? 1 : form.kind == kCodes4 ? 4 : 8;
    m.row_bytes = columns * bits / 8;
    weights = form.kind <= kBF16 ? plane(numbers, form.kind, rows * columns) : numbers.bytes(rows * m.row_bytes);
    m.weights = at(weights);
    if (form.kind > kBF16) take_groups(form, numbers);
    if (form.input_block) input_signs = signs(numbers, columns), m.input_signs = at(input_signs);
    if (form.output_block) output_signs = signs(numbers, rows), m.output_signs = at(output_signs);
    m.input_block = form.input_block, m.output_block = form.output_block;
  }

  Made(const Made&) = delete;

 private:
  template <class T>
  static uint64_t at(const std::vector<T>& memory) { return reinterpret_cast<uint64_t>(memory.data()); }

  static std::vector<int32_t> signs(Numbers& numbers, uint32_t count) {
    std::vector<int32_t> made(count);
    for (auto& each : made) each = numbers.below(2) ? 1 : -1;
    return made;
  }

  // Numbers of one of the first `Kind`s, which `Param` counts alike; a byte each for tables.
  static std::vector<uint8_t> plane(Numbers& numbers, uint32_t type, size_t count) {
    if (type == kParamTable) return numbers.bytes(count);
    std::vector<uint8_t> made(count * (type == kF32 ? 4 : 2));
    for (size_t i = 0; i < count; i++) {
      float value = numbers.number();
      uint16_t half = type == kF16 ? narrowed(value, F16()) : narrowed(value, BF16());
      type == kF32 ? std::memcpy(&made[4 * i], &value, 4) : std::memcpy(&made[2 * i], &half, 2);
    }
    return made;
  }

  void take_groups(const Form& form, Numbers& numbers) {
    uint32_t groups = m.columns / m.group_size;
    m.row_step = form.by_group ? 1 : groups, m.group_step = form.by_group ? m.rows : 1;
    scales = plane(numbers, form.param, m.rows * groups);
    m.scales = at(scales);
    levels.resize(16);
    for (int i = 0; i < 16; i++) levels[static_cast<size_t>(i)] = form.param == kParamTable ? numbers.number() : static_cast<float>(i);
    scale_values = numbers.many<F32>(256), offset_values = numbers.many<F32>(256);
    m.levels = at(levels), m.scale_values = at(scale_values), m.offset_values = at(offset_values);
    m.offset = 8.0f, m.offset_bits = form.offset_bits, m.offset_is_by_group = form.by_group;
    m.offset_line = ((form.by_group ? m.rows : groups) * form.offset_bits + 7) / 8;
    if (form.offset_kind == kLikeScales) offsets = plane(numbers, form.param, m.rows * groups);
    else offsets = numbers.bytes(m.offset_line * (form.by_group ? groups : m.rows));
    m.offsets = at(offsets);
  }
};

template <class In, class Out>
void record_product(const std::string& name, const Matrix& m, uint32_t type, int rows, bool wide) {
  Numbers numbers(5);
  auto x = numbers.many<In>(static_cast<size_t>(rows) * m.columns);
  auto biases = numbers.many<F32>(m.rows);
  std::vector<typename Out::stored> out(static_cast<size_t>(rows) * m.rows);
  in_use().product(m, type, x.data(), rows, rows % 2 ? nullptr : biases.data(), wide, nullptr, false, out.data());
  record<Out>(name, out);
}

inline void record_matrix(const Form& form, int height, int width, int rows) {
  Made made(form, static_cast<uint32_t>(height), static_cast<uint32_t>(width));
  std::string shape = std::string(form.name) + "/" + std::to_string(height) + "x" + std::to_string(width) + "/";
  with_types([&](auto type, uint32_t kind) {
    using T = decltype(type);
    std::string name = shape + type_name(type);
    record_product<T, T>("product/" + name, made.m, kind, rows, false);
    if (rows < 100) record_product<T, F32>("product_wide/" + name, made.m, kind, rows, true);
    if (form.output_block) return;  // rows that are mixed cannot be looked up
    std::vector<int32_t> ids = {0, height - 1, height, -1, height / 2};
    std::vector<typename T::stored> out(ids.size() * static_cast<size_t>(width));
    in_use().lookup(made.m, kind, ids.data(), static_cast<int>(ids.size()), out.data());
    record<T>("lookup/" + name, out);
  });
}

inline void matrix_kernels() {
  // Tiles are 4 and 32 rows of weights, 64 columns, 4 and 128 rows: at each one below, at and above.
  constexpr int kEdges[][3] = {{1, 16, 1}, {3, 48, 5}, {32, 64, 4}, {33, 80, 3}, {64, 192, 1}, {65, 144, 2}, {31, 1024, 129}};
  for (const Form& form : kForms)
    for (const auto& edge : kEdges) {
      bool is_whole = form.group_size == 0 || edge[1] % static_cast<int>(form.group_size) == 0;
      bool is_mixed = form.output_block == 0 || edge[0] % static_cast<int>(form.output_block) == 0;
      if (is_whole && is_mixed) record_matrix(form, edge[0], edge[1], edge[2]);
    }
}

}  // namespace masu
