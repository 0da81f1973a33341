// The one thread pool: work is cut in pieces, and which thread takes a piece changes no bit.
#pragma once

#include <cstdint>

namespace masu {

using Work = void (*)(void* context, int piece);

// Runs `work(context, piece)` for every piece; returns when all are done. Calls that come while
// another is running do all of their pieces themselves.
void run_pieces(int pieces, Work work, void* context);

template <class F>
void parallel(int pieces, F& body) {
  run_pieces(pieces, [](void* context, int piece) { (*static_cast<F*>(context))(piece); }, &body);
}

// While it lives this thread computes with numbers below the smallest normal one as they are. XLA's
// threads take them for zeros, ours need not: which thread takes a piece must not be seen.
class ExactDenormals {
 public:
  ExactDenormals();
  ~ExactDenormals();
  ExactDenormals(const ExactDenormals&) = delete;
  ExactDenormals& operator=(const ExactDenormals&) = delete;

 private:
  uint64_t before;
};

void set_threads(int count);
int threads();

}  // namespace masu
