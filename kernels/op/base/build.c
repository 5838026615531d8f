/* build.c - implements the helpers of build.h. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/eltwise/tile.h"

#include <string.h>

extern const struct op op_add, op_cast, op_cos, op_div, op_eq, op_exp, op_exp_sum, op_expand, op_line_sum, op_log,
    op_logical_or, op_matmul, op_max, op_mul, op_ne, op_neg, op_permute, op_product_sum, op_reshape, op_sigmoid,
    op_sign, op_sin, op_slice, op_square, op_stop_gradient, op_sub, op_sum, op_transpose, op_where;

struct val *
b_call(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct attr defaults[OP_ATTR];
    if (!attr) op_attr_defaults(op, defaults);
    struct val *res[OP_OUT];
    return b->add(b, op, nin, in, attr ? attr : defaults, res);
}

/* The helpers below need operands. If an earlier helper has failed, an operand is NULL, and the helper returns NULL,
 * too. */
struct val *
b_call1(struct build *b, const struct op *op, struct val *x)
{
    if (!x) return NULL;
    return b_call(b, op, 1, &x, NULL);
}

struct val *
b_call2(struct build *b, const struct op *op, struct val *x, struct val *y)
{
    if (!x || !y) return NULL;
    return b_call(b, op, 2, (struct val *[]){x, y}, NULL);
}

struct val *
b_call3(struct build *b, const struct op *op, struct val *x, struct val *y, struct val *z)
{
    if (!x || !y || !z) return NULL;
    return b_call(b, op, 3, (struct val *[]){x, y, z}, NULL);
}

struct val *
b_number(struct build *b, double f)
{
    return b->number(b, f);
}
struct val *
b_integer(struct build *b, int64_t i)
{
    return b->integer(b, i);
}

struct val *
b_neg(struct build *b, struct val *x)
{
    return b_call1(b, &op_neg, x);
}
struct val *
b_exp(struct build *b, struct val *x)
{
    return b_call1(b, &op_exp, x);
}
struct val *
b_log(struct build *b, struct val *x)
{
    return b_call1(b, &op_log, x);
}
struct val *
b_square(struct build *b, struct val *x)
{
    return b_call1(b, &op_square, x);
}
struct val *
b_sin(struct build *b, struct val *x)
{
    return b_call1(b, &op_sin, x);
}
struct val *
b_cos(struct build *b, struct val *x)
{
    return b_call1(b, &op_cos, x);
}
struct val *
b_sign(struct build *b, struct val *x)
{
    return b_call1(b, &op_sign, x);
}
struct val *
b_sigmoid(struct build *b, struct val *x)
{
    return b_call1(b, &op_sigmoid, x);
}
struct val *
b_add(struct build *b, struct val *x, struct val *y)
{
    return b_call2(b, &op_add, x, y);
}
struct val *
b_sub(struct build *b, struct val *x, struct val *y)
{
    return b_call2(b, &op_sub, x, y);
}
struct val *
b_mul(struct build *b, struct val *x, struct val *y)
{
    return b_call2(b, &op_mul, x, y);
}
struct val *
b_div(struct build *b, struct val *x, struct val *y)
{
    return b_call2(b, &op_div, x, y);
}

struct val *
b_where(struct build *b, struct val *cond, struct val *x, struct val *y)
{
    return b_call3(b, &op_where, cond, x, y);
}

struct val *
b_scale(struct build *b, struct val *x, double f)
{
    return b_mul(b, x, b_number(b, f));
}
struct val *
b_shift(struct build *b, struct val *x, double f)
{
    return b_add(b, x, b_number(b, f));
}

/* ---- calls of operators with attributes ---- */

static struct attr *
attr_named(const struct op *op, struct attr *attr, const char *name)
{
    int i = op_attr_find(op, name);
    assert(i >= 0);
    attr[i].set = true;
    return &attr[i];
}

void
attr_int(const struct op *op, struct attr *attr, const char *name, int64_t i)
{
    attr_named(op, attr, name)->i = i;
}

void
attr_float(const struct op *op, struct attr *attr, const char *name, double f)
{
    attr_named(op, attr, name)->f = f;
}

void
attr_ints(const struct op *op, struct attr *attr, const char *name, int n, const int64_t *list)
{
    struct attr *a = attr_named(op, attr, name);
    assert(n <= ATTR_LIST);
    a->n = n;
    if (n > 0) memcpy(a->list, list, (size_t)n * sizeof *list);
}

