/* order.c - tests whether a task precedes another, and adds missing edges.
 *
 * Edges point forward in the list of tasks. To find out whether a precedes b, a search follows edges backwards from
 * b. To shorten searches, tasks are partitioned into lines: a line is a chain of tasks, each with an edge to the
 * next. The next task on a line is the successor with the longest path to a task without successors. So each long
 * path of the program (forward, loss, backward) is one line. A search for a may stop at a or at any later task on
 * a's line. After LOOKS tasks, or SCANS times as many edges, the search gives up and an edge is added. A redundant
 * edge costs a message, but is never wrong. */
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/draft.h"

#include <string.h>

enum { LOOKS = 128, SCANS = 16 };

/* Computes, by task, the length (in tasks) of the longest path that begins at the task, and the next task on this
 * path; -1: none. */
static void
find_heirs(const struct lower *l, int32_t *height, int32_t *heir)
{
    for (int32_t i = 0; i < l->ndraft; i++) heir[i] = -1;
    for (int32_t b = l->ndraft - 1; b >= 0; b--)
        for (const struct edge *e = l->draft[b].in; e; e = e->next) {
            if (heir[e->task] >= 0 && height[b] < height[e->task]) continue;
            heir[e->task] = b;
            height[e->task] = height[b] + 1;
        }
}

void
order_begin(struct lower *l)
{
    struct order *o = &l->order;
    int32_t n = l->ndraft + 1, *height = ARENA_ARRAY(&l->pass, int32_t, n), *heir = ARENA_ARRAY(&l->pass, int32_t, n);
    o->line = ARENA_ARRAY(&l->pass, int32_t, n);
    o->place = ARENA_ARRAY(&l->pass, int32_t, n);
    o->seen = ARENA_ARRAY(&l->pass, int32_t, n);
    o->queue = ARENA_ARRAY(&l->pass, int32_t, n);
    o->wanted = ARENA_ARRAY(&l->pass, int32_t, n);
    o->wanted_by = ARENA_ARRAY(&l->pass, int32_t, n);
    o->met = ARENA_ARRAY(&l->pass, int32_t, n);
    find_heirs(l, height, heir);
    for (int32_t b = 0; b < l->ndraft; b++) {
        o->line[b] = b;
        for (const struct edge *e = l->draft[b].in; e; e = e->next) {
            if (heir[e->task] != b || o->place[e->task] < o->place[b]) continue;
            o->line[b] = o->line[e->task];
            o->place[b] = o->place[e->task] + 1;
        }
    }
}

/* Marks the places that the search must reach: on each line (chain of tasks), the last of the n tasks a[]. Returns
 * the number of lines with such tasks, and in *first the lowest of the n tasks. */
static int32_t
order_want(struct order *o, const int32_t *a, int32_t n, int32_t *first)
{
    int32_t nline = 0;
    *first = INT32_MAX;
    for (int32_t i = 0; i < n; i++) {
        int32_t line = o->line[a[i]];
        *first = MIN(*first, a[i]);
        if (o->wanted_by[line] != o->stamp) {
            o->wanted_by[line] = o->stamp;
            o->wanted[line] = -1;
            o->met[line] = -1;
            nline++;
        }
        o->wanted[line] = MAX(o->wanted[line], o->place[a[i]]);
    }
    return nline;
}

/* Records that task x precedes the search's task b. Returns true if the search has now reached the marked place of
 * x's line. */
static bool
order_meet(struct order *o, int32_t x)
{
    int32_t line = o->line[x];
    if (o->wanted_by[line] != o->stamp || o->met[line] >= o->place[x]) return false;
    bool was = o->met[line] >= o->wanted[line];
    o->met[line] = o->place[x];
    return !was && o->met[line] >= o->wanted[line];
}

/* Searches backwards from b, breadth first, until all marked places are reached. left: number of marked places;
 * looks: largest number of tasks to visit. The number of edges is limited, too, to SCANS * looks, because tasks
 * with an input per rank reach the same tasks many times. */
static void
search_order(struct lower *l, int32_t b, int32_t left, int32_t first, int32_t looks)
{
    struct order *o = &l->order;
    int32_t n = 0, scans = looks * SCANS;
    left -= order_meet(o, b);
    o->queue[n++] = b;
    for (int32_t at = 0; at < n && left > 0; at++)
        for (const struct edge *e = l->draft[o->queue[at]].in; e && left > 0; e = e->next) {
            int32_t x = e->task;
            if (scans-- == 0) return;
            if (x < first || o->seen[x] == o->stamp) continue;
            if (looks-- == 0) return;
            o->seen[x] = o->stamp;
            o->queue[n++] = x;
            left -= order_meet(o, x);
        }
}

/* Returns true if a search proves that a precedes b; false may also mean that the search gave up. */
static bool
is_order_met(const struct order *o, int32_t a, int32_t b)
{
    return a != b && o->met[o->line[a]] >= o->place[a];
}

static int32_t
control_of(struct lower *l, struct draft *d)
{
    if (d->control < 0) d->control = draft_port(l, d, &(struct out_port){.control = true, .nreg = 1, .every = 1});
    return d->control;
}

void
order_edge(struct lower *l, int32_t a, int32_t b)
{
    assert(a < b);
    struct draft *from = &l->draft[a], *to = &l->draft[b];
    struct edge e = {.task = a, .out = control_of(l, from), .hold = 1, .need = 1};
    if (from->task.nact > to->task.nact) e.need = from->task.nact;
    if (from->task.nact < to->task.nact) e.hold = to->task.nact;
    draft_edge(l, b, &e);
}

void
order_all(struct lower *l, const int32_t *a, int32_t n, int32_t b)
{
    struct order *o = &l->order;
    int32_t first;
    o->stamp++;
    int32_t nline = order_want(o, a, n, &first);
    search_order(l, b, nline, first, LOOKS + n + l->draft[b].nin);
    for (int32_t i = n - 1; i >= 0; i--) {
        bool twice = i + 1 < n && a[i] == a[i + 1];
        if (twice || is_order_met(o, a[i], b)) continue;
        order_edge(l, a[i], b);
        order_meet(o, a[i]);
    }
}

void
order_after(struct lower *l, int32_t a, int32_t b)
{
    order_all(l, &a, 1, b);
}

/* Returns true if a is already limited to n acts ahead of b: b reads a result of a that has at most n registers. */
static bool
holds_credit(const struct lower *l, int32_t a, int32_t b, int32_t n)
{
    for (const struct edge *e = l->draft[b].in; e; e = e->next)
        if (e->task == a && !l->draft[a].out[e->out].control && l->draft[a].out[e->out].nreg <= n) return true;
    return false;
}

/* Returns the index of a's credit output with n registers; adds the output if it is missing. */
static int32_t
credit_of(struct lower *l, struct draft *d, int32_t n)
{
    for (int32_t k = 0; k < d->nout; k++)
        if (d->out[k].where.kind == NOWHERE && !d->out[k].control && d->out[k].nreg == n) return k;
    return draft_port(l, d, &(struct out_port){.nreg = n, .every = 1});
}

void
order_credit(struct lower *l, int32_t a, int32_t b, int32_t n)
{
    struct draft *d = &l->draft[a];
    assert(a < b && d->task.nact == l->draft[b].task.nact);
    if (n >= d->task.nact || holds_credit(l, a, b, n)) return;
    draft_edge(l, b, &(struct edge){.task = a, .out = credit_of(l, d, n), .hold = 1, .need = 1});
}
