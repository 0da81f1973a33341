// AVX2 with FMA: sixteen floats in two registers.
#if defined(__x86_64__)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "floats.h"
#include "kernels.h"
#include "matrix.h"
#include "pool.h"
#include "room.h"
#include <immintrin.h>

// After the headers: what they define inline is shared with code for every processor.
#define MASU_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace masu {
namespace avx2 {

#include "kernels_of.h"

}  // namespace avx2

const Kernels kAvx2{"avx2", avx2::kBetween, avx2::any_product, avx2::any_lookup, avx2::any_attention, avx2::any_norm};

}  // namespace masu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
