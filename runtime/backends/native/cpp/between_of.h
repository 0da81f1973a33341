// What `Between` names, compiled once per instruction set, and the table of it.

#include "recurrent.h"

#include "rows.h"

#include "vector_table.h"

static constexpr Between kBetween{
    any_conv, any_recur, any_rotate, any_unit, any_softmax, any_argmax, any_largest, any_activate,
    any_add_weighted, any_narrow, any_vector_rows, any_vector_product,
};
