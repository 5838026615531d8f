/* run.c - computes requested values: collects, finds the plan, binds leaves and roots, runs, and releases what
 * nobody needs any more.
 *
 * A variable's new version overwrites the old version if only this run reads the old version. */
#include "actors/plan/memory/peak.h"
#include "actors/session/core/session.h"

#include "actors/plan/sim/account.h"
#include "actors/plan/outline/shared_update.h"
#include "boxing/box.h"

#include <stdlib.h>
#include <string.h>

/* Makes the shard at this position share the buffer of the first position with the same shard. Returns false if this
 * is the first. */
static bool
share_first(struct store *s, const struct layout *l, int pos)
{
    int first = layout_origin(l, pos);
    if (first == pos) return false;
    if (s->part[pos] == s->part[first]) return true;
    if (s->part[pos]) buffer_retire(&s->part[pos]);
    s->part[pos] = s->part[first];
    if (s->part[pos]) buffer_hold(s->part[pos]);
    return true;
}

typedef int buffer_maker(struct pool *p, size_t bytes, struct buffer **out);

static int
make_store(struct rille_session *s, const struct type *t, const struct layout *l, bool shared, buffer_maker *make,
           struct store **out)
{
    const struct place *p = l->place;
    struct store *store = store_new(p->nrank);
    for (int pos = 0; pos < p->nrank; pos++) {
        if (shared && share_first(store, l, pos)) continue;
        struct type local = layout_shard(l, t, pos);
        int64_t bytes = type_bytes(&local);
        struct pool *pool;
        if (bytes == 0) continue;
        int status = session_pool(s, p->kind, p->rank[pos], &pool);
        if (!status) status = make(pool, (size_t)bytes, &store->part[pos]);
        if (!status) continue;
        store_drop(&store);
        return status;
    }
    *out = store;
    return 0;
}

int
store_make(struct rille_session *s, const struct type *t, const struct layout *l, struct store **out)
{
    return make_store(s, t, l, false, buffer_new_for_host, out);
}

/* ---- runners ---- */

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
    if (r->run.nth > r->s->work.done) session_drain(r->s);
    if (r->s->last == r) r->s->last = NULL;
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

/* Adds to an out-of-memory error what the memory was for: "zeros: f32{1024, 1024} S(0) on cpu[0, 1]: ...". */
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

/* Adds to an out-of-memory error the largest tenants of the arena, because an arena holds many values. */
static int
no_arena(int status, const struct plan *p, int32_t device)
{
    struct str s = {0};
    plan_peak_print(p, device, 3, &s);
    if (s.len)
        err_note("of the registers of %s:%d, when most are in use: %s", device_kind_text(p->device[device].kind),
                 (int)p->device[device].rank, str_text(&s));
    str_free(&s);
    return status;
}

/* Makes the buffers of root k. Joined micro-batches make dimension 0 longer. */
static int
make_root(struct rille_session *s, struct runner *r, int32_t k)
{
    const struct program *g = r->plan->program;
    struct type t = ref_type(g, g->root[k].ref);
    if (g->root[k].join) t.dim[0] *= g->pieces;
    const struct ref *ref = &g->root[k].ref;
    int status = make_store(s, &t, ref_layout(g, *ref), r->plan->shared[k], buffer_new, &r->root[k]);
    return status && ref->kind == REF_NODE ? no_capacity(status, g->node[ref->index].name, &t, ref_layout(g, *ref))
                                           : status;
}

static void
drop_roots(struct runner *r, int32_t n)
{
    for (int32_t k = 0; k < n; k++) store_drop(&r->root[k]);
}

