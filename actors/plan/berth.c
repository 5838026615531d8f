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
 * before the other begins; no order is added, whatever the arena becomes.
 *
 * Uses are first let down, the lowest first, each as far as those already placed
 * allow: that takes no more than registers did. Then the arena is made a little
 * smaller, again and again: what stands out is taken away and put where it costs
 * least of those that are in its way, which are put elsewhere in turn - those
 * that were often in the way cost more - until all have a place, or the steps are
 * used up, or little more can be won. Plans of more pieces than there are berths
 * take turns in them. */
#include "actors/plan/berth.h"

#include "runtime/arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BERTHS = 32, /* of a result: differences of two of them are bits of a word */
    MOST_USES = 2048, /* of a device: with more, rooms are as good */
    STEPS = 6,        /* for each use, one where fewer bytes can be won than this, */
    SMALL = 1 << 14,
    MOST_LOOKS = 1 << 21,  /* each of them as many looks as there are uses */
    MOST_SIGHTS = 1 << 22, /* pairs of tenants that the bound looks at, for each of its moments */
    STEP = 192,            /* by which part of it an arena is made smaller */
    GOOD = 32,             /* by which part of the bound registers may take more: then they stay as they are */
    NEAR = 64,             /* by which the search may end */
    LEAST_GAIN = 128,      /* of the arena: for less, registers stay as they are */
    FAR = 1 << 28,
};

/* Before the task at hand this one has ended, so many acts earlier. */
struct back {
    int32_t task, lag, next; /* next: of the same task, -1 */
};
struct waiting {
    int32_t task, next;
};
struct tenant {
    int32_t task, out;
    bool again; /* it is written for each piece */
};
struct use {
    int32_t tenant, berth;
    int64_t bytes, offset;
    int64_t moved; /* how often it was in the way, and one */
    bool out;      /* it has no place */
};
/* An address, and what the uses that begin or end up to there would cost. */
struct point {
    int64_t at, cost;
};

struct berths {
    struct plan *plan;
    struct arena arena, of_device;
    int32_t *first_back; /* by task, -1 */
    struct back *back;
    int32_t nback;
    int32_t *lag, *bucket; /* by task: the least, FAR; by lag: the first that waits, -1 */
    struct waiting *waiting;
    /* Of the device at hand. */
    struct tenant *tenant;
    int32_t ntenant, nuse, nberth;
    int32_t *after;  /* [a * ntenant + b]: use i of a has ended before use k of b begins, if i + this <= k */
    uint64_t *meets; /* [a * ntenant + b]: bit MOST_BERTHS - 1 + i - k: berths i and k may be in use at once */
    struct use *use;
    int64_t *best;
    int32_t *low, *high, nplaced; /* uses that have a place, by where they begin, and by where they end */
    int32_t *queue, nqueue;       /* those that have none */
    int32_t *met, *ends, nmet;    /* those that the use at hand meets, by where they begin, and end */
    struct point *begin, *end;    /* where they do, and where they end */
    bool *near;                   /* by use: it is one of them */
    int64_t looks;
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
add_back(struct berths *b, int32_t task, int32_t to, int32_t lag)
{
    b->back[b->nback] = (struct back){to, lag, b->first_back[task]};
    b->first_back[task] = b->nback++;
}

/* False: the plan has edges of another kind. */
static bool
list_back(struct berths *b)
{
    const struct plan *p = b->plan;
    struct arena *a = &b->arena;
    int32_t n = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].nin;
    b->first_back = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->lag = ARENA_ARRAY(a, int32_t, p->ntask + 1);
    b->bucket = ARENA_ARRAY(a, int32_t, p->pieces + 1);
    b->back = ARENA_ARRAY(a, struct back, 2 * n + 1);
    b->waiting = ARENA_ARRAY(a, struct waiting, 2 * n + 2);
    for (int32_t i = 0; i < p->ntask; i++) b->first_back[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            const struct out_port *o = &p->task[in->task].out[in->out];
            if (!is_plain(p, &p->task[i], in)) return false;
            add_back(b, i, in->task, 0);
            if (!o->once) add_back(b, in->task, i, o->nreg);
        }
    return true;
}

