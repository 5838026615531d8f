/* rows.c - what each lane of a step is expected to do, by the times of its first calls: here, and in all processes.
 *
 * The session makes the rows of the whole plan, whose parts it joins where there are several hosts, with moves as one
 * memory has them, and workers are told those of their part: so they follow the order that one process would. */
#include "actors/plan/account.h"
#include "actors/session/compiled.h"
#include "actors/session/sight.h"

#include "runtime/error.h"

enum { MOST_ACTS = 1 << 20 }; /* of parts that are joined */

/* Lanes wait for what is next in a row where a step comes in pieces, and there are several of them. */
static bool
wants_rows(const struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    int hosts = sight_hosts(g->runner);
    bool several = p->nthread > 1 || hosts > 1;
    for (int32_t d = 0; d < p->ndevice; d++) several = several || device_kind(p->device[d].kind)->stream_new;
    return p->pieces > 1 && several && hosts == sight_count(g->runner) && g->nact < MOST_ACTS / hosts;
}

void
rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w)
{
    if (!g->s->cluster) return;
    struct str *of = remote_rows(g->s, g->runner);
    for (int i = 0; i < w->npart && rows->nlane; i++)
        play_rows_write(rows, w->part[i], w->first[i], &of[w->part[i]->memory]);
}

static int
make(struct rille_graph *g, struct arena *tmp)
{
    struct whole w;
    struct play_how how = {.share = PLAY_THREADS};
    TRY(sight_whole(g->s, g->runner, g->act, g->nact, true, tmp, &w));
    int64_t *cost = ARENA_ARRAY(tmp, int64_t, w.plan->ntask + 1);
    if (!account_costs(w.plan, w.act, w.nact, cost)) return 0;
    how.jitter.share = account_jitter(w.act, w.nact, cost);
    TRY(play_rows(w.plan, cost, &how, &g->arena, &g->rows));
    rows_give(g, &g->rows, &w);
    return 0;
}

void
rows_make(struct rille_graph *g)
{
    struct arena tmp = {0};
    if (wants_rows(g) && make(g, &tmp)) err_clear();
    arena_fini(&tmp);
}
