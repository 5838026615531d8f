/* open_run.c - waits for open runs, and reports open and failed runs to the memory pools.
 *
 * A run on one device with streams returns when all work is on the streams (actors/act/run/engine.h). The next run
 * is ordered behind the open run. The following wait until the run is complete: a run that cannot be ordered behind
 * it; host access to a buffer (the pool compares the buffer's run number); freeing the plan; reading times; closing
 * the session. Only the engine knows which runs are open; open_run_after() copies that knowledge to the pools. */
#include "actors/session/run/open_run.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/run/runner.h"

#include "actors/act/run/open_run.h"

#include <stdatomic.h>
#include <stdlib.h>

void
open_run_after(struct rille_session *s)
{
    struct work_order *o = &s->runs.order;
    uint64_t failed = s->cluster ? 0 : engine_left_failed(s->engine);
    for (; failed && failed <= engine_last(s->engine); failed++) {
        GROW(o->failed, o->nfailed + 1, o->failed_capacity);
        o->failed[o->nfailed++] = failed;
    }
    if (!s->cluster) atomic_store_explicit(&o->done, engine_done(s->engine), memory_order_release);
}

static int
await_number(void *of, uint64_t number, bool must)
{
    struct rille_session *s = of;
    int status = engine_await(s->engine, number, must);
    open_run_after(s);
    return status || must ? status : engine_left(s->engine);
}

int
session_settle(struct rille_session *s)
{
    return s->cluster ? 0 : await_number(s, engine_last(s->engine), false);
}

void
session_drain(struct rille_session *s)
{
    if (s->engine && !s->cluster) await_number(s, engine_last(s->engine), true);
}

void
work_order_begin(struct rille_session *s)
{
    s->runs.order.await = await_number;
    s->runs.order.of = s;
}

/* ---- before and after a run ---- */

int
open_run_before(struct rille_session *s, struct runner *r)
{
    bool alone = !s->cluster && engine_done(s->engine) == engine_last(s->engine);
    r->run.stays_open = !s->cluster && run_may_stay_open(&r->run) && !kernel_checks() && !r->plan->program->find_nan;
    return s->cluster || (!alone && engine_follows(s->engine, &r->run)) ? 0 : session_settle(s);
}

static void
note(struct store *const *store, int32_t n, uint64_t number, bool writes)
{
    for (int32_t i = 0; i < n; i++)
        for (int pos = 0; pos < store[i]->n; pos++) {
            struct buffer *b = store[i]->part[pos];
            if (!b) continue;
            b->touched = number;
            if (writes) b->written = number;
        }
}

void
open_run_bound(struct rille_session *s, struct runner *r)
{
    const struct program *g = r->plan->program;
    if (!r->run.stays_open) return;
    s->runs.order.begun = engine_last(s->engine) + 1;
    note(r->leaf, g->nleaf, s->runs.order.begun, false);
    note(r->root, g->nroot, s->runs.order.begun, true);
}

int
rille_wait(struct rille_session *s)
{
    TRY(face_session(s, __func__));
    return session_settle(s);
}
