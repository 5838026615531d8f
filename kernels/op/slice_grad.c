/* slice_grad.c - the gradient of slice: writes dy at the sliced range of a tensor of zeros. */
#include "kernels/op/lib/join.h"
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/copies.h"
#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

extern const struct op op_slice, op_slice_grad;

enum { AXIS, START, STEP, SIZE };

static int
infer(const struct call *c, int64_t *size)
{
    *size = c->attr[SIZE].i;
    return 0;
}

static int
rule(const struct call *c, struct str *rule)
{
    int axis = (int)c->attr[AXIS].i, ndim = c->in[0].ndim;
    for (int d = 0; d < ndim; d++) str_addf(rule, d == axis ? "[%c]" : "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < ndim; d++) str_addf(rule, "%c", letter(d == axis ? ndim : d));
    return 0;
}

static int
place(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    const struct view *y = &k->out[0];
    struct view window = k->in[0];
    int axis = (int)a[AXIS].i;
    fill_view(y, 0);
    if (view_numel(&window) == 0) return 0;
    for (int d = 0; d < y->ndim; d++) window.stride[d] = y->stride[d];
    window.stride[axis] *= a[STEP].i;
    window.dtype = y->dtype;
    window.data = (char *)y->data + a[START].i * y->stride[axis] * (int64_t)dtype_bytes(y->dtype);
    copies_run(&window, &k->in[0], k->threads);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct attr attr[OP_ATTR];
    int64_t axis = n->attr[AXIS].i, last = n->in[0]->type.dim[axis] - 1;
    int64_t start = n->attr[START].i, step = n->attr[STEP].i;
    op_attr_defaults(&op_slice, attr);
    attr_int(&op_slice, attr, "axis", axis);
    attr_int(&op_slice, attr, "start", start);
    attr_int(&op_slice, attr, "stop", last < 0 ? start : start + last * step + 1);
    attr_int(&op_slice, attr, "step", step);
    din[0] = b_call(b, &op_slice, 1, dout, attr);
}

/* ---- the sum of many slice_grads, in work that is linear in the size of their operands ----
 *
 * Example: a loop that reads x[t] for each t has as many slice_grads as x has rows. The rows are joined once, instead
 * of adding as many tensors of x's size. */

struct piece { /* the gradient of entries start .. stop - 1 of the axis */
    struct val *g;
    int64_t start, stop;
    int32_t nth;  /* position in the list of operands; pieces with equal start and stop keep this order */
    int64_t step; /* distance between entries; if > 1, stop is start + the number of entries */
};

static int
by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->stop != y->stop) return x->stop < y->stop ? -1 : 1;
    return x->nth < y->nth ? -1 : 1;
}

/* Returns the piece padded with zeros to the entries lo .. hi - 1. */
static struct piece
pad_piece(struct build *b, int64_t axis, struct piece p, int64_t lo, int64_t hi)
{
    struct attr attr[OP_ATTR];
    if (p.start == lo && p.stop == hi) return p;
    op_attr_defaults(&op_slice_grad, attr);
    attr_int(&op_slice_grad, attr, "axis", axis);
    attr_int(&op_slice_grad, attr, "start", p.start - lo);
    attr_int(&op_slice_grad, attr, "size", hi - lo);
    return (struct piece){b_call(b, &op_slice_grad, 1, &p.g, attr), lo, hi, p.nth, 1};
}

/* Joins n disjoint pieces in order; zeros fill the gaps between them. */
static struct piece
join_pieces(struct build *b, int64_t axis, int32_t n, const struct piece *p)
{
    struct val **g = must_alloc(sizeof(*g) * (size_t)n);
    for (int32_t i = 0; i < n; i++)
        g[i] = pad_piece(b, axis, p[i], p[i].start, i + 1 < n ? p[i + 1].start : p[i].stop).g;
    struct piece joined = {b_join(b, axis, n, g), p[0].start, p[n - 1].stop, 0, 1};
    free(g);
    return joined;
}

static struct val *sum_slices(struct build *b, int n, struct val *const *x);