/* Calls an operator on x alone, with its attribute `name` set to a list of integers. Other attributes have defaults. */
static struct val *
call_ints(struct build *b, const struct op *op, struct val *x, const char *name, int n, const int64_t *list)
{
    if (!x) return NULL;
    struct attr attr[OP_ATTR];
    op_attr_defaults(op, attr);
    attr_ints(op, attr, name, n, list);
    return b_call(b, op, 1, &x, attr);
}

static void
reduction(const struct op *op, const int64_t *axes, int naxes, bool keepdim, struct attr *attr)
{
    op_attr_defaults(op, attr);
    if (naxes > 0) attr_ints(op, attr, "axis", naxes, axes);
    attr_int(op, attr, "keepdim", keepdim);
}

struct val *
b_reduce(struct build *b, const struct op *op, struct val *x, const int64_t *axes, int naxes, bool keepdim)
{
    if (!x) return NULL;
    struct attr attr[OP_ATTR];
    reduction(op, axes, naxes, keepdim, attr);
    return b_call(b, op, 1, &x, attr);
}

struct val *
b_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim)
{
    return b_reduce(b, &op_sum, x, axes, naxes, keepdim);
}

struct val *
b_line_max(struct build *b, struct val *x, int64_t axis)
{
    return b_call1(b, &op_stop_gradient, b_reduce(b, &op_max, x, &axis, 1, true));
}

struct val *
b_line_exp_sum(struct build *b, struct val *x, struct val *m, int64_t axis)
{
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_exp_sum, attr);
    attr_ints(&op_exp_sum, attr, "axis", 1, &axis);
    return x && m ? b_call(b, &op_exp_sum, 2, (struct val *[]){x, m}, attr) : NULL;
}

struct val *
b_line_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, enum dtype d)
{
    struct attr attr[OP_ATTR];
    reduction(&op_line_sum, axes, naxes, true, attr);
    attr_int(&op_line_sum, attr, "dtype", d);
    return x ? b_call(b, &op_line_sum, 1, &x, attr) : NULL;
}

struct val *
b_true(struct build *b, struct val *x)
{
    return b_call2(b, &op_logical_or, x, b_integer(b, 1));
}

struct val *
b_along(struct build *b, struct val *x, struct val *y)
{
    return x && y ? b_mul(b, b_cast(b, b_true(b, x), x->type.dtype), y) : NULL;
}

/* Returns true if n is a view of its whole operand and keeps the operand's layout. A view of a part does not
 * qualify: if several parts of one sum were cast, each cast would compute the whole sum again in f32. */
static bool
shows_all(const struct node *n)
{
    return n->op->flags & OP_VIEW && type_numel(&n->out[0]->type) == type_numel(&n->in[0]->type) &&
           n->in[0]->layout == n->want[0];
}

/* Returns true if x is a sum in f16 or bf16, maybe reshaped, that is not computed yet. Such a sum can be computed in
 * f32 instead. */
static bool
is_unrounded(const struct val *x)
{
    const struct node *n = x->node;
    if (!n || n->state != NODE_NEW || !dtype_is_half(x->type.dtype)) return false;
    return n->op->rewrite.unrounded || (shows_all(n) && is_unrounded(n->in[0]));
}

static struct val *
unrounded(struct build *b, const struct node *n)
{
    if (n->op->rewrite.unrounded) return n->op->rewrite.unrounded(b, n);
    struct val *wide = unrounded(b, n->in[0]->node);
    return wide ? b_call(b, n->op, 1, &wide, n->attr) : NULL;
}

struct val *
b_cast(struct build *b, struct val *x, enum dtype d)
{
    if (!x || x->type.dtype == d) return x;
    if (d == DT_F32 && is_unrounded(x)) return unrounded(b, x->node);
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_cast, attr);
    attr_int(&op_cast, attr, "dtype", d);
    return b_call(b, &op_cast, 1, &x, attr);
}

struct val *
b_unrounded(struct build *b, const struct node *n)
{
    struct attr attr[OP_ATTR];
    memcpy(attr, n->attr, sizeof *attr * (size_t)op_nattr(n->op));
    attr_int(n->op, attr, "dtype", DT_F32);
    return b_call(b, n->op, n->nin, n->in, attr);
}

struct val *
b_wide(struct build *b, struct val *x)
{
    return x && dtype_is_half(x->type.dtype) ? b_cast(b, x, DT_F32) : x;
}

static struct val *
sum_as(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim, enum dtype d)
{
    if (!x) return NULL;
    struct attr attr[OP_ATTR];
    reduction(&op_sum, axes, naxes, keepdim, attr);
    attr_int(&op_sum, attr, "dtype", d);
    return b_call(b, &op_sum, 1, &x, attr);
}

