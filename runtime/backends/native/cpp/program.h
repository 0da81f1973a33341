// Kernel calls to be made one after the other, on operands whose addresses are put in later.
//
// XLA spends microseconds between two calls, as long as a small kernel takes. Where nothing but
// kernels is to be run, the list of them is kept here and called from one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
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
    std::vector<ffi::Buffer> buffers;
    std::vector<ffi::Buffer*> places;
    std::deque<std::vector<int64_t>> dims;
    std::vector<float> numbers;
    std::vector<int32_t> sizes;
    ffi::Array lists[2];
    void* values[2];
    ffi::Frame frame;
  };
  struct Use {
    ffi::Buffer* buffer;
    int64_t offset;
  };

  std::deque<Call> calls;  // whose elements stay where they are
  std::vector<std::vector<Use>> uses;
};

}  // namespace masu