/* Takes the arenas of this process's devices. */
static int
take_arenas(struct rille_session *s, struct runner *r)
{
    const struct plan *p = r->plan;
    for (int i = 0; i < p->ndevice; i++) {
        struct pool *pool;
        TRY(session_pool(s, p->device[i].kind, p->device[i].rank, &pool));
        int64_t arena = p->device[i].arena_bytes;
        int status = pool_arena(pool, (size_t)run_arena_bytes(p, i), &r->run.arena[i]);
        if (status) return no_arena(status, p, i);
        if (s->poison && arena) TRY(device_kind(p->device[i].kind)->fill(r->run.arena[i], 0xff, (size_t)arena));
    }
    return 0;
}

/* Gives a shard that shares a buffer its own buffer, with the same bytes. Returns false if there is no memory. */
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

/* Makes the replicas of a leaf share buffers, or not, like the root that takes the replicas over; their bytes are
 * equal. Returns false if another tensor holds a buffer, or there is no memory. */
static bool
lies_alone(struct rille_session *s, struct store *leaf, const struct layout *l, bool shared)
{
    bool alone = true;
    for (int pos = 0; pos < leaf->n && shared; pos++) share_first(leaf, l, pos);
    for (int pos = 0; pos < leaf->n; pos++) {
        struct buffer *b = leaf->part[pos];
        int32_t n = 0;
        if (!b || b->nref == 1) continue;
        for (int i = 0; i < leaf->n; i++) n += leaf->part[i] == b;
        alone = alone && b->nref == n;
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
    actors_clear(r->actors); /* if the run does not begin, no update has begun */
    r->run.timed = timed;
    r->run.poison = s->poison;
    TRY(open_run_before(s, r));
    if (s->cluster) {
        int status = remote_arenas(s, r);
        if (status) return status == E_MEMORY && r->plan->ndevice ? no_arena(status, r->plan, 0) : status;
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
    s->last = r;
    int status = s->cluster ? remote_run(s, r) : engine_run(s->engine, &r->run);
    open_run_after(s);
    if (status) drop_roots(r, g->nroot);
    return status;
}

/* ---- numbers ---- */

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
        i += (int64_t)s->ordinal; /* n->i: index of the call in the trace */
    } else if (n->kind == NUM_SEED) {
        i = (int64_t)s->seed;
    }
    if (n->is_int)
        memcpy(out, &i, sizeof i);
    else
        memcpy(out, &f, sizeof f);
}

/* ---- one evaluation ---- */

/* Returns true if the run may overwrite the leaf: only nodes of this run still need the bytes, and nothing else
 * holds the store. */
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
    for (int32_t i = 0; i < c->nnumber; i++) { /* uncomputed calls of a trace may read live numbers */
        struct rille_live *live = c->number[i]->number.kind == NUM_LIVE ? c->number[i]->number.live : NULL;
        if (live && live->fn(live->arg, &live->value)) return fail(E_VALUE, "a live number's function failed");
        number_bind(s, &c->number[i]->number, &r->run.number[i]);
    }
    for (int32_t k = 0; k < c->nroot; k++)
        r->donate[k] = r->overwrites[k] && may_donate(c, c->leaf[g->root[k].overwrites_leaf]);
    return 0;
}

/* Returns true if the bytes are needed after the run: by handles or readers of the value, or by the gradient of its
 * node. */
static bool
is_value_kept(const struct val *v)
{
    return v->keep > 0 || (v->node && node_has_gradient(v->node) && node_saves_out(v->node, v->out));
}

/* Lets replicas that a run wrote separately share one buffer, because their bytes are equal. */
static void
join_replicas(const struct program *g, struct store *s, const struct val *v)
{
    if (!s || !g->shared_least || !shared_update_in_place(v->layout, &v->type, g->shared_least)) return;
    for (int pos = 0; pos < s->n; pos++) share_first(s, v->layout, pos);
}

/* Moves bytes of roots from the runner to the values; overwritten leaves lose the bytes. */
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

/* ---- pending readers of replaced values ---- */

static bool
was_computed(const struct node *n)
{
    bool was = n->state != NODE_NEW;
    for (int k = 0; k < n->nout; k++) was = was || (n->out[k] && n->out[k]->keep_next);
    return was;
}

