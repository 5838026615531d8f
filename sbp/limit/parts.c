/* parts.c - branch and bound: partitions are halved, best bound first or depth first. */
#include "sbp/limit/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10 }; /* subgradient steps per partition */

struct ruling { /* candidates excluded by one split, linked to the splits above */
    const struct ruling *up;
    int32_t node;
    const uint8_t *gone;
};
struct part {
    int64_t bound; /* scaled */
    const struct ruling *why;
    const int64_t *price; /* by time: prices that gave the bound */
    int32_t node;         /* node to split; -1: none can be split */
    const uint8_t *low;   /* by candidate of that node: in the low half */
};
struct tree {
    const struct parts *p;
    struct arena *a;
    struct part **heap;
    int32_t n, capacity;
    double **often; /* by node, by candidate: weighted count of its choices in this partition; recent ones weigh more */
};

/* ---- partitions by bound ---- */

static void
heap_add(struct tree *t, struct part *p)
{
    GROW(t->heap, t->n + 1, t->capacity);
    int32_t k = t->n++;
    for (; k > 0 && t->heap[(k - 1) / 2]->bound > p->bound; k = (k - 1) / 2) t->heap[k] = t->heap[(k - 1) / 2];
    t->heap[k] = p;
}

static struct part *
heap_take(struct tree *t)
{
    struct part *least = t->heap[0], *last = t->heap[--t->n];
    int32_t k = 0;
    for (int32_t c = 1; c < t->n; c = 2 * k + 1) {
        if (c + 1 < t->n && t->heap[c + 1]->bound < t->heap[c]->bound) c++;
        if (t->heap[c]->bound >= last->bound) break;
        t->heap[k] = t->heap[c];
        k = c;
    }
    t->heap[k] = last;
    return least;
}

/* ---- choice of the split ---- */

static bool
is_parts_open(const struct parts *p, int32_t i, int32_t k)
{
    return !p->ruled_out[i][k] && p->net->node[i].cost[k] < NET_NEVER;
}

/* Returns the spread (mean absolute deviation) of the priced bytes that a node chose; -1: fewer than two open
 * candidates. *mean: their average. If the node always chose the same bytes, returns a tiny fraction of its possible
 * spread. */
static double
branch_gap(const struct tree *t, int32_t i, double *mean)
{
    double sum = 0, all = 0, much = 0, low = INFINITY, high = -INFINITY;
    int32_t n = t->p->net->node[i].ncand, open = 0;
    const int64_t *worth = t->p->limit->extra[i];
    for (int32_t k = 0; k < n; k++) {
        if (!is_parts_open(t->p, i, k)) continue;
        open++;
        sum += t->often[i][k] * (double)worth[k];
        all += t->often[i][k];
        low = MIN(low, (double)worth[k]);
        high = MAX(high, (double)worth[k]);
    }
    if (open < 2) return -1;
    *mean = all > 0 ? sum / all : (low + high) / 2;
    for (int32_t k = 0; k < n && all > 0; k++)
        if (is_parts_open(t->p, i, k)) much += t->often[i][k] / all * fabs((double)worth[k] - *mean);
    if (much > 1e-9 * (high - low)) return much;
    *mean = (low + high) / 2;
    return 1e-9 * (high - low);
}

/* Returns the open candidates that cost at most `mean`. If that would be all or none, returns only the first. */
static const uint8_t *
low_half(const struct tree *t, int32_t i, double mean)
{
    int32_t n = t->p->net->node[i].ncand, nlow = 0, open = 0, first = -1;
    uint8_t *low = ARENA_ARRAY(t->a, uint8_t, n);
    for (int32_t k = 0; k < n; k++) {
        if (!is_parts_open(t->p, i, k)) continue;
        if (open++ == 0) first = k;
        nlow += low[k] = (double)t->p->limit->extra[i][k] <= mean;
    }
    if (nlow && nlow < open) return low;
    memset(low, 0, (size_t)n);
    low[first] = 1;
    return low;
}

/* Splits x at the node on whose bytes choices at nearly optimal prices disagree most. */
static void
choose_split(const struct tree *t, struct part *x)
{
    double most = -1, at = 0;
    x->node = -1;
    for (int32_t i = 0; i < t->p->net->nnode; i++) {
        double mean = 0, much = branch_gap(t, i, &mean);
        if (much <= most) continue;
        most = much;
        at = mean;
        x->node = i;
    }
    if (x->node >= 0) x->low = low_half(t, x->node, at);
}

