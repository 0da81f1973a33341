// What XLA calls: operands checked and handed to the kernels of the chosen instruction set.
#include <cstring>

#include "ffi.h"
#include "kernels.h"
#include "matrix.h"
#include "operands.h"
#include "pool.h"

namespace masu {
namespace {

// The kernels that run on this processor, the best last.
struct Available {
  const Kernels* kernels[4] = {&kPortable};
  int count = 1;
};

Available available() {
  Available found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.kernels[found.count++] = &kAvx2;
  bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (is_wide) found.kernels[found.count++] = &kAvx512;
#if defined(MASU_KNOWS_PAIRS)
  if (is_wide && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni")) found.kernels[found.count++] = &kAvx512BF16;
#endif
#elif defined(__aarch64__)
  found.kernels[found.count++] = &kNeon;  // every one of these has it
#endif
  return found;
}

const Available here = available();
const Kernels* chosen = here.kernels[here.count - 1];

// Null where the processor lacks it.
const Kernels* named(const char* name) {
  for (int i = 0; i < here.count; i++)
    if (std::strcmp(name, here.kernels[i]->name) == 0) return here.kernels[i];
  return nullptr;
}

}  // namespace

const Kernels& in_use() { return *chosen; }

}  // namespace masu

using namespace masu;

namespace {

ffi::Error* run_product(ffi::Frame* frame, const Activation* gate, bool rounds) {
  ExactDenormals exact;
  ffi::Buffer *x = frame->args.buffers[0], *matrix = frame->args.buffers[1], *out = frame->rets.buffers[0];
  if (!is_matrix(matrix)) return ffi::error(frame, "masu: the second operand is no matrix");
  Matrix m;
  std::memcpy(&m, matrix->data, sizeof m);
  int64_t rows = count_of(x, 0, x->rank - 1), width = gate ? m.rows / 2 : m.rows;
  if (x->dims[x->rank - 1] != m.columns || out->dims[out->rank - 1] != width || type_of(x) > kBF16)
    return ffi::error(frame, "masu: the operand does not fit the matrix");
  bool wide = out->type == ffi::kF32;
  if ((!wide || gate) && out->type != x->type) return ffi::error(frame, "masu: the output is neither wide nor like the input");
  const float* biases = frame->args.size > 2 ? optional(frame, 2) : nullptr;
  if (rows > 0) chosen->product(m, type_of(x), x->data, static_cast<int>(rows), biases, wide, gate, rounds, out->data);
  return nullptr;
}

}  // namespace

extern "C" {

// `x` [..., columns], a matrix, perhaps biases f32 [rows] -> [..., rows], rounded or wide.
// Sizes: rounds_rows, to bytes, where they meet counted codes.
ffi::Error* masu_product(ffi::Frame* frame) {
  return ffi::answers_metadata(frame) ? nullptr : run_product(frame, nullptr, ints(frame)[0] != 0);
}

// The same, whose outputs are values and then gates -> [..., rows / 2] like `x`: the first times a
// function of the second. Sizes: function, rounds_rows. Numbers: its parameter, lowest and highest
// value, lowest and highest gate.
ffi::Error* masu_gated_product(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  const float* n = floats(frame);
  Activation gate{true, ints(frame)[0], n[0], n[1], n[2], n[3], n[4]};
  return run_product(frame, &gate, ints(frame)[1] != 0);
}

// Ids s32 [tokens], a matrix -> [tokens, columns].
ffi::Error* masu_lookup(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer *ids = frame->args.buffers[0], *matrix = frame->args.buffers[1], *out = frame->rets.buffers[0];
  if (!is_matrix(matrix)) return ffi::error(frame, "masu: the second operand is no matrix");
  Matrix m;
  std::memcpy(&m, matrix->data, sizeof m);
  if (ids->type != ffi::kS32 || out->dims[1] != m.columns || type_of(out) > kBF16)
    return ffi::error(frame, "masu: the output does not fit the table");
  chosen->lookup(m, type_of(out), static_cast<const int32_t*>(ids->data), static_cast<int>(ids->dims[0]), out->data);
  return nullptr;
}

// Queries [tokens, heads, width], keys and values [groups, capacity, width], position, length,
// perhaps sinks f32 [heads] -> [tokens, heads, width]. Sizes: is_causal, window. Numbers: scale, cap.
ffi::Error* masu_attention(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer **args = frame->args.buffers, *q = args[0], *k = args[1];
  if (type_of(q) > kBF16 || k->type != q->type || args[2]->type != q->type || k->dims[2] != q->dims[2] ||
      q->dims[1] % k->dims[0] != 0)
    return ffi::error(frame, "masu: queries and cache do not fit each other");
  const int32_t* options = ints(frame);
  int sizes[] = {static_cast<int>(q->dims[0]), static_cast<int>(q->dims[1]), static_cast<int>(k->dims[0]),
                 static_cast<int>(k->dims[1]), static_cast<int>(q->dims[2]),
                 *static_cast<const int32_t*>(args[3]->data), *static_cast<const int32_t*>(args[4]->data),
                 options[0], options[1]};
  sizes[6] = sizes[6] < sizes[3] ? sizes[6] : sizes[3];
  const float* sinks = frame->args.size > 5 ? optional(frame, 5) : nullptr;
  chosen->attention(type_of(q), q->data, k->data, args[2]->data, sinks, sizes, floats(frame), frame->rets.buffers[0]->data);
  return nullptr;
}

// `x` [..., width], then scales and biases f32 [width], as far as there are -> like `x`.
// Sizes: subtracts_mean, rounds_between, has_scales, has_biases. Numbers: epsilon, scale_offset.
ffi::Error* masu_norm(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer* x = frame->args.buffers[0];
  if (type_of(x) > kBF16) return ffi::error(frame, "masu: no norm for this element type");
  const int32_t* options = ints(frame);
  int64_t place = 1;
  const float* scales = options[2] ? optional(frame, place++) : nullptr;
  const float* biases = options[3] ? optional(frame, place++) : nullptr;
  int sizes[] = {static_cast<int>(count_of(x, 0, x->rank - 1)), static_cast<int>(x->dims[x->rank - 1]), options[0], options[1]};
  chosen->norm(type_of(x), x->data, scales, biases, sizes, floats(frame), frame->rets.buffers[0]->data);
  return nullptr;
}

void masu_set_threads(int count) { set_threads(count); }

int masu_threads() { return threads(); }

const char* masu_instruction_set() { return chosen->name; }

// Whether this processor has the instruction set; if so it is used from now on.
int masu_use_instruction_set(const char* name) {
  const Kernels* found = named(name);
  if (found != nullptr) chosen = found;
  return found != nullptr;
}

}  // extern "C"
