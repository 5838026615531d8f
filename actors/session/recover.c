/* recover.c - a consistent copy of all variables beside the training, and going back to it.
 *
 * A snapshot holds the bytes that variables and gradients have now, and the counters of random values. Holding is all
 * it costs at first: an update writes over a variable's bytes only where nobody else holds them, so the next one writes
 * elsewhere and the snapshot stays what it was. Bytes of the cluster's devices outlive the worker that wrote them
 * (segment.h), so that this copy is there whoever is lost; a version that nobody changed is held twice and lies there
 * once. Where there are several hosts a second copy is on others (spare.c), since a host takes its memory along. The
 * old snapshot stays until the new one is whole. */
#include "actors/session/session.h"

#include "actors/cluster/controller.h"
#include "actors/session/face.h"

#include <stdlib.h>

/* A variable as it was. */
enum { VALUE, GRADIENT, NCOPY };
struct kept {
    struct rille_tensor *t;  /* held */
    struct copy copy[NCOPY]; /* there may be no gradient */
};
struct snapshot {
    int32_t n;
    uint64_t seed, ordinal;
    struct kept kept[];
};

void
snapshot_free(struct snapshot **sp)
{
    struct snapshot *p = *sp;
    *sp = NULL;
    if (!p) return;
    for (int32_t i = 0; i < p->n; i++) {
        for (int c = 0; c < NCOPY; c++) copy_drop(&p->kept[i].copy[c]);
        rille_tensor_free(&p->kept[i].t);
    }
    free(p);
}

/* It has bytes, or will when it is computed: not on meta devices, not made inside a trace. */
static bool
has_bytes(const struct val *v)
{
    return v->layout->place->kind != DEV_META && (v->store || (v->node && !v->node->traced));
}

static bool
is_variable(const struct rille_tensor *t)
{
    return t->leaf && t->nref > 0 && has_bytes(t->val);
}

/* What is lazy yet gets its bytes, in one run. */
static int
compute(struct rille_session *s, int32_t count)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * count + 1));
    int n = 0;
    for (struct rille_tensor *t = s->tensors; t; t = t->next) {
        if (!is_variable(t)) continue;
        v[n++] = t->val;
        if (t->grad && has_bytes(t->grad->val)) v[n++] = t->grad->val;
    }
    int status = session_eval(s, n, v);
    free(v);
    return status;
}

static struct copy
copy_of(const struct val *v)
{
    if (v->store) store_hold(v->store);
    return (struct copy){v->type, v->layout, v->store, NULL};
}

static void
keep(struct rille_tensor *t, struct kept *k)
{
    *k = (struct kept){.t = rille_tensor_hold(t), .copy[VALUE] = copy_of(t->val)};
    if (t->grad) k->copy[GRADIENT] = copy_of(t->grad->val);
}

/* All that it keeps, for spare.c; the caller frees the list. */
static struct copy **
copies_of(struct snapshot *p)
{
    struct copy **list = must_alloc(sizeof(*list) * (size_t)(NCOPY * p->n + 1));
    for (int32_t i = 0; i < NCOPY * p->n; i++) list[i] = &p->kept[i / NCOPY].copy[i % NCOPY];
    return list;
}

/* On several hosts: a second place for all of it. */
static int
keep_spares(struct rille_session *s, struct snapshot *p)
{
    if (!s->cluster || cluster_memories(s->cluster) < 2) return 0;
    struct copy **list = copies_of(p);
    int status = copies_spare(s, NCOPY * p->n, list);
    free(list);
    return status;
}

int
rille_snapshot(struct rille_session *s)
{
    int32_t n = 0;
    TRY(face_session(s, __func__));
    TRY(trace_refuses(s, "snapshot"));
    TRY(rille_step(s)); /* updates that wait are part of what is kept */
    for (struct rille_tensor *t = s->tensors; t; t = t->next) n += is_variable(t);
    TRY(compute(s, n));
    struct snapshot *p = must_alloc(sizeof *p + sizeof *p->kept * (size_t)n);
    p->seed = s->seed;
    p->ordinal = s->ordinal;
    for (struct rille_tensor *t = s->tensors; t; t = t->next)
        if (is_variable(t)) keep(t, &p->kept[p->n++]);
    int status = keep_spares(s, p);
    if (status) {
        snapshot_free(&p);
        return status;
    }
    snapshot_free(&s->snapshot);
    s->snapshot = p;
    return 0;
}

bool
rille_has_snapshot(struct rille_session *s)
{
    return !face_session(s, __func__) && s->snapshot;
}

/* ---- back ---- */

/* What lay on a host that is lost comes from other hosts, and then has a second place again. */
static int
mend(struct rille_session *s, struct snapshot *p)
{
    struct copy **list = copies_of(p);
    bool lost = false;
    for (int32_t i = 0; i < NCOPY * p->n; i++) lost |= copy_is_lost(list[i]);
    int status = lost ? copies_mend(s, NCOPY * p->n, list) : 0;
    free(list);
    return status || !lost ? status : keep_spares(s, p);
}

static struct val *
value_of(struct rille_session *s, const struct copy *c)
{
    store_hold(c->store);
    return graph_leaf(s->graph, &c->type, c->layout, c->store);
}

static void
restore(struct rille_session *s, const struct kept *k)
{
    struct rille_tensor *t = k->t;
    const struct copy *value = &k->copy[VALUE], *grad = &k->copy[GRADIENT];
    if (t->val->store != value->store || t->val->half_written) tensor_rebind(t, value_of(s, value));
    rille_tensor_free(&t->grad);
    if (grad->store) t->grad = tensor_new(s, value_of(s, grad), true);
}

static void
restore_all(struct rille_session *s)
{
    struct snapshot *p = s->snapshot;
    for (int32_t i = 0; i < s->nupdate; i++) val_drop(s->graph, &s->update[i].before);
    s->nupdate = s->nwatch = 0;
    for (int32_t i = 0; i < p->n; i++) restore(s, &p->kept[i]);
    s->seed = p->seed;
    s->ordinal = p->ordinal;
}

int
rille_recover(struct rille_session *s, int workers)
{
    TRY(face_session(s, __func__));
    TRY(trace_refuses(s, "recover"));
    if (!s->snapshot) return fail(E_STATE, "recover: there is no snapshot to go back to; rille.snapshot() makes one");
    if (s->cluster) {
        struct cluster_loss l;
        if (cluster_lost(s->cluster, 0, &l) || workers) TRY(cluster_recover(s->cluster, workers));
    } else if (workers) {
        return fail(E_STATE, "recover: this is one process, which has no workers");
    }
    TRY(mend(s, s->snapshot));
    restore_all(s);
    return 0;
}
