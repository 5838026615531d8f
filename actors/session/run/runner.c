/* runner.c - runs a plan: allocates arenas and buffers for roots, binds buffers, and starts the actors.
 *
 * A variable's new version overwrites the old version if only this run reads the old version. */
#include "actors/act/run/address.h"
#include "actors/cluster/controller/controller.h"
#include "actors/plan/compile.h"
#include "actors/plan/memory/peak.h"
#include "actors/session/run/runner.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/run/open_run.h"
#include "actors/session/run/remote.h"
#include "actors/session/run/store.h"
#include "actors/session/run/totals.h"

#include <stdlib.h>
#include <string.h>

struct runner *
runner_new(struct rille_session *s, struct plan *p)
{
    struct runner *r = must_alloc(sizeof *r);
    const struct program *g = p->program;
    r->s = s;
    r->plan = p;
    r->actors = actors_new(p);
    r->leaf = ARENA_ARRAY(&r->arena, struct store *, g->nleaf + 1);
    r->root = ARENA_ARRAY(&r->arena, struct store *, g->nroot + 1);
    r->donate = ARENA_ARRAY(&r->arena, bool, g->nroot + 1);
    r->overwrites = ARENA_ARRAY(&r->arena, bool, g->nroot + 1);
    for (int32_t k = 0; k < g->nroot; k++) r->overwrites[k] = p->overwrites[k];
    r->run = run_of(&r->arena, p, r->actors);
    for (int32_t i = 0; i < g->nnode; i++) r->run.line[i] = g->node[i].line;
    return r;
}

size_t
runner_bytes(const struct runner *r)
{
    return sizeof *r + r->arena.used_bytes + actors_bytes(r->actors) + plan_bytes(r->plan);
}

void
runner_free(struct runner **rp)
{
    struct runner *r = *rp;
    if (!r) return;
    if (r->run.nth > r->s->runs.order.done) session_drain(r->s);
    if (r->s->runs.last == r) r->s->runs.last = NULL;
    remote_free(r->s, r);
    actors_free(&r->actors);
    plan_free(&r->plan);
    arena_fini(&r->arena);
    free(r);
    *rp = NULL;
}

static void
bind_parts(void **address, const int32_t *first, int32_t i, const struct store *store)
{
    for (int pos = 0; pos < store->n; pos++) address[first[i] + pos] = store->part[pos] ? store->part[pos]->data : NULL;
}

/* Adds the purpose of the memory to an out-of-memory error: "zeros: f32{1024, 1024} S(0) on cpu[0, 1]: ...". */
static int
no_capacity(int status, const char *name, const struct type *t, const struct layout *l)
{
    struct str s = {0};
    type_print(t, &s);
    str_add(&s, " ");
    layout_print(l, &s);
    str_add(&s, " on ");
    place_print(l->place, &s);
    err_note("%s: %s", name, str_text(&s));
    str_free(&s);
    return status;
}

/* Allocates the buffers of root k. If the root joins the rows of all micro-batches, its dimension 0 is longer than
 * that of one micro-batch. */
static int
make_root(struct rille_session *s, struct runner *r, int32_t k)
{
    const struct program *g = r->plan->program;
    struct type t = ref_type(g, g->root[k].ref);
    if (g->root[k].join) t.dim[0] *= g->pieces;
    const struct ref *ref = &g->root[k].ref;
    int status = store_make_by(s, &t, ref_layout(g, *ref), r->plan->shared[k], buffer_new, &r->root[k]);
    return status && ref->kind == REF_NODE ? no_capacity(status, g->node[ref->index].name, &t, ref_layout(g, *ref))
                                           : status;
}

static void
drop_roots(struct runner *r, int32_t n)
{
    for (int32_t k = 0; k < n; k++) store_drop(&r->root[k]);
}

/* Allocates the arenas of this process's devices. */
static int
take_arenas(struct rille_session *s, struct runner *r)
{
    const struct plan *p = r->plan;
    for (int i = 0; i < p->ndevice; i++) {
        struct pool *pool;
        TRY(session_pool(s, p->device[i].kind, p->device[i].rank, &pool));
        int64_t arena = p->device[i].arena_bytes;
        int status = pool_arena(pool, (size_t)run_arena_bytes(p, i), &r->run.arena[i]);
        if (status) return plan_peak_blame(p, i, status);
        if (s->runs.poison && arena) TRY(device_kind(p->device[i].kind)->fill(r->run.arena[i], 0xff, (size_t)arena));
    }
    return 0;
}

/* Copies a shared buffer, so that the shard has a buffer of its own. Returns false if there is no memory. */
static bool
part_from(struct rille_session *s, struct store *store, const struct layout *l, int pos)
{
    struct buffer *own, *other = store->part[pos];
    struct pool *pool;
    if (session_pool(s, l->place->kind, l->place->rank[pos], &pool) || buffer_new(pool, other->bytes, &own))
        return false;
    memcpy(own->data, other->data, other->bytes);
    store->part[pos] = own;
    buffer_drop(&other);
    return true;
}

