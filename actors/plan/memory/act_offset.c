/* act_offset.c - assigns an offset in the arena (a "berth") to each use of a register. A use lasts from the act
 * that writes the register until the last reader is done.
 *
 * In the arenas of arena.c, a result made per micro-batch has nreg contiguous registers, and two results that
 * share bytes share them for all micro-batches. So a result with two registers cannot share bytes with a result
 * with three, and the registers between two stages occupy bytes even while they are empty. Per-act offsets avoid
 * both problems.
 *
 * Counting acts shows which uses have ended before another use begins. An act waits for the producer's act for
 * the same micro-batch (an edge), and, to write one of n registers, for the readers' acts n micro-batches
 * earlier. The number of micro-batches on the shortest path back to a reader is the lag: when the act for
 * micro-batch i begins, the reader's act for micro-batch i - lag has certainly ended. Two uses share bytes only
 * if the first has certainly ended before the second begins. So per-act offsets add no control edges.
 * act_offset_place.c chooses the offsets. With too many uses, micro-batches use the same offsets in turn. */
#include "actors/plan/memory/act_offset.h"

#include "actors/plan/memory/act_offset_place.h"

#include "runtime/data/arena.h"

#include <string.h>

enum {
    /* largest number of live ranges on a device, because tables have an entry per pair of live ranges */
    MOST_LIVE_RANGES = 2048,
    /* Limits of the number of offsets on a device. If all micro-batches of all results together need at most
     * FEW_USES offsets, each micro-batch has its own. Otherwise the micro-batches use offsets in turn: a result has
     * at most ENOUGH offsets (or as many as FEW_USES allows), and the device at most MOST_USES (count_berths()). */
    FEW_USES = 1 << 12,
    ENOUGH = 64,
    MOST_USES = 1 << 14,
    MOST_SIGHTS = 1 << 28, /* approximate limit of the pairs of live ranges examined for the lower bound */
    LEAST_GAIN = 128,      /* per-act offsets must save at least 1/LEAST_GAIN of the arena */
    /* per-act offsets must save at least so many bytes; otherwise registers keep their offsets */
    LEAST_BYTES = 1 << 15,
    FAR = 1 << 28,
};

/* An entry in the list of a task's predecessors. When the task's act for micro-batch n begins, the act of `task`
 * for micro-batch n - lag has ended. */
struct back {
    int32_t task, lag, next; /* next: index of the list's next entry; -1: none */
};
struct waiting {
    int32_t task, next;
};
/* ---- order of uses ---- */

/* Returns true if the edge has a simple rate: it connects the acts for equal micro-batches one by one, or a task
 * that runs once with the acts for all micro-batches. */
static bool
is_plain_input(const struct plan *p, const struct task *t, const struct in_port *in)
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

/* Returns true if all edges of the plan have a simple rate (is_plain_input). */
static bool
is_all_plain(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++)
            if (!is_plain_input(p, &p->task[i], &p->task[i].in[k])) return false;
    return true;
}

static void
list_back(struct act_offsets *b)
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

/* Sets the lags of the predecessors of task x, whose own lag is `lag` (micro-batches to go back), and puts them
 * into the buckets of their lags. n: number of entries in b->waiting; returns the new number. */
static int32_t
look_back(struct act_offsets *b, const struct backs *l, int32_t x, int32_t lag, int32_t n)
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

/* Computes the least lag of each predecessor of `from`, that is, the fewest micro-batches to go back (Dijkstra's
 * algorithm with buckets, because lags are small). outside true: follows only paths through tasks that are not near
 * the device (struct act_offsets, is_near). Returns the number of entries in b->waiting. */
static int32_t
find_lags(struct act_offsets *b, const struct backs *l, int32_t from, bool outside)
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
forget_lags(struct act_offsets *b, int32_t nmet)
{
    for (int32_t i = 0; i < nmet; i++) b->lag[b->waiting[i].task] = FAR;
}

/* ---- restricting the search to tasks near a device ---- */

