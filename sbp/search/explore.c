/* explore.c - branch and bound: reduce, bound, prune, branch. */
#include "sbp/search/explore.h"

#include "sbp/net/dual.h"
#include "sbp/search/fewer.h"
#include "sbp/net/reduce.h"

#include <stdlib.h>
#include <string.h>

enum {
    SWEEPS = 4,   /* dual sweeps per bounding round */
    PATIENCE = 6, /* number of rounds without much gain after which the search branches */
    DOMAIN = 64,  /* maximum number of values of a variable whose dominated values are removed */
    MANY = 400,   /* minimum number of variables for which repeated layers are detected */
};

static bool
explore_stops(struct explore *s)
{
    if (!s->stopped && s->stop) s->stopped = s->stop(s->arg);
    return s->stopped;
}

/* Returns the cost that better solutions must be below. */
static int64_t
explore_below(const struct explore *s)
{
    return s->best >= NET_NEVER ? NET_NEVER : s->best - s->scale + 1;
}

/* Converts a solution of the reduced network to a solution of the original network. Records the solution if it is
 * better than the best known one. */
static void
found(struct explore *s, const struct cfn *c, const int32_t *pick, int64_t cost)
{
    if (cost >= s->best) return;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) s->value[v] = c->var[v].value[pick[v]];
    trail_restore(&s->trail, s->value);
    memcpy(s->choice, s->value, sizeof *s->choice * (size_t)s->nchoice);
    s->best = cost;
}

static int32_t
variables_left(const struct cfn *c)
{
    int32_t n = 0;
    for (int32_t v = 0; v < c->nvar; v++) n += c->var[v].n > 0;
    return n;
}

enum outcome { CLOSED, SMALLER, STUCK };

/* Returns true if the maximum number of bounding rounds was done. */
static bool
tired(const struct explore *s)
{
    return s->looks && s->nlook >= s->looks;
}

/* Initialises the dual. If layers of c repeat, starts from the messages of a network with few layers, and returns
 * true. */
static bool
begin_with_fewer(struct explore *s, struct cfn *c, struct dual *d)
{
    bool many = variables_left(c) >= MANY, known = false;
    int32_t *pick = must_alloc(sizeof *pick * (size_t)MAX(1, c->nvar));
    if (many) cfn_share(c);
    if (many && !s->nlook) known = fewer_messages(c, s->stop, s->arg, pick, &s->work);
    dual_begin(d, c);
    if (known) {
        memcpy(d->pick, pick, sizeof *pick * (size_t)c->nvar);
        found(s, c, d->pick, dual_polish(d));
    }
    free(pick);
    return known;
}

/* Sweeps until the network is closed (no better solution is left) or the bound stalls, then removes values. *bound:
 * raised to the last bound. */
static enum outcome
tighten(struct explore *s, struct cfn *c, int64_t *bound)
{
    struct dual d;
    int64_t before = -NET_NEVER;
    enum outcome is = STUCK;
    /* true: messages of a network with few layers are known. The loop then does at least one round, so that these
     * messages give a bound */
    bool known = begin_with_fewer(s, c, &d);
    int sweeps = known ? 1 : SWEEPS;
    for (int idle = 0;
         idle < (s->patience ? s->patience : PATIENCE) && is == STUCK && (known || (!tired(s) && !explore_stops(s)));) {
        s->nlook++;
        known = false;
        dual_sweep(&d, sweeps);
        s->work += 2 * sweeps * d.entries;
        int64_t best = s->best;
        found(s, c, d.pick, dual_polish(&d));
        dual_bound(&d);
        if (s->better && s->best == best && d.bound < explore_below(s)) s->better(s, 2 * sweeps * d.entries);
        if (d.bound >= explore_below(s)) is = CLOSED;
        int64_t gap = s->best - d.bound;
        idle = d.bound - before > gap / 64 ? 0 : idle + 1;
        before = MAX(before, d.bound);
        sweeps = SWEEPS;
    }
    int64_t gone;
    *bound = MAX(*bound, d.bound); /* bound of the messages that the proof contains */
    if (!dual_prune(&d, explore_below(s), &gone))
        is = CLOSED;
    else if (gone > 0)
        is = SMALLER;
    dual_end(&d);
    return is;
}