/* Tasks behind x, which has ended `lag` acts earlier, wait for their turn. */
static int32_t
look_back(struct berths *b, int32_t x, int32_t lag, int32_t n)
{
    for (int32_t e = b->first_back[x]; e >= 0; e = b->back[e].next) {
        int32_t y = b->back[e].task, sum = lag + b->back[e].lag;
        if (sum >= b->plan->pieces || b->lag[y] <= sum) continue;
        b->lag[y] = sum;
        b->waiting[n] = (struct waiting){y, b->bucket[sum]};
        b->bucket[sum] = n++;
    }
    return n;
}

/* By how many acts each task has ended before one of `from` begins, at least (Dijkstra; lags are small). */
static void
find_lags(struct berths *b, int32_t from)
{
    int32_t pieces = b->plan->pieces;
    for (int32_t i = 0; i < b->plan->ntask; i++) b->lag[i] = FAR;
    for (int32_t lag = 0; lag < pieces; lag++) b->bucket[lag] = -1;
    int32_t n = look_back(b, from, 0, 0);
    for (int32_t lag = 0; lag < pieces; lag++)
        while (b->bucket[lag] >= 0) {
            const struct waiting *w = &b->waiting[b->bucket[lag]];
            int32_t x = w->task;
            b->bucket[lag] = w->next;
            if (b->lag[x] == lag) n = look_back(b, x, lag, n);
        }
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
find_after(struct berths *b)
{
    int32_t n = b->ntenant;
    for (int32_t y = 0; y < n; y++) {
        if (y == 0 || b->tenant[y].task != b->tenant[y - 1].task) find_lags(b, b->tenant[y].task);
        for (int32_t x = 0; x < n; x++) b->after[x * n + y] = after_readers(b, &b->tenant[x], &b->tenant[y]);
    }
}

/* Berth i is that of all pieces i + k nberth. */
static uint64_t
meets_of(const struct berths *b, int32_t x, int32_t y)
{
    int32_t n = b->nberth, end = b->plan->pieces - 1;
    int32_t lo = MAX(1 - b->after[x * b->ntenant + y], b->tenant[y].again ? -end : 0);
    int32_t hi = MIN(b->after[y * b->ntenant + x] - 1, b->tenant[x].again ? end : 0);
    uint64_t meets = 0;
    for (int32_t d = lo; d <= hi; d++) {
        int32_t left = d % n;
        meets |= UINT64_C(1) << (MOST_BERTHS - 1 + left);
        if (n > end || left == 0) continue;
        meets |= UINT64_C(1) << (MOST_BERTHS - 1 + (left < 0 ? left + n : left - n));
    }
    return meets;
}

static bool
meet(const struct berths *b, const struct use *x, const struct use *y)
{
    return b->meets[x->tenant * b->ntenant + y->tenant] >> (MOST_BERTHS - 1 + x->berth - y->berth) & 1;
}

/* ---- the bound ---- */

static int32_t
last_use(const struct berths *b, int32_t x)
{
    return b->tenant[x].again ? b->plan->pieces - 1 : 0;
}

/* What is in use when all has begun that need not wait for use i of x to end, and no more has ended than must have. */
static int64_t
bytes_before(const struct berths *b, int32_t x, int32_t i, int32_t *begun)
{
    int32_t n = b->ntenant;
    int64_t bytes = 0;
    for (int32_t y = 0; y < n; y++) begun[y] = MIN(last_use(b, y), i + b->after[x * n + y] - 1);
    for (int32_t z = 0; z < n; z++) {
        const struct tenant *t = &b->tenant[z];
        int32_t ended = -1;
        for (int32_t y = 0; y < n; y++)
            if (begun[y] >= 0) ended = MAX(ended, begun[y] - b->after[z * n + y]);
        bytes += where_stride(b->plan->task[t->task].out[t->out].bytes) * MAX(begun[z] - ended, 0);
    }
    return bytes;
}

/* No arena is smaller than this. Of many tenants only some moments are looked at, so that it takes no longer. */
static int64_t
find_bound(struct berths *b)
{
    int32_t *begun = ARENA_ARRAY(&b->of_device, int32_t, b->ntenant + 1);
    int64_t most = 0, step = 1 + (int64_t)b->ntenant * b->ntenant * b->ntenant / MOST_SIGHTS;
    for (int32_t x = 0; x < b->ntenant; x += (int32_t)MIN(step, b->ntenant))
        for (int32_t i = last_use(b, x) / 2; i <= last_use(b, x); i += MAX(1, last_use(b, x) - i))
            most = MAX(most, bytes_before(b, x, i, begun));
    return most;
}

/* ---- uses ---- */

static int64_t
top_of(const struct use *u)
{
    return u->offset + u->bytes;
}

static const struct out_port *
port_of(const struct berths *b, const struct tenant *t)
{
    return &b->plan->task[t->task].out[t->out];
}

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
            b->tenant[b->ntenant++] = (struct tenant){i, k, again};
            nagain += again;
        }
    return nagain;
}

