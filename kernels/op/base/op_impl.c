/* op_impl.c - code that operator files share: readers of attributes and numbers, loops over memory. */
#include "kernels/op/base/op_impl.h"

#include "runtime/data/rng.h"

#include <math.h>
#include <string.h>

double
number_f(const struct view *v, double other)
{
    if (v->dtype == DT_NONE) return other;
    return is_real(v) ? *(const double *)v->data : (double)*(const int64_t *)v->data;
}

int64_t
number_i(const struct view *v, int64_t other)
{
    if (v->dtype == DT_NONE) return other;
    return is_real(v) ? (int64_t) * (const double *)v->data : *(const int64_t *)v->data;
}

struct axes
axes_of(const struct attr *a, enum attr_kind kind, int ndim)
{
    struct axes x = {0};
    int n = kind == ATTR_INTS ? a->n : a->set ? 1 : 0;
    for (int i = 0; i < n; i++) x.has[kind == ATTR_INTS ? a->list[i] : a->i] = true;
    for (int d = 0; d < ndim; d++) {
        if (n == 0) x.has[d] = true;
        if (x.has[d]) x.axis[x.n++] = (int8_t)d;
    }
    return x;
}

void
all_dims(const struct call *c, bool *gone)
{
    for (int d = 0; d < c->in[0].ndim; d++) gone[d] = true;
}

void
no_dims(const struct call *c, bool *gone)
{
    for (int d = 0; d < c->in[0].ndim; d++) gone[d] = false;
}

static int64_t
global_index(const struct view *v, const int64_t *at)
{
    int64_t index = 0;
    for (int d = 0; d < v->ndim; d++) index = index * v->global[d] + v->offset[d] + at[d];
    return index;
}

void
walk_start(struct walk *w, const struct view *v)
{
    *w = (struct walk){.left = view_numel(v)};
    w->global = global_index(v, w->at);
}

enum { ASK = 1 << 16 }; /* elements between two checks of whether the run was stopped (stop_now()) */

void
walk_next(struct walk *w, const struct view *v)
{
    if (--w->left % ASK == 0 && stop_now()) w->left = 0;
    w->global++;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (++w->at[d] < v->dim[d]) {
            if (d < v->ndim - 1) w->global = global_index(v, w->at);
            return;
        }
        w->at[d] = 0;
    }
}

static void
stretch_set(struct stretch *s)
{
    s->n = s->walk.left > 0 ? MIN(s->line - s->done, STRETCH_MOST) : 0;
    s->global = s->walk.global + s->done;
}

void
stretch_start(struct stretch *s, const struct view *v)
{
    *s = (struct stretch){.starts = *v, .line = v->ndim ? v->dim[v->ndim - 1] : 1};
    if (s->line > 0 && v->ndim) s->starts.dim[v->ndim - 1] = 1;
    walk_start(&s->walk, &s->starts);
    stretch_set(s);
}

void
stretch_next(struct stretch *s)
{
    s->at += s->n;
    s->done += s->n;
    if (s->done % ASK == 0 && stop_now()) s->walk.left = 0;
    if (s->done == s->line) {
        walk_next(&s->walk, &s->starts);
        s->done = 0;
    }
    stretch_set(s);
}

/* Fills the view with copies of the element *one. If all bits of the element are 0, clears the memory instead, which
 * is faster. */
static void
repeat(const struct view *v, void *one)
{
    static const char zero[sizeof(double)];
    size_t bytes = dtype_bytes(v->dtype);
    if (view_numel(v) == 0) return;
    if (view_is_dense(v) && !memcmp(one, zero, bytes)) {
        view_clear(v);
        return;
    }
    struct view src = *v;
    src.data = one;
    for (int d = 0; d < v->ndim; d++) src.stride[d] = 0;
    view_copy(v, &src);
}

double
flops_of_copy(const struct call *c)
{
    return (double)type_numel(&c->out[0]);
}

