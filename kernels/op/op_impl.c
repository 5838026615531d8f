/* op_impl.c - what operator files share: attributes, walks over memory, rules of sources. */
#include "kernels/op/op_impl.h"

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
    return is_real(v) ? (int64_t)*(const double *)v->data : *(const int64_t *)v->data;
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

struct lines
lines_of(const struct view *v, int axis)
{
    struct lines l = {1, v->dim[axis], 1};
    for (int d = 0; d < axis; d++) l.outer *= v->dim[d];
    for (int d = axis + 1; d < v->ndim; d++) l.inner *= v->dim[d];
    return l;
}

int64_t
whole_index(const struct view *v, const int64_t *at)
{
    int64_t index = 0;
    for (int d = 0; d < v->ndim; d++) index = index * v->whole[d] + v->offset[d] + at[d];
    return index;
}

void
walk_start(struct walk *w, const struct view *v)
{
    *w = (struct walk){.left = view_numel(v)};
    w->whole = whole_index(v, w->at);
}

void
walk_next(struct walk *w, const struct view *v)
{
    w->left--;
    w->whole++;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (++w->at[d] < v->dim[d]) {
            if (d < v->ndim - 1) w->whole = whole_index(v, w->at);
            return;
        }
        w->at[d] = 0;
    }
}

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
    static const int64_t most[NDTYPE] = {[DT_BOOL] = 1, [DT_U8] = UINT8_MAX, [DT_I32] = INT32_MAX, [DT_I64] = INT64_MAX};
    return r == RED_MAX ? least[d] : r == RED_MIN ? most[d] : r == RED_PROD;
}

const char *
linear_if_tensors(const struct call *c)
{
    for (int i = 0; i < c->nin; i++)
        if (is_number(&c->in[i]) || absent(&c->in[i])) return NULL;
    return "01";
}

int
source_rule(const struct call *c, struct str *rule)
{
    for (int i = 0; i < c->nin; i++) str_add(rule, i ? ",=" : "=");
    str_add(rule, "->");
    for (int d = 0; d < c->attr[0].n; d++) str_addf(rule, "%c", letter(d));
    return 0;
}

/* The operator's own dtype is what its record's .dtype gave. */
int
source_infer(const struct call *c, int64_t *size)
{
    for (int d = 0; d < c->attr[0].n; d++) size[d] = c->attr[0].list[d];
    if (c->attr[1].i != DT_NONE) c->out[0].dtype = (uint8_t)c->attr[1].i;
    return 0;
}
