/* op.c - functions on an operator's record: numbers of operands and attributes, and default values. */
#include "runtime/graph/op.h"

#include <string.h>

int
op_nattr(const struct op *op)
{
    int n = 0;
    while (n < OP_ATTR && op->attr[n].name) n++;
    return n;
}

int
op_nresult(const struct op *op, const struct attr *attr)
{
    return op->results ? op->results(attr) : MAX(1, op->nout);
}

bool
op_is_placed(const struct op *op)
{
    bool by_element = op->flags & OP_ELTWISE && !(op->flags & OP_RANDOM);
    return !by_element && !(op->flags & OP_UNPLACED);
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

bool
op_lists_sizes(const struct op *op)
{
    return op->flags & OP_VIEW && op->attr[0].kind == ATTR_INTS && !(op->attr[0].flags & ATTR_AXIS);
}

bool
op_attr_same(const struct op *op, const struct attr *a, const struct attr *b)
{
    for (int i = 0, n = op_nattr(op); i < n; i++) {
        if (a[i].set != b[i].set || a[i].n != b[i].n || a[i].i != b[i].i) return false;
        if (memcmp(&a[i].f, &b[i].f, sizeof a[i].f)) return false;
        if (memcmp(a[i].list, b[i].list, sizeof(a[i].list[0]) * (size_t)a[i].n)) return false;
    }
    return true;
}
