// Plain C++, for every processor; compilers make SSE or NEON of its loops.
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

namespace masu {
namespace portable {

#include "kernels_of.h"

}  // namespace portable

const Kernels kPortable{"portable", portable::kBetween, portable::any_product, portable::any_lookup, portable::any_attention, portable::any_norm};

}  // namespace masu
