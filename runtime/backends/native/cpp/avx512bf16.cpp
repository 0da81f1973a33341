// AVX-512 with products of bfloat16 pairs, and of bytes: processors that have the one have the other.
#include "kernels.h"
#if defined(MASU_KNOWS_PAIRS)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "floats.h"
#include "matrix.h"
#include "pool.h"
#include "room.h"
#include <immintrin.h>

// After the headers: what they define inline is shared with code for every processor.
#define MASU_AVX512
#define MASU_PAIRS
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma,f16c")
#endif

namespace masu {
namespace avx512bf16 {

#include "kernels_of.h"

}  // namespace avx512bf16

const Kernels kAvx512BF16{"avx512-bf16", avx512bf16::kBetween, avx512bf16::any_product, avx512bf16::any_lookup, avx512bf16::any_attention, avx512bf16::any_norm};

}  // namespace masu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