/* Returns the variable to branch on: that with the largest gap between its best and second-best value, weighted by
 * its number of edges and values. order: receives the value indices, sorted by lower bound. */
static int32_t
branch_variable(struct cfn *c, int32_t *order)
{
    struct dual d;
    int32_t best = 0;
    double most = -1;
    dual_begin(&d, c);
    dual_bound(&d);
    for (int32_t k = 0; k < d.n; k++) {
        const struct cfn_var *x = &c->var[d.order[k]];
        const int64_t *at = dual_value_bounds(&d, k);
        int64_t first = INT64_MAX, second = INT64_MAX;
        for (int32_t i = 0; i < x->n; i++) {
            second = at[i] < first ? first : MIN(second, at[i]);
            first = MIN(first, at[i]);
        }
        double gain = ((double)(second - first) + 1) * (x->nedge + 1) / x->n;
        if (gain <= most) continue;
        most = gain;
        best = k;
    }
    const int64_t *at = dual_value_bounds(&d, best);
    int32_t v = d.order[best];
    for (int32_t i = 0; i < c->var[v].n; i++) { /* insertion sort by lower bound */
        int32_t k = i;
        for (; k > 0 && at[order[k - 1]] > at[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    dual_end(&d);
    return v;
}

static bool explore_look(struct explore *s, struct cfn *c, int64_t *bound);

/* Branches on one variable, value by value. Returns true if all branches are closed. */
static bool
branch(struct explore *s, struct cfn *c)
{
    int32_t *order = must_alloc(sizeof *order * UINT16_MAX), gone = s->trail.ngone;
    int32_t v = branch_variable(c, order), n = c->var[v].n;
    bool closed = true;
    trail_say(&s->trail, "split %d\n", (int)v);
    for (int32_t k = 0; k < n && closed; k++) {
        struct cfn *one = cfn_copy(c);
        uint8_t *keep = must_alloc((size_t)n);
        int64_t bound = 0;
        keep[order[k]] = 1;
        trail_say(&s->trail, "case %d\n", (int)c->var[v].value[order[k]]);
        cfn_keep(one, v, keep);
        closed = explore_look(s, one, &bound);
        trail_say(&s->trail, "end\n");
        trail_cut(&s->trail, gone);
        cfn_free(&one);
        free(keep);
    }
    free(order);
    return closed;
}

/* Searches a network. Returns true if no solution better than the best known one is left. bound: known lower bound
 * of this network. */
static bool
explore_look(struct explore *s, struct cfn *c, int64_t *bound)
{
    for (bool first = true;; first = false) {
        if (!cfn_reduce(c)) return true;
        if (first && !s->patience && !s->looks && cfn_dominate(c, DOMAIN)) continue;
        if (variables_left(c) == 0) {
            found(s, c, NULL, c->constant);
            *bound = MAX(*bound, c->constant);
            return true;
        }
        if (explore_stops(s)) return false;
        enum outcome is = tighten(s, c, bound);
        if (is == CLOSED) return true;
        if (tired(s) || explore_stops(s)) return false;
        if (is == STUCK) break;
    }
    if (s->root) return false;
    size_t len = s->trail.text ? s->trail.text->len : 0;
    bool closed = branch(s, c);
    /* an unfinished split proves nothing, so its text is removed */
    if (!closed && s->trail.text) str_cut(s->trail.text, len);
    return closed;
}

int64_t
explore(struct explore *s, struct cfn *c)
{
    int64_t bound = 0;
    c->trail = &s->trail;
    c->stop = s->stop;
    c->arg = s->arg;
    s->work += cfn_entries(c);
    s->value = must_alloc(sizeof *s->value * (size_t)MAX(1, c->nvar));
    bool closed = explore_look(s, c, &bound);
    int64_t least = closed || bound > s->best ? s->best : bound;
    s->work += c->work;
    trail_cut(&s->trail, 0);
    free(s->value);
    return least;
}
