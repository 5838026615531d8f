/* explain_op.c - prints the description of one operator for explain(): layouts, source line, shards of results,
 * candidates. */
#include "actors/session/view/explain_op.h"
#include "actors/session/core/session.h"

#include <string.h>

static void
print_list(struct str *s, const char *const *list)
{
    for (int i = 0; list[i]; i++) str_addf(s, "%s%s", i ? ", " : "", list[i]);
}

static void
print_regret(struct str *s, const struct rille_explain_candidate *c)
{
    str_addf(s, "  %lld bytes moved, %.3g of the work per rank", (long long)c->bytes, c->share);
    if (c->regret_high == c->regret)
        str_addf(s, ", +%lld ns\n", (long long)c->regret);
    else if (c->regret_high == INT64_MAX)
        str_addf(s, ", at least +%lld ns\n", (long long)c->regret);
    else
        str_addf(s, ", +%lld to %lld ns\n", (long long)c->regret, (long long)c->regret_high);
}

static void
print_shape(struct str *s, int ndim, const int64_t *shape)
{
    str_add(s, "{");
    for (int d = 0; d < ndim; d++) str_addf(s, "%s%lld", d ? ", " : "", (long long)shape[d]);
    str_add(s, "}");
}

static void
print_op_results(struct str *s, const struct rille_explain_op *op)
{
    for (int i = 0; i < op->noutput; i++) {
        const struct rille_explain_result *r = &op->results[i];
        bool whole = !memcmp(r->part, r->shape, sizeof(r->shape[0]) * (size_t)r->ndim), even = true;
        for (int d = 0; d < r->ndim; d++) even &= r->part[d] == 0 || r->shape[d] % r->part[d] == 0;
        str_add(s, whole ? "      each rank has all of " : even ? "      each rank has " : "      a rank has at most ");
        if (!whole) print_shape(s, r->ndim, r->part);
        if (!whole) str_add(s, " of ");
        print_shape(s, r->ndim, r->shape);
        str_add(s, "\n");
    }
}

void
explain_op_print(struct str *s, const struct rille_explain_op *op)
{
    str_addf(s, "%-14s ", op->name);
    print_list(s, op->inputs);
    str_add(s, " -> ");
    print_list(s, op->outputs);
    str_pad(s, 60);
    str_addf(s, "  %s\n", op->line);
    print_op_results(s, op);
    enum { SHOWN = 6 };
    for (int k = 0; k < op->ncandidate && k < SHOWN; k++) {
        str_add(s, k ? "      or       " : "      chosen   ");
        print_list(s, op->candidates[k].inputs);
        str_add(s, " -> ");
        print_list(s, op->candidates[k].outputs);
        str_pad(s, 60);
        if (op->candidates[k].regret >= 0)
            print_regret(s, &op->candidates[k]);
        else
            str_addf(s, "  %lld bytes moved, %lld pending, %.3g of the work per rank\n",
                     (long long)op->candidates[k].bytes, (long long)op->candidates[k].owed, op->candidates[k].share);
    }
    if (op->ncandidate > SHOWN) str_addf(s, "      and %d more\n", op->ncandidate - SHOWN);
}
