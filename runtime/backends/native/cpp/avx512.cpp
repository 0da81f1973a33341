// AVX-512 (F, BW, DQ, VL): sixteen floats in one register.
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
#define MASU_AVX512
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

namespace masu {
namespace avx512 {

#include "kernels_of.h"

}  // namespace avx512

const Kernels kAvx512{"avx512", avx512::kBetween, avx512::any_product, avx512::any_lookup, avx512::any_attention, avx512::any_norm};

}  // namespace masu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
