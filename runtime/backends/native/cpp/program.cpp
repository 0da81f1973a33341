// Programs, and the functions that Python builds and runs them with.
#include "program.h"

#include <string>

#include "pool.h"

namespace masu {
namespace {

// What a kernel's refusal becomes without XLA: its message, until the next one.
ffi::Error* remember(ffi::ErrorArgs* given);

const ffi::Api kApi{sizeof(ffi::Api), nullptr, {sizeof(ffi::Version), nullptr, ffi::kMajor, ffi::kMinor}, nullptr, remember};

thread_local std::string message;

ffi::Error* remember(ffi::ErrorArgs* given) {
  message = given->message;
  return reinterpret_cast<ffi::Error*>(&message);
}

}  // namespace

void* Shelf::bytes(size_t size) {
  constexpr size_t kBoard = 1 << 16, kAlignment = 8;
  size = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (used + size > length) {
    length = size > kBoard ? size : kBoard;
    boards.push_back(std::make_unique<char[]>(length));
    used = 0;
  }
  used += size;
  return boards.back().get() + used - size;
}

void Program::add(Handler handler, const Operand* operands, int arguments, int count, const float* numbers,
                  int floats, const int32_t* sizes, int ints) {
  Call* call = shelf.room<Call>(1);
  auto** places = shelf.room<ffi::Buffer*>(static_cast<size_t>(count));
  auto** values = shelf.room<void*>(2);
  auto* lists = shelf.room<ffi::Array>(2);
  for (int i = 0; i < count; i++) {
    const Operand& from = operands[i];
    size_t block = static_cast<size_t>(from.block);
    places[i] = shelf.room<ffi::Buffer>(1);
    auto* dims = shelf.copy(from.dims, static_cast<size_t>(from.rank));
    *places[i] = {sizeof(ffi::Buffer), nullptr, from.type, nullptr, from.rank, dims};
    if (uses.size() <= block) uses.resize(block + 1);
    uses[block].push_back({places[i], from.offset});
  }
  lists[0] = {ffi::kF32, static_cast<size_t>(floats), shelf.copy(numbers, static_cast<size_t>(floats))};
  lists[1] = {ffi::kS32, static_cast<size_t>(ints), shelf.copy(sizes, static_cast<size_t>(ints))};
  for (int i = 0; i < 2; i++) values[i] = &lists[i];
  *call = {handler, {}};
  call->frame.struct_size = sizeof(ffi::Frame);
  call->frame.api = &kApi;
  call->frame.stage = ffi::kExecute;
  call->frame.args = {sizeof(ffi::Args), nullptr, arguments, nullptr, places};
  call->frame.rets = {sizeof(ffi::Args), nullptr, count - arguments, nullptr, places + arguments};
  call->frame.attrs = {sizeof(ffi::Attrs), nullptr, 2, nullptr, nullptr, values};
  calls.push_back(call);
}

void Program::bind(int block, void* memory) {
  if (static_cast<size_t>(block) >= uses.size()) return;  // no call uses it
  for (const Use& use : uses[static_cast<size_t>(block)]) use.buffer->data = static_cast<char*>(memory) + use.offset;
}

const char* Program::run() {
  ExactDenormals exact;
  for (Call* call : calls)
    if (call->handler(&call->frame) != nullptr) return message.c_str();
  return nullptr;
}

}  // namespace masu

using namespace masu;

extern "C" {

void* masu_program() { return new Program; }

void masu_program_free(void* program) { delete static_cast<Program*>(program); }

void masu_program_add(void* program, void* handler, const Operand* operands, int arguments, int count,
                      const float* numbers, int floats, const int32_t* sizes, int ints) {
  static_cast<Program*>(program)->add(reinterpret_cast<Handler>(handler), operands, arguments, count, numbers, floats, sizes, ints);
}

void masu_program_bind(void* program, int count, const int32_t* blocks, void* const* memory) {
  for (int i = 0; i < count; i++) static_cast<Program*>(program)->bind(blocks[i], memory[i]);
}

const char* masu_program_run(void* program) { return static_cast<Program*>(program)->run(); }

}  // extern "C"
