// A mixture of experts: rows are gathered by expert, so that each expert's weights are read once.
//
// What a row gets is one sum over the experts it chose, in the order in which it chose them: the
// rows beside it change nothing.
#include <algorithm>
#include <vector>

#include "ffi.h"
#include "kernels.h"
#include "operands.h"
#include "pool.h"

namespace masu {
namespace {

struct ExpertsCall {
  uint32_t type;
  size_t item;  // bytes of an activation
  const uint8_t* x;
  const Matrix *up, *down;  // [experts]
  const float *up_biases, *down_biases;  // [experts, rows], [experts, width], or null
  const int32_t* chosen;  // [tokens, active]
  const float* weights;
  uint8_t* out;
  int tokens, active, experts, width, lines, hidden;
  Activation activation;
  bool rounds;  // rows that meet counted codes to bytes
};

// What all experts made of the rows that chose them: expert after expert, `starts` tells where one
// begins, and a row's place among all is `places[token * active + rank]`.
struct Gathered {
  std::vector<int> starts, places, tokens;
};

Gathered gather(const ExpertsCall& call) {
  int pairs = call.tokens * call.active;
  Gathered found{std::vector<int>(call.experts + 1), std::vector<int>(pairs), std::vector<int>(pairs)};
  for (int i = 0; i < pairs; i++) found.starts[call.chosen[i] + 1]++;
  for (int e = 0; e < call.experts; e++) found.starts[e + 1] += found.starts[e];
  std::vector<int> next(found.starts);
  for (int i = 0; i < pairs; i++) {
    found.places[i] = next[call.chosen[i]]++;
    found.tokens[found.places[i]] = i / call.active;
  }
  return found;
}

struct Rooms { std::vector<uint8_t> rows, lines, hidden; };

void run_expert(const ExpertsCall& call, const Gathered& found, int expert, Rooms& rooms, uint8_t* out) {
  int first = found.starts[expert], count = found.starts[expert + 1] - first;
  size_t row = call.width * call.item;
  rooms.rows.resize(count * row), rooms.lines.resize(count * call.lines * call.item), rooms.hidden.resize(count * call.hidden * call.item);
  for (int i = 0; i < count; i++) std::memcpy(&rooms.rows[i * row], call.x + found.tokens[first + i] * row, row);
  auto biases = [&](const float* of_all, int width) { return of_all ? of_all + static_cast<size_t>(expert) * width : nullptr; };
  const Kernels& kernels = in_use();
  // Tiles of values and of gates are the same rows of a transform only where they end together.
  bool in_one = call.activation.is_gated && call.hidden % 32 == 0;
  kernels.product(call.up[expert], call.type, rooms.rows.data(), count, biases(call.up_biases, call.lines), false,
                  in_one ? &call.activation : nullptr, call.rounds, in_one ? rooms.hidden.data() : rooms.lines.data());
  if (!in_one) kernels.between.activate(call.type, call.activation, rooms.lines.data(), count, call.hidden, rooms.hidden.data());
  kernels.product(call.down[expert], call.type, rooms.hidden.data(), count, biases(call.down_biases, call.width), false, nullptr, call.rounds, out + first * row);
}

void run_experts(const ExpertsCall& call) {
  Gathered found = gather(call);
  size_t row = call.width * call.item;
  std::vector<uint8_t> outputs(call.tokens * call.active * row);
  Rooms rooms;
  for (int expert = 0; expert < call.experts; expert++)
    if (found.starts[expert] < found.starts[expert + 1]) run_expert(call, found, expert, rooms, outputs.data());
  std::vector<float> sums(call.width);
  const Between& between = in_use().between;
  for (int token = 0; token < call.tokens; token++) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int i = token * call.active; i < (token + 1) * call.active; i++)
      if (call.weights[i] != 0.0f)  // what a row gives no weight may be anything, infinite included
        between.add_weighted(call.type, &outputs[found.places[i] * row], call.weights[i], call.width, sums.data());
    between.narrow(call.type, sums.data(), call.width, call.out + token * row);
  }
}

bool are_matrices(const ffi::Buffer* words) {
  return words->type == ffi::kU32 && words->rank == 2 && words->dims[1] == sizeof(Matrix) / 4;
}

// Null if the operands fit each other.
const char* problem(const ExpertsCall& call, const ffi::Buffer* x) {
  if (x->rank != 2 || call.type > kBF16) return "masu: no experts for this element type";
  for (int e = 0; e < call.experts; e++)
    if (call.up[e].columns != static_cast<uint32_t>(call.width) || call.up[e].rows != static_cast<uint32_t>(call.lines) ||
        call.down[e].rows != static_cast<uint32_t>(call.width) || call.down[e].columns != static_cast<uint32_t>(call.hidden))
      return "masu: the experts do not fit the rows or each other";
  for (int i = 0; i < call.tokens * call.active; i++)
    if (call.chosen[i] < 0 || call.chosen[i] >= call.experts) return "masu: a chosen expert is not there";
  return nullptr;
}

}  // namespace
}  // namespace masu

using namespace masu;

extern "C" {

// `x` [tokens, width], up and down as matrices [experts], chosen s32 and weights f32 [tokens,
// active], then biases f32 of up and down [experts, ...], as far as there are -> like x.
// Sizes: is_gated, function, has_up_biases, has_down_biases, rounds_rows. Numbers: alpha, and the bounds of
// values and of gates.
ffi::Error* masu_experts(ffi::Frame* frame) {
  if (ffi::answers_metadata(frame)) return nullptr;
  ExactDenormals exact;
  ffi::Buffer **args = frame->args.buffers, *x = args[0], *up = args[1], *down = args[2], *chosen = args[3];
  if (!are_matrices(up) || !are_matrices(down) || up->dims[0] != down->dims[0] || up->dims[0] == 0)
    return ffi::error(frame, "masu: up and down are no stacks of as many matrices");
  if (chosen->type != ffi::kS32 || chosen->rank != 2 || args[4]->type != ffi::kF32) return ffi::error(frame, "masu: no choice of experts");
  const int32_t* options = ints(frame);
  const float* numbers = floats(frame);
  int64_t place = 5;
  const float* up_biases = options[2] ? optional(frame, place++) : nullptr;
  const float* down_biases = options[3] ? optional(frame, place++) : nullptr;
  auto* ups = static_cast<const Matrix*>(up->data);
  int lines = static_cast<int>(ups[0].rows), hidden = options[0] ? lines / 2 : lines;
  ExpertsCall call{type_of(x), x->type == ffi::kF32 ? sizeof(float) : sizeof(uint16_t),
                   static_cast<const uint8_t*>(x->data), ups, static_cast<const Matrix*>(down->data), up_biases, down_biases,
                   static_cast<const int32_t*>(chosen->data), static_cast<const float*>(args[4]->data),
                   static_cast<uint8_t*>(frame->rets.buffers[0]->data), static_cast<int>(x->dims[0]),
                   static_cast<int>(chosen->dims[1]), static_cast<int>(up->dims[0]), static_cast<int>(x->dims[1]), lines, hidden,
                   {options[0] != 0, options[1], numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]}, options[4] != 0};
  if (const char* message = problem(call, x)) return ffi::error(frame, message);
  run_experts(call);
  return nullptr;
}

}  // extern "C"
