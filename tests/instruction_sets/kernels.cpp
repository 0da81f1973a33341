// What the kernels of one instruction set make of the same inputs on every machine. Without an
// argument: the name of the set that is chosen here.
#include <cmath>
#include <cstring>

#include "pool.h"
#include "rows_and_sequences.h"
#include "stored_matrices.h"

extern "C" {
const char* masu_instruction_set();
int masu_use_instruction_set(const char* name);
}

namespace masu {
namespace {

// As XLA does on its threads: numbers below the smallest normal one are taken for zeros.
void flush_denormals() {
#if defined(__aarch64__)
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  asm volatile("msr fpcr, %0" : : "r"(word | uint64_t{1} << 24));
#elif defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}

// Half of a number below the smallest normal one: before, within and after `ExactDenormals`.
void denormals() {
  volatile float small = from_bits(0x200), half = 0.5f;
  std::vector<float> found = {small * half};
  {
    ExactDenormals exact;
    found.push_back(small * half);
  }
  found.push_back(small * half);
  record<F32>("denormals", found);
}

}  // namespace
}  // namespace masu

int main(int count, char** arguments) {
  if (count < 2) return std::puts(masu_instruction_set()) < 0;
  if (!masu_use_instruction_set(arguments[1])) return 1;
  masu::set_threads(2);
  masu::flush_denormals();
  masu::denormals();
  masu::ExactDenormals exact;
  masu::matrix_kernels();
  masu::attention_kernel();
  masu::norm_kernel();
  masu::conv_kernel();
  masu::recur_kernel();
  masu::rotate_kernel();
  masu::row_kernels();
  masu::activations();
  masu::vector_tables();
}
