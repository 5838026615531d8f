/* repeat.c - finds runs of similar items, and numbers their layers. */
#include "sbp/net/repeat.h"

#include "runtime/data/hash.h"
#include "runtime/base/system.h"

#include <stdlib.h>
#include <string.h>

#define NO_LAYER INT32_MIN

enum {
    LAYERS = 6,   /* minimum number of layers of a run */
    PERIODS = 96, /* maximum number of periods that are tried */
    HUB = 64,     /* an item with at least this many neighbours is ignored when layers are determined */
};

/* ---- finding the runs of similar items ---- */

static void
add_run(struct repeat *r, int32_t begin, int32_t end, int32_t period)
{
    while (begin < end && r->run_of[begin] >= 0) begin++;
    while (begin < end && r->run_of[end - 1] >= 0) end--;
    for (int32_t i = begin; i < end; i++)
        if (r->run_of[i] >= 0) return;
    if (end - begin < LAYERS * period) return;
    for (int32_t i = begin; i < end; i++) r->run_of[i] = r->nrun;
    r->run[r->nrun] = (struct repeat_run){.begin = begin, .end = end, .period = period};
    r->run[r->nrun++].base = ARENA_ARRAY(&r->arena, int32_t, period);
}

static int
compare_run_counts(const void *a, const void *b, void *count)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b, x = ((int32_t *)count)[i], y = ((int32_t *)count)[j];
    return x != y ? (x > y ? -1 : 1) : i < j ? -1 : i > j;
}

/* Finds the most frequent distances between an item and the next similar item. */
static int32_t
find_periods(struct repeat *r, int32_t *period)
{
    struct hash_table last = {.arena = &r->arena};
    int32_t *count = ARENA_ARRAY(&r->arena, int32_t, r->n + 1), *all = ARENA_ARRAY(&r->arena, int32_t, r->n + 1), n = 0;
    for (int32_t i = r->n - 1; i >= 0; i--) {
        uint32_t at = 0;
        void *item = hash_next(&last, r->key[i], &at);
        if (item) count[hash_index_of(item) - i]++;
        if (item) hash_remove(&last, r->key[i], item);
        hash_add(&last, r->key[i], hash_index(i));
    }
    for (int32_t p = 1; p <= r->n / LAYERS; p++)
        if (count[p]) all[n++] = p;
    system_sort(all, (size_t)n, sizeof *all, compare_run_counts, count);
    n = MIN(n, PERIODS);
    memcpy(period, all, sizeof *all * (size_t)n);
    return n;
}

struct stretch {
    int32_t begin, end, period;
};