static void
find_near_tasks(struct act_offsets *b, int32_t device)
{
    const struct plan *p = b->plan;
    for (int32_t i = 0; i < p->ntask; i++) b->is_near[i] = p->task[i].device == device;
    for (int32_t i = 0; i < b->nlive_range; i++) {
        const struct out_port *o = act_offset_port(b, &b->live_range[i]);
        b->is_near[b->live_range[i].task] = true;
        for (int32_t f = 0; f < o->nfan; f++)
            for (int32_t r = 0; r < o->fan[f].nreader; r++) b->is_near[o->fan[f].reader[r].task] = true;
    }
}

/* A portal is a task that is not near the device but precedes a near task directly. Finds the paths from a portal
 * back to near tasks that pass only tasks not near the device, and adds a direct entry for each path. Returns false
 * if there would be too many entries. */
static bool
step_over(struct act_offsets *b, int32_t portal)
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

/* Makes short lists of predecessors (b->local), which contain only near tasks and portals. A search in the short
 * lists finds the same lags as a search in the full lists. Returns false if there are so many portals that the
 * short lists would save no time. */
static bool
list_near(struct act_offsets *b, int32_t device)
{
    const struct plan *p = b->plan;
    b->local.n = b->nportal = 0;
    find_near_tasks(b, device);
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
    if (b->nportal > b->nlive_range / 4) return false;
    for (int32_t i = 0; i < b->nportal; i++)
        if (!step_over(b, b->portal[i])) return false;
    return true;
}

/* Returns the lag between the last use of live range x by this reader and the write of live range y: the fewest
 * micro-batches to go back. The lags of the predecessors of y's writer must have been computed. If x is written
 * once, the last act of the reader counts. If y's writer runs once, its act counts as an act for the last
 * micro-batch. */
static int32_t
after_reader(const struct act_offsets *b, const struct live_range *x, int32_t reader, const struct live_range *y)
{
    const struct plan *p = b->plan;
    if (b->lag[reader] == FAR) return FAR;
    int32_t last = !x->again && p->task[reader].nact > 1 ? p->pieces - 1 : 0;
    int32_t late = !y->again && p->task[y->task].nact == 1 ? p->pieces - 1 : 0;
    return b->lag[reader] + last - late;
}

static int32_t
after_readers(const struct act_offsets *b, const struct live_range *x, const struct live_range *y)
{
    const struct out_port *o = &b->plan->task[x->task].out[x->out];
    int32_t most = o->nfan ? -FAR : FAR; /* without readers, the end of a use is unknown */
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++)
            most = MAX(most, after_reader(b, x, o->fan[f].reader[r].task, y));
    return most;
}

static void
find_after(struct act_offsets *b, int32_t device)
{
    int32_t n = b->nlive_range, nmet = 0;
    for (int32_t i = 0; i < b->plan->ntask; i++) b->lag[i] = FAR;
    const struct backs *l = list_near(b, device) ? &b->local : &b->all;
    for (int32_t i = 0; i < b->plan->ntask; i++) b->lag[i] = FAR;
    for (int32_t y = 0; y < n; y++) {
        if (y == 0 || b->live_range[y].task != b->live_range[y - 1].task) {
            forget_lags(b, nmet);
            nmet = find_lags(b, l, b->live_range[y].task, false);
        }
        for (int32_t x = 0; x < n; x++) b->after[x * n + y] = after_readers(b, &b->live_range[x], &b->live_range[y]);
    }
}

static struct reach
reach_of(const struct act_offsets *b, int32_t x, int32_t y)
{
    int32_t n = b->nlive_range, end = b->plan->pieces - 1;
    return (struct reach){MAX(1 - b->after[x * n + y], b->live_range[y].again ? -end : 0),
                          MIN(b->after[y * n + x] - 1, b->live_range[x].again ? end : 0)};
}

/* ---- lower bound ---- */

