/* spare.c - what a snapshot keeps, once more on other hosts, so that losing one does not lose it.
 *
 * Each device has a neighbour: the device of the same turn in the next memory. A part of a value that no other host has
 * as well is moved to the neighbour of its device, by a program like any other, and back when its host is lost: parts,
 * not values, so that no bit of a partial sum changes. */
#include "actors/session/session.h"

#include "actors/cluster/controller.h"

#include <stdlib.h>

/* ---- parts that move ---- */

/* A part of a value as a tensor of its own on one device, which goes to another. */
struct part_move {
    struct type type;
    int kind;
    int32_t from, to;
    struct buffer *buffer; /* borrowed */
    struct store *store;   /* where it shall be held, and as which of its parts */
    int32_t pos;
};
struct part_moves {
    struct part_move *move;
    int32_t n, capacity;
};

static const struct layout *
on_device(struct rille_session *s, int kind, int32_t device)
{
    const struct place *p;
    static const int32_t one = 1;
    return place_new(s->atlas, kind, 1, &one, &device, &p) ? NULL : layout_broadcast(s->atlas, p);
}

/* Lazily; the handle is the caller's. */
static int
begin_move(struct rille_session *s, const struct part_move *m, struct rille_tensor **out)
{
    const struct layout *from = on_device(s, m->kind, m->from), *to = on_device(s, m->kind, m->to);
    struct store *store = store_new(1);
    struct val *v;
    bool on = s->grad_on;
    store->part[0] = m->buffer;
    buffer_hold(m->buffer);
    struct val *leaf = build_fresh(s, graph_leaf(s->graph, &m->type, from, store));
    s->grad_on = false;
    int status = build_to_global(s, leaf, to, &v);
    s->grad_on = on;
    if (!status) *out = tensor_new(s, v, false);
    return build_settle(s, status);
}

/* All in one run. */
static int
carry_out(struct rille_session *s, const struct part_moves *all)
{
    struct rille_tensor **t = must_alloc(sizeof(*t) * (size_t)(all->n + 1));
    struct val **v = must_alloc(sizeof(*v) * (size_t)(all->n + 1));
    int status = 0;
    for (int32_t i = 0; i < all->n && !status; i++) {
        status = begin_move(s, &all->move[i], &t[i]);
        if (!status) v[i] = t[i]->val;
    }
    if (!status && all->n) status = session_eval(s, all->n, v);
    for (int32_t i = 0; i < all->n; i++) {
        struct buffer *made = status ? NULL : v[i]->store->part[0];
        if (made) buffer_hold(made);
        if (made) all->move[i].store->part[all->move[i].pos] = made;
        rille_tensor_free(&t[i]);
    }
    free(t);
    free(v);
    return status;
}

static void
add_move(struct part_moves *all, const struct copy *c, struct buffer *b, int32_t from, int32_t to, struct store *store,
         int32_t pos)
{
    GROW(all->move, all->n + 1, all->capacity);
    all->move[all->n++] =
        (struct part_move){layout_shard(c->layout, &c->type, pos), c->layout->place->kind, from, to, b, store, pos};
}

/* ---- spares ---- */

static bool
is_lost(const struct store *store, int32_t pos)
{
    return store && store->part[pos] && buffer_is_lost(store->part[pos]);
}

bool
copy_is_lost(const struct copy *c)
{
    for (int32_t pos = 0; c->store && pos < c->store->n; pos++)
        if (is_lost(c->store, pos) || is_lost(c->spare, pos)) return true;
    return false;
}

void
copy_drop(struct copy *c)
{
    store_drop(&c->store);
    store_drop(&c->spare);
}

/* The device of the same turn in the next memory, or the last there. */
static int32_t
neighbour(const struct rille_session *s, int kind, int32_t device)
{
    int own = cluster_memory_of(s->cluster, kind, device), n = cluster_memories(s->cluster), turn = 0;
    int32_t found = -1;
    for (int32_t d = 0; d < device; d++) turn += cluster_memory_of(s->cluster, kind, d) == own;
    for (int k = 1; k < n && found < 0; k++)
        for (int32_t d = 0; d < s->ndevice[kind] && turn >= 0; d++) {
            if (cluster_memory_of(s->cluster, kind, d) != (own + k) % n) continue;
            found = d;
            turn--;
        }
    return found;
}

/* Another position with the same bytes: on another host, or (lost) that still has them; -1. */
static int32_t
replica(const struct rille_session *s, const struct copy *c, int32_t pos, bool lost)
{
    const struct place *p = c->layout->place;
    int own = cluster_memory_of(s->cluster, p->kind, p->rank[pos]), origin = layout_origin(c->layout, pos);
    for (int32_t i = 0; i < p->nrank; i++)
        if (i != pos && layout_origin(c->layout, i) == origin && !is_lost(c->store, i) &&
            (lost || cluster_memory_of(s->cluster, p->kind, p->rank[i]) != own))
            return i;
    return -1;
}

static void
add_spares(struct rille_session *s, struct part_moves *all, struct copy *c)
{
    const struct place *p = c->layout->place;
    c->spare = store_new(p->nrank);
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos];
        int32_t to = b && replica(s, c, pos, false) < 0 ? neighbour(s, p->kind, p->rank[pos]) : -1;
        if (to >= 0) add_move(all, c, b, p->rank[pos], to, c->spare, pos);
    }
}

int
copies_spare(struct rille_session *s, int32_t n, struct copy *const *c)
{
    struct part_moves all = {0};
    for (int32_t i = 0; i < n; i++) {
        store_drop(&c[i]->spare);
        if (c[i]->store) add_spares(s, &all, c[i]);
    }
    int status = carry_out(s, &all);
    free(all.move);
    return status;
}

/* ---- back ---- */

static int
add_lost(struct rille_session *s, struct part_moves *all, struct copy *c, struct store *whole)
{
    const struct place *p = c->layout->place;
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos];
        int32_t other = is_lost(c->store, pos) ? replica(s, c, pos, true) : -1;
        if (b && !is_lost(c->store, pos)) {
            whole->part[pos] = b;
            buffer_hold(b);
        } else if (b && other >= 0) {
            add_move(all, c, c->store->part[other], p->rank[other], p->rank[pos], whole, pos);
        } else if (b && c->spare && c->spare->part[pos] && !is_lost(c->spare, pos)) {
            add_move(all, c, c->spare->part[pos], neighbour(s, p->kind, p->rank[pos]), p->rank[pos], whole, pos);
        } else if (b) {
            return fail(E_LOST, "recover: the snapshot lay on hosts that are lost");
        }
    }
    return 0;
}

int
copies_mend(struct rille_session *s, int32_t n, struct copy *const *c)
{
    struct part_moves all = {0};
    struct store **whole = must_alloc(sizeof(*whole) * (size_t)(n + 1));
    int status = 0;
    for (int32_t i = 0; i < n && !status; i++) {
        if (!copy_is_lost(c[i])) continue;
        whole[i] = store_new(c[i]->store->n);
        status = add_lost(s, &all, c[i], whole[i]);
    }
    if (!status) status = carry_out(s, &all);
    for (int32_t i = 0; i < n; i++) {
        if (!whole[i]) continue;
        struct store *old = status ? whole[i] : c[i]->store;
        if (!status) c[i]->store = whole[i];
        store_drop(&old);
    }
    free(all.move);
    free(whole);
    return status;
}