struct val *
b_sum_wide(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim)
{
    if (!x || !dtype_is_half(x->type.dtype)) return b_sum(b, x, axes, naxes, keepdim);
    return sum_as(b, x, axes, naxes, keepdim, DT_F32);
}

struct val *
b_matmul_wide(struct build *b, struct val *x, struct val *y)
{
    struct attr attr[OP_ATTR];
    if (!x || !y) return NULL;
    op_attr_defaults(&op_matmul, attr);
    bool halves = x->type.dtype == y->type.dtype && dtype_is_half(x->type.dtype);
    if (halves) attr_int(&op_matmul, attr, "dtype", DT_F32);
    return b_call(b, &op_matmul, 2, (struct val *[]){x, y}, attr);
}

struct val *
b_total(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim)
{
    if (x && x->type.dtype == DT_I64) x = b_cast(b, x, DT_F64);
    return sum_as(b, x, axes, naxes, keepdim, DT_F64);
}

struct val *
b_center(struct build *b, struct val *x, const int64_t *axes, int naxes)
{
    if (!x) return NULL;
    int64_t n = naxes ? 1 : type_numel(&x->type);
    for (int i = 0; i < naxes; i++) n *= x->type.dim[axes[i]];
    struct val *mean = b_div(b, b_total(b, x, axes, naxes, true), b_integer(b, n));
    struct val *y = b_sub(b, x, mean);
    if (x->type.dtype != DT_F64) return b_cast(b, y, DT_F32);
    return b_sub(b, y, b_div(b, b_total(b, y, axes, naxes, true), b_integer(b, n)));
}

struct val *
b_narrow(struct build *b, struct val *y, const struct type *x)
{
    return dtype_is_float(x->dtype) ? b_cast(b, y, x->dtype) : y;
}

struct val *
b_reshape(struct build *b, struct val *x, int ndim, const int64_t *size)
{
    struct type want = type_of(DT_F32, ndim, size);
    if (!x || shape_equal(&x->type, &want)) return x;
    return call_ints(b, &op_reshape, x, "shape", ndim, size);
}

struct val *
b_expand(struct build *b, struct val *x, int ndim, const int64_t *size)
{
    struct type want = type_of(DT_F32, ndim, size);
    if (!x || shape_equal(&x->type, &want)) return x;
    return call_ints(b, &op_expand, x, "sizes", ndim, size);
}

struct val *
b_slice(struct build *b, struct val *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    if (!x) return NULL;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_slice, attr);
    attr_int(&op_slice, attr, "axis", axis);
    attr_int(&op_slice, attr, "start", start);
    attr_int(&op_slice, attr, "stop", stop);
    attr_int(&op_slice, attr, "step", step);
    return b_call(b, &op_slice, 1, &x, attr);
}

struct val *
b_permute(struct build *b, struct val *x, int naxes, const int64_t *axes)
{
    return call_ints(b, &op_permute, x, "axes", naxes, axes);
}

struct val *
b_squeeze(struct build *b, struct val *x, const int64_t *axes, int naxes)
{
    if (!x) return NULL;
    int64_t size[MAX_DIM];
    bool gone[MAX_DIM] = {false};
    int n = 0;
    for (int i = 0; i < naxes; i++) gone[axes[i]] = true;
    for (int d = 0; d < x->type.ndim; d++)
        if (naxes && !gone[d]) size[n++] = x->type.dim[d];
    return b_reshape(b, x, n, size);
}

struct val *
b_transpose(struct build *b, struct val *x, int i, int j)
{
    if (!x) return NULL;
    if (x->node && x->node->op->rewrite.transposed && x->type.ndim == 2 && i != j)
        return x->node->op->rewrite.transposed(b, x->node);
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_transpose, attr);
    attr_int(&op_transpose, attr, "axis0", i);
    attr_int(&op_transpose, attr, "axis1", j);
    return b_call(b, &op_transpose, 1, &x, attr);
}

struct val *
b_transpose_last(struct build *b, struct val *x)
{
    return x ? b_transpose(b, x, x->type.ndim - 2, x->type.ndim - 1) : NULL;
}

/* ---- building the gradients of broadcasting and of reductions ---- */

/* Sets axes to the dimensions of a tensor of type y along which a tensor of type t was repeated. Returns their number.
 */
static int
summed_axes(const struct type *y, const struct type *t, int64_t *axes)
{
    int n = 0, more = y->ndim - t->ndim;
    for (int d = 0; d < y->ndim; d++)
        if (d < more || (t->dim[d - more] == 1 && y->dim[d] != 1)) axes[n++] = d;
    return n;
}

