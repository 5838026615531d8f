/* berth.c - where each use of a register lies.
 *
 * A result that is made for each piece has nreg registers, one behind the other
 * (arena.c): two of them share bytes register by register, for all pieces alike.
 * So what has two registers lies beside what has three, and a queue from stage to
 * stage keeps its bytes while it is empty. Here each use - what one act writes,
 * until the last reader has read it - has an address of its own, its berth.
 *
 * Who may follow whom is known by counting: going back from the task that writes,
 * an edge leads to the same piece, and a register of which there are n to its
 * readers n pieces before. The least sum on a way to a reader says how many pieces
 * earlier that has certainly ended. Two uses share bytes only if one has ended so
 * before the other begins; no order is added, whatever the arena becomes. Where they
 * lie is berth_place.c's. Where even that takes too many looks, pieces take turns in
 * berths. */
#include "actors/plan/berth.h"

#include "actors/plan/berth_place.h"

#include "runtime/arena.h"

#include <string.h>

enum {
    MOST_TENANTS = 2048,   /* of a device: who follows whom is a table of their pairs */
    FEW_USES = 1 << 12,    /* of a device: so many have berths of their own; with more, */
    ENOUGH = 64,           /* not of more pieces than this, */
    MOST_USES = 1 << 14,   /* and never more uses than this: pieces take turns */
    MOST_SIGHTS = 1 << 28, /* pairs of tenants that the bound looks at, about */
    LEAST_GAIN = 128,      /* of the arena: for less, registers stay as they are; */
    LEAST_BYTES = 1 << 15, /* and for fewer bytes than these */
    FAR = 1 << 28,
};

/* Before the task at hand this one has ended, so many acts earlier. */
struct back {
    int32_t task, lag, next; /* next: of the same task, -1 */
};
struct waiting {
    int32_t task, next;
};
/* ---- who has ended ---- */

/* Does the edge count pieces one by one, or lie between what is done once and all of them? */
static bool
is_plain(const struct plan *p, const struct task *t, const struct in_port *in)
{
    const struct task *from = &p->task[in->task];
    const struct out_port *o = &from->out[in->out];
    if ((t->nact != 1 && t->nact != p->pieces) || (from->nact != 1 && from->nact != p->pieces)) return false;
    if (from->nact == 1) return in->hold == t->nact && in->need == 1;
    if (t->nact == 1) return (o->control ? in->need : o->every) == p->pieces;
    return in->hold == 1 && in->need == 1 && (o->control || o->every == 1);
}

static void
add_back(struct backs *l, int32_t task, int32_t to, int32_t lag)
{
    l->of[l->n] = (struct back){to, lag, l->first[task]};
    l->first[task] = l->n++;
}

/* False: the plan has edges of another kind. */
static bool
is_all_plain(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++)
            if (!is_plain(p, &p->task[i], &p->task[i].in[k])) return false;
    return true;
}

static void
list_back(struct berths *b)
{
    const struct plan *p = b->plan;
    b->all.n = 0;
    for (int32_t i = 0; i < p->ntask; i++) b->all.first[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            const struct out_port *o = &p->task[in->task].out[in->out];
            add_back(&b->all, i, in->task, 0);
            if (!o->once) add_back(&b->all, in->task, i, o->nreg);
        }
}

/* Tasks behind x, which has ended `lag` acts earlier, wait for their turn. */
static int32_t
look_back(struct berths *b, const struct backs *l, int32_t x, int32_t lag, int32_t n)
{
    for (int32_t e = l->first[x]; e >= 0; e = l->of[e].next) {
        int32_t y = l->of[e].task, sum = lag + l->of[e].lag;
        if (sum >= b->plan->pieces || b->lag[y] <= sum) continue;
        b->lag[y] = sum;
        b->waiting[n] = (struct waiting){y, b->bucket[sum]};
        b->bucket[sum] = n++;
    }
    return n;
}

/* By how many acts each task has ended before one of `from` begins, at least (Dijkstra; lags are small); `outside`: on
 * ways through tasks that are not near. Returns how many of b->waiting name a task that was met. */
static int32_t
find_lags(struct berths *b, const struct backs *l, int32_t from, bool outside)
{
    int32_t pieces = b->plan->pieces;
    for (int32_t lag = 0; lag < pieces; lag++) b->bucket[lag] = -1;
    int32_t n = look_back(b, l, from, 0, 0);
    for (int32_t lag = 0; lag < pieces; lag++)
        while (b->bucket[lag] >= 0) {
            const struct waiting *w = &b->waiting[b->bucket[lag]];
            int32_t x = w->task;
            b->bucket[lag] = w->next;
            if (b->lag[x] == lag && !(outside && b->is_near[x])) n = look_back(b, l, x, lag, n);
        }
    return n;
}