/* Prepares a leaf for the root that overwrites it: makes the replicas of the leaf share buffers, or stop sharing,
 * as the root requires. The bytes of the replicas are equal. Returns false if another tensor holds a buffer, if a
 * buffer is the memory of another library, or if memory runs out. */
static bool
lies_alone(struct rille_session *s, struct store *leaf, const struct layout *l, bool shared)
{
    bool alone = true;
    for (int pos = 0; pos < leaf->n && shared; pos++) store_share_first(leaf, l, pos);
    for (int pos = 0; pos < leaf->n; pos++) {
        struct buffer *b = leaf->part[pos];
        int32_t n = 0;
        if (!b) continue;
        for (int i = 0; i < leaf->n; i++) n += leaf->part[i] == b;
        alone = alone && b->nref == n && !buffer_is_wrapped(b);
    }
    for (int pos = 0; pos < leaf->n && alone && !shared; pos++) {
        int first = layout_origin(l, pos);
        if (first != pos && leaf->part[pos] && leaf->part[pos] == leaf->part[first]) alone = part_from(s, leaf, l, pos);
    }
    return alone;
}

static int
take_root(struct rille_session *s, struct runner *r, int32_t k)
{
    const struct program *g = r->plan->program;
    struct store *leaf = r->overwrites[k] ? r->leaf[g->root[k].overwrites_leaf] : NULL;
    r->root[k] = NULL;
    r->donate[k] = r->donate[k] && leaf && lies_alone(s, leaf, ref_layout(g, g->root[k].ref), r->plan->shared[k]);
    if (!r->donate[k]) return make_root(s, r, k);
    r->root[k] = leaf;
    store_hold(r->root[k]);
    return 0;
}

static void
bind_roots(struct runner *r)
{
    const struct plan *p = r->plan;
    for (int32_t k = 0; k < p->program->nroot; k++) bind_parts(r->run.root, p->root_first, k, r->root[k]);
    for (int32_t i = 0; i < p->program->nleaf; i++) bind_parts(r->run.leaf, p->leaf_first, i, r->leaf[i]);
}

int
runner_run(struct rille_session *s, struct runner *r, bool timed)
{
    const struct program *g = r->plan->program;
    actors_clear(r->actors); /* clears the state of the last run: if this run does not start, no update has begun */
    r->run.timed = timed;
    r->run.poison = s->runs.poison;
    TRY(open_run_before(s, r));
    if (s->cluster) {
        int status = remote_arenas(s, r);
        if (status) return status == E_MEMORY && r->plan->ndevice ? plan_peak_blame(r->plan, 0, status) : status;
    } else {
        TRY(take_arenas(s, r));
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        int status = take_root(s, r, k);
        if (!status) continue;
        drop_roots(r, k);
        return status;
    }
    if (!s->cluster) bind_roots(r);
    open_run_bound(s, r);
    s->runs.last = r;
    int status = s->cluster ? remote_run(s, r) : engine_run(s->engine, &r->run);
    open_run_after(s);
    if (status) drop_roots(r, g->nroot);
    totals_add(s, r, status);
    return status;
}

void
runner_overwrote(const struct runner *r, bool *root)
{
    const struct plan *p = r->plan;
    for (int32_t k = 0; r->remote && k < p->program->nroot; k++)
        root[k] = remote_begun(r, k) && r->overwrites[k] && r->donate[k];
    for (int32_t i = 0; !r->remote && i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        if (!t->updates || !actors_acted(r->actors, i)) continue;
        for (int k = 0; k < t->nout; k++) {
            if (t->out[k].where.kind != IN_ROOT) continue;
            int32_t at = p->root_part[t->out[k].where.index].index;
            root[at] = r->overwrites[at] && r->donate[at];
        }
    }
}

/* ---- describing the act in progress ---- */

static bool
doing_thread(const struct rille_session *s, int thread, char *text, size_t size)
{
    return s->cluster ? remote_doing(s, thread, text, size) : engine_doing_thread(s->engine, thread, text, size);
}

void
rille_doing(struct rille_session *s, char *text, size_t size)
{
    if (face_own(s, __func__) || face_given(text, "the text", __func__) || size == 0) return;
    for (int t = 0; doing_thread(s, t, text, size); t++)
        if (*text) return;
    *text = '\0';
    if (s->cluster ? cluster_is_running(s->cluster) : engine_is_running(s->engine)) strncat(text, "a run", size - 1);
}

bool
rille_doing_thread(struct rille_session *s, int thread, char *text, size_t size)
{
    if (face_own(s, __func__) || face_given(text, "the text", __func__) || size == 0 || thread < 0) return false;
    return doing_thread(s, thread, text, size);
}
