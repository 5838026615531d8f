/* strategy.c - restricts a call's signatures to those with the numbers of pieces that the user requested. */
#include "sbp/strategy.h"

#include "runtime/base/error.h"
#include "runtime/data/str.h"
#include "sbp/infer.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

static void
strategy_print(const struct strategy *s, struct str *out)
{
    str_add(out, "{");
    for (int32_t i = 0; i < s->noperand; i++) {
        str_add(out, i ? ", {" : "{");
        for (int32_t d = 0; d < s->naxis[i]; d++) str_addf(out, "%s%d", d ? ", " : "", (int)s->pieces[i][d]);
        str_add(out, "}");
    }
    str_add(out, "}");
}

static int
refuse_strategy(const struct strategy *s, const struct call *c, const char *why, const struct place *p)
{
    struct str text = {0}, mesh = {0};
    strategy_print(s, &text);
    if (p) place_print(p, &mesh);
    struct str operands = {0};
    call_print_operands(c, &operands);
    int status = fail(E_SBP, "%s: strategy %s %s%s: %s", c->op->name, str_text(&text), why, str_text(&mesh),
                      str_text(&operands));
    str_free(&text);
    str_free(&mesh);
    str_free(&operands);
    return status;
}

bool
strategy_same(const struct strategy *x, const struct strategy *y)
{
    if (!x || !y) return x == y;
    bool same = x->noperand == y->noperand;
    for (int32_t i = 0; i < x->noperand && same; i++)
        same = x->naxis[i] == y->naxis[i] &&
               !memcmp(x->pieces[i], y->pieces[i], sizeof x->pieces[i][0] * (size_t)x->naxis[i]);
    return same;
}

int
strategy_check(const struct strategy *s, const struct call *c)
{
    int32_t n = 0;
    for (int i = 0; i < c->nin; i++) {
        if (!c->layout[i]) continue;
        if (n < s->noperand && s->naxis[n] != c->in[i].ndim)
            return refuse_strategy(s, c, "must have one number for each axis of each operand", NULL);
        n++;
    }
    return n == s->noperand ? 0 : refuse_strategy(s, c, "must have one list for each operand", NULL);
}

static int32_t
layout_pieces(const struct layout *l, int d)
{
    int32_t n = 1;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == d) n *= l->place->axis[a];
    return n;
}

bool
strategy_fits(const struct strategy *s, const struct call *c, const struct layout *const *layout)
{
    int32_t n = 0;
    for (int i = 0; i < c->nin; i++) {
        if (!c->layout[i]) continue;
        for (int d = 0; d < c->in[i].ndim; d++)
            if (layout_pieces(layout[i], d) != s->pieces[n][d]) return false;
        n++;
    }
    return true;
}

struct cutting {
    struct atlas *at;
    const struct type *type;
    const struct layout *from, *best;
    sig_price_fn *price;
    int64_t least;
    /* by dimension: number of pieces into which the remaining mesh axes have to split the dimension */
    int32_t left[MAX_DIM];
    struct sbp sbp[MAX_AXIS];
};

static int
try_layout(struct cutting *w)
{
    const struct layout *l;
    for (int d = 0; d < w->type->ndim; d++)
        if (w->left[d] != 1) return 0;
    TRY(layout_new(w->at, w->from->place, w->sbp, w->from->order, &l));
    int64_t price = w->price(NULL, w->type, w->from, l);
    if (w->best && w->least <= price) return 0;
    w->best = l;
    w->least = price;
    return 0;
}

static int
try_axis(struct cutting *w, int axis)
{
    if (axis == w->from->place->naxis) return try_layout(w);
    int32_t n = w->from->place->axis[axis];
    w->sbp[axis] = (struct sbp){.kind = SBP_B};
    TRY(try_axis(w, axis + 1));
    for (int d = 0; d < w->type->ndim && n > 1; d++) {
        if (w->left[d] % n) continue;
        w->left[d] /= n;
        w->sbp[axis] = (struct sbp){.kind = SBP_S, .axis = (uint8_t)d};
        TRY(try_axis(w, axis + 1));
        w->left[d] *= n;
    }
    return 0;
}

int
strategy_layout(struct atlas *at, const struct type *t, const struct layout *from, const int32_t *pieces,
                sig_price_fn *price, const struct layout **out)
{
    struct cutting w = {.at = at, .type = t, .from = from, .price = price};
    memcpy(w.left, pieces, sizeof *pieces * t->ndim);
    TRY(try_axis(&w, 0));
    *out = w.best;
    return 0;
}

int
strategy_fail(const struct strategy *s, const struct call *c, const struct place *p)
{
    return refuse_strategy(s, c, "fits no layout of the operands on ", p);
}
