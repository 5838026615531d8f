/* coordinator_pace.c - finds workers that are slower than other workers with the same work.
 *
 * An END packet reports the acts of a worker and the busy time of the worker's devices. After every WINDOW
 * successful runs, workers with equal numbers of acts are compared: replicas have equal numbers, pipeline stages do
 * not. A worker is reported if its busy time is more than twice the median of the other workers, and exceeds the
 * median by more than chance explains (excess_ns). A worker is reported only once. Waiting is not busy time, so a
 * worker that waits for a slow worker does not appear slow. */
#include "actors/cluster/coordinator/coordinator_inner.h"

#include "runtime/data/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 16, TIMES = 2 };
static const uint64_t excess_ns = 200000000;

static int
by_acts_and_busy(const void *a, const void *b)
{
    const struct pace *x = *(struct pace *const *)a, *y = *(struct pace *const *)b;
    if (x->acts != y->acts) return x->acts < y->acts ? -1 : 1;
    return x->busy_ns < y->busy_ns ? -1 : x->busy_ns > y->busy_ns;
}

static void
report_pace(struct coordinator *c, struct pace *p)
{
    char text[128];
    if (p->told) return;
    p->told = true;
    snprintf(text, sizeof text, "its tasks take %.1f times as long as the same tasks on other workers", p->times);
    coordinate_tell(c, (struct notice){.kind = NOTICE_SLOW, .rank = p->rank, .text = text});
}

/* Reports slow workers among n workers with equal numbers of acts, sorted by busy time. The median of all workers
 * except worker i is at `middle`, or directly after it if i <= middle. */
static void
compare_paces(struct coordinator *c, struct pace **p, int n)
{
    int middle = (n - 2) / 2;
    for (int i = 0; i < n && n > 1; i++) {
        uint64_t others = p[i <= middle ? middle + 1 : middle]->busy_ns;
        bool slow = p[i]->busy_ns > TIMES * others && p[i]->busy_ns - others > excess_ns;
        p[i]->times = slow ? (double)p[i]->busy_ns / (double)MAX(others, 1) : 0;
        if (slow) report_pace(c, p[i]);
    }
}

void
coordinate_pace(struct coordinator *c)
{
    if (++c->npaced % WINDOW) return;
    struct pace **p = must_alloc(sizeof *p * (size_t)c->options.world);
    int n = 0;
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r])) (p[n++] = &c->member[r].pace)->rank = r;
    qsort(p, (size_t)n, sizeof(struct pace *), by_acts_and_busy);
    for (int first = 0, i = 1; i <= n; i++) {
        if (i < n && p[i]->acts == p[first]->acts) continue;
        compare_paces(c, p + first, i - first);
        first = i;
    }
    for (int i = 0; i < n; i++) p[i]->acts = p[i]->busy_ns = 0;
    free(p);
}

void
coordinate_worked(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    uint64_t busy = 0;
    for (uint32_t i = 0; i + 16 <= p->busy.n; i += 16) {
        uint64_t pair[2];
        memcpy(pair, p->busy.bytes + i, sizeof pair);
        busy += pair[1];
    }
    m->pace.acts += p->count;
    m->pace.busy_ns += busy;
    m->info.acts += p->count;
    m->info.busy_ns += busy;
}
