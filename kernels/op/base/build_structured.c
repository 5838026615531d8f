/* build_structured.c - implements helpers of build.h for operators that are not element-wise. */
#include "kernels/op/base/op_impl.h"

#include <stdarg.h>
#include <stdio.h>

extern const struct op op_index_add, op_softmax_grad;

int
call_fail(enum err_code code, const struct call *c, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    struct str operands = {0};
    call_print_operands(c, &operands);
    int status = fail(code, "%s: %s; %s", c->op->name, what, str_text(&operands));
    str_free(&operands);
    return status;
}

/* Calls op on nin operands, with its attribute `axis`. Returns NULL if an operand is NULL, that is, if an earlier
 * helper has failed. */
static struct val *
call_axis(struct build *b, const struct op *op, int nin, struct val *const *in, int axis)
{
    for (int i = 0; i < nin; i++)
        if (!in[i]) return NULL;
    struct attr attr[OP_ATTR];
    op_attr_defaults(op, attr);
    attr_int(op, attr, "axis", axis);
    return b_call(b, op, nin, in, attr);
}

struct val *
b_softmax_grad(struct build *b, struct val *y, struct val *dy, int axis)
{
    return call_axis(b, &op_softmax_grad, 2, (struct val *[]){y, dy}, axis);
}

struct val *
b_index_add(struct build *b, struct val *like, int axis, struct val *ids, struct val *src)
{
    return call_axis(b, &op_index_add, 3, (struct val *[]){like, ids, src}, axis);
}

struct val *
b_unsqueeze(struct build *b, struct val *x, int64_t axis)
{
    if (!x) return NULL;
    int64_t size[MAX_DIM];
    int n = x->type.ndim + 1;
    for (int d = 0; d < n; d++) size[d] = d == axis ? 1 : x->type.dim[d - (d > axis)];
    return b_reshape(b, x, n, size);
}