/* As many berths as fit, at most one for each piece. Is that enough for those of one result to take turns? */
static bool
count_berths(struct berths *b, int32_t nagain)
{
    int32_t once = b->ntenant - nagain, most = 1;
    if (nagain == 0 || once + nagain > MOST_USES) return false;
    b->nberth = MIN(MIN(b->plan->pieces, MOST_BERTHS), (MOST_USES - once) / nagain);
    for (int32_t i = 0; i < b->ntenant; i++)
        if (b->tenant[i].again) most = MAX(most, port_of(b, &b->tenant[i])->nreg);
    return b->nberth >= MIN(b->plan->pieces, 2 * most);
}

/* They lie where their registers do. */
static void
list_uses(struct berths *b)
{
    b->nuse = 0;
    for (int32_t i = 0; i < b->ntenant; i++) {
        const struct out_port *o = port_of(b, &b->tenant[i]);
        for (int32_t k = 0; k < (b->tenant[i].again ? b->nberth : 1); k++)
            b->use[b->nuse++] = (struct use){.tenant = i,
                                             .berth = k,
                                             .bytes = where_stride(o->bytes),
                                             .offset = o->where.offset + k % o->nreg * o->where.stride,
                                             .moved = 1};
    }
}

/* ---- placing ---- */

/* Into a list by address: the first position behind all that lie lower. */
static void
insert(int32_t *list, int32_t n, int32_t u, const struct use *use, bool by_top)
{
    int64_t key = use[u].offset + (by_top ? use[u].bytes : 0);
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = (lo + hi) / 2;
        if (use[list[mid]].offset + (by_top ? use[list[mid]].bytes : 0) <= key)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(&list[lo + 1], &list[lo], (size_t)(n - lo) * sizeof *list);
    list[lo] = u;
}

static void
set_down(struct berths *b, int32_t u, int64_t offset)
{
    b->use[u].offset = offset;
    b->use[u].out = false;
    insert(b->low, b->nplaced, u, b->use, false);
    insert(b->high, b->nplaced, u, b->use, true);
    b->nplaced++;
}

static int32_t
keep_placed(const struct berths *b, int32_t *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->nplaced; i++)
        if (!b->use[list[i]].out) list[n++] = list[i];
    return n;
}

/* Those that are marked have no place any more. */
static void
take_out(struct berths *b)
{
    keep_placed(b, b->low);
    b->nplaced = keep_placed(b, b->high);
}