struct val *
b_sum_to(struct build *b, struct val *g, const struct type *t)
{
    if (!g) return NULL;
    int64_t axes[MAX_DIM];
    int n = summed_axes(&g->type, t, axes), more = g->type.ndim - t->ndim;
    if (n > 0) g = b_sum(b, g, axes, n, n > more); /* b_sum has dropped the leading dimensions */
    return b_cast(b, b_reshape(b, g, t->ndim, t->dim), t->dtype);
}

/* Sets *x and *c if *x is the distance of a tensor from a tensor c that has size 1 in the dimensions `axes`, and is not
 * computed yet. A sum of products then needs the distances nowhere in memory. */
static void
find_center(struct val **x, struct val **c, const int64_t *axes, int naxes)
{
    const struct node *n = (*x)->node;
    if (!n || n->op->eltwise.tile != TILE_SUB || (*x)->store || n->state != NODE_NEW) return;
    struct val *from = n->in[0], *center = n->in[1];
    if (from->is_number || center->is_number || n->want[0] != from->layout || from->layout != (*x)->layout) return;
    if (from->type.dtype != (*x)->type.dtype || center->type.dtype != (*x)->type.dtype) return;
    struct type narrow = (*x)->type;
    for (int i = 0; i < naxes; i++) narrow.dim[axes[i]] = 1;
    if (!shape_equal(&from->type, &(*x)->type) || !shape_equal(&center->type, &narrow)) return;
    *x = from;
    *c = center;
}

struct val *
b_sum_products(struct build *b, struct val *g, struct val *x, const struct type *t)
{
    if (!g || !x) return NULL;
    const struct type *y = &g->type;
    bool one_pass = !g->is_number && !x->is_number && (y->dtype == DT_F32 || y->dtype == DT_F64) &&
                    x->type.dtype == y->dtype && shape_equal(&x->type, y);
    int64_t axes[MAX_DIM];
    int n = summed_axes(y, t, axes);
    if (!one_pass || n == 0) return b_sum_to(b, b_mul(b, g, x), t);
    struct attr attr[OP_ATTR];
    struct val *c = NULL;
    find_center(&x, &c, axes, n);
    op_attr_defaults(&op_product_sum, attr);
    attr_ints(&op_product_sum, attr, "axis", n, axes);
    struct val *sum = b_call(b, &op_product_sum, 3, (struct val *[]){x, c, g}, attr);
    return b_cast(b, b_reshape(b, sum, t->ndim, t->dim), t->dtype);
}

struct val *
b_keepdim(struct build *b, const struct node *n, struct val *y)
{
    const struct type *x = &n->in[0]->type;
    const struct attr *axis = &n->attr[0];
    int64_t size[MAX_DIM];
    for (int d = 0; d < x->ndim; d++) size[d] = axis->n ? x->dim[d] : 1;
    for (int i = 0; i < axis->n; i++) size[axis->list[i]] = 1;
    return b_reshape(b, y, x->ndim, size);
}

struct val *
b_unreduce(struct build *b, const struct node *n, struct val *y)
{
    const struct type *x = &n->in[0]->type;
    return b_expand(b, b_keepdim(b, n, y), x->ndim, x->dim);
}

void
b_share_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    const struct attr *axis = &n->attr[0];
    struct val *x = n->in[0];
    struct val *equal = b_call2(b, &op_eq, x, b_keepdim(b, n, n->out[0])), *nan = b_call2(b, &op_ne, x, x);
    struct val *taken = b_cast(b, b_call2(b, &op_logical_or, equal, nan), x->type.dtype);
    struct val *count = b_sum_wide(b, taken, axis->list, axis->n, true);
    din[0] = b_mul(b, taken, b_narrow(b, b_div(b, b_keepdim(b, n, dout[0]), count), &x->type));
}

void
b_zero_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    UNUSED(b), UNUSED(n), UNUSED(dout), UNUSED(din);
}

void
b_same_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    UNUSED(b);
    if (b_wants(n, 0)) din[0] = dout[0];
}

void
b_reshape_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    const struct type *x = &n->in[0]->type;
    if (b_wants(n, 0)) din[0] = b_reshape(b, dout[0], x->ndim, x->dim);
}

bool
b_wants(const struct node *n, int i)
{
    const struct val *v = i < n->nin ? n->in[i] : NULL;
    return v && !v->is_number && v->needs_grad && dtype_is_float(v->type.dtype);
}

extern const struct op op_index_add, op_softmax_grad;

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