/* ---- bounding ---- */

static void
rule(const struct parts *p, const struct ruling *why, int64_t cost)
{
    for (; why; why = why->up)
        for (int32_t k = 0; k < p->net->node[why->node].ncand; k++)
            if (why->gone[k]) p->ruled_out[why->node][k] = cost;
}

static void
count_choice(const struct tree *t)
{
    for (int32_t i = 0; i < t->p->net->nnode; i++) {
        for (int32_t k = 0; k < t->p->net->node[i].ncand; k++) t->often[i][k] *= 0.8;
        t->often[i][t->p->choice[i]] += 1;
    }
}

static void
forget_choices(const struct tree *t)
{
    for (int32_t i = 0; i < t->p->net->nnode; i++)
        memset(t->often[i], 0, sizeof *t->often[i] * (size_t)t->p->net->node[i].ncand);
}

/* Takes some subgradient steps from x->price. Sets x's bound, the prices of that bound, and the split. */
static void
bound_part(const struct tree *t, struct part *x)
{
    const struct parts *p = t->p;
    size_t bytes = sizeof *x->price * (size_t)p->limit->ntime;
    int64_t *best = arena_dup(t->a, x->price, bytes);
    memcpy(p->limit->price, best, bytes);
    p->limit->steps = 0;
    rule(p, x->why, NET_NEVER);
    forget_choices(t);
    for (int32_t k = 0; k < STEPS && x->bound < p->below(p->of) && !p->stop(p->of); k++) {
        bool found;
        int64_t bound = p->bound(p->of, &found);
        if (bound > x->bound) {
            x->bound = bound;
            memcpy(best, p->limit->price, bytes);
        }
        if (!found) break;
        count_choice(t);
        limit_step(p->limit, (double)bound, p->goal(p->of, (double)bound));
    }
    memcpy(p->limit->price, best, bytes);
    limit_price(p->limit);
    x->price = best;
    choose_split(t, x);
    rule(p, x->why, 0);
    p->beside(p->of);
}

static struct part *
half_of(struct tree *t, const struct part *x, bool low)
{
    int32_t n = t->p->net->node[x->node].ncand;
    uint8_t *gone = ARENA_ARRAY(t->a, uint8_t, n);
    struct ruling *why = ARENA_NEW(t->a, struct ruling);
    struct part *half = ARENA_NEW(t->a, struct part);
    for (int32_t k = 0; k < n; k++) gone[k] = x->low[k] != low;
    *why = (struct ruling){x->why, x->node, gone};
    *half = (struct part){.bound = x->bound, .why = why, .price = x->price};
    bound_part(t, half);
    return half;
}

/* Splits x. Returns the half to split next (dive); NULL: none. */
static struct part *
split_part(struct tree *t, const struct part *x, bool dive)
{
    struct part *high = half_of(t, x, false), *low = half_of(t, x, true), *more = low->bound < high->bound ? high : low;
    struct part *less = more == low ? high : low;
    int64_t below = t->p->below(t->p->of);
    if (more->bound < below) heap_add(t, more);
    if (less->bound >= below) return NULL;
    if (dive && less->node >= 0) return less;
    heap_add(t, less);
    return NULL;
}

int64_t
parts_bound(const struct parts *p, int64_t bound, const int64_t *price)
{
    struct arena a = {0};
    struct tree t = {.p = p, .a = &a};
    struct part *all = ARENA_NEW(&a, struct part);
    *all = (struct part){.bound = bound, .price = price};
    t.often = ARENA_ARRAY(&a, double *, p->net->nnode + 1);
    for (int32_t i = 0; i < p->net->nnode; i++) t.often[i] = ARENA_ARRAY(&a, double, p->net->node[i].ncand);
    bound_part(&t, all);
    heap_add(&t, all);
    int32_t dived = 0; /* dive splits minus best-bound splits */
    for (struct part *x = NULL; x || t.n;) {
        bool dive = x || dived <= 0;
        if (!x) x = heap_take(&t);
        if (p->stop(p->of)) {
            heap_add(&t, x);
            break;
        }
        bool is_open = x->node >= 0 && x->bound < p->below(p->of); /* otherwise the search is finished with it */
        if (is_open) dived += dive ? 1 : -1;
        x = is_open ? split_part(&t, x, dive) : NULL;
    }
    bound = t.n ? MIN(t.heap[0]->bound, p->below(p->of)) : p->below(p->of);
    free(t.heap);
    arena_fini(&a);
    return bound;
}
