/* live.h - how well registers are packed: a device's arena beside the bytes that must lie in it at the worst moment.
 *
 * The moments are those of executions that may happen, so that no arena in which the plan runs is smaller: acts one
 * after the other in the order of the plan, which is what the packing goes by; in pieces also acts as they are played
 * when tasks take all alike, or anything, or some phases take long, and as they fill most. Any thread; nothing is kept.
 */
#ifndef RILLE_T_LIVE_H
#define RILLE_T_LIVE_H

#include "actors/plan/account.h"

enum { LIVE_PLAYS = 40, LIVE_TASKS = 100000 }; /* plays of small plans; tasks in all of them together */

/* The most bytes of registers in use at once on a device, in one execution. */
static int64_t
live_peak(const struct plan *p, int32_t device, const struct act_time *act, int64_t nact, struct arena *a)
{
    struct reg_change *list;
    int64_t n, now = 0, most = 0;
    plan_changes(p, act, nact, a, &list, &n);
    for (int64_t i = 0; i < n; i++) {
        if (list[i].device != device) continue;
        now += list[i].bytes < 0 ? -where_stride(-list[i].bytes) : where_stride(list[i].bytes);
        most = MAX(most, now);
    }
    return most;
}

/* Does a task that acts once come after the pieces? Only then does it read what they made. */
static void
live_late(const struct plan *p, bool *late)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin && p->task[i].nact == 1; k++) {
            int32_t from = p->task[i].in[k].task;
            late[i] |= late[from] || p->task[from].nact > 1;
        }
}

/* One act after the other: piece by piece, what is done once before the pieces (round -1) or with the first (0), or
 * after them, each in the order of the plan. */
static int64_t
live_in_order(const struct plan *p, int32_t device, int32_t early, struct arena *a)
{
    int64_t n = 0, all = 0;
    bool *late = ARENA_ARRAY(a, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) all += p->task[i].nact;
    struct act_time *act = ARENA_ARRAY(a, struct act_time, all + 1);
    live_late(p, late);
    for (int32_t round = -1; round <= p->pieces; round++)
        for (int32_t i = 0; i < p->ntask; i++) {
            bool once = p->task[i].nact == 1;
            if (once ? round != (late[i] ? p->pieces : early) : round < 0 || round >= p->task[i].nact) continue;
            act[n] = (struct act_time){.task = i, .piece = once ? 0 : round, .begin = 2 * n + 1, .end = 2 * n + 2};
            n++;
        }
    return live_peak(p, device, act, n, a);
}

/* A number that looks random, of two. */
static uint32_t
live_random(uint32_t a, uint32_t b)
{
    uint32_t x = (a * 2654435761u ^ b) * 2246822519u;
    x = (x ^ x >> 15) * 3266489917u;
    return x ^ x >> 13;
}

/* How long tasks take. Play 0: all the same; odd ones: each what it likes; even ones: each phase of a stage a power of
 * two, so that pieces gather before one of them. -1: it does not end. */
static int64_t
live_played(const struct plan *p, int32_t device, int play, struct arena *a)
{
    int64_t nact, *cost = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    struct act_time *act;
    for (int32_t i = 0; i < p->ntask; i++) {
        uint32_t phase = (uint32_t)(p->task[i].stage * (PHASE_BATCH + 1) + p->task[i].phase);
        uint32_t own = live_random((uint32_t)play, (uint32_t)i) >> 20;
        cost[i] = play == 0 ? 1 : play % 2 ? 1 + own : (4096 + own) << live_random((uint32_t)play, phase) % 10;
    }
    return plan_play(p, cost, &(struct play_how){.share = PLAY_DEVICES}, a, &act, &nact)
               ? -1
               : live_peak(p, device, act, nact, a);
}

/* What an act of each task adds to a device's bytes, less what it gives back there as the last of its readers. */
static int64_t *
live_growth(const struct plan *p, int32_t device, struct arena *a)
{
    int64_t *growth = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            int32_t last = i;
            if (o->where.kind != IN_ARENA || o->where.index != device) continue;
            for (int32_t f = 0; f < o->nfan; f++)
                for (int32_t r = 0; r < o->fan[f].nreader; r++) last = MAX(last, o->fan[f].reader[r].task);
            growth[i] += where_stride(o->bytes);
            growth[last] -= where_stride(o->bytes);
        }
    return growth;
}

/* One act after the other, of those that may be next one that adds bytes to the device: whatever the schedule, edges
 * allow it. Try 0: the one that adds most, or takes least; the others: any of them. -1: it does not end. */
static int64_t
live_greedy(const struct plan *p, int32_t device, int try, struct arena *a)
{
    int64_t nact, most = 1, *growth = live_growth(p, device, a), *cost = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    struct plan q = *p;
    struct act_time *act;
    q.task = arena_dup(a, p->task, sizeof *p->task * (size_t)p->ntask);
    q.device = arena_dup(a, p->device, sizeof *p->device * (size_t)p->ndevice);
    for (int32_t d = 0; d < p->ndevice; d++) q.device[d].thread = 0;
    q.nthread = q.group = 1;
    q.round = 0;
    for (int32_t i = 0; i < p->ntask; i++) most = MAX(most, growth[i] < 0 ? -growth[i] : growth[i]);
    for (int32_t i = 0; i < p->ntask; i++) {
        struct task *t = &q.task[i];
        double share = (double)(growth[i] > 0 ? most - growth[i] : -growth[i]) / (double)most;
        cost[i] = 2;
        t->thread = 0;
        t->turn = growth[i] > 0 ? 0 : growth[i] == 0 ? 1 : 2;
        t->lead = (int32_t)(try ? live_random((uint32_t)try, (uint32_t)i) >> 16 : share * 0xffff);
    }
    return plan_play(&q, cost, &(struct play_how){.share = PLAY_THREADS}, a, &act, &nact)
               ? -1
               : live_peak(p, device, act, nact, a);
}

/* Of the device whose registers take the most: the arena without scratch, and the least that it could be as far as is
 * known. */
static void
live_bytes(const struct plan *p, int64_t *arena, int64_t *live)
{
    struct arena tmp = {0};
    int32_t d = 0;
    int nplay = p->pieces > 1 ? MAX(1, MIN(LIVE_PLAYS, LIVE_TASKS / (p->ntask + 1))) : 0;
    for (int32_t i = 0; i < p->ndevice; i++)
        if (p->device[i].scratch > p->device[d].scratch) d = i;
    *arena = p->device[d].scratch;
    *live = MAX(live_in_order(p, d, -1, &tmp), live_in_order(p, d, 0, &tmp));
    for (int i = 0; i <= nplay; i++) {
        *live = MAX(*live, live_greedy(p, d, i, &tmp));
        *live = MAX(*live, live_played(p, d, i, &tmp));
        arena_reset(&tmp);
    }
    arena_fini(&tmp);
}

#endif