static int32_t
last_use(const struct act_offsets *b, int32_t x)
{
    return b->live_range[x].again ? b->plan->pieces - 1 : 0;
}

/* Returns how many uses of a live range have certainly ended at the moment at which begun[i] uses of each live
 * range i have begun. after: the live range's part of b->after. The loop is unrolled for SIMD: with 64 devices of
 * 1,200 results each, a scalar loop takes half of the compile time. */
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

/* Returns the bytes in use at the moment at which begun[i] uses of each live range i have begun. Uses that may
 * still be live count. */
static int64_t
live_bytes_at(const struct act_offsets *b, const int32_t *begun)
{
    int32_t n = b->nlive_range;
    int64_t bytes = 0;
    for (int32_t z = 0; z < n; z++) {
        int32_t live = begun[z] > 0 ? begun[z] - ended_then(begun, &b->after[z * n], n) : 0;
        bytes += where_stride(act_offset_port(b, &b->live_range[z])->bytes) * MAX(live, 0);
    }
    return bytes;
}

/* Computes the latest moment, at most `from`, at which use i of live range x may still be live. A moment is the
 * number of uses begun, for each live range. */
static void
moment_before(const struct act_offsets *b, int32_t x, int32_t i, const int32_t *from, int32_t *begun)
{
    const int32_t *after = &b->after[x * b->nlive_range];
    for (int32_t y = 0; y < b->nlive_range; y++) begun[y] = MIN(from[y], MAX(i + after[y], 0));
}

/* Looks for a moment with more live bytes than *most. For each live range, tries the latest moments before b->from at
 * which one of the range's last uses may still be live. Stores the moment with the most bytes in b->heaviest and its
 * bytes in *most; returns true if there is one. */
static bool
find_heavier(struct act_offsets *b, int32_t step, bool first, int64_t enough, int64_t *most)
{
    int64_t was = *most;
    for (int32_t x = 0; x < b->nlive_range && *most < enough; x += step) {
        int32_t last = b->from[x] - 1;
        for (int32_t k = 0; k < 3 && k <= last; k++) {
            int32_t i = first && k == 2 ? last / 2 : last - k;
            moment_before(b, x, i, b->from, b->begun);
            int64_t bytes = live_bytes_at(b, b->begun);
            if (bytes <= *most) continue;
            *most = bytes;
            memcpy(b->heaviest, b->begun, sizeof *b->begun * (size_t)b->nlive_range);
        }
    }
    return *most > was;
}

/* Returns a lower bound of the bytes of any arena, which is seldom below the optimum: the bytes in use at one
 * moment. To find the moment, a greedy search chooses uses that are live together. If there are many live ranges,
 * only a sample of them is tried as the first choice. The search stops when the bound reaches `enough`. */
static int64_t
find_bound(struct act_offsets *b, int64_t enough)
{
    int64_t n = b->nlive_range, most = 0, step = 1 + 16 * n * n * n / MOST_SIGHTS;
    b->begun = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    b->from = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    b->heaviest = ARENA_ARRAY(&b->of_device, int32_t, n + 1);
    for (int32_t y = 0; y < n; y++) b->from[y] = last_use(b, y) + 1;
    for (bool first = true; find_heavier(b, (int32_t)MIN(step, n), first, enough, &most); first = false)
        memcpy(b->from, b->heaviest, sizeof *b->from * (size_t)n);
    return most;
}

/* ---- sequential micro-batches ---- */

/* Marks the tasks that run once, after tasks that run per micro-batch. */
static void
act_offset_find_late(struct act_offsets *b)
{
    const struct plan *p = b->plan;
    b->late = ARENA_ARRAY(&b->arena, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin && p->task[i].nact == 1; k++) {
            int32_t x = p->task[i].in[k].task;
            b->late[i] = b->late[i] || b->late[x] || p->task[x].nact > 1;
        }
}

/* Adds the lifetime of a live range, from its write to its last reader, to change[]. last true: lifetime of the
 * write in the last micro-batch; false: in the first. */