static int
compare_run_lengths(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    int32_t m = x->end - x->begin, n = y->end - y->begin;
    if (m != n) return m > n ? -1 : 1;
    if (x->period != y->period) return x->period < y->period ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void
find_runs(struct repeat *r)
{
    int32_t period[PERIODS], nperiod = find_periods(r, period), n = 0;
    struct stretch *s = ARENA_ARRAY(&r->arena, struct stretch, nperiod * (LAYERS + 1) + r->n);
    r->run_of = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    r->run = ARENA_ARRAY(&r->arena, struct repeat_run, r->n / LAYERS + 1);
    memset(r->run_of, 0xff, sizeof *r->run_of * (size_t)(r->n + 1));
    for (int k = 0; k < nperiod; k++)
        for (int32_t p = period[k], i = 0, begin = 0; i + p <= r->n; i++) {
            if (i + p < r->n && r->key[i] == r->key[i + p]) continue;
            if (i - begin >= (LAYERS - 1) * p && n < r->n) s[n++] = (struct stretch){begin, i + p, p};
            begin = i + 1;
        }
    qsort(s, (size_t)n, sizeof *s, compare_run_lengths);
    for (int32_t k = 0; k < n; k++) add_run(r, s[k].begin, s[k].end, s[k].period);
}

/* ---- numbering the layers of runs ---- */

static int32_t
layer_in_run(const struct repeat *r, int32_t i)
{
    const struct repeat_run *x = &r->run[r->run_of[i]];
    return (i - x->begin) / x->period;
}

int32_t
repeat_moved(const struct repeat *r, int32_t i, int32_t by)
{
    if (r->layer[i] < 0) return i;
    int64_t to = (int64_t)r->place[i] + by;
    return to < 0 || to >= r->n || r->head[r->row[to]] != r->head[i] ? -1 : r->row[to];
}

/* Determines the layer with which a run begins and, if *way is 0, the direction of its layer numbers, by a vote of
 * neighbouring items in other runs. Uses the run's items from `from` on, `step` apart. vote: work space; all zeros
 * before and after the call. Returns false if no item votes. */
static bool
ask_beside(const struct repeat *r, int32_t run, int32_t from, int32_t step, int32_t *vote, int32_t *way, int32_t *base)
{
    const struct repeat_run *x = &r->run[run];
    int32_t most = 0, only = *way;
    for (int pass = 0; pass < 2; pass++) /* the first pass counts, the second clears */
        for (int32_t i = from; i < x->end; i += step)
            for (int32_t k = r->first[i]; k < r->first[i + 1] && r->first[i + 1] - r->first[i] < HUB; k++) {
                int32_t layer = r->layer[r->near[k]];
                if (layer == NO_LAYER || r->run_of[r->near[k]] == run) continue;
                for (int32_t w = 1; w >= -1; w -= 2) {
                    int32_t at = layer - w * layer_in_run(r, i), *n = &vote[(w < 0 ? 4 * r->n : 0) + at + 2 * r->n];
                    *n = pass ? 0 : *n + 1;
                    if (*n <= most || (only && w != only)) continue;
                    most = *n;
                    *way = w;
                    *base = at;
                }
            }
    return most > 0;
}

/* Aligns a run's layers with the layers of neighbouring runs: first one vote over all items of the run, then one
 * vote for each position of the period. */
static bool
align(struct repeat *r, int32_t run, int32_t *vote)
{
    struct repeat_run *x = &r->run[run];
    int32_t base;
    if (!ask_beside(r, run, x->begin, 1, vote, &x->way, &base)) return false;
    for (int32_t k = 0; k < x->period; k++) {
        x->base[k] = base;
        ask_beside(r, run, x->begin + k, x->period, vote, &x->way, &x->base[k]);
    }
    return true;
}

static void
link_items(struct repeat *r, int32_t i, int32_t on)
{
    r->next[i] = on;
    r->last[on] = i;
}

static void
count_layers(struct repeat *r, const struct repeat_run *x)
{
    for (int32_t i = x->begin; i < x->end; i++) {
        r->layer[i] = x->base[(i - x->begin) % x->period] + x->way * layer_in_run(r, i);
        if (i + x->period < x->end && x->way > 0) link_items(r, i, i + x->period);
        if (i + x->period < x->end && x->way < 0) link_items(r, i + x->period, i);
    }
}

/* Matches the neighbours of i with those neighbours of `on` that are similar; i and `on` are counterparts in
 * successive layers. Appends new pairs to the queue. */
static int32_t
grow_pair(struct repeat *r, int32_t i, int32_t on, int32_t *queue, int32_t n)
{
    int32_t many = r->first[i + 1] - r->first[i];
    if (many != r->first[on + 1] - r->first[on] || many >= HUB) return n;
    for (int32_t k = 0; k < many; k++) {
        int32_t a = r->near[r->first[i] + k], b = r->near[r->first[on] + k];
        if (a == b || r->key[a] != r->key[b] || r->next[a] >= 0 || r->last[b] >= 0) continue;
        link_items(r, a, b);
        queue[n++] = a;
    }
    return n;
}

/* Extends the matching to items before and after a run. */
static void
grow_repeat(struct repeat *r)
{
    int32_t *queue = ARENA_ARRAY(&r->arena, int32_t, r->n + 1), n = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->next[i] >= 0) queue[n++] = i;
    for (int32_t k = 0; k < n; k++) n = grow_pair(r, queue[k], r->next[queue[k]], queue, n);
    for (bool any = true; any;) {
        any = false;
        for (int32_t k = 0; k < n; k++) {
            int32_t i = queue[k], on = r->next[i];
            if (r->layer[i] == NO_LAYER && r->layer[on] != NO_LAYER)
                r->layer[i] = r->layer[on] - 1;
            else if (r->layer[on] == NO_LAYER && r->layer[i] != NO_LAYER)
                r->layer[on] = r->layer[i] + 1;
            else
                continue;
            any = true;
        }
    }
}