/* Returns true if pending v reads a value that is being replaced. *doubtful: v checks data, which may be invalid.
 * Results that were computed once are skipped: the garbage collector has not yet freed their handles, and nothing
 * should be computed twice for those. */
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

/* Computes values. A value that cannot be computed stays pending, and its reader gets the error. */
static int
try_eval(struct rille_session *s, int n, struct val *const *v)
{
    int status = session_eval(s, n, v);
    return status == E_CANCEL || status == E_LOST ? status : 0;
}

/* Computes all pending readers, one by one if a reader checks data. */
static int
compute_waiting(struct rille_session *s)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * s->ntensor + 1)), **one = v + s->ntensor;
    int n = 0, none = 0;
    for (struct rille_tensor *t = s->tensors; t; t = t->next) {
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

/* ---- reading ---- */

/* Copies or adds the overlap of shard box `from`, stored at `data`, and box `to`, stored densely at `out`. t: type
 * with the dtype that ranks hold. */
static void
read_overlap(const struct type *t, const struct box *from, void *data, const struct box *to, void *out, enum reduce r,
             bool first)
{
    struct type local = *t, wanted = *t;
    struct view src, dst;
    int64_t bytes = (int64_t)dtype_bytes(t->dtype), skip_src = 0, skip_dst = 0;
    for (int i = 0; i < t->ndim; i++) {
        local.dim[i] = from->hi[i] - from->lo[i];
        wanted.dim[i] = to->hi[i] - to->lo[i];
    }
    src = view_dense(&local, data);
    dst = view_dense(&wanted, out);
    for (int i = 0; i < t->ndim; i++) {
        int64_t lo = MAX(from->lo[i], to->lo[i]), hi = MIN(from->hi[i], to->hi[i]);
        if (hi <= lo) return;
        src.dim[i] = dst.dim[i] = hi - lo;
        skip_src += (lo - from->lo[i]) * src.stride[i];
        skip_dst += (lo - to->lo[i]) * dst.stride[i];
    }
    src.data = (char *)src.data + skip_src * bytes;
    dst.data = (char *)dst.data + skip_dst * bytes;
    box_combine(r, first, &dst, &src);
}

/* Reads all shards and combines them in the dtype that ranks hold. */
static int
read_held(struct val *v, const struct type *held, const struct box *part, void *out)
{
    const struct layout *l = v->layout;
    enum reduce reduce = layout_partial(l);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        if (layout_origin(l, pos) != pos || !v->store->part[pos]) continue;
        bool first = !layout_is_later_part(l, pos);
        struct box box;
        layout_box(l, &v->type, pos, &box);
        void *copy, *data;
        int status = buffer_on_host(v->store->part[pos], &data, &copy);
        if (!status) read_overlap(held, &box, data, part, out, first ? RED_NONE : reduce, first);
        free(copy);
        TRY(status);
    }
    return 0;
}

int
session_read(struct rille_session *s, struct val *v, const struct box *part, void *out)
{
    UNUSED(s);
    const struct layout *l = v->layout;
    struct type held = v->type, whole = v->type;
    if (device_kind(l->place->kind)->flags & NO_BYTES)
        return fail(E_PLACE, "a tensor on meta devices has a layout and no values: it cannot be read");
    held.dtype = (uint8_t)layout_dtype(l, (enum dtype)held.dtype);
    if (held.dtype == whole.dtype) return read_held(v, &held, part, out);
    for (int d = 0; d < held.ndim; d++) held.dim[d] = whole.dim[d] = part->hi[d] - part->lo[d];
    void *sum = must_alloc((size_t)type_bytes(&held) + 1);
    int status = read_held(v, &held, part, sum);
    struct view dst = view_dense(&whole, out), src = view_dense(&held, sum);
    if (!status) view_copy(&dst, &src);
    free(sum);
    return status;
}
