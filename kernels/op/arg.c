/* arg.c - what argmax and argmin share: the position of the best value along a dimension, or among all elements. */
#include "kernels/op/arg.h"

enum { AXIS, KEEPDIM };

static bool
looks_along(const struct call *c, int d)
{
    return !c->attr[AXIS].set || c->attr[AXIS].i == d;
}

int
arg_rule(const struct call *c, struct str *rule)
{
    int ndim = c->in[0].ndim;
    for (int d = 0; d < ndim; d++) str_addf(rule, looks_along(c, d) ? "[%c]" : "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < ndim; d++)
        if (!looks_along(c, d))
            str_addf(rule, "%c", letter(d));
        else if (c->attr[KEEPDIM].i)
            str_add(rule, "1");
    return 0;
}

int
arg_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    for (int d = 0; d < c->in[0].ndim; d++)
        if (looks_along(c, d) && c->in[0].dim[d] == 0)
            return fail(E_SHAPE, "%s: dimension %d is empty: there is no position to give", c->op->name, d);
    return 0;
}

int
arg_ref(const struct kcall *k, bool (*better)(double x, double best))
{
    const struct view *x = &k->in[0];
    const struct attr *axis = &k->call->attr[AXIS];
    struct lines l = axis->set ? lines_of(x, (int)axis->i) : (struct lines){1, view_numel(x), 1};
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t first = 0;
            for (int64_t s = 1; s < l.size; s++) {
                double best = elem_get_f(x->dtype, x->data, (o * l.size + first) * l.inner + i);
                if (better(elem_get_f(x->dtype, x->data, (o * l.size + s) * l.inner + i), best)) first = s;
            }
            i64_of(&k->out[0])[o * l.inner + i] = first;
        }
    return 0;
}

/* Is a dimension that is looked along cut? */
static bool
is_split(const struct call *c)
{
    const struct layout *l = c->layout ? c->layout[0] : NULL;
    if (!l) return false;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->place->axis[a] > 1 && looks_along(c, l->sbp[a].axis)) return true;
    return false;
}

/* best = max x; y = min(position where x == best or x is NaN, else beyond all) */
int
arg_build(struct build *b, const struct call *c, const struct op *best, struct val *x, struct val **out)
{
    if (!is_split(c)) return 0;
    const struct attr *axis = &c->attr[AXIS];
    int64_t axes[1] = {axis->i};
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_position, attr);
    if (axis->set) attr_int(&op_position, attr, "axis", axis->i);
    struct val *position = b_call(b, &op_position, 1, &x, attr);
    struct val *value = b_reduce(b, best, x, axes, axis->set, true);
    struct val *here = b_call2(b, &op_logical_or, b_call2(b, &op_eq, x, value), b_call2(b, &op_ne, x, x));
    struct val *found = b_where(b, here, position, b_integer(b, INT64_MAX));
    out[0] = b_reduce(b, &op_min, found, axes, axis->set, c->attr[KEEPDIM].i);
    return b->failed ? (int)err_last() : 0;
}
