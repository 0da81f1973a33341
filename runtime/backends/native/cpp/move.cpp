// Values from some places of an array to some places of another. Only programs call this.
#include "operands.h"

namespace masu {
namespace {

// What is left of the axes, and from one place along each to the next.
struct Axes {
  const int32_t *sizes, *from, *to;
  int rank;
};

template <class T>
void move(const T* from, T* to, Axes axes) {
  if (axes.rank == 0) {
    *to = *from;
    return;
  }
  int32_t size = *axes.sizes, step = *axes.from, place = *axes.to;
  if (axes.rank == 1 && step == 1 && place == 1) {
    std::memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
    return;
  }
  Axes rest{axes.sizes + 1, axes.from + 1, axes.to + 1, axes.rank - 1};
  for (int64_t i = 0; i < size; i++) move(from + i * step, to + i * place, rest);
}

}  // namespace
}  // namespace masu

using namespace masu;

extern "C" {

// `x`, whose type the output has. Sizes: those of the axes, then the steps along them through `x`,
// then those through the output, all in elements.
ffi::Error* masu_move(ffi::Frame* frame) {
  ffi::Buffer *x = frame->args.buffers[0], *out = frame->rets.buffers[0];
  auto* sizes = static_cast<ffi::Array*>(frame->attrs.values[1]);
  int rank = static_cast<int>(sizes->size) / 3;
  Axes axes{ints(frame), ints(frame) + rank, ints(frame) + 2 * rank, rank};
  switch (x->type) {
    case ffi::kPred: return move(static_cast<const uint8_t*>(x->data), static_cast<uint8_t*>(out->data), axes), nullptr;
    case ffi::kF16:
    case ffi::kBF16: return move(static_cast<const uint16_t*>(x->data), static_cast<uint16_t*>(out->data), axes), nullptr;
    default: return move(static_cast<const uint32_t*>(x->data), static_cast<uint32_t*>(out->data), axes), nullptr;
  }
}

}  // extern "C"
