/* run.c - computes requested values: collects the calls, finds their plan, binds leaves and numbers, runs the
 * plan, and frees values that nothing needs any more. */
#include "actors/session/run/run.h"
#include "actors/session/core/session.h"
#include "actors/session/run/cache.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/remote.h"
#include "actors/session/run/runner.h"
#include "actors/cluster/controller/memories.h"
#include "actors/session/run/store.h"

#include "actors/plan/outline/shared_update.h"

#include <stdlib.h>
#include <string.h>

/* ---- binding numbers ---- */

/* Binds a number: stores the bits that a kernel reads, an int64_t or a double. */
void
number_bind(struct rille_session *s, const struct number *n, uint64_t *out)
{
    double f = n->f;
    int64_t i = n->i;
    if (n->kind == NUM_LIVE) {
        f = n->live->value;
        i = (int64_t)f;
    } else if (n->kind == NUM_ORDINAL) {
        /* adds the session's counter of random calls, because n->i counts from the start of the trace */
        i += (int64_t)s->random.ordinal;
    } else if (n->kind == NUM_SEED) {
        i = (int64_t)s->random.seed;
    }
    if (n->is_int)
        memcpy(out, &i, sizeof i);
    else
        memcpy(out, &f, sizeof f);
}

/* ---- computing requested values ---- */

/* Returns true if the run may overwrite the leaf: only nodes of this run still need its bytes, and nothing else
 * holds its buffers. */
static bool
may_donate(const struct collection *c, const struct val *leaf)
{
    return leaf->keep == c->use[collection_slot(c, leaf)] && leaf->store->nref == 1;
}

static int
bind_runner(struct rille_session *s, struct collection *c, struct runner *r)
{
    const struct program *g = r->plan->program;
    assert(g->nleaf == c->nleaf && g->nroot == c->nroot && g->nnumber == c->nnumber);
    if (s->cluster) TRY(remote_ready(s, r));
    for (int32_t i = 0; i < c->nleaf; i++) r->leaf[i] = c->leaf[i]->store;
    for (int32_t i = 0; i < c->nnode; i++) r->run.line[i] = c->node[i]->line;
    /* an uncomputed call may come from a trace, so it may read live numbers (values of user functions) */
    for (int32_t i = 0; i < c->nnumber; i++) {
        struct rille_live *live = c->number[i]->number.kind == NUM_LIVE ? c->number[i]->number.live : NULL;
        if (live && live->fn(live->arg, &live->value)) return fail(E_VALUE, "a live number's function failed");
        number_bind(s, &c->number[i]->number, &r->run.number[i]);
    }
    for (int32_t k = 0; k < c->nroot; k++)
        r->donate[k] = r->overwrites[k] && may_donate(c, c->leaf[g->root[k].overwrites_leaf]);
    return 0;
}

/* Returns true if the value's bytes are needed after the run: by handles, by readers, or by the gradient of its
 * node. */
static bool
is_value_kept(const struct val *v)
{
    return v->keep > 0 || (v->node && node_has_gradient(v->node) && node_saves_out(v->node, v->out));
}

/* Makes replicas of one value share one buffer if a run wrote them separately, because their bytes are equal. */
static void
join_replicas(const struct program *g, struct store *s, const struct val *v)
{
    if (!s || !g->shared_least || !shared_update_in_place(v->layout, &v->type, g->shared_least)) return;
    for (int pos = 0; pos < s->n; pos++) store_share_first(s, v->layout, pos);
}

/* Moves the buffers of the run's results (roots) from the runner to the values. Values that the run overwrote lose
 * their buffers. */
static void
take_roots(struct collection *c, struct runner *r)
{
    const struct program *g = r->plan->program;
    for (int32_t k = 0; k < c->nroot; k++) {
        if (r->overwrites[k] && r->donate[k]) store_drop(&c->leaf[g->root[k].overwrites_leaf]->store);
        if (r->root[k]->nref == 1) join_replicas(g, r->root[k], c->root[k]);
        if (is_value_kept(c->root[k]))
            c->root[k]->store = r->root[k];
        else
            store_drop(&r->root[k]);
        r->root[k] = NULL;
    }
}

static void
settle_nodes(struct rille_session *s, struct collection *c)
{
    for (int32_t i = c->nnode - 1; i >= 0; i--)
        if (!c->unfinished[i]) val_hold(c->node[i]->out[0]);
    for (int32_t i = c->nnode - 1; i >= 0; i--) {
        if (c->unfinished[i]) continue;
        struct val *v = c->node[i]->out[0];
        node_done(s->graph, c->node[i]);
        val_drop(s->graph, &v);
    }
}