static void
forget_lags(struct berths *b, int32_t nmet)
{
    for (int32_t i = 0; i < nmet; i++) b->lag[b->waiting[i].task] = FAR;
}

/* ---- what is near ---- */

static void
find_near(struct berths *b, int32_t device)
{
    const struct plan *p = b->plan;
    for (int32_t i = 0; i < p->ntask; i++) b->is_near[i] = p->task[i].device == device;
    for (int32_t i = 0; i < b->ntenant; i++) {
        const struct out_port *o = berth_port(b, &b->tenant[i]);
        b->is_near[b->tenant[i].task] = true;
        for (int32_t f = 0; f < o->nfan; f++)
            for (int32_t r = 0; r < o->fan[f].nreader; r++) b->is_near[o->fan[f].reader[r].task] = true;
    }
}

/* Ways from a portal through tasks that are not near, each as one step to where they come near again. False: they are
 * too many. */
static bool
step_over(struct berths *b, int32_t portal)
{
    int32_t n = find_lags(b, &b->all, portal, true);
    for (int32_t i = 0; i < n; i++) {
        int32_t y = b->waiting[i].task;
        if (b->is_near[y] && b->lag[y] < FAR) {
            if (b->local.n == b->nback) return false;
            add_back(&b->local, portal, y, b->lag[y]);
        }
        b->lag[y] = FAR;
    }
    return true;
}

/* Steps back among tasks that are near and the portals right before them: a search that keeps to these finds the same
 * lags. False: there are as many portals as it would spare searches, or so. */
static bool
list_near(struct berths *b, int32_t device)
{
    const struct plan *p = b->plan;
    b->local.n = b->nportal = 0;
    find_near(b, device);
    for (int32_t i = 0; i < p->ntask; i++) b->local.first[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t e = b->is_near[i] ? b->all.first[i] : -1; e >= 0; e = b->all.of[e].next) {
            int32_t y = b->all.of[e].task;
            add_back(&b->local, i, y, b->all.of[e].lag);
            if (!b->is_near[y] && b->lag[y] == FAR) {
                b->portal[b->nportal++] = y;
                b->lag[y] = 0;
            }
        }
    for (int32_t i = 0; i < b->nportal; i++) b->lag[b->portal[i]] = FAR;
    if (b->nportal > b->ntenant / 4) return false;
    for (int32_t i = 0; i < b->nportal; i++)
        if (!step_over(b, b->portal[i])) return false;
    return true;
}

/* From a reader of one tenant to the writer of another, from which lags were found: what is done once counts as the
 * first act where others follow it, and as the last where it follows them. */
static int32_t
after_reader(const struct berths *b, const struct tenant *x, int32_t reader, const struct tenant *y)
{
    const struct plan *p = b->plan;
    if (b->lag[reader] == FAR) return FAR;
    int32_t last = !x->again && p->task[reader].nact > 1 ? p->pieces - 1 : 0;
    int32_t late = !y->again && p->task[y->task].nact == 1 ? p->pieces - 1 : 0;
    return b->lag[reader] + last - late;
}

static int32_t
after_readers(const struct berths *b, const struct tenant *x, const struct tenant *y)
{
    const struct out_port *o = &b->plan->task[x->task].out[x->out];
    int32_t most = o->nfan ? -FAR : FAR; /* of what nobody reads nobody says when it is over */
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++)
            most = MAX(most, after_reader(b, x, o->fan[f].reader[r].task, y));
    return most;
}

static void
find_after(struct berths *b, int32_t device)
{
    int32_t n = b->ntenant, nmet = 0;
    for (int32_t i = 0; i < b->plan->ntask; i++) b->lag[i] = FAR;
    const struct backs *l = list_near(b, device) ? &b->local : &b->all;
    for (int32_t i = 0; i < b->plan->ntask; i++) b->lag[i] = FAR;
    for (int32_t y = 0; y < n; y++) {
        if (y == 0 || b->tenant[y].task != b->tenant[y - 1].task) {
            forget_lags(b, nmet);
            nmet = find_lags(b, l, b->tenant[y].task, false);
        }
        for (int32_t x = 0; x < n; x++) b->after[x * n + y] = after_readers(b, &b->tenant[x], &b->tenant[y]);
    }
}

