// Workers wait for the next call by spinning for a moment, then asleep.
#include "pool.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace masu {
namespace {

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The control word of this thread's floating point unit, and its bits that make zeros of numbers.
#if defined(__x86_64__)
constexpr uint64_t kFlushing = 0x8040;
inline uint64_t control() { return __builtin_ia32_stmxcsr(); }
inline void set_control(uint64_t word) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushing = uint64_t{1} << 24;
inline uint64_t control() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
inline void set_control(uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
constexpr uint64_t kFlushing = 0;
inline uint64_t control() { return 0; }
inline void set_control(uint64_t) {}
#endif

constexpr int kSpins = 4000;  // some 50 to 100 microseconds: the gap between two calls of a step

struct Pool {
  explicit Pool(int count) {
    for (int i = 1; i < count; i++) workers.emplace_back([this] { serve(); });
  }

  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(sleep);
      stop.store(true);
      ticket.fetch_add(uint64_t{1} << 32);
    }
    wake.notify_all();
    for (auto& worker : workers) worker.join();
  }

  uint32_t call() const { return static_cast<uint32_t>(ticket.load() >> 32); }

  void serve() {
    ExactDenormals exact;
    uint32_t seen = 0;
    while (true) {
      for (int spin = 0; spin < kSpins && call() == seen; spin++) pause();
      if (call() == seen) {
        std::unique_lock<std::mutex> lock(sleep);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return call() != seen; });
        sleepers.fetch_sub(1);
      }
      seen = call();
      if (stop.load()) return;
      take();
    }
  }

  // What a piece is of is read after the piece was taken: until it is done, the call cannot end.
  void take() {
    uint64_t now = ticket.load();
    while (static_cast<uint32_t>(now) < pieces.load()) {
      if (!ticket.compare_exchange_weak(now, now + 1)) continue;
      work(context, static_cast<int>(static_cast<uint32_t>(now)));
      done.fetch_add(1);
      now = ticket.load();
    }
  }

  void run(int given, Work function, void* argument) {
    uint64_t next = (ticket.load() >> 32) + 1;
    work = function, context = argument;
    done.store(0);
    pieces.store(static_cast<uint32_t>(given));
    ticket.store(next << 32);
    if (sleepers.load() > 0) {
      { std::lock_guard<std::mutex> lock(sleep); }
      wake.notify_all();
    }
    take();
    // A worker that comes late finds nothing to do, and nobody waits for it.
    for (int spin = 0; done.load() < given; spin++) spin < kSpins ? pause() : std::this_thread::yield();
    ticket.store(next << 32 | kNone);
  }

  static constexpr uint32_t kNone = 0xffffffff;
  Work work = nullptr;
  void* context = nullptr;
  std::atomic<uint64_t> ticket{kNone};  // the number of the call, then the next piece of it
  std::atomic<uint32_t> pieces{0};
  std::atomic<int> done{0}, sleepers{0};
  std::atomic<bool> stop{false};
  std::mutex sleep;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

std::mutex in_use;
int wanted = 1;

// Never destroyed at exit: a worker may still be inside when the process ends.
Pool*& pool() {
  static Pool* made = nullptr;
  return made;
}

}  // namespace

void run_pieces(int pieces, Work work, void* context) {
  std::unique_lock<std::mutex> lock(in_use, std::try_to_lock);
  if (!lock.owns_lock() || wanted < 2 || pieces < 2) {
    for (int piece = 0; piece < pieces; piece++) work(context, piece);
    return;
  }
  if (pool() == nullptr) pool() = new Pool(wanted);
  pool()->run(pieces, work, context);
}

void set_threads(int count) {
  std::lock_guard<std::mutex> lock(in_use);
  if (count == wanted) return;
  delete pool();
  pool() = nullptr;
  wanted = count < 1 ? 1 : count;
}

int threads() { return wanted; }

ExactDenormals::ExactDenormals() : before(control()) { set_control(before & ~kFlushing); }

ExactDenormals::~ExactDenormals() { set_control(before); }

}  // namespace masu