static struct val *
add_values(struct build *b, int32_t n, struct val *const *x)
{
    struct val *total = x[0];
    for (int32_t i = 1; i < n; i++) total = b_add(b, total, x[i]);
    return total;
}

/* Returns the sum of values of one shape. If all are slice_grads that are not computed yet, joins their operands
 * instead. */
static struct val *
sum_values(struct build *b, int32_t n, struct val *const *x)
{
    bool slices = true;
    for (int32_t i = 0; i < n; i++) {
        const struct node *from = x[i] ? x[i]->node : NULL;
        slices =
            slices && from && from->op == &op_slice_grad && from->state == NODE_NEW && x[i]->layout == x[0]->layout;
    }
    return slices && n > 1 ? sum_slices(b, n, x) : add_values(b, n, x);
}

/* Replaces pieces of the same range by their sum; returns the number of pieces that remain. */
static int32_t
sum_equal_pieces(struct build *b, int32_t n, struct piece *p)
{
    int32_t left = 0;
    struct val **g = must_alloc(sizeof(*g) * (size_t)n);
    for (int32_t i = 0, count; i < n; i += count) {
        for (count = 0; i + count < n && p[i + count].start == p[i].start && p[i + count].stop == p[i].stop; count++)
            g[count] = p[i + count].g;
        p[left] = p[i];
        p[left++].g = sum_values(b, count, g);
    }
    free(g);
    return left;
}

/* Returns the sum of pieces that cover one connected range. Joins pieces that do not overlap to layers, with as many
 * pieces per layer as possible, and adds the layers. */
static struct piece
sum_connected_pieces(struct build *b, int64_t axis, int32_t n, const struct piece *p, int64_t stop)
{
    if (n == 1) return p[0];
    int32_t nlayer = 0, left = n, *layer = must_alloc(sizeof *layer * (size_t)n);
    struct piece *row = must_alloc(sizeof *row * (size_t)n);
    struct val **g = must_alloc(sizeof(*g) * (size_t)n);
    for (int32_t count = 0; left > 0; left -= count, count = 0, nlayer++) {
        for (int32_t i = 0; i < n; i++) {
            if (layer[i] || (count && p[i].start < row[count - 1].stop)) continue;
            layer[i] = 1 + nlayer;
            row[count++] = p[i];
        }
        g[nlayer] = pad_piece(b, axis, join_pieces(b, axis, count, row), p[0].start, stop).g;
    }
    struct piece all = {add_values(b, nlayer, g), p[0].start, stop, 0, 1};
    free(layer);
    free(row);
    free(g);
    return all;
}

/* Returns the sum of n pieces of one axis, padded to `size` entries. */
static struct val *
sum_pieces(struct build *b, int64_t axis, int32_t n, struct piece *p, int64_t size)
{
    int32_t nrange = 0;
    qsort(p, (size_t)n, sizeof *p, by_start);
    n = sum_equal_pieces(b, n, p);
    for (int32_t i = 0, count; i < n; i += count) {
        int64_t stop = p[i].stop;
        for (count = 1; i + count < n && p[i + count].start < stop; count++) stop = MAX(stop, p[i + count].stop);
        p[nrange++] = sum_connected_pieces(b, axis, count, p + i, stop);
    }
    return pad_piece(b, axis, join_pieces(b, axis, nrange, p), 0, size).g;
}

/* Compares pieces by step, and then by the remainder of start by step. */
static int
by_step(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->start % x->step != y->start % y->step) return x->start % x->step < y->start % y->step ? -1 : 1;
    return by_start(a, b);
}

/* Returns the sum of n pieces of one step above 1, sorted by by_step(). Reads the axis as a matrix with `step` columns:
 * a piece is a part of one column. Joins the pieces of each column, and then the columns. */