static struct reach
reach_of(const struct berths *b, int32_t x, int32_t y)
{
    int32_t n = b->ntenant, end = b->plan->pieces - 1;
    return (struct reach){MAX(1 - b->after[x * n + y], b->tenant[y].again ? -end : 0),
                          MIN(b->after[y * n + x] - 1, b->tenant[x].again ? end : 0)};
}

/* ---- the bound ---- */

static int32_t
last_use(const struct berths *b, int32_t x)
{
    return b->tenant[x].again ? b->plan->pieces - 1 : 0;
}

/* How many uses of a tenant have ended at least when so many of all have begun. Several at a time: on a pipeline of
 * 64 devices with 1,200 results each the loop takes half the time of compilation otherwise. */
static int32_t
ended_then(const int32_t *begun, const int32_t *after, int32_t n)
{
    enum { WIDTH = 8 };
    int32_t most[WIDTH] = {0}, y = 0;
    for (; y + WIDTH <= n; y += WIDTH)
        for (int32_t k = 0; k < WIDTH; k++) most[k] = MAX(most[k], begun[y + k] - after[y + k]);
    for (; y < n; y++) most[0] = MAX(most[0], begun[y] - after[y]);
    for (int32_t k = 1; k < WIDTH; k++) most[0] = MAX(most[0], most[k]);
    return most[0];
}

/* What is in use at a moment when of each tenant so many uses have begun, and no more has ended than must have. */
static int64_t
bytes_at(const struct berths *b, const int32_t *begun)
{
    int32_t n = b->ntenant;
    int64_t bytes = 0;
    for (int32_t z = 0; z < n; z++) {
        int32_t live = begun[z] > 0 ? begun[z] - ended_then(begun, &b->after[z * n], n) : 0;
        bytes += where_stride(berth_port(b, &b->tenant[z])->bytes) * MAX(live, 0);
    }
    return bytes;
}

/* The moment, of those up to `from` in which use i of x has not ended, in which all has begun that may. */
static void
moment_before(const struct berths *b, int32_t x, int32_t i, const int32_t *from, int32_t *begun)
{
    const int32_t *after = &b->after[x * b->ntenant];
    for (int32_t y = 0; y < b->ntenant; y++) begun[y] = MIN(from[y], MAX(i + after[y], 0));
}

/* Is the heaviest moment up to b->from in which one of some uses more has not ended heavier than that? */
static bool
find_heavier(struct berths *b, int32_t step, bool first, int64_t enough, int64_t *most)
{
    int64_t was = *most;
    for (int32_t x = 0; x < b->ntenant && *most < enough; x += step) {
        int32_t last = b->from[x] - 1;
        for (int32_t k = 0; k < 3 && k <= last; k++) {
            int32_t i = first && k == 2 ? last / 2 : last - k;
            moment_before(b, x, i, b->from, b->begun);
            int64_t bytes = bytes_at(b, b->begun);
            if (bytes <= *most) continue;
            *most = bytes;
            memcpy(b->heaviest, b->begun, sizeof *b->begun * (size_t)b->ntenant);
        }
    }
    return *most > was;
}

/* No arena is smaller than this, and the smallest seldom larger: the heaviest moment that is found when one use after
 * the other is chosen that shall not have ended. Of many tenants only some are tried, so that it takes no longer; and
 * no more than shows that it is at least `enough`. */
static int64_t
find_bound(struct berths *b, int64_t enough)
{
    int64_t n = b->ntenant, most = 0, step = 1 + 16 * n * n * n / MOST_SIGHTS;
    b->begun = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    b->from = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    b->heaviest = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    for (int32_t y = 0; y < n; y++) b->from[y] = last_use(b, y) + 1;
    for (bool first = true; find_heavier(b, (int32_t)MIN(step, n), first, enough, &most); first = false)
        memcpy(b->from, b->heaviest, sizeof *b->from * (size_t)n);
    return most;
}

/* ---- pieces one after the other ---- */

/* Tasks that act once, behind some that act for each piece. */
static void
find_late(struct berths *b)
{
    const struct plan *p = b->plan;
    b->late = ARENA_ARRAY(&b->arena, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin && p->task[i].nact == 1; k++) {
            int32_t x = p->task[i].in[k].task;
            b->late[i] = b->late[i] || b->late[x] || p->task[x].nact > 1;
        }
}

/* In use from when the tenant is written in the first piece or, `last`, the last, until its last reader has read it. */
static void
add_lifetime(struct berths *b, const struct tenant *t, bool last, int64_t *change)
{
    const struct plan *p = b->plan;
    const struct out_port *o = berth_port(b, t);
    int32_t from = t->task + (last ? p->ntask : 0), until = from;
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            int32_t reader = o->fan[f].reader[r].task;
            bool late = t->again ? last : b->late[reader] || p->task[reader].nact > 1;
            until = MAX(until, reader + (late ? p->ntask : 0));
        }
    change[from] += where_stride(o->bytes);
    change[until + 1] -= where_stride(o->bytes);
}

