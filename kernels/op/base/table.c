/* table.c - the table of all operators, and the lookup of an operator by name.
 *
 * ops.def has one line for each built-in operator, sorted by name, so that op_find can bisect. No other file includes
 * ops.def. A file that calls another operator declares that operator's record, so a new operator recompiles no other
 * file. */
#include "kernels/op/base/table.h"

#include <stdatomic.h>
#include <string.h>

#define OP(name) extern const struct op op_##name;
#include "kernels/op/base/ops.def"
#undef OP

const struct op *const op_table[] = {
#define OP(name) &op_##name,
#include "kernels/op/base/ops.def"
#undef OP
    NULL,
};
const int op_count = countof(op_table) - 1;

/* Entries below nloaded are constant, so readers need no lock. */
static const struct op *loaded[OP_LOADED];
static atomic_int nloaded;

const struct op *
op_at(int i)
{
    if (i < 0 || i >= op_count + atomic_load(&nloaded)) return NULL;
    return i < op_count ? op_table[i] : loaded[i - op_count];
}

void
op_register(const struct op *op)
{
    int n = atomic_load(&nloaded);
    assert(n < OP_LOADED);
    loaded[n] = op;
    atomic_store(&nloaded, n + 1);
}

const struct op *
op_find(const char *name)
{
    int lo = 0, hi = op_count;
    while (lo < hi) {
        int mid = (lo + hi) / 2, order = strcmp(name, op_table[mid]->name);
        if (order == 0) return op_table[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    for (int i = 0, n = atomic_load(&nloaded); i < n; i++)
        if (!strcmp(name, loaded[i]->name)) return loaded[i];
    return NULL;
}
