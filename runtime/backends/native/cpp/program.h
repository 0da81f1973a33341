// Kernel calls to be made one after the other, on operands whose addresses are put in later.
//
// XLA spends microseconds between two calls, as long as a small kernel takes. Where nothing but
// kernels is to be run, the list of them is kept here and called from one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ffi.h"

namespace masu {

using Handler = ffi::Error* (*)(ffi::Frame*);

// Where a buffer lies: so many bytes into a block of memory whose address is given by `bind`.
struct Operand {
  int32_t block, type;
  int64_t offset, rank;
  const int64_t* dims;
};

// Memory that is given out piece after piece and lies side by side: weights push out of the caches
// what a step reads only once, and a processor fetches in advance what it meets in its order.
class Shelf {
 public:
  template <class T>
  T* room(size_t count) {
    return static_cast<T*>(bytes(count * sizeof(T)));
  }

  template <class T>
  T* copy(const T* from, size_t count) {
    T* to = room<T>(count);
    for (size_t i = 0; i < count; i++) to[i] = from[i];
    return to;
  }

 private:
  void* bytes(size_t size);

  std::vector<std::unique_ptr<char[]>> boards;
  size_t used = 0, length = 0;
};

class Program {
 public:
  // The first `arguments` of the operands are read, the others written.
  void add(Handler handler, const Operand* operands, int arguments, int count, const float* numbers, int floats,
           const int32_t* sizes, int ints);
  void bind(int block, void* memory);

  // Null, or what the kernel that failed says.
  const char* run();

 private:
  struct Call {
    Handler handler;
    ffi::Frame frame;
  };
  struct Use {
    ffi::Buffer* buffer;
    int64_t offset;
  };

  Shelf shelf;
  std::vector<Call*> calls;
  std::vector<std::vector<Use>> uses;  // of each block
};

}  // namespace masu
