/* open_run.c - the run that is open: what a session does before it is waited for, and who waits.
 *
 * A run of one device with streams returns when all its work is on them
 * (actors/act/engine.h). The next run is ordered behind it; everybody else waits:
 * a run that cannot be, who touches bytes from the host (the pools ask, by the
 * numbers that buffers have), who frees the plan, who wants times, the close of the
 * session. Runs that may stay open are counted here; the one place that knows what
 * is open is the engine's. */
#include "actors/session/face.h"
#include "actors/session/session.h"

#include "kernels/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>

/* What a failed run wrote is no value, nor is what the one behind it was about to write: that has ended too. */
static void
note_failure(struct rille_session *s, uint64_t last)
{
    struct work_order *o = &s->work;
    if (!engine_left_failed(s->engine)) return;
    for (uint64_t number = s->open; number <= last; number++) {
        GROW(o->failed, o->nfailed + 1, o->failed_capacity);
        o->failed[o->nfailed++] = number;
    }
}

/* Nothing is open any more. */
static void
note_end(struct rille_session *s)
{
    if (!s->open) return;
    note_failure(s, s->open);
    s->open = 0;
    atomic_store(&s->work.done, s->work.begun);
}

int
session_settle(struct rille_session *s)
{
    if (s->cluster) return 0;
    TRY(engine_await(s->engine, false));
    note_end(s);
    return engine_left(s->engine);
}

void
session_drain(struct rille_session *s)
{
    if (!s->engine || s->cluster) return;
    engine_await(s->engine, true);
    note_end(s);
}

static int
await(void *of, bool must)
{
    struct rille_session *s = of;
    if (!must) return session_settle(s);
    session_drain(s);
    return 0;
}

void
work_order_begin(struct rille_session *s)
{
    s->work.await = await;
    s->work.of = s;
}

/* ---- a run ---- */

int
open_run_before(struct rille_session *s, struct runner *r)
{
    r->run.stays_open = !s->cluster && run_may_stay_open(&r->run) && !kernel_checks();
    return s->cluster || (s->open && engine_follows(s->engine, &r->run)) ? 0 : session_settle(s);
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
    r->number = r->run.stays_open ? ++s->work.begun : 0;
    if (!r->number) return;
    note(r->leaf, g->nleaf, r->number, false);
    note(r->root, g->nroot, r->number, true);
}

void
open_run_after(struct rille_session *s, const struct runner *r, int status)
{
    if (!r->number) return;
    bool open = !status && engine_is_open(s->engine);
    if (s->open) note_failure(s, r->number);
    s->open = open ? r->number : 0;
    atomic_store(&s->work.done, open ? r->number - 1 : r->number);
}

int
rille_wait(struct rille_session *s)
{
    TRY(face_session(s, __func__));
    return session_settle(s);
}