static struct val *
sum_strided(struct build *b, int64_t axis, int32_t n, const struct piece *p, const struct type *sum)
{
    int64_t step = p[0].step, rows = (sum->dim[axis] - 1) / step + 1, dim[MAX_DIM];
    struct piece *part = must_alloc(sizeof *part * 2 * (size_t)n), *column = part + n;
    int32_t ncolumn = 0;
    for (int32_t i = 0, count; i < n; i += count) {
        int64_t at = p[i].start % step;
        for (count = 0; i + count < n && p[i + count].start % step == at; count++) {
            part[count] = p[i + count];
            part[count].start = p[i + count].start / step;
            part[count].stop = part[count].start + p[i + count].stop - p[i + count].start;
            part[count].step = 1;
        }
        struct val *g = sum_pieces(b, axis, count, part, rows);
        column[ncolumn++] = (struct piece){b_unsqueeze(b, g, axis + 1), at, at + 1, i, 1};
    }
    struct val *matrix = sum_pieces(b, axis + 1, ncolumn, column, step);
    free(part);
    memcpy(dim, sum->dim, sizeof *dim * sum->ndim);
    dim[axis] = rows * step;
    return b->failed ? NULL : b_slice(b, b_reshape(b, matrix, sum->ndim, dim), (int)axis, 0, sum->dim[axis], 1);
}

static struct val *
add_to(struct build *b, struct val *total, struct val *x)
{
    return total ? b_add(b, total, x) : x;
}

/* Lists the slice_grads of one axis as pieces, and returns the number of pieces. */
static int32_t
list_pieces(int axis, int n, struct val *const *x, struct piece *p)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct node *from = x[i]->node;
        int64_t start = from->attr[START].i, size = from->in[0]->type.dim[axis], step = from->attr[STEP].i;
        if (from->attr[AXIS].i == axis)
            p[count++] = (struct piece){from->in[0], start, start + size, i, size > 1 ? step : 1};
    }
    return count;
}

/* Returns the sum of slice_grads: joins slice_grads with the same axis and step to one tensor, and adds these
 * tensors. */
static struct val *
sum_slices(struct build *b, int n, struct val *const *x)
{
    const struct type *sum = &x[0]->type;
    struct val *total = NULL;
    struct piece *p = must_alloc(sizeof *p * (size_t)n);
    for (int axis = 0; axis < sum->ndim; axis++) {
        int32_t npiece = list_pieces(axis, n, x, p);
        qsort(p, (size_t)npiece, sizeof *p, by_step);
        for (int32_t i = 0, count; i < npiece; i += count) {
            for (count = 1; i + count < npiece && p[i + count].step == p[i].step;) count++;
            if (p[i].step == 1)
                total = add_to(b, total, sum_pieces(b, axis, count, p + i, sum->dim[axis]));
            else if (count > 1 && sum->ndim < MAX_DIM)
                total = add_to(b, total, sum_strided(b, axis, count, p + i, sum));
            else
                for (int32_t k = 0; k < count; k++) total = add_to(b, total, x[p[i + k].nth]);
        }
    }
    free(p);
    return total;
}

static const char element[] = BODY({
    typedef decltype(x0(at)) value;
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) from[d] = at[d];
    const int64_t axis = c->attr[AXIS].i, past = at[axis] - c->attr[START].i, step = c->attr[STEP].i;
    from[axis] = past / step;
    return past % step == 0 && from[axis] >= 0 && from[axis] < dim0(axis) && past / step * step == past ? x0(from)
                                                                                                        : (value)0;
});

const struct op op_slice_grad = {
    .name = "slice_grad",
    .doc = "y[start + i step] = x[i] along axis, else 0",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension"},
             [START] = {"start", ATTR_INT, .doc = "position of the first entry"},
             [STEP] = {"step", ATTR_INT, .i = 1, .doc = "distance between entries"},
             [SIZE] = {"size", ATTR_INT, ATTR_REQUIRED, .doc = "size of the dimension in the result"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .grad.build = grad,
    .rewrite.sum = sum_slices,
    .host.ref = place,
    .gpu.element = element,
    .host.kernel = kernel_strided,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,2} axis=1 start=1 step=2 size=6", "f32{3} axis=0 start=0 size=5"},
};
