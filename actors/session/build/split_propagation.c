/* split_propagation.c - propagates splits from operands to results, by the letters of each operator's rule. */
#include "actors/session/build/split_propagation.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "sbp/divisor.h"
#include "sbp/infer.h"

#include <string.h>

static void
know_pieces(struct split_propagation *w, struct arena *a, const struct val *v, const int32_t *pieces)
{
    ARENA_GROW(a, w->val, w->nval + 1, w->capacity);
    struct split_propagation_val *x = &w->val[w->nval++];
    x->val = v;
    memcpy(x->pieces, pieces, sizeof *pieces * v->type.ndim);
}

void
split_propagation_begin(struct split_propagation *w, struct arena *a, const struct strategy *s, int nin,
                        struct val *const *in)
{
    for (int i = 0, k = 0; i < nin; i++)
        if (in[i] && in[i]->layout) know_pieces(w, a, in[i], s->pieces[k++]);
}

/* Returns the split of v by dimension; NULL: unknown. */
static const int32_t *
split_pieces(const struct split_propagation *w, const struct val *v)
{
    for (int32_t i = 0; v && i < w->nval; i++)
        if (w->val[i].val == v) return w->val[i].pieces;
    return NULL;
}

/* Divides a dimension, a product of letters of the rule, into `pieces` pieces in total: the first letter as far as
 * its size allows, then the next letter. cut: by letter, number of pieces. */
static void
cut_letters(const struct rule *r, const struct rule_dim *d, int32_t pieces, int32_t *cut)
{
    for (int k = 0; k < d->nfactor; k++) {
        int f = d->factor[k];
        int32_t n = k == d->nfactor - 1 ? pieces : (int32_t)common_divisor(pieces, MAX(1, r->factor[f].size));
        cut[f] = MAX(cut[f], n);
        pieces /= n;
    }
}

static void
read_pieces(const struct rule_operand *o, int ndim, const int32_t *cut, int32_t *pieces)
{
    for (int d = 0; d < ndim; d++) {
        pieces[d] = 1;
        for (int k = 0; !o->ignored && d < o->ndim && k < o->dim[d].nfactor; k++) pieces[d] *= cut[o->dim[d].factor[k]];
    }
}

void
split_propagation_operator(const struct split_propagation *w, struct arena *a, struct call *c, struct val *const *in,
                           struct split_propagation_op *out)
{
    struct rule r;
    int32_t cut[RULE_FACTOR];
    *out = (struct split_propagation_op){0};
    if (call_infer(a, c, &r)) { /* the error is reported when the call is derived */
        err_clear();
        return;
    }
    for (int f = 0; f < RULE_FACTOR; f++) cut[f] = 1;
    for (int i = 0; i < c->nin; i++) {
        const int32_t *pieces = split_pieces(w, in[i]);
        out->known = out->known || pieces;
        for (int d = 0; pieces && !r.operand[i].ignored && d < c->in[i].ndim; d++)
            cut_letters(&r, &r.operand[i].dim[d], pieces[d], cut);
    }
    for (int f = 0; f < r.nfactor; f++)
        if (cut[f] > 1 && r.factor[f].unsplit && !c->op->split_form) { /* the operator cannot split this letter */
            out->known = false;
            return;
        }
    out->own.group = w->group;
    for (int i = 0; i < c->nin; i++) {
        if (!c->layout[i]) continue;
        int32_t k = out->own.noperand++;
        if (k == STRATEGY_OPERAND) {
            out->known = false;
            return;
        }
        out->own.naxis[k] = c->in[i].ndim;
        read_pieces(&r.operand[i], c->in[i].ndim, cut, out->own.pieces[k]);
    }
    for (int k = 0; k < c->nout; k++) read_pieces(&r.operand[c->nin + k], c->out[k].ndim, cut, out->result[k]);
}

void
split_propagation_made(struct split_propagation *w, struct arena *a, const struct split_propagation_op *o, int nout,
                       struct val *const *out)
{
    for (int k = 0; o->known && k < nout; k++)
        if (out[k] && !split_pieces(w, out[k])) know_pieces(w, a, out[k], o->result[k]);
}