/* Lets all down, the lowest first; returns what they take. */
static int64_t
let_down(struct berths *b)
{
    int64_t all = 0;
    int32_t *order = b->queue;
    for (int32_t u = 0; u < b->nuse; u++) insert(order, u, u, b->use, false);
    b->nplaced = 0;
    for (int32_t i = 0; i < b->nuse; i++) {
        const struct use *u = &b->use[order[i]];
        int64_t at = 0;
        for (int32_t k = 0; k < b->nplaced; k++) {
            const struct use *q = &b->use[b->low[k]];
            if (top_of(q) <= at || !meet(b, u, q)) continue;
            if (q->offset >= at + u->bytes) break;
            at = top_of(q);
        }
        set_down(b, order[i], at);
        all = MAX(all, top_of(u));
    }
    return all;
}

/* ---- a smaller arena ---- */

/* Lists those that u meets: by where they begin, and where they end. Without branches, which nobody could foretell. */
static void
list_met(struct berths *b, const struct use *u)
{
    const uint64_t *meets = b->meets + (size_t)u->tenant * (size_t)b->ntenant;
    int32_t n = 0, m = 0;
    for (int32_t i = 0; i < b->nplaced; i++) {
        int32_t k = b->low[i];
        b->near[k] = meets[b->use[k].tenant] >> (MOST_BERTHS - 1 + u->berth - b->use[k].berth) & 1;
        b->met[n] = k;
        n += b->near[k];
    }
    for (int32_t i = 0; i < b->nplaced; i++) {
        b->ends[m] = b->high[i];
        m += b->near[b->high[i]];
    }
    for (int32_t i = 0; i < n; i++) {
        const struct use *first = &b->use[b->met[i]], *last = &b->use[b->ends[i]];
        b->begin[i] = (struct point){first->offset, first->bytes * first->moved};
        b->end[i] = (struct point){top_of(last), last->bytes * last->moved};
    }
    b->nmet = n;
    b->looks -= b->nuse;
}

/* Where u is in the way least, right above one of those it meets, or right below; the lowest such place. */
static int64_t
best_place(const struct berths *b, const struct use *u, int64_t top)
{
    int32_t n = b->nmet;
    int64_t best = 0, least = INT64_MAX;
    for (int below = 0; below < 2; below++) {
        int32_t nbegin = 0, nend = 0;
        int64_t cost = 0;
        for (int32_t k = -1; k < n + below; k++) {
            int64_t at = below   ? (k < 0   ? -1
                                    : k < n ? b->begin[k].at - u->bytes
                                            : top - u->bytes)
                         : k < 0 ? 0
                                 : b->end[k].at;
            if (at < 0 || at + u->bytes > top) continue;
            for (; nbegin < n && b->begin[nbegin].at < at + u->bytes; nbegin++) cost += b->begin[nbegin].cost;
            for (; nend < n && b->end[nend].at <= at; nend++) cost -= b->end[nend].cost;
            if (cost > least || (cost == least && at >= best)) continue;
            least = cost;
            best = at;
        }
    }
    return best;
}

/* Marks those that lie where u is to lie. */
static void
clear_way(struct berths *b, const struct use *u, int64_t at)
{
    int32_t was = b->nqueue;
    for (int32_t i = 0; i < b->nmet && b->begin[i].at < at + u->bytes; i++) {
        struct use *q = &b->use[b->met[i]];
        if (top_of(q) <= at) continue;
        q->out = true;
        q->moved++;
        b->queue[b->nqueue++] = b->met[i];
    }
    if (b->nqueue > was) take_out(b);
}

/* The largest of those that have no place. */
static int32_t
next_out(struct berths *b)
{
    int32_t pick = 0;
    for (int32_t k = 1; k < b->nqueue; k++)
        if (b->use[b->queue[k]].bytes > b->use[b->queue[pick]].bytes) pick = k;
    int32_t u = b->queue[pick];
    b->queue[pick] = b->queue[--b->nqueue];
    return u;
}