/* Appends item i and its counterparts in later layers (its chain) to r->row, which has n entries. Returns the row's
 * new length. */
static int32_t
stand_in_row(struct repeat *r, int32_t i, int32_t n)
{
    for (int32_t head = i; i >= 0 && r->head[i] < 0; i = r->next[i]) {
        r->head[i] = head;
        r->place[i] = n;
        r->row[n++] = i;
    }
    return n;
}

static void
stand_in_rows(struct repeat *r)
{
    int32_t n = 0;
    r->row = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    r->place = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    r->head = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    memset(r->head, 0xff, sizeof *r->head * (size_t)(r->n + 1));
    for (int32_t i = 0; i < r->n; i++)
        if (r->last[i] < 0) n = stand_in_row(r, i, n);
    for (int32_t i = 0; i < r->n; i++) n = stand_in_row(r, i, n); /* adds items in cycles, which have no first item */
}

/* Assigns an item without a run to the highest layer of its neighbours, if the neighbours' layers differ by at
 * most 1. */
static void
join_layer(struct repeat *r, int32_t i)
{
    int32_t low = INT32_MAX, high = NO_LAYER;
    for (int32_t k = r->first[i]; k < r->first[i + 1]; k++) {
        int32_t layer = r->layer[r->near[k]];
        if (layer != NO_LAYER) low = MIN(low, layer);
        high = MAX(high, layer);
    }
    if (high != NO_LAYER && high - low <= 1) r->layer[i] = high;
}

/* Numbers layers from 0; -1: none. Incomplete layers at either end join the nearest complete layer. */
static void
number_layers(struct repeat *r)
{
    int32_t low = INT32_MAX, high = NO_LAYER, n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (r->layer[i] == NO_LAYER) continue;
        low = MIN(low, r->layer[i]);
        high = MAX(high, r->layer[i]);
        n++;
    }
    int32_t *count = ARENA_ARRAY(&r->arena, int32_t, high - low + 1), full = n / (high - low + 1) / 2, first = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->layer[i] != NO_LAYER) count[r->layer[i] - low]++;
    for (; count[high - low] < full; high--) continue;
    for (; count[first] < full; first++) continue;
    low += first;
    r->nlayer = high - low + 1;
    for (int32_t i = 0; i < r->n; i++)
        r->layer[i] = r->layer[i] == NO_LAYER ? -1 : MIN(MAX(r->layer[i], low), high) - low;
}

static void
find_layers(struct repeat *r)
{
    int32_t *vote = ARENA_ARRAY(&r->arena, int32_t, 8 * (int64_t)r->n + 8);
    r->layer = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    r->next = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    r->last = ARENA_ARRAY(&r->arena, int32_t, r->n + 1);
    for (int32_t i = 0; i < r->n; i++) r->layer[i] = NO_LAYER;
    memset(r->next, 0xff, sizeof *r->next * (size_t)(r->n + 1));
    memset(r->last, 0xff, sizeof *r->last * (size_t)(r->n + 1));
    r->run[0].way = 1;
    count_layers(r, &r->run[0]);
    for (bool any = true; any;) {
        any = false;
        for (int32_t k = 1; k < r->nrun; k++) {
            if (r->run[k].way || !align(r, k, vote)) continue;
            count_layers(r, &r->run[k]);
            any = true;
        }
    }
    /* aligns the first run again, now that other runs have layers */
    if (align(r, 0, vote)) count_layers(r, &r->run[0]);
    if (r->ordered) grow_repeat(r);
    for (int32_t i = 0; r->ordered && i < r->n; i++)
        if (r->layer[i] == NO_LAYER) join_layer(r, i);
    number_layers(r);
    stand_in_rows(r);
}

bool
repeat_begin(struct repeat *r)
{
    find_runs(r);
    if (r->nrun) find_layers(r);
    if (!r->nrun) repeat_end(r);
    return r->nrun > 0;
}

void
repeat_end(struct repeat *r)
{
    arena_fini(&r->arena);
}