/* The most bytes in use where all tasks act in the order of their list, once for each piece: no arena is smaller. */
static int64_t
bytes_in_order(struct berths *b)
{
    const struct plan *p = b->plan;
    int64_t *change = ARENA_ARRAY(&b->of_device, int64_t, 2 * p->ntask + 2), bytes = 0, most = 0;
    for (int32_t i = 0; i < b->ntenant; i++) {
        const struct tenant *t = &b->tenant[i];
        if (t->again || !b->late[t->task]) add_lifetime(b, t, false, change);
        if (t->again || b->late[t->task]) add_lifetime(b, t, true, change);
    }
    for (int32_t i = 0; i < 2 * p->ntask; i++) {
        bytes += change[i];
        most = MAX(most, bytes);
    }
    return most;
}

/* ---- uses ---- */

static bool
is_tenant(const struct out_port *o, int32_t device)
{
    return o->where.kind == IN_ARENA && o->where.index == device && o->bytes > 0;
}

/* Returns how many are written for each piece. */
static int32_t
list_tenants(struct berths *b, int32_t device)
{
    const struct plan *p = b->plan;
    int32_t nagain = 0;
    b->ntenant = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            if (!is_tenant(&p->task[i].out[k], device)) continue;
            bool again = p->task[i].nact > 1 && p->task[i].out[k].every == 1;
            b->tenant[b->ntenant++] = (struct tenant){.task = i,
                                                      .out = k,
                                                      .asked = b->asked[b->first_out[i] + k],
                                                      .nreg = p->task[i].out[k].nreg,
                                                      .again = again};
            nagain += again;
        }
    return nagain;
}

/* One for each piece, or fewer. Is that enough for those of one result to take turns? */
static bool
count_berths(struct berths *b, int32_t nagain)
{
    int32_t once = b->ntenant - nagain, most = 1;
    if (nagain == 0 || b->ntenant > MOST_TENANTS) return false;
    int32_t fits = MAX(MIN(ENOUGH, (MOST_USES - once) / nagain), (FEW_USES - once) / nagain);
    b->nberth = MIN(b->plan->pieces, fits);
    b->nuse = once + nagain * b->nberth;
    for (int32_t i = 0; i < b->ntenant; i++)
        if (b->tenant[i].again) most = MAX(most, b->tenant[i].asked);
    return b->nberth >= MIN(b->plan->pieces, 2 * most);
}

/* ---- a device ---- */

/* The most that registers may take where no arena is smaller than `least`, for berths not to be worth their search. */
static int64_t
good_enough(int64_t least)
{
    return least + MAX(least / BERTHS_GOOD, LEAST_BYTES);
}

/* The least bound for which so many bytes are good enough. */
static int64_t
good_from(int64_t bytes)
{
    int64_t least = MAX(MIN(bytes - LEAST_BYTES, bytes - bytes / (BERTHS_GOOD + 1)), 0);
    while (least > 0 && bytes <= good_enough(least - 1)) least--;
    while (bytes > good_enough(least)) least++;
    return least;
}

/* Results have the registers that their readers ask for; or, again, those that packing gave them, for a place in each
 * room of their stage. Who has berths wants no more: each register is a piece more to which others may be ahead. */
static void
set_registers(struct berths *b, bool asked)
{
    for (int32_t i = 0; i < b->ntenant; i++) {
        const struct task *t = &b->plan->task[b->tenant[i].task];
        struct out_port *o = &t->out[b->tenant[i].out];
        o->nreg = asked ? b->tenant[i].asked : b->tenant[i].nreg;
        o->once = t->nact / o->every <= o->nreg;
    }
}

static void
take_berths(struct berths *b)
{
    int32_t u = 0;
    for (int32_t i = 0; i < b->ntenant; i++) {
        const struct tenant *t = &b->tenant[i];
        struct out_port *o = &b->plan->task[t->task].out[t->out];
        o->where.offset = b->best[u];
        o->where.stride = where_stride(o->bytes);
        if (t->again) {
            o->where.nberth = b->nberth;
            o->where.berth = arena_dup(&b->plan->arena, b->best + u, sizeof *b->best * (size_t)b->nberth);
        }
        u += t->again ? b->nberth : 1;
    }
}

