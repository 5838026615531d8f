/* lane.c - keeps each lane's ready tasks in a heap, and decides when a lane waits for the next task of its row. */
#include "actors/act/run/lane.h"

#include "actors/act/run/actor.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"

#include <stdlib.h>

/* ---- heaps ---- */

static uint64_t
lane_task_key(const struct worker *w, int task)
{
    int32_t act = w->actors->actor[task].begun;
    const struct lane_rows *rows = w->run->rows;
    return rows ? row_key(rows, task, act) : task_key(w->plan, &w->plan->task[task], act);
}

static struct lane *
task_lane(const struct worker *w, int task)
{
    const struct lane_rows *rows = w->run->rows;
    return rows ? &w->lanes.lane[rows->lane_of[task] - rows->first_lane[w->id]] : w->lanes.lane;
}

void
lanes_push(struct worker *w, int task)
{
    struct lane *l = task_lane(w, task);
    assert(w->lanes.nready < w->lanes.ready_capacity);
    w->lanes.nready++;
    heap_push(&l->ready, lane_task_key(w, task), task);
}

/* ---- rows ---- */

void
lanes_ended(struct worker *w, int task, int64_t now)
{
    if (w->run->rows) task_lane(w, task)->free_ns = now;
}

/* Returns true if a lane (the ready tasks of one stream) should wait until the next task of its schedule row is
 * ready, instead of starting another task. While the lane's stream has work, an early start gains nothing, and the
 * end of that work wakes the thread. When the stream has no work, the lane waits for a limited time (patience),
 * because a late task costs time but does no other harm. A thread with nothing in flight never waits for a task that
 * only this thread could make ready. */
static bool
lane_holds_back(struct worker *w, struct lane *l)
{
    const struct actor *actor = w->actors->actor;
    const struct flow *f = flow_of(w, &w->plan->task[l->ready.value[0]]);
    int64_t patience = w->run->rows->patience[l->ready.value[0]];
    if (f && flow_full(f)) return true;
    for (; l->row < l->row_end && l->row->piece < actor[l->row->task].begun; l->row++) continue;
    if (patience == 0 || l->row == l->row_end || actor[l->row->task].waits == 0) return false;
    if (f && !flow_empty(f)) return true;
    if ((w->plan->nthread == 1 && !w->plan->nchannel && w->flows.nunder == 0) || now_ns() >= l->free_ns + patience)
        return false;
    w->lanes.until_ns = MIN(w->lanes.until_ns, l->free_ns + patience);
    return true;
}

struct lane *
lanes_next(struct worker *w)
{
    struct lane *next = NULL;
    w->lanes.until_ns = INT64_MAX;
    for (struct lane *l = w->lanes.lane; l < w->lanes.lane + w->lanes.nlane; l++)
        if (l->ready.n > 0 && (!next || l->ready.key[0] < next->ready.key[0]) && !lane_holds_back(w, l)) next = l;
    if (next) w->lanes.until_ns = 0;
    return next;
}

struct lane *
lanes_at(struct worker *w, int *i)
{
    struct lane *l = w->lanes.lane;
    for (; *i >= l->ready.n; l++) *i -= l->ready.n;
    return l;
}

/* ---- a run ---- */

/* Returns the number of lanes that the thread has in these schedule rows. */
static int32_t
lane_count(const struct worker *w, const struct lane_rows *r)
{
    return r ? r->first_lane[w->id + 1] - r->first_lane[w->id] : 1;
}

void
lanes_make(struct worker *w, const struct run *run)
{
    int32_t ntask = run->plan->nlocal[w->id], nlane = lane_count(w, run->rows);
    if (ntask > w->lanes.ready_capacity) {
        w->lanes.ready_capacity = ntask;
        w->lanes.ready = must_realloc(w->lanes.ready, sizeof *w->lanes.ready * (size_t)ntask);
        w->lanes.ready_key = must_realloc(w->lanes.ready_key, sizeof *w->lanes.ready_key * (size_t)ntask);
    }
    if (nlane > w->lanes.lane_capacity) {
        w->lanes.lane_capacity = nlane;
        w->lanes.lane = must_realloc(w->lanes.lane, sizeof *w->lanes.lane * (size_t)nlane);
    }
}

void
lanes_free(struct worker *w)
{
    free(w->lanes.ready);
    free(w->lanes.ready_key);
    free(w->lanes.lane);
}

void
lanes_reset(struct worker *w)
{
    const struct lane_rows *r = w->run->rows;
    int64_t now = now_ns(), room = 0;
    w->lanes.nready = 0;
    w->lanes.until_ns = 0;
    w->lanes.nlane = lane_count(w, r);
    for (int32_t k = 0; k < w->lanes.nlane; k++) {
        struct lane *l = &w->lanes.lane[k];
        *l = (struct lane){.ready = {w->lanes.ready_key + room, w->lanes.ready + room, 0}, .free_ns = now};
        if (!r) continue;
        int32_t n = r->first_lane[w->id] + k;
        room += r->max_ready[n];
        l->row = r->act + r->first[n];
        l->row_end = r->act + r->first[n + 1];
    }
}
