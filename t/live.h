/* live.h - how well registers are packed: a device's arena beside the bytes that must lie in it at the worst moment.
 *
 * The moments are those of executions that may happen, so that no arena in which the plan runs is smaller: acts one
 * after the other in the order of the plan, which is what the packing goes by; in pieces also acts as they are played
 * when tasks take all alike, or anything. Any thread; nothing is kept. */
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

/* One act after the other: what is done once before the pieces, piece by piece, what is done once after them, each in
 * the order of the plan. */
static int64_t
live_in_order(const struct plan *p, int32_t device, struct arena *a)
{
    int64_t n = 0, all = 0;
    bool *late = ARENA_ARRAY(a, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) all += p->task[i].nact;
    struct act_time *act = ARENA_ARRAY(a, struct act_time, all + 1);
    live_late(p, late);
    for (int32_t round = -1; round <= p->pieces; round++)
        for (int32_t i = 0; i < p->ntask; i++) {
            bool once = p->task[i].nact == 1;
            if (once ? round != (late[i] ? p->pieces : -1) : round < 0 || round >= p->task[i].nact) continue;
            act[n] = (struct act_time){.task = i, .piece = once ? 0 : round, .begin = 2 * n + 1, .end = 2 * n + 2};
            n++;
        }
    return live_peak(p, device, act, n, a);
}

/* Play 0: all tasks take the same. -1: it does not end. */
static int64_t
live_played(const struct plan *p, int32_t device, int play, struct arena *a)
{
    int64_t nact, *cost = ARENA_ARRAY(a, int64_t, p->ntask + 1);
    struct act_time *act;
    uint32_t random = (uint32_t)play;
    for (int32_t i = 0; i < p->ntask; i++) {
        random = random * 1664525 + 1013904223;
        cost[i] = 1 + (play ? random >> 20 : 1000);
    }
    return plan_play(p, cost, NULL, PLAY_DEVICES, a, &act, &nact) ? -1 : live_peak(p, device, act, nact, a);
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
    *live = live_in_order(p, d, &tmp);
    for (int i = 0; i < nplay; i++) {
        *live = MAX(*live, live_played(p, d, i, &tmp));
        arena_reset(&tmp);
    }
    arena_fini(&tmp);
}

#endif
