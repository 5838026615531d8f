/* reduced.c - the reduced dimensions of a call, the identity of each reduction, and the reference of reductions. */
#include "kernels/cpu/rows/reduced.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"
#include "sbp/write.h"
#include "sbp/infer.h"

#include <math.h>

enum { AXIS, KEEPDIM };

double
reduce_start_f(enum reduce r)
{
    static const double start[NREDUCE] = {[RED_MAX] = -INFINITY, [RED_MIN] = INFINITY, [RED_PROD] = 1};
    return start[r];
}

int64_t
reduce_start_i(enum reduce r, enum dtype d)
{
    static const int64_t least[NDTYPE] = {[DT_I32] = INT32_MIN, [DT_I64] = INT64_MIN};
    static const int64_t most[NDTYPE] = {
        [DT_BOOL] = 1, [DT_U8] = UINT8_MAX, [DT_I32] = INT32_MAX, [DT_I64] = INT64_MAX};
    return r == RED_MAX ? least[d] : r == RED_MIN ? most[d] : r == RED_PROD;
}

/* ---- reduced dimensions ---- */

void
reduced_dims(const struct call *c, bool *gone)
{
    const struct attr *axis = &c->attr[AXIS];
    for (int d = 0; d < c->in[0].ndim; d++) gone[d] = axis->n == 0;
    for (int i = 0; i < axis->n; i++) gone[axis->list[i]] = true;
}

int
reduce_rule(const struct call *c, struct str *rule)
{
    return rule_reduce(c, c->attr[AXIS].list, c->attr[AXIS].n, c->attr[KEEPDIM].i, rule);
}

int
reduce_rule_unsplit(const struct call *c, struct str *rule)
{
    struct str open = {0};
    bool gone[MAX_DIM];
    reduced_dims(c, gone);
    TRY(reduce_rule(c, &open));
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, gone[d] ? "[%c]" : "%c", open.text[d]);
    str_add(rule, open.text + c->in[0].ndim);
    str_free(&open);
    return 0;
}

int
reduce_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (reduced_count(c) > 0) return 0;
    struct str operands = {0};
    call_print_operands(c, &operands);
    int status = fail(E_SHAPE, "%s: no elements to reduce: a dimension is empty; %s", c->op->name, str_text(&operands));
    str_free(&operands);
    return status;
}

int64_t
reduced_count(const struct call *c)
{
    bool gone[MAX_DIM];
    int64_t n = 1;
    reduced_dims(c, gone);
    for (int d = 0; d < c->in[0].ndim; d++) n *= gone[d] ? c->in[0].dim[d] : 1;
    return n;
}

bool
reduces_split(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[0] : NULL;
    bool gone[MAX_DIM];
    if (!l) return false;
    reduced_dims(c, gone);
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->place->axis[a] > 1 && gone[l->sbp[a].axis]) return true;
    return false;
}

void
reduced_strides(const struct kcall *k, int64_t *stride)
{
    bool gone[MAX_DIM], keepdim = k->out[0].ndim == k->in[0].ndim;
    reduced_dims(k->call, gone);
    for (int d = 0, o = 0; d < k->in[0].ndim; d++) {
        stride[d] = gone[d] ? 0 : k->out[0].stride[o];
        o += keepdim || !gone[d];
    }
}

int64_t
reduced_index(const struct kcall *k, int64_t i)
{
    const struct view *x = &k->in[0];
    int64_t stride[MAX_DIM], to = 0;
    reduced_strides(k, stride);
    for (int d = x->ndim - 1; d >= 0; i /= x->dim[d--]) to += i % x->dim[d] * stride[d];
    return to;
}

/* ---- the reference ---- */

static double
combine_f(enum reduce r, double a, double x)
{
    if (r == RED_SUM) return a + x;
    if (r == RED_PROD) return a * x;
    return x != x || (r == RED_MAX ? x > a : x < a) ? x : a;
}

static int64_t
combine_i(enum reduce r, int64_t a, int64_t x)
{
    if (r == RED_SUM) return (int64_t)((uint64_t)a + (uint64_t)x);
    if (r == RED_PROD) return (int64_t)((uint64_t)a * (uint64_t)x);
    return (r == RED_MAX ? x > a : x < a) ? x : a;
}

int
reduce_ref(const struct kcall *k)
{
    enum reduce r = k->call->op->host.folds;
    const struct view *x = &k->in[0], *y = &k->out[0];
    int64_t n = view_numel(x), m = view_numel(y);
    for (int64_t i = 0; i < m; i++)
        if (y->dtype == DT_F64)
            ((double *)y->data)[i] = reduce_start_f(r);
        else
            ((int64_t *)y->data)[i] = reduce_start_i(r, k->call->out[0].dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t to = reduced_index(k, i);
        if (y->dtype == DT_F64) {
            double *a = (double *)y->data + to;
            *a = combine_f(r, *a, elem_get_f(x->dtype, x->data, i));
        } else {
            int64_t *a = (int64_t *)y->data + to;
            *a = combine_i(r, *a, elem_get_i(x->dtype, x->data, i));
        }
    }
    return 0;
}
