// NEON, which every 64-bit ARM processor has: sixteen floats in four registers.
#if defined(__aarch64__)
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
#include <arm_neon.h>

#define MASU_NEON

namespace masu {
namespace neon {

#include "kernels_of.h"

}  // namespace neon

const Kernels kNeon{"neon", neon::kBetween, neon::any_product, neon::any_lookup, neon::any_attention, neon::any_norm};

}  // namespace masu
#endif