static void
add_lifetime(struct act_offsets *b, const struct live_range *t, bool last, int64_t *change)
{
    const struct plan *p = b->plan;
    const struct out_port *o = act_offset_port(b, t);
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

/* Returns the peak of bytes if all tasks run in list order, one micro-batch after the other. No arena is smaller. */
static int64_t
bytes_in_order(struct act_offsets *b)
{
    const struct plan *p = b->plan;
    int64_t *change = ARENA_ARRAY(&b->of_device, int64_t, 2 * p->ntask + 2), bytes = 0, most = 0;
    for (int32_t i = 0; i < b->nlive_range; i++) {
        const struct live_range *t = &b->live_range[i];
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
shares_offset(const struct out_port *o, int32_t device)
{
    return o->where.kind == IN_ARENA && o->where.index == device && o->bytes > 0;
}

/* Lists the device's live ranges. Returns the number of live ranges that are made per micro-batch. */
static int32_t
list_offset_live_ranges(struct act_offsets *b, int32_t device)
{
    const struct plan *p = b->plan;
    int32_t nagain = 0;
    b->nlive_range = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            if (!shares_offset(&p->task[i].out[k], device)) continue;
            bool again = p->task[i].nact > 1 && p->task[i].out[k].every == 1;
            b->live_range[b->nlive_range++] = (struct live_range){.task = i,
                                                                  .out = k,
                                                                  .asked = b->asked[b->first_out[i] + k],
                                                                  .nreg = p->task[i].out[k].nreg,
                                                                  .again = again};
            nagain += again;
        }
    return nagain;
}

/* Sets the number of per-act offsets of a result: one per micro-batch, or fewer if there are too many uses. Returns
 * false if per-act offsets are not used: no result is made per micro-batch, there are too many live ranges, or so
 * few offsets are possible that a result has less than two per register. */
static bool
count_berths(struct act_offsets *b, int32_t nagain)
{
    int32_t once = b->nlive_range - nagain, most = 1;
    if (nagain == 0 || b->nlive_range > MOST_LIVE_RANGES) return false;
    int32_t fits = MAX(MIN(ENOUGH, (MOST_USES - once) / nagain), (FEW_USES - once) / nagain);
    b->nact_offset = MIN(b->plan->pieces, fits);
    b->nuse = once + nagain * b->nact_offset;
    for (int32_t i = 0; i < b->nlive_range; i++)
        if (b->live_range[i].again) most = MAX(most, b->live_range[i].asked);
    return b->nact_offset >= MIN(b->plan->pieces, 2 * most);
}

/* ---- a device ---- */

/* Returns the size of an arena, in bytes, that is close enough to the optimum to need no per-act offsets. least:
 * lower bound of any arena. */
static int64_t
good_enough(int64_t least)
{
    return least + MAX(least / ACT_OFFSETS_GOOD, LEAST_BYTES);
}

/* Returns the least lower bound with which an arena of `bytes` bytes is close enough to the optimum (inverse of
 * good_enough()). */
static int64_t
good_from(int64_t bytes)
{
    int64_t least = MAX(MIN(bytes - LEAST_BYTES, bytes - bytes / (ACT_OFFSETS_GOOD + 1)), 0);
    while (least > 0 && bytes <= good_enough(least - 1)) least--;
    while (bytes > good_enough(least)) least++;
    return least;
}

/* Sets the number of registers of each result. asked true: the number that the readers request, because with
 * per-act offsets further registers would only let producers run further ahead. asked false: the number that
 * packing allocated (one per stage slot). */
static void
set_registers(struct act_offsets *b, bool asked)
{
    for (int32_t i = 0; i < b->nlive_range; i++) {
        const struct task *t = &b->plan->task[b->live_range[i].task];
        struct out_port *o = &t->out[b->live_range[i].out];
        o->nreg = asked ? b->live_range[i].asked : b->live_range[i].nreg;
        o->once = t->nact / o->every <= o->nreg;
    }
}

static void
take_berths(struct act_offsets *b)
{
    int32_t u = 0;
    for (int32_t i = 0; i < b->nlive_range; i++) {
        const struct live_range *t = &b->live_range[i];
        struct out_port *o = &b->plan->task[t->task].out[t->out];
        o->where.offset = b->best[u];
        o->where.stride = where_stride(o->bytes);
        if (t->again) {
            o->where.nact_offset = b->nact_offset;
            o->where.berth = arena_dup(&b->plan->arena, b->best + u, sizeof *b->best * (size_t)b->nact_offset);
        }
        u += t->again ? b->nact_offset : 1;
    }
}

/* Sets offset and stride of results without bytes to 0, which is inside any arena. The stride may have been the size
 * of a stage slot, and the slots do not fit in the smaller arena. */
static void
move_empty(struct plan *p, int32_t device)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            struct where *w = &p->task[i].out[k].where;
            if (w->kind == IN_ARENA && w->index == device && p->task[i].out[k].bytes == 0) w->offset = w->stride = 0;
        }
}

