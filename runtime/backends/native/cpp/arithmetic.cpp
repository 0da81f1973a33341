// Sums, products, choices and conversions of arrays, rounded as XLA rounds them. Only programs call
// these.
#include <cmath>

#include "floats.h"
#include "operands.h"

namespace masu {
namespace {

// In the order of `ARITHMETIC` in lowering.py.
enum Operation : int {
  kAdd, kSubtract, kMultiply, kDivide, kLargest, kSmallest, kConvert, kNegate, kAbsolute,
  kGreater, kLess, kAtLeast, kAtMost, kEqual, kChoose
};

// Every number of these types is a double, and what two of them make in double rounds to theirs as
// if it had been made exactly (Figueroa 1995): double has more than twice the digits of each.
double value_at(const ffi::Buffer* buffer, int64_t place) {
  switch (buffer->type) {
    case ffi::kF32: return static_cast<const float*>(buffer->data)[place];
    case ffi::kF16: return widened(static_cast<const uint16_t*>(buffer->data)[place], F16());
    case ffi::kBF16: return widened(static_cast<const uint16_t*>(buffer->data)[place], BF16());
    case ffi::kPred: return static_cast<const uint8_t*>(buffer->data)[place];
    default: return static_cast<const int32_t*>(buffer->data)[place];
  }
}

void set(ffi::Buffer* buffer, int64_t place, double value) {
  switch (buffer->type) {
    case ffi::kF32: static_cast<float*>(buffer->data)[place] = static_cast<float>(value); break;
    case ffi::kF16: static_cast<uint16_t*>(buffer->data)[place] = narrowed(static_cast<float>(value), F16()); break;
    case ffi::kBF16: static_cast<uint16_t*>(buffer->data)[place] = narrowed(static_cast<float>(value), BF16()); break;
    case ffi::kPred: static_cast<uint8_t*>(buffer->data)[place] = value != 0.0; break;
    default: static_cast<int32_t*>(buffer->data)[place] = static_cast<int32_t>(value);
  }
}

double made(int operation, double left, double right, double last) {
  switch (operation) {
    case kAdd: return left + right;
    case kSubtract: return left - right;
    case kMultiply: return left * right;
    case kDivide: return left / right;
    case kLargest: return left != left || left > right ? left : right;
    case kSmallest: return left != left || left < right ? left : right;
    case kNegate: return -left;
    case kAbsolute: return std::fabs(left);
    case kGreater: return left > right;
    case kLess: return left < right;
    case kAtLeast: return left >= right;
    case kAtMost: return left <= right;
    case kEqual: return left == right;
    case kChoose: return left != 0.0 ? last : right;
    default: return left;
  }
}

// The case of every layer: the stream and what is added to it.
template <class T>
void add(const ffi::Buffer* left, const ffi::Buffer* right, int64_t count, ffi::Buffer* out) {
  auto* a = static_cast<const typename T::stored*>(left->data);
  auto* b = static_cast<const typename T::stored*>(right->data);
  auto* to = static_cast<typename T::stored*>(out->data);
  for (int64_t i = 0; i < count; i++) to[i] = narrowed(widened(a[i], T()) + widened(b[i], T()), T());
}

}  // namespace
}  // namespace masu

using namespace masu;

extern "C" {

// One to three operands, of one element or as many as the output. Sizes: operation.
ffi::Error* masu_arithmetic(ffi::Frame* frame) {
  ffi::Buffer **args = frame->args.buffers, *out = frame->rets.buffers[0], *left = args[0];
  ffi::Buffer *right = frame->args.size > 1 ? args[1] : left, *last = frame->args.size > 2 ? args[2] : left;
  int operation = ints(frame)[0];
  int64_t count = count_of(out, 0, out->rank);
  int64_t a = count_of(left, 0, left->rank) > 1 ? 1 : 0, b = count_of(right, 0, right->rank) > 1 ? 1 : 0;
  int64_t c = count_of(last, 0, last->rank) > 1 ? 1 : 0;
  if (operation == kAdd && a == 1 && b == 1 && left->type == out->type && right->type == out->type) {
    if (out->type == ffi::kF32) return add<F32>(left, right, count, out), nullptr;
    if (out->type == ffi::kBF16) return add<BF16>(left, right, count, out), nullptr;
    if (out->type == ffi::kF16) return add<F16>(left, right, count, out), nullptr;
  }
  for (int64_t i = 0; i < count; i++) set(out, i, made(operation, value_at(left, a * i), value_at(right, b * i), value_at(last, c * i)));
  return nullptr;
}

}  // extern "C"
