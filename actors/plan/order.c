/* order.c - does one task come before another, and making it so.
 *
 * Edges point forward in the list of tasks. Looking for a path from a to b goes
 * back from b. To make that short, every task lies on a line: a task is followed
 * there by that one of its readers after which the most is still to come, so
 * that the long ways through the program - forward, the loss, back again - are
 * lines, and meeting a's line behind a is as good as meeting a. After LOOKS
 * edges the search gives up; an edge is then added that may be one too many,
 * which costs a message and is never wrong. */
#include "actors/plan/lower.h"

#include <string.h>

enum { LOOKS = 64 };

/* By task: the longest way to an end, and the reader that is on it. */
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
    int32_t n = l->ndraft + 1, *height = ARENA_ARRAY(&l->tmp, int32_t, n), *heir = ARENA_ARRAY(&l->tmp, int32_t, n);
    o->line = ARENA_ARRAY(&l->tmp, int32_t, n);
    o->place = ARENA_ARRAY(&l->tmp, int32_t, n);
    o->seen = ARENA_ARRAY(&l->tmp, int32_t, n);
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

/* x is a, or behind it on its line. */
static bool
is_behind(const struct order *o, int32_t a, int32_t x)
{
    return o->line[x] == o->line[a] && o->place[x] >= o->place[a];
}

/* True: a happens before b. False: it does not, or the way is long. */
bool
order_before(struct lower *l, int32_t a, int32_t b)
{
    struct order *o = &l->order;
    int32_t stack[LOOKS + 1], n = 0, looks = 0;
    if (a == b) return false;
    if (is_behind(o, a, b)) return true;
    o->stamp++;
    stack[n++] = b;
    while (n > 0)
        for (const struct edge *e = l->draft[stack[--n]].in; e; e = e->next) {
            int32_t x = e->task;
            if (x < a || o->seen[x] == o->stamp) continue;
            if (is_behind(o, a, x)) return true;
            if (++looks > LOOKS) return false;
            o->seen[x] = o->stamp;
            stack[n++] = x;
        }
    return false;
}

static int32_t
control_of(struct draft *d)
{
    if (d->control < 0) {
        d->control = d->nout;
        d->out[d->nout++] = (struct out_port){.control = true, .nreg = 1, .every = 1};
    }
    return d->control;
}

void
order_edge(struct lower *l, int32_t a, int32_t b)
{
    assert(a < b);
    struct draft *from = &l->draft[a], *to = &l->draft[b];
    struct edge e = {.task = a, .out = control_of(from), .hold = 1, .need = 1};
    if (from->task.nact > to->task.nact) e.need = from->task.nact;
    if (from->task.nact < to->task.nact) e.hold = to->task.nact;
    draft_edge(l, b, &e);
}

void
order_after(struct lower *l, int32_t a, int32_t b)
{
    if (!order_before(l, a, b)) order_edge(l, a, b);
}

/* Does b take a register of a's credits already? */
static bool
holds_credit(const struct lower *l, int32_t a, int32_t b)
{
    for (const struct edge *e = l->draft[b].in; e; e = e->next)
        if (e->task == a && !l->draft[a].out[e->out].control && l->draft[a].out[e->out].nreg == 1) return true;
    return false;
}

/* A register without bytes, which a fills and b gives back: a's next act waits for b's present one. */
void
order_credit(struct lower *l, int32_t a, int32_t b)
{
    struct draft *d = &l->draft[a];
    assert(a < b && d->task.nact == l->draft[b].task.nact);
    if (holds_credit(l, a, b)) return;
    if (d->credit < 0) {
        d->credit = d->nout;
        d->out[d->nout++] = (struct out_port){.nreg = 1, .every = 1};
    }
    draft_edge(l, b, &(struct edge){.task = a, .out = d->credit, .hold = 1, .need = 1});
}
