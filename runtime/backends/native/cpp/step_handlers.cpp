// Operations that XLA could run too, but with time lost between them: functions, angles, the cache.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "operands.h"
#include "pool.h"

namespace masu {
namespace {

size_t bytes_of(const ffi::Buffer* buffer) { return buffer->type == ffi::kF16 || buffer->type == ffi::kBF16 ? 2 : 4; }

// An activation function over the rows of an operand, shared out where that pays.
void activate(const ffi::Buffer* x, const Activation& activation, int64_t rows, int64_t width, ffi::Buffer* out) {
  size_t size = bytes_of(x), line = static_cast<size_t>(width) * (activation.is_gated ? 2 : 1) * size;
  int pieces = rows * width < 16384 ? 1 : static_cast<int>(std::min<int64_t>(rows, 4 * threads()));
  auto body = [&](int piece) {
    int64_t from = rows * piece / pieces, to = rows * (piece + 1) / pieces;
    in_use().between.activate(type_of(x), activation, static_cast<const char*>(x->data) + static_cast<size_t>(from) * line,
                              static_cast<int>(to - from), static_cast<int>(width),
                              static_cast<char*>(out->data) + static_cast<size_t>(from * width) * size);
  };
  parallel(pieces, body);
}

}  // namespace
}  // namespace masu

using namespace masu;

extern "C" {

// `x` [rows, 2 * width], values and then gates -> [rows, width]: the first times a function of the
// second. Sizes: function. Numbers: its parameter, lowest and highest value, lowest and highest gate.
ffi::Error* masu_gate(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *out = frame->rets.buffers[0];
  int64_t width = out->dims[out->rank - 1], rows = count_of(out, 0, out->rank - 1);
  if (type_of(x) > kBF16 || out->type != x->type || x->dims[x->rank - 1] != 2 * width)
    return ffi::error(frame, "masu: values and gates do not fit each other");
  const float* n = floats(frame);
  activate(x, {true, ints(frame)[0], n[0], n[1], n[2], n[3], n[4]}, rows, width, out);
  return nullptr;
}

// A function of each value of `x`, which has any shape. Sizes: function. Numbers: its parameter.
ffi::Error* masu_function(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *out = frame->rets.buffers[0];
  int64_t width = x->rank ? x->dims[x->rank - 1] : 1, rows = x->rank ? count_of(x, 0, x->rank - 1) : 1;
  if (type_of(x) > kBF16 || out->type != x->type) return ffi::error(frame, "masu: no function of this element type");
  activate(x, {false, ints(frame)[0], floats(frame)[0], 0, 0, 0, 0}, rows, width, out);
  return nullptr;
}

// `x` f32 [rows, width], places s32 [rows, count] in each row -> the values there.
ffi::Error* masu_pick(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ffi::Buffer **args = frame->args.buffers, *x = args[0], *places = args[1];
  if (x->type != ffi::kF32 || x->rank != 2 || places->rank != 2 || places->dims[0] != x->dims[0])
    return ffi::error(frame, "masu: the places do not fit the rows");
  auto* to = static_cast<float*>(frame->rets.buffers[0]->data);
  int64_t count = places->dims[1], total = places->dims[0] * count;
  for (int64_t i = 0; i < total; i++) {
    int32_t place = static_cast<const int32_t*>(places->data)[i];
    if (place < 0 || place >= x->dims[1]) return ffi::error(frame, "masu: a place is outside of its row");
    to[i] = optional(frame, 0)[i / count * x->dims[1] + place];
  }
  return nullptr;
}

// Positions s32 [tokens], frequencies f32 [pairs], a factor f32 -> cosines and sines of their
// products, times the factor, f32 [tokens, pairs] each.
ffi::Error* masu_angles(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer** args = frame->args.buffers;
  auto* positions = static_cast<const int32_t*>(args[0]->data);
  const float *frequencies = optional(frame, 1), factor = *optional(frame, 2);
  auto* cosines = static_cast<float*>(frame->rets.buffers[0]->data);
  auto* sines = static_cast<float*>(frame->rets.buffers[1]->data);
  int64_t pairs = args[1]->dims[0];
  auto body = [&](int token) {
    for (int64_t i = 0; i < pairs; i++) {
      double angle = static_cast<float>(positions[token]) * frequencies[i];
      cosines[token * pairs + i] = static_cast<float>(std::cos(angle)) * factor;
      sines[token * pairs + i] = static_cast<float>(std::sin(angle)) * factor;
    }
  };
  parallel(static_cast<int>(args[0]->dims[0]), body);
  return nullptr;
}

// A cache [groups, capacity, width], rows [tokens, groups, width] like it, a position s32 -> the
// cache, in the same memory, with the rows from there on. Rows past its end are padding.
ffi::Error* masu_write(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ffi::Buffer **args = frame->args.buffers, *cache = args[0], *rows = args[1], *out = frame->rets.buffers[0];
  if (rows->type != cache->type || rows->dims[1] != cache->dims[0] || rows->dims[2] != cache->dims[2])
    return ffi::error(frame, "masu: the rows do not fit the cache");
  int64_t groups = cache->dims[0], capacity = cache->dims[1], position = *static_cast<const int32_t*>(args[2]->data);
  size_t line = static_cast<size_t>(cache->dims[2]) * bytes_of(cache);
  if (out->data != cache->data) std::memcpy(out->data, cache->data, static_cast<size_t>(groups * capacity) * line);
  int64_t end = std::min(rows->dims[0], capacity - position);
  for (int64_t token = std::max<int64_t>(0, -position); token < end; token++)
    for (int64_t group = 0; group < groups; group++)
      std::memcpy(static_cast<char*>(out->data) + static_cast<size_t>(group * capacity + position + token) * line,
                  static_cast<const char*>(rows->data) + static_cast<size_t>(token * groups + group) * line, line);
  return nullptr;
}

}  // extern "C"
