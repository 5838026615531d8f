/* strategy.c - signatures by the number of pieces. */
#include "sbp/strategy.h"

#include "runtime/error.h"
#include "runtime/str.h"
#include "sbp/rule.h"

static void
print(const struct strategy *s, struct str *out)
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
refuse(const struct strategy *s, const struct call *c, const char *why, const struct place *p)
{
    struct str text = {0}, mesh = {0};
    print(s, &text);
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

int
strategy_check(const struct strategy *s, const struct call *c)
{
    int32_t n = 0;
    for (int i = 0; i < c->nin; i++) {
        if (!c->layout[i]) continue;
        if (n < s->noperand && s->naxis[n] != c->in[i].ndim)
            return refuse(s, c, "has not one number for each axis of each operand", NULL);
        n++;
    }
    return n == s->noperand ? 0 : refuse(s, c, "has not one list for each operand", NULL);
}

static int32_t
pieces_of(const struct layout *l, int d)
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
            if (pieces_of(layout[i], d) != s->pieces[n][d]) return false;
        n++;
    }
    return true;
}

int
strategy_fail(const struct strategy *s, const struct call *c, const struct place *p)
{
    return refuse(s, c, "fits no layouts of the operands on ", p);
}