void
fill_view(const struct view *v, double value)
{
    double one;
    elem_set_f(v->dtype, &one, 0, value);
    repeat(v, &one);
}

void
fill_view_int(const struct view *v, int64_t value)
{
    int64_t one;
    elem_set_i(v->dtype, &one, 0, value);
    repeat(v, &one);
}

uint64_t
random_key(const struct kcall *k)
{
    int n = k->call->nin;
    return rng_key((uint64_t)number_i(&k->in[n - 2], 0), (uint64_t)number_i(&k->in[n - 1], 0));
}

bool
dense_out(const struct kcall *k)
{
    return view_is_dense(&k->out[0]);
}

static int
run_ref(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return k->call->op->host.ref(k);
}

const struct kernel_variant kernel_direct[] = {{"direct", .dense_in = true, .accepts = dense_out, .run = run_ref},
                                               {NULL}},
                            kernel_strided[] = {{"strided", .run = run_ref}, {NULL}};

const char *
linear_if_tensors(const struct call *c)
{
    for (int i = 0; i < c->nin; i++)
        if (is_number(&c->in[i]) || absent(&c->in[i])) return NULL;
    return "01";
}

/* Accepts the promoted dtype of the operands. Also accepts f32 for 16-bit operands, because sums of 16-bit floats
 * are f32 before rounding. */
int
product_dtype(const struct call *c, int at)
{
    enum dtype d = dtype_promote(c->in[0].dtype, false, c->in[1].dtype, false), to = (enum dtype)c->attr[at].i;
    bool good = !c->attr[at].set || to == d || (dtype_is_half(d) && to == DT_F32);
    return good ? 0
                : call_fail(E_DTYPE, c, "dtype must be %s%s, found %s", dtype_text(d),
                            dtype_is_half(d) ? " or f32" : "", dtype_text(to));
}

int64_t
cut_parts(const struct call *c, int k, int d)
{
    const struct layout *l = c->layout ? c->layout[k] : NULL;
    int64_t parts = 1;
    for (int a = 0; l && a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == d) parts *= l->place->axis[a];
    return parts;
}

bool
is_cut(const struct call *c, int k, int d)
{
    return cut_parts(c, k, d) > 1;
}

int
infer_one_more(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[0].ndim < MAX_DIM) return 0;
    return call_fail(E_SHAPE, c, "the result must have at most %d dimensions, found %d", MAX_DIM, MAX_DIM + 1);
}

int
infer_no_truth(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->out[0].dtype != DT_BOOL) return 0;
    return call_fail(E_DTYPE, c, "one of the operands must be float or integer, found only bool");
}

/* Rounds a number that is known at compile time to the 16-bit dtype d. Leaves a number that is only known at run
 * time unchanged. */
static struct val *
number_as(struct build *b, struct val *x, enum dtype d)
{
    if (!x->is_number || x->number.kind != NUM_FIXED) return x;
    uint16_t half;
    double rounded, given = x->number.is_int ? (double)x->number.i : x->number.f;
    if (x->number.is_int)
        elem_set_i(d, &half, 0, x->number.i);
    else
        elem_set_f(d, &half, 0, x->number.f);
    rounded = elem_get_f(d, &half, 0);
    return rounded == given || given != given ? x : b_number(b, rounded);
}

int
build_comparison(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    struct promotion p = {0};
    for (int i = 0; i < 2; i++) promotion_add(&p, &c->in[i]);
    enum dtype d = promotion_end(&p);
    if (!dtype_is_half(d)) return 0;
    struct val *x = number_as(b, in[0], d), *y = number_as(b, in[1], d);
    if (x != in[0] || y != in[1]) out[0] = b_call2(b, c->op, x, y);
    return b->failed ? (int)err_last() : 0;
}

int
source_f32(const struct call *c, int64_t *size)
{
    UNUSED(size);
    c->out[0].dtype = DT_F32;
    return 0;
}