static void
make_room(struct act_offsets *b)
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

/* Returns true if acts that have the same offset, because micro-batches use the offsets in turn, never overlap in
 * time. */
static bool
takes_turns(const struct act_offsets *b)
{
    for (int32_t i = 0; i < b->nlive_range; i++)
        if (b->live_range[i].again && b->nact_offset < b->plan->pieces &&
            b->after[i * b->nlive_range + i] > b->nact_offset)
            return false;
    return true;
}

static void
find_reach(struct act_offsets *b)
{
    int32_t n = b->nlive_range;
    b->reach = ARENA_ARRAY(&b->of_device, struct reach, n * n);
    for (int32_t x = 0; x < n; x++)
        for (int32_t y = 0; y < n; y++) b->reach[x * n + y] = reach_of(b, x, y);
}

/* Finds per-act offsets for a device. Returns false if per-act offsets save too little; registers are then used
 * in turn. */
static bool
find_berths(struct act_offsets *b, struct plan_device *d, int32_t device)
{
    list_back(b);
    b->after = ARENA_ARRAY(&b->of_device, int32_t, b->nlive_range * b->nlive_range);
    find_after(b, device);
    if (!takes_turns(b)) return false;
    int64_t bound = find_bound(b, good_from(d->scratch));
    if (d->scratch <= good_enough(bound)) return false;
    find_reach(b);
    make_room(b);
    act_offsets_list(b);
    int64_t bytes = act_offsets_place(b, bound);
    if (bytes > d->scratch - d->scratch / LEAST_GAIN) return false;
    d->scratch = bytes;
    d->nact_offset = b->nact_offset;
    d->arena_bytes = d->scratch + d->scratch_bytes;
    return true;
}

static void
pack_offset_device(struct act_offsets *b, struct plan_device *d, int32_t device)
{
    if (!count_berths(b, list_offset_live_ranges(b, device))) return;
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
make_offset_tables(struct act_offsets *b)
{
    const struct plan *p = b->plan;
    struct arena *a = &b->arena;
    int32_t nin = 0, nresult = 0;
    for (int32_t i = 0; i < p->ntask; i++) {
        nin += p->task[i].nin;
        nresult += p->task[i].nresult;
    }
    b->live_range = ARENA_ARRAY(a, struct live_range, nresult + 1);
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
act_offset_registers(struct plan *p, const int32_t *first_out, const int32_t *asked)
{
    struct act_offsets b = {.plan = p, .first_out = first_out, .asked = asked};
    if (p->pieces == 1 || !is_all_plain(p)) return;
    make_offset_tables(&b);
    act_offset_find_late(&b);
    for (int32_t d = 0; d < p->ndevice; d++) {
        pack_offset_device(&b, &p->device[d], d);
        arena_reset(&b.of_device);
    }
    arena_fini(&b.of_device);
    arena_fini(&b.arena);
}
