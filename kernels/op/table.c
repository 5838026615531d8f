/* table.c - the list of operators, and how to find one.
 *
 * ops.def has one line an operator, sorted by name, so that op_find can bisect.
 * It is included twice: op_impl.h declares the records, the array below holds
 * them. */
#include "kernels/op/op_impl.h"

#include <string.h>

const struct op *const op_table[] = {
#define OP(name) &op_##name,
#include "kernels/op/ops.def"
#undef OP
    NULL,
};
const int op_count = countof(op_table) - 1;

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
    return NULL;
}

int
op_nattr(const struct op *op)
{
    int n = 0;
    while (n < OP_ATTR && op->attr[n].name) n++;
    return n;
}

int
op_noperand(const struct op *op)
{
    int n = 0;
    while (n < OP_OPERAND && op->in[n].name) n++;
    return n;
}

int
op_attr_find(const struct op *op, const char *name)
{
    for (int i = 0; i < op_nattr(op); i++)
        if (!strcmp(op->attr[i].name, name)) return i;
    return -1;
}

void
op_attr_defaults(const struct op *op, struct attr *attr)
{
    for (int i = 0; i < op_nattr(op); i++) attr[i] = (struct attr){.i = op->attr[i].i, .f = op->attr[i].f};
}