/* What has no bytes lies where all arenas are. */
static void
move_empty(struct plan *p, int32_t device)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            struct where *w = &p->task[i].out[k].where;
            if (w->kind == IN_ARENA && w->index == device && p->task[i].out[k].bytes == 0) w->offset = 0;
        }
}

static void
make_room(struct berths *b)
{
    struct arena *a = &b->of_device;
    int32_t n = b->nuse + 1;
    b->small = 0;
    b->use = ARENA_ARRAY(a, struct use, n);
    b->near = ARENA_ARRAY(a, uint64_t, n / 64 + 1);
    b->best = ARENA_ARRAY(a, int64_t, n);
    b->better = ARENA_ARRAY(a, int64_t, n);
    b->low = ARENA_ARRAY(a, int32_t, n);
    b->high = ARENA_ARRAY(a, int32_t, n);
    b->queue = ARENA_ARRAY(a, int32_t, n);
    b->met = ARENA_ARRAY(a, int32_t, n);
    b->ends = ARENA_ARRAY(a, int32_t, n);
    b->begin = ARENA_ARRAY(a, struct point, n);
    b->end = ARENA_ARRAY(a, struct point, n);
    b->ordered = ARENA_ARRAY(a, struct ordered, n);
}

/* Uses of one berth follow each other. */
static bool
takes_turns(const struct berths *b)
{
    for (int32_t i = 0; i < b->ntenant; i++)
        if (b->tenant[i].again && b->nberth < b->plan->pieces && b->after[i * b->ntenant + i] > b->nberth) return false;
    return true;
}

static void
find_reach(struct berths *b)
{
    int32_t n = b->ntenant;
    b->reach = ARENA_ARRAY(&b->of_device, struct reach, n * n);
    for (int32_t x = 0; x < n; x++)
        for (int32_t y = 0; y < n; y++) b->reach[x * n + y] = reach_of(b, x, y);
}

/* False: registers that take turns are as good. */
static bool
find_berths(struct berths *b, struct plan_device *d, int32_t device)
{
    list_back(b);
    b->after = ARENA_ARRAY(&b->of_device, int32_t, b->ntenant * b->ntenant);
    find_after(b, device);
    if (!takes_turns(b)) return false;
    int64_t bound = find_bound(b, good_from(d->scratch));
    if (d->scratch <= good_enough(bound)) return false;
    find_reach(b);
    make_room(b);
    berths_list(b);
    int64_t bytes = berths_place(b, bound);
    if (bytes > d->scratch - d->scratch / LEAST_GAIN) return false;
    d->scratch = bytes;
    d->nberth = b->nberth;
    d->arena_bytes = d->scratch + d->scratch_bytes;
    return true;
}

static void
pack_device(struct berths *b, struct plan_device *d, int32_t device)
{
    if (!count_berths(b, list_tenants(b, device))) return;
    int64_t least = bytes_in_order(b);
    if (d->scratch <= good_enough(least)) return;
    set_registers(b, true);
    if (!find_berths(b, d, device)) {
        set_registers(b, false);
        return;
    }
    take_berths(b);
    move_empty(b->plan, device);
}

static void
make_tables(struct berths *b)
{
    const struct plan *p = b->plan;
    struct arena *a = &b->arena;
    int32_t nin = 0, nresult = 0;
    for (int32_t i = 0; i < p->ntask; i++) {
        nin += p->task[i].nin;
        nresult += p->task[i].nresult;
    }
    b->tenant = ARENA_ARRAY(a, struct tenant, nresult + 1);
    b->nback = 2 * nin;
    b->all.first = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->all.of = ARENA_ARRAY(a, struct back, b->nback + 1);
    b->local.first = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->local.of = ARENA_ARRAY(a, struct back, b->nback + 1);
    b->is_near = ARENA_ARRAY(a, bool, p->ntask + 1);
    b->portal = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->lag = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->bucket = ARENA_ARRAY(a, int32_t, p->pieces + 1);
    b->waiting = ARENA_ARRAY(a, struct waiting, 2 * nin + 2);
}

void
berth_registers(struct plan *p, const int32_t *first_out, const int32_t *asked)
{
    struct berths b = {.plan = p, .first_out = first_out, .asked = asked};
    if (p->pieces == 1 || !is_all_plain(p)) return;
    make_tables(&b);
    find_late(&b);
    for (int32_t d = 0; d < p->ndevice; d++) {
        pack_device(&b, &p->device[d], d);
        arena_reset(&b.of_device);
    }
    arena_fini(&b.of_device);
    arena_fini(&b.arena);
}
