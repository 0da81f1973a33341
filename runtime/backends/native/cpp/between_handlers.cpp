// What XLA calls for what stands between the products: operands checked and handed to the kernels.
#include "ffi.h"
#include "kernels.h"
#include "operands.h"
#include "pool.h"

namespace masu {
namespace {

const float* wide(const ffi::Buffer* buffer) { return static_cast<const float*>(buffer->data); }

int size_of(const ffi::Buffer* buffer, int64_t axis) { return static_cast<int>(buffer->dims[axis]); }

bool is_wide(const ffi::Buffer* buffer, int64_t rank) { return buffer->type == ffi::kF32 && buffer->rank == rank; }

// Operands like `[..., width]` of floats: how many rows.
int rows_of(const ffi::Buffer* buffer) { return static_cast<int>(count_of(buffer, 0, buffer->rank - 1)); }

bool is_table(const ffi::Buffer* buffer) {
  return buffer->type == ffi::kU32 && count_of(buffer, 0, buffer->rank) == sizeof(VectorTable) / 4;
}

VectorTable table_of(const ffi::Buffer* buffer) {
  VectorTable table;
  std::memcpy(&table, buffer->data, sizeof table);
  return table;
}

}  // namespace
}  // namespace masu

using namespace masu;

extern "C" {

// `x` [tokens, channels], history [taps - 1, channels] like it, weights f32 [channels, taps],
// filled s32, perhaps biases f32 [channels] -> f32 like x, the next history.
// Sizes: is_gated; then `x` is [tokens, 3 * channels], and the output has the type of `x`.
ffi::Error* masu_conv(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer **args = frame->args.buffers, **rets = frame->rets.buffers, *x = args[0], *weights = args[2];
  bool is_gated = ints(frame)[0] != 0;
  int channels = size_of(weights, 0), taps = size_of(weights, 1), tokens = size_of(x, 0);
  if (type_of(x) > kBF16 || args[1]->type != x->type || x->dims[1] != (is_gated ? 3 : 1) * channels ||
      args[1]->dims[0] != taps - 1 || args[1]->dims[1] != channels || !is_wide(weights, 2) ||
      rets[0]->type != (is_gated ? x->type : ffi::kF32))
    return ffi::error(frame, "masu: rows, history and filter do not fit each other");
  int filled = *static_cast<const int32_t*>(args[3]->data);
  const float* biases = frame->args.size > 4 ? optional(frame, 4) : nullptr;
  in_use().between.conv(type_of(x), is_gated,
                        {x->data, args[1]->data, wide(weights), biases, rets[0]->data, rets[1]->data, tokens, channels,
                         taps, filled < 0 ? 0 : filled < tokens ? filled : tokens});
  return nullptr;
}

// State [heads, key_dim, value_dim], queries and keys [tokens, groups, key_dim], values [tokens,
// heads, value_dim], log_decay [tokens, heads], perhaps beta [tokens, heads], all f32 -> like
// values, like state. The two states may be one.
ffi::Error* masu_recur(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer **args = frame->args.buffers, **rets = frame->rets.buffers;
  ffi::Buffer *state = args[0], *queries = args[1], *keys = args[2], *values = args[3], *decay = args[4];
  for (int64_t i = 0; i < frame->args.size; i++)
    if (!is_wide(args[i], i < 4 ? 3 : 2)) return ffi::error(frame, "masu: a recurrence is of float32 arrays");
  int tokens = size_of(values, 0), heads = size_of(values, 1), groups = size_of(keys, 1);
  if (queries->dims[2] != keys->dims[2] || state->dims[1] != keys->dims[2] || state->dims[2] != values->dims[2] ||
      state->dims[0] != heads || groups == 0 || heads % groups != 0 || decay->dims[1] != heads)
    return ffi::error(frame, "masu: the rows do not fit the state");
  const float* beta = frame->args.size > 5 ? optional(frame, 5) : nullptr;
  in_use().between.recur({wide(queries), wide(keys), wide(values), wide(decay), beta, wide(state),
                          static_cast<float*>(rets[0]->data), static_cast<float*>(rets[1]->data), tokens, heads, groups,
                          size_of(keys, 2), size_of(values, 2)});
  return nullptr;
}

// `x` f32 [..., width] -> like x. Numbers: epsilon.
ffi::Error* masu_unit(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer* x = frame->args.buffers[0];
  if (!is_wide(x, x->rank)) return ffi::error(frame, "masu: lengths are of float32 rows");
  in_use().between.unit(wide(x), rows_of(x), size_of(x, x->rank - 1), floats(frame)[0],
                        static_cast<float*>(frame->rets.buffers[0]->data));
  return nullptr;
}

// `x` f32 [..., width] -> like x.
ffi::Error* masu_softmax(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer* x = frame->args.buffers[0];
  if (!is_wide(x, x->rank)) return ffi::error(frame, "masu: a softmax is of float32 rows");
  in_use().between.softmax(wide(x), rows_of(x), size_of(x, x->rank - 1), static_cast<float*>(frame->rets.buffers[0]->data));
  return nullptr;
}

// `x` f32 [..., width] -> s32 [...].
ffi::Error* masu_argmax(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *out = frame->rets.buffers[0];
  if (!is_wide(x, x->rank) || x->dims[x->rank - 1] == 0 || out->type != ffi::kS32)
    return ffi::error(frame, "masu: the largest value is that of float32 rows");
  in_use().between.argmax(wide(x), rows_of(x), size_of(x, x->rank - 1), static_cast<int32_t*>(out->data));
  return nullptr;
}

// `x` f32 [rows, width] -> s32 [rows, count].
ffi::Error* masu_largest(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *out = frame->rets.buffers[0];
  if (!is_wide(x, 2) || out->type != ffi::kS32 || out->dims[1] < 1 || out->dims[1] > x->dims[1])
    return ffi::error(frame, "masu: the largest values are those of float32 rows");
  in_use().between.largest(wide(x), rows_of(x), size_of(x, 1), size_of(out, 1), static_cast<int32_t*>(out->data));
  return nullptr;
}

// `x` [tokens, heads, width], cosines and sines f32 [tokens, pairs] -> like x.
ffi::Error* masu_rotate(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer **args = frame->args.buffers, *x = args[0];
  if (type_of(x) > kBF16 || x->rank != 3 || !is_wide(args[1], 2) || !is_wide(args[2], 2) ||
      args[1]->dims[0] != x->dims[0] || 2 * args[1]->dims[1] > x->dims[2])
    return ffi::error(frame, "masu: the angles do not fit the heads");
  in_use().between.rotate(type_of(x), {x->data, wide(args[1]), wide(args[2]), frame->rets.buffers[0]->data, size_of(x, 0),
                                       size_of(x, 1), size_of(x, 2), size_of(args[1], 1)});
  return nullptr;
}

// `x` f32 [..., width], a factor f32 for every row, or for the first ones, which then come again ->
// like x.
ffi::Error* masu_scale(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *factors = frame->args.buffers[1];
  int64_t count = count_of(factors, 0, factors->rank);
  if (!is_wide(x, x->rank) || !is_wide(factors, factors->rank) || (rows_of(x) > 0 && (count == 0 || rows_of(x) % count != 0)))
    return ffi::error(frame, "masu: the factors do not fit the rows");
  auto* out = static_cast<float*>(frame->rets.buffers[0]->data);
  int64_t width = x->dims[x->rank - 1];
  for (int64_t row = 0; row < rows_of(x); row++)
    for (int64_t i = row * width; i < (row + 1) * width; i++) out[i] = wide(x)[i] * wide(factors)[row % count];
  return nullptr;
}

// Ids s32 [tokens], a table of vectors -> [tokens, columns].
ffi::Error* masu_d4s4_lookup(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *ids = frame->args.buffers[0], *words = frame->args.buffers[1], *out = frame->rets.buffers[0];
  if (!is_table(words) || ids->type != ffi::kS32 || type_of(out) > kBF16) return ffi::error(frame, "masu: no table of vectors");
  VectorTable table = table_of(words);
  if (out->dims[1] != table.columns) return ffi::error(frame, "masu: the output does not fit the table");
  in_use().between.vector_rows(type_of(out), table, static_cast<const int32_t*>(ids->data), size_of(ids, 0), out->data);
  return nullptr;
}

// `x` [..., columns], a table of vectors, perhaps biases f32 [rows] -> [..., rows], rounded or wide.
ffi::Error* masu_d4s4_product(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *words = frame->args.buffers[1], *out = frame->rets.buffers[0];
  if (!is_table(words) || type_of(x) > kBF16) return ffi::error(frame, "masu: no table of vectors");
  VectorTable table = table_of(words);
  bool is_left_wide = out->type == ffi::kF32;
  if (x->dims[x->rank - 1] != table.columns || out->dims[out->rank - 1] != table.rows || (!is_left_wide && out->type != x->type))
    return ffi::error(frame, "masu: the operand does not fit the table");
  const float* biases = frame->args.size > 2 ? optional(frame, 2) : nullptr;
  in_use().between.vector_product(type_of(x), table, x->data, rows_of(x), biases, is_left_wide, out->data);
  return nullptr;
}

}  // extern "C"
