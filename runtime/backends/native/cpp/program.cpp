// Programs, and the functions that Python builds and runs them with.
#include "program.h"

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

void Program::add(Handler handler, const Operand* operands, int arguments, int count, const float* numbers,
                  int floats, const int32_t* sizes, int ints) {
  Call& call = calls.emplace_back();
  call.handler = handler;
  call.buffers.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) {
    const Operand& from = operands[i];
    auto& dims = call.dims.emplace_back(from.dims, from.dims + from.rank);
    ffi::Buffer* to = &call.buffers[static_cast<size_t>(i)];
    *to = {sizeof(ffi::Buffer), nullptr, from.type, nullptr, from.rank, dims.data()};
    call.places.push_back(to);
    if (uses.size() <= static_cast<size_t>(from.block)) uses.resize(static_cast<size_t>(from.block) + 1);
    uses[static_cast<size_t>(from.block)].push_back({to, from.offset});
  }
  call.numbers.assign(numbers, numbers + floats);
  call.sizes.assign(sizes, sizes + ints);
  call.lists[0] = {ffi::kF32, call.numbers.size(), call.numbers.data()};
  call.lists[1] = {ffi::kS32, call.sizes.size(), call.sizes.data()};
  for (int i = 0; i < 2; i++) call.values[i] = &call.lists[i];
  call.frame = {};
  call.frame.struct_size = sizeof(ffi::Frame);
  call.frame.api = &kApi;
  call.frame.stage = ffi::kExecute;
  call.frame.args = {sizeof(ffi::Args), nullptr, arguments, nullptr, call.places.data()};
  call.frame.rets = {sizeof(ffi::Args), nullptr, count - arguments, nullptr, call.places.data() + arguments};
  call.frame.attrs = {sizeof(ffi::Attrs), nullptr, 2, nullptr, nullptr, call.values};
}

void Program::bind(int block, void* memory) {
  if (static_cast<size_t>(block) >= uses.size()) return;  // no call uses it
  for (const Use& use : uses[static_cast<size_t>(block)]) use.buffer->data = static_cast<char*>(memory) + use.offset;
}

const char* Program::run() {
  ExactDenormals exact;
  for (Call& call : calls)
    if (call.handler(&call.frame) != nullptr) return message.c_str();
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