/* Puts all below `top`; false: not with so many looks. */
static bool
squeeze(struct berths *b, int64_t top)
{
    b->nqueue = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        if (b->use[u].bytes > top) return false;
        b->use[u].out = top_of(&b->use[u]) > top;
        if (b->use[u].out) b->queue[b->nqueue++] = u;
    }
    take_out(b);
    while (b->nqueue > 0 && b->looks > 0) {
        int32_t u = next_out(b);
        list_met(b, &b->use[u]);
        int64_t at = best_place(b, &b->use[u], top);
        clear_way(b, &b->use[u], at);
        set_down(b, u, at);
    }
    return b->nqueue == 0;
}

static int64_t
keep_best(const struct berths *b)
{
    int64_t all = 0;
    for (int32_t u = 0; u < b->nuse; u++) {
        b->best[u] = b->use[u].offset;
        all = MAX(all, top_of(&b->use[u]));
    }
    return all;
}

/* ---- a device ---- */

/* Does anybody else lie where this use does? */
static bool
is_alone(const struct berths *b, int32_t u)
{
    for (int32_t k = 0; k < b->nuse; k++)
        if (k != u && b->best[k] < b->best[u] + b->use[u].bytes && b->best[u] < b->best[k] + b->use[k].bytes)
            return false;
    return true;
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
        o->alone = !t->again && is_alone(b, u);
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
    int32_t n = b->ntenant, most = MOST_USES + 1;
    b->after = ARENA_ARRAY(a, int32_t, n * n);
    b->meets = ARENA_ARRAY(a, uint64_t, n * n);
    b->use = ARENA_ARRAY(a, struct use, most);
    b->best = ARENA_ARRAY(a, int64_t, most);
    b->low = ARENA_ARRAY(a, int32_t, most);
    b->high = ARENA_ARRAY(a, int32_t, most);
    b->queue = ARENA_ARRAY(a, int32_t, most);
    b->met = ARENA_ARRAY(a, int32_t, most);
    b->ends = ARENA_ARRAY(a, int32_t, most);
    b->begin = ARENA_ARRAY(a, struct point, most);
    b->end = ARENA_ARRAY(a, struct point, most);
    b->near = ARENA_ARRAY(a, bool, most);
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
pack_device(struct berths *b, struct plan_device *d, int32_t device)
{
    if (!count_berths(b, list_tenants(b, device))) return;
    make_room(b);
    find_after(b);
    if (!takes_turns(b)) return;
    for (int32_t x = 0; x < b->ntenant; x++)
        for (int32_t y = 0; y < b->ntenant; y++) b->meets[x * b->ntenant + y] = meets_of(b, x, y);
    list_uses(b);
    int64_t bound = find_bound(b);
    if (d->scratch <= bound + bound / GOOD) return;
    let_down(b);
    int64_t bytes = keep_best(b);
    int steps = d->scratch - bound < SMALL ? 1 : STEPS;
    b->looks = MIN(MOST_LOOKS, (int64_t)b->nuse * b->nuse * steps);
    while (bytes > bound + bound / NEAR && squeeze(b, MAX(bound, bytes - bytes / STEP))) bytes = keep_best(b);
    if (bytes > d->scratch - d->scratch / LEAST_GAIN) return;
    take_berths(b);
    move_empty(b->plan, device);
    d->scratch = bytes;
    d->nberth = b->nberth;
    d->arena_bytes = d->scratch + d->scratch_bytes;
}

void
berth_registers(struct plan *p)
{
    struct berths b = {.plan = p};
    int32_t n = 0;
    if (p->pieces == 1) return;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].nresult;
    b.tenant = ARENA_ARRAY(&b.arena, struct tenant, n + 1);
    bool plain = list_back(&b);
    for (int32_t d = 0; d < p->ndevice && plain; d++) {
        pack_device(&b, &p->device[d], d);
        arena_reset(&b.of_device);
    }
    arena_fini(&b.of_device);
    arena_fini(&b.arena);
}