/* Marks variables that a failed run had begun to overwrite. */
static void
mark_half_run(struct collection *c, const struct runner *r)
{
    const struct program *p = r->plan->program;
    bool *began = must_alloc(sizeof *began * (size_t)(p->nroot + 1));
    runner_overwrote(r, began);
    for (int32_t k = 0; k < p->nroot; k++)
        if (began[k]) c->leaf[p->root[k].overwrites_leaf]->half_written = 1;
    free(began);
}

int
session_eval(struct rille_session *s, int n, struct val *const *v)
{
    struct collection *c = &s->collection;
    bool ready = true;
    for (int i = 0; i < n; i++) {
        TRY(val_readable(v[i]));
        ready = ready && v[i]->store;
    }
    if (ready) return 0;
    TRY(collect(s, n, v, COLLECT_RUN));
    struct runner *r;
    TRY(cache_find(s, c, &r));
    collection_uses(c);
    collection_unfinished(c);
    TRY(bind_runner(s, c, r));
    int status = runner_run(s, r, false);
    if (status) {
        mark_half_run(c, r);
        return status;
    }
    take_roots(c, r);
    settle_nodes(s, c);
    return 0;
}

/* ---- computing pending readers of values before they are replaced ---- */

static bool
was_computed(const struct node *n)
{
    bool was = n->state != NODE_NEW;
    for (int k = 0; k < n->nout; k++) was = was || (n->out[k] && n->out[k]->keep_next);
    return was;
}

/* Returns true if v is not computed and reads a value that is being replaced. *doubtful: true if the computation
 * of v checks data, so that invalid data make it fail. Skips results that were computed before: only handles that
 * await garbage collection refer to such a result. */
static bool
waits_for_going(struct rille_session *s, struct val *v, bool *doubtful)
{
    const struct collection *c = &s->collection;
    bool waits = false;
    if (v->store || !v->node || was_computed(v->node) || v->layout->place->kind == DEV_META) return false;
    if (collect(s, 1, &v, COLLECT_RUN)) return false;
    *doubtful = false;
    for (int32_t i = 0; i < c->nleaf; i++) waits = waits || c->leaf[i]->leaving;
    for (int32_t i = 0; i < c->nnode && waits; i++) {
        waits = !was_computed(c->node[i]);
        *doubtful = *doubtful || c->node[i]->op->host.say;
    }
    return waits;
}

/* Computes values. A value that cannot be computed stays uncomputed; its reader gets the error. */
static int
try_eval(struct rille_session *s, int n, struct val *const *v)
{
    int status = session_eval(s, n, v);
    return status == E_CANCEL || status == E_LOST ? status : 0;
}

/* Computes all uncomputed readers of the replaced values; computes them one by one if a reader checks data. */
static int
compute_waiting(struct rille_session *s)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * s->handles.ntensor + 1)), **one = v + s->handles.ntensor;
    int n = 0, none = 0;
    for (struct rille_tensor *t = s->handles.tensors; t; t = t->next) {
        bool doubtful;
        if (!waits_for_going(s, t->val, &doubtful)) continue;
        *(doubtful ? &one[none++] : &v[n++]) = t->val;
    }
    int status = try_eval(s, n, v);
    for (int i = 0; i < none && !status; i++) status = try_eval(s, 1, &one[i]);
    free(v);
    return status;
}

int
session_release(struct rille_session *s, int n, struct val *const *going)
{
    bool kept = false;
    for (int i = 0; i < n; i++) kept = kept || (going[i] && going[i]->keep > 1);
    if (!kept) return 0;
    for (int i = 0; i < n; i++)
        if (going[i]) going[i]->leaving = 1;
    int status = compute_waiting(s);
    for (int i = 0; i < n; i++)
        if (going[i]) going[i]->leaving = 0;
    return status;
}

/* ---- adapting to changes of the workers' devices ---- */

/* Gives up the pools of devices whose memory is on another host now. session_pool() makes them again. */
static void
leave_pools(struct rille_session *s, int kind)
{
    struct pool_source source;
    for (int32_t i = 0; i < s->devices.npool[kind]; i++) {
        struct pool **p = &s->devices.pool[kind][i];
        if (!*p) continue;
        cluster_source(s->cluster, kind, i, &source);
        if (!pool_is_from(*p, &source)) pool_leave(p);
    }
}

void
run_renew_devices(struct rille_session *s)
{
    const struct device_counts *d = cluster_devices(s->cluster);
    bool first = s->devices.table == 0;
    if (s->devices.table == cluster_table(s->cluster)) return;
    s->devices.table = cluster_table(s->cluster);
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (k != DEV_META) s->devices.ndevice[k] = d->n[k];
    if (first) return;
    cache_free(&s->cache);
    s->generation++;
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (k != DEV_META) leave_pools(s, k);
    err_clear(); /* ignores an error: the memory of a lost host cannot be freed */
}
