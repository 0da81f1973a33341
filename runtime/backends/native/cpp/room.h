// Memory that begins with a line of the caches: a vector across two of them is read twice.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace masu {

constexpr std::align_val_t kLine{64};

template <class T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <class Other>
  LineAllocator(const LineAllocator<Other>&) {}

  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }

  template <class Other>
  bool operator==(const LineAllocator<Other>&) const { return true; }
  template <class Other>
  bool operator!=(const LineAllocator<Other>&) const { return false; }
};

template <class T>
using Room = std::vector<T, LineAllocator<T>>;

}  // namespace masu
